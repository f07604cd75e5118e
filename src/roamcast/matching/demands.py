"""Splits a subscription into conditions that columns can decide and a rest for the model.

A filter that is a conjunction accepts an event if every part of it is true, so its parts can be asked one by one and
in any order. One part, the one with the smallest reach, becomes the subscription's *place*: a circle that a position
of the event must be in (`near(position, 200)`, which moves with the subscriber, or a fixed circle, box or polygon).
Without any, the place is that of its interest, asked by the event's relevance, or else where the subscriber itself
is, asked by the event's audience. Comparisons with literals become *clauses* (`model/filter/clauses.py`). A place
that is only a circle around the true shape stays among the rest as well.
"""

from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from roamcast.matching.metric import Around, around_shape, is_flat, loosened, reach_of
from roamcast.model.filter.clauses import Clause, clauses_of
from roamcast.model.filter.normal import folded
from roamcast.model.filter.tree import (
    TRUE,
    And,
    Attribute,
    Constant,
    Filter,
    Inside,
    Near,
    Predicate,
    Publishers,
    conjunction,
)
from roamcast.model.region import Anchored, Circle, Region
from roamcast.model.space import Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point


class Audience(Struct, frozen=True):
    """The region of the event's audience: the place to ask with is where the subscriber is."""


class Relevance(Struct, frozen=True):
    """The region of the event's relevance, to be shared with that of the subscription's interest."""


Locator: TypeAlias = Attribute | Publishers | Audience | Relevance
"""What an event asks a group of subscriptions with."""

AUDIENCE, RELEVANCE = Audience(), Relevance()


class Place(Struct, frozen=True):
    locator: Locator
    centre: Point | None
    """None: where the subscriber is."""
    reach_m: float
    """In straight metres (`metric.py`)."""
    radius_m: float = 0.0
    """As the model counts, of a circle that moves."""


class Demand(Struct, frozen=True):
    place: Place
    clauses: tuple[Clause, ...]
    rest: Filter
    never: bool = False
    """Nothing can satisfy it."""


WHERE_THE_SUBSCRIBER_IS = Place(AUDIENCE, None, 0.0)


def demand_of(subscription: Subscription, space: Space) -> Demand:
    demand = demand_of_filter(subscription.filter, space)
    if demand.place is not WHERE_THE_SUBSCRIBER_IS:
        return demand
    return replace(demand, place=interest_of(subscription, space) or WHERE_THE_SUBSCRIBER_IS)


@lru_cache(maxsize=4_096)
def demand_of_filter(filter_: Filter, space: Space) -> Demand:
    root = folded(filter_.root)
    parts = list(root.parts) if isinstance(root, And) else [root]
    if any(isinstance(part, Constant) and part.value is not True for part in parts):
        return Demand(WHERE_THE_SUBSCRIBER_IS, (), filter_, never=True)
    places = [(place, number) for number, part in enumerate(parts) if (place := place_of(part, space)) is not None]
    chosen, number = min(places, key=lambda each: each[0].reach_m, default=(None, -1))
    clauses: list[Clause] = []
    rest: list[Predicate] = []
    for index, part in enumerate(parts):
        found = clauses_of(part)
        if found is not None:
            clauses += found
        elif part != TRUE and not (index == number and decides(part, space)):
            rest.append(part)
    return Demand(chosen or WHERE_THE_SUBSCRIBER_IS, tuple(clauses), Filter(conjunction(rest)))


def place_of(part: Predicate, space: Space) -> Place | None:
    match part:
        case Near(Attribute() | Publishers() as term, metres):
            return Place(term, None, reach_of(metres, space), metres)
        case Inside(Attribute() | Publishers() as term, shape):
            return placed_at(term, around_shape(shape, space), decides(part, space))
        case _:
            return None


def decides(part: Predicate, space: Space) -> bool:
    """Whether the circle is all that the part says; on Earth only where the centre is known to the last bit."""
    match part:
        case Near(Attribute() | Publishers()):
            return True
        case Inside(_, Circle(), boundary=True):
            return is_flat(space)
        case _:
            return False


def placed_at(locator: Locator, circle: Around | None, decided: bool) -> Place | None:
    if circle is None:
        return None
    reach_m = circle.reach_m if decided else loosened(circle.reach_m)
    return Place(locator, circle.centre, reach_m)


def interest_of(subscription: Subscription, space: Space) -> Place | None:
    region: Region | None = subscription.interest.region
    match region:
        case None:
            return None
        case Anchored(Circle(centre, radius_m), host, reference):
            if host != subscription.subscriber or centre != reference:
                return None
            return Place(RELEVANCE, None, loosened(reach_of(radius_m, space)), radius_m)
        case Anchored():
            return None
        case _:
            return placed_at(RELEVANCE, around_shape(region, space), decided=False)
