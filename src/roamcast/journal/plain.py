"""The model's values as plain ones that Arrow knows (numbers, texts, dicts, lists of pairs), and back again.

What comes back equals what went in, integers as integers and floats as floats. Where there is a choice, the plain
form is made for those who read it without this package: a value is one struct with one field set, so that a Spark
expression can say `attributes['speed'].number`. Names are sorted, because equal records must give equal bytes.
"""

from typing import Any, TypeAlias

import msgspec

from roamcast.model.context import Context
from roamcast.model.event import ContentType
from roamcast.model.filter.bad_filter import BadFilter
from roamcast.model.filter.read_json import JSON_BYTES_MAX, parse_json
from roamcast.model.filter.tree import Filter
from roamcast.model.filter.write import to_json
from roamcast.model.region import Anchored, Box, Circle, Polygon, Region, Shape
from roamcast.model.scope import Scope
from roamcast.model.space import Earth, Plane
from roamcast.model.values import Instant, Point, Value, Velocity

PlainStruct: TypeAlias = dict[str, Any]
PlainMap: TypeAlias = list[tuple[str, Any]]


def plain_value(value: Value) -> PlainStruct:
    # bool before int: in Python True is an integer, in a journal it never is.
    match value:
        case bool():
            return {"flag": value}
        case int():
            return {"number": float(value), "integer": True}
        case float():
            return {"number": value, "integer": False}
        case str():
            return {"text": value}
        case Instant(us):
            return {"time_us": us}
        case Point(x, y):
            return {"x": x, "y": y}


def value_of(plain: PlainStruct) -> Value:
    filled = {name: part for name, part in plain.items() if part is not None}
    match filled:
        case {"flag": bool(flag), **rest} if not rest:
            return flag
        case {"number": float(number), "integer": bool(integer), **rest} if not rest:
            return int(number) if integer else number
        case {"text": str(text), **rest} if not rest:
            return text
        case {"time_us": int(us), **rest} if not rest:
            return Instant(us)
        case {"x": float(x), "y": float(y), **rest} if not rest:
            return Point(x, y)
        case _:
            raise ValueError(f"a value must be one of number, text, flag, time_us, x and y, not {filled}")


def plain_attributes(attributes: dict[str, Value]) -> PlainMap:
    return [(name, plain_value(attributes[name])) for name in sorted(attributes)]


def attributes_of(plain: PlainMap) -> dict[str, Value]:
    return {name: value_of(value) for name, value in plain}


def plain_filter(filter_: Filter) -> str:
    """CQL2-JSON as text; raises `BadFilter` for a tree built by hand that the language has no words for."""
    text = msgspec.json.encode(to_json(filter_)).decode()
    if len(text) > JSON_BYTES_MAX:
        raise BadFilter(f"filter of {len(text)} characters of CQL2-JSON; at most {JSON_BYTES_MAX}")
    return text


def filter_of(text: str) -> Filter:
    return parse_json(text)


def plain_region(region: Region | None) -> PlainStruct | None:
    match region:
        case None:
            return None
        case Anchored(shape, host, reference):
            return plain_shape(shape) | {"anchor": host, "reference_x": reference.x, "reference_y": reference.y}
        case _:
            return plain_shape(region)


def plain_shape(shape: Shape) -> PlainStruct:
    match shape:
        case Circle(centre, radius_m):
            return {"shape": "circle", "x": centre.x, "y": centre.y, "radius_m": radius_m}
        case Box(low, high):
            return {"shape": "box", "corners": [plain_corner(low), plain_corner(high)]}
        case Polygon(corners):
            return {"shape": "polygon", "corners": [plain_corner(corner) for corner in corners]}


def plain_corner(corner: Point) -> PlainStruct:
    return {"x": corner.x, "y": corner.y}


def region_of(plain: PlainStruct | None) -> Region | None:
    if plain is None:
        return None
    shape = shape_of(plain)
    if plain["anchor"] is None:
        return shape
    return Anchored(shape, plain["anchor"], Point(plain["reference_x"], plain["reference_y"]))


def shape_of(plain: PlainStruct) -> Shape:
    corners = [Point(corner["x"], corner["y"]) for corner in plain["corners"] or ()]
    match plain["shape"]:
        case "circle":
            return Circle(Point(plain["x"], plain["y"]), plain["radius_m"])
        case "box" if len(corners) == 2:
            return Box(*corners)
        case "polygon":
            return Polygon(tuple(corners))
        case other:
            raise ValueError(
                f"shape '{other}' with {len(corners)} corners: give a circle, a box of two corners or a polygon"
            )


def plain_scope(scope: Scope) -> PlainStruct:
    return {
        "region": plain_region(scope.region),
        "filter": None if scope.filter is None else plain_filter(scope.filter),
    }


def scope_of(plain: PlainStruct) -> Scope:
    text = plain["filter"]
    return Scope(region_of(plain["region"]), None if text is None else filter_of(text))


def plain_point(point: Point | None) -> tuple[float | None, float | None]:
    return (None, None) if point is None else (point.x, point.y)


def point_of(x: float | None, y: float | None) -> Point | None:
    return None if x is None or y is None else Point(x, y)


def plain_velocity(velocity: Velocity | None) -> tuple[float | None, float | None]:
    return (None, None) if velocity is None else (velocity.east, velocity.north)


def velocity_of(east: float | None, north: float | None) -> Velocity | None:
    return None if east is None or north is None else Velocity(east, north)


def plain_context(context: Context) -> PlainStruct:
    x, y = plain_point(context.position)
    east, north = plain_velocity(context.velocity)
    destination_x, destination_y = plain_point(context.destination)
    return {
        "host": context.host,
        "at_us": context.at_us,
        "x": x,
        "y": y,
        "velocity_east": east,
        "velocity_north": north,
        "destination_x": destination_x,
        "destination_y": destination_y,
        "pause_us": context.pause_us,
        "pause_left_us": context.pause_left_us,
        "attributes": plain_attributes(context.attributes),
    }


def context_of(plain: PlainStruct) -> Context:
    return Context(
        plain["host"],
        point_of(plain["x"], plain["y"]),
        plain["at_us"],
        velocity_of(plain["velocity_east"], plain["velocity_north"]),
        point_of(plain["destination_x"], plain["destination_y"]),
        plain["pause_us"],
        plain["pause_left_us"],
        attributes_of(plain["attributes"]),
    )


def plain_content(content: dict[str, ContentType]) -> PlainMap:
    return [(name, content[name].value) for name in sorted(content)]


def content_of(plain: PlainMap) -> dict[str, ContentType]:
    return {name: ContentType(word) for name, word in plain}


def plain_graph(neighbours: dict[str, tuple[str, ...]] | None) -> PlainMap | None:
    return None if neighbours is None else [(place, list(neighbours[place])) for place in sorted(neighbours)]


def graph_of(plain: PlainMap | None) -> dict[str, tuple[str, ...]] | None:
    return None if plain is None else {place: tuple(nears) for place, nears in plain}


def plain_space(space: Plane | Earth) -> str:
    match space:
        case Plane():
            return "plane"
        case Earth():
            return "earth"


def space_of(word: str) -> Plane | Earth:
    match word:
        case "plane":
            return Plane()
        case "earth":
            return Earth()
        case _:
            raise ValueError(f"'{word}' is not a space; give plane or earth")
