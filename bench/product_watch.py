"""What a broker does during a run of `bench.product`: its hottest Python functions, or its system calls.

Both attach to a running broker and cost it time, so the CPU figure of such a run is not one to quote.
"""

import os
import re
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from bench.fanout_peers import program

SAMPLES_PER_S = 200
FUNCTIONS_SHOWN = 25
END_S_MAX = 30.0
WAITING = ("Condition.wait ", "_worker ", "GroupCommit._work ", "LiveJournal._write_waiting ")
"""Threads in these wait for work or for a lock."""
LOOP = "Runner.run "
"""What the main thread's stack says before that is the same for all."""
CALLS = {
    "commits": ("fsync", "fdatasync"),
    "sends": ("sendto", "sendmsg", "write", "writev"),
    "reads": ("recvfrom", "recvmsg", "read"),
    "file writes": ("pwrite64",),
    "polls": ("epoll_wait", "epoll_pwait", "poll", "select"),
    "futexes": ("futex",),
}


class Profile(Struct):
    """Samples of the functions of a broker: those in which it was, and those that were on its stack."""

    own: Counter[str]
    below: Counter[str]

    def lines(self, cpu_us: float) -> Iterator[str]:
        total = max(1, self.own.total())
        for order, by in (("own", self.own), ("with what they call", self.below)):
            yield f"{'own %':>6}{'us':>7}{'all %':>7}{'us':>7}  function, by {order}; us of {cpu_us:.0f} a delivery"
            for name, _ in by.most_common(FUNCTIONS_SHOWN):
                own, all_ = self.own[name] / total, self.below[name] / total
                yield f"{100 * own:6.1f}{own * cpu_us:7.1f}{100 * all_:7.1f}{all_ * cpu_us:7.1f}  {name}"


@contextmanager
def profiled(pid: int) -> Iterator[Profile]:
    """Filled when the block is left."""
    found = Profile(Counter(), Counter())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stacks"
        options = ["--rate", str(SAMPLES_PER_S), "--format", "raw", "--function", "--output", str(file)]
        with attached("py-spy", ["record", "--pid", str(pid), *options]):
            yield found
        for line in file.read_text(encoding="utf-8").splitlines():
            stack, _, count = line.rpartition(" ")
            names = [re.sub(r"^.*/(site-packages|roamcast|lib/python[\d.]+)/", "", each) for each in stack.split(";")]
            if names[-1].startswith(WAITING):
                continue
            found.own[names[-1]] += int(count)
            loop = next((at for at, name in enumerate(names) if name.startswith(LOOP)), 0)
            for name in set(names[loop:]):
                found.below[name] += int(count)


@contextmanager
def traced(pids: list[int]) -> Iterator[Counter[str]]:
    """System calls of these processes by name, filled when the block is left."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "calls"
        options = [word for pid in pids for word in ("-p", str(pid))]
        with attached("strace", ["-f", "-c", "-U", "name,calls", "-o", str(file), *options]):
            yield found
        for line in file.read_text(encoding="utf-8").splitlines():
            words = line.split()
            if len(words) == 2 and words[1].isdigit() and words[0] != "total":
                found[words[0]] += int(words[1])


def counted(calls: Counter[str], deliveries: int, events: int) -> Iterator[str]:
    yield f"{'':<14}{'a delivery':>12}{'an event':>12}"
    for name, members in CALLS.items():
        count = sum(calls[each] for each in members)
        yield f"{name:<14}{count / deliveries:12.3f}{count / events:12.2f}   {', '.join(members)}"
    others = calls.total() - sum(calls[each] for members in CALLS.values() for each in members)
    yield f"{'others':<14}{others / deliveries:12.3f}{others / events:12.2f}"


@contextmanager
def attached(tool: str, options: list[str]) -> Iterator[None]:
    where = program(tool)
    if where is None:
        raise RuntimeError(f"{tool} is not installed; `roamcast bench --list` says how to get it")
    pipe = subprocess.PIPE
    with subprocess.Popen([where, *options], stdout=pipe, stderr=pipe, process_group=0) as process:
        try:
            yield
        finally:
            os.kill(process.pid, signal.SIGINT)
            process.communicate(timeout=END_S_MAX)
