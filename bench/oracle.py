"""The oracle on much data: position fixes × events, seconds of wall clock and of CPU, plain and with all conditions.

Hosts on a square of 10 km, a fix every ten seconds, 100,000 instantaneous events with a circular audience that
moves with their publishers, every host subscribed once. `plain` has nothing but that circle; `five` has all
conditions of C6 in every pair: a content filter, a region of relevance, a publication domain by attribute.

`python -m bench oracle` takes 1 million fixes; `python -m bench.oracle 1 10 50` as many millions as it is told.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from roamcast.journal.plain import plain_filter, plain_scope
from roamcast.model.filter import parse_text
from roamcast.model.filter.tree import EVERYTHING
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.space import Plane
from roamcast.model.values import Point
from roamcast.pipeline.job import Settings
from roamcast.pipeline.oracle.task import expected, matched
from roamcast.pipeline.session import open_session
from roamcast.pipeline.store import Store, StoredInputs
from roamcast.pipeline.survey import MOVES_PER_BUCKET, MOVES_PER_HOST
from roamcast.pipeline.tables import EVENTS, EXPECTED, LIVES, MATCHED, STATES, TRACKS

EVENTS_ALL = 100_000
FIXES_PER_HOST = 1_000
STEP_US = 10_000_000
SIDE_M = 10_000.0
RADIUS_M = 482.0
SPEED_MPS = 8.0


class Data:
    """Tables of one size, in their buckets."""

    def __init__(self, root: Path, millions: int, *, five: bool) -> None:
        self.hosts = millions * 1_000_000 // FIXES_PER_HOST
        self.five = five
        self.root = root
        rows = max(MOVES_PER_BUCKET, MOVES_PER_HOST * self.hosts)
        steps = max(1, rows // self.hosts)
        self.bucket_us = steps * STEP_US
        self.buckets = -(-FIXES_PER_HOST // steps)
        self.names = pa.array([f"host-{number:07d}" for number in range(self.hosts)])
        self.settings = Settings(Plane(), 200.0, None, 0, FIXES_PER_HOST * STEP_US - 1, self.bucket_us, 100_000)
        rng = np.random.default_rng(1)
        self.x, self.y = rng.uniform(0, SIDE_M, self.hosts), rng.uniform(0, SIDE_M, self.hosts)
        for number in range(self.buckets):
            self.write_bucket(number, steps, rng)

    def write_bucket(self, number: int, steps: int, rng: Any) -> None:
        tracks = []
        for step in range(number * steps, min(FIXES_PER_HOST, (number + 1) * steps)):
            turn = rng.uniform(0, 2 * np.pi, self.hosts)
            east, north = SPEED_MPS * np.cos(turn), SPEED_MPS * np.sin(turn)
            from_us = np.full(self.hosts, step * STEP_US)
            tracks.append([self.names, from_us, from_us + STEP_US, self.x, self.y, east, north])
            self.x = np.clip(self.x + east * STEP_US / 1e6, 0, SIDE_M)
            self.y = np.clip(self.y + north * STEP_US / 1e6, 0, SIDE_M)
        columns = [pa.concat_arrays([pa.array(part) for part in parts]) for parts in zip(*tracks, strict=True)]
        self.put(TRACKS, number, pa.Table.from_arrays(columns, schema=schema_of(TRACKS)))
        self.put(LIVES, number, self.lives())
        self.put(EVENTS, number, self.events(number, steps, rng))
        if self.five:
            attributes = pa.array([[("kind", {"text": "car"})]], STATES.schema.field("attributes").type)
            states = {
                "host": self.names,
                "from_us": np.zeros(self.hosts, np.int64),
                "until_us": np.full(self.hosts, 2**60),
                "attributes": attributes.take(pa.array(np.zeros(self.hosts, np.int64))),
            }
            self.put(STATES, number, pa.table(states, schema=schema_of(STATES)))

    def lives(self) -> Any:
        wanted = parse_text("level >= 0") if self.five else EVERYTHING
        publishers = Scope(filter=parse_text("kind <> 'lorry'")) if self.five else EVERYWHERE
        first = pa.Table.from_pylist(
            [
                {
                    "subject": "x",
                    "begin_us": 0,
                    "end_us": self.settings.until_us,
                    "filter": plain_filter(wanted),
                    "interest": plain_scope(EVERYWHERE),
                    "publishers": plain_scope(publishers),
                    "again": False,
                }
            ],
            schema=schema_of(LIVES),
        )
        lives = first.take(pa.array(np.zeros(self.hosts, np.int64)))
        return lives.set_column(0, "subscription_id", self.names).set_column(1, "subscriber", self.names)

    def events(self, number: int, steps: int, rng: Any) -> Any:
        share = EVENTS_ALL // self.buckets + (number < EVENTS_ALL % self.buckets)
        who = rng.integers(0, self.hosts, share)
        at_us = np.sort(rng.integers(number * self.bucket_us, (number + 1) * self.bucket_us, share))
        rows = []
        for index, (host, time_us) in enumerate(zip(who.tolist(), at_us.tolist(), strict=True)):
            name = self.names[host].as_py()
            relevance = Scope(Circle(Point(SIDE_M / 2, SIDE_M / 2), 2 * SIDE_M)) if self.five else EVERYWHERE
            rows.append(
                {
                    "event_id": f"e{number}-{index}",
                    "subject": "x",
                    "publisher": {
                        "host": name,
                        "at_us": time_us,
                        "pause_us": 0,
                        "pause_left_us": 0,
                        "attributes": [],
                    },
                    "begin_us": time_us,
                    "end_us": time_us,
                    "attributes": [("level", {"number": 1.0, "integer": True})],
                    "relevance": plain_scope(relevance),
                    "audience": plain_scope(Scope(Anchored(Circle(Point(0.0, 0.0), RADIUS_M), name))),
                    "again": False,
                }
            )
        return pa.Table.from_pylist(rows, schema=schema_of(EVENTS))

    def put(self, table: Any, number: int, rows: Any) -> None:
        place = self.root / "tables" / table.name / f"bucket={number}"
        place.mkdir(parents=True)
        pq.write_table(rows, place / "part.parquet", compression="zstd")


def schema_of(table: Any) -> Any:
    return pa.schema([field.with_nullable(True) for field in table.schema if field.name != "bucket"])


def cpu_s() -> float:
    """What this process, its Spark and all workers have used; those that ended are counted by who started them."""
    ticks, parents = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(words[1])
        ticks[int(stat.parent.name)] = sum(map(int, words[11:15]))

    def ours(process: int) -> bool:
        return process == os.getpid() or (process in parents and ours(parents[process]))

    return sum(used for process, used in ticks.items() if ours(process)) / os.sysconf("SC_CLK_TCK")


def timed(name: str, spark: Any, data: Data) -> dict[str, float]:
    started, used = time.perf_counter(), cpu_s()
    hits = oracle(spark, data)
    wall_s, used_s = time.perf_counter() - started, cpu_s() - used
    print(f"{name:32} {wall_s:7.1f} s wall, {used_s:7.1f} s CPU, {hits:,} pairs", flush=True)
    return {f"{name}.wall_s": wall_s, f"{name}.cpu_s": used_s, f"{name}.pairs": float(hits)}


def oracle(spark: Any, data: Data) -> int:
    store = Store(spark, str(data.root))
    inputs = StoredInputs(store, data.settings)
    (data.root / "tables" / STATES.name).mkdir(exist_ok=True)
    store.write(MATCHED, matched(inputs))
    store.write(EXPECTED, expected(inputs))
    return store.read(EXPECTED).count()


def main(sizes: Sequence[int] = (1,)) -> dict[str, float]:
    figures: dict[str, float] = {}
    spark = open_session("local[2]")
    for millions in sizes:
        for kind in ("plain", "five"):
            root = Path(tempfile.mkdtemp(prefix="oracle-"))
            try:
                data = Data(root, millions, five=kind == "five")
                figures |= timed(f"{millions} M fixes, {kind}", spark, data)
            finally:
                shutil.rmtree(root, ignore_errors=True)
    return figures


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or (1,))
