"""The filter engine of the event service nucleus (section 4.1): what of an arrival goes to which subscription.

All of `model.match` that one host can judge: content, lifetimes, the publisher by the context that its event carries,
and this host's own place in the audience at the moment of delivery. No subscription gets an event twice while the
event lasts. Deadline and validity (S14) count from the publication by this host's own clock.
"""

from heapq import heappop, heappush

from msgspec.structs import replace

from roamcast.adhoc.proximity.interests import Interests
from roamcast.adhoc.proximity.ordering import Arrival
from roamcast.adhoc.proximity.recovery import of_use_us
from roamcast.model.context import Configuration, Context
from roamcast.model.filter import EVERYTHING
from roamcast.model.match import includes, publication_domain_matching, standard_matching
from roamcast.model.places import MovementGraph
from roamcast.model.scope import EVERYWHERE
from roamcast.model.space import Space
from roamcast.node.boundary import Deliver, Does, Note
from roamcast.node.recent import Recent


class Delivered:
    """Which subscription got which event, until the event has ended: what ends first is forgotten first."""

    __slots__ = ("_ends", "pairs", "pairs_max")

    def __init__(self, pairs_max: int) -> None:
        self.pairs_max = pairs_max
        self.pairs: dict[tuple[str, str], None] = {}
        self._ends: list[tuple[int, tuple[str, str]]] = []
        """A heap of when their events end."""

    def add(self, event_id: str, subscription_id: str, ends_us: int) -> bool:
        """Remembers a pair; False when it was known already."""
        pair = (event_id, subscription_id)
        if pair in self.pairs:
            return False
        self.pairs[pair] = None
        heappush(self._ends, (ends_us, pair))
        return True

    def forget(self, now_us: int) -> list[Does]:
        """Keeps to the bound; that an event is forgotten which has not ended is worth a note."""
        effects: list[Does] = []
        while len(self.pairs) > self.pairs_max:
            ends_us, pair = heappop(self._ends)
            del self.pairs[pair]
            if ends_us >= now_us:
                effects.append(Note("delivered_forgotten", pair[0]))
        return effects


class Delivering:
    def __init__(
        self,
        interests: Interests,
        space: Space,
        seen_ids_max: int,
        graph: MovementGraph | None = None,
        window_us: int = 0,
    ) -> None:
        self.interests = interests
        self.space = space
        self.graph = graph
        self.window_us = window_us
        """For how long an instantaneous event may be replayed."""
        self.delivered = Delivered(seen_ids_max)
        self.late = Recent(seen_ids_max)
        """Events that were noted to be too late."""

    def deliver(self, now_us: int, me: Context, arrivals: list[Arrival]) -> list[Does]:
        effects: list[Does] = []
        for arrival in arrivals:
            effects += self._deliver(now_us, me, arrival)
        if len(self.delivered.pairs) > self.delivered.pairs_max:
            effects += self.delivered.forget(now_us)
        return effects

    def _deliver(self, now_us: int, me: Context, arrival: Arrival) -> list[Does]:
        event = arrival.event
        candidates = self.interests.of(event.subject)
        if not candidates:
            return []
        age_us = now_us - arrival.published_us
        use_us = of_use_us(event, arrival.delivery)
        deadline_us = arrival.delivery.deadline_us
        lateness = None if use_us is deadline_us is None else why_too_late(deadline_us, use_us, age_us)
        if lateness is not None:
            return [Note(lateness, event.id)] if self.late.add(event.id) else []
        known: Configuration | None = None
        if arrival.inside_us != now_us:
            known = self._known(now_us, me, arrival)
            if not includes(event.audience, me.host, known):
                return []
        moment_us = arrival.published_us if event.instantaneous else now_us
        lasts_us = self.window_us if use_us is None or use_us < self.window_us else use_us
        effects: list[Does] = []
        for subscription in candidates:
            if not subscription.issued_us <= moment_us <= subscription.expires_us:
                continue
            # Its subject is right: that is how it was found.
            if subscription.filter is not EVERYTHING or subscription.publishers is not EVERYWHERE:
                known = known or self._known(now_us, me, arrival)
                if not standard_matching(event, subscription, known):
                    continue
                if not publication_domain_matching(event, subscription, known):
                    continue
            if self._is_new(arrival, subscription.id, arrival.published_us + lasts_us):
                effects.append(Deliver(event, subscription.id))
        return effects

    def _known(self, now_us: int, me: Context, arrival: Arrival) -> Configuration:
        """This host and the publisher, as they are now. Who else is around is not known here: what a filter asks of
        neighbours is unknown."""
        publisher = arrival.event.publisher
        # Carried on for the event's age, which needs no agreement between two clocks.
        publisher = publisher.at(publisher.at_us + now_us - arrival.published_us, self.space)
        if arrival.seen is not None:
            publisher = replace(publisher, position=arrival.seen.position_at(now_us, self.space))
        contexts = {publisher.host: publisher, me.host: me.at(now_us, self.space)}
        return Configuration(self.space, contexts, None, self.graph)

    def _is_new(self, arrival: Arrival, subscription_id: str, ends_us: int) -> bool:
        """Whether a subscription has not got an event yet nor, where order was promised, one that follows it."""
        if arrival.reached is not None:
            if arrival.sequence <= arrival.reached.get(subscription_id, 0):
                return False
            arrival.reached[subscription_id] = arrival.sequence
        return self.delivered.add(arrival.event.id, subscription_id, ends_us)


def why_too_late(deadline_us: int | None, use_us: int | None, age_us: int) -> str | None:
    if deadline_us is not None and age_us > deadline_us:
        return "deadline_missed"
    return "event_expired" if use_us is not None and age_us > use_us else None
