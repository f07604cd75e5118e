"""Walks around faces (C13): how geocast gets a message past a void, and to all parts of a region.

A message that is stuck walks around the void (`faces.py`) until it comes to somebody nearer to the region than the
void, who goes on greedily. A host inside the region that cannot be sure that all of it is in reach of itself and of
those it knows there asks its neighbours outside to walk on, each along the face beyond their common link, until the
walk comes inside again. A host goes on once with what comes to it over one link, so no walk is endless.

Guarantee, while nothing moves and nothing is lost: all hosts of the region that are connected to it at all are told,
if the region is convex, its corners are not acute and it is nowhere narrower than the radio range: then no link
passes between two of its hosts with both ends outside.
"""

from random import Random

from roamcast.adhoc.faces import Link, centre_of, direction, has_gap, next_link, onward, planar_links
from roamcast.adhoc.geocast_params import GeocastParams
from roamcast.adhoc.journeys import Journeys
from roamcast.adhoc.nearness import distance_to_m
from roamcast.adhoc.neighbours import NeighbourTable
from roamcast.adhoc.routes import Route, Routed, UnderWay, Walk, walking_key
from roamcast.model.space import Space
from roamcast.model.values import Point
from roamcast.node.boundary import Does, Note
from roamcast.node.recent import Recent


class Walks:
    def __init__(
        self,
        host: str,
        params: GeocastParams,
        rng: Random,
        space: Space,
        neighbours: NeighbourTable,
        journeys: Journeys,
        seen: Recent,
    ) -> None:
        self.host = host
        self.params = params
        self.rng = rng
        self.space = space
        self.neighbours = neighbours
        self.journeys = journeys
        self.seen = seen

    # Beginning.

    def around_void(self, now_us: int, entry: UnderWay, position: Point) -> Walk | None:
        """The first step of a walk around the void that a message is stuck at; None if there is nowhere to go."""
        goal = centre_of(entry.message.route.target, self.space)
        link = next_link(self._links(now_us, position), direction(position, goal, self.space))
        return None if link is None else Walk((link.host,), self.host, position, position)

    def seek(self, now_us: int, entry: UnderWay, position: Point) -> None:
        """Inside the region: whom outside to ask to walk around it, if parts of it may be out of reach of all this
        host knows inside."""
        route = entry.message.route
        if not route.seeks or not self.params.walks:
            return
        inside = [position]
        for each in self.neighbours.current(now_us):
            if distance_to_m(route.target, each.here.position, self.space) == 0:
                inside.append(each.here.position)
        if not has_gap(route.target, inside, self.params.range_m, self.space):
            return
        links = self._links(now_us, position)
        outside = tuple(link.host for link in links if distance_to_m(route.target, link.position, self.space) > 0)
        if outside:
            entry.walk = Walk(outside, self.host)

    def _links(self, now_us: int, position: Point) -> list[Link]:
        return planar_links(
            position, ((each.host, each.here.position) for each in self.neighbours.current(now_us)), self.space
        )

    # Going on.

    def heard(
        self, now_us: int, message: Routed, walk: Walk, position: Point | None, refuses: bool
    ) -> tuple[bool, list[Does]] | None:
        """A message that walks: None if this host is to treat it like any other."""
        route = message.route
        if position is None or refuses:
            return None
        distance_m = distance_to_m(route.target, position, self.space)
        if distance_m == 0 or (route.escape_m is not None and distance_m < route.escape_m):
            return None
        if self.host not in walk.next:
            return None if walk.start is not None else (False, [])
        if not self.seen.add(f"{route.id}#{route.attempt}>{walk.by}@{walk.name}"):
            return False, []
        if route.hops >= self.params.hops_max:
            return False, [Note("geocast_hops_exceeded", route.id)]
        fresh = self.seen.add(route.id)
        return fresh, self._go_on(now_us, message, walk, position)

    def _go_on(self, now_us: int, message: Routed, walk: Walk, position: Point) -> list[Does]:
        route = message.route
        came_from = route.here.position
        links = self._links(now_us, position)
        if walk.start is None or walk.entered is None:
            link = next_link(links, direction(position, came_from, self.space))
            entered = None
            if link is not None and self._is_told(route, link.position):
                return []
        else:
            goal = centre_of(route.target, self.space)
            found = onward(position, came_from, walk.entered, walk.start, goal, links, self.space)
            link, entered = (None, None) if found is None else found
        if link is None:
            return []
        entry = UnderWay(walking_key(route), message, "walk", route.escape_m or 0.0, now_us)
        known = self.journeys.by_key.get(entry.key)
        effects = [] if known is None else self.journeys.forget(known)
        entry.walk = Walk((link.host,), self.host, walk.start, entered)
        delay_ms = self.rng.uniform(0, self.params.jitter_ms)
        if walk.start is not None:
            delay_ms += self.params.greedy_delay_ms
        return effects + self.journeys.wait(now_us, entry, delay_ms)

    def _is_told(self, route: Route, position: Point) -> bool:
        """Whether the next host of a walk outside is inside again, and has heard the message from the last one."""
        return distance_to_m(route.target, position, self.space) == 0 and self.space.within(
            position, route.here.position, self.params.range_m
        )

    # Ending.

    def overheard(self, route: Route) -> list[Does]:
        """Somebody else says a message that walks here as well."""
        effects: list[Does] = []
        for walking in self.journeys.walks_of(route.id):
            effects += self._overheard_while(walking, route)
        return effects

    def _overheard_while(self, walking: UnderWay, route: Route) -> list[Does]:
        """The walk is over for this host when the next one goes on with it, or one nearer than the void has it."""
        forget = self.journeys.forget
        if walking.state == "sent":
            if route.walk is not None and walking.walk is not None and route.walk.name != walking.walk.name:
                return []
            return forget(walking) if route.hops > walking.message.route.hops + 1 else []
        nearer = distance_to_m(route.target, route.here.position, self.space) < walking.distance_m
        return forget(walking) if nearer else []
