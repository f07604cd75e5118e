"""Conditions (i) to (v) as one host can judge them: by itself, its neighbour table, and what messages carry (C6, C9).

A full `Configuration` is nobody's to know. A host in the matching area tests (i) to (iii), the publisher (iv), the
subscriber (v) and once more (i), since only it knows its own state when the filter asks for it (`me.budget`).
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from roamcast.adhoc.context.held import HeldEvent, HeldSubscription
from roamcast.model.context import RESERVED_NAMES, Context
from roamcast.model.event import Event
from roamcast.model.filter.bound import is_bound
from roamcast.model.filter.evaluate import accepts
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import Filter, over_neighbours
from roamcast.model.places import MovementGraph
from roamcast.model.region import Anchored, Region, anchored_contains, contains
from roamcast.model.scope import Scope
from roamcast.model.space import Space
from roamcast.model.subject import subject_matches
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point

Around: TypeAlias = Callable[[], Sequence[Context]]
Whereabouts: TypeAlias = Callable[[str], Point | None]
"""Where a host is now, as far as the one who asks knows."""


def content_may_match(event: Event, subscription: Subscription, space: Space) -> bool:
    """(i) as a third host can judge it: what the filter asks of the subscriber itself is left to the subscriber."""
    if not subject_matches(subscription.subject, event.subject):
        return False
    if not is_bound(subscription.filter):
        return True
    return accepts(subscription.filter, Scene(event.attributes.get, None, event.publisher), space)


def content_matches(
    event: Event,
    subscription: Subscription,
    me: Context,
    around: Around,
    space: Space,
    graph: MovementGraph | None = None,
) -> bool:
    """(i) as the subscriber judges it."""
    if not subject_matches(subscription.subject, event.subject):
        return False
    return accepts(subscription.filter, Scene(event.attributes.get, me, event.publisher, around), space, graph)


def coexist(event: HeldEvent, subscription: HeldSubscription, now_us: int) -> bool:
    """(ii) Each was issued while the other lived, and what is persistent lives still.

    What is instantaneous lives at its own moment only and is judged by that, however long it was on its way.
    """
    start_us = max(event.issued_us, subscription.issued_us)
    end_us = min(event.expires_us, subscription.expires_us)
    return start_us <= end_us and event.lives(now_us) and subscription.lives(now_us)


def included(
    scope: Scope,
    me: Context,
    around: Around,
    where: Whereabouts,
    space: Space,
    graph: MovementGraph | None = None,
) -> bool:
    """Whether this host is in the context that a scope specifies; `model.match.includes` from one host's view."""
    if scope.region is not None and not inside(scope.region, me, where, space):
        return False
    if scope.filter is None:
        return True
    return accepts(scope.filter, Scene(me.value, me, None, around), space, graph)


def inside(region: Region, me: Context, where: Whereabouts, space: Space) -> bool:
    if me.position is None:
        return False
    if isinstance(region, Anchored):
        naval = where(region.host)
        return naval is not None and anchored_contains(region, naval, me.position, space)
    return contains(region, me.position, space)


def asked_of_neighbours(filter_: Filter | None) -> tuple[str, ...] | None:
    """The attributes that a filter reads of neighbours, in order; None if it does not look at them. Who they are and
    where is in every frame."""
    if filter_ is None:
        return None
    found = over_neighbours(filter_)
    if not found:
        return None
    return tuple(dict.fromkeys(name for term in found for name in term.names if name not in RESERVED_NAMES))
