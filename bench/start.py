"""How long a broker takes until it is ready, as a process of its own: with nothing, and with 100,000 kept sessions.

CPU time is measured beside the clock, and does not depend on what else the machine does. Each is started three times,
and the shortest counts: the first start may compile what others read from a cache.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import progress
from bench.children import tied
from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.inputs import Arrived, Asked, Left, encode_batch
from roamcast.broker.params import BrokerParams
from roamcast.mqtt.messages import Subscription
from roamcast.mqtt.packets import Pairs
from roamcast.mqtt.topics import parse_filter
from roamcast.server.storage import Log, StorageSettings

TAKES = "150 s"
SESSIONS = 100_000
SESSIONS_MAX = 1_000_000
STARTS = 3
START_US = 1_700_000_000_000_000
SETTINGS = """
name = "start"
data = "{data}"
space = "plane"
log_level = "warning"
listeners = [{{ port = 0 }}]
[protocol]
sessions_max = {sessions_max}
"""
NEAR: Pairs = (("filter", "near(position, 300)"),)


def kept(directory: Path, sessions: int, properties: Pairs) -> None:
    """A log with a snapshot of so many sessions, whose clients are away."""
    log = Log.open(directory, StorageSettings(bytes_max=2**32, free_bytes_min=0))
    life = log.load().life
    core = Core("start", life, BrokerParams(sessions_max=SESSIONS_MAX))
    for number in range(sessions):
        client = f"client-{number}"
        core.handle(START_US, Arrived(client, True, 0xFFFF_FFFF, None, True))
        wanted = Subscription(parse_filter(f"fleet/{number}/#"), 1, user_properties=properties)
        core.handle(START_US, Asked(client, 1, (wanted,)))
        core.handle(START_US, Left(client, None, True))
    log.append(encode_batch([]))
    log.snapshot(core.snapshot())
    log.close()


def started(folder: Path, data: str) -> tuple[float, float, float]:
    """Seconds by the clock and of CPU until it is ready, and how many MB it has then."""
    config = folder / f"{data}.toml"
    config.write_text(SETTINGS.format(data=data, sessions_max=SESSIONS_MAX), encoding="utf-8")
    command = [sys.executable, "-c", "from roamcast.cli.main import main; main()", "broker", "--config", str(config)]
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=tied) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "is ready" in line:
                break
        took_s = time.perf_counter() - begun
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        memory_mb = int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        process.send_signal(signal.SIGKILL)
    return took_s, cpu_s, memory_mb


def main() -> dict[str, float]:
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kept(folder / "plain", SESSIONS, ())
        kept(folder / "near", SESSIONS, NEAR)
        for what in ("empty", "plain", "near"):
            took_s, cpu_s, memory_mb = min(started(folder, what) for _ in range(STARTS))
            figures |= {f"{what}_s": took_s, f"{what}_cpu_s": cpu_s, f"{what}_mb": round(memory_mb)}
            progress.note(figures)
            print(f"{what:<8} {took_s:6.2f} s, {cpu_s:6.2f} s of CPU, {memory_mb:6.0f} MB", flush=True)
    return figures
