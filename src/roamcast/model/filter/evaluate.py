"""A filter as a compiled closure: built once, then asked for each scene.

Three-valued as the tree's prose says. `truth` answers True, False or None; `accepts` is `truth is True`.
The numpy evaluator (`mask.py`) must agree with this one everywhere.
"""

import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from roamcast.model.context import Context
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import (
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
    Operator,
    Or,
    Predicate,
    Publishers,
    Term,
)
from roamcast.model.places import MovementGraph
from roamcast.model.region import contains, strictly_contains
from roamcast.model.space import Space
from roamcast.model.values import Kind, Point, Value, Velocity, kind_of

Truth: TypeAlias = Callable[[Scene], bool | None]
Reading: TypeAlias = Callable[[Scene], Value | None]

STANDING = Velocity(0.0, 0.0)
ORDERS: dict[Operator, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def accepts(filter_: Filter, scene: Scene, space: Space, graph: MovementGraph | None = None) -> bool:
    return compile_filter(filter_, space, graph)(scene) is True


@lru_cache(maxsize=65_536)
def compile_filter(filter_: Filter, space: Space, graph: MovementGraph | None = None) -> Truth:
    """The closure of a filter; `graph` is what `myloc` walks on, and without one it is unknown."""
    return compile_predicate(filter_.root, space, graph)


def compile_predicate(part: Predicate, space: Space, graph: MovementGraph | None) -> Truth:
    match part:
        case Constant(value):
            return lambda _: value
        case And(parts):
            return conjunction_of([compile_predicate(each, space, graph) for each in parts])
        case Or(parts):
            return disjunction_of([compile_predicate(each, space, graph) for each in parts])
        case Not(inner):
            return negation_of(compile_predicate(inner, space, graph))
        case Compare(order, left, right):
            return comparison_of(order, reading_of(left, space, graph), reading_of(right, space, graph))
        case OneOf(term, values):
            return membership_of(reading_of(term, space, graph), values)
        case Like(term, pattern):
            return pattern_of(reading_of(term, space, graph), pattern)
        case IsNull(term):
            read = reading_of(term, space, graph)
            return lambda scene: read(scene) is None
        case Near(position, metres):
            return nearness_of(reading_of(position, space, graph), metres, space)
        case Closing(position):
            return closing_of(part, reading_of(position, space, graph), space)
        case AtMyLoc(term, steps):
            return place_of(reading_of(term, space, graph), steps, graph)
        case Inside(position):
            return inside_of(part, reading_of(position, space, graph), space)


def conjunction_of(parts: list[Truth]) -> Truth:
    def truth(scene: Scene) -> bool | None:
        result: bool | None = True
        for part in parts:
            found = part(scene)
            if found is False:
                return False
            if found is None:
                result = None
        return result

    return truth


def disjunction_of(parts: list[Truth]) -> Truth:
    def truth(scene: Scene) -> bool | None:
        result: bool | None = False
        for part in parts:
            found = part(scene)
            if found:
                return True
            if found is None:
                result = None
        return result

    return truth


def negation_of(part: Truth) -> Truth:
    def truth(scene: Scene) -> bool | None:
        found = part(scene)
        return None if found is None else not found

    return truth


def comparison_of(order: Operator, left: Reading, right: Reading) -> Truth:
    compare = ORDERS[order]
    ordering = order not in ("=", "<>")

    def truth(scene: Scene) -> bool | None:
        a = left(scene)
        b = right(scene)
        if a is None or b is None:
            return None
        kind = kind_of(a)
        if kind is not kind_of(b) or (ordering and kind in (Kind.BOOLEAN, Kind.POSITION)):
            return None
        return compare(a, b)

    return truth


def membership_of(read: Reading, values: tuple[Value, ...]) -> Truth:
    kind = kind_of(values[0])
    wanted = frozenset(values)

    def truth(scene: Scene) -> bool | None:
        found = read(scene)
        if found is None or kind_of(found) is not kind:
            return None
        return found in wanted

    return truth


def pattern_of(read: Reading, pattern: str) -> Truth:
    fits = re.compile(like_regex(pattern), re.DOTALL).fullmatch

    def truth(scene: Scene) -> bool | None:
        found = read(scene)
        return fits(found) is not None if isinstance(found, str) else None

    return truth


def like_regex(pattern: str) -> str:
    """LIKE as a regular expression that Python and Java read alike, for a whole-text match with DOTALL.

    Between two `%` the first place where a piece fits is as good as any later one, so each such piece is atomic:
    a hostile pattern cannot make the search try every combination of places.
    """
    pieces = [""]
    taken_literally = False
    for character in pattern:
        if not taken_literally and character == "\\":
            taken_literally = True
            continue
        if not taken_literally and character == "%":
            pieces.append("")
        elif not taken_literally and character == "_":
            pieces[-1] += "."
        else:
            pieces[-1] += re.escape(character) if character.isascii() else character
        taken_literally = False
    if taken_literally:
        pieces[-1] += re.escape("\\")
    if len(pieces) == 1:
        return pieces[0]
    first, *between, last = pieces
    return first + "".join(f"(?>.*?{piece})" for piece in between if piece) + ".*" + last


def nearness_of(read: Reading, metres: float, space: Space) -> Truth:
    def truth(scene: Scene) -> bool | None:
        point = read(scene)
        me = scene.me
        if me is None or me.position is None or not isinstance(point, Point):
            return None
        return space.within(me.position, point, metres)

    return truth


def closing_of(part: Closing, read: Reading, space: Space) -> Truth:
    of_publisher = part.position == Publishers("position")
    approaching = part.direction == "approaching"

    def truth(scene: Scene) -> bool | None:
        point = read(scene)
        me = scene.me
        if me is None or me.position is None or me.velocity is None or not isinstance(point, Point):
            return None
        other = STANDING
        if of_publisher:
            assert scene.publisher is not None  # its position was read just above
            if scene.publisher.velocity is None:
                return None
            other = scene.publisher.velocity
        east, north = space.offset_m(me.position, point)
        # The rate at which the gap closes, times the gap: its sign is all that matters.
        rate = (me.velocity.east - other.east) * east + (me.velocity.north - other.north) * north
        return rate > 0 if approaching else rate < 0

    return truth


def place_of(read: Reading, steps: int, graph: MovementGraph | None) -> Truth:
    def truth(scene: Scene) -> bool | None:
        place = read(scene)
        mine = None if scene.me is None else scene.me.attributes.get("place")
        if graph is None or not isinstance(place, str) or not isinstance(mine, str):
            return None
        return place in graph.ploc(mine, steps)

    return truth


def inside_of(part: Inside, read: Reading, space: Space) -> Truth:
    shape = part.shape
    holds = contains if part.boundary else strictly_contains

    def truth(scene: Scene) -> bool | None:
        point = read(scene)
        return holds(shape, point, space) if isinstance(point, Point) else None

    return truth


def reading_of(term: Term, space: Space, graph: MovementGraph | None) -> Reading:
    """The space and the graph are for conditions on neighbours."""
    match term:
        case Literal(value):
            return constantly(value)
        case Attribute(name):
            return lambda scene: scene.attribute(name)
        case Mine(name):
            return lambda scene: None if scene.me is None else scene.me.value(name)
        case Publishers(name):
            return lambda scene: None if scene.publisher is None else scene.publisher.value(name)
        case Neighbours():
            return aggregate_of(term, space, graph)


def constantly(value: Value) -> Reading:
    return lambda _: value


def aggregate_of(term: Neighbours, space: Space, graph: MovementGraph | None) -> Reading:
    aggregate, name = term.aggregate, term.name
    counts = None if term.where == TRUE else compile_predicate(term.where, space, graph)

    def read(scene: Scene) -> Value | None:
        if scene.neighbours is None:
            return None
        around = scene.neighbours()
        if counts is not None:
            around = [each for each in around if counts(Scene(each.value, scene.me)) is True]
        if aggregate == "count":
            return len(around)
        numbers = [number for each in around if (number := number_of(each, name)) is not None]
        if not numbers:
            return None
        match aggregate:
            case "avg":
                return mean_of(numbers)
            case "min":
                return min(numbers)
            case _:
                return max(numbers)

    return read


def number_of(context: Context, name: str) -> float | None:
    value = context.value(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def mean_of(numbers: list[float]) -> float:
    try:
        return math.fsum(numbers) / len(numbers)
    except OverflowError:
        # The sum of huge numbers is no double, their mean always is.
        return float(sum(map(Fraction, numbers)) / len(numbers))
