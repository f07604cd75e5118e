"""`covers` never says yes wrongly, and says yes whenever intervals, lists and circles allow it (R2)."""

import math
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roamcast.model.filter.cover import covers
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import (
    EVERYTHING,
    FALSE,
    UNKNOWN,
    And,
    AtMyLoc,
    Attribute,
    Closing,
    Compare,
    Filter,
    Inside,
    IsNull,
    Like,
    Literal,
    Mine,
    Near,
    Neighbours,
    Not,
    OneOf,
    Or,
    Predicate,
    Term,
    atoms,
)
from roamcast.model.region import Box, Circle, Polygon, Shape
from roamcast.model.space import Space
from roamcast.model.values import Instant, Point, Value
from tests.effort import examples
from tests.filter.conjunctions import (
    CIRCLES,
    EARTH,
    PLANE,
    SCENES,
    accepted,
    around,
    counterexamples,
    narrowings,
    places_of_interest,
    position_pairs,
    position_scenes,
    scalar_pairs,
    value_conjunctions,
)

X, Y, P = Attribute("x"), Attribute("y"), Attribute("p")


def compare(operator: str, value: Value, term: Term = X) -> Predicate:
    return Compare(operator, term, Literal(value))  # type: ignore[arg-type]


def both(*parts: Predicate) -> Predicate:
    return And(parts)


def inside(shape: Shape, boundary: bool = True) -> Predicate:
    return Inside(P, shape, boundary)


def circle(x: float, y: float, radius_m: float) -> Circle:
    return Circle(Point(x, y), radius_m)


SQUARE = Box(Point(0, 0), Point(4, 4))
DIAMOND = Polygon((Point(0, -4), Point(4, 0), Point(0, 4), Point(-4, 0)))
STAR = Polygon(tuple(around(Point(0, 0), 4, 4 * math.pi * step / 5) for step in range(5)))

