"""A host's own events and subscriptions (C7): the local tables, and when each is to be told anew (C10)."""

import math

from msgspec.structs import replace

from roamcast.adhoc.context.matching import Whereabouts
from roamcast.adhoc.context.messages import EventItem, Reach, SubscriptionItem
from roamcast.adhoc.context.params import ContextParams
from roamcast.adhoc.context.reachability import leaves_after_s, reachability_region
from roamcast.adhoc.neighbours import in_few, rounded
from roamcast.adhoc.tables import Table
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.region import Anchored, Box, Circle, Region, Shape, grown, placed
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point

REFRESH_GAP_US = 500_000
"""However fast a host leaves its reachability regions, it tells new ones no more often than this."""
NEVER_US = 2**62


class Issued:
    """One of them, with how it was last told. Times are by this host's own clock."""

    __slots__ = (
        "due_us",
        "ends_us",
        "expires_us",
        "issue",
        "reach_region",
        "repeats",
        "told_region",
        "told_us",
        "version",
    )

    def __init__(self, issue: Event | Subscription, params: ContextParams) -> None:
        self.issue = issue
        self.expires_us = issue.expires_us
        self.ends_us = issue.expires_us + round(params.in_flight_s * 1e6)
        self.version = -1
        self.told_us = 0
        self.reach_region: Shape | None = None
        self.told_region: Shape | None = None
        """Where it was told last; None if it never was."""
        self.due_us = 0
        self.repeats = False
        """Whether somebody does not know it, so that the next telling is a whole one."""

    @property
    def issued_us(self) -> int:
        return self.issue.published_us if isinstance(self.issue, Event) else self.issue.issued_us

    @property
    def instantaneous(self) -> bool:
        return self.issued_us == self.expires_us


class IssuedTables:
    def __init__(self, params: ContextParams, space: Space) -> None:
        self.params = params
        self.space = space
        self.events: Table[Issued] = Table(params.local_events_max)
        self.subscriptions: Table[Issued] = Table(params.local_subscriptions_max)
        self.withdrawn: Table[Issued] = Table(params.local_events_max + params.local_subscriptions_max)
        """What others still hold, and a host that does not know where it is could not tell them to forget."""
        self._tables = (self.events, self.subscriptions, self.withdrawn)

    def expire(self, now_us: int) -> None:
        for table in self._tables:
            if table.by_key:
                table.expire(now_us)

    def all(self) -> list[Issued]:
        return [*self.events.rows(), *self.subscriptions.rows()]

    def due(self, now_us: int) -> list[Issued]:
        return [row for row in self.all() if row.due_us <= now_us <= row.expires_us]

    def next_due_us(self, now_us: int) -> int:
        """When `due` will have something; a row that has expired meanwhile is never due again."""
        living = (row for row in self.all() if max(now_us, row.due_us) <= row.expires_us)
        return min((row.due_us for row in living), default=NEVER_US)

    def reschedule(self, row: Issued, me: Context) -> None:
        """When a row must be told anew, by how its host moves now; what is instantaneous is told once."""
        params = self.params
        if row.instantaneous and row.version >= 0:
            row.due_us = NEVER_US
            return
        if row.reach_region is None:
            row.due_us = me.at_us
            return
        periodic_us = row.told_us + round(params.refresh_s * 1e6)
        after_s = leaves_after_s(row.reach_region, me, params.safe_distance_m, self.space)
        leaving_us = NEVER_US if math.isinf(after_s) else me.at_us + round(after_s * 1e6)
        row.due_us = max(row.told_us + REFRESH_GAP_US, min(periodic_us, leaving_us))

    def tell(self, row: Issued, me: Context, where: Whereabouts) -> EventItem | SubscriptionItem:
        """The row as it is to be told now, with a new reachability region; `me` is of now and has a position."""
        params, now_us = self.params, me.at_us
        row.version += 1
        row.told_us = now_us
        row.reach_region = reachability_region(
            me, params.reachability_m, params.safe_distance_m, params.refresh_s, self.space
        )
        self.reschedule(row, me)
        reach = self._reach(row, row.reach_region, me)
        age_us = now_us - row.issued_us
        issue = row.issue
        if isinstance(issue, Event):
            row.told_region = self._target(issue.relevance.region or issue.audience.region, me, where)
            return EventItem(issue, reach, age_us, row.told_region)
        row.told_region = self._target(issue.interest.region or issue.publishers.region, me, where)
        return SubscriptionItem(issue, reach, age_us, row.told_region)

    def withdrawal(self, row: Issued, me: Context) -> EventItem | SubscriptionItem | None:
        """What makes others forget it, for where it was told last; None if nobody holds it."""
        issue, now_us = row.issue, me.at_us
        if row.told_region is None or row.reach_region is None or row.instantaneous or now_us > row.expires_us:
            return None
        row.version += 1
        reach = self._reach(row, row.reach_region, me)
        age_us = now_us - row.issued_us
        if isinstance(issue, Event):
            return EventItem(issue, reach, age_us, row.told_region)
        return SubscriptionItem(issue, reach, age_us, row.told_region)

    def _reach(self, row: Issued, region: Shape, me: Context) -> Reach:
        """Its time is that of the message, so it need not say it."""
        return Reach(replace(in_few(me, self.space), at_us=0), region, row.version)

    def _target(self, region: Region | None, me: Context, where: Whereabouts) -> Shape:
        """The region to tell: enlarged, and for an anchored one where it is now.

        Without a region of relevance or interest that of the domain is as good: who is to receive the event is there.
        Without any, it is the surroundings of the issuer.
        """
        assert me.position is not None
        naval: Point | None = me.position
        if isinstance(region, Anchored):
            naval = where(region.host)
        if region is None or naval is None:
            return Circle(me.position, self.params.default_region_m)
        shape = placed(region.shape, naval, self.space, region.reference) if isinstance(region, Anchored) else region
        large = grown(shape, self.params.enlarge_m, self.space)
        if isinstance(large, Box) and self.params.enlarge_m >= 1:
            return Box(rounded(large.low, self.space), rounded(large.high, self.space))
        return large
