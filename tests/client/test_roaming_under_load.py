"""L3: both ends go from broker to broker, by order and because connections break, in the middle of a stream."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from roamcast.client import Client, NotConnected
from tests.client.brokers import town
from tests.server.links.ends import Relay

pytestmark = pytest.mark.timeout(120)
EVENTS = 1_200


@pytest.mark.parametrize(("qos", "seed"), [(1, 41), (2, 42)])
def test_l3_everything_arrives_once_and_in_order_wherever_both_ends_are(tmp_path: Path, qos: int, seed: int) -> None:
    generator = Random(seed)

    async def disturb(clients: list[Client], relays: list[Relay]) -> None:
        addresses = [f"mqtt://127.0.0.1:{relay.port}" for relay in relays]
        while True:
            await asyncio.sleep(generator.uniform(0.02, 0.15))
            who = generator.choice([None, *clients])
            if who is None:
                generator.choice(relays).drop()
                continue
            try:
                await who.roam(generator.choice(addresses))
            except NotConnected:
                continue

    got: list[Any] = []

    async def work() -> None:
        async def read(reader: Client) -> None:
            async for event in reader.events():
                got.append(event.attributes["number"])
                if got[-1] == EVENTS - 1:
                    return

        async with (
            town(tmp_path, "a", "b", "c") as made,
            Relay(made.ports["a"]) as one,
            Relay(made.ports["b"]) as two,
            Relay(made.ports["c"]) as three,
        ):
            addresses = [f"mqtt://127.0.0.1:{relay.port}" for relay in (one, two, three)]
            async with Client("reader", addresses) as reader, Client("writer", addresses[1:]) as writer:
                await reader.subscribe("news", "number >= 0", qos=qos)
                reading = asyncio.create_task(read(reader))
                disturbing = asyncio.create_task(disturb([reader, writer], [one, two, three]))
                for first in range(0, EVENTS, 20):
                    numbers = range(first, first + 20)
                    await asyncio.gather(*(writer.publish("news", {"number": each}, qos=qos) for each in numbers))
                disturbing.cancel()
                await reading
                assert (reader.sessions_lost, writer.sessions_lost) == (0, 0)
            assert sum(relay.accepted for relay in (one, two, three)) > 4

    asyncio.run(asyncio.wait_for(work(), 90))
    assert got == list(range(EVENTS)), f"seed {seed}"
