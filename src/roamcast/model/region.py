"""Regions: a circle, a box or a polygon, fixed in space or anchored to a host and moving with it.

A fixed shape has its coordinates in the space's own units. An `Anchored` region has its shape in metres around a
reference point, which is pinned to a host: STEAM's area and naval (S2). `placed` turns it into a fixed shape for
one position of that host. Boundaries belong to a region. Edges of boxes and polygons are straight in the space's
coordinates, as in GeoJSON; a box on Earth whose west exceeds its east crosses the date line.
"""

import math
from typing import TypeAlias

import shapely
from msgspec import Struct

from roamcast.model.space import Earth, Space, metres_per_degree, wrapped
from roamcast.model.values import BadValue, Point, check_point

POLYGON_CORNERS_MAX = 1_000
ORIGIN = Point(0.0, 0.0)


class Circle(Struct, frozen=True, array_like=True, tag="circle", cache_hash=True):
    centre: Point
    radius_m: float

    def __post_init__(self) -> None:
        check_point(self.centre, "circle")
        if not (math.isfinite(self.radius_m) and self.radius_m > 0):
            raise BadValue(f"circle: radius {self.radius_m} m encloses no area; give a radius above 0")


class Box(Struct, frozen=True, array_like=True, tag="box", cache_hash=True):
    low: Point
    high: Point

    def __post_init__(self) -> None:
        check_point(self.low, "box")
        check_point(self.high, "box")
        # low.x > high.x is a box across the date line, so only the height and a zero width are refused.
        if self.low.y >= self.high.y or self.low.x == self.high.x:
            raise BadValue(
                f"box from {self.low} to {self.high} encloses no area; give two opposite corners, low first"
            )


class Polygon(Struct, frozen=True, array_like=True, tag="polygon", cache_hash=True):
    corners: tuple[Point, ...]
    """In order, the first not repeated at the end."""

    def __post_init__(self) -> None:
        if not 3 <= len(self.corners) <= POLYGON_CORNERS_MAX:
            raise BadValue(f"polygon of {len(self.corners)} corners; give 3 to {POLYGON_CORNERS_MAX}")
        for corner in self.corners:
            check_point(corner, "polygon")
        if signed_area(self.corners) == 0:
            raise BadValue("polygon encloses no area; its corners lie on a line")


Shape: TypeAlias = Circle | Box | Polygon


class Anchored(Struct, frozen=True, array_like=True, tag="anchored", cache_hash=True):
    """A shape in metres that moves with `host`: the shape's point `reference` is always where the host is."""

    shape: Shape
    host: str
    reference: Point = ORIGIN


Region: TypeAlias = Circle | Box | Polygon | Anchored


def rectangle(width_m: float, height_m: float) -> Box:
    """A box in metres centred on its own origin, ready to be anchored or placed."""
    return Box(Point(-width_m / 2, -height_m / 2), Point(width_m / 2, height_m / 2))


def placed(shape: Shape, naval: Point, space: Space, reference: Point = ORIGIN) -> Shape:
    """The metre shape as a fixed one, with its `reference` at `naval`."""

    def at(point: Point) -> Point:
        return space.moved(naval, point.x - reference.x, point.y - reference.y)

    match shape:
        case Circle(centre, radius_m):
            return Circle(at(centre), radius_m)
        case Box(low, high):
            return Box(at(low), at(high))
        case Polygon(corners):
            return Polygon(tuple(at(corner) for corner in corners))


def contains(shape: Shape, point: Point, space: Space) -> bool:
    match shape:
        case Circle(centre, radius_m):
            return space.within(centre, point, radius_m)
        case Box(low, high):
            if not low.y <= point.y <= high.y:
                return False
            if low.x <= high.x:
                return low.x <= point.x <= high.x
            return point.x >= low.x or point.x <= high.x
        case Polygon(corners):
            return polygon_side(corners, point.x, point.y) >= 0


def strictly_contains(shape: Shape, point: Point, space: Space) -> bool:
    """As `contains`, without the boundary."""
    match shape:
        case Circle(centre, radius_m):
            return space.distance_m(centre, point) < radius_m
        case Box(low, high):
            if not low.y < point.y < high.y:
                return False
            if low.x <= high.x:
                return low.x < point.x < high.x
            return point.x > low.x or point.x < high.x
        case Polygon(corners):
            return polygon_side(corners, point.x, point.y) > 0


