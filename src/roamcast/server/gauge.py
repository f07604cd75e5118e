"""What a live broker of an overlay uses, measured: who runs the nodes of a process (`guests.py`) asks this (O6).

Of a modulator it is the time that it ran, which is what the paper's resource monitor has: a broker does one thing
after the other, so a modulator that computes keeps everybody waiting, and so does one that sleeps. The same of the
work for a client. Whatever else the process does is counted by its CPU time.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from roamcast.model.event import Event
from roamcast.node.boundary import Measured

Result = TypeVar("Result")
STATM = Path("/proc/self/statm")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ProcessGauge:
    def __init__(
        self,
        clock_s: Callable[[], float] = time.perf_counter,
        cpu_s: Callable[[], float] = time.process_time,
        memory_bytes: Callable[[], int] | None = None,
    ) -> None:
        self._clock_s = clock_s
        self._cpu_s = cpu_s
        self._memory_bytes = memory_bytes or resident_bytes
        self.queued: Callable[[], int] = lambda: 0
        self._modulators_s: dict[str, float] = {}
        self._clients_s: dict[str, float] = {}
        self._modulated_s = 0.0
        """In all modulators."""
        self._measured_s, self._measured_cpu_s = clock_s(), cpu_s()

    def modulate(self, subscription_id: str, work: Callable[[], list[Event]]) -> list[Event]:
        began_s = self._clock_s()
        try:
            return work()
        finally:
            took_s = self._clock_s() - began_s
            self._modulators_s[subscription_id] = self._modulators_s.get(subscription_id, 0.0) + took_s
            self._modulated_s += took_s

    def serve(self, client: str | None, work: Callable[[], Result]) -> Result:
        if client is None:
            return work()
        began_s = self._clock_s() - self._modulated_s
        try:
            return work()
        finally:
            took_s = self._clock_s() - self._modulated_s - began_s
            self._clients_s[client] = self._clients_s.get(client, 0.0) + took_s

    def measured(self, now_us: int) -> Measured:
        now_s, cpu_s = self._clock_s(), self._cpu_s()
        accounted_s = self._modulated_s + sum(self._clients_s.values())
        measured = Measured(
            max(now_s - self._measured_s, 1e-6),
            tuple(self._modulators_s.items()),
            tuple(self._clients_s.items()),
            max(0.0, cpu_s - self._measured_cpu_s - accounted_s),
            self.queued(),
            self._memory_bytes(),
        )
        self._measured_s, self._measured_cpu_s = now_s, cpu_s
        self._modulators_s, self._clients_s, self._modulated_s = {}, {}, 0.0
        return measured


def resident_bytes() -> int:
    """0 where the system does not tell."""
    try:
        return int(STATM.read_text().split()[1]) * PAGE_BYTES
    except OSError:
        return 0
