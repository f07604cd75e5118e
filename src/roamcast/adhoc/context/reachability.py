"""Reachability regions (C10): where a publisher or subscriber will be for a while, and when to tell a new one.

A region is a square around the position predicted for the middle of its time. The prediction never goes so far that
the host is within the safe distance of the boundary when it starts, and never beyond the host's destination.
"""

import math

from roamcast.adhoc.neighbours import rounded
from roamcast.model.context import Context
from roamcast.model.region import Box, Shape, placed, rectangle
from roamcast.model.space import Space


def reachability_region(me: Context, side_m: float, safe_m: float, period_s: float, space: Space) -> Shape:
    """Of a host whose context is of now, and has a position."""
    assert me.position is not None
    east_m = north_m = 0.0
    if me.velocity is not None and me.velocity.speed > 0:
        ahead_m = min(me.velocity.speed * period_s / 2, side_m / 2 - safe_m)
        if me.destination is not None:
            ahead_m = min(ahead_m, space.distance_m(me.position, me.destination))
        east_m = me.velocity.east / me.velocity.speed * ahead_m
        north_m = me.velocity.north / me.velocity.speed * ahead_m
    return placed(rectangle(side_m, side_m), rounded(space.moved(me.position, east_m, north_m), space), space)


def leaves_after_s(region: Shape, me: Context, safe_m: float, space: Space) -> float:
    """In how many seconds a host comes within the safe distance of the region's boundary if it goes on as it does; 0
    if it is there already, infinity if it never does."""
    assert me.position is not None
    if not isinstance(region, Box):
        # A square that a pole left no area of: the periodic refresh has to do.
        return math.inf
    from_west_m, from_south_m = space.offset_m(region.low, me.position)
    to_east_m, to_north_m = space.offset_m(me.position, region.high)
    east, north = (0.0, 0.0) if me.velocity is None else (me.velocity.east, me.velocity.north)
    first_s = math.inf
    for room_m, speed in ((from_west_m, -east), (to_east_m, east), (from_south_m, -north), (to_north_m, north)):
        if room_m < safe_m * 0.999:
            return 0.0
        if speed > 0:
            first_s = min(first_s, (room_m - safe_m) / speed)
    return max(0.0, first_s)
