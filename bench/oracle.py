"""The oracle on much data: position fixes × events, against single processes that join the same files.

Hosts on a square of 10 km, a fix every ten seconds, 100,000 instantaneous events with a circular audience that moves
with their publishers, every host subscribed once. `plain` has nothing but that circle; `five` has all conditions of
C6 in every pair: a content filter, a region of relevance, a publication domain by attribute. Peers
(`oracle_peers.py`) compute `plain` only, and write their pairs to Parquet as the oracle does. All start from the
prepared tables. Sessions are open and code is compiled before the clock
starts. Each takes its turn three times, and the median by wall clock is shown (`--runs`).

`python -m bench oracle` takes 1 million fixes; `python -m bench.oracle 1 10 50` as many millions as it is told, with
`--peers duckdb,polars,sedonadb` (all of them; those that are not installed are skipped), `--kinds plain,five`. A
first small run warms everything up. `--data DIR` keeps the tables, and takes those that are there.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import interrupts, progress
from roamcast.journal.plain import plain_filter, plain_scope
from roamcast.model.filter import parse_text
from roamcast.model.filter.tree import EVERYTHING
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.space import Plane
from roamcast.model.values import Point
from roamcast.spark.oracle.expected import write_expected
from roamcast.spark.prepare import Prepared
from roamcast.spark.published import Tables
from roamcast.spark.session import open_session
from roamcast.spark.settings import MOVES_PER_BUCKET, MOVES_PER_HOST, Settings
from roamcast.spark.tables import EVENTS, EXPECTED, LIVES, STATES, TRACKS

TAKES = "4 minutes for 1 million fixes"
NEEDS = {
    "java": "apt-get install default-jre-headless",
    "duckdb": "pip install 'roamcast[bench]'",
    "polars": "pip install 'roamcast[bench]'",
    "sedonadb": "pip install 'roamcast[bench]'",
}
EVENTS_ALL = 100_000
FIXES_PER_HOST = 1_000
STEP_US = 10_000_000
SIDE_M = 10_000.0
RADIUS_M = 482.0
SPEED_MPS = 8.0
COMPLETE = "complete"
WARM_UPS = 3
"""Java compiles what it runs often."""


class Data:
    """Tables of one size; those that are there already are taken as they are."""

    def __init__(self, root: Path, millions: float, *, five: bool) -> None:
        self.hosts = round(millions * 1_000_000) // FIXES_PER_HOST
        self.five = five
        self.root = root
        rows = max(MOVES_PER_BUCKET, MOVES_PER_HOST * self.hosts)
        steps = max(1, rows // self.hosts)
        self.bucket_us = steps * STEP_US
        self.buckets = -(-FIXES_PER_HOST // steps)
        self.names = pa.array([f"host-{number:07d}" for number in range(self.hosts)])
        borders = tuple(number * self.bucket_us for number in range(self.buckets + 1))
        self.settings = Settings(Plane(), 200.0, None, borders, FIXES_PER_HOST * STEP_US - 1, 100_000)
        if not (root / COMPLETE).exists():
            self.write(steps)

    def write(self, steps: int) -> None:
        rng = np.random.default_rng(1)
        self.x, self.y = rng.uniform(0, SIDE_M, self.hosts), rng.uniform(0, SIDE_M, self.hosts)
        for number in range(self.buckets):
            self.write_bucket(number, steps, rng)
            self.put(EVENTS, self.bin_of(number), self.events(number, rng))
        self.put(LIVES, 1, self.lives())
        (self.root / "tables" / STATES.name).mkdir(exist_ok=True)
        (self.root / COMPLETE).touch()

    def bin_of(self, bucket: int) -> int:
        return self.settings.leaves + bucket

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
        self.put(TRACKS, self.bin_of(number), pa.Table.from_arrays(columns, schema=schema_of(TRACKS)))
        if self.five and number == 0:
            attributes = pa.array([[("kind", {"text": "car"})]], STATES.schema.field("attributes").type)
            states = {
                "host": self.names,
                "from_us": np.zeros(self.hosts, np.int64),
                "until_us": np.full(self.hosts, 2**60),
                "attributes": attributes.take(pa.array(np.zeros(self.hosts, np.int64))),
            }
            self.put(STATES, 1, pa.table(states, schema=schema_of(STATES)))

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

    def events(self, number: int, rng: Any) -> Any:
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
        place = self.root / "tables" / table.name / f"bin={number}" / "part.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, place, compression="zstd")


def schema_of(table: Any) -> Any:
    return pa.schema([field.with_nullable(True) for field in table.schema if field.name != "bin"])


def processes() -> dict[int, tuple[str, float, int]]:
    """This process and all that it started, by number: its kind, CPU seconds, and bytes of memory."""
    parents, found = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
            words = rest.split()
        except OSError:
            continue
        number = int(stat.parent.name)
        parents[number] = int(words[1])
        used_s = sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
        kind = "jvm" if "(java" in name else "driver" if number == os.getpid() else "workers"
        found[number] = kind, used_s, int(words[21]) * os.sysconf("SC_PAGE_SIZE")

    def ours(process: int) -> bool:
        return process == os.getpid() or (process in parents and ours(parents[process]))

    return {number: each for number, each in found.items() if ours(number)}


class Watch(threading.Thread):
    """How much memory each kind of process takes at most, looked at five times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most: dict[str, float] = {"driver": 0.0, "jvm": 0.0, "workers": 0.0, "all": 0.0}
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.2):
            now = dict.fromkeys(self.most, 0.0)
            for kind, _, held in processes().values():
                now[kind] += held / 2**20
                now["all"] += held / 2**20
            self.most = {kind: max(most, now[kind]) for kind, most in self.most.items()}


