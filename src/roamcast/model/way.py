"""The straight way between two fixes, and where it passes the border of a region.

On Earth a way is straight in longitude and latitude, as the edges of boxes and polygons are, and goes over the date
line where that is shorter. Where it passes an edge is then exact; where it passes a circle on Earth is found by
halving, to a tenth of a millisecond of a way that takes `duration_us`.

    pieces          the parts of a way that lie inside and outside a shape, in order
    to_border_m     how far a point is from the border: above 0 outside, below 0 inside
"""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct

from roamcast.model.region import Box, Circle, Polygon, Shape, contains
from roamcast.model.space import Earth, Space, metres_per_degree, wrapped
from roamcast.model.values import Point

HALVED_US = 100
HALVED_SHARE = 1e-7
"""How near a passage through a circle on Earth is found, in time and as a share of the way."""
ARC_M_MAX = 100_000.0
"""On Earth the distance to a point falls and then rises along a way no longer than this, and does not turn again."""

Piece: TypeAlias = tuple[float, bool]
"""At which share of the way it begins, and whether it is inside."""


class Way(Struct, frozen=True):
    start: Point
    end: Point
    duration_us: int = 1_000_000

    def at(self, share: float, space: Space) -> Point:
        if share <= 0:
            return self.start
        if share >= 1:
            return self.end
        east, north = self.end.x - self.start.x, self.end.y - self.start.y
        if not isinstance(space, Earth):
            return Point(self.start.x + share * east, self.start.y + share * north)
        return Point(wrapped(self.start.x + share * wrapped(east)), self.start.y + share * north)


def pieces(way: Way, shape: Shape, space: Space) -> list[Piece]:
    """Neighbouring pieces differ. That a way only touches the border from outside makes no piece, unless it ends
    there: the border belongs to the region."""
    inside = contains(shape, way.start, space)
    found: list[Piece] = [(0.0, inside)]
    shares = sorted({share for share in passages(way, shape, space) if 0 < share < 1})
    for share, until in zip([0.0, *shares], [*shares, 1.0], strict=True):
        # Between two passages nothing changes, so the middle speaks for all of it.
        now = contains(shape, way.at((share + until) / 2, space), space)
        if now != found[-1][1]:
            found.append((share, now))
    if contains(shape, way.end, space) != found[-1][1]:
        found.append((1.0, not found[-1][1]))
    return found


def passages(way: Way, shape: Shape, space: Space) -> Iterator[float]:
    """The shares of the way at which it may pass the border, among them all at which it does."""
    if way.start == way.end:
        return
    match shape:
        case Circle(centre, radius_m) if isinstance(space, Earth):
            yield from through_circle_on_earth(way, centre, radius_m, space)
        case Circle(centre, radius_m):
            yield from through_circle(way, centre, radius_m)
        case Box() | Polygon():
            yield from through_edges(way, outline(shape), space)


def outline(shape: Box | Polygon) -> tuple[Point, ...]:
    """Its corners, those of a box over the date line with longitudes that go on beyond 180."""
    if isinstance(shape, Polygon):
        return shape.corners
    low, high = shape.low, shape.high
    east = high.x if low.x < high.x else high.x + 360
    return low, Point(east, low.y), Point(east, high.y), Point(low.x, high.y)


def through_circle(way: Way, centre: Point, radius_m: float) -> Iterator[float]:
    """In the plane, where the distance to the centre is the radius: the roots of a quadratic."""
    east, north = way.end.x - way.start.x, way.end.y - way.start.y
    x, y = way.start.x - centre.x, way.start.y - centre.y
    squared = east * east + north * north
    if squared == 0:
        # Two points so near each other that the square vanishes.
        return
    half = (x * east + y * north) / squared
    # From the nearest point of the way on, so that far from the circle nothing is lost by cancellation.
    off_x, off_y = x - half * east, y - half * north
    left = radius_m * radius_m - off_x * off_x - off_y * off_y
    if left >= 0:
        root = math.sqrt(left / squared)
        yield -half - root
        yield -half + root


