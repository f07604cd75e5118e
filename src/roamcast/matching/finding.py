"""Who wants the events of a batch: what the kernel lets through, and the model's word where columns cannot decide."""

from array import array
from collections.abc import Callable, Iterator
from operator import is_
from typing import Any

import numpy as np
from msgspec import Struct

from roamcast.matching.batch import Batch, place_of
from roamcast.matching.clauses import Clauses
from roamcast.matching.compiled import KERNEL
from roamcast.matching.demands import Locator
from roamcast.matching.hosts import KnownConfiguration
from roamcast.matching.judge import ContextOf, Judge, Profile
from roamcast.matching.layout import AUDIENCE_MET, HIT_NUMBERS, NONE, Plain, Whole
from roamcast.matching.metric import is_flat
from roamcast.matching.pool import Pool
from roamcast.matching.registry import Registry
from roamcast.matching.slots import Slots
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter.tree import Attribute, Publishers
from roamcast.model.values import FOREVER_US, Point

HITS_AT_FIRST = 4_096
HITS_AHEAD_MAX = 65_536
"""So far the room for hits grows where a batch needs several calls; beyond, only where one event has more of them."""


class Matches(Struct, frozen=True):
    """Pairs of an event, by its place in the call, and a slot; by event, and then as they lie in the grids."""

    hits: "array[int]"
    """The numbers of all hits, one after the other."""

    def __len__(self) -> int:
        return len(self.hits) // HIT_NUMBERS

    @property
    def events(self) -> list[int]:
        return self.hits[::HIT_NUMBERS].tolist()

    @property
    def slots(self) -> list[int]:
        return self.hits[1::HIT_NUMBERS].tolist()

    def by_event(self, events: int) -> list[list[int]]:
        if events == 1:
            return [self.slots]
        found: list[list[int]] = [[] for _ in range(events)]
        for event, slot in zip(self.events, self.slots, strict=True):
            found[event].append(slot)
        return found


class Finder:
    def __init__(
        self,
        configuration: KnownConfiguration,
        pool: Pool,
        slots: Slots,
        clauses: Clauses,
        locators: Registry[Locator],
        profiles: Registry[Profile],
    ) -> None:
        self._configuration = configuration
        self._hosts = configuration.hosts
        self._space = configuration.space
        self._flat = is_flat(configuration.space)
        self._pool = pool
        self._slots = slots
        self._clauses = clauses
        self._locators = locators
        self._profiles = profiles
        self._make_room(HITS_AT_FIRST)
        self._known: tuple[Any, ...] = ()
        self._read: tuple[Any, ...] = ()

    def matches(
        self,
        batch: Batch,
        event_of: Callable[[int], Event],
        now_us: int,
        slack_m: float = 0.0,
        context_of: ContextOf | None = None,
    ) -> Matches:
        """`context_of` is needed where slack says that some may be elsewhere than the engine has them."""
        hits = array("i")
        # Condition (iii) wants a host that both scopes hold, even of open ones.
        first, end = 0, len(batch.channel_begin) - 1 if len(self._hosts) else 0
        all_issued = self._slots.issued_us_max <= now_us <= FOREVER_US
        while first < end:
            reached, count, settled, overdue = KERNEL.search(
                first, batch.channel_begin, batch.channels, batch.modes, batch.circles, batch.attributes,
                *self._columns(), self._flat, now_us, all_issued, slack_m, self._hits,
            )  # fmt: skip
            found = self._found[: HIT_NUMBERS * count]
            if settled == count:
                hits.frombytes(found.tobytes())
            else:
                for hit in self._judged(found, batch, event_of, context_of or self._hosts.known):
                    hits.extend(hit)
            if reached == first or (reached < end and len(self._hits) < HITS_AHEAD_MAX):
                self._make_room(2 * len(self._hits))
            first = reached
            if overdue != NONE:
                self._pool.sort(self._slots.rows, overdue)
        return Matches(hits)

    def _make_room(self, hits: int) -> None:
        self._hits: Whole = np.zeros((hits, HIT_NUMBERS), np.int32)
        self._found = self._hits.reshape(-1).data

    def _columns(self) -> tuple[Any, ...]:
        """All that the kernel reads of subscriptions, as plain numbers: to look at an array in another way takes
        longer than to search it, so that is done when it was replaced by a larger one."""
        pool = self._pool
        known = (
            pool.channel_groups, pool.groups, pool.cells, pool.entries, pool.heights, self._slots.rows,
            self._clauses.rows, pool.runs,
        )  # fmt: skip
        if not self._known or not all(map(is_, known, self._known)):
            group, entry, slot, clause = map(Plain, (known[1], known[3], known[5], known[6]))
            self._known = known
            self._read = (
                pool.channel_groups, group.longs, group.doubles, group.links, pool.cells, entry.doubles, entry.links,
                pool.heights, slot.longs, slot.links, slot.marks, clause.doubles, clause.links, pool.runs,
            )  # fmt: skip
        return self._read

    def _judged(
        self, found: memoryview, batch: Batch, event_of: Callable[[int], Event], context_of: ContextOf
    ) -> Iterator[tuple[int, ...]]:
        """Asks the model about what the columns leave open."""
        judge: Judge | None = None
        judged = -1
        fields = (found[field::HIT_NUMBERS].tolist() for field in range(HIT_NUMBERS))
        for hit in zip(*fields, strict=True):
            number, slot, sure, settled = hit
            if settled:
                yield hit
                continue
            if judge is None or number != judged:
                judge, judged = Judge(event_of(number), self._configuration), number
            row = self._slots.rows[slot]
            host = int(row["host"])
            if not sure and not self._is_near(judge.event, row, context_of(host)):
                continue
            mode = batch.modes[number, row["locator"]]
            profile = self._profiles.keys[row["profile"]]
            assert profile is not None
            # An audience's circle that may be met is asked again; an open audience says yes again.
            if judge.accepts(profile, host, context_of, bool(mode & AUDIENCE_MET) and bool(sure)):
                yield hit

    def _is_near(self, event: Event, row: Any, me: Context | None) -> bool:
        """Nearness by the model's own arithmetic; of what is not asked by nearness, the rest decides."""
        locator = self._locators.keys[row["locator"]]
        if not row["moving"] or not isinstance(locator, Attribute | Publishers):
            return True
        point = place_of(event, locator)
        assert me is not None
        assert me.position is not None
        assert isinstance(point, Point)
        return self._space.within(me.position, point, float(row["radius_m"]))
