"""A filter as CQL2-JSON and as CQL2-text; both read back.

`parse_json(to_json(f))` and `parse_text(to_text(f))` are `f` again if `f` came out of a parser. A tree built by hand
may lack the parser's normal shape, which `read_json` describes: it comes back in that shape, with the same truth in
every scene. Text is read only up to a length; as JSON the largest filter reads back, unless its literals are long.
The same filter always gives the same text.

A tree that cannot be said in the language, such as one with an attribute called `me.x`, raises `BadFilter`.
"""

import math
from datetime import timedelta

from roamcast.model.filter.bad_filter import BadFilter
from roamcast.model.filter.read_terms import EPOCH, attribute_name, read_name, read_string
from roamcast.model.filter.tree import (
    FALSE,
    TRUE,
    And,
    AtMyLoc,
    Attribute,
    Closing,
    Compare,
    Constant,
    Filter,
    Inside,
    IsNull,
    Like,
    Literal,
    Mine,
    Near,
    Neighbours,
    Not,
    OneOf,
    Or,
    Predicate,
    Publishers,
    Term,
)
from roamcast.model.filter.words import is_plain_name, shown
from roamcast.model.region import Box, Circle, Polygon
from roamcast.model.values import INTEGER_LIMIT, Instant, Point, Value

NULL_COMPARISON = "NULL = NULL"
"""What is always unknown, in the language's own words."""

LOOSENESS = {Or: 0, And: 1, Not: 2}
ATOM_LOOSENESS = 3


def to_json(filter_: Filter) -> dict[str, object] | bool:
    """CQL2-JSON as plain values, ready for a JSON encoder."""
    return predicate_json(filter_.root)


def to_text(filter_: Filter) -> str:
    return predicate_text(filter_.root)


# JSON.


def operation(op: str, *args: object) -> dict[str, object]:
    return {"op": op, "args": list(args)}


def predicate_json(given: Predicate) -> dict[str, object] | bool:
    part = slimmed(given)
    match part:
        case Constant(None):
            return operation("=", None, None)
        case Constant(value):
            return value is True
        case And(parts):
            return operation("and", *map(predicate_json, parts))
        case Or(parts):
            return operation("or", *map(predicate_json, parts))
        case Not(inner):
            return operation("not", predicate_json(inner))
        case Compare(operator, left, right):
            return operation(operator, term_json(left), term_json(right))
        case OneOf(term, values):
            return operation("in", term_json(term), [value_json(value) for value in values])
        case Like(term, pattern):
            return operation("like", term_json(term), read_string(pattern, ""))
        case IsNull(term):
            return operation("isNull", term_json(term))
        case Near(position, metres):
            return operation("near", term_json(position), number(metres))
        case Closing(position, direction):
            return operation(direction, term_json(position))
        case AtMyLoc(term, steps):
            return operation("in", term_json(term), [operation("myloc", steps)])
        case Inside():
            return inside_json(part)


def inside_json(part: Inside) -> dict[str, object]:
    position = term_json(part.position)
    relation = "s_intersects" if part.boundary else "s_within"
    match part.shape:
        case Circle(centre, radius_m):
            return operation("near" if part.boundary else "nearer", position, number(radius_m), value_json(centre))
        case Box(low, high):
            return operation(relation, position, {"bbox": [*pair(low), *pair(high)]})
        case Polygon(corners):
            ring = [pair(corner) for corner in (*corners, corners[0])]
            return operation(relation, position, {"type": "Polygon", "coordinates": [ring]})


def term_json(term: Term) -> object:
    match term:
        case Literal(value):
            return value_json(value)
        case Neighbours(aggregate, name, where):
            named = [] if aggregate == "count" else [attribute_name(name, "")]
            return operation(f"neighbours.{aggregate}", *named, *([] if where == TRUE else [predicate_json(where)]))
        case _:
            return {"property": property_name(term)}


def value_json(value: Value) -> object:
    match value:
        case bool():
            return value
        case str():
            return read_string(value, "")
        case int() | float():
            return number(value)
        case Instant():
            return {"timestamp": timestamp(value)}
        case Point():
            return {"type": "Point", "coordinates": pair(value)}


# Text.


