"""L2: an unmodified aiomqtt client over a loopback socket."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.mqtt.memory_broker import MemoryBroker
from tests.mqtt.server import Server, serving

aiomqtt = pytest.importorskip("aiomqtt")
from paho.mqtt.packettypes import PacketTypes  # noqa: E402
from paho.mqtt.properties import Properties  # noqa: E402

pytestmark = pytest.mark.timeout(60)
PATIENCE_S = 20.0


def bounded(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, PATIENCE_S))


def client(server: Server, name: str, **options: Any) -> Any:
    options.setdefault("protocol", aiomqtt.ProtocolVersion.V5)
    return aiomqtt.Client("127.0.0.1", server.port, identifier=name, **options)


async def take(reader: Any, count: int) -> list[bytes]:
    taken: list[bytes] = []
    async for message in reader.messages:
        taken.append(message.payload)
        if len(taken) == count:
            break
    return taken


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", ["V5", "V311"])
def test_messages_arrive_in_order(qos: int, version: str) -> None:
    async def work(server: Server) -> None:
        protocol = aiomqtt.ProtocolVersion[version]
        async with client(server, "r", protocol=protocol) as reader, client(server, "w", protocol=protocol) as writer:
            await reader.subscribe("t/+", qos=qos)
            for number in range(30):
                await writer.publish("t/x", b"%d" % number, qos=qos)
            assert await take(reader, 30) == [b"%d" % number for number in range(30)]

    with serving() as server:
        bounded(work(server))


def test_a_large_payload_passes() -> None:
    async def work(server: Server) -> None:
        async with client(server, "r") as reader, client(server, "w") as writer:
            await reader.subscribe("t", qos=1)
            await writer.publish("t", bytes(900_000), qos=1)
            assert await take(reader, 1) == [bytes(900_000)]

    with serving() as server:
        bounded(work(server))


def test_a_wrong_password_is_an_error() -> None:
    async def work(server: Server) -> None:
        with pytest.raises(aiomqtt.MqttError):
            async with client(server, "c", username="u", password="wrong"):
                pass

    broker = MemoryBroker()
    broker.passwords = {"u": b"right"}
    with serving(broker) as server:
        bounded(work(server))


def test_a_session_survives_a_lost_connection() -> None:
    async def work(server: Server) -> None:
        kept = Properties(PacketTypes.CONNECT)
        kept.SessionExpiryInterval = 100
        options: dict[str, Any] = {"clean_start": False, "properties": kept}
        async with client(server, "r", **options) as reader:
            await reader.subscribe("t", qos=2)
        async with client(server, "w") as writer:
            for number in range(20):
                await writer.publish("t", b"%d" % number, qos=2)
        async with client(server, "r", **options) as reader:
            assert await take(reader, 20) == [b"%d" % number for number in range(20)]

    with serving() as server:
        bounded(work(server))
