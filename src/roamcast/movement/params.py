"""What the parameters of all models of movement share: their base, spans of time, and checks with clear words.

A model is a frozen struct that a scenario decodes from TOML; `kind` says which. Places in parameters are plain pairs
of metres (`[120.0, 40.0]`), times are seconds, and a time that varies is a pair of least and most. Inside, movement
is in whole microseconds.
"""

import math
import random
from typing import TypeAlias

from msgspec import Struct

from roamcast.model.values import FOREVER_US, Point

SPEED_MIN_MPS = 0.001
"""A millimetre a second: slower than this is standing still."""

COORDINATE_MAX_M = 1e8
"""Beyond this a double no longer keeps positions exact to a micrometre over a leg."""

Pair: TypeAlias = tuple[float, float]
"""A place in metres, east and north."""

Span: TypeAlias = float | tuple[float, float]
"""A time in seconds: fixed, or drawn evenly between two bounds, both included."""

Speed: TypeAlias = float | tuple[float, float]
"""Metres per second: fixed, or drawn evenly between two bounds."""


class Model(Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """Base of all models' parameters."""


def point_of(pair: Pair) -> Point:
    return Point(float(pair[0]), float(pair[1]))


def microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


def bounds_us(span: Span) -> tuple[int, int]:
    low, high = span if isinstance(span, tuple) else (span, span)
    return microseconds(low), microseconds(high)


def speed_bounds_of(speed: Speed) -> tuple[float, float]:
    return speed if isinstance(speed, tuple) else (speed, speed)


def drawn_us(rng: random.Random, span: Span) -> int:
    return rng.randint(*bounds_us(span)) if isinstance(span, tuple) else microseconds(span)


def drawn_mps(rng: random.Random, speed: Speed) -> float:
    return rng.uniform(*speed) if isinstance(speed, tuple) else speed


def check_length(what: str, metres: float) -> None:
    if not 0 < metres <= COORDINATE_MAX_M:
        raise ValueError(f"{what} is {metres}; give metres above 0 and at most {COORDINATE_MAX_M:.0f}")


def check_pair(what: str, pair: Pair) -> None:
    if not all(math.isfinite(metres) and abs(metres) <= COORDINATE_MAX_M for metres in pair):
        raise ValueError(f"{what} is {list(pair)}; give two finite numbers within ±{COORDINATE_MAX_M:.0f} m")


def check_span(what: str, span: Span, least_us: int = 0) -> None:
    low, high = span if isinstance(span, tuple) else (span, span)
    if not (least_us / 1e6 <= low <= high <= FOREVER_US / 1e6):
        least = f"{least_us} µs" if least_us else "0"
        raise ValueError(f"{what} is {span}; give seconds of at least {least}, or a pair of those, the smaller first")


def check_speed(what: str, speed: Speed) -> None:
    low, high = speed_bounds_of(speed)
    if not (SPEED_MIN_MPS <= low <= high and math.isfinite(high)):
        raise ValueError(
            f"{what} is {speed}; give metres per second of at least {SPEED_MIN_MPS}, "
            "or a pair of those, the smaller first"
        )


def check_count(what: str, number: int, least: int = 1) -> None:
    if number < least:
        raise ValueError(f"{what} is {number}; give at least {least}")


def check_index(index: int, count: int) -> None:
    if not 0 <= index < count:
        raise ValueError(f"host number {index} of {count}: numbers go from 0 to one below the count")
