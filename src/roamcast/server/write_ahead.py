"""Inputs before effects: a batch of inputs is on disk before anything that it brings about is seen by anybody (L8).

All inputs of a tick, and of the ticks while the disk is busy, are one batch: one commit for many clients. An input
that brought nothing about is in no hurry: a PUBACK that is lost means a delivery sent again, a lost report an older
place, and a lost confirmation of a neighbour a message sent again. Such inputs wait for others to share their commit
with, `LAZY_S` at most; whatever comes of them later is in a batch behind them. Of reports that nothing else came
between (`reported`) the last one of each client is written, before the next input that may depend on it.

Commits are grouped by time too. While inputs that wait for the disk come from several sides at the same time, commits
begin at least `group_s` apart. Where one input waits for the other, as when a client publishes again after its
PUBACK, nothing is gained by that, and each is committed at once; so is whatever comes after a pause.

When the log has grown by more than a snapshot takes, or would take too long to be read again, a snapshot of the whole
state is taken (`snapshot.py`) together with the next batch, which it covers. Batches go on while it is made; when it
is there it is stored in the place of everything that it covers.

A batch that cannot be stored stays, with its effects, and `full` tells to take nothing new. The whole state is
at once tried in its place: it is not held to the quota, since clients that have drained their queues make it
smaller than what was logged. `full` ends when a batch can be stored again; that is tried every `RETRY_S`.
"""

from collections.abc import Callable
from time import monotonic
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.mqtt.effects import AnyEffect
from roamcast.broker.mqtt.inputs import (
    Announced,
    AnyGiven,
    Arrived,
    Asked,
    Entry,
    Finished,
    Heard,
    Left,
    Published,
    PublishedByMany,
    PublishedTogether,
    Reported,
    ReportedTogether,
    encode_batch,
)
from roamcast.model.context import Context
from roamcast.mqtt.messages import WillMessage
from roamcast.mqtt.packets import Pairs
from roamcast.server.snapshot import Snapshot, SnapshotFailed, Snapshotter
from roamcast.server.storage.store import Needed, Segment

RETRY_S = 1.0
LAZY_S = 0.5
"""How long inputs that brought nothing about wait for one that did."""
LAZY_BYTES_MAX = 64 * 1024
CONCURRENT_S = 1.0
"""So long after inputs that came together others are expected to."""
ENTRY_BYTES = 100
"""What an input takes besides what it carries, about."""
ROW_BYTES, NUMBER_BYTES = 16, 9
"""The same of what one client finished."""


class Store(Protocol):
    """Where batches go; `done` is called on the loop, in order, once one is safe, or with what went wrong."""

    def submit(
        self, batch: bytes, done: Callable[[Exception | None], None], segments: tuple[Segment, ...] = ()
    ) -> None: ...
    def snapshot(
        self,
        state: bytes,
        behind: int,
        done: Callable[[Exception | None], None],
        segments: tuple[Segment, ...] = (),
        needed: Needed | None = None,
    ) -> None:
        """`state` takes the place of all batches but the last `behind`, and of segments that are not needed."""
        ...

    def fetch(self, number: int, then: Callable[[bytes | None], None]) -> None:
        """`then` gets a segment; empty if it is missing, None if it cannot be read now."""
        ...


class Due(Struct, frozen=True):
    """When a snapshot is: after so many bytes, or so many seconds of work, since the last; but not before as much as
    the snapshot itself takes."""

    logged_bytes: int = 64 * 1024 * 1024
    replay_s: float = 2.0


class Logged(Struct):
    """What was logged since a moment."""

    batches: int = 0
    bytes: int = 0
    work_s: float = 0.0
    """How long it took to work it out, and so about how long it would take again."""

    def add(self, size: int, work_s: float) -> None:
        self.batches += 1
        self.bytes += size
        self.work_s += work_s


class Waiting(Struct):
    """What is not given to the disk yet, or could not be stored."""

    entries: list[Entry] = []
    effects: list[AnyEffect] = []
    segments: tuple[Segment, ...] = ()
    work_s: float = 0.0
    pressing: bool = False
    """There is an input that brought something about."""


