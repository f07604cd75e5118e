"""All who hear a frame are given the same value, so nobody may write into it (`sim/transport.py`)."""

import tomllib
from typing import Any

import pytest
from msgspec.structs import replace

from roamcast.adhoc.routes import Routed
from roamcast.node.boundary import Does, Input, Message, Node, Received
from roamcast.node.kit import ProtocolKit, Seat
from roamcast.papers.assemble import kit_of
from roamcast.sim.radio import Frame
from roamcast.sim.run import Run
from roamcast.sim.scenario import scenario_from
from roamcast.sim.world import World
from tests.sim.walkers import PROTOCOLS, walkers_toml

pytestmark = pytest.mark.slow


class WatchedWorld(World):
    """Compares every frame with what it was before anybody had it: after its hearers, and once more at the end, since
    a node may keep a part of what it heard and write into that later."""

    def __init__(self, *parts: Any) -> None:
        self.arrived: list[tuple[Message, bytes]] = []
        self.changed: list[str] = []
        super().__init__(*parts)

    def _frame_arrives(self, frame: Frame, hearers: list[int]) -> None:
        message = frame.said.message
        before = self.codec.encode(message)
        self.arrived.append((message, before))
        super()._frame_arrives(frame, hearers)
        self.compare(message, before)

    def compare(self, message: Message, before: bytes) -> None:
        if self.codec.encode(message) != before:
            self.changed.append(message.kind)


class Scribbler:
    """A node that writes into what it hears, and is otherwise as it was."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def handle(self, now_us: int, given: Input) -> list[Does]:
        if isinstance(given, Received) and isinstance(given.message, Routed):
            given.message.route.here.attributes["seen"] = True
        return self.node.handle(now_us, given)


def watched(protocol: str, kit: ProtocolKit, monkeypatch: pytest.MonkeyPatch) -> WatchedWorld:
    monkeypatch.setattr("roamcast.sim.run.World", WatchedWorld)
    run = Run(scenario_from(tomllib.loads(walkers_toml(protocol))), kit, seed=3)
    for _ in run.steps():
        pass
    assert run.tally.deliveries.total() > 0
    assert isinstance(run.world, WatchedWorld)
    for message, before in run.world.arrived:
        run.world.compare(message, before)
    return run.world


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_node_changes_a_frame_that_others_have_too(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = watched(protocol, kit_of({"kind": protocol}), monkeypatch)
    assert len(world.arrived) > 100
    assert world.changed == []


def test_a_node_that_writes_into_what_it_heard_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = kit_of({"kind": "context"})

    def scribbler(seat: Seat) -> Node:
        return Scribbler(kit.make_node(seat))

    world = watched("context", replace(kit, make_node=scribbler), monkeypatch)
    assert "event" in world.changed
