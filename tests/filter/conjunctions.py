"""Small filters whose atoms keep meeting on the same few terms and values, and all the scenes that tell them apart.

The scenes of `SCENES` are decisive for atoms over `A` and `B` with the values below: they hold every mentioned value,
one between each two neighbours and one beyond the ends, of every kind, and the missing attribute. If no such scene
speaks against "b implies a", nothing does.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import product

from hypothesis import strategies as st

from roamcast.model.context import Context
from roamcast.model.filter.evaluate import compile_filter
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import (
    NEGATED,
    And,
    AtMyLoc,
    Attribute,
    Closing,
    Compare,
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
from roamcast.model.region import Box, Circle, Polygon, Shape
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.values import Instant, Point, Value, Velocity

PLANE = Plane()
EARTH = Earth()
A, B = Attribute("a"), Attribute("b")
WHERE = Attribute("where")
GRAPH = movement_graph({"p": ["q"], "q": ["r"], "r": ["s"]})

MENTIONED: tuple[tuple[Value, ...], ...] = (
    (0, 1, 2.0),
    ("a", "a\0", "b"),
    (Instant(0), Instant(1), Instant(2)),
    (False, True),
)
"""The values that filters mention, by kind."""
TELLING: tuple[Value | None, ...] = (
    *(None, False, True),
    *(-1, 0, 0.5, 1.0, 1.5, 2, 2.5),
    *("", "A", "a", "a\0", "a\0\0", "ab", "b", "b\0", "c"),
    *(Instant(us) for us in range(-1, 4)),
)
"""What tells those filters apart."""
SCENES = [Scene({"a": a, "b": b}.get) for a, b in product(TELLING, TELLING)]
ORDERS: st.SearchStrategy[Operator] = st.sampled_from(list(NEGATED))
PATTERNS = ("%", "a%", "b%", "_", "a_", "%b", "a%b", "_%", "a", "", "a\\%%")


def accepted(filter_: Filter, scenes: Sequence[Scene], space: Space = PLANE) -> list[bool]:
    truth = compile_filter(filter_, space, GRAPH)
    return [truth(scene) is True for scene in scenes]


def counterexamples(a: Filter, b: Filter, scenes: Sequence[Scene], space: Space = PLANE) -> list[Scene]:
    """The scenes that `b` accepts and `a` does not: there is none if `a` covers `b`."""
    pairs = zip(scenes, accepted(a, scenes, space), accepted(b, scenes, space), strict=True)
    return [scene for scene, by_a, by_b in pairs if by_b and not by_a]


@st.composite
def value_atoms(draw: st.DrawFn, terms: Sequence[Term] = (A, B)) -> Predicate:
    """Intervals and lists over one term; orders of booleans, which are unknown, among them."""
    term = draw(st.sampled_from(list(terms)))
    mentioned = draw(st.sampled_from(MENTIONED))
    if draw(st.integers(0, 3)) > 0:
        return Compare(draw(ORDERS), term, Literal(draw(st.sampled_from(mentioned))))
    chosen = draw(st.lists(st.sampled_from(mentioned), min_size=1, unique=True))
    one_of = OneOf(term, tuple(sorted(chosen)))  # type: ignore[type-var]
    return Not(one_of) if draw(st.booleans()) else one_of


def value_conjunctions(terms: Sequence[Term] = (A, B)) -> st.SearchStrategy[Filter]:
    atoms = st.lists(value_atoms(terms), min_size=1, max_size=4)
    return atoms.map(lambda parts: Filter(And(tuple(parts))))


@st.composite
def narrowings(draw: st.DrawFn) -> Filter:
    """Conjunctions over one kind and one term: far more of them imply each other than of any."""
    mentioned = draw(st.sampled_from(MENTIONED))
    values = st.sampled_from(mentioned)
    comparison = st.builds(lambda order, value: Compare(order, A, Literal(value)), ORDERS, values)
    lists = st.lists(values, min_size=1, unique=True).map(lambda chosen: OneOf(A, tuple(sorted(chosen))))  # type: ignore[type-var]
    atom = st.one_of(comparison, comparison, lists, lists.map(Not))
    return Filter(And(tuple(draw(st.lists(atom, min_size=1, max_size=4)))))


def scalar_atoms() -> st.SearchStrategy[Predicate]:
    """Everything that can be asked of `A` and `B` without a reader or a position."""
    terms = st.sampled_from((A, B))
    return st.one_of(
        value_atoms(),
        value_atoms(),
        st.builds(IsNull, terms),
        st.builds(Like, terms, st.sampled_from(PATTERNS)),
        st.builds(Compare, ORDERS, terms, terms),
        st.builds(lambda order, value: Compare(order, Literal(value), A), ORDERS, st.sampled_from(MENTIONED[0])),
        st.builds(Like, st.just(Literal("ab")), st.sampled_from(PATTERNS)),
    )


def trees(atoms: st.SearchStrategy[Predicate], leaves: int = 6) -> st.SearchStrategy[Predicate]:
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts))),
            inner.map(Not),
        ),
        max_leaves=leaves,
    )


def related(draw: st.DrawFn, atoms: st.SearchStrategy[Predicate]) -> tuple[Filter, Filter]:
    """Two filters from one small pool of atoms, so that one often covers the other."""
    pool = st.sampled_from(draw(st.lists(atoms, min_size=1, max_size=5)))
    return Filter(draw(trees(pool, 5))), Filter(draw(trees(pool, 5)))


@st.composite
def scalar_pairs(draw: st.DrawFn) -> tuple[Filter, Filter]:
    return related(draw, scalar_atoms())


# Positions.

SMALL = st.integers(-2, 2).map(float)
POINTS = st.builds(Point, SMALL, SMALL)
RADII_M = st.sampled_from((0.5, 1.0, 1.5, 2.0, 3.0, 5.0))
CIRCLES = st.builds(Circle, POINTS, RADII_M)
BOXES = st.builds(lambda low, w, h: Box(low, Point(low.x + w, low.y + h)), POINTS, RADII_M, RADII_M)
ACROSS = st.builds(lambda low, w, h: Box(low, Point(low.x - w, low.y + h)), POINTS, RADII_M, RADII_M)


@st.composite
def polygons(draw: st.DrawFn) -> Polygon:
    corners = st.lists(POINTS, min_size=3, max_size=5, unique=True).map(tuple)
    return Polygon(draw(corners.filter(encloses_area)))


def encloses_area(corners: tuple[Point, ...]) -> bool:
    try:
        Polygon(corners)
    except ValueError:
        return False
    return True


def shapes() -> st.SearchStrategy[Shape]:
    return st.one_of(CIRCLES, CIRCLES, BOXES, polygons(), ACROSS)


def position_atoms() -> st.SearchStrategy[Predicate]:
    metres = st.sampled_from((0.0, 1.0, 2.0, 3.0))
    return st.one_of(
        st.builds(Inside, st.just(WHERE), shapes(), st.booleans()),
        st.builds(Inside, st.just(WHERE), shapes(), st.booleans()),
        st.builds(Near, st.just(WHERE), metres),
        st.builds(lambda point: Compare("=", WHERE, Literal(point)), POINTS),
        st.builds(lambda point: Compare("<>", WHERE, Literal(point)), POINTS),
        st.builds(Closing, st.just(WHERE), st.sampled_from(("approaching", "receding"))),
        st.builds(AtMyLoc, st.just(A), st.integers(0, 2)),
    )


@st.composite
def position_pairs(draw: st.DrawFn) -> tuple[Filter, Filter]:
    return related(draw, position_atoms())


def places_of_interest(shapes_: Iterable[Shape]) -> list[Point]:
    """Corners, centres, edges and a grid: where shapes of the strategies differ."""
    found = [Point(x / 2, y / 2) for x in range(-9, 10) for y in range(-9, 10)]
    for shape in shapes_:
        match shape:
            case Circle(centre, radius_m):
                found += [around(centre, radius_m, step * math.pi / 12) for step in range(24)]
            case Box(low, high):
                found += [Point(math.nextafter(x, y), high.y) for x in (low.x, high.x) for y in (-9, 9)]
            case Polygon(corners):
                found += corners
    return found


def around(centre: Point, radius_m: float, angle: float) -> Point:
    return Point(centre.x + radius_m * math.cos(angle), centre.y + radius_m * math.sin(angle))


def position_scenes(shapes_: Iterable[Shape]) -> list[Scene]:
    still = Context("me", Point(0, 0), velocity=Velocity(1.0, 0.0), attributes={"place": "q"})
    blind = Context("me")
    points = places_of_interest(shapes_)
    strange: tuple[Value | None, ...] = (None, 1, "q", "r", "s", True)
    found = [position_scene(point, "s", still) for point in points]
    found += [position_scene(point, "p", blind) for point in points[:50]]
    found += [position_scene(other, other, still) for other in strange]
    return found


def position_scene(where: Value | None, a: Value | None, me: Context) -> Scene:
    return Scene({"where": where, "a": a}.get, me)


# Readers.


def reader_terms() -> st.SearchStrategy[Term]:
    return st.one_of(
        st.sampled_from((A, B, WHERE)),
        st.sampled_from((Mine("a"), Mine("place"), Mine("position"), Mine("host"))),
        st.sampled_from((Publishers("a"), Publishers("position"))),
        st.sampled_from((Neighbours("count"), Neighbours("avg", "a"), Neighbours("max", "b"))),
        st.just(Neighbours("count", where=Compare(">=", A, Mine("a")))),
        st.sampled_from((Literal(1), Literal("q"), Literal(Point(0, 0)), Literal(True))),
    )


def reader_atoms(closing: bool = True) -> st.SearchStrategy[Predicate]:
    terms = reader_terms()
    metres = st.sampled_from((0.0, 1.0, 2.0, 1e300))
    atoms: list[st.SearchStrategy[Predicate]] = [
        st.builds(Compare, ORDERS, terms, terms),
        st.builds(Near, terms, metres),
        st.builds(AtMyLoc, terms, st.integers(0, 3)),
        st.builds(IsNull, terms),
        st.builds(Like, terms, st.sampled_from(("q", "%", "_"))),
        st.builds(OneOf, terms, st.sampled_from(((1, 2), ("p", "q"), (True,)))),
        st.builds(Inside, terms, CIRCLES, st.booleans()),
    ]
    if closing:
        atoms.append(st.builds(Closing, terms, st.sampled_from(("approaching", "receding"))))
    return st.one_of(atoms)


def contexts(host: str) -> st.SearchStrategy[Context]:
    values = st.sampled_from((0, 1, 2.5, "p", "q", "far", True))
    return st.builds(
        Context,
        st.just(host),
        st.none() | POINTS,
        velocity=st.none() | st.builds(Velocity, SMALL, SMALL),
        attributes=st.dictionaries(st.sampled_from(("a", "b", "place")), values),
    )


def neighbourhoods() -> st.SearchStrategy[list[Context] | None]:
    return st.none() | st.lists(contexts("n"), max_size=3)


def graphs() -> st.SearchStrategy[MovementGraph | None]:
    return st.sampled_from((None, GRAPH))


def event_attributes() -> st.SearchStrategy[dict[str, Value]]:
    others: tuple[Value, ...] = (0, 1, 2.5, "p", "q", "r", "s", True, Instant(1))
    values: st.SearchStrategy[Value] = st.one_of(POINTS, st.sampled_from(others))
    return st.dictionaries(st.sampled_from(("a", "b", "where")), values)
