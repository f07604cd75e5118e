"""Context-aware publish/subscribe without infrastructure (C): the node.

An event goes to its region of relevance, a subscription to its region of interest, both slightly enlarged, by
geocast. Hosts there hold them while they live. A host that is in both contexts and holds both tests conditions (i) to
(iii). If they hold, and the subscription has a publication domain, a matching-request goes to where the publisher can
be reached, and the publisher tests (iv). Then a matched-event goes to where the subscriber can be reached, and the
subscriber tests (v) and delivers. Figure 2 of the paper:

    publisher ──event──▶ matching area ◀──subscription── subscriber
        ▲                     │ │                            ▲
        └──matching-request───┘ └───────matched-event────────┤
        └──────────────────matched-event─────────────────────┘

Many hosts of the matching area find the same match; their messages have one id, so geocast lets one through. Issuers
refresh what is persistent, every period and before they leave their reachability region; a refresh counts as a new
version, and matches are told again to it. So what was lost, or what a domain refused at first, has another chance.
Hosts test again every tick, since they and others move and change. Who has just entered a region is told by a digest.

Guarantee: an event is delivered at most once to a subscription, and only if (i), (ii) and (v) hold at the subscriber
then, (iv) held at the publisher and (iii) at some host a time of flight before. Best effort otherwise. Every table is
bounded; what is dropped is noted. No clock is compared with another's.
"""

from random import Random

