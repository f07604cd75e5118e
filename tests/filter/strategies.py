"""Random filters and scenes. Names, texts and numbers are few, so that filters and scenes speak of the same things.

On a `Plane` positions lie on a small grid of integers: points on a boundary are common, and every evaluator must give
them the same answer to the last bit. On `Earth` they are anywhere, because sines differ in their last bit between
libraries. Strategies are kept once made: making them costs more than drawing from them.
"""

from collections.abc import Sequence
from functools import cache

from hypothesis import assume
from hypothesis import strategies as st

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
from roamcast.model.places import MovementGraph, movement_graph
from roamcast.model.region import Box, Circle, Polygon, Shape, continued, signed_area
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.values import Instant, Point, Value, Velocity

PLANE = Plane()
OPERATORS: tuple[Operator, ...] = ("=", "<>", "<", "<=", ">", ">=")
NAMES = ("a", "b", "c", "name", "place", "position")
CONTEXT_NAMES = ("a", "b", "c", "name", "place")
HOSTS = ("p", "q", "r")
PLACES = ("p", "q", "r", "s", "t")
NUMBERS: tuple[float, ...] = (-2, -1, -0.0, 0, 0.1, 1, 1.0, 2, 2.5, 3, 2**53, -1e308, 1e308)
TEXTS = (*PLACES, "", "P", "pq", "p%", "p\n", "p\nq", "a.b", "\\", "é", "e\u0301", "\ufffd", "\U0001f600", "p\0")
PATTERNS = (
    "",
    "%",
    "_",
    "p%",
    "%q",
    "_q",
    "p_",
    "%p%",
    "%%",
    "p\\%",
    "a.b",
    "a_b",
    "%\\",
    "\\\\",
    "p%q%",
    "_%_",
    "é",
)

CONDITIONS: tuple[Predicate, ...] = (
    TRUE,
    Compare(">", Attribute("a"), Literal(1)),
    Compare("<>", Attribute("b"), Mine("b")),
    Or((Near(Attribute("position"), 1.0), Not(IsNull(Attribute("name"))))),
    AtMyLoc(Attribute("place"), 1),
)


@cache
def numbers() -> st.SearchStrategy[float]:
    return st.sampled_from(NUMBERS) | st.integers(-3, 3) | st.integers(-12, 12).map(lambda quarters: quarters / 4)


@cache
def instants() -> st.SearchStrategy[Instant]:
    return st.sampled_from((-1, 0, 1, 1_000_000, 2**53)).map(Instant)


@cache
def positions(space: Space = PLANE) -> st.SearchStrategy[Point]:
    if isinstance(space, Earth):
        near_date_line = st.builds(Point, st.floats(179, 180) | st.floats(-180, -179), st.floats(-1, 1))
        return st.builds(Point, st.floats(-180, 180), st.floats(-90, 90)) | near_date_line
    grid = st.integers(-4, 4).map(float)
    return st.builds(Point, grid, grid)


@cache
def values(space: Space = PLANE) -> st.SearchStrategy[Value]:
    return st.one_of(numbers(), st.sampled_from(TEXTS), st.booleans(), instants(), positions(space))


@cache
def lists_of_one_kind(space: Space = PLANE) -> st.SearchStrategy[tuple[Value, ...]]:
    def listed(kind: st.SearchStrategy[Value]) -> st.SearchStrategy[tuple[Value, ...]]:
        return st.lists(kind, min_size=1, max_size=14, unique=True).map(sorted_values)

    return st.one_of(
        listed(numbers()),
        listed(st.sampled_from(TEXTS)),
        listed(st.booleans()),
        listed(instants()),
        positions_list(space),
    )


@cache
def positions_list(space: Space) -> st.SearchStrategy[tuple[Value, ...]]:
    in_order = st.lists(positions(space), min_size=1, max_size=4, unique=True)
    return in_order.map(lambda points: tuple(sorted(points, key=lambda point: (point.x, point.y))))


