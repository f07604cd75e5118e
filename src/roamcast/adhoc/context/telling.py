"""What a host tells of its own (C9, C10): it publishes, subscribes, refreshes and withdraws both.

Each telling goes by geocast to where it is to be held, and is held by this host too if it is there. One timer,
`refresh`, is set for whatever is due next. What a host issues or withdraws while it does not know where it is it
tells as soon as it does.
"""

from roamcast.adhoc.context.issued import NEVER_US, REFRESH_GAP_US, Issued, IssuedTables
from roamcast.adhoc.context.keeping import Keeping, id_of
from roamcast.adhoc.context.messages import (
    EventItem,
    EventMessage,
    Renewal,
    SubscriptionItem,
    SubscriptionMessage,
    telling_id,
)
from roamcast.adhoc.context.params import ContextParams
from roamcast.adhoc.context.surroundings import Surroundings
from roamcast.adhoc.geocast import Geocast
from roamcast.adhoc.neighbours import Here
from roamcast.adhoc.routes import Route
from roamcast.model.event import Event
from roamcast.node.boundary import Does, Note, SetTimer

WHOLE_VERSIONS = 4
"""One of so many refreshes says all and looks for all parts of its region; the others are renewals, and go where they
get to by themselves."""


class Telling:
    def __init__(
        self, params: ContextParams, around: Surroundings, issued: IssuedTables, geocast: Geocast, keeping: Keeping
    ) -> None:
        self.params = params
        self.around = around
        self.issued = issued
        self.geocast = geocast
        self.keeping = keeping
        self._refresh_at_us = NEVER_US

    def issue(self, now_us: int, row: Issued) -> list[Does]:
        table = self.issued.events if isinstance(row.issue, Event) else self.issued.subscriptions
        evicted = table.put(row.issue.id, row)
        noted: list[Does] = [] if evicted is None else [Note("own_issue_dropped", evicted)]
        if evicted == row.issue.id:
            return noted
        return [*noted, *self._tell(now_us, row), *self._schedule(now_us)]

    def fired(self, now_us: int) -> list[Does]:
        """The timer `refresh`."""
        self._refresh_at_us = NEVER_US
        return self.refresh(now_us)

    def refresh(self, now_us: int) -> list[Does]:
        """Tells anew what is due."""
        effects: list[Does] = []
        for row in self.issued.due(now_us):
            effects += self._tell(now_us, row)
        return effects + self._schedule(now_us)

    def repeat(self, now_us: int, issue: str) -> list[Does]:
        """Somebody in its region does not know what goes on there."""
        row = self.issued.events.get(issue) or self.issued.subscriptions.get(issue)
        if row is None or row.instantaneous or now_us > row.expires_us:
            return []
        row.repeats = True
        row.due_us = max(now_us, row.told_us + REFRESH_GAP_US)
        return self.refresh(now_us)

    def reschedule(self, now_us: int) -> None:
        """The host moves differently from now on, and leaves its reachability regions at other times."""
        me = self.around.me(now_us)
        for row in self.issued.all():
            self.issued.reschedule(row, me)

    def _schedule(self, now_us: int) -> list[Does]:
        due_us = self.issued.next_due_us(now_us)
        if due_us == self._refresh_at_us or due_us == NEVER_US:
            return []
        self._refresh_at_us = due_us
        return [SetTimer("refresh", due_us)]

    def _tell(self, now_us: int, row: Issued) -> list[Does]:
        here = self.around.here(now_us)
        if here is None:
            row.due_us = NEVER_US
            return [Note("no_position", row.issue.id)]
        item = self.issued.tell(row, self.around.me(now_us), lambda host: self.around.where(now_us, host))
        message = self._message(item, row, here)
        return [*self.geocast.send(now_us, message), *self.keeping.hold(now_us, here.position, item)]

    def _message(
        self, item: EventItem | SubscriptionItem, row: Issued, here: Here
    ) -> EventMessage | SubscriptionMessage | Renewal:
        seeks = row.version % WHOLE_VERSIONS == 0
        whole = seeks or row.repeats
        row.repeats = False
        route = Route(route_id(item), item.region, here, seeks=seeks)
        if isinstance(item, EventItem):
            issued_us = item.event.published_us
            if whole:
                return EventMessage(route=route, item=item)
        else:
            issued_us = item.subscription.issued_us
            if whole:
                return SubscriptionMessage(route=route, item=item)
        return Renewal(
            route=route,
            issue=id_of(item),
            issued_us=issued_us,
            reach=item.reach,
            age_us=item.age_us,
            region=item.region,
        )

    # Withdrawing.

    def withdraw_event(self, now_us: int, event_id: str) -> list[Does]:
        return self._withdraw(now_us, self.issued.events.remove(event_id))

    def withdraw_subscription(self, now_us: int, subscription_id: str) -> list[Does]:
        self.keeping.held.subscriptions.remove(subscription_id)
        return self._withdraw(now_us, self.issued.subscriptions.remove(subscription_id))

    def _withdraw(self, now_us: int, row: Issued | None) -> list[Does]:
        item = None if row is None else self.issued.withdrawal(row, self.around.me(now_us))
        if row is None or item is None:
            return []
        noted = self.keeping.heard_withdrawal(now_us, item)
        here = self.around.here(now_us)
        if here is not None:
            return [*noted, *self._tell_withdrawal(now_us, item, here)]
        evicted = self.issued.withdrawn.put(row.issue.id, row)
        return noted if evicted is None else [*noted, Note("own_issue_dropped", evicted)]

    def withdraw_late(self, now_us: int) -> list[Does]:
        """What was withdrawn while this host did not know where it is."""
        here = self.around.here(now_us)
        effects: list[Does] = []
        for row in list(self.issued.withdrawn.rows()):
            self.issued.withdrawn.remove(row.issue.id)
            item = self.issued.withdrawal(row, self.around.me(now_us))
            if item is not None and here is not None:
                effects += self._tell_withdrawal(now_us, item, here)
        return effects

    def _tell_withdrawal(self, now_us: int, item: EventItem | SubscriptionItem, here: Here) -> list[Does]:
        # It has to find all who were told, so it seeks them as the first telling did.
        route = Route(route_id(item), item.region, here, seeks=True)
        if isinstance(item, EventItem):
            return self.geocast.send(now_us, EventMessage(route=route, item=item, withdrawn=True))
        return self.geocast.send(now_us, SubscriptionMessage(route=route, item=item, withdrawn=True))


def route_id(item: EventItem | SubscriptionItem) -> str:
    reach = item.reach
    return telling_id("e" if isinstance(item, EventItem) else "s", id_of(item), reach.issuer.host, reach.version)
