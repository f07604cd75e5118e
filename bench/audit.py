"""From a raw journal to the audit page, against a polars script that does the same (`audit_peer.py`).

Hosts on a square of 10 km, a fix every ten seconds, every host subscribed once, events with a circular audience that
moves with their publishers, at most 100,000; 99 of 100 wanted deliveries are made. `python -m bench audit` takes 1
million fixes; `python -m bench.audit 1 10 50` as many millions as it is told. A new process for each turn, session
included. CPU seconds are those of all its processes, and of `roamcast audit` also those of each step.
"""

import argparse
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import progress
from bench.oracle import RADIUS_M, SIDE_M, SPEED_MPS, STEP_US
from roamcast.journal.plain import plain_filter, plain_scope
from roamcast.journal.records import RUN_ENDED
from roamcast.journal.schema import TABLES, VERSION_DIRECTORY
from roamcast.model.filter.tree import EVERYTHING
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.values import FOREVER_US, Point

TAKES = "2 minutes for 1 million fixes"
NEEDS = {"java": "apt-get install default-jre-headless", "polars": "pip install 'roamcast[bench]'"}
STEPS = 1_000
FIXES_PER_EVENT, EVENTS_MAX = 50, 100_000
DELIVERED = 0.99
DELAY_US = (1_000, 50_000)
SEGMENT_ROWS = 131_072
COMPLETE = "complete"
BY_NAME = {table.name: table for table in TABLES}
SUBREAPER = 36
"""Of prctl: orphans of what was started become ours, so their CPU time is counted too."""