from msgspec.structs import replace

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane, Space
from roamcast.node.boundary import (
    Broadcast,
    Does,
    Input,
    Message,
    Moved,
    Note,
    Publish,
    Received,
    SetTimer,
    Start,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from roamcast.protocols.adhoc.context.checks import Checks
from roamcast.protocols.adhoc.context.digests import Digests
from roamcast.protocols.adhoc.context.domains import ToPublisher, ToSubscriber
from roamcast.protocols.adhoc.context.held import HeldEvent, HeldSubscription, Holdings, by_my_clock, is_inside
from roamcast.protocols.adhoc.context.issued import NEVER_US, Issued, IssuedTables
from roamcast.protocols.adhoc.context.meetings import Meetings
from roamcast.protocols.adhoc.context.messages import (
    Answer,
    Digest,
    EventItem,
    EventMessage,
    MatchedEvent,
    MatchingRequest,
    Query,
    SubscriptionItem,
    SubscriptionMessage,
)
from roamcast.protocols.adhoc.context.params import ContextParams
from roamcast.protocols.adhoc.context.surroundings import Surroundings
from roamcast.protocols.adhoc.geocast import Geocast
from roamcast.protocols.adhoc.neighbours import Beacon, Here, NeighbourTable, Presence
from roamcast.protocols.adhoc.routes import Route, Routed
from roamcast.protocols.adhoc.until import Until

SEEK_VERSIONS = 4
"""One of so many refreshes looks for all parts of its region; the others go where they get to by themselves."""


class ContextNode:
    def __init__(
        self,
        host: str,
        rng: Random,
        params: ContextParams,
        refuses: bool = False,
        space: Space | None = None,
        graph: MovementGraph | None = None,
    ) -> None:
        self.host = host
        self.rng = rng
        self.params = params
        self.refuses = refuses
        self.space: Space = space or Plane()
        self.checks = Checks(self.space)
        # On a plane every place that can be said can be reckoned with; frames are too many to look at more than that.
        self._flat = self.checks.flat
        self.presence = Presence(round(params.beacon_s * 1e6), params.key_attributes)
        self.neighbours = NeighbourTable(params.neighbours_max, round(params.neighbour_s * 1e6))
        self.around = Surroundings(host, self.space, self.presence, self.neighbours, Context(host), graph)
        self.geocast = Geocast(host, params.geocast, rng, self.space, self.neighbours, refuses)
        self.digests = Digests(params, rng, self.space)
        self.held = Holdings(params, self.space)
        self.issued = IssuedTables(params, self.space)
        self.meetings = Meetings(params, rng, self.around, self.held, self.issued, self.geocast)
        self.domains = self.meetings.domains
        self.withdrawn = Until(params.subscriptions_max)
        """Subscriptions that must not come back, until those who still hold them have forgotten them too."""
        self._refresh_at_us = NEVER_US

    # The boundary.

    def handle(self, now_us: int, given: Input) -> list[Does]:
        # Nearly all inputs are frames, and most frames ask for nothing.
        if type(given) is Received:
            effects = self._received(now_us, given.message, given.sender)
            if not effects:
                return effects
        else:
            effects = self._answer(now_us, given)
        for effect in effects:
            if type(effect) is Broadcast:
                position = self.around.position(now_us)
                assert position is not None
                self.presence.said(now_us, position)
                break
        return effects

    def _answer(self, now_us: int, given: Input) -> list[Does]:
        match given:
            case TimerFired(name):
                return self._fired(now_us, name)
            case Publish(event):
                return self._issue(now_us, Issued(event, self.params))
            case Subscribe(subscription):
                return self._issue(now_us, Issued(subscription, self.params))
            case Unsubscribe(subscription_id):
                return self._withdraw(now_us, subscription_id)
            case Moved(context):
                return self._moved(now_us, context)
            case Start(context):
                self.around.context = context
                beacon_us = now_us + round(self.rng.random() * self.params.beacon_s * 1e6)
                tick_us = now_us + round(self.rng.random() * self.params.tick_s * 1e6)
                return [SetTimer("beacon", beacon_us), SetTimer("tick", tick_us)]
            case _:
                return []

    def _fired(self, now_us: int, name: str) -> list[Does]:
        if name == "tick":
            return self._tick(now_us)
        if name == "beacon":
            return self._beacon(now_us)
        if name.startswith(self.domains.queries.timer_prefix):
            found = self.domains.queries.fired(name)
            return [] if found is None else self.domains.judge(now_us, found[0], found[1])
        if name == "refresh":
            self._refresh_at_us = NEVER_US
            return self._refresh(now_us)
        here = self.around.here(now_us)
        if name != "digest":
            return self.geocast.fired(now_us, name, here)
        if here is None:
            # Whoever has just entered is served by others; what waits must not keep later digests from being sent.
            self.digests.waiting.clear()
            return []
        return self.digests.fired(now_us, here)

    # Time passes.

    def _beacon(self, now_us: int) -> list[Does]:
        due_us = self.presence.due_us(now_us)
        if due_us > now_us:
            return [SetTimer("beacon", due_us)]
        here = self.around.here(now_us)
        next_beacon = SetTimer("beacon", now_us + self.presence.period_us)
        return [next_beacon] if here is None else [Broadcast(Beacon(here)), next_beacon]

    def _tick(self, now_us: int) -> list[Does]:
        self.issued.expire(now_us)
        again = SetTimer("tick", now_us + round(self.params.tick_s * 1e6))
        position = self.around.position(now_us)
        if position is None:
            return [again]
        self.held.prune(now_us, position)
        here = self.around.here(now_us) if self.geocast.held else None
        carried = [] if here is None else self.geocast.carry(now_us, here)
        return [again, *carried, *self.meetings.of_all(now_us)]

    def _moved(self, now_us: int, context: Context) -> list[Does]:
        self.around.context = context
        if context.position is None:
            return []
        self.held.prune(now_us, context.position)
        me = self.around.me(now_us)
        for row in self.issued.all():
            self.issued.reschedule(row, me)
        return [*self._withdraw_late(now_us), *self.meetings.of_all(now_us), *self._refresh(now_us)]

    # Issuing: publish, subscribe, refresh, withdraw.

    def _issue(self, now_us: int, row: Issued) -> list[Does]:
        table = self.issued.events if isinstance(row.issue, Event) else self.issued.subscriptions
        evicted = table.put(row.issue.id, row)
        noted: list[Does] = [] if evicted is None else [Note("own_issue_dropped", evicted)]
        if evicted == row.issue.id:
            return noted
        # Of a host that does not know yet where it is: told as soon as it does.
        return [*noted, *self._tell(now_us, row), *self._schedule(now_us)]

    def _refresh(self, now_us: int) -> list[Does]:
        effects: list[Does] = []
        for row in self.issued.due(now_us):
            effects += self._tell(now_us, row)
        return effects + self._schedule(now_us)

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
        seeks = row.version % SEEK_VERSIONS == 0
        if isinstance(item, EventItem):
            route = Route(f"e/{item.event.id}/{row.version}", item.region, here, seeks=seeks, again=not seeks)
            return [*self.geocast.send(now_us, EventMessage(route=route, item=item)), *self._hold(now_us, item, 0)]
        route = Route(f"s/{item.subscription.id}/{row.version}", item.region, here, seeks=seeks, again=not seeks)
        return [
            *self.geocast.send(now_us, SubscriptionMessage(route=route, item=item)),
            *self._hold(now_us, item, 0),
        ]

    def _withdraw(self, now_us: int, subscription_id: str) -> list[Does]:
        row = self.issued.subscriptions.remove(subscription_id)
        self.held.subscriptions.remove(subscription_id)
        item = None if row is None else self.issued.withdrawal(row, self.around.me(now_us))
        if row is None or item is None:
            return []
        noted = self._bury(now_us, HeldSubscription(item, now_us, 0, self.params))
        here = self.around.here(now_us)
        if here is not None:
            return [*noted, *self._tell_withdrawal(now_us, item, here)]
        evicted = self.issued.withdrawn.put(subscription_id, row)
        return noted if evicted is None else [*noted, Note("own_issue_dropped", evicted)]

    def _withdraw_late(self, now_us: int) -> list[Does]:
        """What was withdrawn while this host did not know where it is."""
        here = self.around.here(now_us)
        effects: list[Does] = []
        for row in list(self.issued.withdrawn.rows()):
            self.issued.withdrawn.remove(row.issue.id)
            item = self.issued.withdrawal(row, self.around.me(now_us))
            if item is not None and here is not None:
                effects += self._tell_withdrawal(now_us, item, here)
        return effects

    def _tell_withdrawal(self, now_us: int, item: SubscriptionItem, here: Here) -> list[Does]:
        # It has to find all who were told, so it seeks them as the first telling did.
        route = Route(f"s/{item.subscription.id}/{item.reach.version}", item.region, here, seeks=True)
        return self.geocast.send(now_us, SubscriptionMessage(route=route, item=item, withdrawn=True))

    def _bury(self, now_us: int, row: HeldSubscription) -> list[Does]:
        """Remembers a withdrawal for as long as somebody who missed it may tell of the subscription."""
        self.held.subscriptions.remove(row.id)
        self.digests.withdrawn(row.id)
        ends_us = row.ends_us + round(self.params.in_flight_s * 1e6)
        forgotten = self.withdrawn.add(now_us, row.grave, ends_us)
        return [] if forgotten is None else [Note("withdrawal_forgotten", forgotten)]

    # Hearing.

    def _received(self, now_us: int, message: Message, sender: str) -> list[Does]:
        if self.around.context.position is None:
            return []
        # Asking a message whether it is `Routed` takes longer than anything else here: once is for first copies.
        route = getattr(message, "route", None)
        if type(route) is not Route:
            return self._heard_nearby(now_us, message, sender)
        if not self._flat and not self.checks.here(route.here):
            return [Note("bad_message", sender)]
        if self.geocast.knows(route):
            effects = self._saw(now_us, sender, route.here)
            more = self.geocast.heard_copy(now_us, route)
            return effects + more if effects else more
        if not isinstance(message, Routed) or not self.checks.route(route):
            return [Note("bad_message", sender)]
        effects = self._saw(now_us, sender, route.here)
        fresh, more = self.geocast.heard(now_us, message, self.around.position(now_us))
        if fresh:
            more = more + self._arrived(now_us, message)
        return effects + more if effects else more

    def _heard_nearby(self, now_us: int, message: Message, sender: str) -> list[Does]:
        """What does not travel: beacons, digests, queries and answers."""
        here = getattr(message, "here", None)
        if type(here) is not Here:
            return []
        if not self.checks.here(here):
            return [Note("bad_message", sender)]
        effects = self._saw(now_us, sender, here)
        if type(message) is Beacon:
            return effects
        match message:
            case Digest():
                return [*effects, *self._learned(now_us, message)]
            case Query() | Answer():
                return [*effects, *self._asked(now_us, message, sender)]
            case _:
                return effects

    def _saw(self, now_us: int, sender: str, here: Here) -> list[Does]:
        """Somebody is there: who enters a region is told what is held there, and what waits for somebody goes on."""
        effects: list[Does] = []
        if self.neighbours.heard(now_us, sender, here) and (
            entered := self.held.just_entered(here.position, here.previous)
        ):
            effects = self.digests.saw(now_us, sender, entered)
        if self.geocast.held and (mine := self.around.here(now_us)):
            effects = effects + self.geocast.carry(now_us, mine)
        return effects

    def _learned(self, now_us: int, digest: Digest) -> list[Does]:
        self.digests.overheard(digest)
        effects: list[Does] = []
        for event in digest.events:
            effects += self._hold(now_us, event, 0)
        for subscription in digest.subscriptions:
            effects += self._hold(now_us, subscription, 0)
        return effects

    def _asked(self, now_us: int, message: Query | Answer, sender: str) -> list[Does]:
        mine = self.around.here(now_us)
        assert mine is not None
        queries = self.domains.queries
        if isinstance(message, Query):
            return queries.asked(now_us, message, sender, self.around.me(now_us), mine, self.refuses)
        if not self.checks.answer(message):
            return [Note("bad_message", sender)]
        return queries.answered(now_us, message, mine, self.refuses)

    def _arrived(self, now_us: int, message: Routed) -> list[Does]:
        """The first copy of a message that travels by geocast, whether or not this host is in its region."""
        travelled_us = message.route.age_us
        # Nearly all are one of these two.
        if type(message) is EventMessage:
            return self._hold(now_us, message.item, travelled_us)
        if type(message) is SubscriptionMessage:
            if message.withdrawn:
                return self._withdrawn(now_us, message.item, travelled_us)
            return self._hold(now_us, message.item, travelled_us)
        match message:
            case MatchedEvent(subscriber=self.host):
                if not self.checks.matched(message):
                    return [Note("bad_message", message.route.id)]
                publisher = by_my_clock(message.publisher, now_us, travelled_us)
                published_us = now_us - travelled_us - message.age_us
                found = ToSubscriber(message.event, message.subscription_id, publisher, published_us)
                return self.domains.at_subscriber(now_us, found)
            case MatchingRequest(publisher=self.host):
                if not self.checks.request(message):
                    return [Note("bad_message", message.route.id)]
                reach = replace(message.reach, issuer=by_my_clock(message.reach.issuer, now_us, travelled_us))
                request = ToPublisher(message.event, message.publishers, message.subscription_id, reach)
                return self.domains.at_publisher(now_us, request)
            case _:
                return []

    def _hold(self, now_us: int, item: EventItem | SubscriptionItem, travelled_us: int) -> list[Does]:
        """Holds what belongs where this host is, and matches it against what it holds already."""
        position = self.around.position(now_us)
        if position is None or not is_inside(item.region, position, self.space):
            return []
        if not self.checks.item(item):
            return [Note("bad_message", item.event.id if isinstance(item, EventItem) else item.subscription.id)]
        if isinstance(item, EventItem):
            return self._hold_event(now_us, HeldEvent(item, now_us, travelled_us, self.params))
        return self._hold_subscription(now_us, HeldSubscription(item, now_us, travelled_us, self.params))

    def _hold_event(self, now_us: int, row: HeldEvent) -> list[Does]:
        known = self.held.events.get(row.id)
        if (known is not None and known.reach.version >= row.reach.version) or not row.lives(now_us):
            return []
        evicted = None if row.ends_us < now_us else self.held.events.put(row.id, row)
        effects: list[Does] = [] if evicted is None else [Note("event_dropped", evicted)]
        return effects + self.meetings.of_event(now_us, row)

    def _hold_subscription(self, now_us: int, row: HeldSubscription) -> list[Does]:
        known = self.held.subscriptions.get(row.id)
        if (known is not None and known.reach.version >= row.reach.version) or not row.lives(now_us):
            return []
        if row.grave in self.withdrawn:
            return []
        evicted = None if row.ends_us < now_us else self.held.subscriptions.put(row.id, row)
        effects: list[Does] = [] if evicted is None else [Note("subscription_dropped", evicted)]
        return effects + self.meetings.of_subscription(now_us, row)

    def _withdrawn(self, now_us: int, item: SubscriptionItem, travelled_us: int) -> list[Does]:
        if not self.checks.item(item):
            return [Note("bad_message", item.subscription.id)]
        row = HeldSubscription(item, now_us, travelled_us, self.params)
        return self._bury(now_us, row) if row.lives(now_us) else []
