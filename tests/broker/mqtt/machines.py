"""The machines of a stage: an event loop, disks, snapshotters and wires, at a time of the test's.

Every delay is drawn from one generator, so a seed is a whole run. Disks store a batch some time after it is given to
them; one whose broker is killed stores nothing more.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Protocol

from roamcast.broker.mqtt.core import Core
from roamcast.server.snapshot import Snapshot, Snapshotter, Then
from roamcast.server.storage.store import Needed, Segment

EPOCH_US = 1_700_000_000_000_000


class Later:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Clockwork:
    """An event loop whose time is a number."""

    def __init__(self) -> None:
        self.now_us = EPOCH_US
        self._due: list[tuple[int, int, Later]] = []
        self._count = 0

    def time(self) -> float:
        return self.now_us / 1e6

    def call_soon(self, callback: Callable[[], None]) -> Later:
        return self.after(0, callback)

    def call_later(self, delay: float, callback: Callable[[], None]) -> Later:
        return self.after(round(delay * 1e6), callback)

    def after(self, delay_us: int, callback: Callable[[], None]) -> Later:
        later = Later(callback)
        self._count += 1
        heappush(self._due, (self.now_us + max(0, delay_us), self._count, later))
        return later

    def run(self, until_us: int) -> None:
        while self._due and self._due[0][0] <= until_us:
            at_us, _, later = heappop(self._due)
            self.now_us = max(self.now_us, at_us)
            if later.callback is not None:
                later.callback()
        self.now_us = max(self.now_us, until_us)


class Course(Protocol):
    """What all machines of a stage share."""

    loop: Clockwork
    rng: Random


class Disk:
    def __init__(self) -> None:
        self.snapshot: bytes | None = None
        self.batches: list[bytes] = []
        self.segments: dict[int, bytes] = {}


class Head:
    """Writes to a disk as long as its broker lives."""

    def __init__(self, course: Course, disk: Disk) -> None:
        self.course = course
        self.disk = disk
        self.dead = False
        self._last_us = 0

    def submit(
        self, batch: bytes, done: Callable[[Exception | None], None], segments: tuple[Segment, ...] = ()
    ) -> None:
        self._in_turn(lambda: self._append(batch, segments), done)

    def _append(self, batch: bytes, segments: tuple[Segment, ...]) -> None:
        self.disk.batches.append(batch)
        self.disk.segments.update(segments)

    def snapshot(
        self,
        state: bytes,
        behind: int,
        done: Callable[[Exception | None], None],
        segments: tuple[Segment, ...] = (),
        needed: Needed | None = None,
    ) -> None:
        self._in_turn(lambda: self._replace(state, behind, segments, needed or Needed()), done)

    def _replace(self, state: bytes, behind: int, segments: tuple[Segment, ...], needed: Needed) -> None:
        batches = self.disk.batches
        self.disk.snapshot, self.disk.batches = state, batches[len(batches) - behind :]
        self.disk.segments.update(segments)
        for number in [each for each in self.disk.segments if needed.drops(each)]:
            del self.disk.segments[number]

    def fetch(self, number: int, then: Callable[[bytes | None], None]) -> None:
        self._in_turn(lambda: None, lambda _: then(self.disk.segments[number]))

    def _in_turn(self, write: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """One after the other, as they were given."""
        loop = self.course.loop
        self._last_us = max(self._last_us + 1, loop.now_us + self.course.rng.randint(0, 3_000))
        loop.after(self._last_us - loop.now_us, lambda: self._write(write, done))

    def _write(self, write: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        if not self.dead:
            write()
            self.course.loop.after(0, lambda: None if self.dead else done(None))


class SlowSnapshotter(Snapshotter):
    """Takes a snapshot at once, and gives it out some time later."""

    def __init__(self, course: Course, head: Head, core: Core) -> None:
        self.course = course
        self.head = head
        self.core = core

    def take(self, then: Then) -> None:
        snapshot = Snapshot(self.core.snapshot())
        self.course.loop.after(self.course.rng.randint(0, 30_000), lambda: None if self.head.dead else then(snapshot))


class Wire:
    """A socket's transport: what is written arrives some time later, in order, until one side is closed."""

    def __init__(self, course: Course, receive: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self.course = course
        self.receive = receive
        self.ended = ended
        self.open = True
        self.closing = False
        self._last_us = 0

    def write(self, data: bytes) -> None:
        if self.open:
            self._deliver(lambda: self.receive(data) if self.open else None)

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self._deliver(self.ended)

    def _deliver(self, action: Callable[[], None]) -> None:
        now_us = self.course.loop.now_us
        self._last_us = max(self._last_us + 1, now_us + self.course.rng.randint(100, 5_000))
        self.course.loop.after(self._last_us - now_us, action)

    abort = close

    def is_closing(self) -> bool:
        return self.closing or not self.open

    def get_extra_info(self, name: str) -> object:
        return None

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass
