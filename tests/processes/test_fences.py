"""L3, L8: a stock MQTT client passes a fence; its broker is killed on the way, and it goes on at another one."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.processes.fleet import fleet
from tests.processes.vendors import PahoReader, until

pytestmark = [pytest.mark.timeout(120), pytest.mark.process]
YARD = {
    "type": "Feature",
    "geometry": {"type": "Point", "coordinates": [0, 0]},
    "properties": {"radius_m": 100, "hysteresis_m": 0},
}


def told(reader: PahoReader) -> list[tuple[str, str]]:
    said = [json.loads(each) for each in reader.got]
    return [(each["host"], each["transition"]) for each in said]


async def acknowledged(said: Any) -> None:
    await until(said.is_published, "the broker has not taken it")


def moved(van: PahoReader, x: float) -> Any:
    return van.publish("$roam/me", json.dumps({"position": [x, 0]}))


def test_l3_l8_a_roaming_van_is_told_of_once_though_its_broker_is_killed(tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet(tmp_path, "a b", [("a", "b")]) as brokers:
            watcher = PahoReader("watcher", brokers["b"].mqtt_port, "$roam/fence/#", 2)
            van = PahoReader("van-7", brokers["a"].mqtt_port, "$roam/fences/#", 1)
            await watcher.start()
            await van.start()
            fence = watcher._client.publish("$roam/fences/yard", json.dumps(YARD), qos=1, retain=True)
            await acknowledged(fence)
            # It comes to the van's broker behind what the watcher has subscribed to.
            await until(lambda: bool(van.got), "the other broker does not know the fence")

            await acknowledged(moved(van, -200))
            entering = moved(van, 0)
            await brokers["a"].kill()
            await brokers["a"].start()
            await acknowledged(entering)
            await until(lambda: told(watcher) == [("van-7", "enter")], "nobody is told that the van is in the yard")

            await van.stop()
            van = PahoReader("van-7", brokers["b"].mqtt_port, "$roam/fences/#", 1)
            await van.start()
            await acknowledged(moved(van, 10))
            await acknowledged(moved(van, 200))
            await acknowledged(moved(van, 0))
            expected = [("van-7", "enter"), ("van-7", "leave"), ("van-7", "enter")]
            await until(lambda: len(told(watcher)) >= len(expected), "the van's ways are not told")
            assert told(watcher) == expected
            await van.stop()
            await watcher.stop()

    asyncio.run(work())
