"""An interrupt ends a benchmark once, and quietly: what it has is written, and what it started is ended."""

import logging
import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ONE_INTERRUPT_S = 1.0
"""`roamcast bench` passes an interrupt on that a terminal may have sent to both: what comes so soon is the same."""


class Interrupts:
    """Raises KeyboardInterrupt for a signal, and nothing for one that comes right after it."""

    def __init__(self) -> None:
        self.last_s = -math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if now_s - self.last_s > ONE_INTERRUPT_S:
            self.last_s = now_s
            # Py4J logs a traceback of what it was doing.
            logging.disable(logging.CRITICAL)
            raise KeyboardInterrupt


def take() -> None:
    interrupts = Interrupts()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # `nohup` has a hang-up ignored, and that stays so.
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, interrupts)


@contextmanager
def kept() -> Iterator[None]:
    """Around what takes interrupts for itself: Spark's session asks a Java that may be about to end."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
