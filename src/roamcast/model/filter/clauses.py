"""What a part of a filter asks of one attribute of an event, as a range.

Clauses are exact: numbers and times are compared as doubles, which hold them all, and a strict limit is the
neighbouring double. A text or truth can only be asked for equality.
"""

import math
from typing import TypeAlias

from msgspec import Struct

from roamcast.model.filter.tree import Attribute, Compare, Inside, Literal, Operator, Predicate
from roamcast.model.region import Box
from roamcast.model.values import Kind, Point, Value, kind_of

ColumnKey: TypeAlias = tuple[str, Kind | str]
"""An attribute's name and the kind of its value; of a position, `x` or `y`."""


class Clause(Struct, frozen=True):
    """The event's value of this column is in the range, ends included; a text is equal to `text`."""

    column: ColumnKey
    low: float
    high: float
    text: str | None = None


def clauses_of(part: Predicate) -> list[Clause] | None:
    match part:
        case Compare(operator, Attribute(name), Literal(value)):
            clause = clause_of(name, operator, value)
            return None if clause is None else [clause]
        case Inside(Attribute(name), Box(low, high), boundary) if low.x <= high.x:
            west, east = ends(low.x, high.x, boundary)
            south, north = ends(low.y, high.y, boundary)
            return [Clause((name, "x"), west, east), Clause((name, "y"), south, north)]
        case _:
            return None


def ends(low: float, high: float, boundary: bool) -> tuple[float, float]:
    return (low, high) if boundary else (math.nextafter(low, math.inf), math.nextafter(high, -math.inf))


def clause_of(name: str, operator: Operator, value: Value) -> Clause | None:
    column = (name, kind_of(value))
    if operator == "<>" or isinstance(value, Point):
        return None
    if operator == "=" and isinstance(value, str):
        return Clause(column, 0.0, 0.0, value)
    number = number_of(value)
    if number is None:
        return None
    match operator:
        case "=":
            return Clause(column, number, number)
        case "<":
            return Clause(column, -math.inf, math.nextafter(number, -math.inf))
        case "<=":
            return Clause(column, -math.inf, number)
        case ">":
            return Clause(column, math.nextafter(number, math.inf), math.inf)
        case ">=":
            return Clause(column, number, math.inf)


def number_of(value: Value) -> float | None:
    """A number, time or truth as a double that stands for it and nothing else of its kind."""
    match value:
        case bool() | int() | float():
            return float(value)
        case str() | Point():
            return None
        case _:
            return float(value.us)
