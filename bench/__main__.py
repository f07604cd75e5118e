"""`python -m bench [NAME ...]`: runs the named benchmarks, or all quick ones, and writes their figures to out/bench.

A benchmark is a module here with `main() -> dict[str, float]`: it prints what it measures as it goes and answers with
the figures. Timing lives here and in no test.
"""

import json
import math
import os
import platform
import signal
import sys
import time
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import FrameType

INTERRUPTED = 130
QUICK = ("datagram", "filters", "journal", "modulators", "raise_", "routing", "sim")
BENCHMARKS = (
    *QUICK,
    "broker_load",
    "broker_recovery",
    "broker_studio",
    "context",
    "fanout",
    "flood_watch",
    "match",
    "mobile",
    "oracle",
    "roam",
    "studio",
    "sweep",
)
"""`context` measures a whole protocol over many runs and takes the better part of an hour: only when it is named."""


ONE_INTERRUPT_S = 1.0
"""`roamcast bench` passes an interrupt on that a terminal may have sent to both: what comes so soon is the same."""


class Interrupts:
    """Raises KeyboardInterrupt for a signal, and nothing for one that comes right after it."""

    def __init__(self) -> None:
        self.last_s = -math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:
        before_s, self.last_s = self.last_s, time.monotonic()
        if self.last_s - before_s > ONE_INTERRUPT_S:
            raise KeyboardInterrupt


def main() -> None:
    interrupts = Interrupts()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, interrupts)
    try:
        run_all()
    except KeyboardInterrupt:
        print("interrupted")
        sys.exit(INTERRUPTED)


def run_all() -> None:
    chosen = sys.argv[1:] or list(QUICK)
    unknown = [name for name in chosen if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"no benchmark is called '{unknown[0]}'; there are {', '.join(BENCHMARKS)}")
    directory = Path("out/bench")
    directory.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        print(f"== {name}")
        before = conditions()
        print(", ".join(f"{what} {value}" for what, value in before.items()), flush=True)
        figures = import_module(f"bench.{name}").main()
        (directory / f"{name}.json").write_text(json.dumps({"conditions": before, "figures": figures}, indent=2))


def conditions() -> dict[str, str]:
    """Where and beside what it ran: the load is that of the last minute before it began."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    models = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": ", ".join(sorted(models)) or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}",
    }


if __name__ == "__main__":
    main()
