"""Regions (S2, C11): containment, bounds, growth and overlap, against shapely in the plane and geodesics on Earth."""

import itertools
import math

import pytest
import shapely
from hypothesis import assume, given
from hypothesis import strategies as st
from pyproj import Geod

from roamcast.model.region import (
    Anchored,
    Box,
    Circle,
    Polygon,
    Shape,
    anchored_contains,
    bounds,
    check_region,
    contains,
    grown,
    intersects,
    placed,
    rectangle,
    strictly_contains,
)
from roamcast.model.space import Earth, Plane
from roamcast.model.values import BadValue, Point
from tests.effort import examples

PLANE, EARTH = Plane(), Earth()
GEOD = Geod(ellps="WGS84")

small = st.integers(-6, 6)
grid_points = st.builds(Point, small, small)
grid_circles = st.builds(Circle, grid_points, st.integers(1, 5))


@st.composite
def grid_boxes(draw: st.DrawFn) -> Box:
    x, y = draw(small), draw(small)
    return Box(Point(x, y), Point(x + draw(st.integers(1, 6)), y + draw(st.integers(1, 6))))


@st.composite
def simple_polygons(draw: st.DrawFn) -> Polygon:
    """Any corners, joined in the order of their angle around the middle: simple, mostly concave, in either sense."""
    corners = draw(st.lists(st.tuples(small, small), min_size=3, max_size=8, unique=True))
    x = sum(corner[0] for corner in corners) / len(corners) + 0.123
    y = sum(corner[1] for corner in corners) / len(corners) + 0.0456
    corners.sort(key=lambda corner: math.atan2(corner[1] - y, corner[0] - x))
    if draw(st.booleans()):
        corners.reverse()
    outline = shapely.Polygon(corners)
    assume(outline.is_valid and outline.area > 0)
    return Polygon(tuple(Point(*corner) for corner in corners))


shapes = grid_circles | grid_boxes() | simple_polygons()


def for_shapely(shape: Shape) -> shapely.Geometry:
    """Circles as polygons of 512 corners, a little smaller than they are."""
    match shape:
        case Circle(centre, radius_m):
            return shapely.Point(centre.x, centre.y).buffer(radius_m, quad_segs=128)
        case Box(low, high):
            return shapely.box(low.x, low.y, high.x, high.y)
        case Polygon(corners):
            return shapely.Polygon([(corner.x, corner.y) for corner in corners])


# Containment.

L_SHAPE = Polygon((Point(0, 0), Point(4, 0), Point(4, 2), Point(2, 2), Point(2, 4), Point(0, 4)))


@examples(600)
@given(grid_boxes() | simple_polygons(), grid_points)
def test_boxes_and_polygons_contain_what_shapely_covers(shape: Box | Polygon, point: Point) -> None:
    """Integer corners and points: edges and vertices are hit exactly, and often."""
    outline, there = for_shapely(shape), shapely.Point(point.x, point.y)
    assert contains(shape, point, PLANE) == outline.covers(there)
    assert strictly_contains(shape, point, PLANE) == outline.contains(there)


@examples(200)
@given(grid_circles, grid_points)
def test_circles_contain_what_is_within_their_radius(circle: Circle, point: Point) -> None:
    squared = (circle.centre.x - point.x) ** 2 + (circle.centre.y - point.y) ** 2
    assert contains(circle, point, PLANE) == (squared <= circle.radius_m**2)
    assert strictly_contains(circle, point, PLANE) == (squared < circle.radius_m**2)


def test_a_concave_polygon_excludes_its_notch() -> None:
    assert contains(L_SHAPE, Point(1, 3), PLANE)
    assert not contains(L_SHAPE, Point(3, 3), PLANE)


def test_the_boundary_belongs_to_a_region_but_not_strictly() -> None:
    for edge in (Point(2, 3), Point(4, 2), Point(2, 2), Point(0, 0), Point(3, 0)):
        assert contains(L_SHAPE, edge, PLANE)
        assert not strictly_contains(L_SHAPE, edge, PLANE)


def test_the_sense_of_a_polygon_does_not_matter() -> None:
    turned = Polygon(tuple(reversed(L_SHAPE.corners)))
    for x, y in itertools.product(range(-1, 6), repeat=2):
        assert contains(L_SHAPE, Point(x, y), PLANE) == contains(turned, Point(x, y), PLANE)


TOUCHING = Polygon((Point(0, 0), Point(4, 4), Point(8, 0), Point(8, 8), Point(4, 4), Point(0, 8)))
BOW_TIE = Polygon((Point(0, 0), Point(6, 6), Point(6, 2), Point(0, 8)))


