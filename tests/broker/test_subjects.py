"""Subjects in a trie mean what the model says; covering looks at no wishes that cannot matter (R2)."""

from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.finding import demand_of, may_cover
from roamcast.broker.subjects import Subjects
from roamcast.model.filter import Filter, parse_text
from roamcast.model.filter.cover import covers
from roamcast.model.space import Plane
from roamcast.model.subject import subject_covers, subject_matches
from tests.effort import examples

NAMES = st.sampled_from(["a", "b", "", "$s"])
LEVELS = st.lists(st.one_of(NAMES, st.just("+")), min_size=1, max_size=3)
PATTERNS = st.builds(lambda levels, rest: "/".join([*levels, *rest]), LEVELS, st.sampled_from([[], ["#"]])).filter(
    bool
)
EVERY = st.one_of(PATTERNS, st.just("#"))
SUBJECTS = st.lists(NAMES, min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = st.sampled_from(
    [
        "kind = 'a'",
        "kind IN ('a', 'b')",
        "kind IN ('b', 'c') AND price < 3",
        "kind IN ('b', 'c') AND kind = 'c'",
        "price = 2",
        "price IN (2, 7)",
        "price >= 2 AND price < 7",
        "price > 3 AND price <= 5",
        "price >= 7 AND price < 9",
        "price < 5",
        "kind = 'a' OR price = 2",
        "S_WITHIN(place, BBOX(0, 0, 10, 10))",
        "S_WITHIN(place, BBOX(2, 2, 5, 5))",
        "S_WITHIN(place, BBOX(20, 0, 30, 10))",
        "TRUE",
    ]
).map(parse_text)


def planted(patterns: list[str]) -> Subjects[set[str]]:
    subjects: Subjects[set[str]] = Subjects()
    for pattern in patterns:
        place = subjects.get(pattern)
        if place is None:
            place = set()
            subjects.put(pattern, place)
        place.add(pattern)
    return subjects


@given(patterns=st.lists(EVERY, max_size=12), other=EVERY)
@examples(300)
def test_r2_the_patterns_found_are_those_that_cover_and_those_that_are_covered(
    patterns: list[str], other: str
) -> None:
    subjects = planted(patterns)
    assert sorted(each for found in subjects.covering(other) for each in found) == sorted(
        {each for each in patterns if subject_covers(each, other)}
    )
    assert sorted(each for found in subjects.covered(other) for each in found) == sorted(
        {each for each in patterns if subject_covers(other, each)}
    )


@given(patterns=st.lists(EVERY, max_size=12), subject=SUBJECTS)
@examples(200)
def test_r2_the_patterns_that_cover_a_subject_are_those_that_match_it(patterns: list[str], subject: str) -> None:
    found = sorted(each for place in planted(patterns).covering(subject) for each in place)
    assert found == sorted({each for each in patterns if subject_matches(each, subject)})


@given(patterns=st.lists(EVERY, max_size=12, unique=True), gone=st.integers(0, 12))
@examples(100)
def test_r2_what_was_removed_is_found_no_more_and_everything_else_is(patterns: list[str], gone: int) -> None:
    subjects = planted(patterns)
    for pattern in patterns[:gone]:
        place = subjects.get(pattern)
        assert place is not None
        place.discard(pattern)
        if not place:
            subjects.remove(pattern)
    assert sorted(each for place in subjects._root.all() for each in place) == sorted(patterns[gone:])
    assert patterns[gone:] or not subjects._root.children


@given(wide=FILTERS, narrow=FILTERS)
@examples(300)
def test_r2_what_may_not_cover_does_not(wide: Filter, narrow: Filter) -> None:
    if not may_cover(demand_of(wide, True), demand_of(narrow, True)):
        assert not covers(wide, narrow, Plane())


def test_r2_filters_that_demand_other_values_or_ranges_are_told_apart_without_a_closer_look() -> None:
    def told_apart(one: str, other: str) -> bool:
        return not may_cover(demand_of(parse_text(one), True), demand_of(parse_text(other), True))

    assert told_apart("kind = 'a'", "kind = 'b'")
    assert told_apart("price >= 2 AND price < 4", "price >= 5 AND price < 7")
    assert not told_apart("kind IN ('a', 'b')", "kind = 'b'")
