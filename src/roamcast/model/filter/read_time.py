"""Conditions on time from CQL2-JSON, all written as comparisons.

A time is an instant. `T_INTERSECTS` and `T_DISJOINT` count the ends of an interval in, `T_DURING` does not. An end
'..' is open: nothing is asked on that side.
"""

from msgspec import Struct

from roamcast.model.filter.bad_filter import BadFilter
from roamcast.model.filter.read_terms import date_of, described, inner_path, read_term, timestamp_of
from roamcast.model.filter.tree import (
    UNKNOWN,
    Compare,
    Literal,
    Neighbours,
    Not,
    Operator,
    Predicate,
    Term,
    conjunction,
)
from roamcast.model.filter.words import USAGE
from roamcast.model.values import Instant

OPEN_END = ".."
ORDERS: dict[str, Operator] = {"t_after": ">", "t_before": "<", "t_equals": "="}


class Interval(Struct, frozen=True):
    """From `start` to `end`; None is open."""

    start: Term | None
    end: Term | None


def read_temporal(name: str, args: list[object], path: str) -> Predicate:
    """One of the T_ predicates; `name` is in lower case."""
    inside = inner_path(path, "args")
    if len(args) != 2:
        raise BadFilter(f"write {USAGE[name]}", path=path)
    left, right = (read_side(each, f"{inside}[{index}]") for index, each in enumerate(args))
    if left is None or right is None:
        return UNKNOWN
    if isinstance(left, Interval) and isinstance(right, Interval):
        raise BadFilter(f"{name.upper()} compares a time with an INTERVAL, not two of them", path=path)
    if name in ORDERS:
        return ordered(name, left, right, path)
    if isinstance(left, Interval) and not isinstance(right, Interval) and name != "t_during":
        left, right = right, left
    if isinstance(left, Interval) or not isinstance(right, Interval):
        raise BadFilter(f"write {USAGE[name]}", path=path)
    if name == "t_during":
        return between(left, right, ">", "<")
    within = between(left, right, ">=", "<=")
    return within if name == "t_intersects" else Not(within)


def ordered(name: str, left: Term | Interval, right: Term | Interval, path: str) -> Predicate:
    """After an interval is after its end, and so on; an open end is never passed."""
    if name == "t_equals" and (isinstance(left, Interval) or isinstance(right, Interval)):
        raise BadFilter("T_EQUALS compares two times; for an INTERVAL use T_DURING or T_INTERSECTS", path=path)
    after = name == "t_after"
    a = (left.start if after else left.end) if isinstance(left, Interval) else left
    b = (right.end if after else right.start) if isinstance(right, Interval) else right
    if a is None or b is None:
        raise BadFilter(f"nothing is {'after' if after else 'before'} the open end '..' of an INTERVAL", path=path)
    return Compare(ORDERS[name], a, b)


def between(time: Term, interval: Interval, low: Operator, high: Operator) -> Predicate:
    ends: list[Predicate] = []
    if interval.start is not None:
        ends.append(Compare(low, time, interval.start))
    if interval.end is not None:
        ends.append(Compare(high, time, interval.end))
    return conjunction(ends)


def read_side(data: object, path: str) -> Term | Interval | None:
    match data:
        case {"interval": list(ends), **rest} if not rest:
            return read_interval(ends, inner_path(path, "interval"))
        case _:
            return read_time(data, path)


def read_interval(ends: list[object], path: str) -> Interval:
    if len(ends) != 2:
        raise BadFilter("an INTERVAL has a start and an end; '..' leaves one open", path=path)
    start, end = (read_end(each, f"{path}[{index}]") for index, each in enumerate(ends))
    if start is None and end is None:
        raise BadFilter("an INTERVAL that is open on both sides asks nothing; give a start or an end", path=path)
    match start, end:
        case Literal(Instant(first)), Literal(Instant(last)) if first > last:
            raise BadFilter("the INTERVAL ends before it starts", path=path)
    return Interval(start, end)


def read_end(data: object, path: str) -> Term | None:
    if data == OPEN_END:
        return None
    if isinstance(data, str):
        read = timestamp_of if len(data) > len("2026-01-31") else date_of
        return Literal(read(data, path))
    term = read_time(data, path)
    if term is None:
        raise BadFilter("NULL cannot end an INTERVAL; '..' leaves it open", path=path)
    return term


def read_time(data: object, path: str) -> Term | None:
    """A term that can be a time."""
    term = read_term(data, path)
    if isinstance(term, Neighbours) or (isinstance(term, Literal) and not isinstance(term.value, Instant)):
        raise BadFilter(
            f"expected a time (an attribute, TIMESTAMP('...') or DATE('...')), found {described(data)}", path=path
        )
    return term
