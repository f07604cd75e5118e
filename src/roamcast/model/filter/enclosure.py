"""Whether one area holds everything that lies in some others: the geometry behind `covers`.

An area is a shape with or without its boundary. A yes is a promise about the evaluator's own arithmetic, so every
comparison that is not exact keeps a margin far above what rounding can do: areas that touch from inside count as
not enclosed unless they are boxes, or circles around one centre, where the evaluator's comparisons themselves are
repeated. On Earth circles are compared by their chords through the ellipsoid, which are true distances in space.

Several areas together mean their intersection. For circles on the plane the farthest point of the intersection is
found exactly; otherwise one of the areas alone must be enclosed.
"""

import math
from itertools import combinations
from typing import TypeAlias

from msgspec import Struct

from roamcast.model.filter.domain import Cut, Domain
from roamcast.model.region import Box, Circle, Polygon, Shape, beyond_date_line, signed_area
from roamcast.model.space import MEAN_RADIUS_M, Earth, Plane, Space, cartesian_m
from roamcast.model.values import Kind, Point

MEET_CIRCLES_MAX = 8
"""The work of finding what circles enclose together grows with their fourth power; of more, nothing is claimed."""
MARGIN = 1e-9
"""Of the largest length in a comparison; rounding errs by some 1e-15 of it, ill-conditioned crossings by 1e-11."""
EARTH_MARGIN_M = 1e-6
"""Positions on Earth are rounded to about a nanometre."""
SQUARED_MIN_M = 1e-150
SQUARED_MAX_M = 1e150
"""Lengths whose squares a double still holds; beyond them the evaluator itself no longer measures."""

Offset: TypeAlias = tuple[float, float]
"""Metres east and north of the centre that is looked at."""
Disc: TypeAlias = tuple[float, float, float]
"""A circle around an offset: east, north, radius."""


class Area(Struct, frozen=True):
    shape: Shape
    boundary: bool = True


def encloses(outer: Area, inner: tuple[Area, ...], space: Space) -> bool:
    """Whether every position in all of `inner` is in `outer`; never a wrong yes."""
    return any(encloses_one(outer, each, space) for each in inner) or encloses_meet(outer, inner, space)


def encloses_one(outer: Area, inner: Area, space: Space) -> bool:
    if outer.shape == inner.shape:
        return outer.boundary or not inner.boundary
    match outer.shape, inner.shape:
        case Circle() as wide, Circle() as narrow:
            return circle_in_circle(wide, outer.boundary, narrow, inner.boundary, space)
        case Circle() as wide, (Box() | Polygon()) as narrow:
            return isinstance(space, Plane) and corners_in_circle(wide, corners_of(narrow, space))
        case Box() as wide, Circle() as narrow:
            return isinstance(space, Plane) and measurable(narrow) and bounds_in_box(wide, bounds_of_circle(narrow))
        case Box() as wide, Polygon() as narrow:
            corners = corners_of(narrow, space)
            return bool(corners) and bounds_in_box(wide, bounds_of_corners(corners))
        case Polygon() as wide, (Box() | Polygon()) as narrow:
            return depth_in_polygon(wide.corners, corners_of(narrow, space)) > 0
        case Polygon() as wide, Circle(centre, radius_m) as narrow:
            reach = max(radius_m, SQUARED_MIN_M)
            return (
                isinstance(space, Plane) and measurable(narrow) and depth_in_polygon(wide.corners, (centre,)) > reach
            )
        case _:
            return False


def encloses_meet(outer: Area, inner: tuple[Area, ...], space: Space) -> bool:
    """As `encloses`, for what several areas enclose only together."""
    match outer.shape:
        case Circle(centre, radius_m) as wide if isinstance(space, Plane) and measurable(wide):
            discs = discs_around(centre, circles_of(inner))
            if not 1 < len(discs) <= MEET_CIRCLES_MAX:
                return False
            return farthest_m(discs) + 2 * margin_m(discs) <= radius_m * (1 - MARGIN)
        case Box():
            common = meet_of_boxes(inner)
            return bool(common) and all(any(within(each, side) for side in sides_of(outer)) for each in common)
        case _:
            return False


def vacant(inner: tuple[Area, ...], space: Space) -> bool:
    """Whether certainly no position lies in all of `inner`."""
    if any(disjoint(a, b, space) for a, b in combinations(inner, 2)):
        return True
    boxes = [area for area in inner if isinstance(area.shape, Box)]
    if boxes and not meet_of_boxes(inner):
        return True
    circles = circles_of(inner)
    if not 3 <= len(circles) <= MEET_CIRCLES_MAX or not isinstance(space, Plane):
        return False
    return farthest_m(discs_around(circles[0].centre, circles)) == -math.inf