YES: list[tuple[Predicate, Predicate]] = [
    (compare(">", 3), compare(">=", 4)),
    (compare(">=", 3), compare(">", 3)),
    (compare(">", 3), both(compare(">=", 3), compare("<>", 3))),
    (compare("<>", 3), compare(">", 3)),
    (compare("=", 3), both(compare(">=", 3), compare("<=", 3))),
    (compare("=", True), compare("<>", False)),
    (compare(">=", Instant(6)), compare(">", Instant(5))),
    (
        OneOf(X, (Instant(5), Instant(7))),
        both(compare(">", Instant(4)), compare("<", Instant(8)), compare("<>", Instant(6))),
    ),
    (compare(">=", "a\0"), compare(">", "a")),
    (OneOf(X, (1, 2, 3)), OneOf(X, (1, 3))),
    (compare("<", 5), OneOf(X, (1, 3))),
    (Not(OneOf(X, (1, 2))), OneOf(X, (3, 4))),
    (Not(OneOf(X, (1, 2))), Not(OneOf(X, (1, 2, 3)))),
    (Not(IsNull(X)), compare("<>", 3)),
    (IsNull(X), IsNull(X)),
    (compare("=", "anything"), both(IsNull(X), compare("=", 1))),
    (Like(X, "a%"), Like(X, "ab%")),
    (Like(X, "a%"), compare("=", "abc")),
    (Like(X, "a%"), both(compare(">=", "ab"), compare("<", "ac"))),
    (both(compare(">=", "ab"), compare("<", "ac")), Like(X, "ab_%")),
    (Like(X, "%b%"), Like(X, "ab_%")),
    (Like(X, "%"), compare("<>", "a")),
    (Not(Like(X, "ab%")), Not(Like(X, "a%"))),
    (Not(Like(X, "ab%")), compare(">", "b")),
    (compare("<>", "b"), Like(X, "a%")),
    (Compare("<=", X, Mine("budget")), Compare("<", X, Mine("budget"))),
    (Compare("<=", X, Mine("budget")), Compare(">", Mine("budget"), X)),
    (Compare("=", X, Y), both(Compare("<=", X, Y), Compare(">=", X, Y))),
    (Compare("<=", X, Y), both(Compare("=", X, Y), compare(">", 3))),
    (Compare("=", X, X), compare("=", 1)),
    (compare(">", 1, Neighbours("count")), compare(">", 2, Neighbours("count"))),
    (Near(P, 300), Near(P, 200)),
    (Not(Near(P, 200)), Not(Near(P, 300))),
    (AtMyLoc(X, 2), AtMyLoc(X, 1)),
    (Closing(P, "approaching"), both(Closing(P, "approaching"), compare("=", 1))),
    (inside(circle(0, 0, 5)), inside(circle(1, 0, 3))),
    (inside(circle(0, 0, 5)), inside(circle(0, 0, 5), False)),
    (inside(circle(0, 0, 5), False), inside(circle(0, 0, 4.5))),
    (inside(circle(0, 0, 5)), compare("=", Point(3, 4), P)),
    (compare("<>", Point(9, 9), P), inside(circle(0, 0, 5))),
    (inside(circle(0, 0, 2)), both(inside(circle(-3, 0, 3.5)), inside(circle(3, 0, 3.5)))),
    (compare("=", 1), both(inside(circle(-3, 0, 1)), inside(circle(3, 0, 1)))),
    (compare("=", 1), both(inside(circle(0, 0, 1.05)), inside(circle(2, 0, 1.05)), inside(circle(1, 1.7, 1.05)))),
    (Not(inside(circle(0, 0, 2))), inside(circle(5, 0, 2))),
    (Not(inside(circle(0, 0, 2))), Not(inside(circle(0, 1, 5)))),
    (inside(SQUARE), inside(Box(Point(0, 1), Point(4, 2)))),
    (inside(SQUARE, False), inside(SQUARE, False)),
    (inside(SQUARE), both(inside(Box(Point(0, 0), Point(9, 4))), inside(Box(Point(-9, 0), Point(4, 9))))),
    (inside(Box(Point(170, 0), Point(-170, 9))), inside(Box(Point(175, 1), Point(-175, 8)))),
    (inside(SQUARE), inside(circle(2, 2, 1.5))),
    (inside(circle(2, 2, 3)), inside(SQUARE)),
    (inside(circle(0, 0, 4.5)), inside(STAR)),
    (inside(DIAMOND), inside(circle(0, 0, 2.5))),
    (inside(DIAMOND), inside(Box(Point(-1, -1), Point(1, 1)))),
    (Or((compare("=", 1), compare(">", 5))), Or((compare(">", 6), compare("=", 1)))),
    (both(), FALSE),
    (compare("=", 1), UNKNOWN),
]

NO: list[tuple[Predicate, Predicate]] = [
    (compare(">", 3), compare(">=", 3)),
    (compare("<>", "a"), compare(">", 3)),
    (compare("<>", 3), IsNull(X)),
    (compare("=", 1), compare("=", True)),
    (OneOf(X, (0, 1)), OneOf(X, (False, True))),
    (compare("<>", 3), EVERYTHING.root),
    (Not(IsNull(X)), compare("=", 1, Y)),
    (Compare("<=", X, Y), Compare("=", X, Y)),
    (Compare("<", X, Mine("budget")), Compare("<=", X, Mine("budget"))),
    (Like(X, "ab%"), Like(X, "a%")),
    (Like(X, "a_"), Like(X, "a%")),
    (Like(X, "%"), compare("=", 1)),
    (Near(P, 200), Near(P, 300)),
    (Near(P, 200), Near(Attribute("q"), 200)),
    (inside(circle(0, 0, 5), False), inside(circle(0, 0, 5))),
    (inside(circle(0, 0, 5)), inside(circle(1, 0, 4.5))),
    (inside(SQUARE, False), inside(SQUARE)),
    (inside(STAR), inside(circle(0, 0, 0.5))),
    (inside(DIAMOND), inside(SQUARE)),
    (AtMyLoc(X, 1), AtMyLoc(X, 2)),
]


