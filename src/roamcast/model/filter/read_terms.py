"""Terms of a filter from CQL2-JSON: names, numbers, text, times and positions, each checked before it is believed.

NULL has no term: it is read as None, and whoever asked makes it unknown.
"""

import math
import re
from datetime import UTC, datetime, timedelta

from roamcast.model.filter.bad_filter import BadFilter
from roamcast.model.filter.tree import TRUE, Aggregate, Attribute, Literal, Mine, Neighbours, Publishers, Term
from roamcast.model.filter.words import AGGREGATES, COMPARISONS, CONNECTIVES, USAGE, about_unknown, shown
from roamcast.model.values import INTEGER_LIMIT, NAME_CHARS_MAX, BadValue, Instant, Point, check_value

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
NOT_CONDITIONS = "a condition cannot stand where a value is expected"


def inner_path(path: str, inside: str) -> str:
    return f"{path}.{inside}" if path else inside


def described(data: object) -> str:
    """What was found, for a message."""
    match data:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if data else "FALSE"
        case int() | float():
            return f"the number {shown(repr(data))}" if abs(data) < 1e300 else "a number"
        case str():
            return f"the text '{shown(data)}'"
        case {"property": str(name)}:
            return f"the attribute '{shown(name)}'"
        case {"op": str(op)}:
            return f"'{shown(op)}'"
        case {"type": str(kind)}:
            return f"a {shown(kind)}"
        case {"bbox": _}:
            return "a BBOX"
        case {"timestamp": _} | {"date": _}:
            return "a time"
        case {"interval": _}:
            return "an INTERVAL"
        case list():
            return "a list"
        case dict():
            return "an object without op, property or a literal"
        case _:
            return f"a {type(data).__name__}"


def read_term(data: object, path: str) -> Term | None:
    match data:
        case None:
            return None
        case bool():
            return Literal(data)
        case int() | float():
            return Literal(read_number(data, path))
        case str():
            return Literal(read_string(data, path))
        case {"property": name, **rest} if not rest:
            return read_name(name, path)
        case {"timestamp": _, **rest} | {"date": _, **rest} if not rest:
            return Literal(read_instant(data, path))
        case {"type": "Point", **rest} if list(rest) == ["coordinates"]:
            return Literal(read_point(rest["coordinates"], inner_path(path, "coordinates")))
        case {"op": str(op), "args": list(args), **rest} if not rest:
            return read_aggregate(op, args, path)
        case {"type": _} | {"bbox": _}:
            raise BadFilter(
                f"expected a value, found {described(data)}; areas stand in S_INTERSECTS, S_WITHIN, S_CONTAINS and "
                "S_DISJOINT",
                path=path,
            )
        case {"interval": _}:
            raise BadFilter("an INTERVAL stands in T_DURING, T_INTERSECTS and the like", path=path)
        case _:
            raise BadFilter(f"expected a value, found {described(data)}", path=path)


def read_number(data: object, path: str) -> int | float:
    """A finite number; one without a fraction is an integer, as far as doubles hold integers exactly."""
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise BadFilter(f"expected a number, found {described(data)}", path=path)
    if isinstance(data, float) and data.is_integer() and abs(data) <= INTEGER_LIMIT:
        return int(data)
    if isinstance(data, float) and not math.isfinite(data):
        raise BadFilter("a number must be finite and no larger than a double holds", path=path)
    if isinstance(data, int) and abs(data) > INTEGER_LIMIT:
        raise BadFilter("an integer beyond ±2^53, which doubles do not hold exactly", path=path)
    return data


def read_string(data: object, path: str) -> str:
    if not isinstance(data, str):
        raise BadFilter(f"expected text in single quotes, found {described(data)}", path=path)
    try:
        check_value("literal", data)
    except BadValue as problem:
        raise BadFilter(str(problem).removeprefix("attribute 'literal': "), path=path) from None
    return data


def read_name(data: object, path: str) -> Term:
    name = attribute_name(data, path)
    owner, dot, rest = name.partition(".")
    if not dot or owner not in ("me", "publisher", "neighbours"):
        return Attribute(name)
    if owner == "neighbours":
        raise BadFilter(
            f"'{shown(name)}' is not an attribute; neighbours are asked with {', '.join(known_aggregates())}",
            path=path,
        )
    if not rest:
        raise BadFilter(f"'{owner}.' needs the name of an attribute after it", path=path)
    return Mine(rest) if owner == "me" else Publishers(rest)


def attribute_name(data: object, path: str) -> str:
    if not isinstance(data, str):
        raise BadFilter(f"the name of an attribute must be text, found {described(data)}", path=path)
    if not 1 <= len(data) <= NAME_CHARS_MAX:
        raise BadFilter(f"attribute name of {len(data)} characters; give 1 to {NAME_CHARS_MAX}", path=path)
    if any(character < " " or "\ud800" <= character <= "\udfff" for character in data):
        raise BadFilter("attribute name with a control character or an unpaired surrogate", path=path)
    return data


