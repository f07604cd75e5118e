"""How far a point is from a region: what greedy forwarding makes smaller with every hop (C8)."""

import math
from functools import cache

from roamcast.model.region import Box, Circle, Polygon, Shape, bounds, contains, nearest_in_box
from roamcast.model.space import Plane, Space
from roamcast.model.values import Point


def distance_to_m(shape: Shape, point: Point, space: Space) -> float:
    """Metres from `point` to the nearest point of the region; 0 inside and on its boundary."""
    if type(shape) is Box and type(space) is Plane:
        low, high = shape.low, shape.high
        x, y = point.x, point.y
        dx = low.x - x if x < low.x else x - high.x if x > high.x else 0.0
        dy = low.y - y if y < low.y else y - high.y if y > high.y else 0.0
        return math.sqrt(dx * dx + dy * dy) if dx or dy else 0.0
    if isinstance(shape, Circle):
        return max(0.0, space.distance_m(shape.centre, point) - shape.radius_m)
    if contains(shape, point, space):
        return 0.0
    if isinstance(shape, Box):
        return space.distance_m(point, nearest_in_box(shape, point, space))
    return distance_to_outline_m(shape, point, space)


class SenderDistance:
    """How far the sender of a frame is from the region that its message goes to.

    In a simulation all who hear a frame are given the same value, one after the other, and ask the same: the last
    answer is known by the identity of what was asked.
    """

    __slots__ = ("_distance_m", "_position", "_shape", "_space")

    def __init__(self, space: Space) -> None:
        self._space = space
        self._shape: Shape | None = None
        self._position: Point | None = None
        self._distance_m = 0.0

    def of(self, shape: Shape, position: Point) -> float:
        if position is not self._position or shape is not self._shape:
            self._distance_m = distance_to_m(shape, position, self._space)
            self._shape, self._position = shape, position
        return self._distance_m


@cache
def sender_distance_of(space: Space) -> SenderDistance:
    """One for all nodes of a space."""
    return SenderDistance(space)


def distance_to_outline_m(polygon: Polygon, point: Point, space: Space) -> float:
    corners = [space.offset_m(point, corner) for corner in polygon.corners]
    return min(distance_to_segment(a, b) for a, b in zip(corners, corners[1:] + corners[:1], strict=True))


def distance_to_segment(a: tuple[float, float], b: tuple[float, float]) -> float:
    """From the origin to the segment between `a` and `b`."""
    east, north = b[0] - a[0], b[1] - a[1]
    squared = east * east + north * north
    share = 0.0 if squared == 0 else max(0.0, min(1.0, -(a[0] * east + a[1] * north) / squared))
    return math.hypot(a[0] + share * east, a[1] + share * north)


def farthest_m(shape: Shape, point: Point, space: Space) -> float:
    """Metres from `point` to the farthest corner of a box around the region: within this, all of it is heard."""
    if isinstance(shape, Circle):
        return space.distance_m(shape.centre, point) + shape.radius_m
    box = bounds(shape, space)
    corners = (box.low, box.high, Point(box.low.x, box.high.y), Point(box.high.x, box.low.y))
    return max(space.distance_m(point, corner) for corner in corners)
