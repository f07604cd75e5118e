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

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.places import MovementGraph
from roamcast.model.region import check_region, contains
from roamcast.model.scope import EVERYWHERE
from roamcast.model.space import Plane, Space
from roamcast.model.values import BadValue, Point
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
from roamcast.protocols.adhoc.context.digests import Digests
from roamcast.protocols.adhoc.context.domains import Domains, ToPublisher, ToSubscriber
from roamcast.protocols.adhoc.context.held import HeldEvent, HeldSubscription, Holdings, by_my_clock
from roamcast.protocols.adhoc.context.issued import NEVER_US, Issued, IssuedTables
from roamcast.protocols.adhoc.context.matching import (
    coexist,
    content_may_match,
    included,
)
from roamcast.protocols.adhoc.context.messages import (
    Answer,
    Digest,
    EventItem,
    EventMessage,
    MatchedEvent,
    MatchingRequest,
    Query,
    Reach,
    SubscriptionItem,
    SubscriptionMessage,
)
from roamcast.protocols.adhoc.context.params import ContextParams
from roamcast.protocols.adhoc.context.surroundings import Surroundings
from roamcast.protocols.adhoc.geocast import Geocast
from roamcast.protocols.adhoc.neighbours import Beacon, Here, NeighbourTable, Presence
from roamcast.protocols.adhoc.routes import Route, Routed
from roamcast.protocols.recent import Recent

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
        self._flat = isinstance(self.space, Plane)
        self.presence = Presence(round(params.beacon_s * 1e6), params.key_attributes)
        self.neighbours = NeighbourTable(params.neighbours_max, round(params.neighbour_s * 1e6))
        self.around = Surroundings(host, self.space, self.presence, self.neighbours, Context(host), graph)
        self.geocast = Geocast(host, params.geocast, rng, self.space, self.neighbours, refuses)
        self.digests = Digests(params, rng, self.space)
        self.held = Holdings(params, self.space)
        self.issued = IssuedTables(params, self.space)
        self.domains = Domains(params, rng, self.around, self.issued, self._send_matched)
        self.handled = Recent(params.handled_pairs_max)
        """Matches that this host has told."""
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
            if isinstance(effect, Broadcast):
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
        if here is None:
            # Whoever has just entered is served by others; what waits must not keep later digests from being sent.
            self.digests.waiting.clear()
            return []
        return self.digests.fired(now_us, here) if name == "digest" else self.geocast.fired(now_us, name, here)

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
        here = self.around.here(now_us)
        if here is None:
            return [again]
        self.held.prune(now_us, here.position)
        return [again, *self.geocast.carry(now_us, here), *self._match_all(now_us)]

    def _moved(self, now_us: int, context: Context) -> list[Does]:
        self.around.context = context
        if context.position is None:
            return []
        self.held.prune(now_us, context.position)
        me = self.around.me(now_us)
        for row in self.issued.all():
            self.issued.reschedule(row, me)
        return [*self._match_all(now_us), *self._refresh(now_us)]

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
            route = Route(f"e/{item.event.id}/{row.version}", item.region, here, seeks=seeks)
            return [*self.geocast.send(now_us, EventMessage(route=route, item=item)), *self._hold(now_us, item, 0)]
        route = Route(f"s/{item.subscription.id}/{row.version}", item.region, here, seeks=seeks)
        return [
            *self.geocast.send(now_us, SubscriptionMessage(route=route, item=item)),
            *self._hold(now_us, item, 0),
        ]

    def _withdraw(self, now_us: int, subscription_id: str) -> list[Does]:
        row = self.issued.subscriptions.remove(subscription_id)
        here = self.around.here(now_us)
        if row is None or here is None:
            return []
        item = self.issued.tell(row, self.around.me(now_us), lambda host: self.around.where(now_us, host))
        self.held.subscriptions.remove(subscription_id)
        if row.instantaneous or not isinstance(item, SubscriptionItem):
            return []
        route = Route(f"s/{subscription_id}/{row.version}", item.region, here)
        return self.geocast.send(now_us, SubscriptionMessage(route=route, item=item, withdrawn=True))

    # Hearing.

    def _is_nowhere(self, here: Here, message: Message) -> bool:
        try:
            for point in (here.position, here.previous):
                if point is not None:
                    self.space.check(point)
            if isinstance(message, Routed):
                check_region(message.route.target, self.space)
        except BadValue:
            return True
        return False

    def _received(self, now_us: int, message: Message, sender: str) -> list[Does]:
        here = message.route.here if isinstance(message, Routed) else getattr(message, "here", None)
        if self.around.context.position is None or type(here) is not Here:
            return []
        # On a plane whatever decodes has a place; on Earth a stranger's frame may name one that is not there.
        if not self._flat and self._is_nowhere(here, message):
            return [Note("bad_message", sender)]
        effects: list[Does] = []
        if self.neighbours.heard(now_us, sender, here) and (
            entered := self.held.just_entered(here.position, here.previous)
        ):
            effects += self.digests.saw(now_us, sender, entered)
        if self.geocast.held and (mine := self.around.here(now_us)):
            effects += self.geocast.carry(now_us, mine)
        if isinstance(message, Routed):
            fresh, more = self.geocast.heard(now_us, message, self.around.context)
            if fresh:
                more = more + self._arrived(now_us, message)
            return effects + more if effects else more
        mine = self.around.here(now_us)
        assert mine is not None
        match message:
            case Digest(_, events, subscriptions):
                self.digests.overheard(message)
                for event in events:
                    effects += self._hold(now_us, event, 0)
                for subscription in subscriptions:
                    effects += self._hold(now_us, subscription, 0)
            case Query():
                effects += self.domains.queries.asked(message, sender, self.around.me(now_us), mine, self.refuses)
            case Answer():
                effects += self.domains.queries.answered(message, mine, self.refuses)
            case _:
                pass
        return effects

    def _arrived(self, now_us: int, message: Routed) -> list[Does]:
        """The first copy of a message that travels by geocast, whether or not this host is in its region."""
        travelled_us = message.route.age_us
        match message:
            case EventMessage():
                return self._hold(now_us, message.item, travelled_us)
            case SubscriptionMessage():
                if message.withdrawn:
                    self.held.subscriptions.remove(message.item.subscription.id)
                    return []
                return self._hold(now_us, message.item, travelled_us)
            case MatchedEvent(subscriber=self.host):
                publisher = by_my_clock(message.publisher, now_us, travelled_us)
                published_us = now_us - travelled_us - message.age_us
                found = ToSubscriber(message.event, message.subscription_id, publisher, published_us)
                return self.domains.at_subscriber(now_us, found)
            case MatchingRequest(publisher=self.host):
                issuer = by_my_clock(message.reach.issuer, now_us, travelled_us)
                reach = Reach(issuer, message.reach.region, message.reach.version)
                request = ToPublisher(message.event, message.publishers, message.subscription_id, reach)
                return self.domains.at_publisher(now_us, request)
            case _:
                return []

    def _hold(self, now_us: int, item: EventItem | SubscriptionItem, travelled_us: int) -> list[Does]:
        """Holds what belongs where this host is, and matches it against what it holds already."""
        position = self.around.position(now_us)
        if position is None or not contains(item.region, position, self.space):
            return []
        if isinstance(item, EventItem):
            return self._hold_event(now_us, HeldEvent(item, now_us, travelled_us, self.params))
        return self._hold_subscription(now_us, HeldSubscription(item, now_us, travelled_us, self.params))

    def _hold_event(self, now_us: int, row: HeldEvent) -> list[Does]:
        known = self.held.events.get(row.id)
        if (known is not None and known.reach.version >= row.reach.version) or not row.lives(now_us):
            return []
        evicted = None if row.ends_us < now_us else self.held.events.put(row.id, row)
        effects: list[Does] = [] if evicted is None else [Note("event_dropped", evicted)]
        for other in list(self.held.subscriptions.rows()):
            effects += self._match(now_us, row, other)
        return effects

    def _hold_subscription(self, now_us: int, row: HeldSubscription) -> list[Does]:
        known = self.held.subscriptions.get(row.id)
        if (known is not None and known.reach.version >= row.reach.version) or not row.lives(now_us):
            return []
        evicted = None if row.ends_us < now_us else self.held.subscriptions.put(row.id, row)
        effects: list[Does] = [] if evicted is None else [Note("subscription_dropped", evicted)]
        for other in list(self.held.events.rows()):
            effects += self._match(now_us, other, row)
        return effects

    # Matching.

    def _match_all(self, now_us: int) -> list[Does]:
        effects: list[Does] = []
        for subscription in list(self.held.subscriptions.rows()):
            for event in list(self.held.events.rows()):
                effects += self._match(now_us, event, subscription)
        return effects

    def _match(self, now_us: int, event: HeldEvent, subscription: HeldSubscription) -> list[Does]:
        """Conditions (i) to (iii), and where to go from there."""
        open_domain = subscription.subscription.publishers == EVERYWHERE
        key = self._match_key(event, subscription, open_domain)
        if key in self.handled or not coexist(event, subscription, now_us):
            return []
        if not content_may_match(event.event, subscription.subscription, self.space):
            return []
        me, around = self.around.me(now_us), self.around.around(now_us)

        def where(host: str) -> Point | None:
            return self.around.where(now_us, host, event.issuer, subscription.issuer)

        for scope in (event.event.relevance, subscription.subscription.interest):
            if not included(scope, me, around, where, self.space, self.around.graph):
                return []
        self.handled.add(key)
        if open_domain:
            matched = ToSubscriber(event.event, subscription.id, event.issuer, event.issued_us)
            return self._send_matched(now_us, matched, subscription.reach, contended=True)
        return self._send_request(now_us, event, subscription, key)

    def _match_key(self, event: HeldEvent, subscription: HeldSubscription, open_domain: bool) -> str:
        if not self.params.matches_again:
            return f"{'m' if open_domain else 'r'}/{event.id}/{subscription.id}"
        pair = f"{event.id}/{subscription.id}/{subscription.reach.version}"
        return f"m/{pair}" if open_domain else f"r/{pair}.{event.reach.version}"

    def _send_request(self, now_us: int, event: HeldEvent, subscription: HeldSubscription, key: str) -> list[Does]:
        publishers = subscription.subscription.publishers
        reach = subscription.reach_now(now_us, self.space)
        if event.event.publisher.host == self.host:
            return self.domains.at_publisher(now_us, ToPublisher(event.id, publishers, subscription.id, reach))
        here = self.around.here(now_us)
        assert here is not None
        request = MatchingRequest(
            route=Route(key, event.reach.region, here),
            event=event.id,
            publisher=event.event.publisher.host,
            publishers=publishers,
            subscription_id=subscription.id,
            reach=reach,
        )
        return self.geocast.send(now_us, request, contended=True)

    def _send_matched(self, now_us: int, matched: ToSubscriber, reach: Reach, contended: bool = False) -> list[Does]:
        subscriber = reach.issuer.host
        if subscriber == self.host:
            return self.domains.at_subscriber(now_us, matched)
        here = self.around.here(now_us)
        if here is None:
            return []
        message = MatchedEvent(
            route=Route(self._matched_id(matched, reach), reach.region, here),
            event=matched.event,
            publisher=matched.publisher.at(now_us, self.space),
            age_us=now_us - matched.published_us,
            subscriber=subscriber,
            subscription_id=matched.subscription_id,
        )
        return self.geocast.send(now_us, message, contended)

    def _matched_id(self, matched: ToSubscriber, reach: Reach) -> str:
        pair = f"m/{matched.event.id}/{matched.subscription_id}"
        return f"{pair}/{reach.version}" if self.params.matches_again else pair
