"""L2: what MQTT 5 promises, asked for by unmodified clients of several vendors at one broker process."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from paho.mqtt.packettypes import PacketTypes

from tests.processes.fleet import Fleet, Proxy, shared_fleet
from tests.processes.vendors import (
    READERS,
    MosquittoReader,
    MqttJsReader,
    PahoReader,
    ProcessReader,
    Reader,
    connect_paho,
    end_paho,
    mosquitto_pub,
    need,
    paho_client,
    properties,
    until,
)

pytestmark = [pytest.mark.timeout(120), pytest.mark.process]
TWO = ("paho", "mosquitto")
WILL_DELAY_S = 3
MOMENT_S = 1


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two of them, with a routing that is not the usual one."""
    need("mosquitto")
    folder, links = tmp_path_factory.mktemp("features"), [("a", "b")]
    with shared_fleet(folder, "a b", links=links, protocol={"routing": "merging"}) as made:
        yield made


@pytest.fixture
def port(brokers: Fleet) -> int:
    return brokers["a"].mqtt_port


@asynccontextmanager
async def reading(*readers: Reader) -> AsyncIterator[None]:
    try:
        for reader in readers:
            await reader.start()
        yield
    finally:
        for reader in readers:
            await reader.stop()


async def publish(vendor: str, port: int, topic: str, payload: str, expiry_s: int | None = None) -> None:
    """Returns when it is acknowledged."""
    if vendor == "mosquitto":
        expiry = [] if expiry_s is None else ["-D", "publish", "message-expiry-interval", str(expiry_s)]
        said = await asyncio.to_thread(mosquitto_pub, port, "-t", topic, "-m", payload, *expiry)
        assert (said.returncode, said.stderr) == (0, "")
        return
    client = paho_client("writer")
    connect_paho(client, port, clean=True, session_s=0)
    await until(client.is_connected, "the writer is not connected")
    asked = None if expiry_s is None else properties(PacketTypes.PUBLISH, MessageExpiryInterval=expiry_s)
    told = client.publish(topic, payload, qos=1, properties=asked)
    await until(told.is_published, "not acknowledged")
    await end_paho(client)


class PahoLeaver:
    """Leaves a will, and is cut off without a word."""

    def __init__(self, name: str, port: int, topic: str) -> None:
        self._access = Proxy(port)
        self._client = paho_client(name)
        delay = properties(PacketTypes.WILLMESSAGE, WillDelayInterval=WILL_DELAY_S)
        self._client.will_set(topic, f"{name} is gone", qos=1, properties=delay)

    async def come(self) -> None:
        await self._access.__aenter__()
        connect_paho(self._client, self._access.port)
        await until(self._client.is_connected, "not connected")

    async def break_off(self) -> None:
        self._access.cut()
        await until(lambda: not self._client.is_connected(), "still connected")

    async def come_back(self) -> None:
        self._access.heal()
        await until(self._client.is_connected, "not connected again")

    async def end(self) -> None:
        await end_paho(self._client)
        await self._access.__aexit__()


class MosquittoLeaver:
    def __init__(self, name: str, port: int, topic: str) -> None:
        self._reader = MosquittoReader(name, port, "nothing", 1)
        self._reader.add("--will-topic", topic, "--will-payload", f"{name} is gone", "--will-qos", "1")
        self._reader.add("-D", "will", "will-delay-interval", str(WILL_DELAY_S))

    async def come(self) -> None:
        await self._reader.start()

    async def break_off(self) -> None:
        await self._reader.stop()

    async def come_back(self) -> None:
        self._reader.marks.clear()
        await self._reader.start()

    async def end(self) -> None:
        await self._reader.stop()


LEAVERS: dict[str, Any] = {"paho": PahoLeaver, "mosquitto": MosquittoLeaver}


@pytest.mark.slow
@pytest.mark.parametrize("vendor", TWO)
def test_rule_28_a_will_waits_for_its_delay_and_is_void_for_who_is_back_before(port: int, vendor: str) -> None:
    async def work() -> None:
        heir = PahoReader(f"heir-{vendor}", port, f"wills/{vendor}", 1)
        returns, stays_away = (LEAVERS[vendor](f"{name}-{vendor}", port, f"wills/{vendor}") for name in "ab")
        async with reading(heir):
            await returns.come()
            await stays_away.come()
            await returns.break_off()
            await returns.come_back()
            await stays_away.break_off()
            # Whatever was to come of the first would be due before this.
            await until(lambda: bool(heir.got), "no will")
            assert heir.got == [f"b-{vendor} is gone"]
            await returns.end()
            await stays_away.end()

    asyncio.run(asyncio.wait_for(work(), 110))


