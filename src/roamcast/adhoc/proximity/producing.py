"""The producer's side of the event service nucleus: beacons, raising, and replays for those who missed something.

An event goes to the producer's own proximity, or to every region in which a consumer wants its subject (S14), and is
numbered and kept in the outbox of each (`recovery.py`). Beacons say which numbers there are.

Subscriptions on the producer's own host get its events without a stream. Order is kept for them too (S14): what lasts
and matches by now goes before the next event, and what lies behind an event that a subscription got is not for it.
"""

from roamcast.adhoc.proximity.discovery import Discovery
from roamcast.adhoc.proximity.forwarding import covered, holds
from roamcast.adhoc.proximity.groups import DISCOVERY_GROUP
from roamcast.adhoc.proximity.messages import Announced, Missed, Wanted, Withdrawn
from roamcast.adhoc.proximity.ordering import Arrival
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.adhoc.proximity.recovery import Outbox, Outboxes
from roamcast.adhoc.proximity.relevant import Relevant
from roamcast.model.context import Context
from roamcast.model.event import Delivery, Event
from roamcast.model.space import Space
from roamcast.model.subject import subject_matches
from roamcast.model.values import BadValue, Point
from roamcast.node.boundary import Broadcast, Does, Note


class Producing:
    def __init__(self, params: ProximityParams, discovery: Discovery, space: Space) -> None:
        self.params = params
        self.discovery = discovery
        self.space = space
        self.outboxes = Outboxes(params.cached_events_max, params.recovery_window_us, params.outboxes_max)
        self._round = 0
        self._turn = 0
        self.reached: dict[str, dict[str, int]] = {}
        """Of each announcement in order, how far the subscriptions on this host have come."""

    def beacon(self, now_us: int, entry: Relevant, me: Context, here: Point) -> list[Does]:
        self._round += 1
        forward = not covered(entry.region, here, here, self.params.radio_range_m, self.space)
        announcement = self.discovery.announcements.get(entry.id)
        # A stationary proximity's naval stays where it was announced; else it is this host, also as the consumer that
        # events are to reach.
        stays = announcement is not None and not entry.mobile
        naval, velocity = (entry.initial_naval, None) if stays else (here, me.velocity)
        if announcement is not None:
            outbox = self.outboxes.by_stream.get(entry.id)
            latest, lasting = (outbox.latest, outbox.lasting(now_us)) if outbox is not None else (0, ())
            said = Announced(naval, velocity, now_us, self._round, forward, 0, announcement, latest, lasting)
            return [Broadcast(said, DISCOVERY_GROUP)]
        wanted = Wanted(
            naval,
            velocity,
            now_us,
            self._round,
            forward,
            0,
            entry.id,
            me.host,
            entry.subject,
            entry.region,
            entry.initial_naval,
        )
        return [Broadcast(wanted, DISCOVERY_GROUP)]

    def withdrawal(self, entry_id: str) -> Broadcast:
        """Later than every beacon before it, so that none of them brings back what was withdrawn."""
        self._round += 1
        return Broadcast(Withdrawn(entry_id, self._round), DISCOVERY_GROUP)

    def raise_(self, now_us: int, event: Event, here: Point | None) -> tuple[list[Does], list[Arrival]]:
        """What raising an event takes, and what is there for this host's own subscriptions then."""
        announcement = self.discovery.announcement_for(event)
        if announcement is None or here is None:
            return [Note("not_announced" if here is not None else "no_position", event.subject)], []
        try:
            announcement.event_type.check(event.attributes)
        except BadValue:
            return [Note("type_mismatch", event.id)], []
        delivery = announcement.event_type.delivery
        self._turn += 1
        before = self.lasting(now_us, event.subject) if delivery.order != "none" else []
        if announcement.proximity is None:
            entries = self.discovery.wants_of(event.subject)
        else:
            entries = [self.discovery.relevant[announcement.id]]
        effects: list[Does] = []
        for entry in entries:
            forward = self._is_beyond(now_us, entry, here)
            outbox = self.outboxes.by_key.get((announcement.id, entry.id))
            if outbox is None:
                outbox, closed = self.outboxes.open(announcement.id, entry.id)
                if closed is not None:
                    effects.append(Note("outbox_dropped", closed))
            message = outbox.number(now_us, event, forward, delivery, self._turn)
            if not (entry.local and entry.event_type is None):
                effects.append(Broadcast(message, entry.group, priority=delivery.priority))
        if not self.discovery.interests.wants(event.subject):
            return effects, before
        return effects, [*before, self._arrival(announcement.id, event, delivery, event.published_us, self._turn)]

    def withdraw(self, event_id: str) -> list[str]:
        """Only the producer keeps what lasts. Answers with the proximities whose beacons named the event."""
        return [box.proximity_id for box in self.outboxes.by_stream.values() if box.withdraw(event_id)]

    def _arrival(
        self, announcement_id: str, event: Event, delivery: Delivery, published_us: int, turn: int
    ) -> Arrival:
        reached = None if delivery.order == "none" else self.reached.setdefault(announcement_id, {})
        return Arrival(event, delivery, published_us, sequence=turn, reached=reached)

    def unannounced(self, announcement_id: str) -> None:
        self.outboxes.close_announcement(announcement_id)
        self.reached.pop(announcement_id, None)

    def unsubscribed(self, subscription_id: str) -> None:
        for reached in self.reached.values():
            reached.pop(subscription_id, None)

    def replay(self, now_us: int, message: Missed, mine: Outbox, entry: Relevant, here: Point) -> list[Does]:
        if entry.event_type is not None and not holds(entry.region, here, message.position, self.space):
            return []
        forward = self._is_beyond(now_us, entry, here)
        asked = message.sequences[: self.params.cached_events_max]
        replayed = mine.replay(now_us, asked, forward, self.params.recovery_patience_us // 2)
        return [Broadcast(each, entry.group, priority=each.delivery.priority) for each in replayed]

    def _is_beyond(self, now_us: int, entry: Relevant, here: Point) -> bool:
        """S9: whether what this node raises must be forwarded; to a consumer's region, to reach that consumer."""
        if entry.event_type is None:
            naval = entry.naval_from(now_us, here, self.space)
            return not self.space.within(naval, here, self.params.radio_range_m)
        return not covered(entry.region, here, here, self.params.radio_range_m, self.space)

    def lasting(self, now_us: int, pattern: str | None = None) -> list[Arrival]:
        """What this node raised itself and still lasts, the urgent first, then as raised: it is there for
        subscriptions made later on the same host. With a pattern, what that matches."""
        arrivals: dict[str, Arrival] = {}
        for (announcement_id, _), outbox in self.outboxes.by_key.items():
            if not outbox.kept or not self._is_wanted_here(outbox.kept[0].message.event.subject, pattern):
                continue
            for kept in outbox.alive(now_us):
                event = kept.message.event
                if not event.instantaneous:
                    delivery = kept.message.delivery
                    arrivals[event.id] = self._arrival(announcement_id, event, delivery, kept.raised_us, kept.turn)
        return sorted(arrivals.values(), key=lambda arrival: (-arrival.delivery.priority, arrival.sequence))

    def _is_wanted_here(self, subject: str, pattern: str | None) -> bool:
        if pattern is not None and not subject_matches(pattern, subject):
            return False
        return self.discovery.interests.wants(subject)
