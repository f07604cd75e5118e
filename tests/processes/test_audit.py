"""P2, L3: the journal of live brokers, audited on Spark, agrees with what clients that roam were promised.

Three broker processes write one journal. Readers that want what is near them report where they are, go from broker to
broker while others publish, and are far away in the next round. What the oracle expects from the journal alone is
what this test computes by itself, and nothing of it is missed, doubled or unwanted.
"""

import asyncio
import json
import math
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.subscribeoptions import SubscribeOptions
from pyspark.sql import SparkSession

from tests.processes.fleet import Fleet, Proxy, fleet
from tests.processes.vendors import connect_paho, end_paho, paho_client, properties, until
from tests.spark.test_commands import invoke

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(300, func_only=True),
    pytest.mark.xdist_group("spark"),
]
LINKS = (("a", "b"), ("b", "c"))
SEED = int(os.environ.get("ROAMCAST_SEED", "7"))
NEAR_M = 300
SIDE_M = 1_000
ROUNDS = 4
READERS = 5
EVENTS_PER_BROKER = 12


class Walker:
    """A reader that wants urgent news near itself."""

    def __init__(self, name: str, access: Proxy) -> None:
        self.name = name
        self.access = access
        self.position = (0.0, 0.0)
        self.got: list[str] = []
        self.subscribed = 0
        self.client = paho_client(name)
        self.client.on_message = lambda _client, _data, message: self.got.append(message.payload.decode())
        self.client.on_subscribe = self._on_subscribe
        self.client.on_connect = self._on_connect

    def _on_subscribe(self, *_: Any) -> None:
        self.subscribed += 1

    def _on_connect(self, client: Any, _data: Any, flags: Any, _reason: Any, _properties: Any) -> None:
        if flags.session_present:
            return
        asked = properties(
            PacketTypes.SUBSCRIBE, UserProperty=[("filter", f"urgent = true AND near(position, {NEAR_M})")]
        )
        client.subscribe("news/#", options=SubscribeOptions(1), properties=asked)
        # The journal leaves shared subscriptions out, so what is said to find out who hears whom does not count.
        client.subscribe(f"$share/{self.name}/ready", options=SubscribeOptions(1))

    async def go_to(self, x: float, y: float) -> None:
        self.position = (x, y)
        told = self.client.publish("$roam/me", json.dumps({"position": [x, y]}), qos=1)
        await until(told.is_published, "a report is not acknowledged")

    def wants(self, news: dict[str, Any]) -> bool:
        return bool(news["urgent"]) and math.dist(self.position, news["position"]) <= NEAR_M


class Town:
    def __init__(self, brokers: Fleet) -> None:
        self.brokers = brokers
        self.generator = Random(SEED)
        self.walkers: list[Walker] = []
        self.writers: dict[str, Any] = {}
        self.expected: dict[Walker, list[str]] = {}

    async def begin(self) -> None:
        for name, broker in self.brokers.brokers.items():
            self.writers[name] = paho_client(f"writer-{name}")
            connect_paho(self.writers[name], broker.mqtt_port)
        for number in range(READERS):
            access = await self.brokers.access(self.generator.choice("abc"))
            walker = Walker(f"walker-{number}", access)
            connect_paho(walker.client, access.port)
            self.walkers.append(walker)
            self.expected[walker] = []
        await until(lambda: all(each.is_connected() for each in self.writers.values()), "writers")
        await until(lambda: all(each.subscribed == 2 for each in self.walkers), "subscriptions")

    async def until_ready(self) -> None:
        """What a broker asks of another goes in order: when this last subscription is known, the others are."""
        for name, writer in self.writers.items():

            def said_and_heard(name: str = name, writer: Any = writer) -> bool:
                writer.publish("ready", f"ready {name}", qos=1)
                return all(f"ready {name}" in each.got for each in self.walkers)

            await until(said_and_heard, f"not everybody hears what is said at {name}", pace_s=0.1)

    async def round(self, roaming: bool) -> None:
        for walker in self.walkers:
            await walker.go_to(self.generator.uniform(0, SIDE_M), self.generator.uniform(0, SIDE_M))
        told = []
        for number in range(EVENTS_PER_BROKER):
            for name, writer in self.writers.items():
                news = self._news(f"{name} {number}")
                text = json.dumps(news)
                for walker in self.walkers:
                    if walker.wants(news):
                        self.expected[walker].append(text)
                qos = 1 if roaming else self.generator.choice((0, 1, 2))
                told.append(writer.publish(f"news/{name}", text, qos=qos))
            if roaming and number % 4 == 0:
                broker = self.brokers[self.generator.choice("abc")]
                self.generator.choice(self.walkers).access.lead_to(broker.mqtt_port)
            await asyncio.sleep(0.01)
        await until(lambda: all(each.is_published() for each in told), "news are not acknowledged")
        await until(self._all_there, f"ROAMCAST_SEED={SEED}: not everything has come")

    def _news(self, name: str) -> dict[str, Any]:
        draw = self.generator.uniform
        return {"name": name, "urgent": draw(0, 1) < 0.8, "position": [draw(0, SIDE_M), draw(0, SIDE_M)]}

    def _all_there(self) -> bool:
        return all(set(texts) <= set(walker.got) for walker, texts in self.expected.items())

    async def end(self) -> None:
        for client in (*(each.client for each in self.walkers), *self.writers.values()):
            await end_paho(client)


async def live(folder: Path) -> int:
    """How many deliveries an ideal system would have made."""
    async with fleet(folder, "a b c", LINKS, journal="journal") as brokers:
        town = Town(brokers)
        try:
            await town.begin()
            await town.until_ready()
            for number in range(ROUNDS):
                await town.round(roaming=number % 2 == 0)
        finally:
            await town.end()
        for broker in brokers.brokers.values():
            await broker.stop()
        return sum(map(len, town.expected.values()))


def test_p2_the_audit_of_live_brokers_finds_nothing_missed_doubled_or_unwanted(
    spark: SparkSession, tmp_path: Path
) -> None:
    expected = asyncio.run(asyncio.wait_for(live(tmp_path), 120))
    code, output, complaints = invoke("audit", str(tmp_path / "journal"), "--json")
    assert (code, complaints) == (0, ""), f"ROAMCAST_SEED={SEED}"
    total = json.loads(output)["total"]
    found = {name: total[name] for name in ("expected", "delivered", "missed", "duplicates", "unwanted")}
    assert found == {
        "expected": expected,
        "delivered": expected,
        "missed": 0,
        "duplicates": 0,
        "unwanted": 0,
    }, f"ROAMCAST_SEED={SEED}"
    assert expected > 50
