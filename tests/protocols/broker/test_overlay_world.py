"""Overlays in a world that moves: figure 15's three hosts, path lengths, and whole scenarios (O1, O2, O3, O8)."""

from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec.structs import replace

from roamcast.experiments.assemble import kit_of
from roamcast.experiments.overlay import Arena, Setting, measure_brokers, measure_clients, measure_load
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point
from roamcast.node.boundary import Node, Publish, Subscribe
from roamcast.node.codec import Codec
from roamcast.node.kit import Seat
from roamcast.protocols.broker.overlay.broker import OverlayBroker
from roamcast.protocols.broker.overlay.client import OverlayClient
from roamcast.protocols.broker.overlay.messages import MESSAGES
from roamcast.protocols.broker.overlay.params import OverlayParams
from roamcast.sim.mobility.legs import Leg, Track, moving, resting, resting_forever
from roamcast.sim.radio import UnitDiskParams
from roamcast.sim.residents import Resident
from roamcast.sim.run import run_scenario
from roamcast.sim.scenario import load_scenario
from roamcast.sim.underlay import UnderlayParams
from roamcast.sim.world import World

SCENARIOS = Path(__file__).parents[3] / "scenarios"
STAGE_S = 40.0


class ThreeHosts:
    """Section 4.3: brokers on A and B, the client on C; the producer P is beside A and reaches nobody else.

    The network is A-B-C, then A-B-C-A, A-C-B and B-A-C, each for a stage.
    """

    PLACES: ClassVar[dict[str, list[tuple[int, int]]]] = {
        "A": [(0, 0), (0, 0), (0, 0), (0, 0)],
        "B": [(200, 0), (200, 0), (400, 0), (200, 0)],
        "C": [(400, 0), (100, 150), (200, 0), (20, -240)],
        "P": [(-120, 0), (-120, 0), (-120, 0), (-120, 0)],
    }

    def __init__(self, overlay: OverlayParams) -> None:
        self.overlay = overlay
        self.brokers: dict[str, OverlayBroker] = {}
        self.clients: dict[str, OverlayClient] = {}
        self.world = World(
            [Resident(name, Track(self._legs(name)), self._node) for name in self.PLACES],
            Codec(MESSAGES),
            1,
            radio=UnitDiskParams(250),
            underlay=UnderlayParams(),
        )

    def _legs(self, name: str) -> list[Leg]:
        points = [Point(*map(float, place)) for place in self.PLACES[name]]
        legs, now_us = [], 0
        for number, point in enumerate(points):
            if number and point != points[number - 1]:
                legs.append(moving(now_us, points[number - 1], point, 400))
                now_us = legs[-1].end_us
            end_us = round((number + 1) * STAGE_S * 1e6)
            legs.append(resting(now_us, point, end_us - now_us))
            now_us = end_us
        return [*legs, resting_forever(now_us, points[-1])]

    def _node(self, seat: Seat) -> Node:
        if seat.host in "AB":
            self.brokers[seat.host] = OverlayBroker(seat.host, self.overlay, seat.rng)
            return self.brokers[seat.host]
        self.clients[seat.host] = OverlayClient(seat.host, self.overlay, seat.rng)
        return self.clients[seat.host]

    def until(self, seconds: float) -> None:
        for _ in self.world.run(round(seconds * 1e6)):
            pass

    def path(self) -> list[str]:
        """From broker A to the client: over brokers as they see it."""
        entry = self.brokers["A"].brokers.directory.entries["C/s"]
        path = self.brokers["A"].brokers.topology.path(entry.place)
        assert path is not None
        return [*path, "C"]

    def hops(self, path: list[str]) -> int:
        underlay, by_name = self.world.underlay, self.world.by_name
        assert underlay is not None
        return sum(underlay.hops(by_name[one].index, by_name[other].index) or 0 for one, other in pairwise(path))

    def run(self) -> list[tuple[str, int]]:
        """At the end of each stage: the path of brokers, and its length in the network."""
        self.until(8)
        now_us = self.world.kernel.now_us
        self.world.give("C", Subscribe(Subscription("C/s", "C", "x", now_us, FOREVER_US)))
        self.world.give("P", Publish(Event("P:1", "x", Context("P"), now_us, FOREVER_US)))
        stages = []
        for stage in range(1, 5):
            self.until(stage * STAGE_S - 1)
            stages.append(("".join(self.path()), self.hops(self.path())))
        return stages


def test_o8_three_hosts_take_the_paths_of_section_4_3() -> None:
    overlay = OverlayParams(update_period_s=2, discovery_period_s=1)
    assert ThreeHosts(overlay).run() == [("ABC", 2), ("AC", 1), ("AC", 1), ("AC", 1)]


def test_o8_three_hosts_with_the_static_approach_take_its_detours() -> None:
    """A-C-B: A → C → B → C. B-A-C: A → B → A → C."""
    overlay = OverlayParams(topology="given", home="given", discovery_period_s=1)
    assert ThreeHosts(overlay).run() == [("ABC", 2), ("ABC", 2), ("ABC", 3), ("ABC", 3)]


SMALL = Setting(hosts=40, side_m=(700.0, 700.0), seconds=120.0)


def test_o2_updates_shorten_the_paths_of_brokers_and_cost_more_the_more_often_they_are() -> None:
    static = measure_brokers(1, None, SMALL, brokers=16)
    seldom = measure_brokers(1, 40.0, SMALL, brokers=16)
    often = measure_brokers(1, 10.0, SMALL, brokers=16)
    assert static.network == pytest.approx(often.network)
    assert static.network < often.overlay < seldom.overlay < static.overlay
    assert static.overhead_kbps < seldom.overhead_kbps < often.overhead_kbps


def test_o3_clients_gain_by_home_brokers_and_more_by_both() -> None:
    lengths = [
        measure_clients(1, approach, 10.0, SMALL, brokers=10, producers=4, consumers=16).length
        for approach in ("static", "home broker only", "both", "best")
    ]
    assert lengths == sorted(lengths, reverse=True)
    assert len(set(lengths)) == 4


def test_o3_balancing_lowers_the_highest_load() -> None:
    setting = Setting(20, (750.0, 500.0), (1.0, 20.0), 30.0, 250.0, 60.0)
    balanced = measure_load(2, 0.9, setting=setting)
    careless = measure_load(2, 0.9, balance=False, setting=setting)
    assert balanced.highest < careless.highest
    assert balanced.length > careless.length


def test_o1_hosts_move_alike_whatever_the_approach() -> None:
    one, other = (Arena(3, SMALL, OverlayParams(topology=topology), 10) for topology in ("given", "adaptive"))
    one.until(20)
    other.until(20)
    assert [one.network("broker-1", each) for each in one.brokers] == [
        other.network("broker-1", each) for each in other.brokers
    ]


@pytest.mark.parametrize("name", ["overlay-clients", "overlay-static"])
def test_o1_every_event_of_the_scenarios_arrives_once_and_in_order(name: str) -> None:
    scenario = replace(load_scenario(SCENARIOS / f"{name}.toml"), seconds=40.0)
    publish = tuple(replace(rule, until_s=30.0) for rule in scenario.publish)
    result = run_scenario(replace(scenario, publish=publish), kit_of(scenario.protocol, scenario.radio), 1)
    assert result.expected > 500
    assert (result.missed, result.unwanted, result.duplicates) == (0, 0, 0)
