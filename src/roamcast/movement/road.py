"""Vehicles on a straight road with lanes both ways, and vehicles that follow given routes (S13, section 5.2).

`Road` is free flow: every vehicle keeps to its lane and to the speed it drew, and vehicles do not hinder each other.
The lanes of the two directions lie on either side of the middle line, which runs east from `origin`; traffic keeps to
the right. Lanes are numbered eastbound first, each direction from the middle outwards.

`Routes` is what the Dublin intersection needs: each `Route` is a lane of an approach as a polyline, with the times at
which vehicles enter at its first point; a vehicle runs it at constant speed and leaves at its last. Vehicles are
absent before and after. `entries_during` gives entry times for vehicles that pass a traffic light while it is green.
"""

import math
import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from roamcast.model.values import Point
from roamcast.movement.legs import FOREVER_US, Leg, absent, from_zero, moving
from roamcast.movement.params import (
    Model,
    Pair,
    Span,
    Speed,
    check_count,
    check_index,
    check_length,
    check_pair,
    check_span,
    check_speed,
    drawn_mps,
    drawn_us,
    microseconds,
    point_of,
)

MILE_PER_HOUR_MPS = 0.44704


class Road(Model, frozen=True, tag="road"):
    """Host number i drives in lane i modulo the number of lanes.

    At the end of the road a vehicle wraps around (it jumps to the start of its lane), re-enters there after it was
    away for `away_s`, or leaves for good. Vehicles that wrap around are spread over the road from the beginning;
    otherwise they enter one after the other, `headway_s` apart in each lane.
    """

    length_m: float
    speed_mps: tuple[Speed, ...]
    """One for all lanes, or one for each; a vehicle draws from its lane's range at each pass."""
    eastbound_lanes: int = 1
    westbound_lanes: int = 1
    lane_width_m: float = 3.5
    at_end: Literal["wrap", "reenter", "leave"] = "wrap"
    headway_s: float = 2.0
    away_s: Span = 10.0
    origin: Pair = (0.0, 0.0)

    def __post_init__(self) -> None:
        check_length("road: length_m", self.length_m)
        check_length("road: lane_width_m", self.lane_width_m)
        check_count("road: eastbound_lanes", self.eastbound_lanes, least=0)
        check_count("road: westbound_lanes", self.westbound_lanes, least=0)
        check_count("road: eastbound_lanes and westbound_lanes together", self.lanes)
        if len(self.speed_mps) not in (1, self.lanes):
            raise ValueError(
                f"road: speed_mps has {len(self.speed_mps)} entries for {self.lanes} lanes; "
                "give one for all or one for each"
            )
        for speed in self.speed_mps:
            check_speed("road: speed_mps", speed)
        check_span("road: headway_s", self.headway_s)
        check_span("road: away_s", self.away_s, least_us=1)
        check_pair("road: origin", self.origin)

    @property
    def lanes(self) -> int:
        return self.eastbound_lanes + self.westbound_lanes

    def lane_ends(self, lane: int) -> tuple[Point, Point]:
        """Where a lane begins and ends, in the direction of its traffic."""
        west, east = self.origin[0], self.origin[0] + self.length_m
        if lane < self.eastbound_lanes:
            y = self.origin[1] - (lane + 0.5) * self.lane_width_m
            return Point(west, y), Point(east, y)
        y = self.origin[1] + (lane - self.eastbound_lanes + 0.5) * self.lane_width_m
        return Point(east, y), Point(west, y)

    def legs(self, rng: random.Random, index: int, count: int) -> Iterator[Leg]:
        check_index(index, count)
        place, lane = divmod(index, self.lanes)
        speed = self.speed_mps[lane if len(self.speed_mps) > 1 else 0]
        if self.at_end == "wrap":
            vehicles = math.ceil((count - lane) / self.lanes)
            return self._round_and_round(rng, lane, speed, (place + rng.random()) / vehicles)
        return self._pass_by_pass(rng, lane, speed, place * microseconds(self.headway_s))

    def _round_and_round(self, rng: random.Random, lane: int, speed: Speed, share: float) -> Iterator[Leg]:
        begin, end = self.lane_ends(lane)
        leg = moving(0, Point(begin.x + (end.x - begin.x) * share, begin.y), end, drawn_mps(rng, speed))
        yield leg
        while True:
            leg = replace(moving(leg.end_us, begin, end, drawn_mps(rng, speed)), jumps=True)
            yield leg

    def _pass_by_pass(self, rng: random.Random, lane: int, speed: Speed, entry_us: int) -> Iterator[Leg]:
        begin, end = self.lane_ends(lane)
        if entry_us > 0:
            yield absent(0, entry_us, begin)
        while True:
            leg = moving(entry_us, begin, end, drawn_mps(rng, speed))
            yield leg
            if self.at_end == "leave":
                yield absent(leg.end_us, FOREVER_US, end)
                return
            entry_us = leg.end_us + drawn_us(rng, self.away_s)
            # Away, it already counts as standing where it will appear, so the jump is while nobody sees it.
            yield replace(absent(leg.end_us, entry_us, begin), jumps=True)