@pytest.mark.parametrize("vendor", TWO)
def test_rule_17_rule_23_messages_and_sessions_expire_while_their_client_is_away(port: int, vendor: str) -> None:
    async def work() -> None:
        topic, make = f"expiry/{vendor}", READERS[vendor]
        keeps = make(f"keeps-{vendor}", port, topic, 1, session_s=3_600)
        loses = make(f"loses-{vendor}", port, topic, 1, session_s=MOMENT_S)
        async with reading(keeps, loses):
            pass
        await publish(vendor, port, topic, "stale", expiry_s=MOMENT_S)
        await publish(vendor, port, topic, "fresh", expiry_s=3_600)
        # What expires needs time to pass, and nothing tells of it.
        await asyncio.sleep(MOMENT_S + 0.5)
        forget_marks(keeps, loses)
        async with reading(keeps, loses):
            await publish(vendor, port, topic, "after")
            await until(lambda: "after" in keeps.got and "after" in loses.got, "the last message has not come")
            assert (keeps.got, loses.got) == (["fresh", "after"], ["after"])

    asyncio.run(asyncio.wait_for(work(), 110))


def forget_marks(*readers: Reader) -> None:
    for reader in readers:
        if isinstance(reader, ProcessReader):
            reader.marks.clear()


def test_rule_52_each_message_goes_to_one_member_of_a_group_of_two_vendors(port: int) -> None:
    async def work() -> None:
        members = [READERS[vendor](f"member-{vendor}", port, "$share/group/work", 1) for vendor in TWO]
        said = [f"task {number}" for number in range(10)]
        async with reading(*members):
            for payload in said:
                await publish("paho", port, "work", payload)
            await until(lambda: sum(len(each.got) for each in members) >= len(said), "a task has not come")
            assert sorted(members[0].got + members[1].got) == said
            assert all(len(each.got) == 5 for each in members)

    asyncio.run(asyncio.wait_for(work(), 110))


def test_rule_54_of_a_group_at_two_brokers_one_member_gets_each_message(brokers: Fleet) -> None:
    async def work() -> None:
        ports = [brokers[name].mqtt_port for name in "ab"]
        members = [
            READERS[vendor](f"far-{vendor}", port, "$share/far/jobs", 1)
            for vendor, port in zip(TWO, ports, strict=True)
        ]
        said: list[str] = []

        async def say(text: str) -> None:
            said.append(text)
            await publish("paho", ports[0], "jobs", text)

        async with reading(*members):
            # Until the broker has heard of the other's member, all is for its own.
            while not members[1].got:
                await say(f"first {len(said)}")
            for number in range(10):
                await say(f"then {number}")
            await until(lambda: sum(len(each.got) for each in members) >= len(said), "a job has not come")
            assert sorted(members[0].got + members[1].got) == sorted(said)
            assert [sum(each.startswith("then") for each in member.got) for member in members] == [5, 5]

    asyncio.run(asyncio.wait_for(work(), 110))


@pytest.mark.slow
def test_l2_topic_aliases_of_two_vendors_in_both_directions(port: int) -> None:
    """paho says a topic once and then its alias; mqtt.js is told the topic once, and reads it every time."""
    need("mqtt.js")

    async def work() -> None:
        options = {"showTopics": True, "properties": {"topicAliasMaximum": 10}}
        reader = MqttJsReader("alias-reader", port, "a/long/topic/#", 1, options=options)
        client = paho_client("alias-writer")
        async with reading(reader):
            connect_paho(client, port, clean=True, session_s=0)
            await until(client.is_connected, "not connected")
            for number, topic in enumerate(("a/long/topic/x", "", "")):
                alias = properties(PacketTypes.PUBLISH, TopicAlias=3)
                client.publish(topic, str(number), qos=1, properties=alias)
            await until(lambda: len(reader.got) >= 3, "not everything has come")
            assert reader.got == [f"a/long/topic/x {number}" for number in range(3)]
            await end_paho(client)

    asyncio.run(asyncio.wait_for(work(), 110))


def test_l2_mqtt_js_uses_aliases_by_itself(port: int) -> None:
    need("mqtt.js")

    async def work() -> None:
        reader = PahoReader("plain-reader", port, "by/alias", 1)
        writer = MqttJsReader("alias-js", port, "nothing", 1, options={"autoAssignTopicAlias": True})
        async with reading(reader, writer):
            for number in range(3):
                writer.say(f"by/alias 1 {number}")
            await until(lambda: len(reader.got) >= 3, "not everything has come")
            assert reader.got == ["0", "1", "2"]

    asyncio.run(asyncio.wait_for(work(), 110))


def test_rule_17_a_subscriber_is_told_what_is_left_of_a_message(port: int) -> None:
    async def work() -> None:
        left: list[int] = []
        client = paho_client("curious")
        client.on_message = lambda _client, _data, message: left.append(message.properties.MessageExpiryInterval)
        connect_paho(client, port)
        client.on_subscribe = lambda *_: left.append(0)
        await until(client.is_connected, "not connected")
        client.subscribe("left", qos=1)
        await until(lambda: left == [0], "not subscribed")
        await publish("mosquitto", port, "left", "x", expiry_s=500)
        await until(lambda: len(left) == 2, "nothing has come")
        assert 400 < left[1] <= 500
        await end_paho(client)

    asyncio.run(asyncio.wait_for(work(), 110))
