"""A filter as a nullable boolean Spark column: the same three-valued answer as `model.filter.evaluate`.

Unknown is null. Spark's AND, OR and NOT are Kleene's already, and its comparisons are null where a side is null; what
is left is to keep kinds apart, and this a `Cell` does: six columns of which at most one (for a position, two) is set
on a row. Built-in expressions only, so a filter runs inside the JVM, locally and through Spark Connect alike.

Habits of Spark that this module works around: `least` and `greatest` pass over nulls, so they see literals only; NaN
is the largest number and equals itself, so a sign is asked only of what is a number; a chain of a thousand ANDs is a
tree a thousand deep, so chains become balanced trees; a large literal is thousands of nodes, so polygons and movement
graphs travel as one JSON text, which the optimizer reads once. Nothing here divides by, casts or indexes what ANSI
mode could refuse.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.model.filter.evaluate import ORDERS, like_regex
from roamcast.model.filter.tree import (
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
    Operator,
    Or,
    Predicate,
    Publishers,
    Term,
)
from roamcast.model.places import MovementGraph
from roamcast.model.region import Box, Circle, Polygon, Shape, beyond_date_line
from roamcast.model.space import ECCENTRICITY_SQUARED, EQUATOR_RADIUS_M, MEAN_RADIUS_M, Plane, Space
from roamcast.model.values import Instant, Kind, Point, Value, kind_of

VALUE_TYPE = "struct<number:double,text:string,flag:boolean,time_us:bigint,x:double,y:double>"
"""How an attribute's value lies in a table; at most one kind is set."""
ATTRIBUTES_TYPE = f"map<string,{VALUE_TYPE}>"
VELOCITY_TYPE = "struct<east:double,north:double>"
NEIGHBOURS_TYPE = "map<string,double>"
"""Aggregates over the reader's neighbours: `count`, `avg(speed)`, ..."""

EDGES_TYPE = "array<struct<ax:double,ay:double,bx:double,by:double>>"
PLACES_TYPE = "map<string,array<string>>"
RADIANS_PER_DEGREE = math.pi / 180


@dataclass(frozen=True, eq=False)
class Cell:
    """One name's value on every row, by kind; a kind that no row can have is None."""

    number: Column | None = None
    text: Column | None = None
    flag: Column | None = None
    time_us: Column | None = None
    x: Column | None = None
    y: Column | None = None

    @classmethod
    def of(cls, value: Column) -> "Cell":
        """From a column of `VALUE_TYPE`."""
        return cls(
            value.getField("number"),
            value.getField("text"),
            value.getField("flag"),
            value.getField("time_us"),
            value.getField("x"),
            value.getField("y"),
        )

    @property
    def position(self) -> "Pair | None":
        return None if self.x is None or self.y is None else (self.x, self.y)


Pair: TypeAlias = tuple[Column, Column]
"""x and y of a position, or east and north of a velocity."""
Names: TypeAlias = Column | Mapping[str, Cell]
"""A column of `ATTRIBUTES_TYPE`, or names that were flattened into columns of their own."""

MISSING = Cell()
MY_POSITION = Mine("position")
MY_PLACE = Mine("place")


@dataclass(frozen=True, eq=False)
class Namespaces:
    """Where a filter finds what it reads. What is left out is missing on every row.

    `me` and `publisher` hold `position` and `host` like any other name; velocities are of `VELOCITY_TYPE`;
    `neighbours` is of `NEIGHBOURS_TYPE`, or numbers by the same keys.
    """

    attributes: Names = field(default_factory=dict)
    me: Names = field(default_factory=dict)
    publisher: Names = field(default_factory=dict)
    me_velocity: Column | None = None
    publisher_velocity: Column | None = None
    neighbours: Column | Mapping[str, Column] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Compilation:
    """What the parts of one filter share. Each term is made a cell once: a call into the JVM costs about 0.1 ms."""

    read: Callable[[Term], Cell]
    names: Namespaces
    space: Space
    graph: MovementGraph | None

    def position(self, term: Term) -> "Pair | None":
        return self.read(term).position


