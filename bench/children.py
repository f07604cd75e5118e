"""Processes that a benchmark starts: `Popen(…, preexec_fn=tied)` has them end with it, however it ends.

They stand in a group of their own: Ctrl-C in a terminal is for the benchmark, which ends them in its own order.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
"""Found before there are children: between fork and exec as little as possible should happen."""
PARENT = os.getpid()


def tied() -> None:
    """Called in the child before it becomes its program. Only Linux can tell it that its parent is gone; to Linux
    that is the thread that started it, so start it from the main one."""
    os.setpgid(0, 0)
    if PRCTL is not None:
        PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != PARENT:
            # It went before it could be told of.
            os._exit(1)