class Raw:
    """Writes a journal of so many millions of fixes, in segments as a broker does."""

    def __init__(self, root: Path, millions: float) -> None:
        self.root, self.rng = root, np.random.default_rng(1)
        self.hosts = round(millions * 1e6) // STEPS
        self.names = pa.array([f"host-{number:07d}" for number in range(self.hosts)])
        self.segments = dict.fromkeys(BY_NAME, 0)

    def write(self) -> None:
        events = min(EVENTS_MAX, self.hosts * STEPS // FIXES_PER_EVENT)
        publisher = self.rng.integers(0, self.hosts, events)
        at_us = np.sort(self.rng.integers(0, STEPS * STEP_US, events))
        self.subscribe()
        pairs = [np.zeros((2, 0), np.int64)]
        places = np.zeros((events, 2))
        waiting: list[Any] = []
        where = self.rng.uniform(0, SIDE_M, (self.hosts, 2))
        for step in range(STEPS):
            turn = self.rng.uniform(0, 2 * np.pi, self.hosts)
            way = SPEED_MPS * np.stack([np.cos(turn), np.sin(turn)], axis=1)
            waiting.append(self.moves(step, where, way))
            for number in range(*np.searchsorted(at_us, [step * STEP_US, (step + 1) * STEP_US])):
                here = where + way * ((at_us[number] - step * STEP_US) / 1e6)
                places[number] = here[publisher[number]]
                near = np.flatnonzero(((here - places[number]) ** 2).sum(1) <= RADIUS_M * RADIUS_M)
                pairs.append(np.stack([np.full(len(near), number), near]))
            where = np.clip(where + way * (STEP_US / 1e6), 0, SIDE_M)
            if (len(waiting) + 1) * self.hosts > SEGMENT_ROWS or step == STEPS - 1:
                self.segment("moves", pa.concat_tables(waiting))
                waiting = []
        sequence = self.publish(publisher, at_us, places)
        self.deliver(np.concatenate(pairs, axis=1), at_us, sequence)
        self.end()

    def moves(self, step: int, where: Any, way: Any) -> Any:
        count = np.zeros(self.hosts, np.int64)
        columns = {"x": where[:, 0], "y": where[:, 1], "velocity_east": way[:, 0], "velocity_north": way[:, 1]}
        nothing = pa.nulls(self.hosts, pa.float64())
        return self.rows(
            "moves",
            self.names,
            count + step,
            count + step * STEP_US,
            **columns,
            destination_x=nothing,
            destination_y=nothing,
            pause_us=count,
            pause_left_us=count,
            up=np.ones(self.hosts, np.bool_),
        )

    def subscribe(self) -> None:
        everywhere = pa.array([plain_scope(EVERYWHERE)], BY_NAME["subscriptions"].schema.field("interest").type)
        count = np.zeros(self.hosts, np.int64)
        scope, same = everywhere.take(pa.array(count)), pa.array([plain_filter(EVERYTHING), "x", ""])
        filters, subjects, nothing = (same.take(pa.array(count + number)) for number in range(3))
        rows = self.rows(
            "subscriptions",
            self.names,
            count + STEPS,
            count,
            subscription_id=self.names,
            subscriber=self.names,
            subject=subjects,
            issued_us=count,
            expires_us=count + FOREVER_US,
            filter=filters,
            interest=scope,
            publishers=scope,
            modulator=nothing,
        )
        self.segment("subscriptions", rows)

    def publish(self, publisher: Any, at_us: Any, places: Any) -> Any:
        """Answers the next sequence number of each host."""
        sequence = STEPS + 1 + numbered(publisher)
        schema, relevance = BY_NAME["publications"].schema, plain_scope(EVERYWHERE)
        for start in range(0, len(at_us), SEGMENT_ROWS):
            rows = []
            for number in range(start, min(len(at_us), start + SEGMENT_ROWS)):
                name, time_us = self.names[publisher[number]].as_py(), int(at_us[number])
                x, y = places[number].tolist()
                context = {"host": name, "at_us": time_us, "x": x, "y": y, "pause_us": 0, "pause_left_us": 0}
                event = {
                    "host": name,
                    "incarnation": 1,
                    "sequence": int(sequence[number]),
                    "at_us": time_us,
                    "event_id": f"e{number:07d}",
                    "subject": "x",
                    "publisher": context | {"attributes": []},
                    "published_us": time_us,
                    "expires_us": time_us,
                    "attributes": [],
                    "relevance": relevance,
                    "audience": plain_scope(Scope(Anchored(Circle(Point(0.0, 0.0), RADIUS_M), name))),
                }
                rows.append(event)
            self.segment("publications", pa.Table.from_pylist(rows, schema=schema))
        return STEPS + 1 + np.bincount(publisher, minlength=self.hosts)

    def deliver(self, pairs: Any, at_us: Any, sequence: Any) -> None:
        event, host = pairs[:, self.rng.random(pairs.shape[1]) < DELIVERED]
        when_us = np.minimum(at_us[event] + self.rng.integers(*DELAY_US, len(event)), STEPS * STEP_US)
        order = np.argsort(when_us, kind="stable")
        event, host, when_us = event[order], host[order], when_us[order]
        number = sequence[host] + numbered(host)
        events = pa.array([f"e{number:07d}" for number in range(len(at_us))])
        for start in range(0, len(event), SEGMENT_ROWS):
            some = slice(start, start + SEGMENT_ROWS)
            names = self.names.take(pa.array(host[some]))
            rows = self.rows(
                "deliveries",
                names,
                number[some],
                when_us[some],
                event_id=events.take(pa.array(event[some])),
                subscription_id=names,
                subscriber=names,
                hops=pa.nulls(len(names), pa.int64()),
            )
            self.segment("deliveries", rows)

    def end(self) -> None:
        """The opening of the run, and that it ended."""
        header = {"host": "bench", "incarnation": 1, "at_us": 0, "sequence": 0}
        run = {"schema_version": 2, "space": "plane", "seed": 1, "scenario": "bench", "neighbour_range_m": 200.0}
        note = header | {"at_us": STEPS * STEP_US, "sequence": 1, "what": RUN_ENDED, "detail": ""}
        for name, row in (("notes", note), ("runs", header | run)):
            self.segment(name, pa.Table.from_pylist([row], schema=BY_NAME[name].schema))

    def rows(self, table: str, host: Any, sequence: Any, at_us: Any, **columns: Any) -> Any:
        header = {"host": host, "incarnation": np.ones(len(host), np.int64), "sequence": sequence, "at_us": at_us}
        return pa.table({**header, **columns}).cast(BY_NAME[table].schema)

    def segment(self, name: str, rows: Any) -> None:
        place = self.root / VERSION_DIRECTORY / name
        for each in BY_NAME:
            (self.root / VERSION_DIRECTORY / each).mkdir(parents=True, exist_ok=True)
        file = place / f"bench-000001-{self.segments[name]:08d}.parquet"
        self.segments[name] += 1
        pq.write_table(rows, file, compression="zstd", **BY_NAME[name].encoding)


def numbered(groups: Any) -> Any:
    """The how manieth of its group each row is."""
    order = np.argsort(groups, kind="stable")
    sorted_ = groups[order]
    first = np.searchsorted(sorted_, sorted_)
    found = np.empty(len(groups), np.int64)
    found[order] = np.arange(len(groups)) - first
    return found


def journal_of(root: Path, millions: float) -> Path:
    """Written once; what an earlier audit left there goes."""
    place = root / f"raw-{millions:g}"
    if not (place / COMPLETE).exists():
        shutil.rmtree(place, ignore_errors=True)
        Raw(place, millions).write()
        (place / COMPLETE).touch()
    for name in ("tables", "audit"):
        shutil.rmtree(place / name, ignore_errors=True)
    return place


def turn(*command: str) -> dict[str, Any]:
    """Wall and CPU seconds of a process and of all that it starts."""
    code = f"import bench.audit, sys; bench.audit.counted({list(command)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        return {"skipped": (done.stderr or done.stdout).strip().rpartition("\n")[2]}
    found: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return found


def counted(command: list[str]) -> None:
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    said = process.communicate()[0]
    wall_s = time.perf_counter() - began
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    if process.returncode:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    counts = json.loads(said.strip().rpartition("\n")[2])
    print(json.dumps({"wall_s": wall_s, "cpu_s": used.ru_utime + used.ru_stime, **counts["total"]}))


def main(given: list[str] | None = None) -> dict[str, float]:
    options = argparse.ArgumentParser(prog="bench.audit")
    options.add_argument("millions", nargs="*", type=float, default=[1.0])
    options.add_argument("--runs", type=int, choices=range(1, 10), default=3)
    options.add_argument("--peers", default="polars")
    options.add_argument("--data", default=None, help="where journals are kept for the next time")
    options.add_argument("--only-data", action="store_true")
    asked = options.parse_args(given or [])
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        for millions in asked.millions:
            root = Path(asked.data or folder)
            found: dict[str, list[dict[str, Any]]] = {}
            for _ in range(0 if asked.only_data else asked.runs):
                journal = str(journal_of(root, millions))
                found.setdefault("roamcast", []).append(
                    turn(sys.executable, "-m", "roamcast", "audit", journal, "--json")
                )
                for name in filter(None, asked.peers.split(",")):
                    found.setdefault(name, []).append(turn(sys.executable, "-m", "bench.audit_peer", journal))
            if asked.only_data:
                journal_of(root, millions)
            figures |= shown(millions, found)
            progress.note(figures)
    return figures


def shown(millions: float, found: dict[str, list[dict[str, Any]]]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, runs in found.items():
        if failed := next((each["skipped"] for each in runs if "skipped" in each), None):
            progress.skipped(name, failed)
            continue
        middle = sorted(runs, key=lambda each: float(each["wall_s"]))[(len(runs) - 1) // 2]
        walls = ", ".join(f"{each['wall_s']:.1f} ({each['cpu_s']:.1f})" for each in runs)
        print(
            f"{millions:g} M fixes, {name}: {middle['wall_s']:.1f} s wall, {middle['cpu_s']:.1f} s CPU; "
            f"expected {middle['expected']:,}, missed {middle['missed']:,}; all {walls}",
            flush=True,
        )
        figures |= {f"{millions:g} M.{name}.{key}": middle[key] for key in ("wall_s", "cpu_s", "expected", "missed")}
    return figures


if __name__ == "__main__":
    main(sys.argv[1:])