@pytest.mark.parametrize("polygon", [TOUCHING, BOW_TIE])
def test_an_outline_that_touches_or_crosses_itself_is_read_by_the_even_odd_rule(polygon: Polygon) -> None:
    taken_apart = shapely.make_valid(for_shapely(polygon))
    for x, y in itertools.product(range(-1, 10), repeat=2):
        assert contains(polygon, Point(x, y), PLANE) == taken_apart.covers(shapely.Point(x, y))


@pytest.mark.parametrize("polygon", [TOUCHING, BOW_TIE])
def test_an_outline_that_touches_or_crosses_itself_grows_and_meets_others(polygon: Polygon) -> None:
    wider = grown(polygon, 1.0, PLANE)
    for x, y in itertools.product(range(-1, 10), repeat=2):
        point = Point(x, y)
        if contains(polygon, point, PLANE):
            assert contains(wider, Point(x + 0.7, y - 0.7), PLANE)
            assert intersects(polygon, Circle(point, 0.1), PLANE)
            assert intersects(polygon, Box(point, Point(x + 0.1, y + 0.1)), PLANE)
    assert not intersects(polygon, Circle(Point(4, 7.5), 0.5), PLANE)


# What is refused.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Circle(Point(0, 0), 0), "encloses no area"),
        (lambda: Circle(Point(0, 0), -5), "encloses no area"),
        (lambda: Circle(Point(0, 0), math.nan), "encloses no area"),
        (lambda: Circle(Point(0, 0), math.inf), "encloses no area"),
        (lambda: Circle(Point(math.nan, 0), 1), "not a position"),
        (lambda: Box(Point(0, 0), Point(0, 5)), "encloses no area"),
        (lambda: Box(Point(0, 5), Point(5, 0)), "encloses no area"),
        (lambda: Box(Point(0, math.inf), Point(5, 9)), "not a position"),
        (lambda: Polygon((Point(0, 0), Point(1, 1))), "2 corners; give 3 to 1000"),
        (lambda: Polygon(tuple(Point(i, i * i) for i in range(1_001))), "1001 corners"),
        (lambda: Polygon((Point(0, 0), Point(1, 1), Point(2, 2))), "encloses no area"),
        (lambda: Polygon((Point(0, 0), Point(2, 2), Point(2, 0), Point(0, 2))), "equal halves"),
        (lambda: Polygon((Point(0, 0), Point(2, math.nan), Point(2, 0))), "not a position"),
        (lambda: Anchored(Circle(Point(0, 0), 5), ""), "name of the host"),
        (lambda: Anchored(Circle(Point(0, 0), 5), "a", Point(0, math.nan)), "not a position"),
        (lambda: Anchored(Circle(Point(0, 2e8), 5), "a"), "beyond 100000000 m"),
        (lambda: Anchored(Box(Point(5, 0), Point(-5, 9)), "a"), "only on Earth"),
        (lambda: grown(L_SHAPE, -1, PLANE), "cannot grow"),
        (lambda: grown(L_SHAPE, math.nan, PLANE), "cannot grow"),
        (lambda: check_region(Box(Point(170, 0), Point(-170, 5)), PLANE), "only on Earth"),
        (lambda: check_region(Circle(Point(0, 91), 5), EARTH), "not a position on Earth"),
        (lambda: check_region(Box(Point(0, 0), Point(181, 5)), EARTH), "not a position on Earth"),
        (lambda: check_region(Polygon((Point(0, 0), Point(200, 0), Point(0, 5))), EARTH), "not a position on Earth"),
    ],
)
def test_a_region_that_cannot_be_is_refused_with_the_reason(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(BadValue, match=message):
        make()


def test_regions_that_lie_in_their_space_pass() -> None:
    check_region(Box(Point(170, 0), Point(-170, 5)), EARTH)
    check_region(Circle(Point(1e6, 1e6), 5), PLANE)
    check_region(L_SHAPE, EARTH)
    check_region(Anchored(Circle(Point(0, 5_000), 5), "a"), EARTH)


# Bounds and growth.


@examples(400)
@given(shapes, grid_points)
def test_bounds_hold_the_shape_in_the_plane(shape: Shape, point: Point) -> None:
    if contains(shape, point, PLANE):
        assert contains(bounds(shape, PLANE), point, PLANE)


@examples(400)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e5), st.sampled_from([-1, 1]), st.integers(-2, 2))
def test_bounds_hold_a_circle_to_the_last_bit(x: float, radius_m: float, sign: int, steps: int) -> None:
    edge = x + sign * radius_m
    for _ in range(abs(steps)):
        edge = math.nextafter(edge, math.inf if steps > 0 else -math.inf)
    circle = Circle(Point(x, 0), radius_m)
    if contains(circle, Point(edge, 0), PLANE):
        assert contains(bounds(circle, PLANE), Point(edge, 0), PLANE)


