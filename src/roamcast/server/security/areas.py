"""Whether a region lies wholly within an area; never a wrong yes, since it decides who may publish into it.

`model.filter.enclosure` has most of it. On Earth it claims nothing about circles among boxes and polygons, so here a
circle stands for the box around it, and a box or polygon is in a circle if its corners are, by enough that its edges,
which are straight in longitude and latitude and so bent on the ground, cannot leave it.
"""

import math

from roamcast.model.filter.enclosure import Area, encloses
from roamcast.model.region import Box, Circle, Polygon, Shape, bounds
from roamcast.model.space import MEAN_RADIUS_M, Earth, Space
from roamcast.model.values import Point

LATITUDE_MAX = 80.0
"""Beyond it edges are bent so much that nothing is claimed."""
REACH_MAX_M = 1_000_000.0
"""Up to which size the bend of an edge is what `bend_m` says."""


def lies_within(area: Shape, region: Shape, space: Space) -> bool:
    if encloses(Area(area), (Area(region),), space):
        return True
    if not isinstance(space, Earth):
        return False
    match area, region:
        case ((Box() | Polygon()), Circle()):
            return encloses(Area(area), (Area(bounds(region, space)),), space)
        case Circle(), Box(low, high):
            if low.x > high.x:
                return False
            corners = (low, Point(high.x, low.y), high, Point(low.x, high.y))
            return corners_well_within(area, corners, space)
        case Circle(), Polygon(corners):
            return corners_well_within(area, corners, space)
        case _:
            return False


def corners_well_within(circle: Circle, corners: tuple[Point, ...], space: Space) -> bool:
    farthest_m = max(space.distance_m(circle.centre, corner) for corner in corners)
    poleward = max(abs(corner.y) for corner in corners)
    if poleward > LATITUDE_MAX or farthest_m > REACH_MAX_M or circle.radius_m > REACH_MAX_M:
        return False
    return farthest_m + bend_m(2 * farthest_m, poleward) < circle.radius_m


def bend_m(length_m: float, latitude: float) -> float:
    """By how much at most an edge of this length leaves the shortest way between its ends.

    An arc of curvature k leaves its chord by k l² / 8. A parallel has the curvature tan(latitude) / R, other lines
    that are straight in degrees have less than twice that; twice more is for the flattening of the Earth.
    """
    return length_m**2 * math.tan(math.radians(latitude)) / (2 * MEAN_RADIUS_M)
