"""L9, P2: the journal of an area and that of the brokers behind its gateway, each audited, miss and double nothing,
and tell of the same events.

The two sides are audited one by one: a broker gives what comes to it an id of its own, by which its journal knows it,
and where nodes of an area are is in the area's journal only. So brokers cannot tell who was in the proximity of an
event that a gateway brought, and their audit calls its deliveries unwanted; that each came once, its reader says.
"""

import asyncio
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.gateway.test_processes import ICE, PATIENCE_S, Far, hears
from tests.multicast.terminals import Terminal
from tests.ports import free_port
from tests.processes.fleet import fleet
from tests.spark.test_commands import invoke

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(400, func_only=True),
    pytest.mark.xdist_group("spark"),
]
EVENTS = 5
COUNTS = ("expected", "missed", "duplicates", "unwanted")
FROM_BROKERS = 10
"""Depths above it are told by the client of the brokers."""


async def live(folder: Path) -> None:
    """Leaves the journals `area` and `brokers` of events that crossed a gateway in both directions."""
    common = ("--interface", "lo", "--port", str(free_port()), "--journal", str(folder / "area"))
    opened: list[Terminal] = []
    async with fleet(folder, "north south", [("north", "south")], journal="brokers") as brokers:
        address = f"mqtt://127.0.0.1:{brokers['north'].mqtt_port}"
        for arguments in (
            ("reader", "--at", "30,0", "--subscribe", "ice", "--json"),
            ("car", "--at", "10,0", "--announce", ICE, "--within", "100"),
            ("gate", "--at", "20,0", "--gateway", address, "--carry", ICE),
        ):
            opened.append(Terminal(folder / "state", (*arguments, *common)))
        try:
            reader, car, gate = opened
            await asyncio.to_thread(tell, reader, car, gate, brokers["south"].mqtt_port)
            assert [each.stop() for each in opened] == [0, 0, 0]
        finally:
            for each in opened:
                each.close()
        for broker in brokers.brokers.values():
            await broker.stop()


def tell(reader: Terminal, car: Terminal, gate: Terminal, port: int) -> None:
    for each in (reader, car, gate):
        each.until("is ready")
    hears(reader, "car")
    hears(reader, "gate")
    hears(gate, "car")
    far = Far(port)
    try:
        for number in range(EVENTS):
            car.type(f"ice depth={number}")
            reader.until(f'"depth":{number}')
            assert far.got.get(timeout=PATIENCE_S) == ("ice", {"depth": number})
            far.publish("ice", {"depth": FROM_BROKERS + number})
            reader.until(f'"depth":{FROM_BROKERS + number}')
            assert far.got.get(timeout=PATIENCE_S) == ("ice", {"depth": FROM_BROKERS + number})
    finally:
        far.close()


def published_depths(journal: Path) -> list[int]:
    """Of all events that were published on one side, brought by a gateway or not, as often as they were."""
    found = pq.read_table(journal / "v2" / "publications").to_pylist()
    depths = [dict(each["attributes"])["depth"] for each in found if each["subject"] == "ice"]
    return sorted(round(each["number"]) for each in depths)


def test_l9_p2_both_sides_of_a_gateway_are_audited_clean_and_tell_of_the_same_events(
    spark: SparkSession, tmp_path: Path
) -> None:
    asyncio.run(live(tmp_path))
    depths = [*range(EVENTS), *range(FROM_BROKERS, FROM_BROKERS + EVENTS)]
    totals = {}
    for side in ("area", "brokers"):
        assert published_depths(tmp_path / side) == depths
        code, output, complaints = invoke("audit", str(tmp_path / side), "--json")
        assert (code, complaints) == (0, "")
        totals[side] = {name: json.loads(output)["total"][name] for name in COUNTS}
    # The gateway and one reader on each side want everything.
    assert totals["area"] == {"expected": 4 * EVENTS, "missed": 0, "duplicates": 0, "unwanted": 0}
    assert totals["brokers"] == {"expected": 2 * EVENTS, "missed": 0, "duplicates": 0, "unwanted": 2 * EVENTS}
