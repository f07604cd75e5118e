"""Payloads as attributes, and reports of clients as contexts (docs/PROTOCOL.md, sections 2 and 5).

A payload that is a JSON object gives the event its attributes: numbers, text, truth values, and positions. What else
is in the object (lists, objects, null, numbers and names that an attribute cannot have) is no attribute and does no
harm: the payload itself reaches subscribers as it came. Any other payload is opaque and gives none.
"""

import math
from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Struct, UnsetType

from roamcast.model.context import Context
from roamcast.model.event import CONTENT_ATTRIBUTES_MAX
from roamcast.model.space import Space
from roamcast.model.values import NAME_CHARS_MAX, BadValue, Instant, Point, Value, Velocity, check_value

REPORT_TOPIC = "$roam/me"

_decoder = msgspec.json.Decoder()


def attributes_of(payload: bytes, space: Space) -> dict[str, Value]:
    """What filters see of a payload."""
    if not payload or payload[:1] not in b"{ \t\r\n":
        return {}
    try:
        decoded = _decoder.decode(payload)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return {}
    return attributes_in(decoded, space) if isinstance(decoded, dict) else {}


def place_of(payload: bytes, space: Space) -> Point | None:
    """The position that a payload says in the usual way; None if it says it in another, or none."""
    if payload[:1] != b"{":
        return None
    try:
        decoded = _decoder.decode(payload)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    if len(decoded) > CONTENT_ATTRIBUTES_MAX:
        # Of so many attributes some are left out.
        return None
    given = decoded.get("position")
    return point_of(given, space) if type(given) is list else None


def attributes_in(decoded: Mapping[str, object], space: Space) -> dict[str, Value]:
    attributes: dict[str, Value] = {}
    for name, given in decoded.items():
        value = _value(name, given, space)
        if value is not None:
            if len(attributes) == CONTENT_ATTRIBUTES_MAX:
                break
            attributes[name] = value
    if "position" not in attributes:
        position = _position_fields(decoded, space)
        if position is not None and len(attributes) < CONTENT_ATTRIBUTES_MAX:
            attributes["position"] = position
    return attributes


def _value(name: str, given: object, space: Space) -> Value | None:
    if not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable():
        return None
    if isinstance(given, list | dict):
        return point_of(given, space)
    if not isinstance(given, bool | int | float | str | Instant):
        return None
    try:
        check_value(name, given)
    except BadValue:
        return None
    return given


def point_of(given: object, space: Space) -> Point | None:
    """A position is `[x, y]`, `[longitude, latitude]`, or a GeoJSON Point."""
    if isinstance(given, dict) and given.get("type") == "Point":
        given = given.get("coordinates")
    if not isinstance(given, list) or not 2 <= len(given) <= 3:
        return None
    for each in given:
        if type(each) is not float and type(each) is not int:
            return None
    return _point(given[0], given[1], space)


def _point(given_x: float, given_y: float, space: Space) -> Point | None:
    try:
        x, y = float(given_x), float(given_y)
    except OverflowError:
        # JSON has integers that no number of ours can hold.
        return None
    point = Point(x, y)
    if not (math.isfinite(x) and math.isfinite(y)):
        return None
    try:
        space.check(point)
    except BadValue:
        return None
    return point


def _position_fields(decoded: Mapping[str, object], space: Space) -> Point | None:
    """`lon` and `lat`, as OwnTracks and many trackers say it."""
    x, y = decoded.get("lon"), decoded.get("lat")
    if (
        isinstance(x, int | float)
        and isinstance(y, int | float)
        and not isinstance(x, bool)
        and not isinstance(y, bool)
    ):
        return _point(x, y, space)
    return None


class BadReport(ValueError):
    """What a client says of itself cannot be understood; the message says why."""


class Report(Struct, frozen=True):
    """What a client publishes to `$roam/me`. A field that is left out keeps what was reported before, but a velocity
    holds only for the position that it comes with."""

    position: list[float] | UnsetType | None = UNSET
    """None: it is not known any more."""
    velocity: list[float] | None = None
    """Metres per second, east and north."""
    destination: list[float] | None = None
    pause_s: float = 0.0
    attributes: dict[str, bool | int | float | str | list[float]] | None = None


_report_decoder = msgspec.json.Decoder(Report)


def context_reported(payload: bytes, before: Context, now_us: int, space: Space) -> Context:
    """The client's context after a report; raises `BadReport`."""
    try:
        report = _report_decoder.decode(payload)
    except (msgspec.MsgspecError, RecursionError, ValueError) as problem:
        raise BadReport(f"not a report: {problem}") from problem
    moved = report.position is not UNSET
    position = before.position
    if isinstance(report.position, list):
        position = _reported(report.position, "position", space)
    elif report.position is None:
        position = None
    destination = None if report.destination is None else _reported(report.destination, "destination", space)
    velocity = None
    if report.velocity is not None:
        if len(report.velocity) != 2:
            raise BadReport("a velocity is two numbers: metres per second east and north")
        velocity = Velocity(*report.velocity)
    attributes = before.attributes
    if report.attributes is not None:
        attributes = attributes_in(report.attributes, space)
        lacking = [name for name in report.attributes if name not in attributes]
        if lacking:
            raise BadReport(f"'{lacking[0]}' is not an attribute: give a number, text, a truth value or a position")
    try:
        return Context(
            before.host,
            position,
            now_us if moved else before.at_us,
            (velocity if position else None) if moved else before.velocity,
            destination if moved else before.destination,
            round(report.pause_s * 1e6) if 0 <= report.pause_s < 1e9 else 0,
            0,
            attributes,
        )
    except BadValue as problem:
        raise BadReport(str(problem)) from problem


def _reported(given: list[float], what: str, space: Space) -> Point:
    point = point_of(given, space)
    if point is None and len(given) == 2 and point_of(given[::-1], space) is not None:
        raise BadReport(f"{what} {given} is not on Earth, and would be the other way round: longitude comes first")
    if point is None:
        raise BadReport(f"{what} {given} is not in this space: give [x, y] in metres, or [longitude, latitude]")
    return point
