"""Where, beside what and of which versions a benchmark ran."""

import os
import platform
import re
import shutil
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from roamcast import __version__

ROOT = Path(__file__).parents[1]
PROGRAMS = {
    "amqtt": "--version",
    "chromium": "--version",
    "g++": "--version",
    "mosquitto": "-h",
    "nats-server": "--version",
    "node": "--version",
    "redis-server": "--version",
}
"""And what has them say their version."""
PACKAGES = ("duckdb", "eclipse-zenoh", "ns3", "numba", "numpy", "polars", "pyspark", "sedonadb", "shapely")
ANSWER_S_MAX = 10.0


def conditions() -> dict[str, str]:
    """The load is that of the last minute before it began."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    models = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "roamcast": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": ", ".join(sorted(models)) or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "load": load(),
    }


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def commit() -> str:
    """With `-dirty` where files are not as they were committed."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    return said(words).strip() or "unknown"


@cache
def versions() -> dict[str, str]:
    """Of the peers and packages that are here."""
    found: dict[str, str] = {}
    for name, word in PROGRAMS.items():
        where = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
        number = re.search(r"\d+(\.\d+)+", said([where, word])) if where else None
        if where:
            found[name] = number[0] if number else "unknown"
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def said(command: list[str]) -> str:
    """Nothing where it cannot be run: a version is not worth a benchmark."""
    try:
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_S_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout
