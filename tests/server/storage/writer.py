"""A process that writes to a log until it is killed, and says on its output what it was told to be safe.

Batches count on from what it finds; now and then it takes a snapshot, which is the count so far.
"""

import asyncio
import os
import random
import sys
from functools import partial
from pathlib import Path

from roamcast.server.storage import GroupCommit, Log


def body_of(number: int) -> bytes:
    return f"{number}:".encode() + b"x" * (number * 7919 % 3_000)


def number_of(body: bytes) -> int:
    return int(body.partition(b":")[0])


def count_in(log: Log) -> int:
    """How far the log has counted; an error if a number is missing, doubled or out of order."""
    loaded = log.load()
    count = 0 if loaded.snapshot is None else number_of(loaded.snapshot)
    for body in loaded.batches:
        assert body == body_of(count + 1), f"after {count} came {body[:20]!r}"
        count += 1
    return count


async def write(directory: Path, seed: int) -> None:
    log = Log.open(directory)
    count = count_in(log)
    rng = random.Random(seed)
    commit = GroupCommit(log, asyncio.get_running_loop())

    def told(number: int, failure: Exception | None) -> None:
        assert failure is None
        os.write(1, b"%d\n" % number)

    while True:
        for _ in range(rng.randrange(1, 8)):
            count += 1
            commit.submit(body_of(count), partial(told, count))
        if rng.random() < 0.1:
            commit.snapshot(b"%d:" % count, 0, partial(told, count))
        await asyncio.sleep(rng.choice([0, 0, 0.001]))
        while commit.waiting_bytes > 100_000:
            await asyncio.sleep(0.0005)


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2])))
