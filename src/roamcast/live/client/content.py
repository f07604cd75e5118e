"""The model's values in MQTT: attributes as a JSON object, scopes and filters as user properties.

A position is `[x, y]`, as brokers read it. A moment is `{"timestamp": "..."}` as in CQL2: clients read it back, to
brokers it is no attribute.
"""

import math
from collections.abc import Mapping
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

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def payload_of(attributes: Mapping[str, Value]) -> bytes:
    """Raises `BadValue`."""
    given = dict(attributes)
    check_attributes(given)
    return _encoder.encode({name: plain(value) for name, value in given.items()})


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
