"""A merger covers both filters, and where it says exact it accepts nothing more (R2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.filter.cover import covers
from roamcast.model.filter.merged import MERGED_CASES_MAX, Merged, merge
from roamcast.model.filter.tree import (
    EVERYTHING,
    And,
    Attribute,
    Compare,
    Filter,
    Inside,
    IsNull,
    Like,
    Literal,
    Near,
    Not,
    OneOf,
    Or,
    Predicate,
    Term,
    atoms,
)
from roamcast.model.region import Circle
from roamcast.model.values import Instant, Point, Value
from tests.effort import examples
from tests.filter.conjunctions import (
    PLANE,
    SCENES,
    accepted,
    narrowings,
    position_pairs,
    position_scenes,
    scalar_pairs,
)

X, Y, P = Attribute("x"), Attribute("y"), Attribute("p")
CASES = st.sampled_from((1, 2, MERGED_CASES_MAX))


def compare(operator: str, value: Value, term: Term = X) -> Predicate:
    return Compare(operator, term, Literal(value))  # type: ignore[arg-type]


def both(*parts: Predicate) -> Predicate:
    return And(parts)


def between(low: float, high: float) -> Predicate:
    return both(compare(">", low), compare("<", high))


BUS, TRAM = compare("=", "bus", Y), compare("=", "tram", Y)
EITHER = OneOf(Y, ("bus", "tram"))

EXACT: list[tuple[Predicate, Predicate, Predicate]] = [
    (compare(">", 3), compare(">", 5), compare(">", 3)),
    (compare("=", 1), compare("=", 2), OneOf(X, (1, 2))),
    (compare("<", 3), compare("=", 3), compare("<=", 3)),
    (between(3, 5), compare(">=", 5), compare(">", 3)),
    (between(3, 5), both(compare(">=", 5), compare("<", 9)), between(3, 9)),
    (both(compare(">", 3), compare("<>", 6)), between(2, 4), both(compare(">", 2), compare("<>", 6))),
    (compare(">=", Instant(5)), compare("=", Instant(4)), compare(">=", Instant(4))),
    (both(BUS, compare("=", 1)), both(compare("=", 2), BUS), both(BUS, OneOf(X, (1, 2)))),
    (both(compare("=", 1), BUS), both(compare("=", 1), TRAM), both(compare("=", 1), OneOf(Y, ("bus", "tram")))),
    (both(compare("=", 1), BUS), TRAM, Or((both(compare("=", 1), BUS), TRAM))),
    (compare("=", 1), compare("=", True), Or((compare("=", 1), compare("=", True)))),
    (compare("<", 3), compare(">=", 3), Or((compare("<", 3), compare(">=", 3)))),
    (Near(P, 200), Near(P, 300), Near(P, 300)),
]

HULLS: list[tuple[Predicate, Predicate, Predicate]] = [
    (between(1, 2), both(compare(">=", 5), compare("<", 6)), between(1, 6)),
    (OneOf(X, (1, 2)), compare(">", 5), compare(">=", 1)),
    (both(OneOf(X, (1, 2)), BUS), both(OneOf(X, (3, 4)), TRAM), both(OneOf(X, (1, 2, 3, 4)), EITHER)),
    (both(compare("=", 1), BUS), both(compare("=", "a"), BUS), both(BUS, Not(IsNull(X)))),
    (both(Like(X, "ab%"), BUS), both(Like(X, "a%"), TRAM), both(EITHER, Like(X, "a%"))),
    (
        both(Inside(P, Circle(Point(0, 0), 5)), BUS),
        both(Inside(P, Circle(Point(1, 0), 3)), TRAM),
        both(EITHER, Inside(P, Circle(Point(0, 0), 5))),
    ),
    (compare("=", 1), compare("=", 1, Y), EVERYTHING.root),
]


@pytest.mark.parametrize(("a", "b", "wanted"), EXACT, ids=str)
def test_exact_mergers_r2(a: Predicate, b: Predicate, wanted: Predicate) -> None:
    assert merge(Filter(a), Filter(b), PLANE) == Merged(Filter(wanted), True)


@pytest.mark.parametrize(("a", "b", "wanted"), HULLS, ids=str)
def test_hulls_keep_what_both_imply_r2(a: Predicate, b: Predicate, wanted: Predicate) -> None:
    found = merge(Filter(a), Filter(b), PLANE, cases_max=1)
    assert not found.exact
    assert covers(found.filter, Filter(wanted), PLANE)
    assert covers(Filter(wanted), found.filter, PLANE)


def check(a: Filter, b: Filter, merged: Merged, by_a: list[bool], by_b: list[bool], by_merged: list[bool]) -> None:
    wanted = [one or other for one, other in zip(by_a, by_b, strict=True)]
    missed = [want and not got for want, got in zip(wanted, by_merged, strict=True)]
    assert not any(missed), f"{merged.filter} misses what {a} or {b} accepts"
    if merged.exact:
        # Not as lists: of those that differ pytest shows every line, and takes a minute for it.
        more = [got and not want for want, got in zip(wanted, by_merged, strict=True)]
        assert not any(more), f"{merged.filter} is not exactly {a} or {b}"


@examples(150)
@given(scalar_pairs(), CASES)
def test_a_merger_of_filters_over_values_misses_nothing_r2(pair: tuple[Filter, Filter], cases_max: int) -> None:
    a, b = pair
    merged = merge(a, b, PLANE, cases_max)
    check(a, b, merged, accepted(a, SCENES), accepted(b, SCENES), accepted(merged.filter, SCENES))


@examples(150)
@given(narrowings(), narrowings(), CASES)
def test_a_merger_of_intervals_and_lists_misses_nothing_r2(a: Filter, b: Filter, cases_max: int) -> None:
    merged = merge(a, b, PLANE, cases_max)
    check(a, b, merged, accepted(a, SCENES), accepted(b, SCENES), accepted(merged.filter, SCENES))


@examples(100)
@given(position_pairs(), CASES)
def test_a_merger_of_filters_over_positions_misses_nothing_r2(pair: tuple[Filter, Filter], cases_max: int) -> None:
    a, b = pair
    merged = merge(a, b, PLANE, cases_max)
    shapes = [atom.shape for part in (a.root, b.root) for atom in atoms(part) if isinstance(atom, Inside)]
    scenes = position_scenes(shapes)
    check(a, b, merged, accepted(a, scenes), accepted(b, scenes), accepted(merged.filter, scenes))


@examples(60)
@given(st.lists(narrowings(), min_size=2, max_size=12))
def test_merging_one_after_another_covers_all_r2(filters: list[Filter]) -> None:
    merged = filters[0]
    for each in filters[1:]:
        merged = merge(merged, each, PLANE).filter
    by_merged = accepted(merged, SCENES)
    for each in filters:
        assert all(got or not want for got, want in zip(by_merged, accepted(each, SCENES), strict=True))


def test_a_disjunction_past_the_bound_becomes_a_hull_r2() -> None:
    merged = Merged(Filter(both(compare("=", 0), compare("=", "0", Y))), True)
    for index in range(1, MERGED_CASES_MAX + 1):
        assert merged.exact
        merged = merge(merged.filter, Filter(both(compare("=", index), compare("=", str(index), Y))), PLANE)
    assert not merged.exact
    assert merged.filter.root == And(
        (
            OneOf(X, tuple(range(MERGED_CASES_MAX + 1))),
            OneOf(Y, tuple(str(index) for index in range(MERGED_CASES_MAX + 1))),
        )
    )


def test_lists_that_together_exceed_a_filter_become_bounds_r2() -> None:
    a = Filter(OneOf(X, tuple(range(0, 1200, 2))))
    b = Filter(OneOf(X, tuple(range(1, 1201, 2))))
    found = merge(a, b, PLANE)
    assert found == Merged(Filter(both(compare(">=", 0), compare("<=", 1199))), False)


def test_filters_with_too_many_cases_merge_to_everything_r2() -> None:
    many = And(tuple(Or((compare("=", index), compare("=", index, Y))) for index in range(8)))
    assert merge(Filter(many), Filter(compare("=", 99)), PLANE) == Merged(EVERYTHING, False)


def test_the_check_catches_a_merger_that_misses_a_scene_r2() -> None:
    a, b = Filter(compare("=", 0, Attribute("a"))), Filter(compare("=", 1, Attribute("a")))
    wrong = Merged(a, True)
    with pytest.raises(AssertionError, match="misses"):
        check(a, b, wrong, accepted(a, SCENES), accepted(b, SCENES), accepted(wrong.filter, SCENES))


def test_the_check_catches_a_merger_that_is_not_exact_r2() -> None:
    a, b = Filter(compare("=", 0, Attribute("a"))), Filter(compare("=", 1, Attribute("a")))
    wrong = Merged(EVERYTHING, True)
    with pytest.raises(AssertionError, match="exactly"):
        check(a, b, wrong, accepted(a, SCENES), accepted(b, SCENES), accepted(wrong.filter, SCENES))
