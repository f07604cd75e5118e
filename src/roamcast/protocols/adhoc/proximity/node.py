"""STEAM's proximity protocol: events reach whoever is inside the proximity and interested, and nobody else (S).

The node is the paper's event service nucleus (ESN, section 4.1) with its three services, each in a file of its own:
discovery (`discovery.py`), group communication (`groups.py`, `forwarding.py`) and, beyond the paper's prototype,
recovery and order (`recovery.py`, `ordering.py`, joined in `inbox.py`).

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
| Received Announced, Wanted | enters, renews or drops a proximity; inside, repeats it once a round |
| Received Raised | checks the type, repeats it if it is a member, delivers |
| Received Missed | at the producer: replays what it cached; at a member: repeats it once |
| TimerFired | a period, a delayed repetition, a gap to ask about or to give up |
"""

from collections.abc import Callable
from random import Random

from roamcast.model.context import Context
from roamcast.model.event import Announcement, Event
from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane, Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import BadValue, Point
from roamcast.node.boundary import (
    Announce,
    Broadcast,
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
)
from roamcast.protocols.adhoc.proximity.clocks import Clocks
from roamcast.protocols.adhoc.proximity.delivering import Delivering
from roamcast.protocols.adhoc.proximity.discovery import Discovery, Relevant
from roamcast.protocols.adhoc.proximity.forwarding import TIMER, Forwards, carried_on, covered, holds
from roamcast.protocols.adhoc.proximity.groups import DISCOVERY_GROUP
from roamcast.protocols.adhoc.proximity.inbox import ORDER_TIMER, RECOVER_TIMER, Inbox
from roamcast.protocols.adhoc.proximity.messages import Announced, Missed, Raised, Wanted, Withdrawn, flaw_in
from roamcast.protocols.adhoc.proximity.ordering import Arrival
from roamcast.protocols.adhoc.proximity.params import ProximityParams
from roamcast.protocols.adhoc.proximity.recovery import Outboxes, of_use_us
from roamcast.protocols.recent import Recent

