"""L1, S9: nodes on machines that do not all hear each other, and processes that know nothing but their names."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from roamcast.adhoc.proximity.groups import DISCOVERY_GROUP
from roamcast.model.context import Context
from roamcast.model.event import Event, EventType
from roamcast.model.region import Circle
from roamcast.model.space import Plane
from roamcast.model.values import Point
from roamcast.multicast.host import NodeThread
from roamcast.multicast.interfaces import all_interfaces
from roamcast.multicast.keys import Identity
from roamcast.multicast.running import NodeSettings, RunningNode
from roamcast.multicast.sockets import group_address
from roamcast.papers.assemble import kit_of
from tests.multicast.lan import CONTEXT, ICE, PATIENCE_S, PROXIMITY, Lan, until
from tests.multicast.terminals import Terminal
from tests.networks.namespaces import Machines, enter, inside, ip, remove_leftovers, why_not
from tests.networks.radio import TapRadio
from tests.ports import free_port

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")
RANGE_M = 100.0
LINE = {"a": Point(0.0, 0.0), "b": Point(80.0, 0.0), "c": Point(160.0, 0.0), "d": Point(240.0, 0.0)}


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with Machines(list(LINE)) as made:
        yield made


class Neighbours:
    """Nodes in a line, each of which hears only those next to it."""

    def __init__(self, machines: Machines, protocol: dict[str, Any]) -> None:
        self.got: dict[str, list[Event]] = {name: [] for name in LINE}
        self.port = free_port()
        self.threads = {name: NodeThread(name) for name in LINE}
        self.nodes: dict[str, RunningNode] = {}
        for name, namespace in machines.namespaces.items():
            self.call(name, partial(enter, namespace))
            self.nodes[name] = self.call(name, partial(self._open, name, protocol))

    def _open(self, name: str, protocol: dict[str, Any]) -> RunningNode:
        settings = NodeSettings(name=name, identity=Identity.fresh(), space=Plane(), port=self.port)
        node = RunningNode(settings, kit_of({**protocol, "radio_range_m": RANGE_M}), Context(name, LINE[name]))
        node.start()
        node.port.subscribe("ice", self.got[name].append)
        return node

    def call(self, name: str, action: Callable[[], Any]) -> Any:
        async def work() -> Any:
            return action()

        return asyncio.run_coroutine_threadsafe(work(), self.threads[name].loop).result(PATIENCE_S)

    def wait(self, holds: Callable[[], object]) -> None:
        asyncio.run(until(holds))

    def depths(self, name: str) -> list[object]:
        return [event.attributes["depth"] for event in self.got[name]]

    def close(self) -> None:
        for name, node in self.nodes.items():
            asyncio.run_coroutine_threadsafe(node.stop(), self.threads[name].loop).result(PATIENCE_S)
            self.threads[name].stop()


@pytest.fixture
def line(machines: Machines, request: pytest.FixtureRequest) -> Iterator[Neighbours]:
    with TapRadio(machines.cards, lambda name, _: LINE[name], RANGE_M):
        made = Neighbours(machines, request.param)
        yield made
        made.close()


@pytest.mark.parametrize("line", [PROXIMITY], indirect=True)
def test_l1_s9_an_event_is_forwarded_through_its_proximity_with_its_producers_signature(line: Neighbours) -> None:
    line.call("a", lambda: line.nodes["a"].port.announce(ICE, Circle(Point(0.0, 0.0), 200.0)))
    node_of_c: Any = line.nodes["c"].host.host.node
    line.wait(lambda: node_of_c.discovery.groups)
    line.call("a", lambda: line.nodes["a"].port.raise_("ice", {"depth": 7}))
    line.wait(lambda: line.depths("b") == line.depths("c") == [7])
    # c never heard a itself, and d is outside.
    assert "b" in line.nodes["c"].seals.peers.by_name
    assert line.nodes["c"].seals.peers.by_name["a"].session is None
    assert line.depths("d") == []
    assert all(
        node.air.drops.counts["unattested"] == node.air.drops.counts["forged"] == 0 for node in line.nodes.values()
    )


@pytest.mark.parametrize("line", [CONTEXT], indirect=True)
def test_l1_c8_an_event_of_the_context_protocol_travels_hop_by_hop(line: Neighbours) -> None:
    line.call("a", lambda: line.nodes["a"].port.announce(ICE))
    line.call("a", lambda: line.nodes["a"].port.raise_("ice", {"depth": 7}, lifetime_s=30))
    line.wait(lambda: line.depths("b") == line.depths("c") == line.depths("d") == [7])
    assert line.nodes["d"].seals.peers.by_name["a"].session is None


@pytest.mark.slow
def test_l1_on_a_lan_two_processes_find_each_other_with_nothing_but_their_names(
    machines: Machines, tmp_path: Path
) -> None:
    with TapRadio(machines.cards, lambda name, _: LINE[name], RANGE_M):
        spaces = machines.namespaces
        ann = Terminal(tmp_path / "one", ("ann",), before=("ip", "netns", "exec", spaces["a"], sys.executable))
        bob = Terminal(tmp_path / "other", ("bob",), before=("ip", "netns", "exec", spaces["b"], sys.executable))
        try:
            assert "on air0 (10.77." in ann.until("is in the open group")
            ann.until("heard of bob")
            bob.until("heard of ann")
            bob.type("hello")
            ann.until("say  from bob, 0 m away  text=hello")
            assert ann.stop() == bob.stop() == 0
        finally:
            ann.close()
            bob.close()


def plug_in(namespace: str, number: int) -> None:
    """A cable with both ends in one machine."""
    ends = f"left{number}", f"right{number}"
    ip("-n", namespace, "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
    for side, end in enumerate(ends):
        ip("-n", namespace, "addr", "add", f"10.78.{number}.{side + 1}/32", "dev", end)
        ip("-n", namespace, "link", "set", end, "up")
    # The kernel tells of the carrier a moment after both ends are up.
    gives_up_s = time.monotonic() + PATIENCE_S
    while not {*ends} <= {each.name for each in inside(namespace, all_interfaces)}:
        assert time.monotonic() < gives_up_s


@pytest.fixture
def crossroads(request: pytest.FixtureRequest) -> Iterator[str]:
    """A machine with so many cables."""
    remove_leftovers()
    namespace = f"rcast-{os.getpid()}-crossroads"
    ip("netns", "add", namespace)
    try:
        for number in range(request.param):
            plug_in(namespace, number)
        yield namespace
    finally:
        ip("netns", "del", namespace)


@pytest.mark.parametrize("crossroads", [13], indirect=True)
def test_l1_a_machine_with_very_many_interfaces_is_in_all_its_groups_on_all_of_them(crossroads: str) -> None:
    """More of them than the groups that Linux lets one socket join."""
    subjects = [f"road/{number}" for number in range(3)]

    async def story() -> list[str]:
        async with Lan(wanted=()) as lan:
            producer, consumer = lan.node("producer"), lan.node("consumer", 50)
            assert len(consumer.air.interfaces) == 26
            lan.listen("consumer", "road/#")
            for subject in subjects:
                lan.announce("producer", event_type=EventType(subject))
            await until(lambda: lan.members("consumer") == len(subjects))
            for subject in subjects:
                producer.port.raise_(subject)
            await until(lambda: len(lan.got["consumer"]) == len(subjects))
            joined = Path("/proc/thread-self/net/igmp").read_text()
            group = group_address(next(group for group in consumer.air._joined if group > DISCOVERY_GROUP))
            little_endian = "".join(f"{int(octet):02X}" for octet in reversed(group.split(".")))
            assert joined.count(little_endian) == 26
            sockets = len(consumer.air._members)
            for subject in subjects:
                producer.port.unannounce(subject)
            await until(lambda: lan.members("consumer") == 0)
            assert len(consumer.air._members) < sockets
            assert consumer.air.refused_groups == producer.air.refused_groups == 0
        return [event.subject for event in lan.got["consumer"]]

    assert sorted(inside(crossroads, lambda: asyncio.run(story()))) == subjects


@pytest.mark.parametrize("crossroads", [1], indirect=True)
def test_l1_an_interface_that_was_named_is_used_again_when_it_comes_back(crossroads: str) -> None:
    """As that of a Wi-Fi stick that was pulled out: it has its old name, and is another one to the kernel."""

    async def story() -> list[object]:
        async with Lan(wanted=("left0",)) as lan:
            nodes = await lan.acquainted()
            ip("-n", crossroads, "link", "del", "left0")
            assert [node.air.refresh() for node in nodes] == [False, False]
            plug_in(crossroads, 0)
            assert [node.air.refresh() for node in nodes] == [True, True]
            nodes[0].port.raise_("ice", {"depth": 5})
            await until(lambda: lan.depths("consumer"))
        return lan.depths("consumer")

    assert inside(crossroads, lambda: asyncio.run(story())) == [5]


@pytest.mark.slow
@pytest.mark.parametrize("crossroads", [1], indirect=True)
def test_l6_a_node_says_which_interfaces_it_uses_when_others_are_there(crossroads: str, tmp_path: Path) -> None:
    node = Terminal(tmp_path, ("ann",), before=("ip", "netns", "exec", crossroads, sys.executable))
    try:
        assert "left0 (10.78.0.1)" in node.until("is in the open group")
        ip("-n", crossroads, "link", "del", "left0")
        node.until("ann is on no network now")
        plug_in(crossroads, 1)
        assert "left1 (10.78.1.1)" in node.until("ann is on ")
        assert node.stop() == 0
    finally:
        node.close()
