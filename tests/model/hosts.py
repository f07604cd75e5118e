"""Hosts, filters and the five conditions in a few words, for the tests of matching."""

from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.filter.tree import (
    Attribute,
    Compare,
    Filter,
    Literal,
    Neighbours,
    Operator,
    Predicate,
)
from roamcast.model.match import (
    interest_and_relevance_overlap,
    lifetime_validity,
    publication_domain_matching,
    standard_matching,
    subscription_domain_matching,
)
from roamcast.model.scope import Scope
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point, Value, Velocity

PLANE = Plane()


def where(name: str, operator: Operator, value: Value) -> Predicate:
    return Compare(operator, Attribute(name), Literal(value))


def host(name: str, x: float = 0, y: float = 0, **attributes: Value) -> Context:
    return Context(name, Point(x, y), attributes=attributes)


def driving(name: str, x: float, east: float) -> Context:
    return Context(name, Point(x, 0), velocity=Velocity(east, 0))


def configuration_of(*hosts: Context, neighbour_range_m: float = 100.0) -> Configuration:
    return Configuration(PLANE, hosts, neighbour_range_m)


def conditions(event: Event, subscription: Subscription, configuration: Configuration, now_us: int) -> list[bool]:
    """(i) to (v), each asked alone."""
    return [
        standard_matching(event, subscription, configuration),
        lifetime_validity(event, subscription, now_us),
        interest_and_relevance_overlap(event, subscription, configuration),
        publication_domain_matching(event, subscription, configuration),
        subscription_domain_matching(event, subscription, configuration),
    ]


FASTER = Scope(filter=Filter(Compare(">", Attribute("speed"), Neighbours("avg", "speed"))))
"""The hosts that are faster than the hosts around them (C2)."""
