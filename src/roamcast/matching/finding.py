"""Who wants the events of a batch: what the kernel lets through, and the model's word where columns cannot decide."""

from collections.abc import Callable
from operator import is_
from typing import Any

import numpy as np
from msgspec import Struct

from roamcast.matching.batch import Batch
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

    events: Whole
    slots: Whole

    def __len__(self) -> int:
        return len(self.events)

    def by_event(self, events: int) -> list[list[int]]:
        slots = self.slots.tolist()
        if events == 1:
            return [slots]
        ends = np.searchsorted(self.events, np.arange(1, events + 1)).tolist()
        return [slots[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


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
        self._hits: Whole = np.zeros((HITS_AT_FIRST, HIT_NUMBERS), np.int32)
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
        # Condition (iii) wants a host that both scopes hold, even of open ones.
        hits, settled = self._found(batch, now_us, slack_m) if len(self._hosts) else (self._hits[:0], 0)
        if settled < len(hits):
            hits = self._judged(hits, batch, event_of, context_of or self._hosts.known)
        return Matches(hits[:, 0], hits[:, 1])

    def _found(self, batch: Batch, now_us: int, slack_m: float) -> tuple[Whole, int]:
        """What the kernel lets through, as often as the hits need more room; how much of it is settled."""
        pool, first, end, all_settled = self._pool, 0, len(batch.channel_begin) - 1, 0
        all_issued = self._slots.issued_us_max <= now_us <= FOREVER_US
        parts: list[Whole] = []
        while first < end:
            reached, count, settled, overdue = KERNEL.search(
                first, batch.channel_begin, batch.channels, batch.modes, batch.circles, batch.attributes,
                *self._columns(), self._flat, now_us, all_issued, slack_m, self._hits,
            )  # fmt: skip
            parts.append(self._hits[:count].copy())
            all_settled += settled
            if reached == first or (reached < end and len(self._hits) < HITS_AHEAD_MAX):
                self._hits = np.zeros((2 * len(self._hits), HIT_NUMBERS), np.int32)
            first = reached
            if overdue != NONE:
                pool.sort(self._slots.rows, overdue)
        return (parts[0] if len(parts) == 1 else np.concatenate([self._hits[:0], *parts])), all_settled

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

    def _judged(self, hits: Whole, batch: Batch, event_of: Callable[[int], Event], context_of: ContextOf) -> Whole:
        """Asks the model about what the columns leave open."""
        kept = hits[:, 3] != 0
        unsettled = np.flatnonzero(~kept)
        judge: Judge | None = None
        judged = -1
        for index, (number, slot, sure, _) in zip(unsettled.tolist(), hits[unsettled].tolist(), strict=True):
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
            kept[index] = judge.accepts(profile, host, context_of, bool(mode & AUDIENCE_MET) and bool(sure))
        accepted: Whole = hits[kept]
        return accepted

    def _is_near(self, event: Event, row: Any, me: Context | None) -> bool:
        """Nearness by the model's own arithmetic; of what is not asked by nearness, the rest decides."""
        locator = self._locators.keys[row["locator"]]
        if not row["moving"] or not isinstance(locator, Attribute | Publishers):
            return True
        point = (
            event.attributes.get(locator.name)
            if isinstance(locator, Attribute)
            else event.publisher.value(locator.name)
        )
        assert me is not None
        assert me.position is not None
        assert isinstance(point, Point)
        return self._space.within(me.position, point, float(row["radius_m"]))
