"""L1, S9: nodes on machines that do not all hear each other, and processes that know nothing but their names."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roamcast.experiments.assemble import kit_of
from roamcast.live.adhoc.keys import Identity
from roamcast.live.adhoc.running import NodeSettings, RunningNode
from roamcast.live.runtime.host import NodeThread
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.region import Circle
from roamcast.model.space import Plane
from roamcast.model.values import Point
from tests.live.adhoc.lan import CONTEXT, ICE, PATIENCE_S, PROXIMITY, free_port, until
from tests.live.adhoc.terminals import Terminal
from tests.networks.namespaces import Machines, enter, why_not
from tests.networks.radio import TapRadio

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
            self.call(name, lambda place=namespace: enter(place))
            self.nodes[name] = self.call(name, lambda name=name: self._open(name, protocol))

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
