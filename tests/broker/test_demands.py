"""Covering looks at no wishes that cannot matter (R2)."""

from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.finding import demand_of, may_cover
from roamcast.model.filter import Filter, parse_text
from roamcast.model.filter.cover import covers
from roamcast.model.space import Plane
from tests.effort import examples

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


@given(wide=FILTERS, narrow=FILTERS)
@examples(300)
def test_r2_what_may_not_cover_does_not(wide: Filter, narrow: Filter) -> None:
    if not may_cover(demand_of(wide, True), demand_of(narrow, True)):
        assert not covers(wide, narrow, Plane())


def test_r2_index_separates_filters_by_value_and_range() -> None:
    def told_apart(one: str, other: str) -> bool:
        return not may_cover(demand_of(parse_text(one), True), demand_of(parse_text(other), True))

    assert told_apart("kind = 'a'", "kind = 'b'")
    assert told_apart("price >= 2 AND price < 4", "price >= 5 AND price < 7")
    assert not told_apart("kind IN ('a', 'b')", "kind = 'b'")
