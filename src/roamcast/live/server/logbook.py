"""Inputs before orders: a batch of inputs is on disk before anything that it brings about is seen by anybody (L8).

All inputs of a tick, and of the ticks while the disk is busy, are one batch: one commit for many clients. A batch
that cannot be stored stays, with its orders, and is tried again; meanwhile `full` tells to take nothing new.
"""

from collections.abc import Callable
from typing import Protocol

from roamcast.live.broker.inputs import AnyGiven, Entry, encode_batch
from roamcast.live.broker.orders import AnyOrder

RETRY_S = 1.0


class Store(Protocol):
    """Where batches go; `done` is called on the loop, in order, once one is safe, or with what went wrong."""

    def submit(self, batch: bytes, done: Callable[[Exception | None], None]) -> None: ...
    def snapshot(self, state: bytes, done: Callable[[Exception | None], None]) -> None: ...


class Logbook:
    def __init__(
        self,
        store: Store | None,
        perform: Callable[[list[AnyOrder]], None],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._store = store
        self._perform = perform
        self._later = later
        self._entries: list[Entry] = []
        self._orders: list[AnyOrder] = []
        self._under_way = 0
        """Batches on their way to the disk."""
        self.full: Exception | None = None
        """Why the last batch could not be stored."""
        self.logged_bytes = 0
        """Since the last snapshot."""

    def add(self, now_us: int, given: AnyGiven, orders: list[AnyOrder]) -> None:
        if self._store is not None:
            self._entries.append(Entry(now_us, given))
        self._orders += orders

    @property
    def settled(self) -> bool:
        """Nothing waits to be stored or performed."""
        return not (self._under_way or self._entries or self._orders)

    def commit(self) -> None:
        """At the end of a tick."""
        if self._store is None:
            orders, self._orders = self._orders, []
            self._perform(orders)
        elif self._entries and not self._under_way:
            self._submit_waiting()

    def snapshot(self, state: Callable[[], bytes], done: Callable[[Exception | None], None]) -> None:
        """`state` is what everything that was added so far makes; behind that in the log, it takes its place."""
        if self._store is not None:
            if self._entries:
                self._submit_waiting()
            self.logged_bytes = 0
            self._store.snapshot(state(), done)

    def _submit_waiting(self) -> None:
        batch, orders = encode_batch(self._entries), self._orders
        self._entries, self._orders = [], []
        self._submit(batch, orders)

    def _submit(self, batch: bytes, orders: list[AnyOrder]) -> None:
        if self._store is None:
            return
        self._under_way += 1
        self.logged_bytes += len(batch)
        self._store.submit(batch, lambda problem: self._done(batch, orders, problem))

    def _done(self, batch: bytes, orders: list[AnyOrder], problem: Exception | None) -> None:
        self.full = problem
        if problem is not None:
            # It still counts as under way, so that nothing overtakes it.
            self._later(RETRY_S, lambda: self._again(batch, orders))
            return
        self._under_way -= 1
        self._perform(orders)
        self.commit()

    def _again(self, batch: bytes, orders: list[AnyOrder]) -> None:
        self._under_way -= 1
        self._submit(batch, orders)
