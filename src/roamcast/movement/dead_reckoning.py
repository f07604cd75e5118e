"""Dead reckoning (L4): a client reports only positions that its broker cannot predict from the last report.

Both sides know the last report, and so where the broker has the client at any time. A fix is
told when the client is further than `tolerance_m` from there, or would be by the next fix if both go on as they do;
and at the latest `report_s` after the last one while the client moves. A client that stands still reports it once.

A state machine without a clock: time is what fixes say.
"""

import math

from msgspec.structs import replace

from roamcast.model.space import Space
from roamcast.model.values import BadValue, Point
from roamcast.movement.fix import Fix

TOLERANCE_M = 1.0
"""Below what a receiver is right by, so that it makes no difference that could be measured."""
REPORT_S = 60.0


class DeadReckoning:
    def __init__(self, space: Space, tolerance_m: float = TOLERANCE_M, report_s: float = REPORT_S) -> None:
        if not 0 <= tolerance_m < math.inf:
            raise BadValue(f"tolerance_m: {tolerance_m} is not a distance; give metres, or 0 to report every change")
        if not report_s > 0:
            raise BadValue(f"report_s: {report_s} is not a time; give seconds above 0")
        self._space = space
        self._tolerance_m = tolerance_m
        self._report_us = report_s * 1e6
        self._told: Fix | None = None
        self._seen_us: int | None = None

    def told(self, fix: Fix | None, took_s: float = 0.0) -> None:
        """The broker knows this, and goes on from it since it came there, which may be `took_s` after the fix; None:
        it does not know a place."""
        self._told = fix if fix is None else replace(fix, at_us=fix.at_us + round(took_s * 1e6))

    def is_news(self, fix: Fix) -> bool:
        """Whether the broker is to be told; of each fix once, in their order."""
        told, seen_us = self._told, self._seen_us
        self._seen_us = fix.at_us
        if told is None or seen_us is None:
            return True
        if is_moving(told) and fix.at_us - told.at_us >= self._report_us:
            return True
        next_us = fix.at_us + max(0, fix.at_us - seen_us)
        return self._differ(told, fix, fix.at_us) or self._differ(told, fix, next_us)

    def _differ(self, told: Fix, fix: Fix, at_us: int) -> bool:
        one, other = self._at(told, at_us), self._at(fix, at_us)
        return one != other and not self._space.within(one, other, self._tolerance_m)

    def _at(self, fix: Fix, at_us: int) -> Point:
        """Where a broker has it that was told this fix."""
        velocity, seconds = fix.velocity, (at_us - fix.at_us) / 1e6
        if velocity is None or not seconds:
            return fix.point
        return self._space.moved(fix.point, velocity.east * seconds, velocity.north * seconds)


def is_moving(fix: Fix) -> bool:
    velocity = fix.velocity
    return velocity is not None and velocity.speed > 0
