"""The conditions of C6 that a host can check alone when an event reaches it: four of the five.

It does not check condition (iii), the overlap of relevance and interest among third hosts, since it cannot know it.
Condition (iv) is checked against the publisher's context that the event carries.
"""

from collections.abc import Iterable

from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.filter.tree import over_neighbours
from roamcast.model.match import (
    lifetime_validity,
    publication_domain_matching,
    standard_matching,
    subscription_domain_matching,
)
from roamcast.model.places import MovementGraph
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import Does, Note


def wanted_here(
    event: Event,
    subscriptions: Iterable[Subscription],
    me: Context,
    now_us: int,
    space: Space,
    graph: MovementGraph | None,
) -> list[Subscription]:
    """Those of this host's subscriptions that the event is to be delivered to, as far as the host can tell."""
    # An instantaneous event holds at the moment of its publication, however long it was on its way.
    moment_us = event.published_us if event.instantaneous else now_us
    here, publisher = me.at(now_us, space), event.publisher.at(now_us, space)
    # Nobody's neighbours are known here: what a filter asks of them is unknown.
    known = Configuration(space, {publisher.host: publisher, here.host: here}, None, graph)
    return [
        subscription
        for subscription in subscriptions
        if lifetime_validity(event, subscription, moment_us)
        and standard_matching(event, subscription, known)
        and publication_domain_matching(event, subscription, known)
        and subscription_domain_matching(event, subscription, known)
    ]


def asks_the_unknown(subscription: Subscription) -> list[Does]:
    """A note where nobody tells of neighbours: what a filter asks of them would be unknown for ever."""
    filters = (subscription.filter, subscription.publishers.filter)
    asks = any(each is not None and over_neighbours(each) for each in filters)
    return [Note("neighbours_unknown", subscription.id)] if asks else []
