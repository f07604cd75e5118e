"""Real brokers in the test's own event loop, linked as a star, with their data in a directory of the test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from roamcast.server.running import RunningBroker
from roamcast.server.settings import LinkSettings, Listener, Peer, Settings


class Town:
    """Brokers by name; each can be stopped and started again with what it has stored, at its old ports."""

    def __init__(self, folder: Path, space: Literal["plane", "earth"]) -> None:
        self.folder = folder
        self.space = space
        self.brokers: dict[str, RunningBroker] = {}
        self.ports: dict[str, int] = {}
        self.link_ports: dict[str, int] = {}
        self._peers: dict[str, tuple[Peer, ...]] = {}

    def address(self, name: str) -> str:
        return f"mqtt://127.0.0.1:{self.ports[name]}"

    async def start(self, name: str, *peers: str) -> None:
        if name not in self._peers:
            self._peers[name] = tuple(Peer(each, "127.0.0.1", self.link_ports[each]) for each in peers)
        settings = Settings(
            name,
            str(self.folder / name),
            self.space,
            listeners=(Listener(port=self.ports.get(name, 0)),),
            links=LinkSettings(host="127.0.0.1", port=self.link_ports.get(name, 0), peers=self._peers[name]),
            log_level="error",
        )
        broker = self.brokers[name] = RunningBroker(settings)
        await broker.start()
        for address in broker.addresses:
            (self.link_ports if address.what == "links" else self.ports)[name] = address.port

    async def stop(self, name: str) -> None:
        await self.brokers.pop(name).stop()

    async def linked(self, name: str, peer: str) -> None:
        links = self.brokers[name]._links
        assert links is not None
        while not links.is_up(peer):
            await asyncio.sleep(0.01)


@asynccontextmanager
async def town(folder: Path, *names: str, space: Literal["plane", "earth"] = "plane") -> AsyncIterator[Town]:
    """The first is in the middle."""
    made = Town(folder, space)
    try:
        for name in names:
            await made.start(name, *names[: 0 if name == names[0] else 1])
            if name != names[0]:
                await made.linked(name, names[0])
        yield made
    finally:
        for name in list(made.brokers):
            await made.stop(name)