def disjoint(a: Area, b: Area, space: Space) -> bool:
    """Whether two areas certainly share no position."""
    match a.shape, b.shape:
        case Circle() as one, Circle() as other:
            if isinstance(space, Plane):
                apart = space.distance_m(one.centre, other.centre)
                reach = one.radius_m + other.radius_m + SQUARED_MIN_M
                return measurable(one) and measurable(other) and apart * (1 - MARGIN) > reach
            reach = chord_m(one.radius_m) + chord_m(other.radius_m)
            return math.dist(cartesian_m(one.centre), cartesian_m(other.centre)) > reach + EARTH_MARGIN_M
        case Box(), Box():
            return not meet_of_boxes((a, b))
        case _:
            return False


# Circles.


def circle_in_circle(wide: Circle, with_edge: bool, narrow: Circle, its_edge: bool, space: Space) -> bool:
    if wide.centre == narrow.centre:
        if its_edge and not with_edge:
            # The evaluator compares squares with the boundary and roots without it: this is both at once.
            return max(narrow.radius_m, math.sqrt(narrow.radius_m * narrow.radius_m)) < wide.radius_m
        return narrow.radius_m <= wide.radius_m
    if isinstance(space, Plane):
        reach = space.distance_m(wide.centre, narrow.centre) + narrow.radius_m + SQUARED_MIN_M
        return measurable(wide) and reach <= wide.radius_m * (1 - MARGIN)
    apart = math.dist(cartesian_m(wide.centre), cartesian_m(narrow.centre))
    return apart + chord_m(narrow.radius_m) + EARTH_MARGIN_M <= chord_m(wide.radius_m)


def chord_m(arc_m: float) -> float:
    """The straight line through the Earth that `Earth.distance_m` bends to an arc of this length; inf if to none."""
    if arc_m >= math.pi * MEAN_RADIUS_M:
        return math.inf
    return 2 * MEAN_RADIUS_M * math.sin(arc_m / (2 * MEAN_RADIUS_M))


def circles_of(areas: tuple[Area, ...]) -> list[Circle]:
    return [area.shape for area in areas if isinstance(area.shape, Circle) and measurable(area.shape)]


def measurable(circle: Circle) -> bool:
    return max(circle.radius_m, abs(circle.centre.x), abs(circle.centre.y)) <= SQUARED_MAX_M


def discs_around(origin: Point, circles: list[Circle]) -> list[Disc]:
    # Differences of coordinates are exact to the last bit, however far from the space's own origin all this is.
    return [(each.centre.x - origin.x, each.centre.y - origin.y, each.radius_m) for each in circles]


def margin_m(discs: list[Disc]) -> float:
    return SQUARED_MIN_M + MARGIN * max(math.hypot(east, north) + radius for east, north, radius in discs)


def farthest_m(discs: list[Disc]) -> float:
    """How far from the origin the intersection of discs reaches, a little more than less; -inf if it is empty.

    The distance is largest where an arc's own farthest point is, or where two arcs meet. All discs are taken a
    margin larger, which keeps their crossings well-conditioned and every rounded position of the evaluator inside.
    """
    margin = margin_m(discs)
    larger = [(east, north, radius + margin) for east, north, radius in discs]
    candidates = [own_farthest(disc) for disc in larger]
    for one, other in combinations(larger, 2):
        candidates.extend(crossings(one, other))
    reached = [
        math.hypot(*point)
        for point in candidates
        if all(math.hypot(point[0] - east, point[1] - north) <= radius + margin for east, north, radius in larger)
    ]
    return max(reached, default=-math.inf)


def own_farthest(disc: Disc) -> Offset:
    east, north, radius = disc
    away = math.hypot(east, north)
    if away == 0:
        return radius, 0.0
    return east + east / away * radius, north + north / away * radius


def crossings(one: Disc, other: Disc) -> tuple[Offset, ...]:
    """Where the edges of two discs meet; nothing if one holds the other or they are apart."""
    small, large = (one, other) if one[2] <= other[2] else (other, one)
    east, north = large[0] - small[0], large[1] - small[1]
    apart = math.hypot(east, north)
    if apart == 0:
        return ()
    # Measured from the smaller disc, because there rounding weighs least.
    along = ((apart - large[2]) * (apart + large[2]) + small[2] * small[2]) / (2 * apart)
    across_squared = (small[2] - along) * (small[2] + along)
    if across_squared < 0:
        return ()
    across = math.sqrt(across_squared)
    east, north = east / apart, north / apart
    foot = small[0] + east * along, small[1] + north * along
    return (
        (foot[0] - north * across, foot[1] + east * across),
        (foot[0] + north * across, foot[1] - east * across),
    )


