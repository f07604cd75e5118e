"""Makes a directory as the test of upgrades keeps one for each version of stored state:

    git worktree add /tmp/before COMMIT
    python -m tests.broker.mqtt.keep /tmp/before/src tests/broker/mqtt/kept/VERSION

The broker of that commit serves a reader with a filter that leaves, and stores what comes for it meanwhile. It is
stopped in order; whatever its directory has that belongs to one machine is removed.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.processes.fleet import BrokerProcess
from tests.processes.vendors import connect_paho, end_paho, paho_client, properties, until

NAME = "kept"
READER = "reader"
WAITING = ["waiting 0", "waiting 1", "waiting 2"]
OFFER, RETAINED = {"price": 5}, "retained"
FOR_EVER_S = 0xFFFF_FFFF


class OfThatCommit(BrokerProcess):
    def __init__(self, source: Path, directory: Path) -> None:
        super().__init__(NAME, directory.parent)
        self.settings["data"] = directory.name
        self.environment = {"PYTHONPATH": str(source)}


async def say(client: Any, topic: str, payload: str, qos: int, retain: bool = False) -> None:
    said = client.publish(topic, payload, qos=qos, retain=retain)
    await until(said.is_published, f"{topic} is not acknowledged")


async def fill(port: int) -> None:
    reader, granted = paho_client(READER), list[int]()
    reader.on_subscribe = lambda _client, _data, packet_id, *_: granted.append(packet_id)
    connect_paho(reader, port, session_s=FOR_EVER_S)
    await until(reader.is_connected, "the reader is not let in")
    await say(reader, "$roam/me", json.dumps({"position": [5, 5], "attributes": {"budget": 10}}), 1)
    reader.subscribe("t/#", qos=2)
    filtered = properties(PacketTypes.SUBSCRIBE, UserProperty=[("filter", "price < me.budget")])
    reader.subscribe("offers/+", options=SubscribeOptions(1), properties=filtered)
    await until(lambda: len(granted) == 2, "the reader may not subscribe")
    await end_paho(reader)
    writer = paho_client("writer")
    connect_paho(writer, port, clean=True, session_s=0)
    await until(writer.is_connected, "the writer is not let in")
    for number, text in enumerate(WAITING):
        await say(writer, "t/x", text, 1 + number % 2)
    for price in (OFFER["price"], 50):
        await say(writer, "offers/a", json.dumps({"price": price}), 1)
    await say(writer, "kept/one", RETAINED, 1, retain=True)
    await end_paho(writer)


async def main(source: Path, directory: Path) -> None:
    broker = OfThatCommit(source, directory)
    try:
        await broker.launch()
        while "is ready" not in broker.output.read_text(encoding="utf-8"):
            assert broker.alive, broker.output.read_text(encoding="utf-8")
            await asyncio.sleep(0.05)
        await fill(broker.mqtt_port)
        await broker.stop()
    finally:
        await broker.kill()
        for leftover in (broker.config, broker.output, directory / "lock", directory / "clock"):
            leftover.unlink(missing_ok=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()))
    subprocess.run(["ls", "-l", sys.argv[2]], check=True)
