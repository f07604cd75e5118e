"""L7: connections count from their first byte on, also those that never get further than a handshake."""

import asyncio
from pathlib import Path

import pytest

from roamcast.server.running import RunningBroker
from roamcast.server.settings import settings_from
from tests.server.transport.sockets import PATIENCE_S
from tests.server.transport.test_websocket import HANDSHAKE, run

pytestmark = pytest.mark.timeout(60)
AT_ONCE_MAX = 3


async def started(folder: Path, **limits: float) -> RunningBroker:
    told = {"name": "b", "data": str(folder), "listeners": [{"kind": "ws", "port": 0}], "log_level": "error"}
    limits = {"connects_per_s": 0, "connections_per_address_max": AT_ONCE_MAX, **limits}
    broker = RunningBroker(settings_from({**told, "security": {"limits": limits}}, "test"))
    await broker.start()
    return broker


class Knocking:
    """Connects, and says no more than it is given to say."""

    @classmethod
    async def at(cls, broker: RunningBroker, said: bytes = b"") -> "Knocking":
        knocking = cls()
        knocking.reader, knocking.writer = await asyncio.open_connection("127.0.0.1", broker.addresses[0].port)
        knocking.writer.write(said)
        return knocking

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def is_sent_away(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(1), PATIENCE_S) == b""
        except ConnectionResetError:
            return True

    async def is_answered(self) -> bool:
        return (await asyncio.wait_for(self.reader.readline(), PATIENCE_S)).startswith(b"HTTP/1.1 101")


async def counted(broker: RunningBroker, connections: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while broker.access.doors.connections != connections:
            await asyncio.sleep(0.005)


def test_l7_half_open_websockets_count_as_connections_of_their_address(tmp_path: Path) -> None:
    async def test() -> None:
        broker = await started(tmp_path)
        half_open = [await Knocking.at(broker, HANDSHAKE) for _ in range(AT_ONCE_MAX)]
        await counted(broker, AT_ONCE_MAX)
        another = await Knocking.at(broker, HANDSHAKE)
        assert await another.is_sent_away()
        for each in half_open:
            each.writer.close()
        await counted(broker, 0)
        assert await (await Knocking.at(broker, HANDSHAKE + b"\r\n")).is_answered()
        await broker.stop()

    run(test)


def test_l7_half_open_websockets_count_for_how_often_an_address_may_connect(tmp_path: Path) -> None:
    async def test() -> None:
        broker = await started(tmp_path, connects_per_s=0.001, burst_s=2_000)
        for _ in range(2):
            knocking = await Knocking.at(broker)
            await counted(broker, 1)
            knocking.writer.close()
            await counted(broker, 0)
        assert await (await Knocking.at(broker, HANDSHAKE + b"\r\n")).is_sent_away()
        await broker.stop()

    run(test)


def test_l7_a_websocket_that_opens_counts_once_and_until_it_ends(tmp_path: Path) -> None:
    async def test() -> None:
        broker = await started(tmp_path)
        opened = [await Knocking.at(broker, HANDSHAKE + b"\r\n") for _ in range(AT_ONCE_MAX)]
        for each in opened:
            assert await each.is_answered()
        await counted(broker, AT_ONCE_MAX)
        for each in opened:
            each.writer.close()
        await counted(broker, 0)
        await broker.stop()

    run(test)


def test_l7_a_handshake_that_is_refused_is_not_counted_any_more(tmp_path: Path) -> None:
    async def test() -> None:
        broker = await started(tmp_path)
        for _ in range(2 * AT_ONCE_MAX):
            refused = await Knocking.at(broker, b"GET / HTTP/1.1\r\n\r\n")
            assert (await asyncio.wait_for(refused.reader.read(), PATIENCE_S)).startswith(b"HTTP/1.1 4")
            refused.writer.close()
            await counted(broker, 0)
        await broker.stop()

    run(test)
