"""One program of flood watch (O8): a broker, PreSend or the client, in a process and namespace of its own.

    python -m tests.broker.overlay_live.watcher '{"name": "A", ...}'

A node of the overlay as it is, on sockets: searches go over multicast, everything else over TCP, and the packets of
both over whatever network there is. It is told what to do in lines of JSON, and says what happens in such lines.
"""

import asyncio
import os
import sys
import time
from typing import Any

import msgspec
from msgspec import Struct

from roamcast import Event
from roamcast.broker.modulators.spec import spec_to_text
from roamcast.broker.overlay.broker import OverlayBroker
from roamcast.broker.overlay.client import OverlayClient
from roamcast.model.context import Context
from roamcast.model.space import Plane
from roamcast.model.values import Point, Value
from roamcast.multicast.keys import Identity
from roamcast.multicast.running import NodeSettings, RunningNode
from roamcast.papers.assemble import kit_of
from tests.broker.test_modulator_page import FLOOD
from tests.networks.routing import LinkState

AIR_PORT = 27_239


class Part(Struct):
    """What a program is."""

    name: str
    addresses: dict[str, tuple[str, int]]
    """Where the nodes are, this one among them."""
    protocol: dict[str, Any]
    interfaces: tuple[str, ...]
    """Where it searches: PreSend reaches only the broker on its own machine."""
    routes: bool
    """Whether it does the routing of its machine; one program on each does."""
    side: int
    """How many columns and rows the land has."""


class Watcher:
    def __init__(self, part: Part) -> None:
        self.part = part
        self.routing = LinkState(part.addresses[part.name][0]) if part.routes else None
        settings = NodeSettings(
            name=part.name, identity=Identity.fresh(), space=Plane(), port=AIR_PORT, interfaces=part.interfaces
        )
        here = Context(part.name, Point(0.0, 0.0))
        self.node = RunningNode(settings, kit_of(part.protocol), here, network=self)
        self.node.host.addresses = {name: place for name, place in part.addresses.items() if name != part.name}

    def hops(self, peer: str) -> int | None:
        return None if self.routing is None else self.routing.hops(self.part.addresses[peer][0])

    async def run(self) -> None:
        if self.routing is not None:
            await self.routing.open()
        await self.node.host.links.listen(*self.part.addresses[self.part.name])
        self.node.start()
        if self.part.name == "P":
            self.node.port.announce(FLOOD.RAIN)
        say(ready=self.part.name)
        lines = asyncio.StreamReader(limit=1 << 20)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while line := await lines.readline():
            self.told(msgspec.json.decode(line))

    def told(self, command: dict[str, Any]) -> None:
        match command:
            case {"rain": hour}:
                content: dict[str, Value] = {"rain": rain_of(hour, self.part.side)}
                say(raised=self.node.port.raise_("weather/rain", content, lifetime_s=600).id)
            case {"rows": rows}:
                self.subscribe(rows)
            case {"state": _}:
                say(state=self.state())

    def subscribe(self, rows: int) -> None:
        spec = FLOOD.in_python(asking(rows, self.part.side))
        self.node.port.subscribe("weather/rain", self.got, modulator=spec_to_text(spec))

    def got(self, event: Event) -> None:
        now_us = time.time_ns() // 1_000
        cells = len(str(event.attributes["depth"])) // FLOOD.DIGITS
        deepest = event.attributes["deepest"]
        say(got=event.id, latency_us=now_us - event.published_us, cells=cells, deepest=deepest)

    def state(self) -> dict[str, Any]:
        node = self.node.host.host.node
        known = {"notes": dict(self.node.notes), "hops": {peer: self.hops(peer) for peer in self.peers()}}
        if isinstance(node, OverlayBroker):
            places = {each.subscription.subscriber: each.place for each in node.brokers.directory.entries.values()}
            return {**known, "posts": len(node.clients.posts), "places": places}
        assert isinstance(node, OverlayClient)
        return {**known, "home": node.home}

    def peers(self) -> list[str]:
        return sorted(self.node.host.addresses)


def rain_of(hour: int, side: int) -> str:
    """The storm comes again and again."""
    rain: str = FLOOD.storm(hour % side, side, side)
    return rain


def asking(rows: int, side: int) -> dict[str, Value]:
    """About the southernmost rows."""
    land = {"columns": side, "terrain": FLOOD.valley(side, side)}
    return {**land, "left": 0, "top": side - rows, "right": side, "bottom": side}


def say(**what: Any) -> None:
    os.write(1, msgspec.json.encode(what) + b"\n")


async def main() -> None:
    watcher = Watcher(msgspec.json.decode(sys.argv[1], type=Part))
    await watcher.run()


if __name__ == "__main__":
    asyncio.run(main())
