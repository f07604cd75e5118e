"""Who wants the events of a batch: what the kernel lets through, and the model's word where columns cannot decide."""

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roamcast.matching.batch import Batch
from roamcast.matching.clauses import Clauses
from roamcast.matching.compiled import KERNEL
from roamcast.matching.demands import Locator
from roamcast.matching.hosts import KnownConfiguration
from roamcast.matching.judge import Judge, Profile
from roamcast.matching.layout import AUDIENCE_MET, HIT, NONE, Bytes, Long, Records, Views, Whole
from roamcast.matching.metric import is_flat
from roamcast.matching.pool import Pool
from roamcast.matching.registry import Registry
from roamcast.matching.slots import Slots
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
        ends = np.searchsorted(self.events, np.arange(1, events + 1)).tolist()
        slots = self.slots.tolist()
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
        self._hits: Records = np.zeros(HITS_AT_FIRST, HIT)
        self._views = Views()

    def matches(
        self,
        batch: Batch,
        event_of: Callable[[int], Event],
        now_us: int,
        slack_m: float = 0.0,
        locate: Callable[[int], None] | None = None,
    ) -> Matches:
        # Condition (iii) wants a host that both scopes hold, even of open ones.
        hits = self.found(batch, now_us, slack_m) if len(self._hosts) else self._hits[:0]
        if np.count_nonzero(hits["settled"]) < len(hits):
            kept = hits["settled"] != 0
            if locate is not None:
                for host in np.unique(self._slots.rows["host"][hits["slot"][~kept]]).tolist():
                    locate(host)
            self._judge(np.flatnonzero(~kept), kept, hits, batch.modes, event_of)
            hits = hits[kept]
        return Matches(hits["event"], hits["slot"])

    def found(self, batch: Batch, now_us: int, slack_m: float = 0.0) -> Records:
        """What the kernel lets through; as often as the hits need more room."""
        pool, first, end = self._pool, 0, len(batch.channel_begin) - 1
        all_issued = self._slots.issued_us_max <= now_us <= FOREVER_US
        parts: list[Records] = []
        while first < end:
            reached, count, overdue = KERNEL.search(
                first, batch.channel_begin, batch.channels, batch.modes, batch.circles, batch.attributes,
                pool.channel_groups, pool.groups, pool.cells, pool.entries, pool.heights, self._slots.rows,
                self._clauses.rows, self._flat, now_us, all_issued, slack_m, pool.runs, self._hits,
                self._views,
            )  # fmt: skip
            parts.append(self._hits[:count].copy())
            if reached == first or (reached < end and len(self._hits) < HITS_AHEAD_MAX):
                self._hits = np.zeros(2 * len(self._hits), HIT)
            first = reached
            if overdue != NONE:
                pool.sort(self._slots.rows, overdue)
        return parts[0] if len(parts) == 1 else np.concatenate([self._hits[:0], *parts])

    def _judge(
        self,
        unsettled: Long,
        kept: NDArray[np.bool_],
        hits: Records,
        modes: Bytes,
        event_of: Callable[[int], Event],
    ) -> None:
        """Asks the model about what the columns leave open."""
        judge: Judge | None = None
        judged = -1
        for index in unsettled.tolist():
            number, sure = int(hits["event"][index]), bool(hits["sure"][index])
            if judge is None or number != judged:
                judge, judged = Judge(event_of(number), self._configuration), number
            row = self._slots.rows[hits["slot"][index]]
            if not sure and not self._is_near(judge.event, row):
                continue
            profile = self._profiles.keys[row["profile"]]
            assert profile is not None
            # An audience's circle that may be met is asked again; an open audience says yes again.
            met = bool(modes[number, row["locator"]] & AUDIENCE_MET) and sure
            kept[index] = judge.accepts(profile, int(row["host"]), met)

    def _is_near(self, event: Event, row: Any) -> bool:
        """Nearness by the model's own arithmetic; of what is not asked by nearness, the rest decides."""
        locator = self._locators.keys[row["locator"]]
        if not row["moving"] or not isinstance(locator, Attribute | Publishers):
            return True
        point = (
            event.attributes.get(locator.name)
            if isinstance(locator, Attribute)
            else event.publisher.value(locator.name)
        )
        here = self._hosts.position(int(row["host"]))
        assert here is not None
        assert isinstance(point, Point)
        return self._space.within(here, point, float(row["radius_m"]))
