"""Real nodes on the loopback interface of this machine: each has its own sockets, all share a loop and a port."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from roamcast.model.context import Context
from roamcast.model.event import ContentType, Event, EventType
from roamcast.model.region import Circle
from roamcast.model.space import Earth, Plane
from roamcast.model.values import Point
from roamcast.multicast.keys import OPEN_GROUP_KEY, Identity
from roamcast.multicast.running import NodeSettings, RunningNode
from roamcast.papers.assemble import kit_of
from tests.ports import free_port

PATIENCE_S = 20.0
PROXIMITY = {"kind": "proximity", "preset": "vehicle", "announcement_period_ms": 100.0}
CONTEXT = {"kind": "context", "beacon_s": 0.2, "neighbour_s": 1.0, "tick_s": 0.1, "refresh_s": 0.5}
ICE = EventType("ice", {"depth": ContentType.INTEGER})


async def until(holds: Callable[[], object]) -> None:
    async def wait() -> None:
        while not holds():
            await asyncio.sleep(0.005)

    await asyncio.wait_for(wait(), PATIENCE_S)


class Lan:
    """Nodes by name, and what each got."""

    def __init__(
        self,
        protocol: dict[str, Any] | None = None,
        space: Plane | Earth | None = None,
        wanted: tuple[str, ...] = ("lo",),
    ) -> None:
        self.protocol = protocol or PROXIMITY
        self.wanted = wanted
        self.space = space or Plane()
        self.port = free_port()
        self.nodes: dict[str, RunningNode] = {}
        self.identities: dict[str, Identity] = {}
        self.got: dict[str, list[Event]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for name in list(self.nodes):
            await self.stop(name)

    def node(
        self,
        name: str,
        x: float = 0.0,
        y: float = 0.0,
        *,
        group_key: bytes = OPEN_GROUP_KEY,
        identity: Identity | None = None,
        known: dict[str, bytes] | None = None,
        journal: Path | None = None,
        prepares_signatures: bool = False,
        emulated_range_m: float | None = None,
    ) -> RunningNode:
        identity = identity or self.identities.setdefault(name, Identity.fresh())
        settings = NodeSettings(
            name=name,
            identity=identity,
            space=self.space,
            group_key=group_key,
            known=known,
            port=self.port,
            interfaces=self.wanted,
            journal=journal,
            prepares_signatures=prepares_signatures,
            range_m=emulated_range_m or 0.0,
            emulates_range=emulated_range_m is not None,
        )
        node = RunningNode(settings, kit_of(self.protocol), Context(name, Point(x, y)))
        self.nodes[name] = node
        node.start()
        return node

    async def acquainted(self) -> tuple[RunningNode, RunningNode]:
        """A producer and a consumer 50 m apart that has heard of its proximity."""
        producer, consumer = self.node("producer"), self.node("consumer", 50)
        self.listen("consumer")
        self.announce("producer")
        await until(lambda: self.members("consumer") == 1)
        return producer, consumer

    async def stop(self, name: str) -> None:
        await self.nodes.pop(name).stop()

    def listen(self, name: str, subject: str = "ice", **options: Any) -> str:
        got = self.got.setdefault(name, [])
        return self.nodes[name].port.subscribe(subject, got.append, **options)

    def announce(self, name: str, radius_m: float = 100.0, event_type: EventType = ICE) -> None:
        self.nodes[name].port.announce(event_type, Circle(Point(0.0, 0.0), radius_m))

    def depths(self, name: str) -> list[object]:
        return [event.attributes["depth"] for event in self.got.get(name, [])]

    def members(self, name: str) -> int:
        """How many groups of proximities a node is in."""
        return len(self.nodes[name].host.host.node.discovery.groups)  # type: ignore[attr-defined]


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await story()

    asyncio.run(whole())
