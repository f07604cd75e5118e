"""What comes into a host's tables (C7): events and subscriptions that belong where it is, and withdrawals.

Whatever is held anew is matched at once against what is held already. What was withdrawn must not come back, so its
withdrawal is remembered for as long as somebody who missed it may still tell of it.
"""

from roamcast.adhoc.context.checks import Checks
from roamcast.adhoc.context.digests import Digests
from roamcast.adhoc.context.held import AnyHeld, HeldEvent, HeldSubscription, Holdings, is_inside, supersedes
from roamcast.adhoc.context.meetings import Meetings
from roamcast.adhoc.context.messages import EventItem, Renewal, SubscriptionItem
from roamcast.adhoc.context.params import ContextParams
from roamcast.adhoc.context.renewals import Renewals
from roamcast.adhoc.until import Until
from roamcast.model.space import Space
from roamcast.model.values import Point
from roamcast.node.boundary import Does, Note


class Keeping:
    def __init__(
        self,
        params: ContextParams,
        space: Space,
        checks: Checks,
        held: Holdings,
        digests: Digests,
        meetings: Meetings,
        renewals: Renewals,
    ) -> None:
        self.params = params
        self.space = space
        self.checks = checks
        self.held = held
        self.digests = digests
        self.meetings = meetings
        self.renewals = renewals
        self.withdrawn = Until(params.events_max + params.subscriptions_max)
        """What must not come back, until those who still hold it have forgotten it too."""

    def hold(
        self, now_us: int, position: Point, item: EventItem | SubscriptionItem, travelled_us: int = 0
    ) -> list[Does]:
        """Holds what belongs where this host is, and matches it against what it holds already."""
        if not is_inside(item.region, position, self.space):
            return []
        if not self.checks.item(item):
            return [Note("bad_message", id_of(item))]
        row = self._row(now_us, item, travelled_us)
        return self._hold_event(now_us, row) if isinstance(row, HeldEvent) else self._hold_subscription(now_us, row)

    def renew(self, now_us: int, position: Point, renewal: Renewal, travelled_us: int) -> list[Does]:
        """Renews what is held; asks for what should be."""
        if not is_inside(renewal.region, position, self.space):
            return []
        if not self.checks.renewal(renewal):
            return [Note("bad_message", renewal.issue)]
        if f"{renewal.route.id[:1]}/{renewal.issue}/{renewal.issued_us}" in self.withdrawn:
            return []
        if self.renewals.is_foreign(renewal):
            return [Note("bad_message", renewal.issue)]
        row = self.renewals.known(renewal)
        if row is None:
            return self.renewals.missing(now_us, renewal)
        return self.hold(now_us, position, row.renewed(renewal.reach, renewal.age_us, renewal.region), travelled_us)

    def _row(self, now_us: int, item: EventItem | SubscriptionItem, travelled_us: int) -> AnyHeld:
        if isinstance(item, EventItem):
            return HeldEvent(item, now_us, travelled_us, self.params)
        return HeldSubscription(item, now_us, travelled_us, self.params)

    def _hold_event(self, now_us: int, row: HeldEvent) -> list[Does]:
        known = self.held.events.get(row.id)
        if not supersedes(row, known) or not row.lives(now_us):
            return []
        if row.grave in self.withdrawn:
            return []
        evicted = None if row.ends_us < now_us else self.held.events.put(row.id, row)
        effects: list[Does] = [] if evicted is None else [Note("event_dropped", evicted)]
        return effects + self.meetings.of_event(now_us, row)

    def _hold_subscription(self, now_us: int, row: HeldSubscription) -> list[Does]:
        known = self.held.subscriptions.get(row.id)
        if not supersedes(row, known) or not row.lives(now_us):
            return []
        if row.grave in self.withdrawn:
            return []
        evicted = None if row.ends_us < now_us else self.held.subscriptions.put(row.id, row)
        effects: list[Does] = [] if evicted is None else [Note("subscription_dropped", evicted)]
        return effects + self.meetings.of_subscription(now_us, row)

    def heard_withdrawal(self, now_us: int, item: EventItem | SubscriptionItem, travelled_us: int = 0) -> list[Does]:
        """Remembers a withdrawal for as long as somebody who missed it may tell of what was withdrawn."""
        if not self.checks.item(item):
            return [Note("bad_message", id_of(item))]
        row = self._row(now_us, item, travelled_us)
        if not row.lives(now_us):
            return []
        self.held.forget(row)
        self.digests.withdrawn(row.id)
        ends_us = row.ends_us + round(self.params.in_flight_s * 1e6)
        forgotten = self.withdrawn.add(now_us, row.grave, ends_us)
        return [] if forgotten is None else [Note("withdrawal_forgotten", forgotten)]


def id_of(item: EventItem | SubscriptionItem) -> str:
    return item.event.id if isinstance(item, EventItem) else item.subscription.id
