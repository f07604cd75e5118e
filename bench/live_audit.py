"""How far `roamcast pipeline watch` is behind a system of 1,000 clients, and whether it counts right.

A journal is written as brokers write theirs, in segments of two seconds: each client reports a position every second,
and 50 events a second go to ten clients each, of which one delivery in a hundred is missed and one made twice. The
numbers are read as Prometheus reads them. The lag is from the last event whose deliveries count, but for the grace of
five seconds, to now. `python -m bench.live_audit 1000 --seconds 60`.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import urlopen

import numpy as np

from bench import progress
from bench.children import tied
from bench.oracle import processes
from roamcast.demo.fleet import free_ports
from roamcast.journal import Delivered, Journal, Move, Published, Run, Subscribed
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point

TAKES = "3 minutes"
NEEDS = {"java": "apt-get install default-jre-headless"}
GROUP = 10
EVENTS_A_SECOND = 50
FLUSH_S = 2
GRACE_S = 5
SECOND_US = 1_000_000
GAUGE = re.compile(r"^roamcast_audit_(\w+) (\S+)$", re.MULTILINE)


class System:
    """What is recorded of clients that move, second by second."""

    def __init__(self, journal: Journal, clients: int, now_us: int) -> None:
        self.journal, self.rng = journal, np.random.default_rng(1)
        self.names = [f"client-{number:05d}" for number in range(clients)]
        self.published: list[int] = []
        self.missed = self.doubled = 0
        for number, name in enumerate(self.names):
            journal.record(Move(name, now_us, Point(0.0, 0.0)))
            wanted = Subscription(f"s-{name}", name, f"g/{number // GROUP}", now_us, FOREVER_US)
            journal.record(Subscribed(name, now_us, wanted))

    def second(self, at_us: int) -> None:
        for name, (x, y) in zip(self.names, self.rng.uniform(0, 10_000, (len(self.names), 2)).tolist(), strict=True):
            self.journal.record(Move(name, at_us, Point(x, y)))
        for number in range(EVENTS_A_SECOND):
            now_us = at_us + number * (SECOND_US // EVENTS_A_SECOND)
            group = int(self.rng.integers(len(self.names) // GROUP))
            event = f"e{len(self.published):08d}"
            self.published.append(now_us)
            context = Context(self.names[0], Point(0.0, 0.0), now_us)
            self.journal.record(Published(self.names[0], now_us, Event(event, f"g/{group}", context, now_us, now_us)))
            for name in self.names[group * GROUP : (group + 1) * GROUP]:
                times = int(self.rng.choice((0, 1, 2), p=(0.01, 0.98, 0.01)))
                self.missed, self.doubled = self.missed + (times == 0), self.doubled + (times == 2)
                for _ in range(times):
                    self.journal.record(Delivered(name, now_us, event, f"s-{name}", name))


def gauges(port: int) -> dict[str, float]:
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
            return {name: float(value) for name, value in GAUGE.findall(page.read().decode())}
    except OSError:
        return {}


def main(given: list[str] | None = None) -> dict[str, float]:
    options = argparse.ArgumentParser(prog="bench.live_audit")
    options.add_argument("clients", nargs="?", type=int, default=1_000)
    options.add_argument("--seconds", type=int, default=60, help="measured, after as many to start in")
    options.add_argument("--patience", type=int, default=600, help="seconds to wait for the last counts")
    asked = options.parse_args(given or [])
    with tempfile.TemporaryDirectory(prefix="live-audit-") as folder:
        figures = measured(Path(folder), asked.clients, asked.seconds, asked.patience)
    progress.note(figures)
    return figures


def measured(folder: Path, clients: int, seconds: int, patience_s: int) -> dict[str, float]:
    port, began = free_ports(1)[0], time.time()
    lags: list[float] = []
    command = ["pipeline", "watch", str(folder), "--follow", "0.5", "--port", str(port), "--json"]
    with Journal(folder, Run("bench", round(began * 1e6), Plane(), 1), durable=False) as journal:
        system = System(journal, clients, round(began * 1e6))
        journal.flush()
        watch = subprocess.Popen([sys.executable, "-m", "roamcast", *command], preexec_fn=tied)
        try:
            for turn in range(2 * seconds):
                time.sleep(max(0.0, began + turn + 1 - time.time()))
                system.second(round((began + turn) * 1e6))
                if turn % FLUSH_S == 1:
                    journal.flush()
                counted = int(gauges(port).get("expected", 0)) // GROUP
                if counted and turn >= seconds:
                    latest_us = system.published[min(counted, len(system.published)) - 1]
                    lags.append(time.time() - latest_us / 1e6 - GRACE_S)
            last_us = round(time.time() * 1e6)
            # What comes after the grace, so that all before it counts.
            journal.record(Move(system.names[0], last_us + 2 * GRACE_S * SECOND_US, Point(0.0, 0.0)))
            journal.end(last_us + 2 * GRACE_S * SECOND_US)
            found = waited_for(port, len(system.published) * GROUP, patience_s)
            cpu_s = sum(used_s for number, (_, used_s, _) in processes().items() if number != os.getpid())
        finally:
            watch.terminate()
            watch.wait()
    wanted = {"expected": len(system.published) * GROUP, "missed": system.missed, "duplicates": system.doubled}
    right = all(found.get(name) == count for name, count in wanted.items()) and not found.get("unwanted")
    middle, most = (float(np.percentile(lags or [np.nan], share)) for share in (50, 100))
    print(
        f"{clients:,} clients, {2 * seconds} s: lag {middle:.1f} s (median of {len(lags)}), {most:.1f} s (most); "
        f"{cpu_s / (2 * seconds):.2f} CPU s a second; counts {'right' if right else f'WRONG: {found}, not {wanted}'}"
    )
    return {"lag_median_s": middle, "lag_most_s": most, "cpu_s": cpu_s, "right": float(right)}


def waited_for(port: int, expected: int, patience_s: int) -> dict[str, float]:
    until = time.time() + patience_s
    found = gauges(port)
    while found.get("expected") != expected and time.time() < until:
        time.sleep(1)
        found = gauges(port)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
