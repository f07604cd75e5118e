"""Places and circles in metres in which straight distance decides.

A plane has such metres already. On Earth they are the earth-centred ones of `model.space`: the model's distance is
the chord between two points bent back to an arc, so "within r" is "within the chord of r", with neither poles nor a
date line to mind. Sines differ in their last bit from one library to the next, so a chord within a micrometre of the
limit is left to the model's own arithmetic; all others are certain.

`around` gives a circle that holds a region. It says whether it *is* the region; otherwise it only leaves out what is
out for certain.
"""

import math

import numpy as np
from msgspec import Struct

from roamcast.matching.layout import UNSURE_M, UNSURE_SHARE, Doubles
from roamcast.model.context import Configuration
from roamcast.model.region import Anchored, Box, Circle, Polygon, Region
from roamcast.model.space import (
    ECCENTRICITY_SQUARED,
    EQUATOR_RADIUS_M,
    MEAN_RADIUS_M,
    Earth,
    Plane,
    Space,
    cartesian_m,
)
from roamcast.model.values import BadValue, Point

DEGREE_NORTH_MAX_M = 111_700.0
DEGREE_EAST_MAX_M = 111_330.0
"""Just over the longest degrees of latitude (111 694 m, at a pole) and longitude (111 320 m, at the equator)."""


class Around(Struct, frozen=True):
    """A circle, its centre as the space counts and its radius in straight metres."""

    centre: Point
    reach_m: float
    exact: bool


def check_space(space: Space) -> None:
    if not isinstance(space, Plane | Earth):
        raise BadValue(f"the matching engine knows the plane and the Earth, not {type(space).__name__}")


def is_flat(space: Space) -> bool:
    return isinstance(space, Plane)


def straight(point: Point, space: Space) -> tuple[float, float, float]:
    return (point.x, point.y, 0.0) if is_flat(space) else cartesian_m(point)


def straight_columns(x: Doubles, y: Doubles, space: Space) -> tuple[Doubles, Doubles, Doubles]:
    """As `straight`, but for the last bit."""
    if is_flat(space):
        return x, y, np.zeros(len(x))
    longitude, latitude = np.radians(x), np.radians(y)
    sine, cosine = np.sin(latitude), np.cos(latitude)
    normal = EQUATOR_RADIUS_M / np.sqrt(1 - ECCENTRICITY_SQUARED * sine * sine)
    return (
        normal * cosine * np.cos(longitude),
        normal * cosine * np.sin(longitude),
        normal * (1 - ECCENTRICITY_SQUARED) * sine,
    )


def reach_of(radius_m: float, space: Space) -> float:
    """The straight distance that a radius is."""
    if is_flat(space):
        return radius_m
    half_turn = radius_m / (2 * MEAN_RADIUS_M)
    return math.inf if half_turn >= math.pi / 2 else 2 * MEAN_RADIUS_M * math.sin(half_turn)


def loosened(reach_m: float) -> float:
    """A little more, so that rounding leaves nothing out."""
    return reach_m * (1 + UNSURE_SHARE) + UNSURE_M


def around_shape(shape: Circle | Box | Polygon, space: Space) -> Around | None:
    """A circle that holds a fixed shape; None if none does."""
    match shape:
        case Circle(centre, radius_m):
            return Around(centre, reach_of(radius_m, space), exact=True)
        case Box(low, high):
            if low.x > high.x:
                return None
            return hull(low.x, low.y, high.x, high.y, space)
        case Polygon(corners):
            xs, ys = [corner.x for corner in corners], [corner.y for corner in corners]
            return hull(min(xs), min(ys), max(xs), max(ys), space)


def hull(west: float, south: float, east: float, north: float, space: Space) -> Around | None:
    centre = Point(west + (east - west) / 2, south + (north - south) / 2)
    width, height = (east - west) / 2, (north - south) / 2
    # On Earth the way along the meridian and then along the parallel is longer than the straight line.
    reach_m = math.hypot(width, height) if is_flat(space) else width * DEGREE_EAST_MAX_M + height * DEGREE_NORTH_MAX_M
    # An edge far from the origin is rounded by as much as it is far.
    rounding_m = 1e-12 * max(map(abs, (west, south, east, north))) * (1.0 if is_flat(space) else DEGREE_NORTH_MAX_M)
    reach_m = loosened(reach_m + rounding_m)
    return Around(centre, reach_m, exact=False) if math.isfinite(reach_m) else None


def around(region: Region, configuration: Configuration) -> Around | None:
    """A circle that holds a region as it lies now, or None. The host of an anchored one has a position."""
    space = configuration.space
    if not isinstance(region, Anchored):
        return around_shape(region, space)
    naval = configuration.contexts[region.host].position
    assert naval is not None
    shape, reference = region.shape, region.reference
    if isinstance(shape, Circle):
        centre = space.moved(naval, shape.centre.x - reference.x, shape.centre.y - reference.y)
        return Around(centre, reach_of(shape.radius_m, space), exact=True)
    # On Earth the metres of an anchored box are those of `offset_m`, which are no distances far away.
    if not is_flat(space):
        return None
    corners = shape.corners if isinstance(shape, Polygon) else (shape.low, shape.high)
    east_m = max(abs(corner.x - reference.x) for corner in corners)
    north_m = max(abs(corner.y - reference.y) for corner in corners)
    reach_m = math.hypot(east_m, north_m) + 1e-12 * max(abs(naval.x), abs(naval.y))
    return Around(naval, loosened(reach_m), exact=False)
