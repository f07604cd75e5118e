"""Ad hoc nodes, gateways and brokers in one loop, all on loopback."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from roamcast.client import Client, ClientEvent
from roamcast.gateway.running import Gateway, GatewaySettings
from tests.client.brokers import Town, town
from tests.multicast.lan import ICE, Lan, until

CARRIES_ICE = GatewaySettings(subjects=("ice",), types=(ICE,))


def has_met(gateway: Gateway, events: int) -> bool:
    return len(gateway.crossing.met) == events and gateway.idle


class Places:
    def __init__(self, brokers: Town, areas: list[Lan]) -> None:
        self.brokers = brokers
        self.areas = areas
        self.gateways: dict[str, Gateway] = {}
        self.got: dict[str, list[ClientEvent]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def gateway(self, area: Lan, name: str, broker: str, settings: GatewaySettings = CARRIES_ICE) -> None:
        """Returns when events can cross."""
        node = area.nodes.get(name) or area.node(name, 20)
        ready = asyncio.Event()

        async def live() -> None:
            async with Client(name, [self.brokers.address(broker)]) as client:
                self.gateways[name] = Gateway(node, client, settings, ready=ready.set)
                await self.gateways[name].run()

        self._tasks.append(asyncio.get_running_loop().create_task(live()))
        waiting = asyncio.get_running_loop().create_task(ready.wait())
        done, _ = await asyncio.wait([waiting, self._tasks[-1]], return_when=asyncio.FIRST_COMPLETED, timeout=30)
        assert waiting in done, f"{name} is not ready"

    async def reader(self, name: str, broker: str, subject: str = "ice", **options: Any) -> Client:
        client = Client(name, [self.brokers.address(broker)])
        got = self.got[name] = []
        ready = asyncio.Event()

        async def read() -> None:
            async with client:
                await client.subscribe(subject, **options)
                ready.set()
                async for event in client.events():
                    got.append(event)

        self._tasks.append(asyncio.get_running_loop().create_task(read()))
        await asyncio.wait_for(ready.wait(), 30)
        return client

    async def met(self, events: int) -> None:
        """Every gateway has met so many events, on one side or the other, and has published what it was to."""
        for gateway in self.gateways.values():
            await until(partial(has_met, gateway, events))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def places(folder: Path, *protocols: dict[str, Any]) -> AsyncIterator[Places]:
    """Two brokers, and an area for each protocol."""
    async with town(folder, "one", "two") as brokers:
        areas = [Lan(protocol) for protocol in protocols]
        made = Places(brokers, areas)
        try:
            yield made
        finally:
            await made.close()
            for area in areas:
                await area.__aexit__(None, None, None)


def told(story: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await asyncio.wait_for(story(), 120)

    asyncio.run(whole())
