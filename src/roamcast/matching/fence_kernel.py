"""The compiled kernel of fences: which of them a way may touch.

A way is asked with its middle and half its length. Of the fences whose bounding circle that meets, those are left out
for certain of which the way stays on one side of the border: then nothing has happened that `model/fence.py` would
tell. What is left out by mistake is lost, so every test is loosened; what is kept by mistake is only judged in vain.
"""

import math

import numpy as np

from roamcast.matching.fence_layout import BOX, CIRCLE_FENCE, LOOSE_M, WAY_NUMBERS
from roamcast.matching.kernel import AFTER_LINK, SLOT_LINK, compiled, runs_of, straight
from roamcast.matching.layout import CIRCLE, Doubles, Long, Whole
from roamcast.matching.metric import DEGREE_EAST_MAX_M, DEGREE_NORTH_MAX_M
from roamcast.model.space import ECCENTRICITY_SQUARED, EQUATOR_RADIUS_M


@compiled
def wrapped(longitude: float) -> float:
    if -180 <= longitude <= 180:
        return longitude
    return (longitude + 180) % 360 - 180


@compiled
def scales(latitude: float) -> tuple[float, float]:
    """Metres per degree, east and north."""
    sine = math.sin(math.radians(latitude))
    squared = 1 - ECCENTRICITY_SQUARED * sine * sine
    normal = EQUATOR_RADIUS_M / math.sqrt(squared)
    meridian = normal * (1 - ECCENTRICITY_SQUARED) / squared
    return math.radians(normal * math.cos(math.radians(latitude))), math.radians(meridian)


@compiled
def half_m(west: float, south: float, east: float, north: float, flat: bool) -> float:
    """At least half as long as the way is."""
    if flat:
        return 0.5 * math.hypot(east - west, north - south)
    equatorward = 0.0 if (south < 0) != (north < 0) else min(abs(south), abs(north))
    shrunk = math.cos(math.radians(equatorward)) * 1.004
    along, up = abs(wrapped(east - west)) * DEGREE_EAST_MAX_M, abs(north - south) * DEGREE_NORTH_MAX_M
    return 0.5 * math.hypot(along * min(1.0, shrunk), up)


@compiled
def squared_to_segment(ax: float, ay: float, bx: float, by: float) -> float:
    """From the origin."""
    along_x, along_y = bx - ax, by - ay
    squared = along_x * along_x + along_y * along_y
    share = 0.0
    if squared > 0:
        share = min(1.0, max(0.0, -(ax * along_x + ay * along_y) / squared))
    x, y = ax + share * along_x, ay + share * along_y
    return x * x + y * y


@compiled
def passes_circle(x: float, y: float, radius: float, way: Doubles) -> bool:
    """In the plane: whether the way is neither all inside nor all outside."""
    ax, ay, bx, by = way[0] - x, way[1] - y, way[2] - x, way[3] - y
    inner, outer = radius - LOOSE_M, radius + LOOSE_M
    if inner > 0 and max(ax * ax + ay * ay, bx * bx + by * by) < inner * inner:
        return False
    return squared_to_segment(ax, ay, bx, by) <= outer * outer


@compiled
def may_cross(ax: float, ay: float, bx: float, by: float, half_x: float, half_y: float) -> bool:
    """Whether neither the edge from a to b lies on one side of the line of the way, which goes through the origin,
    nor the way on one side of the line of the edge."""
    loose = LOOSE_M * math.hypot(half_x, half_y)
    one, other = half_x * ay - half_y * ax, half_x * by - half_y * bx
    if (one > loose and other > loose) or (one < -loose and other < -loose):
        return False
    edge_x, edge_y = bx - ax, by - ay
    loose = LOOSE_M * math.hypot(edge_x, edge_y)
    middle, turn = edge_y * ax - edge_x * ay, edge_x * half_y - edge_y * half_x
    one, other = middle - turn, middle + turn
    return not ((one > loose and other > loose) or (one < -loose and other < -loose))