def polygon_side(corners: tuple[Point, ...], x: float, y: float) -> int:
    """1 inside, 0 on an edge, -1 outside. The same arithmetic, in the same order, stands in the numpy and Spark
    evaluators, so that the three agree to the last bit."""
    inside = False
    previous = corners[-1]
    for corner in corners:
        ax, ay, bx, by = previous.x, previous.y, corner.x, corner.y
        cross = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
        if cross == 0 and min(ax, bx) <= x <= max(ax, bx) and min(ay, by) <= y <= max(ay, by):
            return 0
        if (ay > y) != (by > y) and (cross > 0) == (by > ay):
            inside = not inside
        previous = corner
    return 1 if inside else -1


def signed_area(corners: tuple[Point, ...]) -> float:
    twice = 0.0
    previous = corners[-1]
    for corner in corners:
        twice += previous.x * corner.y - corner.x * previous.y
        previous = corner
    return twice / 2


def bounds(shape: Shape, space: Space) -> Box:
    """A box around the shape; the smallest one, but for circles on Earth, where it is slightly larger."""
    match shape:
        case Box():
            return shape
        case Circle(centre, radius_m):
            return widened(centre, centre, radius_m, space)
        case Polygon(corners):
            xs = [corner.x for corner in corners]
            ys = [corner.y for corner in corners]
            return Box(Point(min(xs), min(ys)), Point(max(xs), max(ys)))


def grown(shape: Shape, margin_m: float, space: Space) -> Shape:
    """A shape that holds every point within `margin_m` of `shape` (C11's slightly enlarged regions).

    Exact for circles; boxes and polygons keep their corners sharp, so they hold a little more.
    """
    if margin_m == 0:
        return shape
    if margin_m < 0:
        raise BadValue(f"cannot grow a region by {margin_m} m; give a margin of 0 or more")
    match shape:
        case Circle(centre, radius_m):
            return Circle(centre, radius_m + margin_m)
        case Box(low, high):
            return widened(low, high, margin_m, space)
        case Polygon(corners):
            outline = shapely.Polygon([space.offset_m(corners[0], corner) for corner in corners])
            wider = outline.buffer(margin_m, join_style="mitre")
            return Polygon(tuple(space.moved(corners[0], x, y) for x, y in wider.exterior.coords[:-1]))


def intersects(a: Shape, b: Shape, space: Space) -> bool:
    """Whether two regions share a point. On Earth a circle meets a box or polygon in metres around its centre."""
    if isinstance(a, Circle):
        if isinstance(b, Circle):
            return space.within(a.centre, b.centre, a.radius_m + b.radius_m)
        around_centre = outline_of(b, space, a.centre)
        return bool(around_centre.distance(shapely.Point(0, 0)) <= a.radius_m)
    if isinstance(b, Circle):
        return intersects(b, a, space)
    return bool(outline_of(a, space).intersects(outline_of(b, space)))


def outline_of(shape: Box | Polygon, space: Space, origin: Point | None = None) -> shapely.Geometry:
    """The shape for shapely: in the space's coordinates, or in metres around `origin`."""
    match shape:
        case Polygon(corners):
            rings = [corners]
        case Box(low, high) if low.x <= high.x:
            rings = [ring_of(low, high)]
        case Box(low, high):
            rings = [ring_of(low, Point(180, high.y)), ring_of(Point(-180, low.y), high)]
    if origin is None:
        return shapely.MultiPolygon([shapely.Polygon([(p.x, p.y) for p in ring]) for ring in rings])
    return shapely.union_all([shapely.Polygon([space.offset_m(origin, p) for p in ring]) for ring in rings])


def ring_of(low: Point, high: Point) -> tuple[Point, ...]:
    return (low, Point(high.x, low.y), high, Point(low.x, high.y))


def widened(low: Point, high: Point, margin_m: float, space: Space) -> Box:
    """The box from `low` to `high` with a margin on every side."""
    if not isinstance(space, Earth):
        return Box(Point(low.x - margin_m, low.y - margin_m), Point(high.x + margin_m, high.y + margin_m))
    # A degree is shortest in metres at the equator (north) and nearest the pole (east).
    south = max(-90.0, low.y - margin_m / 110_574)
    north = min(90.0, high.y + margin_m / 110_574)
    _, east_per_degree = metres_per_degree(max(abs(south), abs(north)))
    margin = margin_m / east_per_degree if east_per_degree > 0 else 360.0
    width = (high.x - low.x) % 360
    if width + 2 * margin >= 360:
        return Box(Point(-180, south), Point(180, north))
    return Box(Point(wrapped(low.x - margin), south), Point(wrapped(high.x + margin), north))
