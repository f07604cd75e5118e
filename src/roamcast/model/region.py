"""Regions: a circle, a box or a polygon, fixed in space or anchored to a host and moving with it.

A fixed shape has its coordinates in the space's own units. An `Anchored` region has its shape in metres around a
reference point, which is pinned to a host: STEAM's area and naval (S2). `anchored_contains` asks it in metres around
its host; `placed` turns it into a fixed shape for one position of that host. Boundaries belong to a region.

Edges of boxes and polygons are straight in the space's coordinates, as in GeoJSON. On Earth a box whose west exceeds
its east crosses the date line; a polygon that crosses it has longitudes continued beyond 180. A polygon whose outline
crosses itself holds what is inside by the even-odd rule.

Circles and boxes are reckoned here. Polygons need shapely, which takes longer to load than all of the model: it comes
with the first polygon that asks for it.
"""

import math
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from roamcast.model.space import DEGREE_NORTH_MIN_M, Earth, Plane, Space, metres_per_degree, wrapped
from roamcast.model.values import BadValue, Point, check_point, is_number

if TYPE_CHECKING:
    import shapely

POLYGON_CORNERS_MAX = 1_000
ANCHORED_REACH_MAX_M = 1e8
"""How far an anchored shape may extend from its origin: some times around the Earth."""
FIXED_REACH_MAX_M = 1e9
"""How far out on a plane a fixed region may lie: beyond every map, and near enough that no arithmetic overflows."""
ORIGIN = Point(0.0, 0.0)
PLANE = Plane()


class Circle(Struct, frozen=True, array_like=True, tag="circle", cache_hash=True):
    centre: Point
    radius_m: float

    def __post_init__(self) -> None:
        check_point(self.centre, "circle")
        if type(self.radius_m) is float and 0 < self.radius_m < math.inf:
            return
        if not is_number(self.radius_m) or not 0 < self.radius_m < math.inf:
            raise BadValue(f"circle: a radius of {self.radius_m} m encloses no area; give a finite one above 0")


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
            raise BadValue(
                "polygon encloses no area; its corners lie on a line, or it crosses itself into equal halves"
            )


Shape: TypeAlias = Circle | Box | Polygon


class Anchored(Struct, frozen=True, array_like=True, tag="anchored", cache_hash=True):
    """A shape in metres that moves with `host`: the shape's point `reference` is always where the host is."""

    shape: Shape
    host: str
    reference: Point = ORIGIN

    def __post_init__(self) -> None:
        if not isinstance(self.host, str) or not self.host:
            raise BadValue("anchored region: it needs the name of the host that it moves with")
        if type(self.shape) is Circle and self.reference == self.shape.centre == ORIGIN:
            # A host in the middle of its circle, as most are; the circle was looked at when it was made.
            return
        check_point(self.reference, "anchored region")
        check_region(self.shape, PLANE)
        points = (self.reference, *points_of(self.shape))
        if max(abs(metres) for point in points for metres in (point.x, point.y)) > ANCHORED_REACH_MAX_M:
            raise BadValue(f"anchored region: it reaches beyond {ANCHORED_REACH_MAX_M:.0f} m from its origin")


Region: TypeAlias = Circle | Box | Polygon | Anchored


def rectangle(width_m: float, height_m: float) -> Box:
    """A box in metres centred on its own origin, ready to be anchored or placed."""
    return Box(Point(-width_m / 2, -height_m / 2), Point(width_m / 2, height_m / 2))


def check_region(region: Region, space: Space) -> None:
    """Raises `BadValue` for a fixed region that does not lie in this space; an anchored one is at home in any."""
    if isinstance(region, Anchored):
        return
    reach_m = FIXED_REACH_MAX_M
    across = crosses_date_line(region, space)
    for point in points_of(region):
        space.check(Point(math.remainder(point.x, 360.0), point.y) if across else point)
        if not (-reach_m <= point.x <= reach_m and -reach_m <= point.y <= reach_m):
            raise BadValue(f"({point.x}, {point.y}) lies farther out than a region may, {reach_m:.0f} m")
    if isinstance(region, Box) and region.low.x > region.high.x and not isinstance(space, Earth):
        raise BadValue(f"box from {region.low} to {region.high}: only on Earth can a box's west exceed its east")


def crosses_date_line(region: Shape, space: Space) -> bool:
    """Whether it is a polygon on Earth that counts its longitudes on beyond the date line, as `placed` makes them."""
    if not isinstance(region, Polygon) or not isinstance(space, Earth):
        return False
    west, east = min(corner.x for corner in region.corners), max(corner.x for corner in region.corners)
    return east - west < 180.0 and west < 180.0 and east > -180.0


def points_of(shape: Shape) -> tuple[Point, ...]:
    """The points that define a shape."""
    match shape:
        case Circle(centre):
            return (centre,)
        case Box(low, high):
            return (low, high)
        case Polygon(corners):
            return corners


