"""How long a broker takes to start again, and how long it stands still for a snapshot.

Brokers with 1,000 and with 3,000 clients of three subscriptions each, whose log has messages of 200 bytes since the
last snapshot: as many as there are when the next is due by `storage.snapshot_replay_s`, and with `--whole` also
64 MiB of them. Work is measured beside the clock: it does not depend on what else the machine does.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from bench import progress
from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.inputs import AnyGiven, Arrived, Asked, Entry, Published, encode_batch
from roamcast.matching import Engine
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.topics import parse_filter
from roamcast.server.running import RunningBroker
from roamcast.server.settings import Settings
from roamcast.server.snapshot import ForkingSnapshotter, Snapshot, SnapshotFailed
from roamcast.server.storage import Log, StorageSettings

TAKES = "26 s"
LOG_BYTES = 64 * 1024 * 1024
PAYLOAD = b'{"v": 1, "text": "' + b"x" * 180 + b'"}'
BATCH = 20
START_US = 1_700_000_000_000_000


class Filling:
    """A broker whose inputs are logged as a server would."""

    def __init__(self, directory: Path, clients: int) -> None:
        self.log = Log.open(directory, StorageSettings(bytes_max=2**32, free_bytes_min=0))
        self.log.load()
        self.core = Core("bench", 1)
        Engine(self.core.space).warm_up()
        self.now_us = START_US
        self.work_s = 0.0
        self.clients = clients
        for number in range(clients):
            wanted = tuple(Subscription(parse_filter(f"d/{number}/{each}"), 1) for each in range(3))
            self.give(Arrived(f"c{number}", True, 100_000, None, True))
            self.give(Asked(f"c{number}", 1, wanted))
        self.log.append(encode_batch([]))
        self.log.snapshot(self.core.snapshot())

    def give(self, given: AnyGiven) -> Entry:
        self.now_us += 100
        began_s = time.thread_time()
        self.core.handle(self.now_us, given)
        self.work_s += time.thread_time() - began_s
        return Entry(self.now_us, given)

    def fill(self, until_bytes: int, until_s: float) -> int:
        """How many bytes were logged."""
        logged, number, self.work_s = 0, 0, 0.0
        while logged < until_bytes and self.work_s < until_s:
            entries = []
            for _ in range(BATCH):
                number += 1
                topic = f"d/{number % self.clients}/1"
                entries.append(self.give(Published("c0", number % 60_000 + 1, Message(topic, PAYLOAD, 1))))
            batch = encode_batch(entries)
            self.log.append(batch)
            logged += len(batch)
        self.log.close()
        return logged


def start_s(directory: Path) -> tuple[float, float, int]:
    """By the clock and of work, with the number of inputs that were read again."""
    broker = RunningBroker(Settings("bench", str(directory), "plane"))
    began_s, begun_s = time.perf_counter(), time.process_time()
    log = Log.open(directory, StorageSettings(bytes_max=2**32, free_bytes_min=0))
    broker._recovered(log)
    took_s, worked_s = time.perf_counter() - began_s, time.process_time() - begun_s
    log.close()
    return took_s, worked_s, broker.replayed


async def snapshot_of(core: Core) -> tuple[float, float]:
    """How long the broker stands still, and how long the whole takes."""
    loop = asyncio.get_running_loop()
    there: asyncio.Future[Snapshot | SnapshotFailed] = loop.create_future()
    snapshotter = ForkingSnapshotter(core.snapshot, loop)
    snapshotter.take(there.set_result)
    snapshot = await there
    assert isinstance(snapshot, Snapshot)
    return snapshotter.paused_s, snapshot.took_s


def main(whole: bool = False) -> dict[str, float]:
    figures: dict[str, float] = {}
    for clients in (1_000, 3_000):
        for name, until_s in (("due", StorageSettings().snapshot_replay_s), ("64 MiB", 1e9)):
            if name == "64 MiB" and not whole:
                continue
            with tempfile.TemporaryDirectory() as folder:
                filling = Filling(Path(folder), clients)
                logged = filling.fill(LOG_BYTES, until_s)
                began_s = time.perf_counter()
                filling.core.snapshot()
                alone_s = time.perf_counter() - began_s
                paused_s, took_s = asyncio.run(snapshot_of(filling.core))
                started_s, worked_s, replayed = start_s(Path(folder))
                print(
                    f"{clients} clients, log of {logged / 2**20:.1f} MiB ({name}), {replayed} inputs in "
                    f"{filling.work_s:.1f} s: starts in {started_s:.1f} s ({worked_s:.1f} s of work); "
                    f"a snapshot stands still for {paused_s * 1e3:.0f} ms of {took_s:.2f} s "
                    f"({alone_s:.2f} s with no copy)"
                )
                key = f"{clients} {name}"
                figures |= {f"start_s {key}": started_s, f"start_work_s {key}": worked_s}
                figures |= {f"paused_s {key}": paused_s, f"alone_s {key}": alone_s}
                progress.note(figures)
    return figures


if __name__ == "__main__":
    main("--whole" in sys.argv)
