"""The model's values in MQTT: attributes as a JSON object, scopes and filters as user properties.

What is published is any JSON value. Of an object, brokers see as attributes what can be one. A position is `[x, y]`,
as brokers read it, and may be given as a `Point` or a tuple. A moment, an `Instant` or a `datetime` with a zone, is
`{"timestamp": "..."}` as in CQL2: clients read it back, to brokers it is no attribute.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from roamcast.model.filter import BadFilter, Filter, to_text
from roamcast.model.filter.read_terms import timestamp_of
from roamcast.model.filter.write import timestamp
from roamcast.model.region import ORIGIN, Anchored, Box, Circle, Polygon, Region
from roamcast.model.scope import Scope
from roamcast.model.values import BadValue, Instant, Point, Value, check_attributes, check_value

ScopeLike: TypeAlias = Scope | Region | Filter | str
"""A scope, only a place, only a filter over hosts, or the text that the broker is to read."""

ATTRIBUTES = (bool, int, float, str, Instant, Point)
DEPTH_MAX = 100
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


Content: TypeAlias = Mapping[str, Any] | Sequence[Any] | Value | datetime | bytes | None
"""Bytes are sent as they are, anything else as JSON."""


def payload_of(content: Content) -> bytes:
    """Raises `BadValue`."""
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    if isinstance(content, Mapping):
        check_names(content)
        check_attributes({name: value for name, value in content.items() if isinstance(value, ATTRIBUTES)})
    try:
        return _encoder.encode(json_of("content", content))
    except (UnicodeEncodeError, OverflowError) as problem:
        raise BadValue(f"content: {problem}") from None


def check_names(content: Mapping[Any, Any]) -> None:
    for name in content:
        if not isinstance(name, str):
            raise BadValue(f"content: a name is text, and {name!r} is of type {type(name).__name__}")


def json_of(where: str, given: object, depth: int = 0) -> object:
    """As the encoder takes it; `where` says in a mistake which part it is."""
    if depth > DEPTH_MAX:
        raise BadValue(f"{where[:200]}: more than {DEPTH_MAX} values in each other, or one that contains itself")
    match given:
        case None | bool() | str() | int():
            return given
        case float():
            if not math.isfinite(given):
                raise BadValue(f"{where}: {given} is not a number in JSON")
            return given
        case Point() | Instant():
            return plain(given)
        case datetime():
            if given.tzinfo is None:
                raise BadValue(f"{where}: {given} has no zone; give one, as in datetime.now(UTC)")
            return plain(Instant((given - EPOCH) // timedelta(microseconds=1)))
        case Mapping():
            check_names(given)
            return {name: json_of(f"{where}.{name}", value, depth + 1) for name, value in given.items()}
        case list() | tuple():
            return [json_of(f"{where}[{at}]", value, depth + 1) for at, value in enumerate(given)]
        case _:
            kinds = "a dict, list, tuple, text, number, boolean, None, Point, Instant, datetime or bytes"
            raise BadValue(f"{where}: {type(given).__name__} cannot be said in JSON; give {kinds}")


def point_given(what: str, given: object) -> Point | None:
    """A position may be a `Point` or two numbers; raises `BadValue`."""
    match given:
        case None | Point():
            return given
        case (int() | float() as x, int() | float() as y) if not isinstance(x, bool) and not isinstance(y, bool):
            return Point(float(x), float(y))
        case _:
            raise BadValue(f"{what} is {given!r}; give a Point or (x, y): metres, or longitude and latitude")


def plain(value: Value) -> object:
    match value:
        case Point(x, y):
            return [x, y]
        case Instant():
            return {"timestamp": timestamp(value)}
        case _:
            return value


def attributes_of(payload: bytes) -> dict[str, Value]:
    """What of a payload is attributes; none, if it is no JSON object."""
    try:
        decoded = _decoder.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    if not isinstance(decoded, dict):
        return {}
    found = {name: _value(name, given) for name, given in decoded.items()}
    return {name: value for name, value in found.items() if value is not None}


def _value(name: str, given: object) -> Value | None:
    value: Value | None
    match given:
        case {"timestamp": str(text)}:
            value = _instant(text)
        case {"type": "Point", "coordinates": list(coordinates)} | list(coordinates):
            value = _point(coordinates)
        case bool() | int() | float() | str():
            value = given
        case _:
            return None
    try:
        if value is not None:
            check_value(name, value)
    except BadValue:
        return None
    return value


def _instant(text: str) -> Instant | None:
    try:
        return timestamp_of(text, "")
    except BadFilter:
        return None


def _point(coordinates: list[Any]) -> Point | None:
    numbers = [each for each in coordinates if isinstance(each, int | float) and not isinstance(each, bool)]
    if len(numbers) != len(coordinates) or not 2 <= len(numbers) <= 3 or not all(map(math.isfinite, numbers)):
        return None
    return Point(float(numbers[0]), float(numbers[1]))


def filter_text(given: Filter | str) -> str:
    return given if isinstance(given, str) else to_text(given)


def scope_text(given: ScopeLike, client: str) -> str:
    """As a user property says it; raises `BadValue` for a scope that has no such form."""
    match given:
        case str():
            return given
        case Filter():
            return to_text(given)
        case Scope(None, None):
            return "true"
        case Scope(None, filter_) if filter_ is not None:
            return to_text(filter_)
        case Scope(region, filter_) if region is not None:
            said = _region(region, client)
            if filter_ is not None:
                said["filter"] = to_text(filter_)
        case Circle() | Box() | Polygon() | Anchored():
            said = _region(given, client)
        case _:
            raise BadValue(f"a scope is a Scope, a region, a Filter or text, not {type(given).__name__}")
    return _encoder.encode(said).decode()


def _region(region: Region, client: str) -> dict[str, object]:
    match region:
        case Circle(centre, radius_m):
            return {"circle": [centre.x, centre.y, radius_m]}
        case Box(low, high):
            return {"box": [low.x, low.y, high.x, high.y]}
        case Polygon(corners):
            return {"polygon": [[corner.x, corner.y] for corner in corners]}
        case Anchored(Circle(centre, radius_m), host, reference):
            if host == client and centre == reference == ORIGIN:
                return {"circle_m": radius_m}
        case Anchored():
            pass
    raise BadValue("a broker moves circles around the client that names them, no other shapes and with no other host")
