"""L1, L6: what people write to a node and read from it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.context import Context
from roamcast.model.event import BadEvent, ContentType, Event, EventType
from roamcast.model.space import Plane
from roamcast.model.values import BadValue, Instant, Point, Value
from roamcast.multicast.text_form import (
    SAY,
    delivery_json,
    delivery_line,
    event_type_of,
    own_attribute_of,
    point_of,
    wish_of,
    withdrawal_of,
)
from tests.effort import examples

ICE = event_type_of("road/ice(depth: integer, thick: double, by: string, wet: boolean, at: time, where: position)")
TYPES = {ICE.subject: ICE}


def test_l6_a_type_is_its_subject_and_its_content() -> None:
    assert event_type_of("ice") == event_type_of(" ice() ") == EventType("ice")
    assert event_type_of("ice(depth:integer)") == EventType("ice", {"depth": ContentType.INTEGER})


@pytest.mark.parametrize("text", ["", "ice(depth)", "ice(depth: number)", "ice)", "(depth: integer)", "ice/#"])
def test_l6_a_type_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadValue):
        event_type_of(text)


def test_l6_a_line_is_an_event_with_values_of_its_type() -> None:
    line = "road/ice depth=3 thick=3 by='old bridge' wet=true at=1970-01-01T00:00:01Z where=24.9,60.1"
    subject, attributes = wish_of(line, TYPES)
    assert subject == "road/ice"
    assert attributes == {
        "depth": 3,
        "thick": 3.0,
        "by": "old bridge",
        "wet": True,
        "at": Instant(1_000_000),
        "where": Point(24.9, 60.1),
    }
    ICE.check(attributes)


def test_l6_the_same_event_can_be_written_in_json() -> None:
    text = {"subject": "road/ice", "attributes": {"depth": 3, "wet": False, "where": [1, 2], "by": "a=b c"}}
    attributes = wish_of(json.dumps(text), TYPES)[1]
    assert attributes == {"depth": 3, "wet": False, "where": Point(1.0, 2.0), "by": "a=b c"}


@pytest.mark.parametrize(
    "line", ["road/ice depth=much", "road/ice wet=perhaps", "road/ice at=noon", "road/ice where=3", "snow", "{", "{}"]
)
def test_l6_a_line_that_is_no_event_says_why(line: str) -> None:
    with pytest.raises(BadEvent):
        wish_of(line, TYPES)


def test_l6_where_nothing_else_fits_a_line_is_said_as_it_is() -> None:
    assert wish_of("  it's me, depth=3\n", {SAY.subject: SAY}) == ("say", {"text": "it's me, depth=3"})
    assert wish_of("say hello to bob", {SAY.subject: SAY}) == ("say", {"text": "say hello to bob"})
    assert wish_of("say text=hello", {SAY.subject: SAY}) == ("say", {"text": "hello"})


@given(line=st.text(max_size=60))
@examples(150)
def test_l6_no_line_stops_a_node(line: str) -> None:
    for types in (TYPES, {SAY.subject: SAY}):
        try:
            wish_of(line or "x", types)
        except BadValue:
            continue


def test_l6_attributes_of_a_host_are_what_they_look_like() -> None:
    texts = ("a=1", "b=1.5", "c=true", "d=red wine", "e=")
    assert dict(map(own_attribute_of, texts)) == {"a": 1, "b": 1.5, "c": True, "d": "red wine", "e": ""}
    with pytest.raises(BadValue, match="NAME=VALUE"):
        own_attribute_of("red")


def test_l6_a_place_is_two_numbers() -> None:
    assert point_of("24.94,60.17") == Point(24.94, 60.17)
    with pytest.raises(BadValue, match="two numbers"):
        point_of("Helsinki")


def test_l6_a_delivery_tells_what_from_whom_and_how_far_away() -> None:
    content: dict[str, Value] = {"depth": 3, "where": Point(1.0, 2.0), "at": Instant(0), "by": "old bridge"}
    event = Event("car-1:e1", "ice", Context("car-1", Point(0.0, 0.0)), 5, 5, content)
    me = Context("car-2", Point(30.0, 40.0))
    line = delivery_line(event, 6, me, Plane())
    assert "ice  from car-1, 50 m away  depth=3 where='[1.0, 2.0]'" in line
    assert line.endswith("by='old bridge'")
    told = json.loads(delivery_json(event, "s", 6, me, Plane()))
    assert told["attributes"] == {
        "depth": 3,
        "where": [1.0, 2.0],
        "at": "1970-01-01T00:00:00+00:00",
        "by": "old bridge",
    }
    assert (told["event"], told["publisher"], told["distance_m"], told["delivered_us"]) == (
        "car-1:e1",
        "car-1",
        50,
        6,
    )
    assert "away" not in delivery_line(event, 6, Context("car-2"), Plane())


FAKED = "x\n12:00:01.204  ice  from car-1, 50 m away  depth=9\x1b[2J\x9b1A\r\u2028"


@pytest.mark.parametrize(
    "event",
    [
        Event("e", "ice", Context("eve"), 5, 5, {"by": FAKED}),
        Event("e", FAKED, Context("eve"), 5, 5),
        Event("e", "ice", Context(FAKED), 5, 5),
    ],
    ids=["value", "subject", "publisher"],
)
def test_l7_what_others_write_is_one_line_and_commands_no_terminal(event: Event) -> None:
    """Else whoever may speak at all could write a line that seems to come from another, or clear the screen."""
    line = delivery_line(event, 6, Context("me"), Plane())
    assert line.isprintable()
    assert r"x\n12:00:01.204  ice  from car-1" in line
    told = delivery_json(event, "s", 6, Context("me"), Plane())
    assert told.isprintable()
    said = json.loads(told)
    assert FAKED in (said["subject"], said["publisher"], said["attributes"].get("by"))


def test_l6_a_line_withdraws_what_lasts_of_a_subject() -> None:
    """Unless it is talk, or an event of a type of that name."""
    own = {**TYPES, "withdraw": EventType("withdraw")}
    assert withdrawal_of(" withdraw road/ice ", TYPES) == "road/ice"
    assert [withdrawal_of(line, TYPES) for line in ("withdraw the offer", "withdraw", "road/ice depth=3")] == [
        None
    ] * 3
    assert withdrawal_of("withdraw road/ice", own) is None
