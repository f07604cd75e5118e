"""Filters over the client's own state, widened to what it may be soon (R4, R7)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.logical.params import Drift, LogicalParams
from roamcast.broker.logical.reach import Reach, relaxed, within
from roamcast.broker.logical.template import State, steps_ahead
from roamcast.model.context import Context
from roamcast.model.filter import parse_text
from roamcast.model.filter.bound import is_bound
from roamcast.model.filter.evaluate import accepts
from roamcast.model.filter.scene import Scene
from roamcast.model.places import movement_graph
from roamcast.model.space import Plane
from roamcast.model.values import BadValue, Value
from tests.broker.walks import Example
from tests.effort import examples

PLANE = Plane()
GRAPH = movement_graph({"a": "b", "b": "c", "c": "d", "d": "e", "e": "a", "f": "a"})
PLACES = st.sampled_from(sorted(GRAPH.neighbours))
ATOMS = st.sampled_from(
    [
        "place IN myloc(0)",
        "place IN myloc(1)",
        "price <= me.budget",
        "price < me.budget",
        "price >= me.budget",
        "me.budget > price",
        "price = me.budget",
        "price <> me.budget",
        "price < 5",
        "me.budget > 3",
        "near(position, 100)",
        "me.mood = 'good'",
    ]
)
TEXTS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        inner.map(lambda text: f"NOT ({text})"),
        st.tuples(inner, inner).map(" AND ".join).map(lambda text: f"({text})"),
        st.tuples(inner, inner).map(" OR ".join).map(lambda text: f"({text})"),
    ),
    max_leaves=5,
)


@given(
    text=TEXTS,
    place=PLACES,
    steps=st.integers(0, 3),
    low=st.integers(0, 8),
    width=st.integers(0, 4),
    data=st.data(),
)
@examples(250)
def test_r7_a_widened_filter_accepts_what_the_client_accepts_in_any_state_within_reach(
    text: str, place: str, steps: int, low: int, width: int, data: st.DataObject
) -> None:
    filter_ = parse_text(text)
    widened = within(filter_, Reach(GRAPH, place, steps, {"budget": (low, low + width)}))
    assert is_bound(widened)
    budget = data.draw(st.integers(low, low + width))
    here = data.draw(st.sampled_from(sorted(GRAPH.ploc(place, steps))))
    me = Context("c", attributes={"place": here, "budget": budget, "mood": "good"})
    content: dict[str, Value] = data.draw(
        st.fixed_dictionaries({}, optional={"place": PLACES, "price": st.integers(0, 12)}), label="content"
    )
    if accepts(filter_, Scene(content.get, me, Context("p")), PLANE, GRAPH):
        scene = Scene(content.get, None, Context("p"))
        assert accepts(widened, scene, PLANE)
        assert accepts(relaxed(filter_), scene, PLANE)


def test_r4_a_widened_filter_lists_the_places_within_steps_and_nothing_else() -> None:
    found = within(parse_text("place IN myloc(0) AND price < 5"), Reach(GRAPH, "c", 1))
    assert found == parse_text("place IN ('b', 'c', 'd') AND price < 5")


def test_r4_a_place_is_excluded_only_if_every_possible_place_excludes_it() -> None:
    assert within(parse_text("NOT place IN myloc(1)"), Reach(GRAPH, "c", 0)) == parse_text(
        "NOT place IN ('b', 'c', 'd')"
    )
    assert within(parse_text("NOT place IN myloc(1)"), Reach(GRAPH, "c", 1)) == parse_text("NOT place IN ('c')")


def test_r7_a_comparison_with_an_own_attribute_becomes_one_with_the_end_of_its_range() -> None:
    reach = Reach(ranges={"budget": (20, 30)})
    assert within(parse_text("price <= me.budget"), reach) == parse_text("price <= 30")
    assert within(parse_text("NOT price <= me.budget"), reach) == parse_text("price > 20")
    assert within(parse_text("kind = 'a' AND price <= me.wealth"), reach) == parse_text("kind = 'a'")


def test_r5_one_step_more_whenever_the_delay_passes_another_residence_time() -> None:
    delays_us = [0, 120, 170, 220, 240, 299, 300, 100_000]
    assert [steps_ahead(delay_us, 100) for delay_us in delays_us] == [1, 1, 1, 2, 2, 2, 3, 64]
    assert steps_ahead(500, 0) == 1


def with_budget(drift: Drift) -> tuple[Example, str]:
    example = Example((40, 40, 40), LogicalParams(drifts={"budget": drift}))
    example.pass_s(1)
    example.stand("C0", "a", budget=50)
    return example, example.begin("a", "price <= me.budget")


def offer(example: Example, price: int) -> str:
    return example.publish("C1", {"price": price})


def test_r7_sales_that_the_client_cannot_afford_do_not_travel_to_it() -> None:
    example, subscription = with_budget(Drift(per_s=10.0))
    # Ten a second for the 120 ms of a word to the last broker and back.
    filters = [
        held.wish.filter
        for broker in example.nodes.values()
        for source in broker.logical.following.held.values()
        for held in source.values()
    ]
    assert filters == [parse_text(f"price <= {limit}") for limit in ("50.4", "50.8", "51.2")]
    example.stand("C0", "a", budget=50)
    affordable = offer(example, 50)
    offer(example, 60)
    example.pass_s(1)
    assert example.ledger.got[subscription] == [affordable]
    assert len([each for each in example.spoken.of("numbered") if each == "B0-C0"]) == 1


def test_r7_a_budget_that_drifts_no_faster_than_said_leaves_no_blackout() -> None:
    example, subscription = with_budget(Drift(per_s=100.0))
    wanted = []
    for budget in range(51, 75):
        event = offer(example, budget + 5)
        wanted.append(event)
        example.pass_s(0.01)
        example.stand("C0", "a", budget=budget)
    example.pass_s(1)
    # Each offer is affordable when it arrives: 61 ms later, six steps of the budget on.
    assert example.ledger.got[subscription] == wanted[: len(example.ledger.got[subscription])]
    assert len(example.ledger.got[subscription]) >= 18


def test_r7_a_budget_that_jumps_is_bound_anew_and_an_unknown_one_is_left_to_the_client() -> None:
    example, subscription = with_budget(Drift(per_s=0.0))
    example.stand("C0", "a", budget=500)
    example.pass_s(1)
    event = offer(example, 400)
    example.pass_s(1)
    assert example.ledger.got[subscription] == [event]
    unknown = Example((40, 40), LogicalParams())
    unknown.pass_s(1)
    unknown.stand("C0", "a", budget=50)
    subscription = unknown.begin("a", "price <= me.budget")
    unknown.stand("C0", "a", budget=500)
    event = unknown.publish("C1", {"price": 400})
    unknown.pass_s(1)
    assert unknown.ledger.got[subscription] == [event]


def test_r7_changes_within_a_cell_of_the_grid_are_not_reported() -> None:
    example, _ = with_budget(Drift(per_s=1.0, grid=10.0))
    example.spoken.count.clear()
    for budget in (51, 53, 58, 52):
        example.stand("C0", "a", budget=budget)
        example.pass_s(0.1)
    assert len(example.spoken.of("report")) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"residence_us": -1},
        {"access_us": 2**62},
        {"place": "p" * 70_000},
        {"values": (("budget", 5.0, 4.0),)},
        {"values": (("budget", math.nan, 4.0),)},
        {"values": (("budget", 0.0, math.inf),)},
    ],
)
def test_r4_a_state_that_no_client_is_in_is_refused_before_it_reaches_a_broker(wrong: dict[str, object]) -> None:
    with pytest.raises(BadValue):
        State(**wrong)  # type: ignore[arg-type]