@examples(600)
@given(shapes, st.floats(0.01, 5), st.floats(0, 1), st.floats(0, math.tau), st.floats(0, 1))
def test_grown_holds_all_within_the_margin_in_the_plane(
    shape: Shape, margin_m: float, along: float, angle: float, share: float
) -> None:
    """C11. From any point of the boundary, in any direction, up to the margin."""
    edge = for_shapely(shape).boundary.interpolate(along, normalized=True)
    reach_m = share * margin_m * 0.999_999
    point = Point(edge.x + reach_m * math.cos(angle), edge.y + reach_m * math.sin(angle))
    assert contains(grown(shape, margin_m, PLANE), point, PLANE)


@examples(120)
@given(shapes, grid_points)
def test_grown_is_not_much_larger_than_the_margin(shape: Shape, point: Point) -> None:
    far = for_shapely(shape).distance(shapely.Point(point.x, point.y)) > 5 * 0.5 * math.sqrt(2)
    if far:
        assert not contains(grown(shape, 0.5, PLANE), point, PLANE)


def test_growing_by_nothing_changes_nothing() -> None:
    assert grown(L_SHAPE, 0, EARTH) is L_SHAPE


latitudes = st.floats(-89, 89) | st.floats(88, 90) | st.sampled_from([0.0, 89.999, -89.999])
longitudes = st.floats(-180, 180) | st.sampled_from([179.999, -179.999, 180.0, -180.0])
places = st.builds(Point, longitudes, latitudes)
earth_boxes = st.builds(
    lambda low, width, height: Box(low, Point((low.x + width + 180) % 360 - 180, min(90.0, low.y + height))),
    st.builds(Point, longitudes, st.floats(-89, 88.9)),
    st.floats(0.001, 350),
    st.floats(0.001, 30),
)


def at_bearing(origin: Point, bearing: float, metres: float) -> Point:
    longitude, latitude, _ = GEOD.fwd(origin.x, origin.y, bearing, metres)
    return Point(longitude, latitude)


@examples(600)
@given(places, st.floats(0.01, 500_000), st.floats(0, 360), st.floats(0.9, 1))
def test_bounds_hold_a_circle_on_earth(centre: Point, radius_m: float, bearing: float, share: float) -> None:
    circle = Circle(centre, radius_m)
    point = at_bearing(centre, bearing, radius_m * share)
    if contains(circle, point, EARTH):
        assert contains(bounds(circle, EARTH), point, EARTH)


@examples(600)
@given(earth_boxes, st.floats(1, 50_000), st.tuples(st.floats(0, 1), st.floats(0, 1)), st.floats(0, 360))
def test_grown_holds_all_within_the_margin_of_a_box_on_earth(
    box: Box, margin_m: float, share: tuple[float, float], bearing: float
) -> None:
    """C11, with boxes across the date line and up to the poles."""
    width = (box.high.x - box.low.x) % 360
    x = (box.low.x + share[0] * width + 180) % 360 - 180
    inside = Point(x, box.low.y + share[1] * (box.high.y - box.low.y))
    assume(contains(box, inside, EARTH))
    assert contains(grown(box, margin_m, EARTH), at_bearing(inside, bearing, margin_m * 0.999_9), EARTH)


def test_the_whole_world_grown_is_the_whole_world() -> None:
    world = Box(Point(-180, -90), Point(180, 90))
    assert grown(world, 1_000, EARTH) == world
    band = grown(Box(Point(-180, 10), Point(180, 20)), 1_000, EARTH)
    assert contains(band, Point(0, 20.005), EARTH)


@examples(400)
@given(
    simple_polygons(),
    places,
    st.sampled_from([100.0, 5_000.0]),
    st.floats(0, 1),
    st.floats(0, 360),
    st.floats(1, 9_000),
)
def test_grown_holds_all_within_the_margin_of_a_polygon_on_earth(
    polygon: Polygon, naval: Point, scale: float, along: float, bearing: float, margin_m: float
) -> None:
    """C11, for polygons of some hundred metres to some sixty kilometres, across the date line too."""
    in_metres = Polygon(tuple(Point(corner.x * scale, corner.y * scale) for corner in polygon.corners))
    there = placed(in_metres, naval, EARTH)
    assume(isinstance(there, Polygon) and max(abs(corner.y) for corner in there.corners) < 89.9)
    edge = for_shapely(there).boundary.interpolate(along, normalized=True)
    point = at_bearing(Point((edge.x + 180) % 360 - 180, edge.y), bearing, margin_m * 0.999_9)
    assert contains(grown(there, margin_m, EARTH), point, EARTH)


