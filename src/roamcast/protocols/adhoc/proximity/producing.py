"""The producer's side of the event service nucleus: beacons, raising, and replays for those who missed something.

An event goes to the producer's own proximity, or to every region in which a consumer wants its subject (S14), and is
numbered and kept in the outbox of each (`recovery.py`). Beacons say which numbers there are.
"""

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Space
from roamcast.model.subject import subject_matches
from roamcast.model.values import BadValue, Point
from roamcast.node.boundary import Broadcast, Does, Note
from roamcast.protocols.adhoc.proximity.discovery import Discovery
from roamcast.protocols.adhoc.proximity.forwarding import covered, holds
from roamcast.protocols.adhoc.proximity.groups import DISCOVERY_GROUP
from roamcast.protocols.adhoc.proximity.messages import Announced, Missed, Wanted, Withdrawn
from roamcast.protocols.adhoc.proximity.ordering import Arrival
from roamcast.protocols.adhoc.proximity.params import ProximityParams
from roamcast.protocols.adhoc.proximity.recovery import Outbox, Outboxes
from roamcast.protocols.adhoc.proximity.relevant import Relevant


class Producing:
    def __init__(self, params: ProximityParams, discovery: Discovery, space: Space) -> None:
        self.params = params
        self.discovery = discovery
        self.space = space
        self.outboxes = Outboxes(params.cached_events_max, params.recovery_window_us, params.outboxes_max)
        self._round = 0

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

    def raise_(self, now_us: int, event: Event, here: Point | None) -> tuple[list[Does], Arrival | None]:
        """What raising an event takes, and the event for this host's own subscriptions."""
        announcement = self.discovery.announcement_for(event)
        if announcement is None or here is None:
            return [Note("not_announced" if here is not None else "no_position", event.subject)], None
        try:
            announcement.event_type.check(event.attributes)
        except BadValue:
            return [Note("type_mismatch", event.id)], None
        delivery = announcement.event_type.delivery
        if announcement.proximity is None:
            entries = self.discovery.wants_of(event.subject)
        else:
            entries = [self.discovery.relevant[announcement.id]]
        effects: list[Does] = []
        for entry in entries:
            forward = self._is_beyond(now_us, entry, here)
            outbox, closed = self.outboxes.open(announcement.id, entry.id)
            if closed is not None:
                effects.append(Note("outbox_dropped", closed))
            message = outbox.number(now_us, event, forward, delivery)
            if not (entry.local and entry.event_type is None):
                effects.append(Broadcast(message, entry.group, priority=delivery.priority))
        return effects, Arrival(event, delivery, event.published_us)

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
        """What this node raised itself and still lasts, the urgent first: it is there for subscriptions made later on
        the same host. With a pattern, what that matches."""
        arrivals: dict[str, Arrival] = {}
        for outbox in self.outboxes.by_key.values():
            if not outbox.kept or not self._is_wanted_here(outbox.kept[0].message.event.subject, pattern):
                continue
            for kept in outbox.alive(now_us):
                event = kept.message.event
                if not event.instantaneous:
                    arrivals[event.id] = Arrival(event, kept.message.delivery, kept.raised_us)
        return sorted(arrivals.values(), key=lambda arrival: -arrival.delivery.priority)

    def _is_wanted_here(self, subject: str, pattern: str | None) -> bool:
        if pattern is not None and not subject_matches(pattern, subject):
            return False
        return self.discovery.interests.wants(subject)
