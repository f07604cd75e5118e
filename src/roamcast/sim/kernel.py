"""Virtual time: a heap of (time, sequence, action), nothing else.

Two actions at the same time run in the order in which they were scheduled, so a run is a pure function of what was
put in. Time is in whole microseconds.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct


class Handle(Struct):
    """A scheduled action that can still be called off."""

    action: Callable[..., None] | None
    arguments: tuple[Any, ...]

    def cancel(self) -> None:
        self.action = None
        self.arguments = ()


class Kernel:
    def __init__(self) -> None:
        self.now_us = 0
        self.steps = 0
        self._sequence = 0
        self._heap: list[tuple[int, int, Handle]] = []

    def at(self, time_us: int, action: Callable[..., None], *arguments: Any) -> Handle:
        """Calls `action(*arguments)` at `time_us`; what is due in the past happens now."""
        handle = Handle(action, arguments)
        self._sequence += 1
        heappush(self._heap, (time_us if time_us > self.now_us else self.now_us, self._sequence, handle))
        return handle

    def run_until(self, end_us: int) -> None:
        """Runs everything that is due up to and including `end_us`, and leaves the clock there."""
        heap = self._heap
        while heap and heap[0][0] <= end_us:
            time_us, _, handle = heappop(heap)
            action = handle.action
            if action is not None:
                self.now_us = time_us
                self.steps += 1
                action(*handle.arguments)
        self.now_us = max(self.now_us, end_us)
