"""Where a straight way passes the border of a region, against shapely in the plane and dense sampling on Earth."""

import math
from itertools import pairwise

import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.region import Box, Circle, Polygon, Shape, contains
from roamcast.model.space import Earth, Plane
from roamcast.model.values import Point
from roamcast.model.way import Way, pieces, to_border_m
from tests.effort import examples
from tests.model.test_region import for_shapely, grid_points, shapes

PLANE, EARTH = Plane(), Earth()
L_SHAPE = Polygon((Point(0, 0), Point(4, 0), Point(4, 2), Point(2, 2), Point(2, 4), Point(0, 4)))


def inside_share(way: Way, shape: Shape, space: Plane | Earth = PLANE) -> float:
    found = [*pieces(way, shape, space), (1.0, False)]
    return sum(until - share for (share, inside), (until, _) in pairwise(found) if inside)


@examples(600)
@given(shapes, grid_points, grid_points)
def test_as_much_of_a_way_is_inside_as_shapely_says(shape: Shape, start: Point, end: Point) -> None:
    way = Way(start, end)
    line = shapely.LineString([(start.x, start.y), (end.x, end.y)])
    length = math.hypot(end.x - start.x, end.y - start.y)
    if length == 0:
        assert pieces(way, shape, PLANE) == [(0.0, contains(shape, start, PLANE))]
    elif not along_an_edge(line, shape):
        tolerance = 0.03 if isinstance(shape, Circle) else 1e-9
        common = line.intersection(for_shapely(shape)).length
        assert inside_share(way, shape) * length == pytest.approx(common, abs=tolerance)


def along_an_edge(line: shapely.Geometry, shape: Shape) -> bool:
    """Then rounding decides on which side the way is."""
    return not isinstance(shape, Circle) and line.intersection(for_shapely(shape).boundary).length > 0


@examples(300)
@given(shapes, grid_points, grid_points)
def test_pieces_alternate_and_end_as_the_way_does(shape: Shape, start: Point, end: Point) -> None:
    found = pieces(Way(start, end), shape, PLANE)
    assert all(one[1] != other[1] for one, other in pairwise(found))
    assert found[0] == (0.0, contains(shape, start, PLANE))
    assert found[-1][1] == contains(shape, end, PLANE)


def test_a_way_through_the_notch_of_an_l_leaves_and_comes_back() -> None:
    found = pieces(Way(Point(1, 3.5), Point(3.5, 1)), L_SHAPE, PLANE)
    assert [inside for _, inside in found] == [True, False, True]
    assert [share for share, _ in found] == pytest.approx([0.0, 0.4, 0.6])


def test_a_way_that_only_touches_is_not_inside() -> None:
    assert pieces(Way(Point(-5, 1), Point(5, 1)), Circle(Point(0, 0), 1), PLANE) == [(0.0, False)]


def test_a_way_that_ends_on_the_border_is_inside_there() -> None:
    assert pieces(Way(Point(-5, 0), Point(-1, 0)), Circle(Point(0, 0), 1), PLANE) == [(0.0, False), (1.0, True)]


@examples(200)
@given(
    st.floats(-179, 179), st.floats(-80, 80), st.floats(50, 5_000),
    st.tuples(*[st.floats(-8_000, 8_000)] * 4),
)  # fmt: skip
def test_on_earth_a_circle_is_passed_where_the_distance_is_its_radius(
    longitude: float, latitude: float, radius_m: float, ends: tuple[float, float, float, float]
) -> None:
    centre = Point(longitude, latitude)
    way = Way(EARTH.moved(centre, ends[0], ends[1]), EARTH.moved(centre, ends[2], ends[3]), 10_000_000)
    found = pieces(way, Circle(centre, radius_m), EARTH)
    for share, _ in found[1:]:
        assert EARTH.distance_m(centre, way.at(share, EARTH)) == pytest.approx(radius_m, abs=0.5)
    for number in range(101):
        place = way.at(number / 100, EARTH)
        here = [inside for share, inside in found if share <= number / 100][-1]
        off_m = EARTH.distance_m(centre, place) - radius_m
        assert here == (off_m <= 0) or abs(off_m) < 0.5


@pytest.mark.parametrize(
    "shape",
    [
        Box(Point(179.9, -1), Point(-179.9, 1)),
        Polygon((Point(179.9, -1), Point(180.1, -1), Point(180.1, 1), Point(179.9, 1))),
    ],
)
def test_a_way_over_the_date_line_passes_both_sides(shape: Shape) -> None:
    found = pieces(Way(Point(179.8, 0.5), Point(-179.8, 0.5)), shape, EARTH)
    assert [inside for _, inside in found] == [False, True, False]
    assert [share for share, _ in found] == pytest.approx([0.0, 0.25, 0.75])


def test_a_way_across_an_ocean_meets_a_small_circle() -> None:
    way = Way(Point(-60, 10), Point(0, 10), 8 * 3600 * 1_000_000)
    found = pieces(way, Circle(Point(-31, 10.01), 5_000), EARTH)
    assert [inside for _, inside in found] == [False, True, False]


@examples(300)
@given(shapes, grid_points)
def test_the_border_is_as_far_as_shapely_says(shape: Shape, point: Point) -> None:
    border = for_shapely(shape).boundary.distance(shapely.Point(point.x, point.y))
    assert abs(to_border_m(shape, point, PLANE)) == pytest.approx(border, abs=0.01)
    assert (to_border_m(shape, point, PLANE) <= 0) == contains(shape, point, PLANE)


def test_the_border_on_earth_is_in_metres() -> None:
    box = Box(Point(24, 60), Point(25, 61))
    point = EARTH.moved(Point(24, 60.5), -300, 0)
    assert to_border_m(box, point, EARTH) == pytest.approx(300, rel=1e-3)
