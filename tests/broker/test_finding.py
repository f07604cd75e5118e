"""What an event satisfies is always found (R2)."""

from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.finding import Finder
from roamcast.model.filter import Filter, parse_text
from roamcast.model.filter.evaluate import accepts
from roamcast.model.filter.scene import Scene
from roamcast.model.space import Plane
from roamcast.model.values import Point, Value
from tests.effort import examples
from tests.filter.strategies import attributes, filters

PLANE = Plane()
COORDINATES = st.floats(-100, 100)


def finder_of(given_filters: list[Filter]) -> Finder[Filter]:
    finder: Finder[Filter] = Finder(flat=True)
    for filter_ in given_filters:
        finder.add(filter_, filter_)
    return finder


@given(st.lists(filters(), unique=True, max_size=12), attributes())
@examples(400)
def test_r2_every_filter_that_accepts_an_event_is_among_the_candidates(
    given_filters: list[Filter], found: dict[str, Value]
) -> None:
    candidates = list(finder_of(given_filters).candidates(found))
    assert len(candidates) == len(set(candidates))
    for filter_ in given_filters:
        if accepts(filter_, Scene(found.get, None, None), PLANE):
            assert filter_ in candidates


@given(st.lists(st.tuples(COORDINATES, st.floats(0, 50)), max_size=30), COORDINATES)
@examples(200)
def test_r2_ranges_of_every_width_are_found(ranges: list[tuple[float, float]], value: float) -> None:
    texts = {f"price >= {low!r} AND price <= {low + width!r}" for low, width in ranges}
    given_filters = [parse_text(text) for text in sorted(texts)]
    candidates = list(finder_of(list(dict.fromkeys(given_filters))).candidates({"price": value}))
    for filter_ in given_filters:
        if accepts(filter_, Scene({"price": value}.get, None, None), PLANE):
            assert filter_ in candidates


@given(st.lists(filters(), unique=True, max_size=12), st.data())
@examples(100)
def test_r2_removed_filters_leave_nothing_behind(given_filters: list[Filter], data: st.DataObject) -> None:
    finder = finder_of(given_filters)
    for filter_ in data.draw(st.permutations(given_filters)):
        finder.remove(filter_)
    assert finder.others == {}
    for at in finder.by_attribute.values():
        assert at.values == {}
        assert at.numbers.at == at.positions.at == {}
        assert at.above.at == at.below.at == {}
        assert at.numbers.sizes == at.positions.sizes == {}
        assert at.above.limits == at.below.limits == []


def test_r2_an_event_is_not_held_against_filters_of_other_values_ranges_and_places() -> None:
    texts = [f"kind = 'k{number}'" for number in range(100)]
    texts += [f"price >= {number} AND price < {number + 1}" for number in range(100)]
    texts += [f"S_INTERSECTS(place, BBOX({number}, 0, {number + 1}, 1))" for number in range(100)]
    finder = finder_of([parse_text(text) for text in texts])
    found: dict[str, Value] = {"kind": "k7", "price": 50.5, "place": Point(20.5, 0.5)}
    assert len(list(finder.candidates(found))) < 10
