"""Processes that a benchmark starts: `Popen(…, preexec_fn=tied)` has them end with it, however it ends.

They stand in a group of their own: Ctrl-C in a terminal is for the benchmark, which ends them in its own order.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
"""Loaded before there are children: between fork and exec as little as possible should happen."""


def tied() -> None:
    """Called in the child before it becomes its program. Only Linux can tell it that its parent is gone."""
    os.setpgid(0, 0)
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
