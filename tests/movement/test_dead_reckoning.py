"""L4: what is not told is what the broker knows by itself, as exactly as was asked for."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.context import Context
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.values import BadValue, Point
from roamcast.movement.dead_reckoning import DeadReckoning
from roamcast.movement.fix import Fix, heading_of
from tests.effort import examples

SECOND_US = 1_000_000
LEGS = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 30), st.integers(0, 359)), min_size=1, max_size=6)
"""So many seconds at such a speed into such a direction."""


def drive(legs: list[tuple[int, int, int]], space: Space) -> list[Fix]:
    """A fix a second of somebody who turns at once."""
    fixes, here, at_us = list[Fix](), Point(0.0, 0.0), 0
    for seconds, speed_mps, heading_deg in legs:
        heading = math.radians(heading_deg)
        for _ in range(seconds):
            fixes.append(Fix(at_us, (here.x, here.y), float(speed_mps), float(heading_deg)))
            here = space.moved(here, speed_mps * math.sin(heading), speed_mps * math.cos(heading))
            at_us += SECOND_US
    return fixes


@given(legs=LEGS, tolerance_m=st.sampled_from((0.5, 5.0, 50.0)), space=st.sampled_from((Plane(), Earth())))
@examples(150)
def test_l4_a_broker_that_carries_reports_forward_is_never_wrong_by_more_than_the_tolerance(
    legs: list[tuple[int, int, int]], tolerance_m: float, space: Space
) -> None:
    reckoning, known = DeadReckoning(space, tolerance_m), Context("me")
    fixes = drive(legs, space)
    for fix in fixes:
        if reckoning.is_news(fix):
            known = Context("me", fix.point, fix.at_us, fix.velocity)
            reckoning.told(fix)
        for later_us in (0, SECOND_US // 2, SECOND_US - 1):
            there = known.position_at(fix.at_us + later_us, space)
            here = Context("me", fix.point, fix.at_us, fix.velocity).position_at(fix.at_us + later_us, space)
            assert there is not None
            assert here is not None
            assert space.distance_m(here, there) <= tolerance_m + 1e-3


def reports(fixes: list[Fix], reckoning: DeadReckoning) -> list[int]:
    """At which seconds it is told."""
    told = []
    for fix in fixes:
        if reckoning.is_news(fix):
            reckoning.told(fix)
            told.append(fix.at_us // SECOND_US)
    return told


def test_l4_who_goes_straight_is_told_at_the_turns_and_after_a_while() -> None:
    fixes = drive([(20, 10, 0), (20, 10, 90)], Plane())
    assert reports(fixes, DeadReckoning(Plane(), 1.0, 8.0)) == [0, 8, 16, 20, 28, 36]


def test_l4_who_stands_still_is_told_once() -> None:
    assert reports(drive([(300, 0, 0)], Plane()), DeadReckoning(Plane(), 1.0, 8.0)) == [0]


def test_l4_without_tolerance_every_fix_that_is_not_where_it_was_expected_is_told() -> None:
    fixes = [Fix(second * SECOND_US, (second * 0.01, 0.0)) for second in range(5)]
    assert reports(fixes, DeadReckoning(Plane(), 0.0)) == [0, 1, 2, 3, 4]
    assert reports(fixes, DeadReckoning(Plane(), 1.0)) == [0]


def test_l4_a_report_that_came_late_is_told_again() -> None:
    reckoning = DeadReckoning(Plane(), 1.0)
    first, second = drive([(2, 10, heading) for heading in (round(heading_of(1, 0)),)], Plane())
    assert reckoning.is_news(first)
    reckoning.told(first, took_s=0.5)
    assert reckoning.is_news(second)
    reckoning.told(first, took_s=0.05)
    assert not reckoning.is_news(second)


def test_l4_after_the_position_was_lost_the_next_fix_is_told() -> None:
    reckoning = DeadReckoning(Plane())
    first, second = drive([(2, 10, 0)], Plane())
    assert reckoning.is_news(first)
    reckoning.told(first)
    reckoning.told(None)
    assert reckoning.is_news(second)


@pytest.mark.parametrize(("tolerance_m", "report_s"), [(-1.0, 1.0), (math.nan, 1.0), (1.0, 0.0), (1.0, math.nan)])
def test_l4_what_is_no_tolerance_and_no_time_is_refused(tolerance_m: float, report_s: float) -> None:
    with pytest.raises(BadValue, match="give"):
        DeadReckoning(Plane(), tolerance_m, report_s)
