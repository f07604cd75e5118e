"""Messages to bytes and back: round trips, versions, and the reason of every refusal."""

import math
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter.tree import (
    Filter,
)
from roamcast.model.subscription import Subscription
from roamcast.model.values import Instant, Point, Value
from roamcast.node.boundary import Message
from roamcast.node.codec import MAGIC, MESSAGE_BYTES_MAX, VERSION, BadMessage, Codec, Reason
from tests.effort import examples
from tests.node.samples import CODEC, EVERY_PREDICATE, FULL, HEADER, Carry, Hello, body, outcome


class HelloOfTomorrow(Message, frozen=True, tag="hello"):
    """The same message after a field was added."""

    name: str
    since_us: int = 0
    colour: str = "green"


# Round trips.


@pytest.mark.parametrize(
    "message",
    [
        Carry(),
        Hello("a"),
        FULL,
        *(Carry(subscription=Subscription("s", "h", "x", 0, 1, Filter(part))) for part in EVERY_PREDICATE),
    ],
)
def test_every_value_of_the_model_comes_back_as_it_went(message: Message) -> None:
    assert CODEC.decode(CODEC.encode(message)) == message


values = (
    st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.builds(Instant, st.integers(-(2**53), 2**53))
    | st.builds(Point, st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
)


@examples(300)
@given(
    st.dictionaries(st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=8), values, max_size=6)
)
def test_attributes_keep_their_types(attributes: dict[str, Value]) -> None:
    event = Event("e", "s", Context("h"), 0, 0, attributes)
    back = CODEC.decode(CODEC.encode(Carry(event)))
    assert isinstance(back, Carry)
    assert back.event is not None
    assert back.event.attributes == attributes
    assert [type(value) for value in back.event.attributes.values()] == [type(value) for value in attributes.values()]


# Versions.


def test_a_message_with_a_field_added_later_still_decodes() -> None:
    tomorrow = Codec((Carry, HelloOfTomorrow))
    assert CODEC.decode(tomorrow.encode(HelloOfTomorrow("a", 5, "red"))) == Hello("a", 5)


def test_a_message_of_yesterday_gets_the_default_of_a_new_field() -> None:
    tomorrow = Codec((Carry, HelloOfTomorrow))
    assert tomorrow.decode(CODEC.encode(Hello("a", 5))) == HelloOfTomorrow("a", 5, "green")


# Each reason.


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not_ours"),
        (MAGIC, "not_ours"),
        (b"xy" + bytes([VERSION]) + b"\x80", "not_ours"),
        (MAGIC + bytes([VERSION + 1]) + b"\x80", "version"),
        (HEADER + b"\x00" * MESSAGE_BYTES_MAX, "too_long"),
        (HEADER, "malformed"),
        (HEADER + b"\xc1", "malformed"),
        (HEADER + b"\xc0", "malformed"),
        (HEADER + b"\x80", "malformed"),
        (HEADER + msgspec.msgpack.encode(["unheard of"]), "malformed"),
        (HEADER + msgspec.msgpack.encode([5]), "malformed"),
        (HEADER + msgspec.msgpack.encode(["hello"]), "malformed"),
        (HEADER + msgspec.msgpack.encode(["hello", 5]), "malformed"),
        (CODEC.encode(Hello("a")) + b"\x00", "malformed"),
        (HEADER + b"\x92\xa5hello\xa2\xff\xfe", "malformed"),
        (HEADER + b"\x92\xa5hello\xa3\xed\xa0\x80", "malformed"),
    ],
)
def test_bytes_that_are_no_message_are_refused_with_their_reason(data: bytes, reason: str) -> None:
    with pytest.raises(BadMessage) as refused:
        CODEC.decode(data)
    assert refused.value.reason == reason
    assert str(refused.value).startswith(f"{reason}: ")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Hello("half \ud83d"), "unsendable"),
        (Carry(hops=2**64), "unsendable"),
        (Carry(payload=b"x" * MESSAGE_BYTES_MAX), "too_long"),
    ],
)
def test_a_message_that_cannot_be_sent_is_refused_with_its_reason(message: Message, reason: str) -> None:
    with pytest.raises(BadMessage) as refused:
        CODEC.encode(message)
    assert refused.value.reason == reason


