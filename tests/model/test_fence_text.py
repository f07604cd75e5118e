"""Fences as GeoJSON: what is read, and what is refused in words."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.fence import Fence, FenceRule, Transition
from roamcast.model.fence_text import BadFence, read_fences, written
from roamcast.model.filter import parse_text
from roamcast.model.region import Anchored, Box, Circle, Polygon, Shape
from roamcast.model.space import Earth, Plane
from roamcast.model.values import Point
from roamcast.model.way import outline
from tests.effort import examples
from tests.model.test_region import shapes

PLANE, EARTH = Plane(), Earth()
RING = [[0, 0], [4, 0], [4, 3], [0, 0]]


def feature(geometry: object = None, **properties: object) -> dict[str, Any]:
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def polygon(*rings: object) -> dict[str, object]:
    return {"type": "Polygon", "coordinates": list(rings) or [RING]}


def point(x: float = 1, y: float = 2) -> dict[str, object]:
    return {"type": "Point", "coordinates": [x, y]}


def read(given: object) -> tuple[Fence, ...]:
    return read_fences("yard", json.dumps(given), PLANE)


def test_a_polygon_is_a_fence_that_tells_enter_and_leave() -> None:
    corners = (Point(0, 0), Point(4, 0), Point(4, 3))
    assert read(feature(polygon())) == (Fence("yard", Polygon(corners), FenceRule()),)


def test_a_point_with_a_radius_is_a_circle() -> None:
    (fence,) = read(feature(point(), radius_m=50))
    assert fence.region == Circle(Point(1, 2), 50.0)


def test_a_radius_around_a_host_moves_with_it() -> None:
    (fence,) = read(feature(None, radius_m=50, anchor="ambulance"))
    assert fence.region == Anchored(Circle(Point(0, 0), 50.0), "ambulance")


def test_the_rule_is_in_the_properties() -> None:
    given = feature(
        polygon(), on=["leave", "dwell"], dwell_s=600, hysteresis_m=30, outside_s=9.5, certainty="surely",
        hosts="kind = 'van'",
    )  # fmt: skip
    on = (Transition.LEAVE, Transition.DWELL)
    rule = FenceRule(on, parse_text("kind = 'van'"), 600_000_000, 30.0, 9_500_000, "surely")
    assert read(given)[0].rule == rule


def test_a_time_of_dwelling_adds_dwell() -> None:
    (fence,) = read(feature(polygon(), dwell_s=1))
    assert fence.rule.on == (Transition.ENTER, Transition.LEAVE, Transition.DWELL)


def test_features_of_a_collection_have_names_and_a_common_rule() -> None:
    given = {
        "type": "FeatureCollection",
        "properties": {"on": ["leave"], "radius_m": 5},
        "features": [
            {**feature(point()), "id": "north"},
            feature(point(), name="south", on=["enter"], radius_m=7),
            feature(point()),
        ],
    }
    fences = read(given)
    assert [each.name for each in fences] == ["yard/north", "yard/south", "yard/3"]
    assert [each.rule.on for each in fences] == [("leave",), ("enter",), ("leave",)]
    assert [each.region for each in fences] == [Circle(Point(1, 2), float(radius)) for radius in (5, 7, 5)]


def test_properties_of_others_mean_nothing() -> None:
    assert read(feature(polygon(), population=5, area=[1, 2]))[0].rule == FenceRule()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("x", "GeoJSON object"),
        ({"type": "Point"}, "Feature or FeatureCollection"),
        (feature(), "geometry is missing"),
        (feature(point()), "radius_m"),
        (feature(point(), radius_m="5"), "radius_m is '5'"),
        (feature(point(), radius_m=0), "radius of 0"),
        (feature({"type": "LineString"}), "'LineString': give a Polygon"),
        (feature(polygon(RING, RING)), "holes"),
        (feature(polygon(RING[:-1])), "the last is the first again"),
        (feature(polygon([[0, 0], [1, 1], [2, 2], [0, 0]])), "no area"),
        (feature(polygon(), on=["exit"]), "on is"),
        (feature(polygon(), on="leave"), "on is"),
        (feature(polygon(), on=["dwell"]), "'dwell' needs dwell_s"),
        (feature(polygon(), dwell_s=-1), "dwell_s is -1"),
        (feature(polygon(), certainty="maybe"), "certainty is 'maybe'"),
        (feature(polygon(), hosts="kind ="), "hosts"),
        (feature(polygon(), hosts="me.position = 1"), "attributes of the host alone"),
        (feature(polygon(), anchor=5), "anchor"),
        ({"type": "FeatureCollection", "features": []}, "features is empty"),
        ({"type": "FeatureCollection", "features": [feature(polygon()), 5]}, r"features\[2\]"),
        ({"type": "FeatureCollection", "features": [{**feature(polygon()), "id": 1}] * 2}, "used twice"),
        ({"type": "FeatureCollection", "features": [{**feature(polygon()), "id": {"a": 1}}]}, "text or a number"),
        (feature(point(), radius_m=10**400), "out of range"),
    ],
)
def test_what_is_no_fence_is_refused_in_words(given: object, words: str) -> None:
    with pytest.raises(BadFence, match=words):
        read(given)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(BadFence, match="GeoJSON"):
        read_fences("yard", b"{", PLANE)


def test_latitude_before_longitude_is_noticed() -> None:
    with pytest.raises(BadFence, match="GeoJSON has longitude first"):
        read_fences("yard", json.dumps(feature(point(35.7, 139.7), radius_m=5)), EARTH)


@examples(200)
@given(
    shapes,
    st.sampled_from([(), ("dwell",)]),
    st.none() | st.floats(0, 1e6),
    st.none() | st.integers(1, 10**9),
    st.sampled_from(["probably", "surely"]),
    st.sampled_from(["TRUE", "kind = 'van' AND NOT off"]),
)
def test_what_is_written_is_read_as_it_was(
    region: Shape, more: tuple[str, ...], metres: float | None, outside_us: int | None, certainty: Any, hosts: str
) -> None:
    on = tuple(Transition(each) for each in ("enter", "leave", *more))
    rule = FenceRule(on, parse_text(hosts), 5_000_000 if more else None, metres, outside_us, certainty)
    (read_again,) = read(written(Fence("yard", region, rule)))
    assert read_again.rule == rule
    expected = Polygon(outline(region)) if isinstance(region, Box) else region
    assert read_again.region == expected


def test_a_fence_that_moves_is_written_around_its_host() -> None:
    fence = Fence("yard", Anchored(Circle(Point(0, 0), 50), "ambulance"))
    assert read(written(fence)) == (fence,)
