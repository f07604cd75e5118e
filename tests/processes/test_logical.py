"""R4, R5, P-8 with real broker processes and an unmodified client: the broker in the middle carries what the client
may want along its path, and no more."""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest

from roamcast.broker.frames import messages_in
from roamcast.broker.messages import Notified, Sequenced
from roamcast.broker.mqtt.inputs import Heard, decode_batch
from roamcast.server.storage.log import Log
from roamcast.server.storage.settings import StorageSettings
from tests.processes.fleet import BrokerProcess, fleet
from tests.processes.vendors import PahoReader, connect_paho, end_paho, paho_client, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.process]
PLACES = "abcdefghijklmno"
ROUNDS = 20
FILTER = ("filter", "place IN myloc(0)")


def movement_file(folder: Path) -> str:
    """A ring: from each place to those beside it."""
    beside = {place: (PLACES[index - 1], PLACES[(index + 1) % len(PLACES)]) for index, place in enumerate(PLACES)}
    places = {place: {"residence_s": 60, "next": dict.fromkeys(near, 1)} for place, near in beside.items()}
    file = folder / "walks.json"
    file.write_text(json.dumps({"version": 1, "places": places}))
    return str(file)


def test_r4_r5_rule_8_of_300_events_the_middle_broker_commits_those_of_the_five_places_within_two_steps(
    tmp_path: Path,
) -> None:
    asyncio.run(walk(tmp_path))


async def walk(folder: Path) -> None:
    protocol = {"logical": {"movement": movement_file(folder)}}
    # A snapshot would drop the batches that are counted.
    storage = {"snapshot_replay_s": 1e9}
    links = (("a", "b"), ("b", "c"))
    async with fleet(folder, "a b c", links, protocol=protocol, storage=storage) as brokers:
        reader, writer = PahoReader("reader", brokers["a"].mqtt_port, "t", 1, [FILTER]), paho_client("writer")
        await reader.start()
        connect_paho(writer, brokers["c"].mqtt_port)
        await until(writer.is_connected, "the writer is not connected")

        async def say(place: str, text: str) -> None:
            told = writer.publish("t", json.dumps({"place": place, "text": text}), qos=1)
            await until(told.is_published, "not acknowledged")

        due = []
        for half, place in enumerate("ab"):
            await report(reader, place)
            while not any(f"hello {half}" in each for each in reader.got):
                await say(place, f"hello {half}")
            for number in range(ROUNDS // 2):
                for each in PLACES:
                    await say(each, f"{half} {number}")
                due.append(f"{half} {number}")
            await until(partial(has_all, reader, due), "something did not come")
        assert heard(reader) == due
        # Brokers commit in order and tell afterwards: when this has come, the middle one has committed all before.
        await say("b", "hello at last")
        await until(lambda: any("hello at last" in each for each in reader.got), "the last one did not come")
        await end_paho(writer)
        await reader.stop()
        await brokers["b"].kill()
        # In the round after the move the writer's broker may know of it earlier or later.
        assert abs(committed(brokers["b"], "c") - 5 * ROUNDS) <= 1


async def report(reader: PahoReader, place: str) -> None:
    told = reader.publish("$roam/me", json.dumps({"position": [0, 0], "attributes": {"place": place}}))
    await until(told.is_published, "the report was not acknowledged")


def heard(reader: PahoReader) -> list[str]:
    return [text for each in reader.got if not (text := json.loads(each)["text"]).startswith("hello")]


def has_all(reader: PahoReader, due: list[str]) -> bool:
    return len(heard(reader)) >= len(due)


def committed(broker: BrokerProcess, peer: str) -> int:
    """Events from a neighbour that are in its log, but for those that said hello."""
    log = Log.open(broker.data, StorageSettings())
    try:
        inputs = [entry.given for batch in log.load().batches for entry in decode_batch(batch)]
    finally:
        log.close()
    said = [
        message.message.event
        for given in inputs
        if isinstance(given, Heard) and given.peer == peer
        for message in messages_in(given.data, print)
        if isinstance(message, Sequenced) and isinstance(message.message, Notified)
    ]
    return sum(not str(event.attributes["text"]).startswith("hello") for event in said)