@pytest.mark.parametrize(("a", "b"), YES, ids=str)
def test_covers_says_yes_r2(a: Predicate, b: Predicate) -> None:
    assert covers(Filter(a), Filter(b), PLANE)


@pytest.mark.parametrize(("a", "b"), NO, ids=str)
def test_covers_says_no_r2(a: Predicate, b: Predicate) -> None:
    assert not covers(Filter(a), Filter(b), PLANE)


@examples(150)
@given(scalar_pairs())
def test_covers_is_sound_for_any_filters_over_values_r2(pair: tuple[Filter, Filter]) -> None:
    a, b = pair
    if covers(a, b, PLANE):
        assert not counterexamples(a, b, SCENES)


@examples(150)
@given(position_pairs(), st.sampled_from((PLANE, EARTH)))
def test_covers_is_sound_for_any_filters_over_positions_r2(pair: tuple[Filter, Filter], space: Space) -> None:
    a, b = pair
    if covers(a, b, space):
        shapes = [atom.shape for part in (a.root, b.root) for atom in atoms(part) if isinstance(atom, Inside)]
        assert not counterexamples(a, b, position_scenes(shapes), space)


@examples(150)
@given(narrowings(), narrowings())
def test_covers_is_exact_for_intervals_and_lists_of_one_kind_r2(a: Filter, b: Filter) -> None:
    assert covers(a, b, PLANE) == (not counterexamples(a, b, SCENES))


@examples(150)
@given(value_conjunctions(), value_conjunctions())
def test_covers_is_exact_for_conjunctions_over_two_terms_r2(a: Filter, b: Filter) -> None:
    assert covers(a, b, PLANE) == (not counterexamples(a, b, SCENES))


@examples(150)
@given(CIRCLES, st.lists(CIRCLES, min_size=1, max_size=3))
@example(circle(0, 0, 1), [circle(0, 0, 2), circle(1, 1, 3)])
def test_covers_is_exact_for_circles_but_for_those_that_touch_r2(outer: Circle, inner: list[Circle]) -> None:
    found = covers(Filter(inside(outer)), Filter(both(*map(inside, inner))), PLANE)
    reached_m = [
        PLANE.distance_m(outer.centre, point)
        for point in edge_points(inner)
        if all(PLANE.distance_m(each.centre, point) <= each.radius_m + 0.02 for each in inner)
    ]
    slack_m = outer.radius_m - max(reached_m, default=-math.inf)
    if slack_m > 1e-6:
        assert found
    certain_m = [
        PLANE.distance_m(outer.centre, point)
        for point in edge_points(inner)
        if all(PLANE.distance_m(each.centre, point) <= each.radius_m + 1e-9 for each in inner)
    ]
    if max(certain_m, default=-math.inf) > outer.radius_m + 1e-6:
        assert not found


@examples(200)
@given(
    st.floats(-1e6, 1e6),
    st.floats(0.1, 1e4),
    st.floats(0.1, 1e4),
    st.floats(0, 6.28),
    st.floats(-17, -7).map(lambda exponent: 10**exponent),
)
def test_rounding_never_makes_covers_wrong_for_circles_that_nearly_touch_r2(
    far: float, apart_m: float, radius_m: float, angle: float, share: float
) -> None:
    here = Point(far, -far)
    narrow = Circle(around(here, apart_m, angle), radius_m)
    reach_m = PLANE.distance_m(here, narrow.centre) + radius_m
    wide = Circle(here, reach_m * (1 + share))
    touching = around(here, reach_m, angle)
    beside = [math.nextafter(touching.x, side) for side in (-math.inf, math.inf)]
    above = [math.nextafter(touching.y, side) for side in (-math.inf, math.inf)]
    scenes = [Scene({"p": Point(x, y)}.get) for x in (touching.x, *beside) for y in (touching.y, *above)]
    for boundary in (True, False):
        a, b = Filter(inside(wide, boundary)), Filter(inside(narrow))
        if covers(a, b, PLANE):
            assert not counterexamples(a, b, scenes)


