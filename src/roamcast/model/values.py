"""What an attribute can hold, and the one notion of "same kind" that every evaluator of a filter shares.

STEAM's event content (S1) has six types: integer, double, string, boolean, time and position. A filter compares
only values of one *kind*; integers and doubles are one kind, `number`, and compare as IEEE doubles everywhere
(Python, numpy, Spark), which is why an integer that a double cannot hold exactly is refused at the door.
"""

import math
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

INTEGER_LIMIT = 2**53
"""The largest magnitude of an integer attribute: beyond it a double skips integers."""

TEXT_LIMIT_CHARS = 65_536
NAME_CHARS_MAX = 128
FOREVER_US = 2**53
"""The end of time, 285 years on: the last integer that journals and doubles hold exactly."""

SPEED_LIMIT_M_PER_S = 299_792_458.0
"""That of light; a host carried forward with a speed below it stays at finite coordinates."""


class Point(Struct, frozen=True, array_like=True, tag="p"):
    """A place: metres east and north on a `Plane`, longitude and latitude in degrees on `Earth`."""

    x: float
    y: float


class Velocity(Struct, frozen=True, array_like=True, tag="v"):
    """Metres per second, east and north, in either space."""

    east: float
    north: float

    @property
    def speed(self) -> float:
        return math.hypot(self.east, self.north)


class Instant(Struct, frozen=True, array_like=True, tag="t", order=True):
    """A moment: microseconds since 1970 UTC, or since the start of a simulation."""

    us: int


Value: TypeAlias = bool | int | float | str | Instant | Point


class Kind(StrEnum):
    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    TIME = "time"
    POSITION = "position"


class BadValue(ValueError):
    """A value that cannot be an attribute; the message says why and what is allowed."""


KINDS: dict[type, Kind] = {
    bool: Kind.BOOLEAN,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    str: Kind.TEXT,
    Instant: Kind.TIME,
    Point: Kind.POSITION,
}


def kind_of(value: Value) -> Kind:
    kind = KINDS.get(type(value))
    return other_kind_of(value) if kind is None else kind


def other_kind_of(value: Value) -> Kind:
    """Of what is none of these types itself, but a kind of one: a number of numpy's, say."""
    # bool before int: in Python True is an integer, in a filter it never is.
    if isinstance(value, bool):
        return Kind.BOOLEAN
    if isinstance(value, int | float):
        return Kind.NUMBER
    if isinstance(value, str):
        return Kind.TEXT
    if isinstance(value, Instant):
        return Kind.TIME
    return Kind.POSITION


def check_value(name: str, value: object) -> None:
    """Raises `BadValue` unless `value` can be an attribute called `name`."""
    match value:
        case bool():
            return
        case int():
            if abs(value) > INTEGER_LIMIT:
                raise BadValue(f"attribute '{name}': {value} is beyond ±2^53, the exact integers of a double")
        case float():
            if not math.isfinite(value):
                raise BadValue(f"attribute '{name}': {value} is not a finite number")
        case str():
            if len(value) > TEXT_LIMIT_CHARS:
                raise BadValue(f"attribute '{name}': text of {len(value)} characters, at most {TEXT_LIMIT_CHARS}")
            if not is_unicode(value):
                raise BadValue(f"attribute '{name}': text with half a surrogate pair, which UTF-8 cannot hold")
        case Instant():
            if abs(value.us) > INTEGER_LIMIT:
                raise BadValue(f"attribute '{name}': instant {value.us} µs is beyond ±2^53")
        case Point():
            check_point(value, f"attribute '{name}'")
        case _:
            kinds = "integer, double, string, boolean, Instant or Point"
            raise BadValue(f"attribute '{name}': {type(value).__name__} is not one of {kinds}")


def check_point(point: Point, what: str) -> None:
    # Nearly all are what they should be, and every frame of a simulation has two.
    if (
        type(point) is Point
        and type(point.x) is float
        and type(point.y) is float
        and math.isfinite(point.x + point.y)
    ):
        return
    if not isinstance(point, Point) or not is_number(point.x) or not is_number(point.y):
        raise BadValue(f"{what}: {point!r} is not a position; give Point(x, y) with two numbers")
    if not (math.isfinite(point.x) and math.isfinite(point.y)):
        raise BadValue(f"{what}: ({point.x}, {point.y}) is not a position; both coordinates must be finite numbers")


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_velocity(velocity: Velocity, what: str) -> None:
    # Written so that NaN is refused too.
    if not velocity.speed < SPEED_LIMIT_M_PER_S:
        raise BadValue(f"{what}: ({velocity.east}, {velocity.north}) m/s is not a valid velocity: faster than light")


def is_unicode(text: str) -> bool:
    """Whether text can be written as UTF-8; Python's strings may hold halves of surrogate pairs, which cannot."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def check_attributes(attributes: dict[str, Value]) -> None:
    for name, value in attributes.items():
        if not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable():
            raise BadValue(f"attribute name {name!r}; give 1 to {NAME_CHARS_MAX} characters that can be printed")
        if not is_plain(value):
            check_value(name, value)


def is_plain(value: Value) -> bool:
    """Whether there is plainly nothing to say against a value, as against nearly all."""
    if type(value) is Point:
        return type(value.x) is type(value.y) is float and math.isfinite(value.x + value.y)
    if type(value) is int:
        return -INTEGER_LIMIT <= value <= INTEGER_LIMIT
    if type(value) is float:
        return math.isfinite(value)
    return type(value) is str and value.isascii() and len(value) <= TEXT_LIMIT_CHARS
