"""Domains (C5, C9): condition (iv) at the publisher, condition (v) at the subscriber, and delivery.

What the neighbour table can tell is judged at once. Relational properties over attributes that frames do not carry,
or over hosts beyond one hop, are judged when the answers to a query have come.

A delivered pair of event and subscription is remembered until the event has ended and what may still be on its way
has arrived, so it is delivered once however long it lives. Past `handled_pairs_max` living pairs the one that ends
soonest is forgotten, and noted.
"""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from msgspec import Struct

from roamcast.adhoc.context.issued import IssuedTables
from roamcast.adhoc.context.matching import Around, asked_of_neighbours, content_matches, included, inside
from roamcast.adhoc.context.messages import Reach
from roamcast.adhoc.context.params import ContextParams
from roamcast.adhoc.context.query import QueryService
from roamcast.adhoc.context.surroundings import Surroundings
from roamcast.adhoc.until import Until
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.scope import Scope
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point
from roamcast.node.boundary import Deliver, Does, Note


class ToSubscriber(Struct, frozen=True):
    """A matched event at its subscriber, by the subscriber's clock: (v) is to be tested."""

    event: Event
    subscription_id: str
    publisher: Context
    published_us: int


class ToPublisher(Struct, frozen=True):
    """A matching request at its publisher, by the publisher's clock: (iv) is to be tested."""

    event_id: str
    publishers: Scope
    subscription_id: str
    reach: Reach


Matter: TypeAlias = ToSubscriber | ToPublisher
Approved: TypeAlias = Callable[[int, ToSubscriber, Reach], list[Does]]
"""What to do with an event whose publisher is in the domain: send it to where the subscriber can be reached."""


class Domains:
    def __init__(
        self, params: ContextParams, rng: Random, around: Surroundings, issued: IssuedTables, approved: Approved
    ) -> None:
        self.params = params
        self.around = around
        self.issued = issued
        self.approved = approved
        self.delivered = Until(params.handled_pairs_max)
        self._silent_us = round(params.silent_s * 1e6)
        self._in_flight_us = round(params.in_flight_s * 1e6)
        self.queries: QueryService[Matter] = QueryService(
            around.host,
            rng,
            params.query_hops,
            round(params.query_ms * 1_000),
            params.queries_max,
            params.query_ways_max,
            params.neighbours_max,
        )

    def at_publisher(self, now_us: int, request: ToPublisher) -> list[Does]:
        row = self.issued.events.get(request.event_id)
        if row is None or not (row.instantaneous or now_us <= row.expires_us):
            return []
        return self._in_domain(now_us, request, request.publishers, request.reach.issuer)

    def at_subscriber(self, now_us: int, matched: ToSubscriber) -> list[Does]:
        if not self._wanted(now_us, matched):
            return []
        return self._in_domain(now_us, matched, matched.event.audience, matched.publisher)

    def _wanted(self, now_us: int, matched: ToSubscriber) -> bool:
        """(i) and (ii) as the subscriber knows them, and not delivered before."""
        row = self.issued.subscriptions.get(matched.subscription_id)
        event = matched.event
        if row is None or f"{event.id}/{matched.subscription_id}" in self.delivered:
            return False
        lifetime_us = event.expires_us - event.published_us
        moment_us = matched.published_us if lifetime_us == 0 else now_us
        if not (row.instantaneous or row.issued_us <= moment_us <= row.expires_us):
            return False
        if now_us > matched.published_us + (lifetime_us or self._silent_us):
            return False
        assert isinstance(row.issue, Subscription)
        return content_matches(
            event,
            row.issue,
            self.around.me(now_us),
            self.around.around(now_us),
            self.around.space,
            self.around.graph,
        )

    def _in_domain(self, now_us: int, matter: Matter, domain: Scope, other: Context) -> list[Does]:
        """Judges at once what the neighbour table can tell, and asks around for the rest."""
        names = asked_of_neighbours(domain.filter)
        unknown = names is not None and (
            self.params.query_hops > 1 or any(name not in self.params.key_attributes for name in names)
        )
        here = self.around.here(now_us)
        if names is None or not unknown or here is None:
            return self.judge(now_us, matter, None)
        if domain.region is not None and not inside(
            domain.region,
            self.around.me(now_us),
            lambda host: self.around.where(now_us, host, other),
            self.around.space,
        ):
            return []
        return self.queries.ask(now_us, names, matter, here)

    def judge(self, now_us: int, matter: Matter, answers: list[Context] | None) -> list[Does]:
        """(iv) at the publisher or (v) at the subscriber, by the neighbour table or by the answers to a query."""
        around: Around = self.around.around(now_us) if answers is None else lambda: answers or []
        me = self.around.me(now_us)
        match matter:
            case ToPublisher(event_id, publishers, subscription_id, reach):
                row = self.issued.events.get(event_id)
                if row is None or not isinstance(row.issue, Event):
                    return []
                publisher = row.issue.publisher
                if publisher.host == me.host:
                    publisher = me
                else:
                    # A gateway answers for a publisher that is elsewhere, by what the event tells of it (L9).
                    publisher, around = publisher.at(now_us, self.around.space), list
                if not self._included(now_us, publishers, publisher, around, reach.issuer):
                    return []
                matched = ToSubscriber(row.issue, subscription_id, publisher, row.issued_us)
                return self.approved(now_us, matched, reach)
            case ToSubscriber(event, subscription_id, publisher):
                if not self._included(now_us, event.audience, me, around, publisher):
                    return []
                if not self._wanted(now_us, matter):
                    return []
                return [*self._remember(now_us, matter), Deliver(event, subscription_id)]

    def _remember(self, now_us: int, matched: ToSubscriber) -> list[Does]:
        """Copies reckon the end of an event a little differently, by what each hop took: hence the time of flight."""
        event = matched.event
        lasts_us = event.expires_us - event.published_us or self._silent_us
        ends_us = matched.published_us + lasts_us + self._in_flight_us
        forgotten = self.delivered.add(now_us, f"{event.id}/{matched.subscription_id}", ends_us)
        return [] if forgotten is None else [Note("delivered_forgotten", forgotten)]

    def _included(self, now_us: int, scope: Scope, me: Context, around: Around, other: Context) -> bool:
        def where(host: str) -> Point | None:
            return self.around.where(now_us, host, other)

        return included(scope, me, around, where, self.around.space, self.around.graph)
