"""L13, P-94: whatever is done to the system clock, what is due after so long is due after so long.

The brokers run under libfaketime, which gives them a system clock that a test can set.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.packettypes import PacketTypes

from roamcast.mqtt import encode
from roamcast.mqtt.packets import V5, Connect
from tests.processes.fleet import BrokerProcess, Fleet, fleet
from tests.processes.vendors import PahoReader, connect_paho, end_paho, paho_client, properties, until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(180)]
SOON_S, LONG_S = 1, 600
LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
needs_faketime = pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not installed (Debian: faketime)")


class Wall:
    """The system clock of a broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.file = broker.folder / "wall"
        self.set(0)
        broker.environment = {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, by_s: int) -> None:
        part = self.file.with_suffix(".part")
        part.write_text(f"{by_s:+d}\n", encoding="ascii")
        part.replace(self.file)


@asynccontextmanager
async def broker_with_wall(folder: Path) -> AsyncIterator[tuple[Fleet, BrokerProcess, Wall]]:
    async with fleet(folder, "a") as brokers:
        broker = brokers["a"]
        await broker.stop()
        wall = Wall(broker)
        await broker.start()
        yield brokers, broker, wall


@needs_faketime
@pytest.mark.parametrize("restarted", [False, True], ids=["running", "stopped"])
@pytest.mark.parametrize("step_s", [-3_600, -30, 3_600])
def test_l13_timers_and_ages_do_not_follow_the_system_clock_rule_94(
    step_s: int, restarted: bool, tmp_path: Path
) -> None:
    asyncio.run(set_the_clock(tmp_path, step_s, restarted))


async def set_the_clock(folder: Path, step_s: int, restarted: bool) -> None:
    async with broker_with_wall(folder) as (brokers, broker, wall):
        port = broker.mqtt_port
        away = PahoReader("away", port, "news/#", 1, session_s=LONG_S)
        await away.start()
        await away.stop()
        for topic, expiry_s in (("news/soon", SOON_S), ("news/long", LONG_S)):
            await say(port, topic, expiry_s, retain=True)

        if restarted:
            await broker.stop()
        wall.set(step_s)
        if restarted:
            await broker.start()

        async with mortal(brokers):
            heir = PahoReader("heir", port, "will", 1)
            await heir.start()
            brokers.accesses[0].cut()
            await until(lambda: heir.got == ["gone"], "the will did not come")
            await until_sessions(broker, away=1)
        await silent_client_is_closed(port)
        await heir.stop()

        # More than SOON_S has gone by, and much less than LONG_S.
        await away.start()
        newcomer = PahoReader("newcomer", port, "news/#", 1)
        await newcomer.start()
        for reader in (away, newcomer):
            await say(port, f"news/last/{len(reader.got)}", LONG_S)
        for reader in (away, newcomer):
            await until(lambda each=reader: len(each.got) >= 3, "the last did not come")  # type: ignore[misc]
            assert "news/long" in reader.got
            assert "news/soon" not in reader.got
            await reader.stop()
        assert ("system clock was set" in broker.output.read_text()) == (not restarted)


async def say(port: int, topic: str, expiry_s: int, retain: bool = False) -> None:
    """The payload is the topic."""
    writer = paho_client("writer")
    connect_paho(writer, port, clean=True, session_s=0)
    try:
        await until(writer.is_connected, "not connected")
        expires = properties(PacketTypes.PUBLISH, MessageExpiryInterval=expiry_s)
        told = writer.publish(topic, topic, qos=1, retain=retain, properties=expires)
        await until(told.is_published, "not acknowledged")
    finally:
        await end_paho(writer)


@asynccontextmanager
async def mortal(brokers: Fleet) -> AsyncIterator[Any]:
    """A client whose will and session are due soon after its connection breaks."""
    access = await brokers.access("a")
    client = paho_client("mortal")
    delay = properties(PacketTypes.WILLMESSAGE, WillDelayInterval=SOON_S)
    client.will_set("will", "gone", qos=1, properties=delay)
    connect_paho(client, access.port, session_s=2 * SOON_S)
    try:
        await until(client.is_connected, "not connected")
        yield client
    finally:
        await end_paho(client)


async def until_sessions(broker: BrokerProcess, away: int) -> None:
    async with asyncio.timeout(60):
        while (await broker.metrics())['roamcast_sessions{state="away"}'] != away:
            await asyncio.sleep(0.1)


async def silent_client_is_closed(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(encode(Connect("silent", keep_alive_s=SOON_S), V5))
    await asyncio.wait_for(reader.read(), 60)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@needs_faketime
def test_l13_a_message_does_not_expire_at_a_broker_whose_clock_is_an_hour_ahead_rule_94(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet(tmp_path, "a b", [("a", "b")]) as brokers:
            ahead, b = brokers["a"], brokers["b"]
            await ahead.stop()
            # As on a machine that has just started, with a clock that is wrong.
            (ahead.data / "clock").unlink()
            Wall(ahead).set(3_600)
            await ahead.start()
            await ahead.until_says("clocks differ")
            reader = PahoReader("reader", ahead.mqtt_port, "news/#", 1)
            await reader.start()
            async with asyncio.timeout(60):
                while not reader.got:
                    # The first ones may be there before b has heard of the subscription.
                    await say(b.mqtt_port, "news/long", LONG_S)
            await reader.stop()

    asyncio.run(work())
