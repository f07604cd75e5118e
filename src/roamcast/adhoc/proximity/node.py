"""STEAM's proximity protocol: events reach whoever is inside the proximity and interested, and nobody else (S).

The node is the paper's event service nucleus (ESN, section 4.1) with its three services, each in a file of its own:
discovery (`discovery.py`), group communication (`groups.py`, `forwarding.py`) and, beyond the paper's prototype,
recovery and order (`recovery.py`, `ordering.py`, joined in `inbox.py`). What it does as a producer is in
`producing.py`; here is what it hears, and what it does as a consumer.

A producer announces a type with a proximity and beacons it once a period. Who hears a beacon inside the proximity
keeps it, and joins the proximity's group if it subscribes to the subject. An event goes to the group: in one
transmission if the proximity lies within radio range, else repeated once by each member inside (S9). A member
delivers it if all five conditions of `model.match` hold as far as one host can know: the filter, the lifetimes, the
publisher by the context that the event carries, and its own place in the proximity at that very moment (S5).
Condition (iii) of C6, the overlap of relevance and interest among third hosts, is not looked at.

Guarantees: no event is delivered twice to a subscription, none to a consumer outside the proximity, none of another
type than was announced. Delivery is best effort; what was missed while cut off is asked for afterwards (S11). With
perfect radio and nothing moving during an event's flight, delivery is what `matches` says.

| input | what the node does |
|---|---|
| Announce, Unannounce | enters or withdraws a proximity; beacons it now and then every period |
| Subscribe, Unsubscribe | joins or leaves the groups of relevant proximities; advertises a wanted region (S14) |
| Publish | delivers locally, numbers the event, sends it to the group |
| Withdraw | forgets an event that lasts; a beacon tells at once that it is not to be asked for |
| Received Announced, Wanted | enters, renews or drops a proximity; inside, repeats it once a round |
| Received Raised | checks the type, repeats it if it is a member, delivers |
| Received Missed | at the producer: replays what it cached; at a member nearer to it: repeats it once |
| TimerFired | a period, a delayed repetition, a gap to ask about or to give up |
"""

from collections.abc import Callable
from random import Random

from roamcast.adhoc.proximity.clocks import Clocks
from roamcast.adhoc.proximity.delivering import Delivering
from roamcast.adhoc.proximity.discovery import Discovery
from roamcast.adhoc.proximity.forwarding import (
    TIMER,
    Forwards,
    carried_on,
    covered,
    holds,
    nearer,
    repetition_key,
)
from roamcast.adhoc.proximity.groups import DISCOVERY_GROUP
from roamcast.adhoc.proximity.inbox import ORDER_TIMER, RECOVER_TIMER, Inbox
from roamcast.adhoc.proximity.messages import (
    Announced,
    Missed,
    Raised,
    Wanted,
    Withdrawn,
    flaw_in,
    flaw_in_raised,
)
from roamcast.adhoc.proximity.ordering import Arrival
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.adhoc.proximity.producing import Producing
from roamcast.adhoc.proximity.recovery import Reception, of_use_us
from roamcast.adhoc.proximity.relevant import Relevant
from roamcast.model.context import Context
from roamcast.model.event import Announcement
from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane, Space
from roamcast.model.subject import subject_matches
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point
from roamcast.node.boundary import (
    Announce,
    Does,
    Input,
    JoinGroup,
    Message,
    Moved,
    Note,
    Publish,
    Received,
    SetTimer,
    Start,
    Subscribe,
    TimerFired,
    Unannounce,
    Unsubscribe,
    Withdraw,
)
from roamcast.node.local_match import asks_the_unknown
from roamcast.node.recent import Recent

PERIOD_TIMER = "announce"
OWN_PERIOD_TIMER = "announce/"
"""Before the id of an announcement that has a period of its own."""