def test_a_polygon_with_too_many_corners_to_grow_becomes_its_grown_bounds() -> None:
    star = Polygon(
        tuple(
            Point(radius * math.cos(i * math.tau / 1_000), radius * math.sin(i * math.tau / 1_000))
            for i in range(1_000)
            for radius in ((1_000.0,) if i % 2 else (100.0,))
        )
    )
    wider = grown(star, 0.01, PLANE)
    assert all(contains(wider, Point(corner.x + 0.005, corner.y - 0.005), PLANE) for corner in star.corners)


# Overlap.


@examples(800)
@given(shapes, shapes)
def test_regions_meet_in_the_plane_as_shapely_says(a: Shape, b: Shape) -> None:
    """Exact for boxes and polygons; with a circle by its centre's distance from the other."""
    match a, b:
        case Circle(), Circle():
            squared = (a.centre.x - b.centre.x) ** 2 + (a.centre.y - b.centre.y) ** 2
            expected = squared <= (a.radius_m + b.radius_m) ** 2
        case (Circle() as circle, other) | (other, Circle() as circle):
            gap = for_shapely(other).distance(shapely.Point(circle.centre.x, circle.centre.y))
            # That a slanted side just touches, either may round away.
            assume(abs(gap - circle.radius_m) > 1e-9 or (isinstance(other, Box) and float(gap).is_integer()))
            expected = gap <= circle.radius_m
        case _:
            expected = for_shapely(a).intersects(for_shapely(b))
    assert intersects(a, b, PLANE) == expected
    assert intersects(b, a, PLANE) == expected


@examples(200)
@given(earth_boxes, st.floats(10, 50_000), st.tuples(st.floats(0, 1), st.floats(0, 1)), st.floats(0, 360))
def test_a_circle_meets_a_box_on_earth_whose_point_it_holds(
    box: Box, radius_m: float, share: tuple[float, float], bearing: float
) -> None:
    width = (box.high.x - box.low.x) % 360
    x = (box.low.x + share[0] * width + 180) % 360 - 180
    inside = Point(x, box.low.y + share[1] * (box.high.y - box.low.y))
    assume(contains(box, inside, EARTH) and abs(inside.y) < 80)
    circle = Circle(at_bearing(inside, bearing, radius_m * 0.995), radius_m)
    assert intersects(circle, box, EARTH)
    assert intersects(box, circle, EARTH)


GERMANY = Box(Point(5.9, 47.3), Point(15.0, 55.1))
GERMANY_AS_POLYGON = Polygon((Point(5.9, 47.3), Point(15.0, 47.3), Point(15.0, 55.1), Point(5.9, 55.1)))


@pytest.mark.parametrize("country", [GERMANY, GERMANY_AS_POLYGON])
@pytest.mark.parametrize(
    ("longitude", "expected"), [(5.898, True), (5.896, False), (10.0, True), (15.002, True), (15.004, False)]
)
def test_a_small_circle_meets_a_large_region_exactly_at_its_edge(
    country: Box | Polygon, longitude: float, expected: bool
) -> None:
    """A degree of longitude is 69.9 km there: 140 m and 280 m from the edge, half-way up a side of 870 km."""
    assert intersects(Circle(Point(longitude, 51.2), 200.0), country, EARTH) is expected


def test_regions_meet_across_the_date_line() -> None:
    west = Box(Point(179, -1), Point(180, 1))
    across = Box(Point(179.5, -1), Point(-179.5, 1))
    circle = Circle(Point(-179.999, 0), 500.0)
    polygon = placed(Polygon(rectangle_corners(20_000)), Point(179.99, 0), EARTH)
    assert intersects(circle, west, EARTH)
    assert intersects(circle, across, EARTH)
    assert intersects(circle, polygon, EARTH)
    assert intersects(west, across, EARTH)
    assert intersects(polygon, Box(Point(-179.99, -1), Point(-179.5, 1)), EARTH)
    assert not intersects(polygon, Box(Point(-179.8, -1), Point(-179.5, 1)), EARTH)
    assert not intersects(circle, Box(Point(0, -1), Point(179, 1)), EARTH)