def sorted_values(found: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(sorted(found))  # type: ignore[type-var]


@cache
def radii_m(space: Space = PLANE) -> st.SearchStrategy[float]:
    if isinstance(space, Earth):
        return st.sampled_from((1.5, 1e3, 1e5, 3.3e6, 1.1e7, 1.9e7))
    return st.sampled_from((1.0, 2.0, 2.5, 5.0, 2**0.5))


@cache
@st.composite
def shapes(draw: st.DrawFn, space: Space = PLANE) -> Shape:
    kind = draw(st.sampled_from(("circle", "box", "polygon")))
    if kind == "circle":
        return Circle(draw(positions(space)), draw(radii_m(space)))
    if kind == "box":
        a, b = draw(positions(space)), draw(positions(space))
        assume(a.x != b.x and a.y != b.y)
        # The corners' x stay as drawn: a low one beyond the high one is a box across the date line.
        return Box(Point(a.x, min(a.y, b.y)), Point(b.x, max(a.y, b.y)))
    corners = tuple(draw(st.lists(positions(space), min_size=3, max_size=6)))
    if draw(st.booleans()):
        corners = continued(corners, space)
    assume(signed_area(corners) != 0)
    return Polygon(corners)


@cache
def variables() -> st.SearchStrategy[Term]:
    """Terms that read something."""
    return st.one_of(
        st.sampled_from(NAMES).map(Attribute),
        st.sampled_from((*NAMES, "host")).map(Mine),
        st.sampled_from((*NAMES, "host")).map(Publishers),
        st.just(Neighbours("count")),
        st.builds(Neighbours, st.sampled_from(("avg", "min", "max")), st.sampled_from(("a", "b")), neighbourly()),
        st.builds(Neighbours, st.just("count"), st.just(""), neighbourly()),
    )


@cache
def neighbourly() -> st.SearchStrategy[Predicate]:
    """Conditions on neighbours: few, so that evaluators by columns can have them all."""
    return st.sampled_from(CONDITIONS)


@cache
def positional_terms(space: Space = PLANE) -> st.SearchStrategy[Term]:
    names: tuple[Term, ...] = (Attribute("position"), Publishers("position"), Mine("position"), Attribute("a"))
    return st.sampled_from(names) | positions(space).map(Literal)


@cache
def terms(space: Space = PLANE) -> st.SearchStrategy[Term]:
    return variables() | values(space).map(Literal)


@cache
def atoms(space: Space = PLANE) -> st.SearchStrategy[Predicate]:
    texts = st.sampled_from((Attribute("name"), Attribute("place"), Mine("name"), Publishers("host"), Attribute("a")))
    metres = radii_m(space) | st.just(0.0)
    return st.one_of(
        st.builds(Compare, st.sampled_from(OPERATORS), variables(), values(space).map(Literal)),
        st.builds(Compare, st.sampled_from(OPERATORS), terms(space), terms(space)),
        st.builds(OneOf, terms(space), lists_of_one_kind(space)),
        st.builds(Like, texts | terms(space), st.sampled_from(PATTERNS)),
        st.builds(IsNull, terms(space)),
        st.builds(Near, positional_terms(space), metres),
        st.builds(Closing, positional_terms(space), st.sampled_from(("approaching", "receding"))),
        st.builds(AtMyLoc, texts | st.sampled_from(PLACES).map(Literal), st.integers(0, 3)),
        st.builds(Inside, positional_terms(space), shapes(space), st.booleans()),
    )


@cache
def predicates(space: Space = PLANE, max_leaves: int = 8) -> st.SearchStrategy[Predicate]:
    leaves = atoms(space) | st.sampled_from((True, False, None)).map(Constant)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: And(tuple(parts))),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts))),
            inner.map(Not),
        ),
        max_leaves=max_leaves,
    )


@cache
def filters(space: Space = PLANE, max_leaves: int = 8) -> st.SearchStrategy[Filter]:
    return predicates(space, max_leaves).map(Filter)


@cache
def attributes(names: tuple[str, ...] = NAMES, space: Space = PLANE) -> st.SearchStrategy[dict[str, Value]]:
    """Each name is there or not; `place` and `name` are mostly texts, `position` mostly a position."""
    usual: dict[str, st.SearchStrategy[Value]] = {
        "name": st.sampled_from(TEXTS),
        "place": st.sampled_from(PLACES),
        "position": positions(space),
    }
    optional = {name: usual[name] | values(space) if name in usual else values(space) for name in names}
    return st.fixed_dictionaries({}, optional=optional)


@cache
def velocities() -> st.SearchStrategy[Velocity]:
    speed = st.integers(-2, 2).map(float)
    return st.builds(Velocity, speed, speed)


@cache
def contexts(space: Space = PLANE) -> st.SearchStrategy[Context]:
    return st.builds(
        Context,
        host=st.sampled_from(HOSTS),
        position=st.none() | positions(space),
        velocity=st.none() | velocities(),
        attributes=attributes(CONTEXT_NAMES, space),
    )


@cache
def scenes(space: Space = PLANE) -> st.SearchStrategy[Scene]:
    host = st.none() | contexts(space)
    around = st.none() | st.lists(contexts(space), max_size=3)
    return st.builds(scene_of, attributes(NAMES, space), host, host, around)


def scene_of(
    found: dict[str, Value], me: Context | None, publisher: Context | None, around: list[Context] | None
) -> Scene:
    return Scene(found.get, me, publisher, None if around is None else lambda: around)


def scene_with(me: Context | None = None, publisher: Context | None = None, **found: Value) -> Scene:
    """For tests that spell their scene out."""
    return Scene(found.get, me, publisher)


@cache
def graphs() -> st.SearchStrategy[MovementGraph]:
    """Over all places but one, which stays unknown to the graph."""
    known = st.sampled_from(PLACES[:-1])
    edges = st.dictionaries(known, st.lists(known, max_size=3), max_size=4)
    return st.builds(lambda found, both_ways: movement_graph(found, both_ways=both_ways), edges, st.booleans())
