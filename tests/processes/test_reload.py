"""L12, L13: a running broker reads its rules again, and rights that were withdrawn end."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from roamcast.server.security.passwords import set_password
from tests.processes.fleet import BrokerProcess, fleet
from tests.processes.vendors import connect_paho, end_paho, paho_client, until

pytestmark = [pytest.mark.timeout(120), pytest.mark.process]
WRITER = {"users": ["writer"], "publish": ["#"]}
READS_ALL = {"users": ["reader", "other"], "subscribe": ["#"]}
READS_NEWS = {"users": ["reader", "other"], "subscribe": ["news/#"]}


@asynccontextmanager
async def guarded_broker(folder: Path) -> AsyncIterator[BrokerProcess]:
    for user in ("reader", "other", "writer"):
        set_password(folder / "passwords", user, user)
    security = {"passwords": "passwords", "rules": [WRITER, READS_ALL], "limits": {"connects_per_s": 0}}
    async with fleet(folder, "a", security=security) as brokers:
        yield brokers["a"]


def allow(broker: BrokerProcess, *rules: dict[str, Any]) -> None:
    broker.settings["security"]["rules"] = list(rules)
    broker.write_settings()


async def reload(broker: BrokerProcess, says: str = "were read again") -> None:
    before = broker.output.read_text().count(says)
    os.kill(broker.pid, signal.SIGHUP)
    await until(lambda: broker.output.read_text().count(says) > before, f"the log does not say '{says}'")


class Client:
    """Its user has its name, and the name as its password."""

    def __init__(self, broker: BrokerProcess, name: str) -> None:
        self.paho = paho_client(name)
        self.paho.username_pw_set(name, name)
        self.got: list[str] = []
        self.granted: list[int] = []
        self.resumed: list[bool] = []
        self.disconnects: list[int] = []
        self.paho.on_message = lambda _client, _data, message: self.got.append(message.topic)
        self.paho.on_connect = lambda _client, _data, flags, _reason, _more: self.resumed.append(
            flags.session_present
        )
        self.paho.on_disconnect = lambda _client, _data, _flags, reason, _more: self.disconnects.append(reason.value)
        self.paho.on_subscribe = lambda _client, _data, _id, reasons, _more: self.granted.append(reasons[0].value)
        self.broker = broker

    async def come(self) -> None:
        connect_paho(self.paho, self.broker.mqtt_port)
        await until(self.paho.is_connected, "not connected")

    async def subscribe(self, topic: str) -> None:
        before = len(self.granted)
        self.paho.subscribe(topic, qos=1)
        await until(lambda: len(self.granted) > before, "no SUBACK")

    async def say(self, *topics: str) -> None:
        for topic in topics:
            await until(self.paho.publish(topic, "x", qos=1).is_published, "not acknowledged")

    async def leave(self) -> None:
        await end_paho(self.paho)


def test_l13_a_subscription_ends_when_the_rules_that_are_read_again_forbid_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded_broker(tmp_path) as broker:
            reader, writer = Client(broker, "reader"), Client(broker, "writer")
            for client in (reader, writer):
                await client.come()
            await reader.subscribe("secret/#")
            await reader.subscribe("news/#")
            allow(broker, WRITER, READS_NEWS)
            await reload(broker)
            await writer.say("secret/1", "news/1")
            await until(lambda: "news/1" in reader.got, "the news did not come")
            assert reader.got == ["news/1"]
            assert reader.disconnects == writer.disconnects == []
            for client in (reader, writer):
                await client.leave()

    asyncio.run(work())


def test_l13_a_session_that_resumes_under_other_rules_gets_only_what_they_allow(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded_broker(tmp_path) as broker:
            reader, writer = Client(broker, "reader"), Client(broker, "writer")
            await reader.come()
            await reader.subscribe("secret/#")
            await reader.subscribe("news/#")
            await reader.leave()
            await writer.come()
            await writer.say("secret/1", "news/1")
            await writer.leave()
            await broker.stop()
            allow(broker, WRITER, READS_NEWS)
            await broker.start()
            for client in (reader, writer):
                await client.come()
            await writer.say("secret/2", "news/2")
            await until(lambda: "news/2" in reader.got, "the news did not come")
            assert reader.resumed == [False, True]
            assert reader.got == ["news/1", "news/2"]
            for client in (reader, writer):
                await client.leave()

    asyncio.run(work())


def test_l12_only_who_may_come_no_longer_is_disconnected(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded_broker(tmp_path) as broker:
            reader, other = Client(broker, "reader"), Client(broker, "other")
            for client in (reader, other):
                await client.come()
            allow(broker, WRITER, {"users": ["reader"], "subscribe": ["#"]})
            await reload(broker)
            await until(lambda: bool(other.disconnects), "it was not disconnected")
            assert other.disconnects[0] == 0x87
            assert reader.disconnects == []
            for client in (reader, other):
                await client.leave()

    asyncio.run(work())


def test_l12_settings_that_cannot_be_read_change_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with guarded_broker(tmp_path) as broker:
            reader = Client(broker, "reader")
            await reader.come()
            broker.config.write_text("name = ", encoding="utf-8")
            await reload(broker, "were not read again")
            await reader.subscribe("secret/#")
            assert reader.granted == [1]
            await reader.leave()

    asyncio.run(work())
