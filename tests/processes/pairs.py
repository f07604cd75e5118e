"""Two broker processes of one name on one database, and readers that find whichever of them serves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from roamcast.client import Client
from tests.processes.fleet import BrokerProcess
from tests.processes.vendors import without_hello

NAME = "north"
KEEP_ALIVE_S = 2
LEASE_S = 6.0
"""Longer than by default: a machine with much to do is no reason to give a place away."""
WAITS = "waits for its place"


class Pair:
    """Each of the two waits for the place of the other, whenever it is started."""

    def __init__(self, folder: Path, data: str, lease_s: float) -> None:
        self.brokers = [BrokerProcess(f"{NAME}-{number}", folder, "--standby") for number in (1, 2)]
        for broker in self.brokers:
            broker.settings |= {"name": NAME, "data": data, "storage": {"lease_s": lease_s}}

    @property
    def addresses(self) -> list[str]:
        return [f"mqtt://127.0.0.1:{each.mqtt_port}" for each in self.brokers]

    async def start(self) -> None:
        """The first one serves, the second one waits."""
        first, second = self.brokers
        await first.start()
        await second.launch()
        await second.until_says(WAITS)

    async def close(self) -> None:
        for broker in self.brokers:
            await broker.kill()


@asynccontextmanager
async def pair(folder: Path, data: str, lease_s: float = LEASE_S) -> AsyncIterator[Pair]:
    made = Pair(folder, data, lease_s)
    try:
        await made.start()
        yield made
    finally:
        await made.close()


class OwnReader:
    """At QoS 2: notes what it is given, in order."""

    def __init__(self, name: str, *brokers: str) -> None:
        self.got: list[str] = []
        self._client = Client(name, brokers, resume=True, keep_alive_s=KEEP_ALIVE_S)
        self._reading: asyncio.Task[None] | None = None

    @property
    def sessions_lost(self) -> int:
        return self._client.sessions_lost

    @property
    def heard(self) -> list[str]:
        return without_hello(self.got)

    async def start(self) -> None:
        await self._client.__aenter__()
        await self._client.subscribe("t/#", qos=2)
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        async for event in self._client.events():
            self.got.append(event.payload.decode())

    async def stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        await self._client.__aexit__(None, None, None)
