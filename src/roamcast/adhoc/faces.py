"""Walking around faces (C13): how a message gets past a void, and from one part of a region to another.

Hosts and the links of a Gabriel graph form a planar map: a link is one if no neighbour is inside the circle that has
it as diameter, which both of its ends see alike from their neighbour tables. A void is a face of that map, and the
right-hand rule leads around it: at each host, on along the next link counterclockwise from the one it came by. Where
the walk would cross the line from where it began to the region, it changes to the face beyond. That is the perimeter
mode of GPSR, which in Gabriel graphs finds every destination that can be reached while nothing moves.
"""

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from roamcast.adhoc.nearness import distance_to_m
from roamcast.model.region import Circle, Shape, bounds
from roamcast.model.space import Space
from roamcast.model.values import Point

FULL_TURN = 2 * math.pi
SAME_ANGLE = 1e-9
GAP_CELLS = 8
"""A region is looked at for gaps in so many strips each way."""


class Link(Struct, frozen=True):
    """To a neighbour, as seen from the host at its near end."""

    host: str
    position: Point
    east_m: float
    north_m: float

    @property
    def angle(self) -> float:
        return math.atan2(self.north_m, self.east_m)


def planar_links(me: Point, neighbours: Iterable[tuple[str, Point]], space: Space) -> list[Link]:
    """The links of the Gabriel graph at `me`."""
    all_links = [Link(host, position, *space.offset_m(me, position)) for host, position in neighbours]
    return [link for link in all_links if not any(in_circle_of(link, other) for other in all_links)]


def in_circle_of(link: Link, other: Link) -> bool:
    """Whether the other end of `other` is inside the circle over `link`: it sees the two ends at an obtuse angle."""
    east_m, north_m = other.east_m, other.north_m
    return east_m * (east_m - link.east_m) + north_m * (north_m - link.north_m) < -1e-9


def next_link(links: Sequence[Link], from_angle: float) -> Link | None:
    """The first one counterclockwise from a direction; one in that very direction comes last."""

    def turn(link: Link) -> float:
        angle = (link.angle - from_angle) % FULL_TURN
        return FULL_TURN if angle < SAME_ANGLE or angle > FULL_TURN - SAME_ANGLE else angle

    return min(links, key=turn, default=None)


def direction(me: Point, other: Point, space: Space) -> float:
    east_m, north_m = space.offset_m(me, other)
    return math.atan2(north_m, east_m)


def crossing(me: Point, link: Link, start: Point, goal: Point, space: Space) -> Point | None:
    """Where a link crosses the line from `start` to `goal`."""
    start_east, start_north = space.offset_m(me, start)
    goal_east, goal_north = space.offset_m(me, goal)
    line_east, line_north = goal_east - start_east, goal_north - start_north
    across = link.east_m * line_north - link.north_m * line_east
    if across == 0:
        return None
    along_link = (start_east * line_north - start_north * line_east) / across
    along_line = (start_east * link.north_m - start_north * link.east_m) / across
    if not (0 < along_link <= 1 and 0 < along_line <= 1):
        return None
    return space.moved(me, along_link * link.east_m, along_link * link.north_m)


def onward(
    me: Point, came_from: Point, entered: Point, start: Point, goal: Point, links: Sequence[Link], space: Space
) -> tuple[Link, Point] | None:
    """The next link of a walk from `start` towards `goal`, and where it entered the face that it is on then."""
    link = next_link(links, direction(me, came_from, space))
    for _ in links:
        if link is None:
            return None
        crossed = crossing(me, link, start, goal, space)
        if crossed is None or space.distance_m(crossed, goal) >= space.distance_m(entered, goal) - 1e-6:
            break
        entered = crossed
        link = next_link(links, link.angle)
    return None if link is None else (link, entered)


def centre_of(shape: Shape, space: Space) -> Point:
    if isinstance(shape, Circle):
        return shape.centre
    box = bounds(shape, space)
    east_m, north_m = space.offset_m(box.low, box.high)
    return space.moved(box.low, east_m / 2, north_m / 2)


def has_gap(shape: Shape, heard_from: Sequence[Point], range_m: float, space: Space) -> bool:
    """Whether a host may be in the region that hears none of these; errs on the side of yes."""
    box = bounds(shape, space)
    width_m, height_m = space.offset_m(box.low, box.high)
    cell_east, cell_north = width_m / GAP_CELLS, height_m / GAP_CELLS
    half_m = math.hypot(cell_east, cell_north) / 2
    for row in range(GAP_CELLS):
        for column in range(GAP_CELLS):
            middle = space.moved(box.low, (column + 0.5) * cell_east, (row + 0.5) * cell_north)
            if any(space.within(each, middle, range_m - half_m) for each in heard_from):
                continue
            if distance_to_m(shape, middle, space) <= half_m:
                return True
    return False
