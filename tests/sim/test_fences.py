"""Fences of scenarios: what hosts publish is the definition's, and reaches whoever subscribed."""

from typing import Any

import pytest

from roamcast.model.event import Event
from roamcast.model.fence import BEGIN, Fix, Occurrence, advance
from roamcast.model.values import Point
from roamcast.node.observer import Observer
from roamcast.papers.assemble import kit_of
from roamcast.sim.fences import FenceParams
from roamcast.sim.run import Result, Run
from roamcast.sim.scenario import BadScenario, scenario_from
from roamcast.sim.world import PLANE

YARD: dict[str, Any] = {"name": "yard", "by": "van", "box": [100, -50, 200, 50], "hysteresis_m": 0}


class Told(Observer):
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.delivered_to: list[tuple[str, str]] = []

    def published(self, now_us: int, host: str, event: Event) -> None:
        self.events.append(event)

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        self.delivered_to.append((host, event.id))


def ran(fences: list[dict[str, Any]], seed: int = 1, **more: Any) -> tuple[Told, Result]:
    drive = {
        "kind": "routes",
        "routes": [{"name": "r", "points": [[0, 0], [400, 0]], "speed_mps": 10, "entries_s": [0]}],
    }
    given = {
        "name": "fences",
        "seconds": 30,
        "checks": ["no-duplicates", "only-matching", "complete"],
        "protocol": {"kind": "flooding", "over": "links"},
        "links": [{"a": "office", "b": "van", "delay_ms": 10}],
        "hosts": [
            {"name": "van", "mobility": drive},
            {"name": "office", "mobility": {"kind": "static", "placement": {"kind": "at", "points": [[150, 0]]}}},
        ],
        "subscribe": [{"by": "office", "subject": "$roam/fence/#"}],
        "fences": fences,
        **more,
    }
    scenario, told = scenario_from(given), Told()
    run = Run(scenario, kit_of(scenario.protocol), seed, watching=(told,))
    for _ in run.steps():
        pass
    return told, run.finish()


def subjects(told: Told) -> list[str]:
    return [each.subject.removeprefix("$roam/fence/") for each in told.events]


def test_a_host_that_drives_through_publishes_and_everybody_is_told() -> None:
    told, result = ran([YARD])
    assert subjects(told) == ["yard/enter", "yard/leave"]
    assert [each.attributes["position"] for each in told.events] == [Point(100, 0), Point(200, 0)]
    assert told.delivered_to == [("office", each.id) for each in told.events]
    assert (result.expected, result.missed) == (2, 0)


def test_a_fence_around_a_host_moves_with_it() -> None:
    ring = {"name": "ring", "by": "van", "around": "office", "circle_m": 20, "hysteresis_m": 0}
    told, _ = ran([ring])
    assert subjects(told) == ["ring/enter", "ring/leave"]
    moments_s = [getattr(each.attributes["time"], "us", 0) / 1e6 for each in told.events]
    assert moments_s == pytest.approx([13.0, 17.0], abs=0.01)


def test_how_often_a_host_looks_does_not_change_the_moments() -> None:
    often, seldom = (ran([YARD | {"every_s": each}])[0].events for each in (0.2, 4.0))
    assert len(often) == len(seldom) == 2
    for one, other in zip(often, seldom, strict=True):
        moments_us = [getattr(each.attributes["time"], "us", 0) for each in (one, other)]
        assert moments_us[0] == pytest.approx(moments_us[1], abs=10_000)


def test_what_is_told_is_what_the_definition_says_of_true_places() -> None:
    told, _ = ran([YARD])
    fence, state, found = FenceParams(**YARD).fence(), BEGIN, list[Occurrence]()
    for tenth in range(300):
        state, more = advance(fence, state, Fix(tenth * 100_000, Point(float(tenth), 0.0)), PLANE)
        found += more
    assert [(each.transition.value, each.position) for each in found] == [
        (each.attributes["transition"], each.attributes["position"]) for each in told.events
    ]


def test_noise_at_the_border_is_told_of_once() -> None:
    standing = {"kind": "static", "placement": {"kind": "at", "points": [[100, 0]]}}
    noisy = YARD | {"hysteresis_m": None, "noise_m": 20, "every_s": 0.5}
    hosts = [
        {"name": "van", "mobility": standing},
        {"name": "office", "mobility": standing},
    ]
    told, _ = ran([{key: value for key, value in noisy.items() if value is not None}], hosts=hosts)
    assert subjects(told) == ["yard/enter"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"by": "bus"}, "names no group"),
        ({"box": None}, "circle, a box or a polygon"),
        ({"around": "office"}, "circle_m around a host"),
        ({"box": None, "around": "nobody", "circle_m": 5}, "names no host"),
        ({"on": ["dwell"]}, "'dwell' needs dwell_s"),
        ({"every_s": 0}, "every_s"),
    ],
)
def test_a_fence_that_makes_no_sense_is_refused(change: dict[str, Any], words: str) -> None:
    given = {key: value for key, value in (YARD | change).items() if value is not None}
    with pytest.raises(BadScenario, match=words):
        ran([given])
