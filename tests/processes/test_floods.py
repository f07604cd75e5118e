"""L7: floods of connections and messages, and clients that take nothing, hurt nobody else at a broker process."""

import asyncio
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.subscribeoptions import SubscribeOptions

from roamcast.broker.modulators.spec import Wasm, spec_to_text
from tests.broker.modulator_samples import module
from tests.processes.fleet import BrokerProcess, shared_fleet
from tests.processes.vendors import PahoReader, connect_paho, end_paho, paho_client, properties, until

pytestmark = [pytest.mark.timeout(150), pytest.mark.process]
SEED = int(os.environ.get("ROAMCAST_SEED", "7"))
PER_ADDRESS_MAX = 300
RATE_PER_S = 1_000
QUEUE_MESSAGES = 200
QUEUE_BYTES = 1_000_000
PLAIN_QUEUE = 200
GROWTH_BYTES_MAX = 64 * 1024 * 1024


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    limits = {
        "connects_per_s": 0,
        "connections_per_address_max": PER_ADDRESS_MAX,
        "messages_per_s": RATE_PER_S,
        "burst_s": 1,
    }
    with shared_fleet(
        tmp_path_factory.mktemp("floods"),
        "a",
        security={"limits": limits},
        connections={"connect_timeout_us": 3_000_000, "plain_queue_max": PLAIN_QUEUE},
        keeping={"session": {"queue_messages_max": QUEUE_MESSAGES, "queue_bytes_max": QUEUE_BYTES}},
    ) as brokers:
        yield brokers["a"]


BURNING = """
(local.set $length (i32.const 40000))
(loop $again
  (drop (memory.grow (i32.const 0)))
  (local.set $length (i32.sub (local.get $length) (i32.const 1)))
  (br_if $again (local.get $length)))
(i64.const 0)"""
"""Within the fuel of an event, and as dear as such code can be."""


class Pair:
    """Somebody who says numbers with QoS 1, and somebody who wants to hear all of them."""

    def __init__(self, broker: BrokerProcess, name: str) -> None:
        self.topic = f"pair/{name}"
        self.reader = PahoReader(f"{name}-reader", broker.mqtt_port, self.topic, 1)
        self.writer = paho_client(f"{name}-writer")
        self.port = broker.mqtt_port
        self.said: list[str] = []

    async def __aenter__(self) -> "Pair":
        await self.reader.start()
        connect_paho(self.writer, self.port)
        await until(self.writer.is_connected, "the writer is not connected")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.reader.stop()
        await end_paho(self.writer)

    def say(self, padding: str = "") -> None:
        self.said.append(f"{len(self.said)}{padding}")
        self.writer.publish(self.topic, self.said[-1], qos=1)

    async def goes_on(self, count: int = 20) -> None:
        for _ in range(count):
            self.say()
        await until(lambda: len(self.reader.got) >= len(self.said), "the pair is hurt")
        assert self.reader.got == self.said


def text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def packet(kind: int, body: bytes) -> bytes:
    """Of less than 128 bytes, or less than 16,384."""
    length = bytes([len(body)]) if len(body) < 128 else bytes([len(body) % 128 | 0x80, len(body) // 128])
    return bytes([kind]) + length + body


def connect(name: str) -> bytes:
    return packet(0x10, text("MQTT") + b"\x05\x02\x00\x00" + b"\x05\x11\x00\x00\x0e\x10" + text(name))


def subscribe(topic: str, qos: int) -> bytes:
    return packet(0x82, b"\x00\x01\x00" + text(topic) + bytes([qos]))


def publish(topic: str, payload: bytes) -> bytes:
    return packet(0x30, text(topic) + b"\x00" + payload)


async def subscribed(broker: BrokerProcess, name: str, topic: str, qos: int) -> socket.socket:
    """A client that has subscribed, and whose socket nobody reads from any more."""
    loop = asyncio.get_running_loop()
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    line.setblocking(False)
    await loop.sock_connect(line, ("127.0.0.1", broker.mqtt_port))
    await loop.sock_sendall(line, connect(name) + subscribe(topic, qos))
    heard = b""
    while b"\x90" not in heard:
        heard += await asyncio.wait_for(loop.sock_recv(line, 256), 30)
    return line


async def counted(broker: BrokerProcess, name: str) -> float:
    return (await broker.metrics()).get(name, 0.0)


@pytest.mark.slow
def test_l7_hundreds_of_connections_that_say_nothing_or_nonsense_hurt_nobody(broker: BrokerProcess) -> None:
    generator = Random(SEED)

    async def garbage() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.mqtt_port)
        writer.write(generator.randbytes(200))
        with suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 60)
        writer.close()

    async def work() -> None:
        async with Pair(broker, "steady") as pair:
            nonsense = [asyncio.create_task(garbage()) for _ in range(200)]
            await pair.goes_on()
            await asyncio.gather(*nonsense)
            silent = []
            for _ in range(PER_ADDRESS_MAX + 200):
                line = socket.socket()
                line.setblocking(False)
                await asyncio.get_running_loop().sock_connect(line, ("127.0.0.1", broker.mqtt_port))
                silent.append(line)
                if len(silent) % 50 == 0:
                    await pair.goes_on(5)
            refused = await counted(broker, 'roamcast_refused_total{cause="connection_refused"}')
            assert refused >= 200
            # Whoever says nothing is sent away after a while, and then there is room again.
            while await counted(broker, 'roamcast_connections{listener="tcp"}') > 2:
                await pair.goes_on(1)
            async with Pair(broker, "newcomers") as others:
                await others.goes_on()
            for line in silent:
                line.close()
            assert await broker.healthy()

    asyncio.run(asyncio.wait_for(work(), 140))