@compiled
def passes_edges(numbers: Doubles, links: Whole, corners: Doubles, way: Doubles, flat: bool) -> bool:
    """Whether the way may cross an edge; all in metres around the middle of the way."""
    across = way[2] - way[0] if flat else wrapped(way[2] - way[0])
    x, y = way[0] + across / 2, (way[1] + way[3]) / 2
    east_m, north_m = (1.0, 1.0) if flat else scales(y)
    half_x, half_y = 0.5 * across * east_m, 0.5 * (way[3] - way[1]) * north_m
    reach_m = math.hypot(half_x, half_y) * 1.000_001 + LOOSE_M
    is_box = links[3] == BOX
    count = 4 if is_box else links[2]
    px, py = numbers[0], numbers[3]
    if not is_box:
        px, py = corners[links[1] + count - 1, 0], corners[links[1] + count - 1, 1]
    turn = 0.0 if flat else 360.0 * round((px - x) / 360.0)
    for index in range(count):
        if is_box:
            qx = numbers[2] if index == 1 or index == 2 else numbers[0]
            qy = numbers[3] if index >= 2 else numbers[1]
        else:
            qx, qy = corners[links[1] + index, 0], corners[links[1] + index, 1]
        ax, ay = (px - turn - x) * east_m, (py - y) * north_m
        bx, by = (qx - turn - x) * east_m, (qy - y) * north_m
        if squared_to_segment(ax, ay, bx, by) <= reach_m * reach_m and may_cross(ax, ay, bx, by, half_x, half_y):
            return True
        px, py = qx, qy
    return False


@compiled
def search_ways(
    first: int,
    ways: Doubles,
    is_first: bool,
    group: int,
    groups: Long,
    sizes_m: Doubles,
    group_links: Whole,
    cells: Whole,
    places: Doubles,
    links: Whole,
    heights: Doubles,
    numbers: Doubles,
    row_links: Whole,
    corners: Doubles,
    flat: bool,
    runs: Long,
    hits: Whole,
) -> tuple[int, int]:
    """The hits (way, fence) of the ways from `first` on: up to which way there was room, and how many they are. With
    `is_first` a way is its end alone, and every fence is a hit that may hold it."""
    count = 0
    for index in range(first, len(ways)):
        complete, way = count, ways[index]
        across = way[2] - way[0] if flat else wrapped(way[2] - way[0])
        # Halfway in coordinates; over the date line that is beyond 180, and the same place.
        x, y, z = straight(way[0] + across / 2, (way[1] + way[3]) / 2, flat)
        reach_m = half_m(way[0], way[1], way[2], way[3], flat) + LOOSE_M
        number = group
        while number >= 0:
            found = runs_of(groups[number], sizes_m[number], CIRCLE, x, y, z, reach_m, cells, runs)
            for run in range(found):
                for at in range(np.uint64(runs[run, 0]), np.uint64(runs[run, 1])):
                    dx, dy = places[at, 0] - x, places[at, 1] - y
                    squared = dx * dx + dy * dy
                    if not flat:
                        squared += (heights[at] - z) * (heights[at] - z)
                    radius = places[at, 2]
                    outer = radius + reach_m
                    if not squared <= outer * outer:
                        continue
                    fence = links[at, SLOT_LINK]
                    if fence < 0:
                        continue
                    if not is_first:
                        if row_links[fence, 3 + WAY_NUMBERS] == CIRCLE_FENCE:
                            inner = radius - reach_m
                            if inner > 0 and squared < inner * inner:
                                continue
                            if flat and not passes_circle(places[at, 0], places[at, 1], radius, way):
                                continue
                        elif not passes_edges(numbers[fence], row_links[fence, WAY_NUMBERS:], corners, way, flat):
                            continue
                    if count >= len(hits):
                        return index, complete
                    hits[count, 0], hits[count, 1] = index, fence
                    count += 1
            number = group_links[number, AFTER_LINK]
    return len(ways), count
