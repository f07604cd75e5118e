"""What a stranger's frame says must be possible before anything is reckoned with it (C7, C8).

A message that decodes has finite numbers, and that is all. Here its places must lie in the space, its regions must be
of a size that distances can be reckoned with, and its ages and counts must not be negative or endless: an age below 0
would let an event outlive its expiry. The route is looked at by everybody who may pass a message on; what it carries
by those who would use it.
"""

from functools import cache
from typing import TypeGuard

from roamcast.adhoc.context.messages import (
    Answer,
    EventItem,
    MatchedEvent,
    MatchingRequest,
    Reach,
    Renewal,
    SubscriptionItem,
)
from roamcast.adhoc.neighbours import Here
from roamcast.adhoc.routes import Route, Routed
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.region import Anchored, Box, Circle, Region, Shape, points_of
from roamcast.model.scope import Scope
from roamcast.model.space import Plane, Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point, Value
from roamcast.node.boundary import Message

REACH_MAX_M = 1e9
"""How far from the origin of a plane places lie, and how large circles are: beyond the Moon."""
COUNT_MAX = 1_000_000
"""Of hops and attempts."""
LONGITUDE_MAX = 540.0
"""A polygon that crosses the date line goes on beyond 180."""


class Checks:
    """Of one space; each answers whether what it is given is possible.

    In a simulation all who hear a frame are given the same value, one after the other, and ask the same: the last
    place, message and item that were found possible are known by identity.
    """

    def __init__(self, space: Space) -> None:
        self._possible_here: Here | None = None
        self._possible_message: Message | None = None
        self._possible_item: EventItem | SubscriptionItem | None = None
        flat = isinstance(space, Plane)
        self.flat = flat
        self._x_max, self._y_max = (REACH_MAX_M, REACH_MAX_M) if flat else (180.0, 90.0)

    def here(self, here: Here) -> bool:
        if here is self._possible_here:
            return True
        possible = self._here(here)
        if possible:
            self._possible_here = here
        return possible

    def _here(self, here: Here) -> bool:
        previous = here.previous
        if not self.place(here.position) or (previous is not None and not self.place(previous)):
            return False
        return not here.attributes or self._values(here.attributes)

    def place(self, point: Point) -> bool:
        return -self._x_max <= point.x <= self._x_max and -self._y_max <= point.y <= self._y_max

    def routed(self, message: Message) -> TypeGuard[Routed]:
        """Whether it travels by geocast, on a route that is possible."""
        if message is self._possible_message:
            return True
        possible = isinstance(message, Routed) and self.route(message.route)
        if possible:
            self._possible_message = message
        return possible

    def route(self, route: Route) -> bool:
        return (
            0 <= route.age_us <= FOREVER_US
            and 0 <= route.hops <= COUNT_MAX
            and 0 <= route.attempt <= COUNT_MAX
            and self.shape(route.target)
            and self._recovery(route)
        )

    def _recovery(self, route: Route) -> bool:
        walk, escape_m = route.walk, route.escape_m
        return (escape_m is None or 0 <= escape_m <= REACH_MAX_M) and (
            walk is None or (self._perhaps(walk.start) and self._perhaps(walk.entered))
        )

    def shape(self, shape: Shape) -> bool:
        if type(shape) is Box:
            low, high = shape.low, shape.high
            if low.x > high.x:
                # Across the date line, which a plane does not have.
                return not self.flat and self.place(low) and self.place(high)
            x_max, y_max = self._x_max, self._y_max
            return -x_max <= low.x and high.x <= x_max and -y_max <= low.y and high.y <= y_max
        if type(shape) is Circle:
            return shape.radius_m <= REACH_MAX_M and self.place(shape.centre)
        x_max = self._x_max if self.flat else LONGITUDE_MAX
        return all(abs(corner.x) <= x_max and abs(corner.y) <= self._y_max for corner in points_of(shape))

    def item(self, item: EventItem | SubscriptionItem) -> bool:
        if item is self._possible_item:
            return True
        possible = self._item(item)
        if possible:
            self._possible_item = item
        return possible

    def _item(self, item: EventItem | SubscriptionItem) -> bool:
        issue = self._event(item.event) if isinstance(item, EventItem) else self._subscription(item.subscription)
        return issue and 0 <= item.age_us <= FOREVER_US and self.shape(item.region) and self._reach(item.reach)

    def renewal(self, renewal: Renewal) -> bool:
        return 0 <= renewal.age_us <= FOREVER_US and self.shape(renewal.region) and self._reach(renewal.reach)

    def matched(self, matched: MatchedEvent) -> bool:
        return 0 <= matched.age_us <= FOREVER_US and self._event(matched.event) and self._context(matched.publisher)

    def request(self, request: MatchingRequest) -> bool:
        return self._scope(request.publishers) and self._reach(request.reach)

    def answer(self, answer: Answer) -> bool:
        return self._context(answer.context)

    def _perhaps(self, point: Point | None) -> bool:
        return point is None or self.place(point)

    def _reach(self, reach: Reach) -> bool:
        return (
            0 <= reach.age_us <= FOREVER_US
            and 0 <= reach.version <= FOREVER_US
            and self.shape(reach.region)
            and self._context(reach.issuer)
        )

    def _event(self, event: Event) -> bool:
        return (
            is_time(event.published_us)
            and is_time(event.expires_us)
            and self._context(event.publisher)
            and self._values(event.attributes)
            and self._scope(event.relevance)
            and self._scope(event.audience)
        )

    def _subscription(self, subscription: Subscription) -> bool:
        return (
            is_time(subscription.issued_us)
            and is_time(subscription.expires_us)
            and self._scope(subscription.interest)
            and self._scope(subscription.publishers)
        )

    def _context(self, context: Context) -> bool:
        return (
            self._perhaps(context.position)
            and self._perhaps(context.destination)
            and is_time(context.at_us)
            and self._values(context.attributes)
        )

    def _scope(self, scope: Scope) -> bool:
        return scope.region is None or self._region(scope.region)

    def _region(self, region: Region) -> bool:
        if not isinstance(region, Anchored):
            return self.shape(region)
        # In metres around its host, and no farther than `Anchored` allows; only circles have a size of their own.
        return not isinstance(region.shape, Circle) or region.shape.radius_m <= REACH_MAX_M

    def _values(self, values: dict[str, Value]) -> bool:
        return all(not isinstance(value, Point) or self.place(value) for value in values.values())


@cache
def checks_of(space: Space) -> Checks:
    """One for all nodes of a space: what one has looked at need not be looked at again by the next."""
    return Checks(space)


def is_time(at_us: int) -> bool:
    return -FOREVER_US <= at_us <= FOREVER_US