def through_circle_on_earth(way: Way, centre: Point, radius_m: float, space: Space) -> Iterator[float]:
    def beyond_m(share: float) -> float:
        return space.distance_m(centre, way.at(share, space)) - radius_m

    length_m = length_max_m(way)
    count = max(1, math.ceil(length_m / ARC_M_MAX))
    ends = [(number / count, beyond_m(number / count)) for number in range(count + 1)]
    precision = max(HALVED_SHARE, HALVED_US / max(way.duration_us, 1))

    def halved(low: float, high: float, low_is_inside: bool) -> float:
        while high - low > min(precision, 0.25):
            middle = (low + high) / 2
            if (beyond_m(middle) <= 0) == low_is_inside:
                low = middle
            else:
                high = middle
        return (low + high) / 2

    for (low, low_m), (high, high_m) in pairwise(ends):
        if (low_m <= 0) != (high_m <= 0):
            yield halved(low, high, low_m <= 0)
        elif low_m > 0 and low_m + high_m < length_m / count * 1.01:
            # Both ends are outside, and near enough that the way may dip in.
            nearest = lowest(beyond_m, low, high)
            if beyond_m(nearest) <= 0:
                yield halved(low, nearest, False)
                yield halved(nearest, high, True)
        # The ends of arcs are passages too where one lies on the border.
        yield high


def lowest(of: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that falls and then rises is lowest."""
    for _ in range(64):
        one, other = low + (high - low) / 3, high - (high - low) / 3
        if of(one) <= of(other):
            high = other
        else:
            low = one
    return (low + high) / 2


def length_max_m(way: Way) -> float:
    """At least as long as a way on Earth is."""
    south, north = sorted((way.start.y, way.end.y))
    equatorward = 0.0 if south < 0 < north else min(abs(south), abs(north))
    east_m = abs(wrapped(way.end.x - way.start.x)) * metres_per_degree(equatorward)[1]
    return math.hypot(east_m, (north - south) * metres_per_degree(90.0)[0])


def through_edges(way: Way, corners: tuple[Point, ...], space: Space) -> Iterator[float]:
    """Where the way crosses the line of an edge, or an end of it, in coordinates."""
    x, y = way.start.x, way.start.y
    east, north = way.end.x - x, way.end.y - y
    turns: tuple[float, ...] = (0.0,)
    if isinstance(space, Earth):
        east, turns = wrapped(east), (-360.0, 0.0, 360.0)
    previous = corners[-1]
    for corner in corners:
        for turn in turns:
            ax, ay = previous.x + turn - x, previous.y - y
            along_x, along_y = corner.x - previous.x, corner.y - previous.y
            across = east * along_y - north * along_x
            if across != 0:
                yield (ax * along_y - ay * along_x) / across
            else:
                # Along the edge, or beside it: then its ends are where something may change.
                for dx, dy in ((ax, ay), (ax + along_x, ay + along_y)):
                    yield (dx * east + dy * north) / (east * east + north * north or 1.0)
        previous = corner


def to_border_m(shape: Shape, point: Point, space: Space) -> float:
    """The distance to the border, less than 0 inside. On Earth the distance to an edge is reckoned with the metres
    per degree at the point, which is good to 0.1 % within some kilometres."""
    match shape:
        case Circle(centre, radius_m):
            return space.distance_m(centre, point) - radius_m
        case Box() | Polygon():
            off_m = to_edges_m(outline(shape), point, space)
            return -off_m if contains(shape, point, space) else off_m


def to_edges_m(corners: tuple[Point, ...], point: Point, space: Space) -> float:
    north_m, east_m = metres_per_degree(point.y) if isinstance(space, Earth) else (1.0, 1.0)
    turns = (-360.0, 0.0, 360.0) if isinstance(space, Earth) else (0.0,)
    nearest_m, previous = math.inf, corners[-1]
    for corner in corners:
        for turn in turns:
            ax, ay = (previous.x + turn - point.x) * east_m, (previous.y - point.y) * north_m
            bx, by = (corner.x + turn - point.x) * east_m, (corner.y - point.y) * north_m
            nearest_m = min(nearest_m, to_segment_m(ax, ay, bx, by))
        previous = corner
    return nearest_m


def to_segment_m(ax: float, ay: float, bx: float, by: float) -> float:
    """From the origin to the nearest point between a and b."""
    along_x, along_y = bx - ax, by - ay
    squared = along_x * along_x + along_y * along_y
    share = 0.0 if squared == 0 else min(1.0, max(0.0, -(ax * along_x + ay * along_y) / squared))
    return math.hypot(ax + share * along_x, ay + share * along_y)
