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

from roamcast.adhoc.context.checks import checks_of
from roamcast.adhoc.context.digests import Digests
from roamcast.adhoc.context.domains import ToPublisher, ToSubscriber
from roamcast.adhoc.context.held import Holdings, by_my_clock
from roamcast.adhoc.context.issued import Issued, IssuedTables
from roamcast.adhoc.context.keeping import Keeping
from roamcast.adhoc.context.matching import asked_of_neighbours
from roamcast.adhoc.context.meetings import Meetings
from roamcast.adhoc.context.messages import (
    Answer,
    Digest,
    EventItem,
    EventMessage,
    MatchedEvent,
    MatchingRequest,
    Query,
    Renewal,
    SubscriptionItem,
    SubscriptionMessage,
    Unknown,
    Untold,
)
from roamcast.adhoc.context.params import ContextParams
from roamcast.adhoc.context.renewals import Renewals
from roamcast.adhoc.context.surroundings import Surroundings
from roamcast.adhoc.context.telling import Telling
from roamcast.adhoc.geocast import Geocast
from roamcast.adhoc.neighbours import ASKS_MAX, Beacon, Here, NeighbourTable, Presence
from roamcast.adhoc.routes import Route, Routed
from roamcast.model.context import Context
from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane, Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point
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
    Withdraw,
)

