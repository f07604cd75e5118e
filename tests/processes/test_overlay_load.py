"""O6, section 3.3: a live broker measures what modulators cost, and one that is overloaded sends some elsewhere."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.processes.fleet import BrokerProcess, fleet
from tests.processes.vendors import (
    PahoReader,
    connect_paho,
    end_paho,
    paho_client,
    until,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.process]
OVERLAY = {
    "kind": "overlay",
    "update_period_s": 1.0,
    "discovery_period_s": 1.0,
    "load_period_s": 1.0,
    "offload": True,
}
SLOW = """
import time
from roamcast.broker.modulators.registry import registered

@registered("slow")
class Slow:
    def __init__(self, parameters, space):
        self.seen = 0

    def take(self, event, now_us):
        time.sleep(0.06)
        self.seen += 1
        return [event] if self.seen % 2 else []

    def state(self):
        return b"%d" % self.seen

    def load(self, state):
        self.seen = int(state)
"""
ASKED = [("modulator", "slow")]


def test_o6_three_modulators_of_60_ms_make_a_broker_send_some_to_an_idle_one(tmp_path: Path) -> None:
    asyncio.run(overload(tmp_path))


async def overload(folder: Path) -> None:
    (folder / "slow.py").write_text(SLOW, encoding="utf-8")
    async with fleet(folder, "a b", links=(("a", "b"),), protocol=OVERLAY, modulators=["slow.py"]) as brokers:
        readers = [PahoReader(f"r{number}", brokers["a"].mqtt_port, "t/#", 1, ASKED, 0) for number in range(3)]
        writer, said = paho_client("writer"), list[str]()
        try:
            for reader in readers:
                await reader.start()
            connect_paho(writer, brokers["a"].mqtt_port, clean=True, session_s=0)
            await until(writer.is_connected, "the writer is not connected")
            while not await count(brokers["a"], 'roamcast_relocations_total{reason="offload"}'):
                assert len(said) < 500, "nothing was moved"
                said.append(f"{len(said)}")
                await until(writer.publish("t/x", said[-1], qos=1).is_published, "not acknowledged")
            while await count(brokers["b"], "roamcast_overlay_posts") == 0:
                await asyncio.sleep(0.1)
            assert await count(brokers["a"], "roamcast_overlay_posts") < 3
            assert await count(brokers["a"], 'roamcast_overlay_load{resource="memory"}') > 0
            for reader in readers:
                await until(partial(has_half, reader, said), "not everything came")
                assert reader.got == said[::2], "each second, also across the move"
        finally:
            for reader in readers:
                await reader.stop()
            await end_paho(writer)


def has_half(reader: PahoReader, said: list[str]) -> bool:
    return len(reader.got) >= len(said[::2])


async def count(broker: BrokerProcess, name: str) -> float:
    metrics: dict[str, Any] = await broker.metrics()
    return float(metrics.get(name, 0.0))
