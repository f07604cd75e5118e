"""Finds the subscriptions that match a batch: the kernel's candidates, and the model where columns cannot decide."""

from array import array
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from roamcast.matching.batch import Batch, place_of
from roamcast.matching.demands import Locator
from roamcast.matching.hosts import KnownConfiguration
from roamcast.matching.judge import ContextOf, Judge, Profile
from roamcast.matching.layout import AUDIENCE_MET, HIT_NUMBERS, NONE, Bytes
from roamcast.matching.pool import Pool
from roamcast.matching.registry import Registry
from roamcast.matching.slots import Slots
from roamcast.matching.table import Table
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
        locators: Registry[Locator],
        profiles: Registry[Profile],
        table: Table,
    ) -> None:
        self._configuration = configuration
        self._hosts = configuration.hosts
        self._space = configuration.space
        self._table = table
        self._pool = pool
        self._slots = slots
        self._locators = locators
        self._profiles = profiles
        self._make_room(HITS_AT_FIRST)

    def matches(
        self,
        batch: Batch,
        event_of: Callable[[int], Event],
        from_us: int,
        to_us: int,
        slack_m: float = 0.0,
        contexts_of: Callable[[int], ContextOf] | None = None,
    ) -> Matches:
        """`from_us` and `to_us` are the first and the last of the moments that are asked about. `contexts_of` an
        event is needed where slack says that some may be elsewhere than the engine has them."""
        hits = array("i")
        # Condition (iii) wants a host that both scopes hold, even of open ones.
        first, end = 0, len(batch.channel_begin) - 1 if len(self._hosts) else 0
        all_issued = self._slots.issued_us_max <= from_us and to_us <= FOREVER_US
        table = self._table
        table.ask_with(batch)
        while first < end:
            reached, count, settled, overdue = table.search(first, all_issued, slack_m)
            found = self._found[: HIT_NUMBERS * count]
            if settled == count:
                hits.frombytes(found.tobytes())
            else:
                for hit in self._judged(found, batch.modes, event_of, contexts_of or self._all_known):
                    hits.extend(hit)
            if reached == first or (reached < end and len(self._hits) < HITS_AHEAD_MAX):
                self._make_room(2 * len(self._hits))
            first = reached
            if overdue != NONE:
                self._pool.sort(self._slots.rows, overdue)
        return Matches(hits)

    def slots_of_one(
        self, batch: Batch, event: Event, now_us: int, slack_m: float, context_of: ContextOf | None
    ) -> list[int] | None:
        """The same of one event, as slots; None if they do not fit into the room that there is."""
        if not len(self._hosts):
            return []
        table = self._table
        table.ask_with(batch)
        all_issued = self._slots.issued_us_max <= now_us <= FOREVER_US
        reached, count, settled, overdue = table.search(0, all_issued, slack_m)
        if overdue != NONE:
            self._pool.sort(self._slots.rows, overdue)
        if not reached:
            return None
        found = self._found[: HIT_NUMBERS * count]
        if settled == count:
            return found[1::HIT_NUMBERS].tolist()
        known = context_of or self._hosts.known
        return [hit[1] for hit in self._judged(found, batch.modes, lambda _: event, lambda _: known)]

    def _all_known(self, _: int) -> ContextOf:
        return self._hosts.known

    def _make_room(self, hits: int) -> None:
        self._hits = self._table.make_room(hits)
        self._found = self._hits.reshape(-1).data

    def _judged(
        self,
        found: memoryview,
        modes: Bytes,
        event_of: Callable[[int], Event],
        contexts_of: Callable[[int], ContextOf],
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
                context_of = contexts_of(number)
            row = self._slots.rows[slot]
            host = int(row["host"])
            if not sure and not self._is_near(judge.event, row, context_of(host)):
                continue
            mode = modes[number, row["locator"]]
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