def timed(spark: Any, data: Data) -> dict[str, float]:
    started, used_s = time.perf_counter(), sum(each[1] for each in processes().values())
    watch = Watch()
    watch.start()
    pairs = oracle(spark, data)
    wall_s = time.perf_counter() - started
    watch.done.set()
    cpu_s = sum(each[1] for each in processes().values()) - used_s
    memory = {f"{kind}_mb": most for kind, most in watch.most.items()}
    return {"wall_s": wall_s, "cpu_s": cpu_s, "pairs": float(pairs), **memory}


def oracle(spark: Any, data: Data) -> int:
    tables = Tables(spark, str(data.root))
    write_expected(tables, Prepared(spark, tables.root, data.settings))
    return tables.read(EXPECTED).count()


def peer(name: str, root: Path) -> dict[str, Any]:
    """A process of its own, so that its memory is its own."""
    command = [sys.executable, "-m", "bench.oracle_peers", name, str(root)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode:
        return {"skipped": said.stderr.strip().rpartition("\n")[2] or f"ended with {said.returncode}"}
    found: dict[str, Any] = json.loads(said.stdout.strip().rpartition("\n")[2])
    return found


def measure(
    spark: Any, root: Path, millions: float, kind: str, peers: list[str], runs: int
) -> dict[str, dict[str, Any]]:
    data = Data(root, millions, five=kind == "five")
    found: dict[str, list[dict[str, Any]]] = {}
    for _ in range(runs):
        found.setdefault("roamcast", []).append(timed(spark, data))
        for name in peers if kind == "plain" else ():
            found.setdefault(name, []).append(peer(name, root))
    return {name: median(each) for name, each in found.items()}


def median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The run in the middle, with the walls of all; who failed once is not compared."""
    failed = next((each for each in runs if "skipped" in each), None)
    if failed is not None:
        return failed
    done = sorted(runs, key=lambda each: float(each["wall_s"]))
    return {**done[(len(done) - 1) // 2], "walls_s": [each["wall_s"] for each in done]}


@contextmanager
def rooted(kept: str | None, millions: float, kind: str) -> Iterator[Path]:
    if kept:
        yield Path(kept) / f"{kind}-{millions:g}"
    else:
        with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
            yield Path(folder)


def show(title: str, found: dict[str, dict[str, Any]]) -> None:
    print(title, flush=True)
    ours = found["roamcast"]
    for name, each in found.items():
        if "skipped" in each:
            progress.skipped(name, each["skipped"])
            continue
        ratio = each["wall_s"] / ours["wall_s"]
        memory = ", ".join(f"{key[:-3]} {value:,.0f} MB" for key, value in each.items() if key.endswith("_mb"))
        print(
            f"  {name:10} {each['wall_s']:7.1f} s wall, {each['cpu_s']:7.1f} s CPU, {ratio:5.2f} × ours, "
            f"{each['pairs']:,.0f} pairs; {memory}; all walls {', '.join(f'{wall:.1f}' for wall in each['walls_s'])}",
            flush=True,
        )


def figures_of(label: str, found: dict[str, dict[str, Any]]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, each in found.items():
        if "skipped" in each:
            continue
        figures |= {f"{label}.{name}.{key}": float(value) for key, value in each.items() if key != "walls_s"}
        figures |= {
            f"{label}.{name}.wall_s_least": each["walls_s"][0],
            f"{label}.{name}.wall_s_most": each["walls_s"][-1],
        }
        figures[f"{label}.{name}.over_ours"] = each["wall_s"] / found["roamcast"]["wall_s"]
    return figures


def main(given: list[str] | None = None) -> dict[str, float]:
    options = argparse.ArgumentParser(prog="bench.oracle")
    options.add_argument("millions", nargs="*", type=float, default=[1.0])
    options.add_argument("--peers", default="duckdb,polars,sedonadb")
    options.add_argument("--kinds", default="plain,five")
    options.add_argument("--runs", type=int, choices=range(1, 10), default=3)
    options.add_argument("--json", default=None)
    options.add_argument("--data", default=None, help="where the tables are kept for the next time")
    options.add_argument("--only-data", action="store_true")
    asked = options.parse_args(given or [])
    sizes = [(millions, kind) for millions in asked.millions for kind in asked.kinds.split(",")]
    if asked.only_data:
        for millions, kind in sizes:
            with rooted(asked.data, millions, kind) as root:
                Data(root, millions, five=kind == "five")
        return {}
    with interrupts.kept():
        spark = open_session("local[2]")
    figures: dict[str, float] = {}
    peers = [name for name in asked.peers.split(",") if name]
    print("warming up …", file=sys.stderr, flush=True)
    for _ in range(WARM_UPS):
        with rooted(asked.data, 0.1, "five") as root:
            measure(spark, root, 0.1, "five", [], 1)
    for millions, kind in sizes:
        print(f"{millions:g} M fixes, {kind} …", file=sys.stderr, flush=True)
        with rooted(asked.data, millions, kind) as root:
            found = measure(spark, root, millions, kind, peers, asked.runs)
        show(f"{millions:g} M fixes, {EVENTS_ALL:,} events, {kind}", found)
        figures |= figures_of(f"{millions:g} M {kind}", found)
        progress.note(figures)
    if asked.json:
        Path(asked.json).write_text(json.dumps(figures, indent=2))
    return figures


if __name__ == "__main__":
    main(sys.argv[1:])