def predicate_text(given: Predicate) -> str:
    part = slimmed(given)
    match part:
        case Constant(None):
            return NULL_COMPARISON
        case Constant(value):
            return "TRUE" if value else "FALSE"
        case And(parts):
            return " AND ".join(bracketed(each, LOOSENESS[And]) for each in parts)
        case Or(parts):
            return " OR ".join(bracketed(each, LOOSENESS[Or]) for each in parts)
        case Not(inner):
            return negation_text(slimmed(inner))
        case Compare(operator, left, right):
            return f"{term_text(left)} {operator} {term_text(right)}"
        case OneOf() | Like() | IsNull() | AtMyLoc():
            return membership_text(part, "")
        case Near(position, metres):
            return f"near({term_text(position)}, {number_text(metres)})"
        case Closing(position, direction):
            return f"{direction}({term_text(position)})"
        case Inside():
            return inside_text(part)


def bracketed(given: Predicate, looseness: int) -> str:
    """In brackets if it binds less tightly than what it stands in."""
    part = slimmed(given)
    written = predicate_text(part)
    return f"({written})" if LOOSENESS.get(type(part), ATOM_LOOSENESS) < looseness else written


def negation_text(inner: Predicate) -> str:
    if isinstance(inner, OneOf | Like | IsNull | AtMyLoc):
        return membership_text(inner, "NOT ")
    return f"NOT {bracketed(inner, LOOSENESS[Not])}"


def membership_text(part: OneOf | Like | IsNull | AtMyLoc, negation: str) -> str:
    match part:
        case OneOf(term, values):
            return f"{term_text(term)} {negation}IN ({', '.join(map(value_text, values))})"
        case Like(term, pattern):
            return f"{term_text(term)} {negation}LIKE {quoted(pattern)}"
        case IsNull(term):
            return f"{term_text(term)} IS {negation}NULL"
        case AtMyLoc(term, steps):
            return f"{term_text(term)} {negation}IN myloc({steps})"


def inside_text(part: Inside) -> str:
    position = term_text(part.position)
    relation = "S_INTERSECTS" if part.boundary else "S_WITHIN"
    match part.shape:
        case Circle(centre, radius_m):
            name = "near" if part.boundary else "nearer"
            return f"{name}({position}, {number_text(radius_m)}, {value_text(centre)})"
        case Box(low, high):
            return f"{relation}({position}, BBOX({', '.join(map(number_text, (*pair(low), *pair(high))))}))"
        case Polygon(corners):
            ring = ", ".join(coordinates_text(corner) for corner in (*corners, corners[0]))
            return f"{relation}({position}, POLYGON(({ring})))"


def term_text(term: Term) -> str:
    match term:
        case Literal(value):
            return value_text(value)
        case Neighbours(aggregate, name, where):
            named = [] if aggregate == "count" else [quoted(attribute_name(name, ""))]
            asked = [] if where == TRUE else [predicate_text(where)]
            return f"neighbours.{aggregate}({', '.join([*named, *asked])})"
        case _:
            name = property_name(term)
            return name if is_plain_name(name) else '"' + name.replace('"', '""') + '"'


def value_text(value: Value) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return quoted(value)
        case int() | float():
            return number_text(value)
        case Instant():
            return f"TIMESTAMP('{timestamp(value)}')"
        case Point():
            return f"POINT({coordinates_text(value)})"


def coordinates_text(point: Point) -> str:
    return " ".join(map(number_text, pair(point)))


def number_text(value: float) -> str:
    return repr(number(value))


def quoted(text: str) -> str:
    return "'" + read_string(text, "").replace("'", "''") + "'"


# Both.


def slimmed(part: Predicate) -> Predicate:
    """The part without connectives of one or no part, which the language has no words for."""
    match part:
        case And(()):
            return TRUE
        case Or(()):
            return FALSE
        case And((only,)) | Or((only,)):
            return slimmed(only)
        case _:
            return part


def property_name(term: Attribute | Mine | Publishers) -> str:
    match term:
        case Attribute(name):
            written = name
        case Mine(name):
            written = f"me.{name}"
        case Publishers(name):
            written = f"publisher.{name}"
    if read_name(written, "") != term:
        raise BadFilter(f"an attribute called '{shown(name)}' cannot be written: the prefix has a meaning of its own")
    return written


def number(value: float) -> int | float:
    """As the reader has it: without a fraction where there is none."""
    if not math.isfinite(value):
        raise BadFilter(f"{value} cannot be written; a number must be finite")
    return int(value) if abs(value) <= INTEGER_LIMIT and value == int(value) else value


def pair(point: Point) -> list[int | float]:
    return [number(point.x), number(point.y)]


def timestamp(instant: Instant) -> str:
    try:
        moment = EPOCH + timedelta(microseconds=instant.us)
    except OverflowError:
        raise BadFilter(f"the instant {instant.us} µs cannot be written; it is out of the calendar") from None
    return moment.isoformat().replace("+00:00", "Z")