def test_l7_a_client_that_publishes_more_than_it_may_waits_and_others_do_not(broker: BrokerProcess) -> None:
    flood = 30_000

    async def pour(writer: asyncio.StreamWriter) -> None:
        one = publish("flood", b"x" * 50)
        for _ in range(flood // 100):
            writer.write(one * 100)
            await writer.drain()

    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.mqtt_port)
        writer.write(connect("flooder"))
        await asyncio.wait_for(reader.readexactly(2), 30)
        before = await counted(broker, 'roamcast_messages_in_total{qos="0"}')
        pouring = asyncio.create_task(pour(writer))
        async with Pair(broker, "beside") as pair:
            for _ in range(5):
                await pair.goes_on()
        taken = await counted(broker, 'roamcast_messages_in_total{qos="0"}') - before
        assert 0 < taken < flood
        pouring.cancel()
        await asyncio.gather(pouring, return_exceptions=True)
        writer.transport.abort()

    asyncio.run(asyncio.wait_for(work(), 140))


@pytest.mark.slow
def test_l7_clients_that_never_acknowledge_or_never_read_cost_a_bounded_amount(broker: BrokerProcess) -> None:
    async def deaf(line: socket.socket) -> None:
        """Reads everything, and acknowledges nothing."""
        loop = asyncio.get_running_loop()
        while await loop.sock_recv(line, 65_536):
            pass

    async def work() -> None:
        async with Pair(broker, "loud") as pair:
            silent = await subscribed(broker, "never-acknowledges", pair.topic, 1)
            blind = [await subscribed(broker, f"never-reads-{qos}", pair.topic, qos) for qos in (0, 1)]
            listening = asyncio.create_task(deaf(silent))
            full = 'roamcast_messages_dropped_total{cause="queue_full"}'
            dropped, held = await counted(broker, full), broker.resident_bytes()
            for _ in range(15):
                for _ in range(100):
                    pair.say(" " + "x" * 8_000)
                await until(lambda: len(pair.reader.got) >= len(pair.said), "the others are hurt")
            assert pair.reader.got == pair.said
            growth = broker.resident_bytes() - held
            print(f"resident memory grew by {growth / 1e6:.1f} MB")
            assert growth < GROWTH_BYTES_MAX
            # Two sessions hold what their limits allow, and one connection what may wait of QoS 0.
            assert await counted(broker, full) - dropped >= 2 * (len(pair.said) - QUEUE_MESSAGES)
            assert await counted(broker, "roamcast_queue_bytes") <= 2 * QUEUE_BYTES + 100_000
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            for line in (silent, *blind):
                line.close()

    asyncio.run(asyncio.wait_for(work(), 140))


def test_l13_modulators_that_take_too_much_are_switched_off_and_others_get_everything(broker: BrokerProcess) -> None:
    async def work() -> None:
        burning = spec_to_text(Wasm(module(BURNING)))
        hostile, reasons = paho_client("hostile"), list[str]()
        hostile.on_disconnect = lambda _client, _data, _flags, _reason, said: reasons.append(
            str(getattr(said, "ReasonString", ""))
        )
        connect_paho(hostile, broker.mqtt_port)
        await until(hostile.is_connected, "not connected")
        asked = properties(PacketTypes.SUBSCRIBE, UserProperty=[("modulator", burning)])
        granted: list[int] = []
        hostile.on_subscribe = lambda _client, _data, _id, codes, _said: granted.extend(each.value for each in codes)
        for number in range(16):
            hostile.subscribe(f"$roam/{number}/pair/modulated", options=SubscribeOptions(1), properties=asked)
        await until(lambda: granted == [1] * 16, "not subscribed")
        async with Pair(broker, "modulated") as pair:
            while not any("modulator" in each for each in reasons):
                await pair.goes_on()
            await pair.goes_on()
        await end_paho(hostile)

    asyncio.run(work())
