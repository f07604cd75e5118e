"""The broker network as brokers see it: rows, links, routes and how news travels (O2, O5)."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import dijkstra

from roamcast.broker.overlay.messages import LINK_KBPS, Here, Row, Search
from roamcast.broker.overlay.modelled import ModelledBroker
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.overlay.search import Answering, Relaying, Searching
from roamcast.broker.overlay.topology import Topology
from roamcast.model.context import Context
from roamcast.model.values import Value
from roamcast.node.boundary import Broadcast, Does, Send, SetTimer, Start
from tests.effort import examples

PARAMS = OverlayParams()


def topology_of(host: str, *rows: Row) -> Topology:
    topology = Topology(host, 100)
    for row in rows:
        topology.learn(row)
    return topology


def test_o2_two_brokers_are_linked_if_one_of_them_found_the_other() -> None:
    topology = topology_of("A", Row("B", 1, (("C", 1),)), Row("C", 1, (("A", 2),)))
    assert topology.links() == {"B": {"C": 1}, "C": {"B": 1, "A": 2}, "A": {"C": 2}}
    assert topology.neighbours() == ["C"]


def test_o2_a_row_is_replaced_by_one_with_a_higher_number_only() -> None:
    topology = topology_of("A", Row("B", 5, (("C", 1),)))
    topology.take_changed()
    assert not topology.learn(Row("B", 5, (("D", 1),)))
    assert not topology.learn(Row("B", 4, (("D", 1),)))
    assert topology.take_changed() == ()
    assert topology.learn(Row("B", 6, (("D", 1),)))
    assert topology.take_changed() == (Row("B", 6, (("D", 1),)),)
    assert topology.take_changed() == ()


def test_o2_nobody_else_changes_a_brokers_own_row() -> None:
    topology = topology_of("A")
    topology.found(7, {"B": 1})
    assert not topology.learn(Row("A", 1_000, ()))
    assert topology.rows["A"].neighbours == (("B", 1),)


def test_o2_an_own_row_changes_its_number_only_with_its_neighbours_and_outlives_a_crash() -> None:
    topology = topology_of("A")
    assert topology.found(1_000, {"B": 1})
    assert not topology.found(2_000, {"B": 1})
    assert topology.found(3_000, {"B": 2})
    restarted = topology_of("A")
    restarted.found(4_000, {"B": 1})
    assert restarted.rows["A"].number > topology.rows["A"].number


def test_o2_brokers_beyond_the_bound_are_not_taken_in() -> None:
    topology = Topology("A", 2)
    assert topology.learn(Row("B", 1))
    assert not topology.learn(Row("C", 1))


def test_o7_a_neighbour_that_cannot_be_reached_is_avoided_for_a_while() -> None:
    topology = topology_of("A", Row("B", 1, (("A", 1), ("D", 1))), Row("C", 1, (("A", 2), ("D", 1))))
    assert topology.path("D") == ("A", "B", "D")
    topology.avoid("B", until_us=100)
    assert topology.path("D") == ("A", "C", "D")
    topology.forgive(99)
    assert topology.path("D") == ("A", "C", "D")
    topology.forgive(100)
    assert topology.path("D") == ("A", "B", "D")


def diamond(**kbps: float) -> Topology:
    """From A to D by B or by C, two hops each."""
    ways = {"B": (("A", 1), ("D", 1)), "C": (("A", 1), ("D", 1))}
    return topology_of("A", *(Row(name, 1, ways[name], kbps.get(name, LINK_KBPS)) for name in ways))


def test_o2_of_paths_with_as_many_hops_the_faster_is_taken() -> None:
    assert diamond().path("D") == ("A", "B", "D")
    assert diamond(B=250.0).path("D") == ("A", "C", "D")
    assert diamond(B=250.0, C=100.0).path("D") == ("A", "B", "D")


def test_o2_a_shorter_path_is_taken_however_slow_it_is() -> None:
    topology = topology_of("A", Row("B", 1, (("A", 1), ("D", 1)), 10.0), Row("C", 1, (("A", 1), ("D", 2))))
    assert topology.path("D") == ("A", "B", "D")


def test_o9_the_effort_of_a_path_counts_a_hop_over_a_slow_link_for_more() -> None:
    topology = diamond(B=250.0)
    assert topology.effort(("A", "B", "D")) == 8.0
    assert topology.effort(("A", "C", "D")) == topology.hops(("A", "C", "D")) == 2


def test_o2_a_link_that_has_changed_is_told() -> None:
    topology = topology_of("A")
    assert topology.found(1_000, {"B": 1})
    topology.kbps = 250.0
    assert topology.found(2_000, {"B": 1})
    assert topology.rows["A"].kbps == 250.0
    assert not topology.found(3_000, {"B": 1})


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [({"link_kbps": 64}, 64.0), ({"link_kbps": "fast"}, 500.0), ({"link_kbps": 0}, 500.0), ({}, 500.0)],
)
def test_o2_a_broker_tells_what_its_host_or_its_settings_say_of_its_link(
    attributes: dict[str, Value], wanted: float
) -> None:
    broker = ModelledBroker("A", OverlayParams(link_kbps=500.0), Random(1))
    broker.handle(0, Start(Context("A", attributes=attributes)))
    assert broker.brokers.topology.kbps == wanted


@pytest.mark.parametrize("kbps", [0.0, -1.0, float("nan"), float("inf")])
def test_o2_a_link_of_nothing_or_of_everything_is_refused(kbps: float) -> None:
    with pytest.raises(ValueError, match="kbit/s"):
        Row("B", 1, (), kbps)


NAMES = [f"b{index}" for index in range(8)]
ROWS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(NAMES), st.integers(1, 5), max_size=4)),
    max_size=8,
)


@given(rows=ROWS)
@examples(150)
def test_o5_routes_are_shortest_paths_over_the_links(rows: list[tuple[str, dict[str, int]]]) -> None:
    topology = Topology("b0", 100)
    weights = np.zeros((len(NAMES), len(NAMES)))
    known = {name: {to: hops for to, hops in found.items() if to != name} for name, found in rows if name != "b0"}
    for name, found in known.items():
        topology.learn(Row(name, 1, tuple(found.items())))
        for to, hops in found.items():
            one, other = NAMES.index(name), NAMES.index(to)
            weights[one, other] = weights[other, one] = min(hops, weights[one, other] or hops)
    lengths = dijkstra(weights, directed=False, indices=0)
    reached = {name: int(hops) for name, hops in zip(NAMES, lengths, strict=True) if np.isfinite(hops)}
    paths = topology.paths_from("b0")
    assert {name: topology.hops(path) for name, path in paths.items()} == reached
    assert all(len(set(path)) == len(path) for path in paths.values())


def reaches(effects: list[Does]) -> list[int]:
    return [
        each.message.reach for each in effects if isinstance(each, Broadcast) and isinstance(each.message, Search)
    ]


def test_o2_a_search_widens_its_ring_until_it_has_found_enough() -> None:
    searching = Searching("A", PARAMS)
    assert reaches(searching.begin(0, 2)) == [1]
    searching.answered(Here(1, 1, 0.0), "B")
    found, effects = searching.fired(50_000)
    assert (found, reaches(effects)) == (None, [2])
    searching.answered(Here(2, 2, 0.5), "D")
    searching.answered(Here(2, 2, 0.1), "C")
    found, effects = searching.fired(150_000)
    assert found is not None
    assert [each.broker for each in found] == ["B", "D"]
    assert effects == []


def test_o2_a_search_is_not_begun_anew_while_it_is_on() -> None:
    searching = Searching("A", PARAMS)
    searching.begin(0, 4)
    searching.answered(Here(1, 1, 0.0), "B")
    assert searching.begin(10, 4) == []
    assert list(searching.found) == ["B"]


def test_o2_a_search_that_finds_nobody_ends_at_its_bound() -> None:
    searching = Searching("A", OverlayParams(ring_hops_max=3))
    searching.begin(0, 1)
    rings = 1
    while (outcome := searching.fired(rings))[0] is None:
        rings += 1
    assert outcome == ([], [])
    assert rings == 3


def test_o2_each_host_passes_on_a_search_once_and_only_within_its_reach() -> None:
    relaying = Relaying("X", PARAMS)
    assert relaying.hear(Search("A", 1, 2, 0)) == (True, [Broadcast(Search("A", 1, 2, 1))])
    assert relaying.hear(Search("A", 1, 2, 0)) == (False, [])
    assert relaying.hear(Search("A", 2, 2, 1)) == (True, [])
    assert relaying.hear(Search("X", 9, 5, 0)) == (False, [])


def test_o3_a_broker_answers_a_search_with_its_distance_and_load() -> None:
    answering = Answering(PARAMS, Random(1))
    (timer,) = answering.owe(0, Search("A", 7, 3, 1), load=0.4)
    assert isinstance(timer, SetTimer)
    assert answering.fired(timer.name) == [Send("A", Here(7, 2, 0.4))]