def known_aggregates() -> list[str]:
    return [USAGE[f"neighbours.{each}"].partition(" or ")[0] for each in AGGREGATES]


def read_aggregate(op: str, args: list[object], path: str) -> Neighbours:
    name = op.lower()
    if name == "myloc":
        raise BadFilter("myloc stands after IN: place IN myloc(steps)", path=path)
    if not name.startswith("neighbours.") or name not in USAGE:
        known = name in (*USAGE, *CONNECTIVES, *COMPARISONS)
        raise BadFilter(f"'{shown(op)}': {NOT_CONDITIONS}" if known else about_unknown(op), path=path)
    inside = inner_path(path, "args")
    match name.removeprefix("neighbours."):
        case "any" | "all":
            raise BadFilter(f"'{shown(op)}': {NOT_CONDITIONS}", path=path)
        case "count" if len(args) <= 1:
            return aggregated("count", "", args, f"{inside}[0]", path)
        case "avg" | "min" | "max" as aggregate if 1 <= len(args) <= 2 and isinstance(args[0], str):
            attribute = attribute_name(args[0], f"{inside}[0]")
            return aggregated(aggregate, attribute, args[1:], f"{inside}[1]", path)
        case _:
            raise BadFilter(f"write {USAGE[name]}", path=path)


def aggregated(aggregate: Aggregate, name: str, condition: list[object], inside: str, path: str) -> Neighbours:
    # The two read each other: a condition holds terms, and this term a condition.
    from roamcast.model.filter.read_json import read_condition

    where = read_condition(condition[0], inside) if condition else TRUE
    try:
        return Neighbours(aggregate, name, where)
    except ValueError as problem:
        raise BadFilter(str(problem), path=path) from None


def read_point(data: object, path: str) -> Point:
    """A pair of finite coordinates."""
    if not isinstance(data, list) or len(data) != 2:
        raise BadFilter("a position has two coordinates, x and y", path=path)
    x, y = (read_coordinate(each, f"{path}[{index}]") for index, each in enumerate(data))
    return Point(x, y)


def read_coordinate(data: object, path: str) -> float:
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise BadFilter(f"expected a coordinate, found {described(data)}", path=path)
    try:
        # Adding 0.0 turns -0.0 into 0.0, which equals it but would be written otherwise.
        found = float(data) + 0.0
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise BadFilter("a coordinate must be a finite number", path=path)
    return found


def read_instant(data: object, path: str) -> Instant:
    """Of a TIMESTAMP or DATE literal; a date is its midnight in UTC."""
    match data:
        case {"timestamp": str(written)}:
            return timestamp_of(written, inner_path(path, "timestamp"))
        case {"date": str(written)}:
            return date_of(written, inner_path(path, "date"))
        case _:
            raise BadFilter(f"expected a time in single quotes, found {described(data)}", path=path)


def date_of(written: str, path: str) -> Instant:
    found = DATE.fullmatch(written)
    if found is None:
        raise BadFilter(f"'{shown(written)}' is not a date; write it as 2026-01-31", path=path)
    return in_range(calendar_us([int(each) for each in found.groups()], written, path), written, path)


def timestamp_of(written: str, path: str) -> Instant:
    found = TIMESTAMP.fullmatch(written)
    if found is None:
        raise BadFilter(
            f"'{shown(written)}' is not a timestamp; write it as 2026-01-31T12:00:00Z, with at most six digits of a "
            "second and Z or an offset such as +02:00",
            path=path,
        )
    *calendar, fraction, side, hours, minutes = found.groups()
    east_minutes = 0 if side is None else int(f"{side}1") * (int(hours) * 60 + int(minutes))
    if abs(east_minutes) >= 24 * 60 or (minutes is not None and int(minutes) > 59):
        raise BadFilter(f"'{shown(written)}': the offset from UTC is more than a day", path=path)
    whole_seconds_us = calendar_us([int(each) for each in calendar], written, path)
    us = whole_seconds_us + int((fraction or "").ljust(6, "0")) - east_minutes * 60_000_000
    return in_range(us, written, path)


def calendar_us(calendar: list[int], written: str, path: str) -> int:
    """Microseconds since 1970 of a year, month and day, and for a timestamp of its hour, minute and second."""
    year, month, day, hour, minute, second = (*calendar, 0, 0, 0)[:6]
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as problem:
        raise BadFilter(f"'{shown(written)}' is not in the calendar: {problem}", path=path) from None
    return (moment - EPOCH) // timedelta(microseconds=1)


def in_range(us: int, written: str, path: str) -> Instant:
    if abs(us) > INTEGER_LIMIT:
        raise BadFilter(f"'{shown(written)}' is out of range; times reach from 1684 to 2255", path=path)
    return Instant(us)
