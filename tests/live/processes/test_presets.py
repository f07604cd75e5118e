"""L2, L3 with presets: real broker processes with settings of each, and unmodified clients that roam between them."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.live.processes.fleet import fleet
from tests.live.processes.vendors import (
    AiomqttReader,
    PahoReader,
    Reader,
    connect_paho,
    end_paho,
    paho_client,
    until,
)

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("processes")]
LINKS = (("a", "b"), ("b", "c"))
AHEAD = {"next_brokers": {"a": ["c"], "b": ["a"], "c": ["b"]}}
PRESETS: dict[str, dict[str, Any]] = {
    "advertisements": {"advertisements": True},
    "ahead": {"ahead": AHEAD},
}


class Writer:
    """A publisher that stays at one broker, and knows what was acknowledged."""

    def __init__(self, port: int) -> None:
        self.client = paho_client("writer")
        self.port = port
        self.said: list[str] = []

    async def start(self) -> None:
        connect_paho(self.client, self.port)
        await until(self.client.is_connected, "the writer is not connected")

    async def say(self, count: int, qos: int) -> None:
        told = []
        for _ in range(count):
            self.said.append(f"{len(self.said)}")
            told.append(self.client.publish(f"t/{len(self.said) % 3}", self.said[-1], qos=qos))
        for each in told:
            await until(each.is_published, "not acknowledged")


def has_all(reader: Reader, writer: Writer) -> bool:
    return len(reader.got) >= len(writer.said)


@pytest.mark.parametrize("preset", PRESETS)
def test_l3_readers_of_two_vendors_roam_and_get_everything_once_in_order(preset: str, tmp_path: Path) -> None:
    asyncio.run(roam(tmp_path, PRESETS[preset]))


async def roam(folder: Path, protocol: dict[str, Any]) -> None:
    async with fleet(folder, "a b c", links=LINKS, protocol=protocol) as brokers:
        ways = [await brokers.access("a"), await brokers.access("c")]
        readers: list[Reader] = [PahoReader("p", ways[0].port, "t/+", 2), AiomqttReader("q", ways[1].port, "t/#", 2)]
        writer = Writer(brokers["b"].mqtt_port)
        try:
            await asyncio.gather(*(reader.start() for reader in readers), writer.start())
            for step in ("c", "b", "a"):
                await writer.say(10, 2)
                for way in ways:
                    way.lead_to(brokers[step].mqtt_port)
                await writer.say(10, 2)
            for reader in readers:
                await until(partial(has_all, reader, writer), "not everything came")
                assert reader.got == writer.said
        finally:
            for reader in readers:
                await reader.stop()
            await end_paho(writer.client)


def test_r1_with_advertisements_the_first_message_of_qos_0_of_a_brief_client_arrives(tmp_path: Path) -> None:
    asyncio.run(speak_briefly(tmp_path))


async def speak_briefly(folder: Path) -> None:
    async with fleet(folder, "a b c", links=LINKS, protocol={"advertisements": True}) as brokers:
        reader = PahoReader("p", brokers["a"].mqtt_port, "t/#", 0)
        await reader.start()
        try:
            for number in range(3):
                brief = Writer(brokers["c"].mqtt_port)
                connect_paho(brief.client, brief.port, clean=True, session_s=0)
                await until(brief.client.is_connected, "not connected")
                brief.client.publish(f"t/{number}", str(number), qos=0).wait_for_publish(10)
                await end_paho(brief.client)
            await until(lambda: len(reader.got) == 3, "something did not come")
            assert sorted(reader.got) == ["0", "1", "2"]
        finally:
            await reader.stop()