# Boxes: the evaluator compares their coordinates one by one, so intervals of them are exact.

Sides: TypeAlias = tuple[Domain, Domain]


def within(narrow: Sides, wide: Sides) -> bool:
    return narrow[0].within(wide[0]) and narrow[1].within(wide[1])


def sides_of(area: Area) -> list[Sides]:
    """The box as intervals of x and y; across the date line it is two of them."""
    assert isinstance(area.shape, Box)
    low, high = area.shape.low, area.shape.high
    rows = Domain(Kind.NUMBER, Cut(low.y, not area.boundary), Cut(high.y, area.boundary))
    west, east = Cut(low.x, not area.boundary), Cut(high.x, area.boundary)
    if low.x <= high.x:
        return [(Domain(Kind.NUMBER, west, east), rows)]
    return [(Domain(Kind.NUMBER, low=west), rows), (Domain(Kind.NUMBER, high=east), rows)]


def meet_of_boxes(areas: tuple[Area, ...]) -> list[Sides]:
    """What all boxes among the areas have in common."""
    common: list[Sides] = []
    first = True
    for area in areas:
        if not isinstance(area.shape, Box):
            continue
        sides = sides_of(area)
        met = sides if first else [(a[0].meet(b[0]), a[1].meet(b[1])) for a in common for b in sides]
        common = [each for each in met if not each[0].empty and not each[1].empty]
        first = False
    return common


def bounds_of_circle(circle: Circle) -> tuple[Point, Point]:
    centre, radius = circle.centre, circle.radius_m
    margin = SQUARED_MIN_M + MARGIN * (abs(centre.x) + abs(centre.y) + radius)
    reach = radius + margin
    return Point(centre.x - reach, centre.y - reach), Point(centre.x + reach, centre.y + reach)


def bounds_of_corners(corners: tuple[Point, ...]) -> tuple[Point, Point]:
    xs, ys = [corner.x for corner in corners], [corner.y for corner in corners]
    margin = MARGIN * (max(xs) - min(xs) + max(ys) - min(ys) + max(map(abs, xs + ys)))
    return Point(min(xs) - margin, min(ys) - margin), Point(max(xs) + margin, max(ys) + margin)


def bounds_in_box(box: Box, bounds: tuple[Point, Point]) -> bool:
    low, high = bounds
    if not (box.low.y < low.y and high.y < box.high.y):
        return False
    if box.low.x <= box.high.x:
        return box.low.x < low.x and high.x < box.high.x
    return box.low.x < low.x or high.x < box.high.x


# Corners.


def corners_of(shape: Box | Polygon, space: Space) -> tuple[Point, ...]:
    """Corners whose convex hull holds the shape; none for one across the date line, which is in two places."""
    match shape:
        case Polygon(corners):
            return () if isinstance(space, Earth) and beyond_date_line(corners) else corners
        case Box(low, high):
            return (low, Point(high.x, low.y), high, Point(low.x, high.y)) if low.x <= high.x else ()


def corners_in_circle(circle: Circle, corners: tuple[Point, ...]) -> bool:
    if not corners:
        return False
    space = Plane()
    reach = max(space.distance_m(circle.centre, corner) for corner in corners)
    return reach <= circle.radius_m * (1 - MARGIN)


def depth_in_polygon(outline: tuple[Point, ...], points: tuple[Point, ...]) -> float:
    """How far inside a convex outline all the points lie, a little less than more; 0 if it is not convex."""
    if not points or not convex(outline):
        return 0.0
    depth = math.inf
    turn = math.copysign(1.0, signed_area(outline))
    for start, end in zip(outline, (*outline[1:], outline[0]), strict=True):
        east, north = end.x - start.x, end.y - start.y
        length = math.hypot(east, north)
        if length == 0:
            continue
        for point in points:
            left = (east * (point.y - start.y) - north * (point.x - start.x)) / length * turn
            depth = min(depth, left - MARGIN * (abs(point.x - start.x) + abs(point.y - start.y) + length))
    return depth


def convex(outline: tuple[Point, ...]) -> bool:
    """Whether the outline always turns the same way, and only once around."""
    turned = 0.0
    signs = set()
    for index, c in enumerate(outline):
        a, b = outline[index - 2], outline[index - 1]
        cross = (b.x - a.x) * (c.y - b.y) - (b.y - a.y) * (c.x - b.x)
        dot = (b.x - a.x) * (c.x - b.x) + (b.y - a.y) * (c.y - b.y)
        if cross == 0 and dot <= 0:
            return False  # a corner twice in a row, or a way straight back
        turned += math.atan2(cross, dot)
        if cross != 0:
            signs.add(cross > 0)
    return len(signs) == 1 and abs(turned) < 3 * math.pi
