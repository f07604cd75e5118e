"""`make fuzz`: spoilt bytes for everything that hears strangers, for ten minutes or as many inputs as COUNT says.

Two thirds of the time go to decoders and state machines in this process, the rest to a broker and to a node that run
as processes. The first crash, hang or traceback, and inputs that are told of in more lines than there are inputs, end
it. Each target has a generator of its own, so with the same SEED it gets the same inputs in the same order.
"""

import asyncio
import os
import secrets
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random
from types import FrameType

from tests.fuzz.decoders import TARGETS, Target
from tests.fuzz.processes import Failed, FuzzedBroker, FuzzedNode

SECONDS = 600.0
TURN_S = 2.0
HANG_S = 60
REPORT_S = 60.0


def say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


def hangs(_signal: int, _frame: FrameType | None) -> None:
    raise Failed(f"it hangs for {HANG_S} s")


class Fuzz:
    def __init__(self, seed: int, folder: Path) -> None:
        self.counts: dict[str, int] = {}
        self._targets: list[Target] = [make() for make in TARGETS]
        self._broker = FuzzedBroker(folder)
        self._processes: list[FuzzedBroker | FuzzedNode] = [self._broker, FuzzedNode(folder)]
        self._generators = {each.name: Random(f"{seed} {each.name}") for each in (*self._targets, *self._processes)}

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    async def run(self, count: int) -> None:
        """Ends after so many inputs, or after `SECONDS` if `count` is 0; raises what went wrong."""
        ends_s = told_s = time.monotonic()
        ends_s += SECONDS
        try:
            for each in self._processes:
                await each.start()
            while self.total < count if count else time.monotonic() < ends_s:
                for target in self._targets:
                    self._have(target)
                for process in self._processes:
                    await self._have_process(process)
                if time.monotonic() > told_s + REPORT_S:
                    told_s = time.monotonic()
                    say(self.told())
        finally:
            for each in self._processes:
                await each.stop()

    def _have(self, target: Target) -> None:
        until_s = time.monotonic() + TURN_S / len(self._targets)
        while time.monotonic() < until_s:
            signal.alarm(HANG_S)
            self._count(target.name, target.take(self._generators[target.name]))
        signal.alarm(0)

    async def _have_process(self, process: FuzzedBroker | FuzzedNode) -> None:
        until_s = time.monotonic() + TURN_S / 4
        while time.monotonic() < until_s:
            self._count(process.name, await process.round(self._generators[process.name]))

    def _count(self, name: str, inputs: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + inputs

    def told(self) -> str:
        each = ", ".join(f"{name} {count:,}" for name, count in self.counts.items())
        lines = sum(each.watched.lines for each in self._processes)
        broker = ", ".join(f"{what} {count:,}" for what, count in sorted(self._broker.counts.items()))
        return f"{self.total:,} inputs: {each} ({broker}); {lines:,} lines of log"


def main() -> int:
    seed = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
    count = int(os.environ.get("COUNT") or 0)
    signal.signal(signal.SIGALRM, hangs)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    say(f"SEED={seed}, {f'{count:,} inputs' if count else f'{SECONDS:.0f} s'}")
    with tempfile.TemporaryDirectory(prefix="roamcast-fuzz-") as folder:
        fuzz = Fuzz(seed, Path(folder))
        try:
            asyncio.run(fuzz.run(count))
        except KeyboardInterrupt:
            say(f"interrupted, SEED={seed}; nothing was wrong with {fuzz.told()}")
            return 130
        except Exception:
            say(f"FAILED, SEED={seed}, after {fuzz.told()}")
            traceback.print_exc()
            return 1
        say(f"no crash, hang or traceback, SEED={seed}: {fuzz.told()}")
    return 0


sys.exit(main())
