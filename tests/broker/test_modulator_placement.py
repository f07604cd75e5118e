"""Placement of modulators by their effect on traffic (O9)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.modulators.placement import (
    UNDECIDED,
    Caution,
    Flow,
    Place,
    along,
    best,
    better,
    reconsider,
    traffic,
)
from roamcast.model.values import BadValue
from tests.effort import examples

RATES = st.floats(0.0, 1e9)
HOPS = st.lists(st.integers(1, 9), min_size=1, max_size=6)
MARGINS = st.floats(0.0, 0.9)


def path_of(hops: list[int]) -> list[str]:
    return [f"B{number}" for number in range(len(hops) + 1)]


@st.composite
def situations(draw: st.DrawFn) -> tuple[Flow, list[Place]]:
    """A tree of producers' paths that meet at the consumer's side, as hops."""
    producers = draw(st.integers(1, 3))
    flow = Flow(tuple(draw(RATES) for _ in range(producers)), draw(RATES))
    places = [
        Place(f"B{number}", tuple(draw(st.integers(0, 9)) for _ in range(producers)), draw(st.integers(0, 9)))
        for number in range(draw(st.integers(1, 6)))
    ]
    return flow, places


@examples(200)
@given(RATES, RATES, HOPS)
def test_o9_what_reduces_goes_upstream_and_what_amplifies_downstream(
    rate_in: float, rate_out: float, hops: list[int]
) -> None:
    path = path_of(hops)
    chosen = best(Flow((rate_in,), rate_out), along(path, hops)).broker
    # Where both ends cost the same but for rounding, either is right.
    if rate_out < rate_in * 0.999:
        assert chosen == path[0]
    if rate_out > rate_in * 1.001:
        assert chosen == path[-1]


@examples(200)
@given(situations())
def test_o9_no_place_has_less_traffic_than_the_best(situation: tuple[Flow, list[Place]]) -> None:
    flow, places = situation
    chosen = best(flow, places)
    assert all(traffic(flow, chosen) <= traffic(flow, place) for place in places)


def test_o9_traffic_is_bytes_times_hops() -> None:
    flow = Flow((100.0, 10.0), 5.0)
    assert traffic(flow, Place("B", (2, 1), 4)) == 100 * 2 + 10 * 1 + 5 * 4


def test_o9_along_a_path_the_hops_to_and_from_a_place_add_up_to_its_length() -> None:
    places = along(["A", "B", "C"], [2, 3])
    assert places == [Place("A", (0,), 5), Place("B", (2,), 3), Place("C", (5,), 0)]
    assert along(["A", "B"]) == [Place("A", (0,), 1), Place("B", (1,), 0)]
    assert along([]) == []
    with pytest.raises(BadValue, match="1 links, not 2"):
        along(["A", "B"], [1, 1])


@examples(200)
@given(situations(), MARGINS, st.data())
def test_o9_a_move_saves_more_than_the_margin_and_is_not_taken_back(
    situation: tuple[Flow, list[Place]], margin: float, data: st.DataObject
) -> None:
    flow, places = situation
    current = data.draw(st.sampled_from(places))
    found = better(flow, places, current.broker, margin)
    if found is None:
        return
    there = next(place for place in places if place.broker == found)
    assert traffic(flow, there) < traffic(flow, current) * (1 - margin)
    assert better(flow, places, found, margin) is None


@examples(200)
@given(
    st.floats(1.0, 1e6), st.lists(st.tuples(st.floats(0.95, 1.05), st.floats(0.95, 1.05)), max_size=30), st.booleans()
)
def test_o9_rates_that_waver_around_each_other_move_nothing(
    rate: float, wavering: list[tuple[float, float]], upstream: bool
) -> None:
    """In and out differ by less than the margin, now this way and now that."""
    places = along(["A", "B", "C"])
    current, opinion = ("A" if upstream else "C"), UNDECIDED
    for one, other in wavering:
        opinion, moved = reconsider(opinion, Flow((rate * one,), rate * other), places, current)
        assert moved is None


def test_o9_without_caution_the_same_rates_send_it_back_and_forth() -> None:
    """Proves that the test above can fail."""
    places, current, moves = along(["A", "B", "C"]), "C", 0
    for number in range(10):
        flow = Flow((1.0,), 0.96 if number % 2 else 1.04)
        _, moved = reconsider(UNDECIDED, flow, places, current, Caution(margin=0.0, times=1))
        if moved is not None:
            current, moves = moved, moves + 1
    assert moves >= 9


@examples(100)
@given(st.integers(1, 6), HOPS)
def test_o9_a_lasting_difference_moves_it_once_after_the_agreed_times(times: int, hops: list[int]) -> None:
    path = path_of(hops)
    places, current, opinion, moves = along(path, hops), path[-1], UNDECIDED, []
    for number in range(3 * times):
        opinion, moved = reconsider(opinion, Flow((100.0,), 10.0), places, current, Caution(times=times))
        if moved is not None:
            current = moved
            moves.append(number)
    assert (current, moves) == (path[0], [times - 1])


def test_o9_an_interruption_begins_the_count_anew() -> None:
    places, reducing, neutral = along(["A", "B"]), Flow((100.0,), 10.0), Flow((100.0,), 100.0)
    opinion, moves = UNDECIDED, []
    for flow in (reducing, reducing, neutral, reducing, reducing):
        opinion, moved = reconsider(opinion, flow, places, "B", Caution(times=3))
        moves.append(moved)
    assert moves == [None] * 5


def test_o9_with_several_producers_it_stands_where_their_paths_have_met() -> None:
    """Two producers at A1 and A2, joined at J, two hops before the consumer's C; only J and C see all events."""
    places = [Place("J", (1, 1), 2), Place("C", (3, 3), 0)]
    assert best(Flow((50.0, 50.0), 10.0), places).broker == "J"
    assert best(Flow((50.0, 50.0), 300.0), places).broker == "C"


def test_o9_a_move_that_relieves_a_slow_link_pays_where_it_would_not_otherwise() -> None:
    """Producers at X and Y, a consumer behind J; all links a hop long, and that of X ten times as slow."""
    flow = Flow((3.0, 1.0), 1.0)
    alike = [Place("X", (0, 2), 2), Place("J", (1, 1), 1)]
    slow = [Place("X", (0, 11), 11), Place("J", (10, 1), 1)]
    assert better(flow, alike, "J", 0.2) is None
    assert better(flow, slow, "J", 0.2) == "X"


def test_o9_with_no_traffic_it_stays() -> None:
    for current in ("A", "B", "C"):
        assert better(Flow((0.0,), 0.0), along(["A", "B", "C"]), current, 0.0) is None


def test_o9_off_the_way_of_its_events_it_moves_to_the_best_place_on_it() -> None:
    assert better(Flow((9.0,), 1.0), along(["A", "B"]), "elsewhere", 0.5) == "A"
    assert better(Flow((9.0,), 1.0), [], "elsewhere", 0.5) is None


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_o9_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(BadValue, match="bytes a second"):
        Flow((1.0,), rate)


def test_o9_caution_is_checked() -> None:
    with pytest.raises(BadValue, match="margin"):
        Caution(margin=1.0)
    with pytest.raises(BadValue, match="times"):
        Caution(times=0)