def predicate(filter_: Filter, names: Namespaces, space: Space, graph: MovementGraph | None = None) -> Column:
    """True, false or null (unknown) on every row; as a condition of `where`, only true passes."""
    read = cache(lambda term: cell_of(term, names))
    return compiled(filter_.root, Compilation(read, names, space, graph))


def compiled(part: Predicate, given: Compilation) -> Column:
    match part:
        case Constant(value):
            return unknown() if value is None else F.lit(value)
        case And(parts):
            return balanced([compiled(each, given) for each in parts], Column.__and__, True)
        case Or(parts):
            return balanced([compiled(each, given) for each in parts], Column.__or__, False)
        case Not(inner):
            return ~compiled(inner, given)
        case Compare(order, left, right):
            return comparison(order, given.read(left), given.read(right))
        case OneOf(term, values):
            return membership(given.read(term), values)
        case Like(term, pattern):
            text = given.read(term).text
            # Java's $ also matches before a last line break; \A and \z are the very ends.
            return unknown() if text is None else text.rlike(rf"(?s)\A(?:{like_regex(pattern)})\z")
        case IsNull(term):
            return absence(given.read(term))
        case Near(position, metres):
            return nearness(given.position(position), given.position(MY_POSITION), metres, given.space)
        case Closing():
            return closing(part, given)
        case AtMyLoc(term, steps):
            return at_my_loc(given.read(term).text, given.read(MY_PLACE).text, steps, given.graph)
        case Inside(position, shape, boundary):
            point = given.position(position)
            return unknown() if point is None else inside(shape, point, boundary, given.space)


def unknown() -> Column:
    return F.lit(None).cast("boolean")


def balanced(parts: Sequence[Column], join: Callable[[Column, Column], Column], empty: bool) -> Column:
    if not parts:
        return F.lit(empty)
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return join(balanced(parts[:half], join, empty), balanced(parts[half:], join, empty))


def cell_of(term: Term, names: Namespaces) -> Cell:
    match term:
        case Literal(value):
            return literal(value)
        case Attribute(name):
            return named(names.attributes, name)
        case Mine(name):
            return named(names.me, name)
        case Publishers(name):
            return named(names.publisher, name)
        case Neighbours(aggregate, name):
            key = aggregate if aggregate == "count" else f"{aggregate}({name})"
            if isinstance(names.neighbours, Column):
                return Cell(number=F.try_element_at(names.neighbours, F.lit(key)))
            return Cell(number=names.neighbours.get(key))


def named(names: Names, name: str) -> Cell:
    if isinstance(names, Column):
        return Cell.of(F.try_element_at(names, F.lit(name)))
    return names.get(name, MISSING)


def literal(value: Value) -> Cell:
    match value:
        case bool():
            return Cell(flag=F.lit(value))
        case int() | float():
            return Cell(number=F.lit(float(value)))
        case str():
            return Cell(text=F.lit(value))
        case Instant(us):
            return Cell(time_us=F.lit(us).cast("bigint"))
        case Point(x, y):
            return Cell(x=F.lit(float(x)), y=F.lit(float(y)))


def absence(cell: Cell) -> Column:
    parts = (cell.number, cell.text, cell.flag, cell.time_us, cell.x)
    return balanced([part.isNull() for part in parts if part is not None], Column.__and__, True)


def first_known(answers: Sequence[Column]) -> Column:
    """The answers for several kinds put together; no row is known in two."""
    return unknown() if not answers else answers[0] if len(answers) == 1 else F.coalesce(*answers)