class WriteAhead:
    """States: idle; busy (one batch or snapshot is on its way to the disk, or a snapshot is waited for, with nothing
    else going on); full (idle or busy, and trying). Beside it, a snapshot may be under way."""

    def __init__(
        self,
        store: Store | None,
        perform: Callable[[list[AnyEffect]], None],
        later: Callable[[float, Callable[[], None]], object],
        snapshotter: Snapshotter,
        snapshot_done: Callable[[Exception | None], None] = lambda _: None,
        due: Due | None = None,
        group_s: float = 0.0,
        clock_s: Callable[[], float] = monotonic,
        gather: Callable[[], None] = lambda: None,
        stuck: Callable[[Exception, list[AnyEffect]], list[AnyEffect]] = lambda _, effects: effects,
        needed: Callable[[], Needed | None] = lambda: None,
    ) -> None:
        """`snapshotter` takes snapshots of what all inputs added so far have made; `gather` adds inputs whose work
        was begun, before a batch or a snapshot is made; `stuck` is told why the disk is full and which effects wait
        for it, and answers with those that still do; `needed` says which segments the state refers to."""
        self._store = store
        self._needed = needed
        self._perform = perform
        self._later = later
        self._snapshotter = snapshotter
        self._snapshot_done = snapshot_done
        self._due = due or Due()
        self._group_s = group_s
        self._clock_s = clock_s
        self._gather = gather
        self._stuck = stuck
        self._began_s = self._concurrent_s = -CONCURRENT_S - group_s
        """When the last batch was given to the disk, and when inputs last came together."""
        self._together = False
        """An input that waits for the disk came while another one did."""
        self._group_is_open = False
        self._state_bytes, self._snapshot_s = 0, 0.0
        """Of the last snapshot: its length, and how long its making took."""
        self._state_is_due = False
        self._waiting = Waiting()
        self._logged = Logged()
        """Since the last snapshot, or since the last that failed."""
        self._uncovered: Logged | None = None
        """Since the snapshot that is under way, or waits to be stored."""
        self._taken: Snapshot | None = None
        """A snapshot that waits to be stored."""
        self.busy = False
        self._reports: dict[str, Context] = {}
        """By client, the last report since anything else was added."""
        self._reported_us = 0
        self._lazy_wait = False
        self.full: Exception | None = None
        """Why the last batch could not be stored."""
        self.waiting_bytes = 0
        """About how much is not given to the disk yet."""

    def add(self, now_us: int, given: AnyGiven, effects: list[AnyEffect], work_s: float = 0.0) -> None:
        if self._store is not None:
            if self._reports:
                self._enter_reports(now_us)
            waiting = self._waiting
            waiting.entries.append(Entry(now_us, given))
            waiting.work_s += work_s
            self.waiting_bytes += ENTRY_BYTES + size_bytes(given)
            if effects:
                self._together = self._together or self.busy or waiting.pressing
                waiting.pressing = True
        if effects:
            self._waiting.effects += effects

    def set_aside(self, number: int, body: bytes) -> None:
        """A segment that the next input to be added has made: the two are stored together."""
        if self._store is not None:
            self._waiting.segments += ((number, body),)
            self.waiting_bytes += len(body)

    def add_behind(self, effects: list[AnyEffect], size: int) -> None:
        """These need no storing, and wait for what does: they are performed behind all that was added before."""
        self._waiting.effects += effects
        self._waiting.pressing |= bool(self._waiting.entries)
        self.waiting_bytes += size

    def reported(self, now_us: int, context: Context, lasts: bool) -> None:
        """A report that is in the state already; `lasts` says that a session is to know it after a crash. It takes no
        room but in a table: the context is held by the state too."""
        if self._store is None:
            return
        self._reports[context.host] = context
        self._reported_us = now_us
        if lasts:
            self._press_later()

    def _enter_reports(self, now_us: int) -> None:
        given = ReportedTogether(tuple(self._reports.values()))
        self._reports = {}
        self._waiting.entries.append(Entry(now_us, given))
        self.waiting_bytes += ENTRY_BYTES + size_bytes(given)

    @property
    def settled(self) -> bool:
        """Nothing waits to be stored or performed."""
        return not (self.busy or self._state_is_due or self._waiting.entries or self._waiting.effects)

    @property
    def owes(self) -> bool:
        """Something waits to be performed until it is stored, or cannot be stored."""
        return self.busy or self.full is not None or bool(self._waiting.effects)

    def commit(self) -> None:
        """At the end of a tick."""
        if self._store is None:
            self._perform(self._take().effects)
        elif not self.busy and self.full is None:
            if self._state_is_due:
                self._write_state()
            elif self._taken is not None:
                self._write_snapshot(self._store, self._taken)
            elif self._waiting.effects and not self._waiting.entries:
                self._perform(self._take().effects)
            elif self.waiting_bytes > LAZY_BYTES_MAX:
                self._write_batch(self._store)
            elif self._waiting.pressing:
                self._write_group(self._store)
            elif self._waiting.entries:
                self._press_later()

    def _write_group(self, store: Store) -> None:
        """At once, or with what comes until a group is over."""
        if self._group_is_open:
            return
        now_s = self._clock_s()
        if self._together:
            self._together, self._concurrent_s = False, now_s
        wait_s = self._began_s + self._group_s - now_s
        if wait_s > 0 and now_s < self._concurrent_s + CONCURRENT_S:
            self._group_is_open = True
            self._later(wait_s, self._close_group)
        else:
            self._write_batch(store)

    def _close_group(self) -> None:
        self._group_is_open = False
        self._began_s = -self._group_s
        self.commit()

    def _press_later(self) -> None:
        if not self._lazy_wait:
            self._lazy_wait = True
            self._later(LAZY_S, self._lazy_over)

    def _lazy_over(self) -> None:
        self._lazy_wait = False
        self.press()

    def press(self) -> None:
        """Have everything stored that waits, whether anything came of it or not."""
        if self._reports:
            self._enter_reports(self._reported_us)
        self._waiting.pressing = bool(self._waiting.entries)
        self.commit()

    def snapshot(self) -> None:
        """Have the whole state stored, with what waits, as soon as the disk is free."""
        self._state_is_due = self._store is not None
        self.commit()

    def _take(self) -> Waiting:
        taken, self._waiting, self.waiting_bytes = self._waiting, Waiting(), 0
        return taken

    def _put_back(self, taken: Waiting) -> None:
        later = self._waiting
        self._waiting = Waiting(
            taken.entries + later.entries,
            taken.effects + later.effects,
            taken.segments + later.segments,
            taken.work_s + later.work_s,
            True,
        )
        self.waiting_bytes += sum(ENTRY_BYTES + size_bytes(each.given) for each in taken.entries)
        self.waiting_bytes += sum(len(body) for _, body in taken.segments)

    # Batches, and snapshots beside them.

    def _write_batch(self, store: Store) -> None:
        self._gather()
        taken = self._take()
        batch = encode_batch(taken.entries)
        self.busy = True
        self._began_s = self._clock_s()
        covered = self._uncovered is None and self._is_due()
        if covered:
            self._take_snapshot()
        uncovered = None if covered else self._uncovered

        def done(problem: Exception | None) -> None:
            self.busy = False
            if problem is not None:
                self.full = problem
                self._put_back(taken)
                self._write_state()
                return
            self._logged.add(len(batch), taken.work_s)
            if uncovered is not None:
                uncovered.add(len(batch), taken.work_s)
            self._perform(taken.effects)
            self.commit()

        store.submit(batch, done, taken.segments)

    def _is_due(self) -> bool:
        logged, due = self._logged, self._due
        too_long = logged.work_s >= max(due.replay_s, self._snapshot_s)
        return too_long or logged.bytes >= max(due.logged_bytes, self._state_bytes)

    def _take_snapshot(self) -> None:
        uncovered, needed = (Logged(), self._needed())
        self._uncovered = uncovered

        def then(result: Snapshot | SnapshotFailed) -> None:
            if self._uncovered is not uncovered:
                # The whole state is stored since, or about to be.
                return
            if isinstance(result, SnapshotFailed):
                self._snapshot_over(result)
            else:
                self._taken = replace(result, needed=needed)
                self.commit()

        self._snapshotter.take(then)

    def _write_snapshot(self, store: Store, snapshot: Snapshot) -> None:
        uncovered = self._uncovered
        assert uncovered is not None
        self._taken = None

        def done(problem: Exception | None) -> None:
            self.busy = False
            if problem is None:
                self._stands(snapshot, uncovered)
            self._snapshot_over(problem)
            self.commit()

        self.busy = True
        store.snapshot(snapshot.state, uncovered.batches, done, (), snapshot.needed)

    def _stands(self, snapshot: Snapshot, since: Logged) -> None:
        self._logged, self._state_bytes, self._snapshot_s = since, len(snapshot.state), snapshot.took_s

    def _snapshot_over(self, problem: Exception | None) -> None:
        if problem is not None:
            # The log is as it was: another is tried when it has grown by as much again.
            self._logged = Logged()
        self._uncovered = None
        self._snapshot_done(problem)

    # The whole state, with what waits.

    def _write_state(self) -> None:
        self._gather()
        taken = self._take()
        self.busy = True
        self._state_is_due = False
        self._uncovered = self._taken = None
        needed = self._needed()
        self._snapshotter.take(lambda result: self._with_snapshot(taken, result, needed))

    def _with_snapshot(self, taken: Waiting, result: Snapshot | SnapshotFailed, needed: Needed | None) -> None:
        assert self._store is not None
        if isinstance(result, SnapshotFailed):
            self._state_stored(taken, Snapshot(b""), result)
        else:
            self._store.snapshot(
                result.state,
                0,
                lambda problem: self._state_stored(taken, result, problem),
                taken.segments,
                needed,
            )

    def _state_stored(self, taken: Waiting, snapshot: Snapshot, problem: Exception | None) -> None:
        self.busy = False
        self._snapshot_done(problem)
        if problem is not None:
            self.full = problem
            self._put_back(taken)
            self._later(RETRY_S, self._try)
            self._waiting.effects = self._stuck(problem, self._waiting.effects)
            return
        self._stands(snapshot, Logged())
        self._perform(taken.effects)
        if self.full is not None:
            self._try(again=False)
        else:
            self.commit()

    def _try(self, again: bool = True) -> None:
        """Whether there is room for a batch; if there is none, `again` may make some."""
        assert self._store is not None

        def done(problem: Exception | None) -> None:
            self.busy = False
            self.full = problem
            if problem is None:
                self.commit()
            elif again and self._waiting.entries:
                self._write_state()
            else:
                self._later(RETRY_S, self._try)

        self.busy = True
        self._store.submit(encode_batch([]), done)


def size_bytes(given: AnyGiven) -> int:
    match given:
        case Finished(rows):
            return ROW_BYTES * len(rows) + NUMBER_BYTES * sum([len(numbers) for _, numbers in rows])
        case Published(_, _, message):
            return message.size_bytes
        case PublishedTogether(payloads=payloads):
            return sum(map(len, payloads))
        case PublishedByMany(rows):
            return ENTRY_BYTES * len(rows) + sum(map(size_bytes, rows))
        case Heard(_, data):
            return len(data)
        case Reported(context):
            return text_bytes(context)
        case ReportedTogether(contexts):
            return ENTRY_BYTES * len(contexts) + sum(map(text_bytes, contexts))
        case Arrived(will=WillMessage(message)):
            return message.size_bytes
        case Asked(subscriptions=subscriptions):
            return sum(pairs_bytes(each.user_properties) + len(each.filter.text) for each in subscriptions)
        case Announced(topic):
            return len(topic)
        case Left(said=said):
            return pairs_bytes(said)
        case _:
            return 0


def pairs_bytes(pairs: Pairs) -> int:
    return sum(len(text) for pair in pairs for text in pair)


def text_bytes(context: Context) -> int:
    return sum(len(value) for value in context.attributes.values() if isinstance(value, str))
