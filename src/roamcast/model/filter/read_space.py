"""Conditions on place from CQL2-JSON: a position against a point, an area or a circle, or on its own.

`S_INTERSECTS` and `S_DISJOINT` count the boundary in, `S_WITHIN` and `S_CONTAINS` do not, as OGC's definitions for a
point and an area have it. An area with holes is its outline without its holes: an atom for each ring.
What needs shapely loads it: most filters have no place in them.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from roamcast.model.filter.bad_filter import BadFilter
from roamcast.model.filter.read_terms import (
    described,
    inner_path,
    read_coordinate,
    read_number,
    read_point,
    read_term,
)
from roamcast.model.filter.tree import (
    UNKNOWN,
    Closing,
    Compare,
    Constant,
    Inside,
    Literal,
    Near,
    Neighbours,
    Not,
    Predicate,
    Term,
    conjunction,
    disjunction,
)
from roamcast.model.filter.words import USAGE
from roamcast.model.region import POLYGON_CORNERS_MAX, Box, Circle, Polygon
from roamcast.model.values import BadValue, Point

if TYPE_CHECKING:
    import shapely

CORNERS_MAX = 10 * POLYGON_CORNERS_MAX
"""Of all rings of one geometry."""

TURNED = {"s_within": "s_contains", "s_contains": "s_within"}
"""What says the same with the sides exchanged; the others are the same either way."""


class Area(Struct, frozen=True):
    outline: Box | Polygon
    holes: tuple[Polygon, ...] = ()


def read_spatial(name: str, args: list[object], path: str) -> Predicate:
    """One of the four S_ predicates; `name` is in lower case."""
    inside = inner_path(path, "args")
    if len(args) != 2:
        raise BadFilter(f"write {USAGE[name]}", path=path)
    left, right = (
        read_geometry(each, f"{inside}[{i}]") if is_geometry(each) else None for i, each in enumerate(args)
    )
    # A literal position is a term like any other: whether it is inside is for the evaluator, which knows the space.
    left, right = (None, right) if isinstance(left, Point) and right is not None else (left, right)
    left, right = (left, None) if isinstance(right, Point) and isinstance(left, tuple) else (left, right)
    if left is not None and right is not None:
        return Constant(literally_related(name, left, right, path))
    side, geometry = (0, right) if left is None else (1, left)
    position = read_position(args[side], f"{inside}[{side}]")
    if geometry is None:
        read_position(args[1], f"{inside}[1]")
        raise BadFilter(f"{name.upper()} needs a geometry on one side; two positions compare with =", path=path)
    if position is None:
        return UNKNOWN
    return related(TURNED.get(name, name) if side == 1 else name, position, geometry, path)


def literally_related(name: str, a: Point | tuple[Area, ...], b: Point | tuple[Area, ...], path: str) -> bool:
    """Between two literal geometries, which depends on nothing else and so is decided at once."""
    import shapely

    relation = getattr(shapely, name.removeprefix("s_"))
    try:
        return bool(relation(shapely.make_valid(outline_of(a)), shapely.make_valid(outline_of(b))))
    except shapely.GEOSException:
        raise BadFilter("the two geometries cannot be compared; their coordinates are too large", path=path) from None


def related(name: str, position: Term, geometry: Point | tuple[Area, ...], path: str) -> Predicate:
    if isinstance(geometry, Point):
        return Compare("<>" if name == "s_disjoint" else "=", position, Literal(geometry))
    match name:
        case "s_intersects":
            return covered(position, geometry, boundary=True)
        case "s_disjoint":
            return Not(covered(position, geometry, boundary=True))
        case "s_within":
            return covered(position, geometry, boundary=False)
        case _:
            raise BadFilter(
                "a position cannot contain an area; write S_WITHIN(position, area) or S_CONTAINS(area, position)",
                path=path,
            )


def covered(position: Term, areas: tuple[Area, ...], *, boundary: bool) -> Predicate:
    # The edge of a hole belongs to the area exactly when the edge of the outline does.
    each_area = [
        conjunction(
            [
                Inside(position, area.outline, boundary),
                *(Not(Inside(position, hole, not boundary)) for hole in area.holes),
            ]
        )
        for area in areas
    ]
    return disjunction(each_area)


def read_near(name: str, args: list[object], path: str) -> Predicate:
    inside = inner_path(path, "args")
    if len(args) not in ((2, 3) if name == "near" else (3,)):
        raise BadFilter(f"write {USAGE[name]}", path=path)
    position = read_position(args[0], f"{inside}[0]")
    metres = float(read_number(args[1], f"{inside}[1]"))
    if metres < 0 or (metres == 0 and len(args) == 3):
        raise BadFilter(f"a distance of {metres:g} m encloses nothing; give one above 0", path=f"{inside}[1]")
    centre: Point | None = None
    if len(args) == 3:
        found = read_geometry(args[2], f"{inside}[2]") if is_geometry(args[2]) else None
        if not isinstance(found, Point):
            raise BadFilter(f"expected a centre such as POINT(x y), found {described(args[2])}", path=f"{inside}[2]")
        centre = found
    if position is None:
        return UNKNOWN
    if centre is None:
        return Near(position, metres)
    return Inside(position, Circle(centre, metres), name == "near")


def read_closing(name: str, args: list[object], path: str) -> Predicate:
    if len(args) != 1:
        raise BadFilter(f"write {USAGE[name]}", path=path)
    position = read_position(args[0], f"{inner_path(path, 'args')}[0]")
    if position is None:
        return UNKNOWN
    return Closing(position, "approaching" if name == "approaching" else "receding")


def read_position(data: object, path: str) -> Term | None:
    """A term that can be a position."""
    term = read_term(data, path)
    if isinstance(term, Neighbours) or (isinstance(term, Literal) and not isinstance(term.value, Point)):
        raise BadFilter(f"expected a position (an attribute, or POINT(x y)), found {described(data)}", path=path)
    return term


def is_geometry(data: object) -> bool:
    return isinstance(data, dict) and ("type" in data or "bbox" in data)


def read_geometry(data: object, path: str) -> Point | tuple[Area, ...]:
    inside = inner_path(path, "coordinates")
    match data:
        case {"bbox": list(numbers), **rest} if not rest:
            return (Area(read_box(numbers, inner_path(path, "bbox"))),)
        case {"type": "Point", "coordinates": coordinates, **rest} if not rest:
            return read_point(coordinates, inside)
        case {"type": "Polygon", "coordinates": list(rings), **rest} if not rest:
            return read_areas([rings], [inside], path)
        case {"type": "MultiPolygon", "coordinates": list(polygons), **rest} if not rest:
            return read_areas(polygons, [f"{inside}[{index}]" for index in range(len(polygons))], path)
        case _:
            raise BadFilter(
                f"{described(data)} is not a geometry that filters know; use POINT, POLYGON, MULTIPOLYGON or BBOX, "
                "or near(position, metres, POINT(x y)) for a circle",
                path=path,
            )


def read_box(numbers: list[object], path: str) -> Box:
    if len(numbers) != 4:
        raise BadFilter("BBOX takes four numbers: low x, low y, high x, high y", path=path)
    x, y, high_x, high_y = (read_coordinate(each, f"{path}[{index}]") for index, each in enumerate(numbers))
    try:
        return Box(Point(x, y), Point(high_x, high_y))
    except BadValue as problem:
        raise BadFilter(str(problem), path=path) from None


def read_areas(polygons: list[object], paths: list[str], path: str) -> tuple[Area, ...]:
    import shapely

    if not polygons:
        raise BadFilter("a geometry must not be empty", path=path)
    budget = CORNERS_MAX
    areas = []
    for rings, at in zip(polygons, paths, strict=True):
        if not isinstance(rings, list) or not rings:
            raise BadFilter("a polygon is a list of rings, the outline first", path=at)
        budget -= sum(len(ring) for ring in rings if isinstance(ring, list))
        if budget < 0:
            raise BadFilter(f"geometry of more than {CORNERS_MAX} corners", path=path)
        outline, *holes = (read_ring(ring, f"{at}[{index}]") for index, ring in enumerate(rings))
        areas.append(Area(outline, tuple(holes)))
    found = tuple(areas)
    shape = outline_of(found)
    # One ring that crosses itself has a meaning (even-odd); of several rings that do not fit, none is worth guessing.
    if (len(found) > 1 or found[0].holes) and not shape.is_valid:
        raise BadFilter(f"the area is not well formed: {shapely.is_valid_reason(shape).lower()}", path=path)
    return found


def read_ring(data: object, path: str) -> Polygon:
    if not isinstance(data, list):
        raise BadFilter("a ring is a list of positions", path=path)
    if len(data) > POLYGON_CORNERS_MAX + 1:
        raise BadFilter(f"ring of {len(data)} positions; at most {POLYGON_CORNERS_MAX} corners", path=path)
    corners = [read_point(each, f"{path}[{index}]") for index, each in enumerate(data)]
    if len(corners) < 4 or corners[0] != corners[-1]:
        raise BadFilter("a ring has at least three corners, and repeats the first one at its end", path=path)
    try:
        return Polygon(tuple(corners[:-1]))
    except BadValue as problem:
        raise BadFilter(str(problem), path=path) from None


def outline_of(geometry: Point | tuple[Area, ...]) -> "shapely.Geometry":
    """For shapely, in the coordinates as they stand; a box across the date line is its two sides."""
    import shapely

    if isinstance(geometry, Point):
        return shapely.Point(geometry.x, geometry.y)
    pieces = []
    for area in geometry:
        match area.outline:
            case Polygon(corners):
                holes = [[(p.x, p.y) for p in hole.corners] for hole in area.holes]
                pieces.append(shapely.Polygon([(p.x, p.y) for p in corners], holes))
            case Box(low, high) if low.x < high.x:
                pieces.append(shapely.box(low.x, low.y, high.x, high.y))
            case Box(low, high):
                pieces.append(shapely.box(low.x, low.y, 180, high.y))
                pieces.append(shapely.box(-180, low.y, high.x, high.y))
    return pieces[0] if len(pieces) == 1 else shapely.MultiPolygon(pieces)