PERIOD_TIMER = "announce"


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
        self.delivering = Delivering(self.discovery.interests, self.space, params.seen_ids_max, graph)
        self.outboxes = Outboxes(params.cached_events_max, params.recovery_window_us)
        self.forwarded = Recent(params.seen_ids_max)
        self._round = 0

    def handle(self, now_us: int, given: Input) -> list[Does]:
        match given:
            case Received(message, _, group):
                return self._hear(now_us, message, group)
            case TimerFired(name):
                return self._fire(now_us, name)
            case Publish(event):
                return self._raise(now_us, event)
            case Moved(context):
                self.me = context
                return self._age(now_us)
            case Start(context):
                return self._start(now_us, context)
            case Subscribe(subscription):
                return self._subscribe(now_us, subscription)
            case Unsubscribe(subscription_id):
                return self._withdrawing(subscription_id, self.discovery.unsubscribe)
            case Announce(announcement):
                return self._announce(now_us, announcement)
            case Unannounce(announcement_id):
                effects = self._withdrawing(announcement_id, self.discovery.unannounce)
                self.outboxes.close(announcement_id=announcement_id)
                return effects
            case _:
                return []

    def _here(self, now_us: int) -> Point | None:
        return None if self.me is None else self.me.position_at(now_us, self.space)

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
        return [JoinGroup(DISCOVERY_GROUP), *self.discovery.rejoin(), SetTimer(PERIOD_TIMER, now_us + phase_us)]

    def _announce(self, now_us: int, announcement: Announcement) -> list[Does]:
        if self.me is None or announcement.producer != self.me.host:
            return [Note("announcement_refused", announcement.id)]
        effects = self.discovery.announce(announcement)
        entry = self.discovery.relevant.get(announcement.id)
        here = self._here(now_us)
        if entry is None or here is None or announcement.id not in self.discovery.announcements:
            return effects
        return effects + self._beacon(now_us, entry, here)

    def _subscribe(self, now_us: int, subscription: Subscription) -> list[Does]:
        if self.me is None:
            return [Note("subscription_refused", subscription.id)]
        here = self._here(now_us)
        effects = self.discovery.subscribe(subscription, self.me.at(now_us, self.space))
        entry = self.discovery.relevant.get(subscription.id)
        if entry is not None and here is not None:
            effects += self._beacon(now_us, entry, here)
        for stream, reception in list(self.inbox.receptions.items()):
            reception.again()
            effects += self.inbox.expect(now_us, stream, reception)
        return effects + self._listen_to_joined(now_us) + self._offer_own(now_us)

    def _withdrawing(self, entry_id: str, forget: Callable[[str], list[Does]]) -> list[Does]:
        was_there = entry_id in self.discovery.relevant
        effects = forget(entry_id)
        self.outboxes.close(proximity_id=entry_id)
        return [*effects, Broadcast(Withdrawn(entry_id), DISCOVERY_GROUP)] if was_there else effects

    def _listen_to_joined(self, now_us: int) -> list[Does]:
        """A subscription may have made this node a member of proximities that it knew already."""
        here = self._here(now_us)
        effects: list[Does] = []
        for entry in list(self.discovery.relevant.values()):
            if here is not None and entry.member and not entry.local and entry.event_type is not None:
                inside = holds(entry.region, entry.naval_at(now_us, self.space), here, self.space)
                effects += self._expect(now_us, entry, inside)
        return effects

    # Every period.

    def _fire(self, now_us: int, name: str) -> list[Does]:
        if name == PERIOD_TIMER:
            return self._period(now_us)
        if name.startswith(TIMER):
            return self.forwards.due(now_us, name)
        if name.startswith(RECOVER_TIMER):
            return self._ask(now_us, name.removeprefix(RECOVER_TIMER))
        if name.startswith(ORDER_TIMER):
            released, effects = self.inbox.order_due(now_us, name.removeprefix(ORDER_TIMER))
            return effects + self._deliver(now_us, released)
        return []

    def _period(self, now_us: int) -> list[Does]:
        effects: list[Does] = [SetTimer(PERIOD_TIMER, now_us + self.params.announcement_period_us)]
        for subscription in self.discovery.interests.expired(now_us):
            effects += self._withdrawing(subscription.id, self.discovery.unsubscribe)
        effects += self._age(now_us) + self._anticipate(now_us)
        here = self._here(now_us)
        if here is None:
            return effects
        for entry in list(self.discovery.relevant.values()):
            if entry.local and self.discovery.is_local_here(entry, here):
                effects += self._beacon(now_us, entry, here)
        return effects + self._offer_own(now_us)

    def _age(self, now_us: int) -> list[Does]:
        before = list(self.discovery.relevant)
        effects = self.discovery.age(now_us, self._here(now_us), self._speed_mps())
        if len(self.discovery.relevant) < len(before):
            for entry_id in before:
                if entry_id not in self.discovery.relevant:
                    self._forget(entry_id)
        return effects

    def _forget(self, entry_id: str) -> None:
        self.inbox.close_proximity(entry_id)
        self.outboxes.close(proximity_id=entry_id)

    def _anticipate(self, now_us: int) -> list[Does]:
        """S11: a producer that fell silent is probably cut off from this node."""
        effects: list[Does] = []
        silence_us = self.params.partition_periods * self.params.announcement_period_us
        for entry in self.discovery.relevant.values():
            if entry.member and not entry.local and not entry.anticipated and now_us - entry.heard_us > silence_us:
                entry.anticipated = True
                effects.append(Note("partition_anticipated", entry.id))
        return effects

    def _beacon(self, now_us: int, entry: Relevant, here: Point) -> list[Does]:
        assert self.me is not None
        self._round += 1
        forward = not covered(entry.region, here, here, self.params.radio_range_m, self.space)
        announcement = self.discovery.announcements.get(entry.id)
        said: Message
        # A stationary proximity's naval stays where it was announced; else it is this host, also as the consumer that
        # events are to reach.
        stays = announcement is not None and not entry.mobile
        naval, velocity = (entry.initial_naval, None) if stays else (here, self.me.velocity)
        if announcement is not None:
            outbox = self.outboxes.by_stream.get(entry.id)
            latest, lasting = (outbox.latest, outbox.lasting(now_us)) if outbox is not None else (0, ())
            said = Announced(naval, velocity, now_us, self._round, forward, 0, announcement, latest, lasting)
        else:
            said = Wanted(
                naval,
                velocity,
                now_us,
                self._round,
                forward,
                0,
                entry.id,
                self.me.host,
                entry.subject,
                entry.region,
                entry.initial_naval,
            )
        return [Broadcast(said, DISCOVERY_GROUP)]

    # What is heard.

    def _hear(self, now_us: int, message: Message, group: int | None) -> list[Does]:
        here = self._here(now_us)
        if here is None or self.me is None or group is None:
            return []
        if isinstance(message, Announced | Wanted) and self.discovery.is_old(message):
            return []
        if isinstance(message, Raised) and message.forward and repetition_key(message, group) in self.forwarded:
            return []
        flaw = flaw_in(message, self.space)
        if flaw is not None:
            return [Note("bad_message", flaw)]
        match message:
            case Raised():
                return self._hear_raised(now_us, message, group, here)
            case Announced() | Wanted():
                return self._hear_beacon(now_us, message, here)
            case Withdrawn(entry_id):
                return self._hear_withdrawn(now_us, message, entry_id)
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
            if beacon.proximity_id not in self.discovery.relevant:
                self._forget(beacon.proximity_id)
            return heard.effects
        effects = list(heard.effects)
        if beacon.forward and heard.inside:
            # Every node inside helps an announcement on, whether it is interested or not (4.5).
            effects += self.forwards.add(now_us, beacon, DISCOVERY_GROUP)
        if entry.member and entry.event_type is not None:
            reunited, entry.anticipated = entry.anticipated, False
            effects += self._expect(now_us, entry, heard.inside)
            if reunited and heard.inside:
                effects += self._ask(now_us, entry.id)
        return effects

    def _expect(self, now_us: int, entry: Relevant, inside: bool) -> list[Does]:
        reception = self.inbox.open(entry.id, entry.id, entry.latest)
        if not inside:
            reception.skip_to(entry.latest)
            return []
        reception.told(entry.latest, entry.lasting)
        return self.inbox.expect(now_us, entry.id, reception)

    def _ask(self, now_us: int, stream: str) -> list[Does]:
        reception = self.inbox.receptions.get(stream)
        entry = self.discovery.relevant.get(reception.proximity_id) if reception is not None else None
        here = self._here(now_us)
        if entry is None or here is None or self.me is None or not entry.member:
            self.inbox.close(stream)
            return []
        naval = entry.naval_at(now_us, self.space)
        forward = not covered(entry.region, naval, here, self.params.radio_range_m, self.space)
        return self.inbox.ask(now_us, stream, self.me.host, here, entry.group, forward)

    def _hear_withdrawn(self, now_us: int, message: Withdrawn, entry_id: str) -> list[Does]:
        entry, effects = self.discovery.withdraw(entry_id)
        if entry is None:
            return effects
        self._forget(entry_id)
        return effects + self.forwards.add(now_us, message, DISCOVERY_GROUP)

    def _hear_missed(self, now_us: int, message: Missed, group: int, here: Point) -> list[Does]:
        entry = self.discovery.relevant.get(message.proximity_id)
        if entry is None or entry.group != group or not entry.member or self.me is None:
            return []
        mine = self.outboxes.by_stream.get(message.stream)
        naval = here if entry.local else entry.naval_at(now_us, self.space)
        if mine is not None:
            if entry.event_type is not None and not holds(entry.region, here, message.position, self.space):
                return []
            forward = self._is_beyond(now_us, entry, here)
            pause_us = self.params.recovery_patience_us // 2
            asked = message.sequences[: self.params.cached_events_max]
            replayed = mine.replay(now_us, asked, forward, pause_us)
            return [Broadcast(each, group, priority=each.delivery.priority) for each in replayed]
        if message.asker == self.me.host or not self.forwarded.add(f"?{message.asker}#{message.number}"):
            return []
        effects = self.inbox.overhear(now_us, message)
        if message.forward and holds(entry.region, naval, here, self.space):
            effects += self.forwards.add(now_us, message, group)
        return effects

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
        if producer is not None:
            producer = carried_on(producer, event.publisher.velocity, age_us, self.space)
        seen = self._seen_since(now_us - age_us, entry, event.publisher.host)
        if seen is not None:
            producer = seen.position_at(now_us, self.space)
        naval = producer if entry.event_type is not None else self._consumer_naval(now_us, entry, here)
        inside = holds(entry.region, naval, here, self.space)
        # A consumer's own region bounds where events come from, not where they are delivered, and ends with it.
        ends_here = entry.local and entry.event_type is None
        effects = self._repeat(now_us, message, group, age_us, producer, here) if inside and not ends_here else []
        if not self.discovery.interests.wants(event.subject):
            return effects
        fits = inside or entry.event_type is None
        arrival = Arrival(event, message.delivery, now_us - age_us, seen) if fits else None
        released, more = self.inbox.arrive(now_us, message, arrival)
        return effects + more + self._deliver(now_us, released)

    def _seen_since(self, raised_us: int, entry: Relevant, producer: str) -> Context | None:
        """Where a beacon has told the producer of a mobile proximity to be, since it raised an event.

        An event that lasts may be replayed long after its producer has turned or stopped.
        """
        if entry.event_type is None or entry.local or not entry.mobile or entry.naval_us <= raised_us:
            return None
        return Context(producer, entry.naval, entry.naval_us, entry.velocity)

    def _consumer_naval(self, now_us: int, entry: Relevant, here: Point) -> Point:
        return here if entry.local else entry.naval_at(now_us, self.space)

    def _repeat(
        self, now_us: int, message: Raised, group: int, age_us: int, producer: Point | None, here: Point
    ) -> list[Does]:
        if not message.forward or not self.forwarded.add(repetition_key(message, group)):
            return []
        use_us = of_use_us(message.event, message.delivery)
        if use_us is not None and age_us > use_us:
            return []
        if producer is not None and not self.forwards.gossips(self.space.distance_m(producer, here)):
            return [Note("gossip_silent")]
        return self.forwards.add(now_us, message, group, message.delivery.priority)

    # Raising and delivering.

    def _raise(self, now_us: int, event: Event) -> list[Does]:
        announcement = self.discovery.announcement_for(event)
        here = self._here(now_us)
        if announcement is None or here is None:
            return [Note("not_announced" if here is not None else "no_position", event.subject)]
        try:
            announcement.event_type.check(event.attributes)
        except BadValue:
            return [Note("type_mismatch", event.id)]
        delivery = announcement.event_type.delivery
        if announcement.proximity is None:
            entries = self.discovery.wants_of(event.subject)
        else:
            entries = [self.discovery.relevant[announcement.id]]
        effects: list[Does] = []
        for entry in entries:
            forward = self._is_beyond(now_us, entry, here)
            message = self.outboxes.open(announcement.id, entry.id).number(now_us, event, forward, delivery)
            if not (entry.local and entry.event_type is None):
                effects.append(Broadcast(message, entry.group, priority=delivery.priority))
        return effects + self._deliver(now_us, [Arrival(event, delivery, event.published_us)])

    def _is_beyond(self, now_us: int, entry: Relevant, here: Point) -> bool:
        """S9: whether what this node raises must be forwarded; to a consumer's region, to reach that consumer."""
        if entry.event_type is None:
            naval = here if entry.local else entry.naval_at(now_us, self.space)
            return not self.space.within(naval, here, self.params.radio_range_m)
        return not covered(entry.region, here, here, self.params.radio_range_m, self.space)

    def _offer_own(self, now_us: int) -> list[Does]:
        """What this node raised itself and still lasts is there for subscriptions made later on the same host."""
        arrivals = [
            Arrival(kept.message.event, kept.message.delivery, kept.raised_us)
            for outbox in self.outboxes.by_key.values()
            if outbox.kept and self.discovery.interests.wants(outbox.kept[0].message.event.subject)
            for kept in outbox.alive(now_us)
            if not kept.message.event.instantaneous
        ]
        return self._deliver(now_us, sorted(arrivals, key=lambda arrival: -arrival.delivery.priority))

    def _deliver(self, now_us: int, arrivals: list[Arrival]) -> list[Does]:
        return [] if self.me is None else self.delivering.deliver(now_us, self.me, arrivals)


def repetition_key(message: Raised, group: int) -> str:
    """What a member repeats once: an event in a group, and each replay of it."""
    return f"{message.event.id}#{message.replay}@{group}"