def comparison(order: Operator, left: Cell, right: Cell) -> Column:
    compare: Callable[[Column, Column], Any] = ORDERS[order]
    sides = [(left.number, right.number), (left.text, right.text), (left.time_us, right.time_us)]
    if order in ("=", "<>"):
        sides.append((left.flag, right.flag))
    answers: list[Column] = [compare(a, b) for a, b in sides if a is not None and b is not None]
    if order in ("=", "<>") and left.position is not None and right.position is not None:
        same = equal_pair(left.position, right.position)
        answers.append(same if order == "=" else ~same)
    return first_known(answers)


def equal_pair(a: Pair, b: Pair) -> Column:
    return (a[0] == b[0]) & (a[1] == b[1])


def membership(cell: Cell, values: tuple[Value, ...]) -> Column:
    if not values:
        return unknown()
    match kind_of(values[0]):
        case Kind.NUMBER:
            return among(cell.number, [float(value) for value in values if isinstance(value, int | float)])
        case Kind.TEXT:
            return among(cell.text, values)
        case Kind.BOOLEAN:
            return among(cell.flag, values)
        case Kind.TIME:
            return among(cell.time_us, [value.us for value in values if isinstance(value, Instant)])
        case Kind.POSITION:
            equals = [comparison("=", cell, literal(value)) for value in values]
            return balanced(equals, Column.__or__, False)


def among(column: Column | None, values: Sequence[Value]) -> Column:
    return unknown() if column is None else column.isin(list(values))


def at_my_loc(place: Column | None, here: Column | None, steps: int, graph: MovementGraph | None) -> Column:
    if place is None or here is None or graph is None:
        return unknown()
    reached = {each: sorted(graph.ploc(each, steps)) for each in graph.neighbours}
    known = F.from_json(F.lit(json.dumps(reached)), PLACES_TYPE)
    # From a place that the graph does not know one reaches only that place.
    return F.coalesce(F.array_contains(F.try_element_at(known, here), place), place == here)


def nearness(point: Pair | None, here: Pair | None, metres: float, space: Space) -> Column:
    return unknown() if point is None or here is None else within(here, point, metres, space)


def closing(part: Closing, given: Compilation) -> Column:
    names = given.names
    point, here = given.position(part.position), given.position(MY_POSITION)
    if point is None or here is None or names.me_velocity is None:
        return unknown()
    east_speed, north_speed = names.me_velocity.getField("east"), names.me_velocity.getField("north")
    if part.position == Publishers("position"):
        if names.publisher_velocity is None:
            return unknown()
        east_speed = east_speed - names.publisher_velocity.getField("east")
        north_speed = north_speed - names.publisher_velocity.getField("north")
    east, north = offset_m(here, point, given.space)
    rate = east_speed * east + north_speed * north
    return positive(rate) if part.direction == "approaching" else positive(-rate)


def positive(number: Column) -> Column:
    return (number > 0.0) & ~F.isnan(number)


def inside(shape: Shape, point: Pair, boundary: bool, space: Space) -> Column:
    x, y = point
    match shape:
        case Circle(centre, radius_m):
            middle = (F.lit(float(centre.x)), F.lit(float(centre.y)))
            if boundary:
                return within(middle, point, radius_m, space)
            return distance_m(middle, point, space) < float(radius_m)
        case Box(low, high):
            after = x >= float(low.x) if boundary else x > float(low.x)
            before = x <= float(high.x) if boundary else x < float(high.x)
            above = y >= float(low.y) if boundary else y > float(low.y)
            below = y <= float(high.y) if boundary else y < float(high.y)
            return above & below & (after & before if low.x <= high.x else after | before)
        case Polygon(corners):
            side = side_of(corners, point, space)
            return side >= 0 if boundary else side > 0


def side_of(corners: tuple[Point, ...], point: Pair, space: Space) -> Column:
    x, y = point
    pairs = zip((corners[-1], *corners[:-1]), corners, strict=True)
    outline = [{"ax": float(a.x), "ay": float(a.y), "bx": float(b.x), "by": float(b.y)} for a, b in pairs]
    edges = F.from_json(F.lit(json.dumps(outline)), EDGES_TYPE)
    side = polygon_side(edges, x, y)
    if isinstance(space, Plane) or not beyond_date_line(corners):
        return side
    turned = x + F.when(x < 0.0, 360.0).otherwise(-360.0)
    return F.when(side < 0, polygon_side(edges, turned, y)).otherwise(side)


