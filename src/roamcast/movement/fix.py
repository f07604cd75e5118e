"""The interface of location sources: `Fix`, one position at one time, and `Source`, which yields them (L4).

A `Source` gives fixes as they come, raw: what is wrong with them is for `clean` to find. Times are microseconds since
1970 of this host's clock, positions are those of the model's spaces (metres east and north on a `Plane`, longitude
and latitude on `Earth`), headings are degrees clockwise from north.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

from roamcast.clock import SteadyClock
from roamcast.model.values import Point, Velocity


class BadSource(ValueError):
    """A source that cannot be had; the message says what was asked for and what is possible."""


class Fix(Struct, frozen=True):
    at_us: int
    position: tuple[float, float]
    speed_mps: float | None = None
    heading_deg: float | None = None
    accuracy_m: float | None = None
    """Within how many metres the source believes it is right."""

    @property
    def point(self) -> Point:
        return Point(*self.position)

    @property
    def velocity(self) -> Velocity | None:
        """None unless it is known how fast and where to; who stands still goes nowhere."""
        if self.speed_mps == 0:
            return Velocity(0.0, 0.0)
        if self.speed_mps is None or self.heading_deg is None:
            return None
        heading = math.radians(self.heading_deg)
        return Velocity(self.speed_mps * math.sin(heading), self.speed_mps * math.cos(heading))


class Source(Protocol):
    def fixes(self) -> AsyncIterator[Fix]:
        """From now on, until the source has no more; each call begins anew."""
        ...


class Clock(Protocol):
    """The time that a source plays by: a test has one that does not make it wait."""

    def now_us(self) -> int: ...
    async def until(self, at_us: int) -> None:
        """Returns at once if that is over."""
        ...


class HostClock:
    """The clock of this host: setting it does not stop what plays by it."""

    def __init__(self) -> None:
        self.now_us = SteadyClock().now_us

    async def until(self, at_us: int) -> None:
        # Always through the event loop, so that a source which is late lets others have their turn.
        await asyncio.sleep(max(0, at_us - self.now_us()) / 1e6)


def heading_of(east: float, north: float) -> float:
    return math.degrees(math.atan2(east, north)) % 360.0
