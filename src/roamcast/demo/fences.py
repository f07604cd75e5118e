"""The demo's fences, and who watches them: a school zone, the harbour, and a ring that moves with the ambulance.

A watcher defines its fence at its broker, and subscribes to what happens there; brokers tell it, wherever the client
is that passes. The ambulance does the same with the ring (`actors.py`). Positions are exact, so that
leaving counts at once.
"""

from contextlib import AsyncExitStack

from msgspec import Struct

from roamcast.demo.actors import Actor, Stage
from roamcast.model.region import Polygon, Region
from roamcast.model.values import Point, Value


class Watched(Struct, frozen=True):
    name: str
    watcher: str
    place: Point
    """Where the watcher stands."""
    region: Region
    on: tuple[str, ...]
    hosts: str | None = None


def polygon(*corners: tuple[float, float]) -> Polygon:
    return Polygon(tuple(Point(x, y) for x, y in corners))


FENCES = (
    Watched(
        "school",
        "guard-1",
        Point(24.9447, 60.1662),
        polygon((24.9425, 60.1650), (24.9468, 60.1648), (24.9472, 60.1674), (24.9430, 60.1677)),
        ("enter", "leave", "cross"),
        "type IN ('car', 'bus', 'ambulance')",
    ),
    Watched(
        "harbour",
        "harbour-master",
        Point(24.9525, 60.1668),
        polygon((24.9498, 60.1642), (24.9540, 60.1640), (24.9540, 60.1686), (24.9505, 60.1686)),
        ("enter", "leave"),
    ),
)


class Watcher(Actor):
    """Somebody who stands at a fence."""

    def __init__(self, stage: Stage, watched: Watched) -> None:
        super().__init__(stage, watched.watcher, watched.place)
        self.watched = watched

    def attributes(self) -> dict[str, Value]:
        return {"type": "person"}

    async def begin(self, stack: AsyncExitStack) -> None:
        await super().begin(stack)
        given = self.watched
        await self.client.fences.put(given.name, given.region, on=given.on, hosts=given.hosts, hysteresis_m=0.0)

    async def subscribe(self) -> None:
        await self.client.fences(self.watched.name)

    async def live(self) -> None:
        await self.stage.closing.wait()
