"""Wall time that goes on evenly when somebody sets the system clock.

    now = the time since the machine started + an anchor

A clock is anchored once, so that it shows wall time, and then follows the machine's own counter: people can read its
values and machines can compare them, but no timer and no age depends on what becomes of the system clock.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
STEP_US = 1_000_000
"""A smaller change of the difference between the two clocks may be drift."""
# Linux has a counter that goes on while the machine sleeps.
since_boot_ns: Callable[[], int] = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns
)


def boot_id() -> str:
    """Tells one start of the machine from another; empty where the system does not say."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


class SteadyClock:
    def __init__(
        self,
        anchor_us: int | None = None,
        since_boot_ns: Callable[[], int] = since_boot_ns,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Without an anchor it shows wall time from now on."""
        self._since_boot_ns = since_boot_ns
        self._wall_ns = wall_ns
        self.anchor_us = (wall_ns() - since_boot_ns()) // 1_000 if anchor_us is None else anchor_us
        self._behind_us = self.behind_us()

    def now_us(self) -> int:
        return self._since_boot_ns() // 1_000 + self.anchor_us

    def not_before(self, at_us: int) -> None:
        """Goes on from a moment that is known to be over."""
        self.anchor_us = max(self.anchor_us, at_us - self._since_boot_ns() // 1_000)
        self._behind_us = self.behind_us()

    def behind_us(self) -> int:
        """How far the system clock is ahead of this one."""
        return self._wall_ns() // 1_000 - self.now_us()

    def step_us(self) -> int:
        """By how much the system clock was set since this was asked last; 0 if it was not."""
        before, after = self._behind_us, self.behind_us()
        if abs(after - before) < STEP_US:
            return 0
        self._behind_us = after
        return after - before