class Proximity:
    def __init__(
        self,
        params: ProximityParams,
        rng: Random,
        refuses: bool = False,
        space: Space | None = None,
        graph: MovementGraph | None = None,
    ) -> None:
        self.params = params
        self.rng = rng
        self.space = space or Plane()
        self.me: Context | None = None
        self.discovery = Discovery(params, self.space)
        self.clocks = Clocks(params.clocks_agree_us, params.proximities_max)
        self.forwards = Forwards(params, rng, refuses)
        self.inbox = Inbox(params, rng)
        self.producing = Producing(params, self.discovery, self.space)
        self.delivering = Delivering(
            self.discovery.interests, self.space, params.seen_ids_max, graph, params.recovery_window_us
        )
        self.forwarded = Recent(params.seen_ids_max)

    def handle(self, now_us: int, given: Input) -> list[Does]:
        # Events by type, for they are many: `match` asks about one type after the other.
        if type(given) is Received:
            effects = self._hear(now_us, given.message, given.group)
        elif type(given) is Publish:
            effects, arrivals = self.producing.raise_(now_us, given.event, self._here(now_us))
            if arrivals:
                effects += self._deliver(now_us, arrivals)
        else:
            effects = self._mind(now_us, given)
        return effects + self._settle() if self.discovery.left else effects

    def _mind(self, now_us: int, given: Input) -> list[Does]:
        """Whatever is no event."""
        match given:
            case TimerFired(name):
                return self._fire(now_us, name)
            case Moved(context):
                self.me = context
                return self._age(now_us) + self._place(now_us)
            case Start(context):
                return self._start(now_us, context)
            case Subscribe(subscription):
                return self._subscribe(now_us, subscription)
            case Unsubscribe(subscription_id):
                return self._unsubscribe(subscription_id)
            case Withdraw(event_id):
                return self._withdraw(now_us, event_id)
            case Announce(announcement):
                return self._announce(now_us, announcement)
            case Unannounce(announcement_id):
                effects = self._withdrawing(announcement_id, self.discovery.unannounce)
                self.producing.unannounced(announcement_id)
                return effects
            case _:
                return []

    def _here(self, now_us: int) -> Point | None:
        me = self.me
        if me is None or me.velocity is None:
            return None if me is None else me.position
        return me.position_at(now_us, self.space)

    def _speed_mps(self) -> float:
        return 0.0 if self.me is None or self.me.velocity is None else self.me.velocity.speed

    # Life, announcements and subscriptions.

    def _start(self, now_us: int, context: Context) -> list[Does]:
        """Also after the host was away: its application's announcements and subscriptions persist (S3)."""
        self.me = context
        self.discovery.forget_remote()
        self.forwards.clear()
        self.inbox = Inbox(self.params, self.rng)
        phase_us = self.rng.randint(1, self.params.announcement_period_us)
        return [
            JoinGroup(DISCOVERY_GROUP),
            *self.discovery.rejoin(),
            *self._place(now_us),
            SetTimer(PERIOD_TIMER, now_us + phase_us),
            *(self._own_period(now_us, each) for each in self.discovery.announcements.values() if each.period_us),
        ]

    def _own_period(self, now_us: int, announcement: Announcement) -> SetTimer:
        period_us = announcement.period_us or self.params.announcement_period_us
        return SetTimer(OWN_PERIOD_TIMER + announcement.id, now_us + period_us)

    def _announce(self, now_us: int, announcement: Announcement) -> list[Does]:
        if self.me is None or announcement.producer != self.me.host:
            return [Note("announcement_refused", announcement.id)]
        effects = self.discovery.announce(announcement)
        entry = self.discovery.relevant.get(announcement.id)
        here = self._here(now_us)
        if entry is None or announcement.id not in self.discovery.announcements:
            return effects
        if announcement.period_us is not None:
            effects.append(self._own_period(now_us, announcement))
        return effects if here is None else effects + self._beacon(now_us, entry, here)

    def _withdraw(self, now_us: int, event_id: str) -> list[Does]:
        here, effects = self._here(now_us), list[Does]()
        for proximity_id in self.producing.withdraw(event_id):
            entry = self.discovery.relevant.get(proximity_id)
            if entry is not None and here is not None and entry.local and self.discovery.is_local_here(entry, here):
                effects += self._beacon(now_us, entry, here)
        return effects

    def _subscribe(self, now_us: int, subscription: Subscription) -> list[Does]:
        if self.me is None:
            return [Note("subscription_refused", subscription.id)]
        unknown = asks_the_unknown(subscription)
        if unknown:
            return unknown
        effects = self.discovery.subscribe(subscription, self.me.at(now_us, self.space))
        if subscription.id not in self.discovery.interests.by_id:
            return effects
        effects += self._beacon_for(now_us, subscription.id) + self.inbox.again(now_us, subscription.subject)
        effects += self._listen_to_joined(now_us, subscription.subject)
        return effects + self._deliver(now_us, self.producing.lasting(now_us, subscription.subject))

    def _beacon_for(self, now_us: int, subscription_id: str) -> list[Does]:
        entry, here = self.discovery.relevant.get(subscription_id), self._here(now_us)
        return [] if entry is None or here is None else self._beacon(now_us, entry, here)

    def _place(self, now_us: int) -> list[Does]:
        """What was subscribed to before this host had a position is advertised when it has one (S14)."""
        if not self.discovery.unplaced or self.me is None:
            return []
        waiting = list(self.discovery.unplaced)
        effects = self.discovery.place(self.me.at(now_us, self.space))
        return effects + [effect for each in waiting for effect in self._beacon_for(now_us, each)]

    def _unsubscribe(self, subscription_id: str) -> list[Does]:
        effects = self._withdrawing(subscription_id, self.discovery.unsubscribe)
        self.producing.unsubscribed(subscription_id)
        return effects + self.inbox.unsubscribed(subscription_id, self.discovery.interests.wants)

    def _withdrawing(self, entry_id: str, forget: Callable[[str], list[Does]]) -> list[Does]:
        entry = self.discovery.relevant.get(entry_id)
        effects = forget(entry_id)
        return effects if entry is None or not entry.local else [*effects, self.producing.withdrawal(entry_id)]

    def _listen_to_joined(self, now_us: int, subject: str) -> list[Does]:
        """A subscription may have made this node a member of proximities that it knew already."""
        here = self._here(now_us)
        effects: list[Does] = []
        for entry in self.discovery.concerned(subject):
            if here is None or not entry.member or entry.local or entry.event_type is None:
                continue
            if entry.id not in self.inbox.receptions and subject_matches(subject, entry.subject):
                inside = holds(entry.region, entry.naval_at(now_us, self.space), here, self.space)
                effects += self._expect(now_us, entry, inside)
        return effects

    # Every period.

    def _fire(self, now_us: int, name: str) -> list[Does]:
        if name == PERIOD_TIMER:
            return self._period(now_us)
        if name.startswith(TIMER):
            return self.forwards.due(now_us, name)
        if name.startswith(OWN_PERIOD_TIMER):
            return self._announce_again(now_us, name.removeprefix(OWN_PERIOD_TIMER))
        here = self._here(now_us)
        if here is None:
            # Nobody is inside who does not know where it is; what waits goes on waiting until it does.
            return self.inbox.put_off(now_us, name)
        if name.startswith(RECOVER_TIMER):
            return self._ask(now_us, name.removeprefix(RECOVER_TIMER), here)
        if name.startswith(ORDER_TIMER):
            released, effects = self.inbox.order_due(now_us, name.removeprefix(ORDER_TIMER))
            return effects + self._deliver(now_us, released)
        return []

    def _period(self, now_us: int) -> list[Does]:
        effects: list[Does] = [SetTimer(PERIOD_TIMER, now_us + self.params.announcement_period_us)]
        for subscription in self.discovery.interests.expired(now_us):
            effects += self._unsubscribe(subscription.id)
        effects += self._age(now_us) + self.discovery.anticipate(now_us)
        here = self._here(now_us)
        if here is None:
            return effects
        for entry in list(self.discovery.relevant.values()):
            if entry.local and not self._has_own_period(entry.id) and self.discovery.is_local_here(entry, here):
                effects += self._beacon(now_us, entry, here)
        return effects + self._deliver(now_us, self.producing.lasting(now_us))

    def _has_own_period(self, entry_id: str) -> bool:
        announcement = self.discovery.announcements.get(entry_id)
        return announcement is not None and announcement.period_us is not None

    def _announce_again(self, now_us: int, announcement_id: str) -> list[Does]:
        announcement = self.discovery.announcements.get(announcement_id)
        if announcement is None:
            return []
        again, entry, here = self._own_period(now_us, announcement), self.discovery.relevant[announcement_id], None
        here = self._here(now_us)
        if here is None or not self.discovery.is_local_here(entry, here):
            return [again]
        return [again, *self._beacon(now_us, entry, here)]

    def _age(self, now_us: int) -> list[Does]:
        return self.discovery.age(now_us, self._here(now_us), self._speed_mps())

    def _settle(self) -> list[Does]:
        """Nothing is kept for proximities that this node is no longer a member of, whatever the reason."""
        effects: list[Does] = []
        for entry_id in self.discovery.left:
            effects += self.inbox.close_proximity(entry_id)
            self.producing.outboxes.close_wanted(entry_id)
        self.discovery.left.clear()
        return effects

    def _beacon(self, now_us: int, entry: Relevant, here: Point) -> list[Does]:
        assert self.me is not None
        return self.producing.beacon(now_us, entry, self.me, here)

    # What is heard.

    def _hear(self, now_us: int, message: Message, group: int | None) -> list[Does]:
        here = self._here(now_us)
        if here is None or self.me is None or group is None:
            return []
        if type(message) is Raised:
            if message.forward and repetition_key(message, group) in self.forwarded:
                return []
            flaw = flaw_in_raised(message, self.space)
            return self._hear_raised(now_us, message, group, here) if flaw is None else [Note("bad_message", flaw)]
        if isinstance(message, Announced | Wanted) and self.discovery.is_old(now_us, message):
            return []
        flaw = flaw_in(message, self.space)
        if flaw is not None:
            return [Note("bad_message", flaw)]
        match message:
            case Announced() | Wanted():
                return self._hear_beacon(now_us, message, here)
            case Withdrawn():
                return self._hear_withdrawn(now_us, message)
            case Missed():
                return self._hear_missed(now_us, message, group, here)
            case _:
                return []

    def _hear_beacon(self, now_us: int, beacon: Announced | Wanted, here: Point) -> list[Does]:
        speaker = beacon.announcement.producer if isinstance(beacon, Announced) else beacon.consumer
        age_us = self.clocks.age_us(speaker, now_us, beacon.at_us, beacon.age_us)
        heard = self.discovery.hear(now_us, here, self._speed_mps(), beacon, age_us)
        entry = heard.entry
        if entry is None:
            return heard.effects
        # Before streams are opened for what the beacon describes, those of what it replaces are closed.
        effects = heard.effects + self._settle()
        if beacon.forward and heard.inside:
            # Every node inside helps an announcement on, whether it is interested or not (4.5).
            effects += self.forwards.add(now_us, beacon, DISCOVERY_GROUP)
        if entry.member and entry.event_type is not None:
            reunited, entry.anticipated = entry.anticipated, False
            effects += self._expect(now_us, entry, heard.inside, reunited)
            if reunited and heard.inside:
                effects += self._ask(now_us, entry.id, here)
        return effects

    def _expect(self, now_us: int, entry: Relevant, inside: bool, reunited: bool = False) -> list[Does]:
        reception, effects = self.inbox.open(entry.id, entry.id, entry.subject, entry.latest)
        was_away, entry.away = entry.away, not inside
        if not inside:
            reception.skip_to(entry.latest)
            return effects
        return effects + self.inbox.told(now_us, entry.id, entry.latest, entry.lasting, reunited or was_away)

    def _ask(self, now_us: int, stream: str, here: Point) -> list[Does]:
        reception = self.inbox.receptions.get(stream)
        entry = self.discovery.relevant.get(reception.proximity_id) if reception is not None else None
        if reception is None or entry is None or self.me is None or not entry.member:
            return self.inbox.close(stream)
        naval = entry.naval_at(now_us, self.space)
        forward = not covered(entry.region, naval, here, self.params.radio_range_m, self.space)
        producer = self._producer_of(reception, entry, naval)
        return self.inbox.ask(now_us, stream, self.me.host, here, producer, entry.group, forward, self.space)

    def _producer_of(self, reception: Reception, entry: Relevant, naval: Point) -> Point | None:
        """Where the producer of a stream was last: the naval of a mobile proximity is with it, any other is not."""
        if entry.event_type is not None and (entry.mobile or reception.source is None):
            return naval
        return reception.source

    def _hear_withdrawn(self, now_us: int, message: Withdrawn) -> list[Does]:
        entry, effects = self.discovery.withdraw(now_us, message)
        return effects if entry is None else effects + self.forwards.add(now_us, message, DISCOVERY_GROUP)

    def _hear_missed(self, now_us: int, message: Missed, group: int, here: Point) -> list[Does]:
        entry = self.discovery.relevant.get(message.proximity_id)
        if entry is None or entry.group != group or not entry.member or self.me is None:
            return []
        mine = self.producing.outboxes.by_stream.get(message.stream)
        if mine is not None:
            return self.producing.replay(now_us, message, mine, entry, here)
        if message.asker == self.me.host:
            return []
        key = f"?{message.asker}#{message.number}"
        if key in self.forwarded:
            return []
        effects = self.inbox.overhear(now_us, message)
        naval = entry.naval_from(now_us, here, self.space)
        if not message.forward or not holds(entry.region, naval, here, self.space):
            return effects
        # Who is farther from the producer than the asker may hear this again from behind, and is no help then either.
        onward = nearer(message, here, self.space)
        if onward is None:
            return effects
        self.forwarded.add(key)
        return effects + self.forwards.add(now_us, onward, group)

    def _hear_raised(self, now_us: int, message: Raised, group: int, here: Point) -> list[Does]:
        entry = self.discovery.relevant.get(message.proximity_id)
        event = message.event
        if entry is None or entry.group != group or not entry.member:
            return [Note("stray_event", event.id)]
        mistake = self.discovery.mistake_in(entry, event)
        if mistake is not None:
            return [Note(mistake, event.id)]
        assert self.me is not None
        if event.publisher.host == self.me.host:
            return []
        age_us = self.clocks.age_us(event.publisher.host, now_us, event.published_us, message.age_us)
        producer = event.publisher.position
        if producer is not None and event.publisher.velocity is not None:
            producer = carried_on(producer, event.publisher.velocity, age_us, self.space)
        seen = entry.seen_since(now_us - age_us, event.publisher.host)
        if seen is not None:
            producer = seen.position_at(now_us, self.space)
        naval = producer if entry.event_type is not None else entry.naval_from(now_us, here, self.space)
        inside = holds(entry.region, naval, here, self.space)
        # A consumer's own region bounds where events come from, not where they are delivered, and ends with it.
        ends_here = entry.local and entry.event_type is None
        effects: list[Does] = []
        if message.forward and inside and not ends_here:
            effects = self._repeat(now_us, message, group, age_us, producer, here)
        if not self.discovery.interests.wants(event.subject):
            return effects
        if inside and entry.away:
            # It entered since the last beacon, and what that one said to last comes before this event.
            effects += self._expect(now_us, entry, inside)
        fits = inside or entry.event_type is None
        # The audience is the proximity, and what was found out about it need not be asked again at once.
        inside_us = now_us if inside and entry.event_type is not None and event.audience.filter is None else None
        arrival = Arrival(event, message.delivery, now_us - age_us, seen, inside_us=inside_us) if fits else None
        released, more = self.inbox.arrive(now_us, message, arrival)
        effects += more
        if released:
            effects += self.delivering.deliver(now_us, self.me, released)
        return effects

    def _repeat(
        self, now_us: int, message: Raised, group: int, age_us: int, producer: Point | None, here: Point
    ) -> list[Does]:
        if not self.forwarded.add(repetition_key(message, group)):
            return []
        use_us = of_use_us(message.event, message.delivery)
        if use_us is not None and age_us > use_us:
            return []
        if producer is not None and not self.forwards.gossips(self.space.distance_m(producer, here)):
            return [Note("gossip_silent")]
        return self.forwards.add(now_us, message, group, message.delivery.priority)

    def _deliver(self, now_us: int, arrivals: list[Arrival]) -> list[Does]:
        return [] if self.me is None else self.delivering.deliver(now_us, self.me, arrivals)