def rectangle_corners(side_m: float) -> tuple[Point, ...]:
    half = side_m / 2
    return (Point(-half, -half), Point(half, -half), Point(half, half), Point(-half, half))


def test_a_box_across_the_date_line_holds_both_of_its_sides() -> None:
    across = Box(Point(179, -1), Point(-179, 1))
    assert contains(across, Point(179.5, 0), EARTH)
    assert contains(across, Point(-179.5, 0), EARTH)
    assert not contains(across, Point(0, 0), EARTH)
    assert strictly_contains(across, Point(180, 0), EARTH)
    assert not strictly_contains(across, Point(179, 0), EARTH)


# Anchored regions (S2).


def test_s2_an_anchored_region_is_where_its_naval_is() -> None:
    ahead = Anchored(rectangle(20, 100), "car", reference=Point(0, -50))
    assert anchored_contains(ahead, Point(1_000, 0), Point(1_000, 100), PLANE)
    assert not anchored_contains(ahead, Point(1_000, 0), Point(1_000, -1), PLANE)
    assert placed(ahead.shape, Point(1_000, 0), PLANE, ahead.reference) == Box(Point(990, 0), Point(1_010, 100))


@examples(400)
@given(shapes, grid_points, grid_points, grid_points)
def test_s2_asked_in_metres_or_placed_an_anchored_region_is_the_same_in_the_plane(
    shape: Shape, reference: Point, naval: Point, point: Point
) -> None:
    region = Anchored(shape, "a", reference)
    fixed = placed(shape, naval, PLANE, reference)
    assert anchored_contains(region, naval, point, PLANE) == contains(fixed, point, PLANE)


@examples(400)
@given(shapes, st.builds(Point, longitudes, st.floats(-80, 80)), st.floats(-800, 800), st.floats(-800, 800))
def test_s2_asked_in_metres_or_placed_an_anchored_region_is_the_same_on_earth(
    shape: Shape, naval: Point, east_m: float, north_m: float
) -> None:
    """But for half a metre at the edge of a region of a kilometre; date line included."""
    scaled = scaled_by(shape, 100.0)
    gap_m = for_shapely(scaled).boundary.distance(shapely.Point(east_m, north_m))
    assume(gap_m > 0.5)
    point = EARTH.moved(naval, east_m, north_m)
    expected = contains(scaled, Point(east_m, north_m), PLANE)
    assert anchored_contains(Anchored(scaled, "a"), naval, point, EARTH) == expected
    assert contains(placed(scaled, naval, EARTH), point, EARTH) == expected


def scaled_by(shape: Shape, factor: float) -> Shape:
    def scaled(point: Point) -> Point:
        return Point(point.x * factor, point.y * factor)

    match shape:
        case Circle(centre, radius_m):
            return Circle(scaled(centre), radius_m * factor)
        case Box(low, high):
            return Box(scaled(low), scaled(high))
        case Polygon(corners):
            return Polygon(tuple(scaled(corner) for corner in corners))


@examples(200)
@given(
    shapes, st.sampled_from([1e-12, 1.0, 1e5]), places | st.builds(Point, longitudes, st.sampled_from([90.0, -90.0]))
)
def test_placing_never_fails_not_even_at_a_pole(shape: Shape, factor: float, naval: Point) -> None:
    scaled = scaled_by(shape, factor)
    placed(scaled, naval, EARTH)
    placed(scaled, Point(naval.x * 1e15, naval.y * 1e15), PLANE)
    anchored_contains(Anchored(scaled, "a"), naval, Point(0, 0), EARTH)
    bounds(Circle(naval, 1e-12), EARTH)
    bounds(Circle(Point(naval.x * 1e15, naval.y * 1e15), 1e-12), PLANE)


def test_a_small_polygon_far_from_the_origin_keeps_its_area() -> None:
    """Ten centimetres in degrees at 170 east: less than the rounding of the coordinates' products."""
    assert isinstance(placed(Polygon(rectangle_corners(0.1)), Point(170.123, 60.456), EARTH), Polygon)


def test_s2_a_polygon_placed_across_the_date_line_lies_on_earth() -> None:
    triangle = Polygon((Point(-300, -300), Point(300, -300), Point(0, 300)))
    for longitude in (179.9999, -179.9999):
        check_region(placed(triangle, Point(longitude, 10), Earth()), Earth())
    with pytest.raises(BadValue):
        check_region(Polygon((Point(540, 0), Point(541, 0), Point(540, 1))), Earth())
