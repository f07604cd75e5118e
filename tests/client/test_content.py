"""L2: what the client writes is what brokers and other clients read."""

import asyncio
import math
import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.mqtt import content as brokers
from roamcast.broker.mqtt.properties import scope_of
from roamcast.client import Client, ClientError
from roamcast.client.content import attributes_of, payload_of, point_given, scope_text
from roamcast.model.context import Context
from roamcast.model.filter import Filter, parse_text
from roamcast.model.region import Anchored, Box, Circle, Polygon, Region, rectangle
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.space import Earth, Plane
from roamcast.model.values import INTEGER_LIMIT, BadValue, Instant, Point, Value
from tests.effort import examples

METRES = st.floats(-1e6, 1e6)
POINTS = st.builds(Point, METRES, METRES)
RADII = st.floats(0.1, 1e6)
BOXES = st.tuples(METRES, METRES, RADII, RADII).map(
    lambda box: Box(Point(*box[:2]), Point(box[0] + box[2], box[1] + box[3]))
)
TRIANGLES = st.tuples(METRES, METRES, RADII).map(
    lambda each: Polygon((Point(*each[:2]), Point(each[0] + each[2], each[1]), Point(each[0], each[1] + each[2])))
)
REGIONS: st.SearchStrategy[Region] = st.one_of(
    st.builds(Circle, POINTS, RADII),
    BOXES,
    TRIANGLES,
    RADII.map(lambda radius_m: Anchored(Circle(Point(0, 0), radius_m), "me")),
)
FILTERS: st.SearchStrategy[Filter] = st.sampled_from(
    ["kind = 'bus'", "speed > 3.5 AND NOT busy", "name LIKE 'a%'", "speed > me.speed", "n IN (1, 2)"]
).map(parse_text)
VALUES: st.SearchStrategy[Value] = st.one_of(
    st.booleans(),
    st.integers(-INTEGER_LIMIT, INTEGER_LIMIT),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    POINTS,
)
NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=10)


@given(region=st.none() | REGIONS, filter_=st.none() | FILTERS)
@examples(200)
def test_l2_brokers_read_a_scope_as_it_was_meant(region: Region | None, filter_: Filter | None) -> None:
    scope = Scope(region, filter_)
    read = scope_of("audience", scope_text(scope, "me"), "me", Plane())
    if scope == EVERYWHERE:
        assert read == Scope(None, parse_text("TRUE"))
    else:
        assert read == scope


@pytest.mark.parametrize("given_", [Circle(Point(1, 2), 3), parse_text("a = 1")])
def test_l2_a_region_or_a_filter_alone_is_a_scope(given_: Circle | Filter) -> None:
    scope = Scope(given_) if isinstance(given_, Circle) else Scope(None, given_)
    assert scope_of("interest", scope_text(given_, "me"), "me", Plane()) == scope


@pytest.mark.parametrize(
    "region",
    [
        Anchored(Circle(Point(0, 0), 5), "another"),
        Anchored(Circle(Point(1, 0), 5), "me"),
        Anchored(rectangle(3, 4), "me"),
    ],
)
def test_l2_what_brokers_cannot_be_told_is_refused(region: Region) -> None:
    with pytest.raises(BadValue, match="circles around the client"):
        scope_text(region, "me")


@given(attributes=st.dictionaries(NAMES, VALUES, max_size=8))
@examples(200)
def test_l2_attributes_come_back_as_they_were_and_brokers_see_the_same(attributes: dict[str, Value]) -> None:
    payload = payload_of(attributes)
    assert attributes_of(payload) == attributes
    seen = brokers.attributes_of(payload, Plane())
    assert {name: value for name, value in seen.items() if name in attributes} == attributes


@given(us=st.integers(-INTEGER_LIMIT, INTEGER_LIMIT))
@examples(100)
def test_l2_a_moment_comes_back_to_the_microsecond(us: int) -> None:
    assert attributes_of(payload_of({"when": Instant(us)})) == {"when": Instant(us)}


@given(payload=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
@examples(200)
def test_l2_any_payload_has_attributes_or_none(payload: bytes) -> None:
    assert isinstance(attributes_of(payload), dict)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[1]",
        b'"x"',
        b"{",
        b'{"a": null, "b": [1], "c": {}, "d": [1, "x"], "e": 1e999}',
        b'{"a": "\xff"}',
        b"[" * 9_999,
    ],
)
def test_l2_what_is_no_attribute_is_left_out(payload: bytes) -> None:
    assert attributes_of(payload) == {}


@pytest.mark.parametrize(
    ("content", "payload"),
    [
        ("text", b'"text"'),
        (7, b"7"),
        (None, b"null"),
        ([1, (2.0, 3.0)], b"[1,[2.0,3.0]]"),
        (Point(1, 2), b"[1,2]"),
        (bytearray(b"raw"), b"raw"),
        ({"properties": {"speed": 3, "at": Point(1.0, 2.0)}}, b'{"properties":{"speed":3,"at":[1.0,2.0]}}'),
        (
            {"when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1)))},
            b'{"when":{"timestamp":"2026-01-02T02:04:05Z"}}',
        ),
    ],
)
def test_l2_content_is_any_json_value(content: Any, payload: bytes) -> None:
    assert payload_of(content) == payload


def contains_itself() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({1, 2}, "content: set cannot be said in JSON; give a dict"),
        ({"a": {"b": [1, object()]}}, "content.a.b[1]: object cannot be said in JSON"),
        ({3: 4}, "a name is text, and 3 is of type int"),
        ({"a": [math.nan]}, "content.a[0]: nan is not a number in JSON"),
        ({"at": datetime(2026, 1, 2)}, "content.at: 2026-01-02 00:00:00 has no zone"),
        (contains_itself(), "one that contains itself"),
        ({"n": 2**60}, "attribute 'n'"),
    ],
)
def test_l2_content_that_cannot_be_said_is_told_with_its_place(content: Any, said: str) -> None:
    with pytest.raises(BadValue, match=re.escape(said)):
        payload_of(content)


@pytest.mark.parametrize("given_", [Point(1, 2), (1, 2.0), [1.0, 2]])
def test_l2_a_position_may_be_two_numbers(given_: Any) -> None:
    assert point_given("position", given_) == Point(1, 2)


@pytest.mark.parametrize("given_", ["here", (1,), (1, "2"), (True, 1), 3])
def test_l2_what_is_no_position_is_told_so(given_: Any) -> None:
    with pytest.raises(BadValue, match=r"position is .*; give a Point or \(x, y\)"):
        point_given("position", given_)


def test_l2_a_client_that_was_not_entered_says_so() -> None:
    async def work() -> None:
        client = Client("car", ["mqtt://127.0.0.1:1"])
        for asked in (client.publish("t"), client.move((1, 2)), client.subscribe("t")):
            with pytest.raises(ClientError, match="within `async with Client"):
                await asked

    asyncio.run(work())


def test_l2_longitude_and_latitude_that_are_swapped_are_told_so() -> None:
    with pytest.raises(brokers.BadReport, match="longitude comes first"):
        brokers.context_reported(b'{"position": [60.17, 124.94]}', Context("car"), 0, Earth())
    with pytest.raises(brokers.BadReport, match="not in this space"):
        brokers.context_reported(b'{"position": [600, 124.94]}', Context("car"), 0, Earth())
