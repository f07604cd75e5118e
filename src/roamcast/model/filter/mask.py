"""A filter over columns: the same three-valued answer as `evaluate`, for very many rows at once, in numpy.

One attribute name can hold different kinds on different rows, so a `Column` is sparse by kind: each row is set in at
most one of its parts, and a part that no row uses is absent. Text is kept as ranks in a sorted vocabulary; then order
and equality are those of integers, and what needs the text itself (LIKE, IN, `myloc`) is asked once for each distinct
text. A part's entries on rows where it is not valid mean nothing but must be there: any number, rank 0 for a text.

On a `Plane` the arithmetic is that of the closures, operation by operation, so the two agree to the last bit. On
`Earth` sines and cosines of numpy and of Python may differ in the last bit, and with them a point that lies exactly
on a circle.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

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
from roamcast.model.values import Instant, Kind, Point, Value, Velocity, kind_of

Flags: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Ranks: TypeAlias = npt.NDArray[np.int64]
Sides: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Scalars:
    """Numbers (float64), booleans (bool) or instants (int64 microseconds)."""

    values: npt.NDArray[Any]
    valid: Flags


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """`vocabulary[ranks]`; the vocabulary is sorted, holds no text twice, and is not empty."""

    ranks: Ranks
    vocabulary: tuple[str, ...]
    valid: Flags


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Positions (x, y in the space's units) or velocities (metres per second east and north)."""

    x: Floats
    y: Floats
    valid: Flags


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """What one name holds on every row, each row in at most one part."""

    number: Scalars | None = None
    text: Texts | None = None
    boolean: Scalars | None = None
    time_us: Scalars | None = None
    position: Pairs | None = None

    @classmethod
    def of(cls, values: Sequence[Value | None]) -> "Column":
        kinds = [None if value is None else kind_of(value) for value in values]

        def scalars(kind: Kind, read: Callable[[Any], Any], dtype: type) -> Scalars | None:
            if kind not in kinds:
                return None
            cells = [read(value) if has is kind else 0 for value, has in zip(values, kinds, strict=True)]
            return Scalars(np.array(cells, dtype), np.array([has is kind for has in kinds]))

        return cls(
            number=scalars(Kind.NUMBER, float, np.float64),
            text=texts_of([value if isinstance(value, str) else None for value in values]),
            boolean=scalars(Kind.BOOLEAN, bool, np.bool_),
            time_us=scalars(Kind.TIME, lambda instant: instant.us, np.int64),
            position=pairs_of([(value.x, value.y) if isinstance(value, Point) else None for value in values]),
        )


