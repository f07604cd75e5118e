"""The definition of matching (C6): slow, short, and obviously right. Everything fast is tested against it."""

from collections.abc import Callable, Sequence
from enum import StrEnum

from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.filter.evaluate import accepts
from roamcast.model.filter.scene import Scene
from roamcast.model.region import Anchored, Region, anchored_contains, contains
from roamcast.model.scope import Scope
from roamcast.model.subject import subject_matches
from roamcast.model.subscription import Subscription


def matches(event: Event, subscription: Subscription, configuration: Configuration, now_us: int) -> bool:
    """Whether `event` is to be delivered to `subscription` when the configuration at `now_us` is as given.

    The five conditions of section 2.3. With scopes left open this is plain content-based matching (S4); with an
    audience whose region is anchored to the producer it is STEAM's location-dependent delivery (S5).
    """
    return failing(event, subscription, configuration, now_us) is None


class Condition(StrEnum):
    """The five conditions of section 2.3, in its order."""

    STANDARD = "standard matching"
    LIFETIME = "lifetime validity"
    OVERLAP = "overlap of interest and relevance"
    PUBLICATION_DOMAIN = "publication domain"
    SUBSCRIPTION_DOMAIN = "subscription domain"


def failing(event: Event, subscription: Subscription, configuration: Configuration, now_us: int) -> Condition | None:
    """The first condition that does not hold; None if the event is to be delivered."""
    if not standard_matching(event, subscription, configuration):
        return Condition.STANDARD
    if not lifetime_validity(event, subscription, now_us):
        return Condition.LIFETIME
    if not interest_and_relevance_overlap(event, subscription, configuration):
        return Condition.OVERLAP
    if not publication_domain_matching(event, subscription, configuration):
        return Condition.PUBLICATION_DOMAIN
    if not subscription_domain_matching(event, subscription, configuration):
        return Condition.SUBSCRIPTION_DOMAIN
    return None


def standard_matching(event: Event, subscription: Subscription, configuration: Configuration) -> bool:
    """(i) The subject is the subscription's and its filter accepts the content."""
    if not subject_matches(subscription.subject, event.subject):
        return False
    me = configuration.contexts.get(subscription.subscriber)
    neighbours = None if me is None else neighbours_of(me.host, configuration)
    scene = Scene(event.attributes.get, me, event.publisher, neighbours)
    return accepts(subscription.filter, scene, configuration.space, configuration.graph)


def lifetime_validity(event: Event, subscription: Subscription, now_us: int) -> bool:
    """(ii) Both are there already and neither has expired."""
    return (
        event.published_us <= now_us <= event.expires_us
        and subscription.issued_us <= now_us <= subscription.expires_us
    )


def interest_and_relevance_overlap(event: Event, subscription: Subscription, configuration: Configuration) -> bool:
    """(iii) Some host is in the context of relevance and in the context of interest."""
    return any(
        includes(event.relevance, host, configuration) and includes(subscription.interest, host, configuration)
        for host in configuration.contexts
    )


def publication_domain_matching(event: Event, subscription: Subscription, configuration: Configuration) -> bool:
    """(iv) The publisher is in the publication domain."""
    return includes(subscription.publishers, event.publisher.host, configuration, configuration.domain_hops)


def subscription_domain_matching(event: Event, subscription: Subscription, configuration: Configuration) -> bool:
    """(v) The subscriber is in the subscription domain."""
    return includes(event.audience, subscription.subscriber, configuration, configuration.domain_hops)


def includes(scope: Scope, host: str, configuration: Configuration, hops: int = 1) -> bool:
    """Whether a host is in the context that a scope specifies; an absent host only in the open one. `hops` says how
    far its neighbours reach."""
    if scope.region is None and scope.filter is None:
        return True
    context = configuration.contexts.get(host)
    if context is None:
        return False
    if scope.region is not None and not inside(scope.region, context, configuration):
        return False
    if scope.filter is None:
        return True
    scene = Scene(context.value, context, None, neighbours_of(host, configuration, hops))
    return accepts(scope.filter, scene, configuration.space, configuration.graph)


def neighbours_of(host: str, configuration: Configuration, hops: int = 1) -> Callable[[], Sequence[Context]] | None:
    """A way to find them; None where nobody knows them."""
    if configuration.neighbour_range_m is None:
        return None
    return lambda: configuration.group(host, hops)


def inside(region: Region, context: Context, configuration: Configuration) -> bool:
    if context.position is None:
        return False
    if isinstance(region, Anchored):
        anchor = configuration.contexts.get(region.host)
        if anchor is None or anchor.position is None:
            return False
        return anchored_contains(region, anchor.position, context.position, configuration.space)
    return contains(region, context.position, configuration.space)
