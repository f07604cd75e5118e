"""S9, S12: experiments 5.1, 5.2 and 5.4 of the STEAM paper on real nodes, deployed as the authors did it.

Four machines on one network that reaches all of them, one with the producer, three with an equal share of the
consumers; a radio range of 200 m is emulated: what comes from farther away is discarded.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from roamcast.adhoc.proximity.messages import Raised
from roamcast.model.context import Context
from roamcast.model.event import ContentType, Event, EventType
from roamcast.model.region import Circle
from roamcast.model.space import Plane
from roamcast.model.values import Point, Velocity
from roamcast.multicast.host import NodeThread
from roamcast.multicast.keys import Identity
from roamcast.multicast.running import NodeSettings, RunningNode
from roamcast.node.boundary import Broadcast
from roamcast.papers.assemble import kit_of
from tests.multicast.lan import PATIENCE_S, until
from tests.networks.namespaces import Machines, enter, why_not
from tests.networks.radio import TapRadio
from tests.ports import free_port

REASON = why_not()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(REASON is not None, reason=REASON or "")]
MACHINES = ("producer", "one", "two", "three")
RANGE_M = 200.0
MIDDLE = Point(0.0, 0.0)
WARNING = EventType("warning")
PAPER = {"kind": "proximity", "preset": "paper", "announcement_period_ms": 200.0}


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with Machines(list(MACHINES)) as made, TapRadio(made.cards, lambda name, _: MIDDLE, RANGE_M):
        yield made


class Deployment:
    """Nodes by name, each on a machine, and how many frames each event took."""

    def __init__(self, machines: Machines, **protocol: Any) -> None:
        self.port = free_port()
        self.protocol = {**PAPER, **protocol}
        self.threads = {name: NodeThread(name) for name in MACHINES}
        self.nodes: dict[str, tuple[str, RunningNode]] = {}
        self.got: dict[str, list[Event]] = {}
        self.cost: Counter[str] = Counter()
        self.sent: dict[str, set[str]] = {}
        """By node, the events it raised or forwarded."""
        for name, namespace in machines.namespaces.items():
            self.on(name, partial(enter, namespace))

    def __enter__(self) -> "Deployment":
        return self

    def __exit__(self, *_: object) -> None:
        for machine, node in self.nodes.values():
            asyncio.run_coroutine_threadsafe(node.stop(), self.threads[machine].loop).result(PATIENCE_S)
        for thread in self.threads.values():
            thread.stop()

    def on(self, machine: str, action: Callable[[], Any]) -> Any:
        async def work() -> Any:
            return action()

        return asyncio.run_coroutine_threadsafe(work(), self.threads[machine].loop).result(PATIENCE_S)

    def add(self, name: str, machine: str, place: Point) -> None:
        self.got[name] = []
        self.nodes[name] = machine, self.on(machine, partial(self._open, name, place))

    def _open(self, name: str, place: Point) -> RunningNode:
        settings = NodeSettings(
            name=name,
            identity=Identity.fresh(),
            space=Plane(),
            port=self.port,
            range_m=RANGE_M,
            emulates_range=True,
        )
        node = RunningNode(settings, kit_of({**self.protocol, "radio_range_m": RANGE_M}), Context(name, place))
        send = node.air.broadcast

        def counted(data: bytes, said: Broadcast) -> int:
            if isinstance(said.message, Raised):
                self.cost[said.message.event.id] += 1
                self.sent.setdefault(name, set()).add(said.message.event.id)
            return send(data, said)

        node.air.broadcast = counted  # type: ignore[method-assign]
        node.start()
        return node

    def do(self, name: str, action: Callable[[RunningNode], Any]) -> Any:
        machine, node = self.nodes[name]
        return self.on(machine, lambda: action(node))

    def listen(self, name: str, subject: str, filter_: str = "") -> None:
        def listening(node: RunningNode) -> str:
            if filter_:
                return node.port.subscribe(subject, self.got[name].append, filter_)
            return node.port.subscribe(subject, self.got[name].append)

        self.do(name, listening)

    def announce(self, event_type: EventType, radius_m: float, name: str = "") -> None:
        circle = Circle(MIDDLE, float(radius_m))
        self.do("p", lambda node: node.port.announce(event_type, circle, stationary=True, name=name))

    def put(self, name: str, place: Point) -> None:
        """On its way east, so slowly that it does not matter how long the test takes."""
        self.do(name, lambda node: node.move(place, Velocity(1e-3, 0.0)))

    def wait_for_groups(self, name: str, count: int) -> None:
        node: Any = self.nodes[name][1].host.host.node
        asyncio.run(until(lambda: len(node.discovery.groups) == count))

    def wait_for_cost(self, event: Event, cost: int) -> None:
        asyncio.run(until(lambda: self.cost[event.id] == cost))

    def wait_for_event(self, event: Event, name: str) -> None:
        asyncio.run(until(lambda: [each.id for each in self.got[name]].count(event.id) == 1))

    def raise_(self, subject: str, within: str = "", **content: Any) -> Event:
        event: Event = self.do("p", lambda node: node.port.raise_(subject, content, within=within))
        return event


ROAD = {f"v{number}": Point(x, 5.0) for number, x in enumerate((-640, -500, -360, -180, -90, 60, 170, 340, 490, 650))}
"""A road of 1,400 m, covered: nobody is farther than 200 m from the next."""


def road(machines: Machines, **protocol: Any) -> Deployment:
    made = Deployment(machines, **protocol)
    made.add("p", "producer", MIDDLE)
    for number, (name, place) in enumerate(ROAD.items()):
        made.add(name, MACHINES[1 + number % 3], place)
        made.listen(name, "warning")
    return made


def inside(radius_m: float) -> list[str]:
    return [name for name, place in ROAD.items() if Plane().within(MIDDLE, place, radius_m)]


def test_cost_is_one_inside_the_range_and_one_more_for_each_member_beyond(machines: Machines) -> None:
    """5.1, equations (1) and (2), for nested proximities of one type; all events delivered to all members and to
    nobody else."""
    radii = (100, 200, 400, 700)
    costs: dict[str, int] = {}
    with road(machines) as made:
        for radius_m in radii:
            made.announce(WARNING, radius_m, str(radius_m))
        for name in ROAD:
            made.wait_for_groups(name, sum(name in inside(radius_m) for radius_m in radii))
        for radius_m in radii:
            event, members = made.raise_("warning", str(radius_m)), inside(radius_m)
            costs[event.id] = 1 if radius_m <= RANGE_M else 1 + len(members)
            made.wait_for_cost(event, costs[event.id])
            for name in members:
                made.wait_for_event(event, name)
        assert made.cost == costs
        assert {name: len(made.got[name]) for name in ROAD} == {
            name: sum(name in inside(radius_m) for radius_m in radii) for name in ROAD
        }


def test_gossip_saves_what_those_beyond_the_distance_do_not_forward(machines: Machines) -> None:
    """5.4, with G(200, 0): only those within 200 m forward, and reach 400 m."""
    with road(machines, gossip_distance_m=200.0, gossip_probability=0.0) as made:
        made.announce(WARNING, 380)
        members = inside(380)
        for name in members:
            made.wait_for_groups(name, 1)
        event = made.raise_("warning")
        for name in members:
            made.wait_for_event(event, name)
        made.wait_for_cost(event, 1 + len(inside(200)))
        assert len(inside(200)) < len(members)


def test_gossip_with_the_papers_probability_forwards_about_so_often_and_loses_only_by_it(machines: Machines) -> None:
    """5.4, G(200, 0.8): two far members hear every event, and are the only way to those beyond them."""
    with road(machines, gossip_distance_m=200.0, gossip_probability=0.8) as made:
        made.announce(WARNING, 700)
        for name in ROAD:
            made.wait_for_groups(name, 1)
        events = [made.raise_("warning") for _ in range(40)]
        chains = (("v7", "v8", "v9"), ("v2", "v1", "v0"))
        asyncio.run(until(lambda: all(len(made.got[name]) == len(events) for name in (*inside(200), "v7", "v2"))))

        def passed_on(before: str, after: str) -> bool:
            return {event.id for event in made.got[after]} == made.sent.get(before, set())

        for chain in chains:
            for before, after in pairwise(chain):
                asyncio.run(until(partial(passed_on, before, after)))
        forwarded = sum(len(made.sent[chain[0]]) for chain in chains)
        assert 0.5 < forwarded / (len(chains) * len(events)) < 1
        assert all(event.id in made.sent[name] for event in events for name in inside(200))


STEP_M = 11.176
"""A second at 25 miles an hour."""
LIGHT = EventType("light", {"position": ContentType.POSITION})
RADIO_LIGHT = EventType("unfiltered light", {"position": ContentType.POSITION})


def test_filters_save_95_percent_of_the_deliveries_at_an_intersection(machines: Machines) -> None:
    """5.2: a vehicle passes a light that raises an event a second; with the proximity filter of 40 m and the content
    filter it gets those on its way in, without filters all within radio range, also those for the other approach."""
    with Deployment(machines) as made:
        made.add("p", "producer", MIDDLE)
        made.add("v", "one", Point(-209.0, 0.0))
        made.announce(LIGHT, 40)
        made.announce(RADIO_LIGHT, RANGE_M)
        made.listen("v", "light", "approaching(position)")
        made.listen("v", "unfiltered light")
        approaches = 2
        for step in range(38):
            x = -209.0 + step * STEP_M
            made.put("v", Point(x, 0.0))
            expected = (abs(x) <= 40) + (abs(x) <= RANGE_M)
            if not expected:
                continue
            made.wait_for_groups("v", expected)
            made.raise_("light", position=MIDDLE)
            for _ in range(approaches):
                made.wait_for_event(made.raise_("unfiltered light", position=MIDDLE), "v")
        filtered = sum(event.subject == "light" for event in made.got["v"])
        assert 3 <= filtered <= 4
        assert 1 - filtered / (len(made.got["v"]) - filtered) == pytest.approx(0.95, abs=0.01)
