"""Event types, vocabularies and events (S1), and what an event or a subscription may not be (C3)."""

import math

import pytest
from msgspec.structs import replace

from roamcast.model.context import Context
from roamcast.model.event import BadEvent, ContentType, Delivery, Event, EventType, Vocabulary
from roamcast.model.subject import BadSubject
from roamcast.model.subscription import Subscription
from roamcast.model.values import BadValue, Instant, Point, Value

AMBULANCE = EventType(
    "traffic/ambulance",
    {
        "id": ContentType.INTEGER,
        "speed": ContentType.DOUBLE,
        "street": ContentType.STRING,
        "siren": ContentType.BOOLEAN,
        "since": ContentType.TIME,
        "position": ContentType.POSITION,
    },
)
CONTENT: dict[str, Value] = {
    "id": 7,
    "speed": 14.5,
    "street": "Pearse Street",
    "siren": True,
    "since": Instant(5),
    "position": Point(1, 2),
}
EVENT = Event("e1", "traffic/ambulance", Context("ambulance"), 10, 20, CONTENT)
SUBSCRIPTION = Subscription("s1", "car", "traffic/#", 0, 100)


def test_s1_content_of_all_six_types_fits() -> None:
    AMBULANCE.check(CONTENT)


def test_s1_an_integer_is_a_double_but_not_the_other_way_round() -> None:
    AMBULANCE.check({**CONTENT, "speed": 14})
    with pytest.raises(BadEvent, match="'id' must be integer, not float"):
        AMBULANCE.check({**CONTENT, "id": 7.0})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("id", True, "'id' must be integer, not bool"),
        ("speed", True, "'speed' must be double, not bool"),
        ("speed", "fast", "'speed' must be double, not str"),
        ("street", 1, "'street' must be string, not int"),
        ("siren", 1, "'siren' must be boolean, not int"),
        ("since", 5, "'since' must be time, not int"),
        ("position", "here", "'position' must be position, not str"),
    ],
)
def test_s1_an_attribute_of_another_type_is_refused_by_name(name: str, value: Value, message: str) -> None:
    with pytest.raises(BadEvent, match=message):
        AMBULANCE.check({**CONTENT, name: value})


def test_s1_a_missing_attribute_is_refused_by_name_and_type() -> None:
    with pytest.raises(BadEvent, match="'street' \\(string\\) is missing"):
        AMBULANCE.check({name: value for name, value in CONTENT.items() if name != "street"})


def test_s1_an_unknown_attribute_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadEvent, match="no attribute 'colour'; it has id, speed"):
        AMBULANCE.check({**CONTENT, "colour": "yellow"})


def test_s1_a_subject_has_one_structure() -> None:
    vocabulary = Vocabulary()
    vocabulary.add(AMBULANCE)
    vocabulary.add(EventType(AMBULANCE.subject, dict(AMBULANCE.content)))
    other = EventType(AMBULANCE.subject, {**AMBULANCE.content, "speed": ContentType.INTEGER})
    with pytest.raises(BadEvent, match="attribute 'speed' was double and is now integer"):
        vocabulary.add(other)
    assert vocabulary.types[AMBULANCE.subject] is AMBULANCE


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": ContentType.TIME, "b": ContentType.TIME}, "'b' was absent and is now time"),
        ({}, "'a' was time and is now absent"),
    ],
)
def test_s1_a_structure_with_more_or_less_is_another(content: dict[str, ContentType], message: str) -> None:
    vocabulary = Vocabulary()
    vocabulary.add(EventType("s", {"a": ContentType.TIME}))
    with pytest.raises(BadEvent, match=message):
        vocabulary.add(EventType("s", content))


def test_s1_the_order_of_attributes_is_no_structure() -> None:
    vocabulary = Vocabulary()
    vocabulary.add(EventType("s", {"a": ContentType.TIME, "b": ContentType.TIME}))
    vocabulary.add(EventType("s", {"b": ContentType.TIME, "a": ContentType.TIME}))


def test_s1_other_delivery_attributes_are_another_structure() -> None:
    vocabulary = Vocabulary()
    vocabulary.add(EventType("s"))
    with pytest.raises(BadEvent, match="delivery attributes"):
        vocabulary.add(EventType("s", delivery=Delivery(priority=1)))


def test_s1_content_is_checked_by_subject() -> None:
    vocabulary = Vocabulary()
    vocabulary.add(AMBULANCE)
    vocabulary.check("traffic/ambulance", CONTENT)
    with pytest.raises(BadEvent, match="'siren' must be boolean"):
        vocabulary.check("traffic/ambulance", {**CONTENT, "siren": "loud"})
    with pytest.raises(BadEvent, match=r"no event type with subject 'weather'.*known subjects: traffic/ambulance"):
        vocabulary.check("weather", {})


def test_c3_an_event_cannot_expire_before_it_is_published() -> None:
    with pytest.raises(BadEvent, match="'e1' expires at 9 µs, before it is published at 10 µs"):
        replace(EVENT, expires_us=9)


def test_c3_an_event_that_expires_at_once_is_instantaneous() -> None:
    assert replace(EVENT, expires_us=10).instantaneous
    assert not EVENT.instantaneous


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"id": ""}, "needs an id"),
        ({"subject": "traffic/#"}, "wildcards"),
        ({"attributes": {"a": math.nan}}, "'a'"),
        ({"attributes": {str(i): i for i in range(257)}}, "257 attributes; at most 256"),
    ],
)
def test_an_event_that_cannot_be_is_refused(change: dict[str, object], error: str) -> None:
    with pytest.raises(BadValue, match=error):
        replace(EVENT, **change)


def test_an_event_type_has_a_plain_subject() -> None:
    with pytest.raises(BadSubject, match="wildcards"):
        EventType("traffic/+")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"id": ""}, "needs an id and a subscriber"),
        ({"subscriber": ""}, "needs an id and a subscriber"),
        ({"subject": "a/#/b"}, "last level"),
        ({"expires_us": -1}, "'s1' expires at -1 µs, before its start at 0 µs"),
    ],
)
def test_a_subscription_that_cannot_be_is_refused(change: dict[str, object], error: str) -> None:
    with pytest.raises(BadValue, match=error):
        replace(SUBSCRIPTION, **change)


def test_events_are_equal_by_value_and_subscriptions_can_be_keys() -> None:
    assert replace(EVENT) == EVENT
    assert {SUBSCRIPTION: 1}[replace(SUBSCRIPTION)] == 1
