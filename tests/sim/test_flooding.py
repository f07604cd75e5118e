"""Flooding, for both families: reaches everybody connected, once."""

from pathlib import Path
from typing import Any

import pytest

from roamcast.papers.assemble import kit_of
from roamcast.sim.run import Result, run_scenario
from roamcast.sim.scenario import load_scenario, scenario_from


def run(scenario: dict[str, Any], seed: int = 1) -> Result:
    loaded = scenario_from(scenario)
    return run_scenario(loaded, kit_of(loaded.protocol), seed, round_trip=True)


def chain(**changes: Any) -> dict[str, Any]:
    """Six hosts in a line, each in range of its neighbours only; the first one publishes, all subscribe."""
    line = {"kind": "line", "start": [100, 0], "end": [500, 0]}
    return {
        "name": "chain",
        "seconds": 12,
        "protocol": {"kind": "flooding", "forward_jitter_ms": 5},
        "radio": {"kind": "unit-disk", "range_m": 120},
        "hosts": [
            {"name": "first", "mobility": {"kind": "static", "placement": {"kind": "at", "points": [[0, 0]]}}},
            {"name": "h", "count": 5, "mobility": {"kind": "static", "placement": line}},
        ],
        "publish": [{"by": "first", "subject": "x", "every_s": 1, "lifetime_s": [1], "first_s": 1, "until_s": 10}],
        "subscribe": [{"by": "h", "subject": "x"}],
        "checks": ["no-duplicates", "only-matching", "sender-order", "complete"],
        **changes,
    }


def test_over_the_air_every_connected_host_gets_every_event_at_the_cost_of_one_frame_a_host() -> None:
    result = run(chain())
    assert (result.events, result.delivered, result.missed) == (10, 50, 0)
    assert result.transmissions == 10 * 6


def test_an_instantaneous_event_is_delivered_however_long_it_travels() -> None:
    """C3: it is judged at the moment of its publication."""
    publish = [{"by": "first", "subject": "x", "every_s": 1, "lifetime_s": [0], "first_s": 1, "until_s": 10}]
    assert run(chain(publish=publish)).delivered == 50


def test_an_event_stops_after_its_hops() -> None:
    result = run(chain(protocol={"kind": "flooding", "hops_max": 3, "forward_jitter_ms": 5}, checks=[]))
    assert result.delivered == 10 * 3


def test_those_who_refuse_to_forward_break_the_chain() -> None:
    result = run(chain(faults={"refuse_share": 1.0}, checks=[]))
    assert result.delivered == 10


def test_only_the_audience_gets_an_event() -> None:
    """S5 and C5: a circle of 250 m around the producer."""
    publish = [
        {
            "by": "first",
            "subject": "x",
            "every_s": 1,
            "lifetime_s": [1],
            "first_s": 1,
            "until_s": 10,
            "audience": {"circle_m": 250, "at": "with-me"},
        }
    ]
    assert run(chain(publish=publish)).delivered == 10 * 2


def test_over_links_every_broker_gets_every_event_once_for_each_link() -> None:
    """R2: flooding over an acyclic graph costs one message for each link."""
    scenario = load_scenario(Path("scenarios/brokers-flooding.toml"))
    result = run_scenario(scenario, kit_of(scenario.protocol), 1, round_trip=True)
    assert result.missed == result.unwanted == result.duplicates == 0
    assert result.transmissions == result.events * len(scenario.links)


def test_a_cycle_of_links_does_not_loop() -> None:
    static = {"kind": "static", "placement": {"kind": "at", "points": [[0, 0]]}}
    result = run(
        {
            "name": "cycle",
            "seconds": 5,
            "protocol": {"kind": "flooding", "over": "links"},
            "hosts": [{"name": name, "mobility": static} for name in "ABC"],
            "links": [{"a": "A", "b": "B"}, {"a": "B", "b": "C"}, {"a": "C", "b": "A"}],
            "publish": [{"by": "A", "subject": "x", "every_s": 1, "lifetime_s": [1], "until_s": 4}],
            "subscribe": [{"by": "C", "subject": "x"}],
            "checks": ["no-duplicates", "complete"],
        }
    )
    assert result.delivered == result.events


def test_the_published_cost_of_flooding_comes_out() -> None:
    """C12: 83 to 94 Mbit in the base scenario, of 128 bytes a frame, here over a ninth of its time."""
    scenario = load_scenario(Path("scenarios/context-flooding.toml"))
    shorter = type(scenario)(
        **{name: getattr(scenario, name) for name in scenario.__struct_fields__} | {"seconds": 50}
    )
    result = run_scenario(shorter, kit_of(scenario.protocol), 1)
    assert 83 * 0.9 <= result.transmissions * 128 * 8 / 1e6 * 9 <= 94 * 1.1


def test_crashes_pauses_loss_and_wrong_clocks_are_survived() -> None:
    result = run(
        chain(
            checks=["no-duplicates"],
            faults={
                "loss": 0.3,
                "duplicate": 0.2,
                "reorder": 0.2,
                "clock_offset_ms": 1_000,
                "crash": [{"host": "h-2", "at_s": 3, "restart_s": 5, "keeps_disk": False}],
                "pause": [{"host": "h-3", "at_s": 4, "until_s": 6}],
            },
        )
    )
    assert 0 < result.delivered < 50


def test_a_place_within_reach_is_known_by_the_movement_graph_of_the_scenario() -> None:
    """R5: myloc walks on [places]; h-1 to h-5 are at b, and a subscription asks for places one step from there."""

    def delivered_from(place: str) -> int:
        scenario = chain(places={"a": ["b"], "b": ["c"], "c": ["d"]}, checks=["no-duplicates", "complete"])
        scenario["hosts"][1]["attributes"] = {"place": "b"}
        scenario["publish"][0]["content"] = {"place": place}
        scenario["subscribe"][0]["filter"] = "place IN myloc(1)"
        return run(scenario).delivered

    assert [delivered_from(place) for place in "acd"] == [50, 50, 0]


@pytest.mark.parametrize("asked", ["neighbours.count() = 0", "neighbours.count() > 0", "NOT neighbours.count() > 0"])
def test_neighbours_are_unknown_to_a_host_that_floods(asked: str) -> None:
    """C2: it hears of nobody around it, so no filter over them is true, and none is false either."""
    subscribe = [{"by": "h", "subject": "x", "filter": asked}]
    assert run(chain(subscribe=subscribe, checks=[])).delivered == 0