def placed(shape: Shape, naval: Point, space: Space, reference: Point = ORIGIN) -> Shape:
    """The metre shape as a fixed one, with its `reference` at `naval`.

    Never fails: what a pole or rounding leaves no area of becomes a circle of a millimetre. Within its own size of a
    pole, where degrees of longitude vanish, a placed box or polygon is no good likeness; `anchored_contains` is.
    """

    def at(point: Point) -> Point:
        return space.moved(naval, point.x - reference.x, point.y - reference.y)

    match shape:
        case Circle(centre, radius_m):
            return Circle(at(centre), radius_m)
        case Box(low, high):
            corners: tuple[Point, ...] = (at(low), at(high))
        case Polygon():
            corners = tuple(at(corner) for corner in shape.corners)
    try:
        return Box(*corners) if isinstance(shape, Box) else Polygon(continued(corners, space))
    except BadValue:
        return Circle(corners[0], 0.001)


def anchored_contains(region: Anchored, naval: Point, point: Point, space: Space) -> bool:
    """Whether `point` is in the region while its host is at `naval`."""
    shape, reference = region.shape, region.reference
    if isinstance(shape, Circle):
        if shape.centre == reference:
            return space.within(naval, point, shape.radius_m)
        centre = space.moved(naval, shape.centre.x - reference.x, shape.centre.y - reference.y)
        return space.within(centre, point, shape.radius_m)
    east_m, north_m = space.offset_m(naval, point)
    return contains(shape, Point(east_m + reference.x, north_m + reference.y), PLANE)


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
            return side_of(corners, point, space) >= 0


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
            return side_of(corners, point, space) > 0


def side_of(corners: tuple[Point, ...], point: Point, space: Space) -> int:
    side = polygon_side(corners, point.x, point.y)
    if side < 0 and isinstance(space, Earth) and beyond_date_line(corners):
        side = polygon_side(corners, point.x + (360 if point.x < 0 else -360), point.y)
    return side


def beyond_date_line(corners: tuple[Point, ...]) -> bool:
    return any(abs(corner.x) > 180 for corner in corners)


def continued(corners: tuple[Point, ...], space: Space) -> tuple[Point, ...]:
    """The corners with longitudes that go on beyond 180 where the outline crosses the date line."""
    if not isinstance(space, Earth):
        return corners
    first = corners[0].x
    return tuple(
        corner if abs(corner.x - first) <= 180 else Point(first + wrapped(corner.x - first), corner.y)
        for corner in corners
    )


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
    # Measured from the first corner: from the origin a small polygon far away would drown in rounding.
    twice = 0.0
    first = previous = corners[0]
    for corner in corners[1:]:
        twice += (previous.x - first.x) * (corner.y - first.y) - (corner.x - first.x) * (previous.y - first.y)
        previous = corner
    return twice / 2


def bounds(shape: Shape, space: Space) -> Box:
    """A box around the shape; the smallest one, but for circles, where it is slightly larger to make up for rounding
    and for the curvature of the Earth."""
    match shape:
        case Box():
            return shape
        case Circle(centre, radius_m) if isinstance(space, Earth):
            return widened(centre, centre, radius_m * 1.00002 + 1e-6, space)
        case Circle(centre, radius_m):
            reach_m = radius_m * (1 + 1e-12)
            low = Point(math.nextafter(centre.x - reach_m, -math.inf), math.nextafter(centre.y - reach_m, -math.inf))
            high = Point(math.nextafter(centre.x + reach_m, math.inf), math.nextafter(centre.y + reach_m, math.inf))
            return Box(low, high)
        case Polygon(corners):
            xs = [corner.x for corner in corners]
            ys = [corner.y for corner in corners]
            west, east = min(xs), max(xs)
            if isinstance(space, Earth) and east - west >= 360:
                west, east = -180.0, 180.0
            elif isinstance(space, Earth):
                west, east = wrapped(west), wrapped(east)
            return Box(Point(west, min(ys)), Point(east, max(ys)))


def grown(shape: Shape, margin_m: float, space: Space) -> Shape:
    """A shape that holds every point within `margin_m` of `shape` (C11's slightly enlarged regions).

    Exact for circles; boxes and polygons keep their corners sharp, so they hold a little more.
    """
    if margin_m == 0:
        return shape
    if not 0 < margin_m < math.inf:
        raise BadValue(f"cannot grow a region by {margin_m} m; give a margin of 0 or more")
    match shape:
        case Circle(centre, radius_m):
            return Circle(centre, radius_m + margin_m)
        case Box(low, high):
            return widened(low, high, margin_m, space)
        case Polygon():
            return grown_polygon(shape, margin_m, space)


def grown_polygon(polygon: Polygon, margin_m: float, space: Space) -> Polygon | Box:
    """Mitred; its bounding box, grown, where it would reach a pole or have too many corners."""
    import shapely

    around = bounds(polygon, space)
    box = widened(around.low, around.high, margin_m, space)
    # On Earth one scale for all of it keeps the edges straight, and the smallest of its metres per degree is safe.
    north, east = 1.0, 1.0
    if isinstance(space, Earth):
        poleward = max(abs(box.low.y), abs(box.high.y))
        if poleward >= 90:
            return box
        north, east = DEGREE_NORTH_MIN_M, metres_per_degree(poleward)[1]
    first = polygon.corners[0]
    ring = [((corner.x - first.x) * east, (corner.y - first.y) * north) for corner in polygon.corners]
    # Coordinates near the end of the doubles have no buffer; a frame that carries them must not stop a host.
    try:
        wider = sound(ring).buffer(margin_m * (1 + 1e-9), join_style="mitre")
    except shapely.errors.GEOSException:
        return box
    if not isinstance(wider, shapely.Polygon) or len(wider.exterior.coords) > POLYGON_CORNERS_MAX:
        return box
    try:
        return Polygon(tuple(Point(first.x + x / east, first.y + y / north) for x, y in wider.exterior.coords[:-1]))
    except BadValue:
        return box


