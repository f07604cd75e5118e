"""How a simulated host moves: straight legs and rests, one after the other (M2, S10).

A host's way through the plane is a sequence of `Leg`s, each with a constant velocity, so its position at any
microsecond is computed and never stepped. A leg reaches from `start_us` up to, not including, `end_us`; the next one
begins exactly there, at the exact point the trip was to reach: rounding never adds up. Where a leg does *not* begin
where the last one ended (a road that wraps around, a gap in a recorded trace) it says so with `jumps`. While a host
is not there at all (a vehicle before it enters, or after it left) its legs have `present` false.

A `Mobility` is one model with its parameters and serves many hosts. `legs(rng, index, count)` is the way of host
number `index` out of the `count` that move by it: models that place hosts in a pattern (a grid, lanes, a recorded
trace) use the numbers, the others only `rng`. Each host is given its own generator; models keep none. A `Track`
follows the legs of one host.
"""

import math
import random
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from roamcast.model.context import Context
from roamcast.model.values import FOREVER_US as FOREVER_US
from roamcast.model.values import Point, Value, Velocity

AT_REST = Velocity(0.0, 0.0)

PAST_KEPT_US = 2_000_000
"""A `Track` remembers the legs of the last two seconds before its current one."""

PAST_LEGS_MAX = 1_024
"""At most so many of them, however short they are."""


class Leg(Struct, frozen=True):
    """One straight stretch, or a rest."""

    start_us: int
    end_us: int
    """Exclusive; the next leg starts exactly here."""
    start: Point
    velocity: Velocity
    """Zero while resting."""
    destination: Point
    """Where the current trip goes (M2); equals `start` while resting at it."""
    pause_us: int = 0
    """How long the host rests at the trip's destination."""
    pause_left_us: int = 0
    """At `start_us`: how long it still rests; 0 while it moves."""
    present: bool = True
    """False while the host is not there: `start` is then where it will appear, or where it was last."""
    jumps: bool = False
    """Whether this leg starts somewhere else than the last one ended."""

    def __post_init__(self) -> None:
        if self.end_us <= self.start_us:
            raise ValueError(f"a leg from {self.start_us} µs to {self.end_us} µs takes no time")

    @property
    def resting(self) -> bool:
        return self.velocity.east == 0 and self.velocity.north == 0

    def position_at(self, now_us: int) -> Point:
        """Where the host is, in the same arithmetic as `Context.position_at`, so that both agree to the last bit."""
        if now_us == self.start_us or self.resting:
            return self.start
        seconds = (now_us - self.start_us) / 1e6
        return Point(self.start.x + self.velocity.east * seconds, self.start.y + self.velocity.north * seconds)

    def pause_left_at(self, now_us: int) -> int:
        return max(0, self.pause_left_us - (now_us - self.start_us))


class Mobility(Protocol):
    """What every model of movement offers."""

    def legs(self, rng: random.Random, index: int, count: int) -> Iterator[Leg]:
        """The legs of host number `index` of `count`: contiguous from 0, endless or ending with a leg whose
        `end_us` is `FOREVER_US`. The same generator state, index and count give the same legs."""
        ...


class Track:
    """Follows one host along its legs.

    Asking forward in time is cheap and needs only the current leg. The legs of a short time before it are kept, so
    that one may look ahead and come back; asking for anything before those is an error.
    """

    def __init__(self, legs: Iterable[Leg]) -> None:
        self._coming = iter(legs)
        self._past: deque[Leg] = deque(maxlen=PAST_LEGS_MAX)
        first = next(self._coming, None)
        if first is None or first.start_us != 0:
            raise ValueError("a track needs a first leg that starts at 0 µs")
        self._current = first

    def leg_at(self, now_us: int) -> Leg:
        while now_us >= self._current.end_us:
            self._advance(now_us)
        if now_us >= self._current.start_us:
            return self._current
        for leg in reversed(self._past):
            if now_us >= leg.start_us:
                return leg
        raise ValueError(f"{now_us} µs lies before the legs that the track still remembers")

    def position_at(self, now_us: int) -> Point:
        """Where the host is; while it is absent, where it will appear or was last."""
        return self.leg_at(now_us).position_at(now_us)

    def present_at(self, now_us: int) -> bool:
        return self.leg_at(now_us).present

    def context_at(self, now_us: int, host: str, attributes: dict[str, Value]) -> Context:
        """The host's context; an absent host has neither position nor motion."""
        leg = self.leg_at(now_us)
        if not leg.present:
            return Context(host=host, at_us=now_us, attributes=attributes)
        return Context(
            host=host,
            position=leg.position_at(now_us),
            at_us=now_us,
            velocity=leg.velocity,
            destination=leg.destination,
            pause_us=leg.pause_us,
            pause_left_us=leg.pause_left_at(now_us),
            attributes=attributes,
        )

    def _advance(self, now_us: int) -> None:
        following = next(self._coming, None)
        if following is None:
            raise ValueError(f"no leg at {now_us} µs: the last one ends at {self._current.end_us} µs")
        if following.start_us != self._current.end_us:
            raise ValueError(
                f"a leg ends at {self._current.end_us} µs, the next one starts at {following.start_us} µs"
            )
        self._past.append(self._current)
        self._current = following
        while self._past and self._past[0].end_us <= following.start_us - PAST_KEPT_US:
            self._past.popleft()


def travel_us(start: Point, to: Point, speed_mps: float) -> int:
    """How long the straight way takes, at least 1 µs."""
    return max(1, round(math.hypot(to.x - start.x, to.y - start.y) / speed_mps * 1e6))


def velocity_between(start: Point, to: Point, duration_us: int) -> Velocity:
    seconds = duration_us / 1e6
    return Velocity((to.x - start.x) / seconds, (to.y - start.y) / seconds)


def moving(
    start_us: int, start: Point, to: Point, speed_mps: float, destination: Point | None = None, pause_us: int = 0
) -> Leg:
    """The leg straight from `start` to `to`, on a trip to `destination` (or to `to`) with a rest of `pause_us` there.

    The time is rounded to a microsecond and the velocity made to fit it, so the leg ends at `to`.
    """
    duration_us = travel_us(start, to, speed_mps)
    return Leg(
        start_us=start_us,
        end_us=start_us + duration_us,
        start=start,
        velocity=velocity_between(start, to, duration_us),
        destination=destination or to,
        pause_us=pause_us,
    )


def resting(start_us: int, at: Point, duration_us: int) -> Leg:
    """A rest of known length."""
    return Leg(start_us, start_us + duration_us, at, AT_REST, at, pause_us=duration_us, pause_left_us=duration_us)


def resting_forever(start_us: int, at: Point) -> Leg:
    return resting(start_us, at, FOREVER_US - start_us)


def absent(start_us: int, end_us: int, at: Point) -> Leg:
    """A time during which the host is not there."""
    return Leg(start_us, end_us, at, AT_REST, at, present=False)


def from_zero(legs: Iterable[Leg]) -> Iterator[Leg]:
    """The legs from time 0 on; what lies before is dropped, and a leg that reaches across 0 is cut there."""
    for leg in legs:
        if leg.end_us <= 0:
            continue
        if leg.start_us >= 0:
            yield leg
        else:
            yield replace(leg, start_us=0, start=leg.position_at(0), pause_left_us=leg.pause_left_at(0), jumps=False)
