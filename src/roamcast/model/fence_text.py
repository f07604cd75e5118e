"""Fences as people write them: a GeoJSON Feature, or a FeatureCollection of which each Feature is a fence.

    {"type": "Feature",
     "geometry": {"type": "Polygon", "coordinates": [[[24.9, 60.1], [25.0, 60.1], [25.0, 60.2], [24.9, 60.1]]]},
     "properties": {"on": ["enter", "leave", "dwell"], "dwell_s": 600, "hosts": "kind = 'van'"}}

The geometry is a Polygon, or a Point with `radius_m` among the properties. With `anchor`, the name of a host, it is
in metres east and north of that host, and may be left out beside `radius_m`. The rule is in the properties:

    on             which transitions are told: "enter", "leave", "cross", "dwell"; enter and leave without it
    dwell_s        after how long a host dwells; it adds "dwell" where `on` is left out
    hysteresis_m, outside_s, certainty, hosts      as `FenceRule` has them; `hosts` is CQL2

Properties of a FeatureCollection itself hold for all of its fences that do not say otherwise. A fence of a collection
is called `<name of the collection>/<id>`, by the `id` of its Feature, or the property `name`, or its number from 1.
Other properties mean nothing, so that files which were made for something else can be used.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from roamcast.model.fence import Fence, FenceRule, Transition
from roamcast.model.filter import EVERYTHING, BadFilter, Filter
from roamcast.model.filter.tree import Attribute, Literal, Mine, atoms, terms
from roamcast.model.filter.write import to_text
from roamcast.model.region import ORIGIN, Anchored, Box, Circle, Polygon, Region, check_region
from roamcast.model.scope_text import read_filter
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.values import BadValue, Point, is_number
from roamcast.model.way import outline

NAMES = tuple(each.value for each in Transition)
CERTAINTIES = ("probably", "surely")
RULE_NAMES = ("on", "dwell_s", "hysteresis_m", "outside_s", "certainty", "hosts", "radius_m", "anchor")


class BadFence(BadValue):
    """What cannot be a fence; the message says where and what is allowed."""


def read_fences(name: str, text: bytes | str, space: Space) -> tuple[Fence, ...]:
    """Raises `BadFence`."""
    try:
        given = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError) as problem:
        raise BadFence(f"a fence is GeoJSON: {problem}") from problem
    return fences_of(name, given, space)


def fences_of(name: str, given: object, space: Space) -> tuple[Fence, ...]:
    """Of GeoJSON that was decoded."""
    if not isinstance(given, dict):
        raise BadFence("a fence is a GeoJSON object: a Feature or a FeatureCollection")
    match given.get("type"):
        case "Feature":
            return (fence_of(name, given, {}, space, "feature"),)
        case "FeatureCollection":
            return tuple(members_of(name, given, space))
        case other:
            raise BadFence(f"type is {other!r}; give a GeoJSON Feature or FeatureCollection")


def members_of(name: str, given: Mapping[str, Any], space: Space) -> list[Fence]:
    features, common = given.get("features"), given.get("properties") or {}
    if not isinstance(features, list) or not features:
        raise BadFence("features is empty or missing; a FeatureCollection has a list of Features")
    if not isinstance(common, dict):
        raise BadFence("properties of the FeatureCollection is not an object")
    found: dict[str, Fence] = {}
    for number, feature in enumerate(features, start=1):
        where = f"features[{number}]"
        if not isinstance(feature, dict) or feature.get("type") != "Feature":
            raise BadFence(f"{where} is not a GeoJSON Feature")
        own = feature.get("properties") or {}
        said = feature.get("id", own.get("name") if isinstance(own, dict) else None)
        if not (said is None or isinstance(said, str) or is_number(said)):
            raise BadFence(f"{where}: the id is {said!r}; give text or a number")
        fence = fence_of(f"{name}/{number if said is None else said}", feature, common, space, where)
        if fence.name in found:
            raise BadFence(f"{where}: '{fence.name}' is used twice; give each feature of a collection its own id")
        found[fence.name] = fence
    return list(found.values())


def fence_of(name: str, feature: Mapping[str, Any], common: Mapping[str, Any], space: Space, where: str) -> Fence:
    own = feature.get("properties") or {}
    if not isinstance(own, dict):
        raise BadFence(f"{where}: properties is not an object")
    said = {each: found for each in RULE_NAMES if (found := own.get(each, common.get(each))) is not None}
    try:
        region = region_of(feature.get("geometry"), said, space)
        check_region(region, space)
        return Fence(name, region, rule_of(said))
    except BadFilter as problem:
        raise BadFence(f"{where}: hosts: {str(problem).splitlines()[0]}") from problem
    except BadValue as problem:
        raise BadFence(f"{where}: {problem}") from problem


def region_of(geometry: object, said: Mapping[str, Any], space: Space) -> Region:
    anchor = said.get("anchor")
    if anchor is not None and (not isinstance(anchor, str) or not anchor):
        raise BadFence("anchor is the name of the host that the fence moves with")
    if geometry is None and anchor is not None and "radius_m" in said:
        return Anchored(Circle(ORIGIN, number_of("radius_m", said)), anchor)
    if not isinstance(geometry, dict):
        raise BadFence("geometry is missing; give a Polygon, or a Point with the property radius_m")
    corners_in: Space = Plane() if anchor is not None else space
    match geometry.get("type"):
        case "Point":
            if "radius_m" not in said:
                raise BadFence("a Point needs the property radius_m")
            shape: Circle | Polygon = Circle(
                point_of(geometry.get("coordinates"), corners_in), number_of("radius_m", said)
            )
        case "Polygon":
            shape = polygon_of(geometry.get("coordinates"), corners_in)
        case other:
            raise BadFence(f"geometry {other!r}: give a Polygon, or a Point with the property radius_m")
    return shape if anchor is None else Anchored(shape, anchor)


def polygon_of(rings: object, space: Space) -> Polygon:
    if not isinstance(rings, list) or not rings:
        raise BadFence("coordinates of a Polygon are a list of rings")
    if len(rings) > 1:
        raise BadFence("holes in a Polygon are not supported; give its outline alone")
    ring = rings[0]
    if not isinstance(ring, list) or len(ring) < 4 or ring[0] != ring[-1]:
        raise BadFence("a ring has four positions or more, and the last is the first again")
    return Polygon(tuple(point_of(each, space) for each in ring[:-1]))


def point_of(given: object, space: Space) -> Point:
    if not isinstance(given, list) or not 2 <= len(given) <= 3 or not all(map(is_number, given)):
        raise BadFence(f"{given!r} is not a position; give [{'longitude, latitude' if on_earth(space) else 'x, y'}]")
    try:
        point = Point(float(given[0]), float(given[1]))
    except OverflowError:
        raise BadFence("a coordinate is out of range") from None
    if on_earth(space) and abs(point.y) > 90 and abs(point.x) <= 90:
        raise BadFence(f"({point.x}, {point.y}): are they swapped? GeoJSON has longitude first")
    return point


def on_earth(space: Space) -> bool:
    return isinstance(space, Earth)


def rule_of(said: Mapping[str, Any]) -> FenceRule:
    dwell_us, outside_us = microseconds_of("dwell_s", said), microseconds_of("outside_s", said)
    on = said.get("on")
    if on is None:
        names = ["enter", "leave", *(["dwell"] if dwell_us is not None else [])]
    elif isinstance(on, list) and all(each in NAMES for each in on):
        names = on
    else:
        raise BadFence(f"on is {on!r}; give a list of enter, leave, cross and dwell")
    certainty = said.get("certainty", "probably")
    if certainty not in CERTAINTIES:
        raise BadFence(f'certainty is {certainty!r}; give "probably" or "surely"')
    hosts = said.get("hosts")
    if hosts is not None and not isinstance(hosts, str):
        raise BadFence("hosts is a filter over hosts, as text")
    return FenceRule(
        tuple(Transition(each) for each in names),
        hosts_of(hosts),
        dwell_us,
        number_of("hysteresis_m", said) if "hysteresis_m" in said else None,
        outside_us,
        certainty,
    )


def hosts_of(text: str | None) -> Filter:
    if text is None:
        return EVERYTHING
    hosts = read_filter(text)
    for term in (term for atom in atoms(hosts.root) for term in terms(atom)):
        match term:
            case Literal():
                continue
            case Attribute(name) | Mine(name) if name != "position":
                continue
            case _:
                raise BadFence("hosts is a filter over attributes of the host alone; the geometry says where")
    return hosts


def number_of(name: str, said: Mapping[str, Any]) -> float:
    given = said[name]
    if not is_number(given):
        raise BadFence(f"{name} is {given!r}; give a number of metres")
    try:
        return float(given)
    except OverflowError:
        raise BadFence(f"{name} is out of range") from None


def microseconds_of(name: str, said: Mapping[str, Any]) -> int | None:
    given = said.get(name)
    if given is None:
        return None
    if not is_number(given) or not 0 < given <= 10 * 366 * 86_400:
        raise BadFence(f"{name} is {given!r}; give a number of seconds above 0")
    return round(float(given) * 1e6)


# Written.


def written(fence: Fence) -> dict[str, Any]:
    """The Feature that is read as this fence, but for its name."""
    rule, region = fence.rule, fence.region
    said: dict[str, Any] = {"on": [each.value for each in rule.on]}
    if rule.hosts != EVERYTHING:
        said["hosts"] = to_text(rule.hosts)
    for name, us in (("dwell_s", rule.dwell_us), ("outside_s", rule.outside_us)):
        if us is not None:
            said[name] = us / 1e6
    if rule.hysteresis_m is not None:
        said["hysteresis_m"] = rule.hysteresis_m
    if rule.certainty != "probably":
        said["certainty"] = rule.certainty
    shape = region
    if isinstance(region, Anchored):
        if region.reference != ORIGIN:
            raise BadFence(f"'{fence.name}': GeoJSON cannot express a reference point other than the host")
        said["anchor"], shape = region.host, region.shape
    geometry: dict[str, Any]
    match shape:
        case Circle(centre, radius_m):
            said["radius_m"] = radius_m
            geometry = {"type": "Point", "coordinates": [centre.x, centre.y]}
        case Box() | Polygon():
            corners = outline(shape)
            ring = [[corner.x, corner.y] for corner in (*corners, corners[0])]
            geometry = {"type": "Polygon", "coordinates": [ring]}
        case _:
            raise BadFence(f"'{fence.name}': a region cannot be anchored to a region")
    return {"type": "Feature", "geometry": geometry, "properties": said}