ASKED_US = 100_000
"""Within this time a host tells its neighbours what one of them asks for."""


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
        self.checks = checks_of(self.space)
        self.presence = Presence(round(params.beacon_s * 1e6), params.key_attributes, round(params.neighbour_s * 1e6))
        self.neighbours = NeighbourTable(params.neighbours_max, round(params.neighbour_s * 1e6))
        self.around = Surroundings(host, self.space, self.presence, self.neighbours, Context(host), graph)
        self.geocast = Geocast(host, params.geocast, rng, self.space, self.neighbours, refuses)
        self.digests = Digests(params, rng, self.space)
        self.held = Holdings(params, self.space)
        self.issued = IssuedTables(params, self.space)
        self.meetings = Meetings(params, rng, self.around, self.held, self.issued, self.geocast)
        self.domains = self.meetings.domains
        self.renewals = Renewals(params, rng, self.held, self.geocast)
        self.keeping = Keeping(params, self.space, self.checks, self.held, self.digests, self.meetings, self.renewals)
        self.telling = Telling(params, self.around, self.issued, self.geocast, self.keeping)
        self._tick_us = round(params.tick_s * 1e6)
        self._placed = False
        """Whether it knows where it is."""
        # What every frame is looked up in: there are many nodes in a simulation, and the fewer places a frame leads
        # to at each, the more of them stay in the processor's cache.
        self._hears = self.neighbours.heard
        self._known_ids = self.geocast.seen.keys
        self._journeys = self.geocast.journeys
        self._under_way = self.geocast.under_way
        self._held_events = self.held.events.by_key
        self._held_subscriptions = self.held.subscriptions.by_key

    # The boundary.

    def handle(self, now_us: int, given: Input) -> list[Does]:
        # Nearly all inputs are frames, and most frames ask for nothing.
        if type(given) is Received:
            effects = self._received(now_us, given.message, given.sender)
            if not effects:
                return effects
        elif type(given) is TimerFired:
            effects = self._fired(now_us, given.name)
        else:
            effects = self._answer(now_us, given)
        for effect in effects:
            if type(effect) is Broadcast:
                self.around.said(now_us)
                break
        return effects

    def _answer(self, now_us: int, given: Input) -> list[Does]:
        match given:
            case Publish(event):
                return self._asking(now_us, self.telling.issue(now_us, Issued(event, self.params)))
            case Subscribe(subscription):
                return self._asking(now_us, self.telling.issue(now_us, Issued(subscription, self.params)))
            case Unsubscribe(subscription_id):
                return self.telling.withdraw_subscription(now_us, subscription_id)
            case Withdraw(event_id):
                return self.telling.withdraw_event(now_us, event_id)
            case Moved(context):
                return self._moved(now_us, context)
            case Start(context):
                self._take_context(context)
                beacon_us = now_us + round(self.rng.random() * self.params.beacon_s * 1e6)
                tick_us = now_us + round(self.rng.random() * self.params.tick_s * 1e6)
                return [SetTimer("beacon", beacon_us), SetTimer("tick", tick_us)]
            case _:
                return []

    def _fired(self, now_us: int, name: str) -> list[Does]:
        if name == "tick":
            return self._tick(now_us)
        if name.startswith(self.geocast.timer_prefix):
            return self.geocast.fired(now_us, name, self.around.here(now_us))
        if name == "beacon":
            return self._beacon(now_us)
        if name == "refresh":
            return self.telling.fired(now_us)
        if name == "digest":
            return self._tell_digest(now_us)
        if name == "unknown":
            return self.renewals.fired(now_us, self.around.here(now_us))
        found = self.domains.queries.fired(name)
        return [] if found is None else self.domains.judge(now_us, found[0], found[1])

    # Relational properties.

    def _asking(self, now_us: int, effects: list[Does]) -> list[Does]:
        """After something new is held: its filters may need to know more of the neighbours, who are told at once.

        They answer within `ASKED_US`, and what is held is looked at again then.
        """
        before = self.presence.asks
        noted = self._renew_asks()
        if set(self.presence.asks) <= set(before):
            return [*effects, *noted]
        self.presence.hurry()
        return [*effects, *noted, SetTimer("beacon", now_us), SetTimer("tick", now_us + 2 * ASKED_US)]

    def _renew_asks(self) -> list[Does]:
        filters = [
            *(row.issue.filter for row in self.issued.subscriptions.rows() if isinstance(row.issue, Subscription)),
            *(row.event.relevance.filter for row in self._held_events.values()),
            *(row.subscription.interest.filter for row in self._held_subscriptions.values()),
        ]
        names = dict.fromkeys(name for each in filters for name in asked_of_neighbours(each) or ())
        wanted = [name for name in names if name not in self.params.key_attributes]
        self.presence.asks = tuple(wanted[:ASKS_MAX])
        return [Note("neighbours_not_asked", name) for name in wanted[ASKS_MAX:]]

    def _asked_for(self, now_us: int, here: Here) -> list[Does]:
        """A neighbour needs attributes; those that it could not know yet are told soon."""
        if not self.presence.asked(now_us, here.asks, self.around.context):
            return []
        self.presence.hurry()
        return [SetTimer("beacon", now_us + round(self.rng.random() * ASKED_US))]

    # Time passes.

    def _beacon(self, now_us: int) -> list[Does]:
        due_us = self.presence.due_us(now_us)
        if due_us > now_us:
            return [SetTimer("beacon", due_us)]
        here = self.around.here(now_us)
        next_beacon = SetTimer("beacon", now_us + self.presence.period_us)
        return [next_beacon] if here is None else [Broadcast(Beacon(here)), next_beacon]

    def _tell_digest(self, now_us: int) -> list[Does]:
        here = self.around.here(now_us)
        if here is None:
            # Whoever has just entered is served by others; what waits must not keep later digests from being sent.
            self.digests.waiting.clear()
            return []
        return self.digests.fired(now_us, here)

    def _tick(self, now_us: int) -> list[Does]:
        self.issued.expire(now_us)
        if self.presence.asks:
            self._renew_asks()
        again = SetTimer("tick", now_us + self._tick_us)
        if not self._held_events and not self._held_subscriptions and not self._journeys.held:
            return [again]
        position = self.around.position(now_us)
        if position is None:
            return [again]
        self.held.prune(now_us, position)
        carried = self._carry(now_us) if self._journeys.held else []
        return [again, *carried, *self.meetings.of_all(now_us)]

    def _moved(self, now_us: int, context: Context) -> list[Does]:
        self._take_context(context)
        if context.position is None:
            return []
        self.held.prune(now_us, context.position)
        self.telling.reschedule(now_us)
        late = self.telling.withdraw_late(now_us)
        return [*late, *self.meetings.of_all(now_us), *self.telling.refresh(now_us)]

    def _take_context(self, context: Context) -> None:
        self.around.context = context
        self._placed = context.position is not None

    # Hearing.

    def _received(self, now_us: int, message: Message, sender: str) -> list[Does]:
        if not self._placed:
            return []
        # Asking a message whether it is `Routed` takes longer than asking it for its route.
        route = getattr(message, "route", None)
        if type(route) is not Route:
            return self._heard_nearby(now_us, message, sender)
        here, first = route.here, None
        if route.id not in self._known_ids or route.attempt or route.walk is not None:
            # Not a plain copy of what was heard before, of which nothing but the last hop would matter.
            if not self.checks.routed(message):
                return [Note("bad_message", sender)]
            first = message
        # On a plane every place that can be said can be reckoned with.
        if not self.checks.flat and not self.checks.here(here):
            return [Note("bad_message", sender)]
        effects: list[Does] = []
        if self._hears(now_us, sender, here) and (self._held_events or self._held_subscriptions):
            effects = self._look(now_us, sender, here)
        if here.asks:
            effects = effects + self._asked_for(now_us, here)
        under_way = self._under_way
        if under_way and self._journeys.held:
            effects = effects + self._carry(now_us)
        if first is not None:
            more = self._heard_first(now_us, first)
            return effects + more if effects else more
        # After what was carried on, which may be what this is a copy of.
        entry = under_way.get(route.id) if under_way else None
        return effects if entry is None else effects + self.geocast.heard_again(now_us, entry, route)

    def _heard_first(self, now_us: int, message: Routed) -> list[Does]:
        """What is not a plain copy of a message that was heard before."""
        position = self.around.position(now_us)
        fresh, effects = self.geocast.heard(now_us, message, position)
        if not fresh or position is None:
            return effects
        arrived = self._arrived(now_us, message, position)
        return effects + arrived if arrived else effects

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
            case Unknown(issues=issues):
                self.renewals.overheard(message)
                found = [row for issue in issues if (row := self.renewals.find(issue)) is not None]
                return [*effects, *self.digests.asked(now_us, found)]
            case Query() | Answer():
                return [*effects, *self._asked(now_us, message, sender)]
            case _:
                return effects

    def _saw(self, now_us: int, sender: str, here: Here) -> list[Does]:
        """Somebody is there: who enters a region is told what is held there, and what waits for somebody goes on."""
        effects: list[Does] = []
        if self._hears(now_us, sender, here) and (self._held_events or self._held_subscriptions):
            effects = self._look(now_us, sender, here)
        if here.asks:
            effects = effects + self._asked_for(now_us, here)
        return effects + self._carry(now_us) if self._journeys.held else effects

    def _look(self, now_us: int, sender: str, here: Here) -> list[Does]:
        entered = self.held.just_entered(here.position, here.previous)
        return self.digests.saw(now_us, sender, entered) if entered else []

    def _carry(self, now_us: int) -> list[Does]:
        mine = self.around.here(now_us)
        return [] if mine is None else self.geocast.carry(now_us, mine)

    def _learned(self, now_us: int, digest: Digest) -> list[Does]:
        self.digests.overheard(digest)
        position = self.around.position(now_us)
        assert position is not None
        items: tuple[EventItem | SubscriptionItem, ...] = (*digest.events, *digest.subscriptions)
        effects: list[Does] = []
        for item in items:
            effects += self.keeping.hold(now_us, position, item)
        return self._asking(now_us, effects) if any(is_relational(item) for item in items) else effects

    def _asked(self, now_us: int, message: Query | Answer, sender: str) -> list[Does]:
        mine = self.around.here(now_us)
        assert mine is not None
        queries = self.domains.queries
        if isinstance(message, Query):
            return queries.asked(now_us, message, sender, self.around.me(now_us), mine, self.refuses)
        if not self.checks.answer(message):
            return [Note("bad_message", sender)]
        return queries.answered(now_us, message, mine, self.refuses)

    def _arrived(self, now_us: int, message: Routed, position: Point) -> list[Does]:
        """The first copy of a message that travels by geocast, whether or not this host is in its region."""
        travelled_us = message.route.age_us
        # Nearly all are one of these two.
        if type(message) is EventMessage or type(message) is SubscriptionMessage:
            if message.withdrawn:
                return self.keeping.heard_withdrawal(now_us, message.item, travelled_us)
            held = self.keeping.hold(now_us, position, message.item, travelled_us)
            return self._asking(now_us, held) if is_relational(message.item) else held
        match message:
            case Renewal():
                return self.keeping.renew(now_us, position, message, travelled_us)
            case Untold(issue=issue, issuer=self.host):
                return self.telling.repeat(now_us, issue)
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


def is_relational(item: EventItem | SubscriptionItem) -> bool:
    """Whether hosts that hold it must know attributes of their neighbours."""
    scope = item.event.relevance if isinstance(item, EventItem) else item.subscription.interest
    return scope.filter is not None and bool(asked_of_neighbours(scope.filter))