def edge_points(circles: list[Circle]) -> list[Point]:
    return [around(each.centre, each.radius_m, step * math.tau / 720) for each in circles for step in range(720)]


@examples(100)
@given(st.floats(-85, 85), st.floats(-180, 180), st.floats(0, 5_000), st.floats(0, 6.28), st.floats(10, 5_000))
def test_covers_on_earth_is_nearly_exact_for_circles_r2(
    latitude: float, longitude: float, apart_m: float, angle: float, radius_m: float
) -> None:
    here = Point(longitude, latitude)
    there = EARTH.moved(here, apart_m * math.cos(angle), apart_m * math.sin(angle))
    needed_m = EARTH.distance_m(here, there) + radius_m
    narrow = Filter(inside(Circle(there, radius_m)))
    assert covers(Filter(inside(Circle(here, needed_m * 1.0001))), narrow, EARTH)
    assert apart_m < 1 or not covers(Filter(inside(Circle(here, needed_m * 0.999 - 0.01))), narrow, EARTH)


def test_filters_with_too_many_cases_are_compared_by_their_looks_r2() -> None:
    many = tuple(Or((compare("=", index), compare("=", index, Y))) for index in range(8))
    b = Filter(And((*many, compare(">", 3, P))))
    assert covers(Filter(And(many)), b, PLANE)
    assert covers(EVERYTHING, b, PLANE)
    assert covers(Filter(Or((b.root, compare("=", 99)))), b, PLANE)
    assert not covers(b, Filter(And(many)), PLANE)


def blind_to_kinds(a: Filter, b: Filter) -> bool:
    """A wrong `covers`: `x <> v` says nothing about the kind of x, it thinks."""
    return covers(a, b, PLANE) or all(isinstance(atom, Compare) and atom.operator == "<>" for atom in atoms(a.root))


def blind_to_ends(a: Filter, b: Filter) -> bool:
    """A wrong `covers`: it takes `<` for `<=`."""
    opened = {"<": "<=", ">": ">="}
    wider = [
        Compare(opened.get(atom.operator, atom.operator), atom.left, atom.right)  # type: ignore[arg-type]
        for atom in atoms(a.root)
        if isinstance(atom, Compare)
    ]
    return covers(Filter(And(tuple(wider))), b, PLANE)


@pytest.mark.parametrize(
    ("wrong", "a", "b"),
    [
        (lambda _a, _b: True, compare("=", 1, Attribute("a")), compare("=", 2, Attribute("a"))),
        (blind_to_kinds, compare("<>", "a", Attribute("a")), compare(">", 1, Attribute("a"))),
        (blind_to_kinds, compare("<>", 1, Attribute("a")), IsNull(Attribute("a"))),
        (blind_to_ends, compare("<", 1, Attribute("a")), compare("<=", 1, Attribute("a"))),
    ],
)
def test_the_soundness_check_catches_a_wrong_covers_r2(
    wrong: Callable[[Filter, Filter], bool], a: Predicate, b: Predicate
) -> None:
    assert wrong(Filter(a), Filter(b))
    assert counterexamples(Filter(a), Filter(b), SCENES)


def test_the_soundness_check_catches_circles_that_stick_out_r2() -> None:
    wide, narrow = circle(0, 0, 3), circle(1, 0, 2.5)
    a, b = Filter(Inside(Attribute("where"), wide)), Filter(Inside(Attribute("where"), narrow))
    assert counterexamples(a, b, position_scenes([wide, narrow]))


def test_scenes_for_positions_hold_boundary_points_r2() -> None:
    shape = circle(0, 0, 2)
    scenes = [Scene({"where": point}.get) for point in places_of_interest([shape])]
    closed = accepted(Filter(Inside(Attribute("where"), shape)), scenes)
    opened = accepted(Filter(Inside(Attribute("where"), shape, False)), scenes)
    assert sum(closed) > sum(opened) > 0
    assert all(one or not other for one, other in zip(closed, opened, strict=True))
