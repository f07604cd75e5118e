"""Inputs before orders: a batch of inputs is on disk before anything that it brings about is seen by anybody (L8).

All inputs of a tick, and of the ticks while the disk is busy, are one batch: one commit for many clients. When the
log has grown by more than a snapshot takes, the next batch is the whole state instead, which has everything in it
that waits, and takes the place of the log.

A batch that cannot be stored stays, with its orders, and `full` tells to take nothing new. At once the whole state is
tried in its place: it is not held to the quota, since clients that have drained their queues make it smaller than
what was logged. `full` ends when a batch can be stored again; that is tried every `RETRY_S`.
"""

from collections.abc import Callable
from typing import Protocol

from roamcast.live.broker.inputs import AnyGiven, Entry, Heard, Published, encode_batch
from roamcast.live.broker.orders import AnyOrder

RETRY_S = 1.0
SNAPSHOT_EVERY_BYTES = 64 * 1024 * 1024
ENTRY_BYTES = 100
"""What an input takes besides what it carries, about."""


class Store(Protocol):
    """Where batches go; `done` is called on the loop, in order, once one is safe, or with what went wrong."""

    def submit(self, batch: bytes, done: Callable[[Exception | None], None]) -> None: ...
    def snapshot(self, state: bytes, done: Callable[[Exception | None], None]) -> None: ...


class Logbook:
    """States: idle; busy (one batch or snapshot is on its way to the disk); full (idle or busy, and trying)."""

    def __init__(
        self,
        store: Store | None,
        perform: Callable[[list[AnyOrder]], None],
        later: Callable[[float, Callable[[], None]], object],
        state: Callable[[], bytes] = bytes,
        snapshot_done: Callable[[Exception | None], None] = lambda _: None,
        snapshot_every_bytes: int = SNAPSHOT_EVERY_BYTES,
    ) -> None:
        """`state` gives what all inputs added so far have made."""
        self._store = store
        self._perform = perform
        self._later = later
        self._state = state
        self._snapshot_done = snapshot_done
        self._snapshot_every_bytes = snapshot_every_bytes
        self._state_bytes = 0
        self._state_is_due = False
        self._entries: list[Entry] = []
        self._orders: list[AnyOrder] = []
        self.busy = False
        self.full: Exception | None = None
        """Why the last batch could not be stored."""
        self.logged_bytes = 0
        """Since the last snapshot."""
        self.waiting_bytes = 0
        """About how much is not given to the disk yet."""

    def add(self, now_us: int, given: AnyGiven, orders: list[AnyOrder]) -> None:
        if self._store is not None:
            self._entries.append(Entry(now_us, given))
            self.waiting_bytes += ENTRY_BYTES + size_bytes(given)
        self._orders += orders

    @property
    def settled(self) -> bool:
        """Nothing waits to be stored or performed."""
        return not (self.busy or self._entries or self._orders)

    def commit(self) -> None:
        """At the end of a tick."""
        if self._store is None:
            self._perform(self._take()[1])
        elif not self.busy and self.full is None:
            if self._state_is_due:
                self._write_state()
            elif self._entries:
                self._write_batch(self._store)

    def snapshot(self) -> None:
        """Have the whole state stored, with what waits, as soon as the disk is free."""
        self._state_is_due = True
        self.commit()

    def _take(self) -> tuple[list[Entry], list[AnyOrder]]:
        taken = self._entries, self._orders
        self._entries, self._orders = [], []
        self.waiting_bytes = 0
        return taken

    def _put_back(self, entries: list[Entry], orders: list[AnyOrder]) -> None:
        self._entries = entries + self._entries
        self._orders = orders + self._orders
        self.waiting_bytes += sum(ENTRY_BYTES + size_bytes(each.given) for each in entries)

    def _write_batch(self, store: Store) -> None:
        entries, orders = self._take()
        batch = encode_batch(entries)

        def done(problem: Exception | None) -> None:
            self.busy = False
            if problem is not None:
                self.full = problem
                self._put_back(entries, orders)
                self._write_state()
                return
            self.logged_bytes += len(batch)
            self._state_is_due |= self.logged_bytes >= max(self._snapshot_every_bytes, self._state_bytes)
            self._perform(orders)
            self.commit()

        self.busy = True
        store.submit(batch, done)

    def _write_state(self) -> None:
        assert self._store is not None
        entries, orders = self._take()
        state = self._state()
        self._state_is_due = False

        def done(problem: Exception | None) -> None:
            self.busy = False
            self._snapshot_done(problem)
            if problem is not None:
                self.full = problem
                self._put_back(entries, orders)
                self._later(RETRY_S, self._try)
                return
            self.logged_bytes, self._state_bytes = 0, len(state)
            self._perform(orders)
            if self.full is not None:
                self._try(again=False)
            else:
                self.commit()

        self.busy = True
        self._store.snapshot(state, done)

    def _try(self, again: bool = True) -> None:
        """Whether there is room for a batch; if there is none, `again` may make some."""
        assert self._store is not None

        def done(problem: Exception | None) -> None:
            self.busy = False
            self.full = problem
            if problem is None:
                self.commit()
            elif again and self._entries:
                self._write_state()
            else:
                self._later(RETRY_S, self._try)

        self.busy = True
        self._store.submit(encode_batch([]), done)


def size_bytes(given: AnyGiven) -> int:
    match given:
        case Published(_, _, message):
            return len(message.payload)
        case Heard(_, data):
            return len(data)
        case _:
            return 0
