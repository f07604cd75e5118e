"""L2, L3 with presets: real broker processes with settings of each, and unmodified clients that roam between them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from roamcast.broker.modulators.spec import Declarative, Every, spec_to_text
from tests.processes.fleet import BrokerProcess, Fleet, Proxy, fleet
from tests.processes.vendors import (
    AiomqttReader,
    PahoReader,
    Reader,
    connect_paho,
    end_paho,
    paho_client,
    until,
    until_heard,
    without_hello,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.process]
LINKS = (("a", "b"), ("b", "c"))
AHEAD = {"next_brokers": {"a": ["c"], "b": ["a"], "c": ["b"]}}
OVERLAY = {"kind": "overlay", "update_period_s": 1.0, "discovery_period_s": 1.0, "resend_s": 0.5}
PRESETS: dict[str, dict[str, Any]] = {
    "overlay": OVERLAY,
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


def has_all(reader: Reader, said: list[str]) -> bool:
    return len(without_hello(reader.got)) >= len(said)


@pytest.mark.parametrize("preset", PRESETS)
def test_l3_readers_of_two_vendors_roam_and_get_everything_once_in_order(preset: str, tmp_path: Path) -> None:
    asyncio.run(roam(tmp_path, PRESETS[preset]))


async def roam(folder: Path, protocol: dict[str, Any]) -> None:
    async with fleet(folder, "a b c", links=LINKS, protocol=protocol) as brokers, reading(brokers, *"abc") as cast:
        for step in ("c", "b", "a"):
            await cast.writer.say(10, 2)
            cast.go_to(brokers[step])
            await cast.writer.say(10, 2)


class Cast(Struct, frozen=True):
    """Two readers, each with an access that leads to a broker, and somebody who writes."""

    readers: list[Reader]
    ways: list[Proxy]
    writer: Writer

    def go_to(self, broker: BrokerProcess) -> None:
        for way in self.ways:
            way.lead_to(broker.mqtt_port)

    async def have_all(self) -> None:
        for reader in self.readers:
            await until(partial(has_all, reader, self.writer.said), "not everything came")


@asynccontextmanager
async def reading(brokers: Fleet, first: str, writes: str, second: str) -> AsyncIterator[Cast]:
    """Readers of two vendors at two brokers, one who writes at a third. In the end they have had everything, once
    and in order."""
    ways = [await brokers.access(first), await brokers.access(second)]
    readers: list[Reader] = [PahoReader("p", ways[0].port, "t/+", 2), AiomqttReader("q", ways[1].port, "t/#", 2)]
    cast = Cast(readers, ways, Writer(brokers[writes].mqtt_port))
    try:
        await asyncio.gather(*(reader.start() for reader in readers), cast.writer.start())
        await until_heard(brokers[writes].mqtt_port, "t/x", readers)
        yield cast
        await cast.have_all()
        for reader in readers:
            assert without_hello(reader.got) == cast.writer.said
    finally:
        for reader in readers:
            await reader.stop()
        await end_paho(cast.writer.client)


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


MESH = {"columns": 3, "rows": 1, "cell_m": 100.0, "arrival_wait_s": 60.0, "probe_s": 1.0, "report_s": 2.0}
ROAD = (("broker-1", "broker-2"), ("broker-2", "broker-3"))


def mesh(kind: str) -> dict[str, Any]:
    return {"handover": kind, "mesh": MESH}


@pytest.mark.parametrize("kind", ["predictive", "probing", "batch"])
def test_m7_l3_readers_of_two_vendors_roam_in_a_mesh_and_get_everything_once_in_order(
    kind: str, tmp_path: Path
) -> None:
    asyncio.run(drive(tmp_path, kind))


async def drive(folder: Path, kind: str) -> None:
    names = "broker-1 broker-2 broker-3"
    async with (
        fleet(folder, names, links=ROAD, protocol=mesh(kind)) as brokers,
        reading(brokers, *names.split()) as cast,
    ):
        for step, x in ((2, 50), (3, 150), (1, 250)):
            trip = {"position": [x, 50], "velocity": [20, 0], "destination": [x + 40, 50]}
            await cast.have_all()
            for reader in cast.readers:
                await reader.report(json.dumps(trip))
            await cast.writer.say(10, 2)
            cast.go_to(brokers[f"broker-{step}"])
            await cast.writer.say(10, 2)


def test_m5_what_comes_for_a_paho_client_that_said_where_it_goes_is_there_before_it(tmp_path: Path) -> None:
    asyncio.run(go_where_it_said(tmp_path))


async def go_where_it_said(folder: Path) -> None:
    async with fleet(folder, "broker-1 broker-2 broker-3", links=ROAD, protocol=mesh("predictive")) as brokers:
        port = brokers["broker-2"].mqtt_port
        reader, writer = PahoReader("reader", brokers["broker-1"].mqtt_port, "t/#", 2), Writer(port)
        await asyncio.gather(reader.start(), writer.start())
        await until_heard(port, "t/x", [reader])
        await reader.stop([("next", "broker-3")])
        await writer.say(5, 2)
        reader.port = brokers["broker-3"].mqtt_port
        await reader.start()
        await until(partial(has_all, reader, writer.said), "not everything came")
        assert without_hello(reader.got) == writer.said
        await reader.stop()
        await end_paho(writer.client)


RING = (("a", "b"), ("b", "c"), ("c", "a"))
THIRD = spec_to_text(Declarative(sampling=Every(3)))


def test_o1_o7_clients_of_an_overlay_get_everything_once_in_order_while_a_link_is_cut(tmp_path: Path) -> None:
    asyncio.run(listen_everywhere(tmp_path))


async def listen_everywhere(folder: Path) -> None:
    async with fleet(folder, "a b c", links=RING, protocol=OVERLAY) as brokers:
        readers: list[Reader] = [
            PahoReader("p", brokers["a"].mqtt_port, "t/+", 1, session_s=0),
            PahoReader("q", brokers["b"].mqtt_port, "t/#", 1, session_s=0),
            PahoReader("m", brokers["a"].mqtt_port, "t/#", 1, [("modulator", THIRD)], session_s=0),
        ]
        writer, told = paho_client("writer"), list[str]()
        try:
            await asyncio.gather(*(reader.start() for reader in readers))
            connect_paho(writer, brokers["c"].mqtt_port, clean=True, session_s=0)
            await until(writer.is_connected, "the writer is not connected")
            await until_heard(brokers["c"].mqtt_port, "t/x", readers)
            for number in range(30):
                if number == 10:
                    brokers.cut("a", "c")
                told.append(f"n{number}")
                await until(writer.publish("t/x", told[-1], qos=1).is_published, "not acknowledged")
            for reader in readers[:2]:
                await until(partial(has_all, reader, told), "not everything came")
                assert without_hello(reader.got) == told
            await until(lambda: len(without_hello(readers[2].got)) >= 10, "not every third came")
            thirds = without_hello(readers[2].got)
            assert [int(later[1:]) - int(each[1:]) for each, later in pairwise(thirds)] == [3] * (len(thirds) - 1)
            assert len(thirds) == 10
        finally:
            for reader in readers:
                await reader.stop()
            await end_paho(writer)


def test_o4_l3_modulators_follow_a_paho_client_to_its_next_home_broker_with_their_state(tmp_path: Path) -> None:
    asyncio.run(take_modulators_along(tmp_path))


async def take_modulators_along(folder: Path) -> None:
    async with fleet(folder, "a b c", links=LINKS, protocol=OVERLAY) as brokers:
        way = await brokers.access("a")
        reader, writer = PahoReader("m", way.port, "t/#", 2, [("modulator", THIRD)]), Writer(brokers["c"].mqtt_port)
        try:
            await asyncio.gather(reader.start(), writer.start())
            await until_heard(brokers["c"].mqtt_port, "t/x", [reader])
            await writer.say(10, 2)
            way.lead_to(brokers["c"].mqtt_port)
            await writer.say(10, 2)
            while not (await brokers["a"].metrics()).get('roamcast_relocations_total{reason="nearer"}'):
                await asyncio.sleep(0.2)
            await writer.say(10, 2)
            await until(lambda: len(without_hello(reader.got)) >= 10, "not every third came")
            thirds = list(map(int, without_hello(reader.got)))
            assert thirds == list(range(thirds[0], 30, 3))
            assert (await brokers["c"].metrics())["roamcast_overlay_posts"] == 1
        finally:
            await reader.stop()
            await end_paho(writer.client)


def test_l2_an_overlay_tells_paho_what_it_does_not_keep(tmp_path: Path) -> None:
    asyncio.run(ask_for_much(tmp_path))


async def ask_for_much(folder: Path) -> None:
    async with fleet(folder, "a", protocol=OVERLAY) as brokers:
        client, said = paho_client("asks"), list[Any]()
        client.on_connect = lambda _client, _data, flags, _reason, granted: said.append((flags, granted))
        client.on_subscribe = lambda _client, _data, _id, reasons, _properties: said.append(reasons)
        connect_paho(client, brokers["a"].mqtt_port)
        await until(lambda: bool(said), "not connected")
        flags, granted = said[0]
        assert not flags.session_present
        assert not hasattr(granted, "MaximumQoS")
        assert (granted.RetainAvailable, granted.SharedSubscriptionAvailable) == (0, 0)
        client.subscribe("$share/g/t", qos=1)
        await until(lambda: len(said) > 1, "no answer")
        assert [each.value for each in said[1]] == [0x9E]
        await end_paho(client)