def polygon_side(edges: Column, x: Column, y: Column) -> Column:
    """`region.polygon_side`, over the edges as one literal array."""

    def cross(edge: Column) -> Column:
        return (edge.bx - edge.ax) * (y - edge.ay) - (edge.by - edge.ay) * (x - edge.ax)

    def touches(edge: Column) -> Column:
        beside = x.between(F.least(edge.ax, edge.bx), F.greatest(edge.ax, edge.bx))
        level = y.between(F.least(edge.ay, edge.by), F.greatest(edge.ay, edge.by))
        return (cross(edge) == 0.0) & beside & level

    def crosses(edge: Column) -> Column:
        return ((edge.ay > y) != (edge.by > y)) & (positive(cross(edge)) == (edge.by > edge.ay))

    within_outline = F.size(F.filter(edges, crosses)).bitwiseAND(1) == 1
    side = F.when(F.exists(edges, touches), 0).when(within_outline, 1).otherwise(-1)
    # Without a point no edge is crossed, which says nothing: it is unknown, not outside.
    return F.when(x.isNotNull() & y.isNotNull(), side)


def within(a: Pair, b: Pair, radius_m: float, space: Space) -> Column:
    if isinstance(space, Plane):
        dx, dy = a[0] - b[0], a[1] - b[1]
        return dx * dx + dy * dy <= float(radius_m) * float(radius_m)
    return distance_m(a, b, space) <= float(radius_m)


def distance_m(a: Pair, b: Pair, space: Space) -> Column:
    if isinstance(space, Plane):
        dx, dy = a[0] - b[0], a[1] - b[1]
        return F.sqrt(dx * dx + dy * dy)
    ax, ay, az = cartesian_m(a)
    bx, by, bz = cartesian_m(b)
    chord = F.sqrt((ax - bx) * (ax - bx) + (ay - by) * (ay - by) + (az - bz) * (az - bz))
    sine = chord / (2 * MEAN_RADIUS_M)
    # Not `least`, which passes over a null: an unknown distance would become the longest there is.
    return 2 * MEAN_RADIUS_M * F.asin(F.when(sine > 1.0, 1.0).otherwise(sine))


def cartesian_m(point: Pair) -> tuple[Column, Column, Column]:
    longitude, latitude = point[0] * RADIANS_PER_DEGREE, point[1] * RADIANS_PER_DEGREE
    sine, cosine = F.sin(latitude), F.cos(latitude)
    normal = F.lit(EQUATOR_RADIUS_M) / F.sqrt(1 - ECCENTRICITY_SQUARED * sine * sine)
    up = normal * (1 - ECCENTRICITY_SQUARED) * sine
    return normal * cosine * F.cos(longitude), normal * cosine * F.sin(longitude), up


def offset_m(origin: Pair, to: Pair, space: Space) -> Pair:
    if isinstance(space, Plane):
        return to[0] - origin[0], to[1] - origin[1]
    latitude = (origin[1] + to[1]) / 2 * RADIANS_PER_DEGREE
    sine = F.sin(latitude)
    squared = 1 - ECCENTRICITY_SQUARED * sine * sine
    normal = F.lit(EQUATOR_RADIUS_M) / F.sqrt(squared)
    north_per_degree = normal * (1 - ECCENTRICITY_SQUARED) / squared * RADIANS_PER_DEGREE
    east_per_degree = normal * F.cos(latitude) * RADIANS_PER_DEGREE
    turn = to[0] - origin[0]
    shortest = F.when(F.abs(turn) <= 180.0, turn).otherwise(F.pmod(turn + 180.0, F.lit(360.0)) - 180.0)
    return shortest * east_per_degree, (to[1] - origin[1]) * north_per_degree
