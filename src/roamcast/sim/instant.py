"""K(t) of a simulated world at the instant t: every host's context, each made when somebody asks for it.

Most questions concern a few hosts near each other, and a world may have thousands. So a context is made when it is
first asked for, and the members of a scope with a region are looked for among the hosts that are there, not among
all. What is answered is exactly what `model.match` says of the whole configuration; a test holds the two against each
other. An instant is good for its own time only: the world moves on, and with it where everybody is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.match import (
    includes,
    lifetime_validity,
    publication_domain_matching,
    standard_matching,
    subscription_domain_matching,
)
from roamcast.model.places import MovementGraph
from roamcast.model.region import Anchored, Box, Region, Shape, bounds, placed, widened
from roamcast.model.scope import Scope
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point
from roamcast.sim.hosts import Body
from roamcast.sim.whereabouts import Whereabouts

PLANE = Plane()

ROUNDING_M = 0.001
"""By so much more is looked around a region: its exact borders are tested afterwards."""


class Contexts(Mapping[str, Context]):
    """The contexts of all hosts that are up, by true time."""

    def __init__(self, bodies: Sequence[Body], by_name: Mapping[str, Body], now_us: int) -> None:
        self.bodies = bodies
        self.by_name = by_name
        self.now_us = now_us
        self.made: dict[str, Context] = {}

    def __getitem__(self, host: str) -> Context:
        known = self.made.get(host)
        if known is None:
            body = self.by_name[host]
            if not body.up:
                raise KeyError(host)
            known = self.made[host] = body.resident.track.context_at(self.now_us, host, body.attributes)
        return known

    def __iter__(self) -> Iterator[str]:
        return (body.resident.host for body in self.bodies if body.up)

    def __len__(self) -> int:
        return sum(body.up for body in self.bodies)


class Instant(Configuration):
    def __init__(
        self,
        bodies: Sequence[Body],
        by_name: Mapping[str, Body],
        whereabouts: Whereabouts,
        now_us: int,
        neighbour_range_m: float,
        graph: MovementGraph | None,
        domain_hops: int = 1,
    ) -> None:
        super().__init__(PLANE, Contexts(bodies, by_name, now_us), neighbour_range_m, graph, domain_hops)
        self.bodies = bodies
        self.by_name = by_name
        self.whereabouts = whereabouts
        self.now_us = now_us
        self._members: dict[Scope, list[str]] = {}

    def neighbours(self, host: str) -> list[Context]:
        """As the definition says, looked for among those whom the radio reaches."""
        here, range_m = self.contexts[host].position, self.neighbour_range_m
        if here is None or range_m is None:
            return []
        reached = self.whereabouts.in_range(self.by_name[host].index, self.now_us)
        around = [self.contexts[name] for name in self._up(reached)]
        return [each for each in around if each.position is not None and PLANE.within(here, each.position, range_m)]

    def matches(self, event: Event, subscription: Subscription, now_us: int) -> bool:
        """The five conditions of C6, the cheap ones first: where nobody is, nobody needs to be asked what he is."""
        return (
            lifetime_validity(event, subscription, now_us)
            and self._is_anybody_in_both(event.relevance.region, subscription.interest.region)
            and publication_domain_matching(event, subscription, self)
            and subscription_domain_matching(event, subscription, self)
            and self.share_a_host(event.relevance, subscription.interest)
            and standard_matching(event, subscription, self)
        )

    def _is_anybody_in_both(self, one: Region | None, other: Region | None) -> bool:
        """Whether somebody may be in two fixed regions; errs on the side of yes."""
        if one is None or other is None or isinstance(one, Anchored) or isinstance(other, Anchored):
            return True
        overlap = overlap_of(one, other)
        return overlap is not None and bool(self.whereabouts.within(overlap, self.now_us))

    def nobody_until(self, one: Scope, other: Scope) -> int:
        """A time before which nobody can be in both scopes; now, if it cannot be said."""
        if one.region is None or other.region is None:
            return self.now_us
        if isinstance(one.region, Anchored) or isinstance(other.region, Anchored):
            return self.now_us
        overlap = overlap_of(one.region, other.region)
        return self.now_us if overlap is None else self.whereabouts.nobody_until(overlap, self.now_us)

    def share_a_host(self, one: Scope, other: Scope) -> bool:
        """Whether some host is in both. With a region in either, only those inside it are looked at; with none, the
        first host that fits both ends the search."""
        if one.region is None:
            one, other = other, one
        return any(includes(other, host, self) for host in self.members(one))

    def members(self, scope: Scope) -> Iterable[str]:
        if scope.region is None:
            return (host for host in self.contexts if includes(scope, host, self))
        known = self._members.get(scope)
        if known is None:
            known = [host for host in self._near(scope.region) if includes(scope, host, self)]
            self._members[scope] = known
        return known

    def _near(self, region: Region) -> Iterator[str]:
        """Everybody who is inside, and perhaps some who are just outside."""
        if isinstance(region, Anchored):
            anchor = self.contexts.get(region.host)
            if anchor is None or anchor.position is None:
                return iter(())
            shape = placed(region.shape, anchor.position, PLANE, region.reference)
        else:
            shape = region
        around = bounds(shape, PLANE)
        return self._up(self.whereabouts.within(widened(around.low, around.high, ROUNDING_M, PLANE), self.now_us))

    def _up(self, indices: Sequence[int]) -> Iterator[str]:
        return (body.resident.host for body in map(self.bodies.__getitem__, indices) if body.up)


@lru_cache(maxsize=10_000)
def overlap_of(one: Shape, other: Shape) -> Box | None:
    """A box around everything that is in both, and a little more: exact borders are tested afterwards."""
    a, b = bounds(one, PLANE), bounds(other, PLANE)
    low = Point(max(a.low.x, b.low.x) - ROUNDING_M, max(a.low.y, b.low.y) - ROUNDING_M)
    high = Point(min(a.high.x, b.high.x) + ROUNDING_M, min(a.high.y, b.high.y) + ROUNDING_M)
    return Box(low, high) if low.x < high.x and low.y < high.y else None
