"""Random waypoint, the model of papers C, M and O: rest, choose a destination and a speed, go there, again.

A process begins with a pause (M, section II). Destinations are even over the area or, with `candidate_half_m`, over
the square around the host that M calls its candidate area. Speeds are even between two bounds *per trip*; since slow
trips last longer, hosts seen at one moment are slower than that: without pauses their mean speed goes to
(max - min) / ln(max / min). A run that starts at the beginning of the process drifts towards this for a long time;
`warm_up_s` lets the process run so long before time 0. A least speed of 0 has no such state at all: the mean speed
goes to 0 and the network freezes, so it is refused.
"""

import random
from collections.abc import Iterator

from roamcast.model.values import Point
from roamcast.movement.legs import Leg, from_zero, moving, resting
from roamcast.movement.params import (
    Model,
    Pair,
    Span,
    check_index,
    check_length,
    check_pair,
    check_span,
    check_speed,
    drawn_us,
    microseconds,
    point_of,
)


class RandomWaypoint(Model, frozen=True, tag="random-waypoint"):
    """The area reaches from (0, 0) to (`width_m`, `height_m`)."""

    width_m: float
    height_m: float
    speed_min_mps: float
    speed_max_mps: float
    pause_s: Span = 0.0
    warm_up_s: float = 0.0
    candidate_half_m: float | None = None
    """Destinations lie at most so far east, west, north and south of the host; None: anywhere in the area."""
    start: Pair | None = None
    """Where every host begins; None: anywhere in the area."""

    def __post_init__(self) -> None:
        check_length("random waypoint: width_m", self.width_m)
        check_length("random waypoint: height_m", self.height_m)
        if self.speed_min_mps == 0:
            raise ValueError(
                "random waypoint: speed_min_mps is 0, with which hosts slow down for ever and the model freezes; "
                "give a speed above 0"
            )
        check_speed("random waypoint: speed_min_mps to speed_max_mps", (self.speed_min_mps, self.speed_max_mps))
        check_span("random waypoint: pause_s", self.pause_s)
        check_span("random waypoint: warm_up_s", self.warm_up_s)
        if self.candidate_half_m is not None:
            check_length("random waypoint: candidate_half_m", self.candidate_half_m)
        if self.start is not None:
            check_pair("random waypoint: start", self.start)
            if not (0 <= self.start[0] <= self.width_m and 0 <= self.start[1] <= self.height_m):
                raise ValueError(
                    f"random waypoint: start {list(self.start)} is outside the area of "
                    f"{self.width_m} m by {self.height_m} m"
                )

    def legs(self, rng: random.Random, index: int, count: int) -> Iterator[Leg]:
        check_index(index, count)
        return from_zero(self._process(rng))

    def _process(self, rng: random.Random) -> Iterator[Leg]:
        now_us = -microseconds(self.warm_up_s)
        here = self._somewhere(rng) if self.start is None else point_of(self.start)
        pause_us = drawn_us(rng, self.pause_s)
        while True:
            if pause_us:
                yield resting(now_us, here, pause_us)
                now_us += pause_us
            to = self._destination(rng, here)
            speed_mps = rng.uniform(self.speed_min_mps, self.speed_max_mps)
            pause_us = drawn_us(rng, self.pause_s)
            leg = moving(now_us, here, to, speed_mps, pause_us=pause_us)
            yield leg
            now_us, here = leg.end_us, to

    def _somewhere(self, rng: random.Random) -> Point:
        return Point(rng.uniform(0.0, self.width_m), rng.uniform(0.0, self.height_m))

    def _destination(self, rng: random.Random, here: Point) -> Point:
        reach_m = self.candidate_half_m
        if reach_m is None:
            return self._somewhere(rng)
        return Point(
            rng.uniform(max(0.0, here.x - reach_m), min(self.width_m, here.x + reach_m)),
            rng.uniform(max(0.0, here.y - reach_m), min(self.height_m, here.y + reach_m)),
        )
