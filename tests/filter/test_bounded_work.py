"""A filter from a stranger costs a bounded amount of work (R2, S4)."""

import pytest

from roamcast.model.filter.cover import covers
from roamcast.model.filter.tree import And, Attribute, Filter, Inside, Like
from roamcast.model.region import Circle
from roamcast.model.space import Plane
from roamcast.model.values import Point

P = Attribute("position")


def lens_of(circles: int) -> Filter:
    """Many circles whose common part is small: none of them alone is covered."""
    around = [Inside(P, Circle(Point(float(index % 20), float(index % 7)), 100.0)) for index in range(circles)]
    return Filter(And(tuple(around)))


def test_a_few_circles_are_reasoned_about_together_r2() -> None:
    left, right = Inside(P, Circle(Point(0.0, 0.0), 100.0)), Inside(P, Circle(Point(80.0, 0.0), 100.0))
    around_their_lens = Filter(Inside(P, Circle(Point(40.0, 0.0), 95.0)))
    assert covers(around_their_lens, Filter(And((left, right))), Plane())
    assert not covers(around_their_lens, Filter(left), Plane())


def test_of_very_many_circles_nothing_is_claimed_r2() -> None:
    """The exact answer would take hours for so many; saying no is always sound."""
    assert not covers(Filter(Inside(P, Circle(Point(10.0, 3.0), 99.0))), lens_of(400), Plane())


def test_a_pattern_is_short_s4() -> None:
    assert Like(P, "x" * 256)
    with pytest.raises(ValueError, match="at most 256"):
        Like(P, "x" * 257)
