"""The log on an asyncio loop: one thread writes, one transaction is in flight, what comes meanwhile shares the next.

So a sync to disk, which takes as long for one batch as for a thousand, is paid once for all that wait for it. A log
that does not sync takes its batches on the loop itself: to wake the thread would take longer than to write them.

`done` is called on the loop, in the order of submission, with None when the batch is safe. When a transaction fails,
everything that was submitted before its failure was told fails with it, since it was decided in the belief that what
came before would be safe; what is submitted afterwards is tried anew.

A broker that has lost its lease is told so once, by `lost`. Nobody is told anything about what was submitted then: it
may be in the log, and whoever holds the lease now knows.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Literal, TypeAlias

from msgspec import Struct

from roamcast.server.storage.errors import DamagedLog, LeaseLost, StorageError, StorageFull
from roamcast.server.storage.store import LogStore, Needed, Segment

GROUP_BYTES_MAX = 8 * 1024 * 1024

Done: TypeAlias = Callable[[Exception | None], None]


class Entry(Struct, frozen=True):
    """A refused one has no body any more; it waits only to be told in its turn."""

    body: bytes
    done: Done
    kind: Literal["batch", "snapshot", "refused", "read"] = "batch"
    behind: int = 0
    segments: tuple[Segment, ...] = ()
    needed: Needed | None = None
    read: Callable[[], None] | None = None
    size_bytes: int = 0


def size_of(body: bytes, segments: tuple[Segment, ...]) -> int:
    return len(body) + (sum([len(each) for _, each in segments]) if segments else 0)


class GroupCommit:
    """Made and used on the loop's thread; the log is its own from then on, until `close`."""

    def __init__(
        self,
        log: LogStore,
        loop: asyncio.AbstractEventLoop,
        waiting_bytes_max: int = 64 * 1024 * 1024,
        committed: Callable[[float, int], None] = lambda _, __: None,
        lost: Callable[[LeaseLost], None] = lambda _: None,
    ) -> None:
        """`committed` is told how many seconds each commit took, and how many batches it was of."""
        self._log = log
        self._committed = committed
        self._lost = lost
        self._loop = loop
        self._waiting_bytes_max = waiting_bytes_max
        self._to_write: SimpleQueue[list[Entry] | None] = SimpleQueue()
        self._writer = Thread(target=self._work, name="log", daemon=True)
        self._writer.start()
        self._waiting: deque[Entry] = deque()
        self._in_flight: list[Entry] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = self._abandoned = False
        self.waiting_bytes = 0
        """What is submitted and not told to be safe; a broker that sees it grow reads less from its clients."""

    def submit(self, batch: bytes, done: Done, segments: tuple[Segment, ...] = ()) -> None:
        self._add(Entry(batch, done, segments=segments, size_bytes=size_of(batch, segments)))

    def snapshot(
        self,
        state: bytes,
        behind: int,
        done: Done,
        segments: tuple[Segment, ...] = (),
        needed: Needed | None = None,
    ) -> None:
        """`state` is what all batches submitted so far lead to, but for the last `behind`; it takes their place."""
        self._add(Entry(state, done, "snapshot", behind, segments, needed, size_bytes=size_of(state, segments)))

    def fetch(self, number: int, then: Callable[[bytes | None], None]) -> None:
        """`then` gets a segment that was stored before; empty if it is missing, None if it cannot be read now."""
        found = list[bytes]()

        def read() -> None:
            try:
                found.append(self._log.segment(number))
            except DamagedLog:
                found.append(b"")
            except LeaseLost:
                raise
            except StorageError:
                # A database may give it later.
                return

        if not self._closed:
            self._add(Entry(b"", lambda _: then(found[0] if found else None), "read", read=read))

    def abandon(self) -> None:
        """Nothing is written any more, and nobody told. A commit that is under way may never end."""
        self._abandoned = True
        self._idle.set()

    async def close(self) -> None:
        """Returns when everything submitted was told; the log is closed too."""
        if self._closed:
            return
        self._closed = True
        await self._idle.wait()
        if self._abandoned:
            return
        self._to_write.put(None)
        await self._loop.run_in_executor(None, self._writer.join)

    def _add(self, entry: Entry) -> None:
        if self._abandoned:
            return
        if self._closed:
            raise RuntimeError("the log is closed")
        too_much = self.waiting_bytes + entry.size_bytes > self._waiting_bytes_max
        # A snapshot makes room, so it is never refused for being large.
        if too_much and self._in_flight and entry.kind == "batch":
            entry = Entry(b"", entry.done, "refused")
        self._waiting.append(entry)
        self.waiting_bytes += entry.size_bytes
        if not self._in_flight:
            self._idle.clear()
            self._start()

    def _start(self) -> None:
        """Put the next group in flight: one snapshot, or batches up to the next snapshot or a fair size."""
        group = [self._waiting.popleft()]
        size_bytes = group[0].size_bytes
        while self._waiting and group[0].kind == self._waiting[0].kind == "batch":
            size_bytes += self._waiting[0].size_bytes
            if size_bytes > GROUP_BYTES_MAX:
                break
            group.append(self._waiting.popleft())
        self._in_flight = group
        if self._log.synced or group[0].kind == "snapshot":
            self._to_write.put(group)
        else:
            self._write(group)

    def _work(self) -> None:
        """What the writer's thread does."""
        while (group := self._to_write.get()) is not None:
            self._write(group)
        self._log.close()

    def _write(self, group: list[Entry]) -> None:
        failure: Exception | None = None
        begun_s = time.perf_counter()
        try:
            match group[0].kind:
                case "batch":
                    self._log.append_all(
                        [entry.body for entry in group], [each for entry in group for each in entry.segments]
                    )
                case "snapshot":
                    first = group[0]
                    self._log.snapshot(first.body, first.behind, first.segments, first.needed)
                case "read":
                    assert group[0].read is not None
                    group[0].read()
                case "refused":
                    raise StorageFull(f"{self._log.place}: the disk is slower than what is to be written to it")
        except Exception as problem:
            failure = problem
        self._loop.call_soon_threadsafe(self._written, failure, time.perf_counter() - begun_s)

    def _written(self, failure: Exception | None, seconds: float) -> None:
        if isinstance(failure, LeaseLost):
            self.abandon()
            self._lost(failure)
        if self._abandoned:
            return
        told = self._in_flight
        self._committed(seconds, len(told))
        if failure is not None:
            told = [*told, *self._waiting]
            self._waiting.clear()
        for entry in told:
            self.waiting_bytes -= entry.size_bytes
            self._tell(entry, failure)
        self._in_flight = []
        if self._waiting:
            self._start()
        else:
            self._idle.set()

    def _tell(self, entry: Entry, failure: Exception | None) -> None:
        try:
            entry.done(failure)
        except Exception as problem:
            self._loop.call_exception_handler({"message": "what follows a commit failed", "exception": problem})