def intersects(a: Shape, b: Shape, space: Space) -> bool:
    """Whether two regions share a point."""
    if isinstance(a, Circle):
        if isinstance(b, Circle):
            return space.within(a.centre, b.centre, a.radius_m + b.radius_m)
        if isinstance(b, Box):
            return space.within(a.centre, nearest_in_box(b, a.centre, space), a.radius_m)
        return circle_meets_polygon(a, b, space)
    if isinstance(b, Circle):
        return intersects(b, a, space)
    if isinstance(a, Box) and isinstance(b, Box):
        overlap = any(west <= end and start <= east for west, east in spans(a) for start, end in spans(b))
        return overlap and a.low.y <= b.high.y and b.low.y <= a.high.y
    return bool(outline_of(a, space).intersects(outline_of(b, space)))


def nearest_in_box(box: Box, point: Point, space: Space) -> Point:
    """On Earth along the parallel, not quite the nearest: at 100 km 0.01 % too far at 60 degrees, 0.3 % at 80."""
    y = min(max(point.y, box.low.y), box.high.y)
    if any(west <= point.x <= east for west, east in spans(box)):
        return Point(point.x, y)

    def gap(x: float) -> float:
        return abs(wrapped(x - point.x)) if isinstance(space, Earth) else abs(x - point.x)

    return Point(min(box.low.x, box.high.x, key=gap), y)


def circle_meets_polygon(circle: Circle, polygon: Polygon, space: Space) -> bool:
    """By the polygon's point that is nearest with the scale of the circle's centre, and the true distance to it."""
    import shapely

    north, east = 1.0, 1.0
    turns: tuple[float, ...] = (0.0,)
    if isinstance(space, Earth):
        north, east = metres_per_degree(circle.centre.y)
        turns = (-360.0, 0.0, 360.0)
    here = shapely.Point(0, 0)
    for turn in turns:
        x, y = circle.centre.x + turn, circle.centre.y
        outline = sound([((corner.x - x) * east, (corner.y - y) * north) for corner in polygon.corners])
        line = shapely.shortest_line(here, outline)
        if line is None:
            # So far away that the arithmetic overflows.
            continue
        east_m, north_m = line.coords[1]
        if space.within(circle.centre, Point(x + east_m / east, y + north_m / north), circle.radius_m):
            return True
    return False


def outline_of(shape: Box | Polygon, space: Space) -> "shapely.Geometry":
    """The shape for shapely, in the space's coordinates and once more wherever it passes the date line."""
    import shapely
    from shapely.affinity import translate

    if isinstance(shape, Box):
        return shapely.union_all([shapely.box(west, shape.low.y, east, shape.high.y) for west, east in spans(shape)])
    outline = sound([(corner.x, corner.y) for corner in shape.corners])
    if not (isinstance(space, Earth) and beyond_date_line(shape.corners)):
        return outline
    return shapely.union_all([translate(outline, turn) for turn in (-360, 0, 360)])


def sound(ring: list[tuple[float, float]]) -> "shapely.Geometry":
    """A ring as a geometry that shapely works with: what crosses itself is taken apart by the even-odd rule."""
    import shapely

    outline = shapely.Polygon(ring)
    return outline if outline.is_valid else shapely.make_valid(outline)


def spans(box: Box) -> list[tuple[float, float]]:
    """West to east, in two pieces if the box crosses the date line."""
    if box.low.x <= box.high.x:
        return [(box.low.x, box.high.x)]
    return [(box.low.x, 180.0), (-180.0, box.high.x)]


def widened(low: Point, high: Point, margin_m: float, space: Space) -> Box:
    """The box from `low` to `high` with a margin on every side."""
    if not isinstance(space, Earth):
        return Box(Point(low.x - margin_m, low.y - margin_m), Point(high.x + margin_m, high.y + margin_m))
    south = max(-90.0, low.y - margin_m / DEGREE_NORTH_MIN_M)
    north = min(90.0, high.y + margin_m / DEGREE_NORTH_MIN_M)
    # Of all latitudes within, a degree of longitude is shortest nearest the pole, and of no length at it.
    _, east_per_degree = metres_per_degree(max(abs(south), abs(north)))
    margin = margin_m / max(east_per_degree, 1e-9)
    width = high.x - low.x if low.x <= high.x else high.x - low.x + 360
    if width + 2 * margin >= 360:
        return Box(Point(-180.0, south), Point(180.0, north))
    return Box(Point(wrapped(low.x - margin), south), Point(wrapped(high.x + margin), north))