class Route(Struct, frozen=True, forbid_unknown_fields=True):
    """A way through the plane, and the times at which vehicles enter it."""

    name: str
    points: tuple[Pair, ...]
    speed_mps: Speed
    entries_s: tuple[float, ...] = ()
    """A time before 0 is that of a vehicle that is already under way when the simulation starts."""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("route: give it a name")
        if len(self.points) < 2:
            raise ValueError(f"route '{self.name}': {len(self.points)} points; give at least two")
        for pair in self.points:
            check_pair(f"route '{self.name}': a point", pair)
        for before, after in pairwise(self.points):
            if before == after:
                raise ValueError(f"route '{self.name}': point {list(before)} is given twice in a row")
        check_speed(f"route '{self.name}': speed_mps", self.speed_mps)
        for entry_s in self.entries_s:
            if not abs(entry_s) <= FOREVER_US / 1e6:
                raise ValueError(f"route '{self.name}': entries_s has {entry_s}; give finite seconds")

    @property
    def length_m(self) -> float:
        return sum(math.dist(before, after) for before, after in pairwise(self.points))


class Routes(Model, frozen=True, tag="routes"):
    """One host for each entry: first those of the first route in their order, then those of the second, and so on."""

    routes: tuple[Route, ...]

    def __post_init__(self) -> None:
        check_count("routes: entries of all routes together", self.vehicles)

    @property
    def vehicles(self) -> int:
        return sum(len(route.entries_s) for route in self.routes)

    def entry_of(self, index: int) -> tuple[Route, int]:
        """The route of vehicle number `index`, and when it enters it."""
        left = index
        for route in self.routes:
            if left < len(route.entries_s):
                return route, microseconds(route.entries_s[left])
            left -= len(route.entries_s)
        raise ValueError(f"routes: host number {index}, but only {self.vehicles} vehicles enter")

    def legs(self, rng: random.Random, index: int, count: int) -> Iterator[Leg]:
        check_index(index, count)
        route, entry_us = self.entry_of(index)
        return from_zero(self._passage(route, entry_us, drawn_mps(rng, route.speed_mps)))

    def _passage(self, route: Route, entry_us: int, speed_mps: float) -> Iterator[Leg]:
        points = [point_of(pair) for pair in route.points]
        if entry_us > 0:
            yield absent(0, entry_us, points[0])
        now_us = entry_us
        for start, to in pairwise(points):
            leg = moving(now_us, start, to, speed_mps, destination=points[-1])
            yield leg
            now_us = leg.end_us
        yield absent(now_us, FOREVER_US, points[-1])


def entries_during(
    green_from_s: float, green_until_s: float, vehicles: int, light_at_m: float, speed_mps: float
) -> tuple[float, ...]:
    """When `vehicles` must enter a route to pass its light, `light_at_m` along it, evenly over the green phase."""
    if green_until_s <= green_from_s:
        raise ValueError(f"a green phase from {green_from_s} s to {green_until_s} s lets nobody pass")
    check_speed("entries during green: speed_mps", speed_mps)
    way_s = light_at_m / speed_mps
    share_s = (green_until_s - green_from_s) / vehicles
    return tuple(round(green_from_s + (n + 0.5) * share_s - way_s, 6) for n in range(vehicles))
