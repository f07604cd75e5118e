"""The whole state of a broker as bytes, made while the broker goes on.

A copy of the process is forked: it has the state of that very moment, since memory is copied where either of the two
writes to it, pickles it, says it through a pipe and is gone. The broker stands still for the fork alone, some
milliseconds, however long the pickling takes. The copy has one thread, opens nothing, and first closes every file
and socket that it inherited: a broker that is killed meanwhile frees its directory and its ports at once. Where the
system refuses a fork, the broker pickles by itself, and stands still for that long
(docs/decisions/0023-state-is-pickled-by-a-copy.md).
"""

import gc
import os
import resource
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import NoReturn, Protocol, TypeAlias

from msgspec import Struct

from roamcast.server.storage.store import Needed

NICENESS = 5
"""The copy gives way to the broker."""
PIECE_BYTES = 1024 * 1024
LENGTH_BYTES = 8
"""Of the number that the copy says first: how many bytes follow."""
FIRST_FILE = 3
"""Behind standard input, output and error."""


class Snapshot(Struct, frozen=True):
    state: bytes
    took_s: float = 0.0
    needed: Needed | None = None
    """Which segments the state refers to."""


class SnapshotFailed(Exception):
    """The copy ended before it had said everything."""


Then: TypeAlias = Callable[[Snapshot | SnapshotFailed], None]


class Loop(Protocol):
    def call_soon_threadsafe(self, callback: Callable[[], None]) -> object: ...


class Snapshotter(Protocol):
    def take(self, then: Then) -> None:
        """`then` is called on the loop, at once or later, with the state as it is now."""
        ...


class BlockingSnapshotter(Snapshotter):
    """For tests, and where there is nothing to disturb."""

    def __init__(self, state: Callable[[], bytes]) -> None:
        self._state = state

    def take(self, then: Then) -> None:
        began_s = perf_counter()
        state = self._state()
        then(Snapshot(state, perf_counter() - began_s))


class ForkingSnapshotter(Snapshotter):
    def __init__(self, state: Callable[[], bytes], loop: Loop) -> None:
        self._state = state
        self._loop = loop
        self.paused_s = 0.0
        """How long the broker stood still for the last one."""

    def take(self, then: Then) -> None:
        began_s = perf_counter()
        try:
            copy, read_end = forked(self._state)
        except OSError:
            # There are as many processes or open files as there may be.
            BlockingSnapshotter(self._state).take(then)
            self.paused_s = perf_counter() - began_s
            return
        reading = (copy, read_end, began_s, then)
        try:
            threading.Thread(target=self._read, args=reading, name="snapshot", daemon=True).start()
        except RuntimeError:
            # There are as many threads as there may be: the broker waits for its copy.
            self._read(*reading)
        self.paused_s = perf_counter() - began_s

    def _read(self, copy: int, read_end: int, began_s: float, then: Then) -> None:
        """On a thread of its own. Whatever happens, `then` is called: the broker takes no other snapshot before."""
        result: Snapshot | SnapshotFailed
        try:
            state = said_by(copy, read_end)
            result = Snapshot(state, perf_counter() - began_s)
        except SnapshotFailed as problem:
            result = problem
        except (OSError, MemoryError) as problem:
            result = SnapshotFailed(f"what the copy said could not be read: {problem!r}")
        # A broker that is gone by now has no loop, and no use for it.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(lambda: then(result))


def forked(state: Callable[[], bytes]) -> tuple[int, int]:
    """The copy, and where to read what it says. Raises `OSError`."""
    read_end, write_end = os.pipe()
    try:
        copy = os.fork()
    except OSError:
        os.close(read_end)
        os.close(write_end)
        raise
    if not copy:
        say_and_end(state, write_end)
    os.close(write_end)
    return copy, read_end


def said_by(copy: int, read_end: int) -> bytes:
    """Raises `SnapshotFailed` if it is not all."""
    try:
        length = int.from_bytes(os.read(read_end, LENGTH_BYTES))
        pieces: list[bytes] = []
        while piece := os.read(read_end, PIECE_BYTES):
            pieces.append(piece)
        state = b"".join(pieces)
    finally:
        os.close(read_end)
        status = 0
        # Where whoever started the broker had it ignore its children, nobody knows how they end.
        with suppress(ChildProcessError):
            _, status = os.waitpid(copy, 0)
    if status or not length or len(state) != length:
        how = f"with {os.waitstatus_to_exitcode(status)}" if status else "too early"
        raise SnapshotFailed(f"the copy that was to pickle the state ended {how}")
    return state


def say_and_end(state: Callable[[], bytes], write_end: int) -> NoReturn:
    """What the copy does. Nothing of the broker may run in it: no cleaning up, no handler, no finalizer."""
    status = 1
    try:
        gc.disable()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        os.closerange(FIRST_FILE, write_end)
        os.closerange(write_end + 1, files)
        os.nice(NICENESS)
        said = memoryview(state())
        os.write(write_end, len(said).to_bytes(LENGTH_BYTES))
        while said:
            said = said[os.write(write_end, said) :]
        status = 0
    finally:
        os._exit(status)