def test_the_longest_message_passes_both_ways() -> None:
    short = Codec((Carry,), bytes_max=len(CODEC.encode(FULL)))
    assert short.decode(short.encode(FULL)) == FULL
    with pytest.raises(BadMessage, match="too_long"):
        Codec((Carry,), bytes_max=short.bytes_max - 1).encode(FULL)


# Values that the model refuses.

NAN, INFINITY = math.nan, math.inf


@pytest.mark.parametrize(
    "context",
    [
        {"host": ""},
        {"host": "h", "position": ["p", NAN, 0.0]},
        {"host": "h", "position": ["p", 0.0, INFINITY]},
        {"host": "h", "velocity": ["v", NAN, 0.0]},
        {"host": "h", "velocity": ["v", 1e300, 0.0]},
        {"host": "h", "attributes": {"a": NAN}},
        {"host": "h", "attributes": {"a": 2**60}},
        {"host": "h", "attributes": {"a": ["t", 2**60]}},
        {"host": "h", "attributes": {"a": ["p", 0.0, NAN]}},
        {"host": "h", "attributes": {"a": None}},
        {"host": "h", "attributes": {"position": 1}},
        {"host": "h", "attributes": {5: 1}},
    ],
)
def test_a_context_that_cannot_be_is_malformed(context: dict[str, object]) -> None:
    assert outcome(CODEC.decode, body(context=context)) == "malformed"


@pytest.mark.parametrize(
    "region",
    [
        ["circle", ["p", 0.0, 0.0], -1.0],
        ["circle", ["p", 0.0, 0.0], NAN],
        ["box", ["p", 0.0, 0.0], ["p", 1.0, 0.0]],
        ["polygon", [["p", 0.0, 0.0], ["p", 1.0, 0.0]]],
        ["polygon", [["p", 0.0, 0.0], ["p", 1.0, 1.0], ["p", 2.0, 2.0]]],
        ["polygon", [["p", float(i), float(i * i)] for i in range(1_001)]],
        ["anchored", ["circle", ["p", 0.0, 0.0], 1.0], ""],
        ["anchored", ["anchored", ["circle", ["p", 0.0, 0.0], 1.0], "a"], "b"],
        ["anchored", ["box", ["p", 5.0, 0.0], ["p", -5.0, 1.0]], "b"],
        ["triangle", ["p", 0.0, 0.0], 1.0],
    ],
)
def test_a_region_that_cannot_be_is_malformed(region: list[object]) -> None:
    fine = {"id": "s", "subscriber": "h", "subject": "x", "issued_us": 0, "expires_us": 1}
    assert outcome(CODEC.decode, body(subscription=fine)) == "message"
    assert outcome(CODEC.decode, body(subscription={**fine, "interest": [region]})) == "malformed"


def subscription_with_filter(predicate: object) -> bytes:
    fine = {"id": "s", "subscriber": "h", "subject": "x", "issued_us": 0, "expires_us": 1}
    return body(subscription={**fine, "filter": [predicate]})


def negated(times: int) -> object:
    predicate: object = ["const", True]
    for _ in range(times):
        predicate = ["not", predicate]
    return predicate


def test_a_filter_is_taken_up_to_its_depth_and_refused_beyond() -> None:
    assert outcome(CODEC.decode, subscription_with_filter(negated(23))) == "message"
    assert outcome(CODEC.decode, subscription_with_filter(negated(24))) == "malformed"


def test_a_filter_of_too_many_parts_or_of_unknown_parts_is_refused() -> None:
    assert outcome(CODEC.decode, subscription_with_filter(["and", [["const", True]] * 2_000])) == "malformed"
    assert outcome(CODEC.decode, subscription_with_filter(["xor", ["const", True]])) == "malformed"
    assert outcome(CODEC.decode, subscription_with_filter(["cmp", "==", ["attr", "a"], ["lit", 1]])) == "malformed"


def test_the_reasons_are_a_closed_set() -> None:
    assert get_args(Reason) == ("too_long", "not_ours", "version", "malformed", "unsendable")
