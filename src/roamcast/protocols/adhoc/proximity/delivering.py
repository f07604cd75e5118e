"""The filter engine of the event service nucleus (section 4.1): what of an arrival goes to which subscription.

All of `model.match` that one host can judge: content, lifetimes, the publisher by the context that its event carries,
and this host's own place in the audience at the moment of delivery. Deadline and validity (S14) count from the
publication by this host's own clock.
"""

from msgspec.structs import replace

from roamcast.model.context import Configuration, Context
from roamcast.model.event import Delivery, Event
from roamcast.model.match import includes, publication_domain_matching, standard_matching
from roamcast.model.places import MovementGraph
from roamcast.model.space import Space
from roamcast.node.boundary import Deliver, Does, Note
from roamcast.protocols.adhoc.proximity.interests import Interests
from roamcast.protocols.adhoc.proximity.ordering import Arrival
from roamcast.protocols.adhoc.proximity.recovery import of_use_us
from roamcast.protocols.recent import Recent


class Delivering:
    def __init__(
        self, interests: Interests, space: Space, seen_ids_max: int, graph: MovementGraph | None = None
    ) -> None:
        self.interests = interests
        self.space = space
        self.graph = graph
        self.seen = Recent(seen_ids_max)
        """Pairs of an event and a subscription that got it."""

    def deliver(self, now_us: int, me: Context, arrivals: list[Arrival]) -> list[Does]:
        return [effect for arrival in arrivals for effect in self._deliver(now_us, me, arrival)]

    def _deliver(self, now_us: int, me: Context, arrival: Arrival) -> list[Does]:
        event = arrival.event
        candidates = self.interests.of(event.subject)
        if not candidates:
            return []
        age_us = now_us - arrival.published_us
        lateness = why_too_late(event, arrival.delivery, age_us)
        if lateness is not None:
            return [Note(lateness, event.id)]
        me_now = me.at(now_us, self.space)
        # Carried on for the event's age, which needs no agreement between two clocks.
        publisher = event.publisher.at(event.publisher.at_us + age_us, self.space)
        if arrival.seen is not None:
            publisher = replace(publisher, position=arrival.seen.position_at(now_us, self.space))
        # Who else is around is not known here: what a filter asks of neighbours is unknown.
        known = Configuration(self.space, {publisher.host: publisher, me.host: me_now}, None, self.graph)
        if not includes(event.audience, me.host, known):
            return []
        moment_us = arrival.published_us if event.instantaneous else now_us
        return [
            Deliver(event, subscription.id)
            for subscription in candidates
            if subscription.issued_us <= moment_us <= subscription.expires_us
            and standard_matching(event, subscription, known)
            and publication_domain_matching(event, subscription, known)
            and self.seen.add(f"{event.id}>{subscription.id}")
        ]


def why_too_late(event: Event, delivery: Delivery, age_us: int) -> str | None:
    if delivery.deadline_us is not None and age_us > delivery.deadline_us:
        return "deadline_missed"
    use_us = of_use_us(event, delivery)
    return "event_expired" if use_us is not None and age_us > use_us else None