MISSING = Column()


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Scenes as columns: the event's attributes, the reader, the publisher, and aggregates over neighbours.

    `me` and `publisher` hold `position` and `host` like any other name. `neighbours` is keyed by what is `asked`. A
    name that is not there is missing on every row.
    """

    rows: int
    attributes: Mapping[str, Column] = field(default_factory=dict)
    me: Mapping[str, Column] = field(default_factory=dict)
    publisher: Mapping[str, Column] = field(default_factory=dict)
    me_velocity: Pairs | None = None
    publisher_velocity: Pairs | None = None
    neighbours: Mapping[Neighbours, Column] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Truths:
    """For each row: true, false (known but not true) or unknown. A row is never true without being known."""

    true: Flags
    known: Flags


def texts_of(texts: Sequence[str | None]) -> Texts | None:
    vocabulary = tuple(sorted({text for text in texts if text is not None}))
    if not vocabulary:
        return None
    ranks = {text: rank for rank, text in enumerate(vocabulary)}
    found = np.array([0 if text is None else ranks[text] for text in texts], np.int64)
    return Texts(found, vocabulary, np.array([text is not None for text in texts]))


def pairs_of(pairs: Sequence[tuple[float, float] | None]) -> Pairs | None:
    valid = np.array([pair is not None for pair in pairs], np.bool_)
    if not valid.any():
        return None
    cells = np.array([pair or (0.0, 0.0) for pair in pairs], np.float64)
    return Pairs(cells[:, 0], cells[:, 1], valid)


def velocities_of(velocities: Sequence[Velocity | None]) -> Pairs | None:
    return pairs_of([None if each is None else (each.east, each.north) for each in velocities])


def mask(filter_: Filter, columns: Columns, space: Space, graph: MovementGraph | None = None) -> Flags:
    """The rows that the filter accepts: those where it is definitely true."""
    return truths(filter_, columns, space, graph).true


def truths(filter_: Filter, columns: Columns, space: Space, graph: MovementGraph | None = None) -> Truths:
    # A coordinate near the largest double overflows to infinity here as it does in Python, where nothing warns.
    with np.errstate(over="ignore", invalid="ignore"):
        found = truths_of(filter_.root, columns, space, graph)
    # Literals and constants answer with a single element for all rows.
    spread = np.zeros(columns.rows, np.bool_)
    return Truths(found.true | spread, found.known | spread)


def truths_of(part: Predicate, columns: Columns, space: Space, graph: MovementGraph | None) -> Truths:
    match part:
        case Constant(value):
            return Truths(np.array(value is True), np.array(value is not None))
        case And(parts):
            return reduce(both, (truths_of(each, columns, space, graph) for each in parts), TRUE)
        case Or(parts):
            return negated(reduce(both, (negated(truths_of(each, columns, space, graph)) for each in parts), TRUE))
        case Not(inner):
            return negated(truths_of(inner, columns, space, graph))
        case Compare(order, left, right):
            return comparison(order, column_of(left, columns), column_of(right, columns))
        case OneOf(term, values):
            return membership(column_of(term, columns), values)
        case Like(term, pattern):
            fits = re.compile(like_regex(pattern), re.DOTALL).fullmatch
            return text_test(column_of(term, columns).text, lambda text: fits(text) is not None)
        case IsNull(term):
            return truth_where(np.array(True), ~present(column_of(term, columns)))
        case Near(position, metres):
            return nearness(column_of(position, columns).position, mine(columns).position, metres, space)
        case Closing():
            return closing(part, columns, space)
        case AtMyLoc(term, steps):
            return at_my_loc(column_of(term, columns).text, column_of(Mine("place"), columns).text, steps, graph)
        case Inside(position, shape, boundary):
            points = column_of(position, columns).position
            return UNKNOWN if points is None else truth_where(points.valid, inside(shape, points, boundary, space))


TRUE = Truths(np.array(True), np.array(True))
UNKNOWN = Truths(np.array(False), np.array(False))


def truth_where(known: Flags, holds: Flags) -> Truths:
    return Truths(known & holds, known)


def both(a: Truths, b: Truths) -> Truths:
    true = a.true & b.true
    return Truths(true, true | (a.known & ~a.true) | (b.known & ~b.true))


def negated(a: Truths) -> Truths:
    return Truths(a.known & ~a.true, a.known)


def either_kind(a: Truths, b: Truths) -> Truths:
    """The answers for two kinds put together; no row is known in both."""
    return Truths(a.true | b.true, a.known | b.known)


def column_of(term: Term, columns: Columns) -> Column:
    match term:
        case Literal(value):
            return literal(value)
        case Attribute(name):
            return columns.attributes.get(name, MISSING)
        case Mine(name):
            return columns.me.get(name, MISSING)
        case Publishers(name):
            return columns.publisher.get(name, MISSING)
        case Neighbours():
            return columns.neighbours.get(term.asked, MISSING)


def literal(value: Value) -> Column:
    """A column of no dimension: numpy stretches it to the rows of what it is compared with."""
    valid = np.array(True)
    match value:
        case bool():
            return Column(boolean=Scalars(np.array(value), valid))
        case int() | float():
            return Column(number=Scalars(np.array(value, np.float64), valid))
        case str():
            return Column(text=Texts(np.array(0), (value,), valid))
        case Instant(us):
            return Column(time_us=Scalars(np.array(us, np.int64), valid))
        case Point(x, y):
            return Column(position=Pairs(np.array(x, np.float64), np.array(y, np.float64), valid))


def mine(columns: Columns) -> Column:
    return column_of(Mine("position"), columns)


def present(column: Column) -> Flags:
    parts = (column.number, column.text, column.boolean, column.time_us, column.position)
    return reduce(np.logical_or, (part.valid for part in parts if part is not None), np.array(False))


def comparison(order: Operator, left: Column, right: Column) -> Truths:
    compare: Callable[[Any, Any], Any] = ORDERS[order]
    found = UNKNOWN
    scalars = [(left.number, right.number), (left.time_us, right.time_us)]
    if order in ("=", "<>"):
        scalars.append((left.boolean, right.boolean))
    for a, b in scalars:
        if a is not None and b is not None:
            found = either_kind(found, truth_where(a.valid & b.valid, compare(a.values, b.values)))
    if left.text is not None and right.text is not None:
        a_ranks, b_ranks = common_ranks(left.text, right.text)
        found = either_kind(found, truth_where(left.text.valid & right.text.valid, compare(a_ranks, b_ranks)))
    if order in ("=", "<>") and left.position is not None and right.position is not None:
        p, q = left.position, right.position
        same = (p.x == q.x) & (p.y == q.y)
        found = either_kind(found, truth_where(p.valid & q.valid, same if order == "=" else ~same))
    return found


def common_ranks(left: Texts, right: Texts) -> tuple[Ranks, Ranks]:
    """The ranks of both in one vocabulary."""
    if left.vocabulary is right.vocabulary:
        return left.ranks, right.ranks
    merged = {text: rank for rank, text in enumerate(sorted({*left.vocabulary, *right.vocabulary}))}
    in_left = np.array([merged[text] for text in left.vocabulary], np.int64)
    in_right = np.array([merged[text] for text in right.vocabulary], np.int64)
    return in_left[left.ranks], in_right[right.ranks]


def membership(column: Column, values: tuple[Value, ...]) -> Truths:
    match kind_of(values[0]):
        case Kind.NUMBER:
            return scalar_membership(column.number, values)
        case Kind.BOOLEAN:
            return scalar_membership(column.boolean, values)
        case Kind.TIME:
            return scalar_membership(column.time_us, [value.us for value in values if isinstance(value, Instant)])
        case Kind.TEXT:
            wanted = frozenset(values)
            return text_test(column.text, lambda text: text in wanted)
        case Kind.POSITION:
            equals = (comparison("=", column, literal(value)) for value in values)
            return reduce(either_kind, equals, UNKNOWN)


def scalar_membership(cells: Scalars | None, values: Sequence[Value]) -> Truths:
    if cells is None:
        return UNKNOWN
    return truth_where(cells.valid, np.isin(cells.values, np.array(values, cells.values.dtype)))


def text_test(texts: Texts | None, holds: Callable[[str], bool]) -> Truths:
    """Asks once for each distinct text."""
    if texts is None:
        return UNKNOWN
    answers = np.array([holds(text) for text in texts.vocabulary])
    return truth_where(texts.valid, answers[texts.ranks])


def at_my_loc(places: Texts | None, here: Texts | None, steps: int, graph: MovementGraph | None) -> Truths:
    """Asks once for each distinct pair of the reader's place and the event's."""
    if places is None or here is None or graph is None:
        return UNKNOWN
    pairs = here.ranks * len(places.vocabulary) + places.ranks
    distinct, which = np.unique(pairs, return_inverse=True)
    asked = (divmod(int(pair), len(places.vocabulary)) for pair in distinct)
    reached = [places.vocabulary[place] in graph.ploc(here.vocabulary[mine], steps) for mine, place in asked]
    return truth_where(places.valid & here.valid, np.array(reached, np.bool_)[which].reshape(pairs.shape))


def nearness(points: Pairs | None, here: Pairs | None, metres: float, space: Space) -> Truths:
    if points is None or here is None:
        return UNKNOWN
    return truth_where(points.valid & here.valid, within(here, points, metres, space))


def closing(part: Closing, columns: Columns, space: Space) -> Truths:
    points = column_of(part.position, columns).position
    here, velocity = mine(columns).position, columns.me_velocity
    if points is None or here is None or velocity is None:
        return UNKNOWN
    known = points.valid & here.valid & velocity.valid
    other = Pairs(np.array(0.0), np.array(0.0), np.array(True))
    if part.position == Publishers("position"):
        if columns.publisher_velocity is None:
            return UNKNOWN
        other = columns.publisher_velocity
    east, north = offset_m(here, points, space)
    rate = (velocity.x - other.x) * east + (velocity.y - other.y) * north
    return truth_where(known & other.valid, rate > 0 if part.direction == "approaching" else rate < 0)


def inside(shape: Shape, points: Pairs, boundary: bool, space: Space) -> Flags:
    match shape:
        case Circle(centre, radius_m):
            middle = Pairs(np.array(centre.x), np.array(centre.y), np.array(True))
            if boundary:
                return within(middle, points, radius_m, space)
            return distance_m(middle, points, space) < radius_m
        case Box(low, high):
            less: Callable[[Any, Any], Any] = ORDERS["<=" if boundary else "<"]
            in_height = less(low.y, points.y) & less(points.y, high.y)
            after, before = less(low.x, points.x), less(points.x, high.x)
            found: Flags = in_height & (after & before if low.x <= high.x else after | before)
            return found
        case Polygon(corners):
            side = side_of(corners, points, space)
            return side >= 0 if boundary else side > 0


def side_of(corners: tuple[Point, ...], points: Pairs, space: Space) -> Sides:
    side = polygon_side(corners, points.x, points.y)
    if isinstance(space, Plane) or not beyond_date_line(corners):
        return side
    turned = points.x + np.where(points.x < 0, 360.0, -360.0)
    return np.where(side < 0, polygon_side(corners, turned, points.y), side)


def polygon_side(corners: tuple[Point, ...], x: Floats, y: Floats) -> Sides:
    """`region.polygon_side`, edge by edge over all points."""
    within_outline = np.zeros(x.shape, np.bool_)
    on_edge = np.zeros(x.shape, np.bool_)
    previous = corners[-1]
    for corner in corners:
        ax, ay, bx, by = previous.x, previous.y, corner.x, corner.y
        cross = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
        beside = (min(ax, bx) <= x) & (x <= max(ax, bx)) & (min(ay, by) <= y) & (y <= max(ay, by))
        on_edge |= (cross == 0) & beside
        within_outline ^= ((ay > y) != (by > y)) & ((cross > 0) == (by > ay))
        previous = corner
    return np.where(on_edge, 0, np.where(within_outline, 1, -1))


def within(a: Pairs, b: Pairs, radius_m: float, space: Space) -> Flags:
    if isinstance(space, Plane):
        dx, dy = a.x - b.x, a.y - b.y
        found: Flags = dx * dx + dy * dy <= radius_m * radius_m
        return found
    return distance_m(a, b, space) <= radius_m


def distance_m(a: Pairs, b: Pairs, space: Space) -> Floats:
    if isinstance(space, Plane):
        return np.sqrt((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y))
    ax, ay, az = cartesian_m(a)
    bx, by, bz = cartesian_m(b)
    chord = np.sqrt((ax - bx) * (ax - bx) + (ay - by) * (ay - by) + (az - bz) * (az - bz))
    return 2 * MEAN_RADIUS_M * np.arcsin(np.minimum(1.0, chord / (2 * MEAN_RADIUS_M)))


def cartesian_m(points: Pairs) -> tuple[Floats, Floats, Floats]:
    longitude, latitude = np.radians(points.x), np.radians(points.y)
    sine, cosine = np.sin(latitude), np.cos(latitude)
    normal = EQUATOR_RADIUS_M / np.sqrt(1 - ECCENTRICITY_SQUARED * sine * sine)
    up = normal * (1 - ECCENTRICITY_SQUARED) * sine
    return normal * cosine * np.cos(longitude), normal * cosine * np.sin(longitude), up


def offset_m(origin: Pairs, to: Pairs, space: Space) -> tuple[Floats, Floats]:
    if isinstance(space, Plane):
        return to.x - origin.x, to.y - origin.y
    latitude = np.radians((origin.y + to.y) / 2)
    sine = np.sin(latitude)
    squared = 1 - ECCENTRICITY_SQUARED * sine * sine
    normal = EQUATOR_RADIUS_M / np.sqrt(squared)
    north_per_degree = np.radians(normal * (1 - ECCENTRICITY_SQUARED) / squared)
    east_per_degree = np.radians(normal * np.cos(latitude))
    turn = to.x - origin.x
    shortest = np.where(np.abs(turn) <= 180, turn, (turn + 180) % 360 - 180)
    return shortest * east_per_degree, (to.y - origin.y) * north_per_degree
