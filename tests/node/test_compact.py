"""Messages of the ad hoc protocols in few bytes: they come back as they went, and whatever else comes is refused."""

import math
import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter.tree import Filter
from roamcast.model.region import Box, grown
from roamcast.model.scope import Scope
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import Instant, Point, Value
from roamcast.node.boundary import Message
from roamcast.node.codec import MESSAGE_BYTES_MAX, BadMessage, Codec
from roamcast.node.compact import CompactCodec
from roamcast.node.compact_format import VERSION
from roamcast.node.compact_reading import unpacked
from tests.effort import examples
from tests.multicast.samples import any_messages
from tests.node.samples import EVERY_PREDICATE, FULL, Carry, Hello, outcome
from tests.node.test_codec import HelloOfTomorrow

CODEC = CompactCodec((Carry, Hello))
HEADER = bytes([VERSION])

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
def test_every_value_of_the_model_comes_back(message: Message) -> None:
    assert CODEC.decode(CODEC.encode(message)) == message


@examples(300)
@given(any_messages())
def test_messages_of_the_protocols_come_back(message: Message) -> None:
    codec = CompactCodec((type(message), Hello))
    assert codec.decode(codec.encode(message)) == message


whole = st.integers(-(2**53), 2**53)
hundredths = st.integers(-(10**6), 10**6).map(lambda count: count / 100)
places = st.floats(-1e9, 1e9) | hundredths | st.integers(-(10**9), 10**9).map(lambda count: count / 1e7)
values = (
    st.booleans()
    | whole
    | st.floats(allow_nan=False, allow_infinity=False)
    | hundredths
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
    | st.builds(Instant, whole)
    | st.builds(Point, places, places)
)
names = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=8)


@examples(500)
@given(st.dictionaries(names, values, max_size=40))
def test_attributes_keep_their_types_and_bits(attributes: dict[str, Value]) -> None:
    back = CODEC.decode(CODEC.encode(Carry(Event("e", "s", Context("h"), 0, 0, attributes))))
    assert isinstance(back, Carry)
    assert back.event is not None
    assert {name: repr(value) for name, value in back.event.attributes.items()} == {
        name: repr(value) for name, value in attributes.items()
    }


@examples(300)
@given(places, hundredths, places)
def test_floats_told_by_their_distance_come_back_to_the_last_bit(start: float, distance: float, other: float) -> None:
    attributes: dict[str, Value] = {"a": start, "b": start + distance, "c": start - distance, "d": other, "e": -0.0}
    back = CODEC.decode(CODEC.encode(Carry(Event("e", "s", Context("h"), 0, 0, attributes))))
    assert isinstance(back, Carry)
    assert back.event is not None
    for name, value in attributes.items():
        found = back.event.attributes[name]
        assert isinstance(found, float)
        assert found.hex() == float(value).hex()  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [0, 63, 64, -1, 2**14, -(2**14), 2**63 - 1, -(2**63), 2**64 - 1])
def test_integers_of_all_sizes_come_back(number: int) -> None:
    message = Carry(hops=number, numbers=(number, number + 1 if number < 2**63 else number))
    assert CODEC.decode(CODEC.encode(message)) == message


def test_a_field_added_later_is_passed_over_or_takes_its_default() -> None:
    tomorrow = CompactCodec((Carry, HelloOfTomorrow))
    assert CODEC.decode(tomorrow.encode(HelloOfTomorrow("a", 5, "red"))) == Hello("a", 5)
    assert tomorrow.decode(CODEC.encode(Hello("a", 5))) == HelloOfTomorrow("a", 5, "green")


# What is told twice takes few bytes.


def extra_bytes(once: Message, twice: Message) -> int:
    return len(CODEC.encode(twice)) - len(CODEC.encode(once))


def test_a_context_told_again_takes_two_bytes() -> None:
    me = Context("host-1", Point(1.234567, 2.345678), 5_000_000)
    event = Event("host-1:e1", "ice", me, 1, 1)
    assert extra_bytes(Carry(event), Carry(event, context=me)) <= 4


def test_an_enlarged_region_takes_its_distances() -> None:
    region = Box(Point(333.3634078679175, 311.6074408611604), Point(433.3634078679175, 411.6074408611604))
    one = Subscription("s", "h", "x", 0, 1, interest=Scope(region), publishers=Scope(region))
    other = replace(one, publishers=Scope(grown(region, 60.0, Plane())))
    assert extra_bytes(Carry(subscription=one), Carry(subscription=other)) <= 18


def test_messages_are_shorter_than_message_pack() -> None:
    assert len(CODEC.encode(FULL)) < 0.6 * len(Codec((Carry, Hello)).encode(FULL))


# Strangers.


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not_ours"),
        (b"rc\x01\x80", "version"),
        (HEADER + bytes(MESSAGE_BYTES_MAX), "too_long"),
        (HEADER, "malformed"),
        (HEADER + b"\xff", "malformed"),
        (HEADER + b"\xd0", "malformed"),
        (CODEC.encode(Hello("a")) + b"\x00", "malformed"),
        (HEADER + b"\x42\x55hello\x05", "malformed"),
        (HEADER + b"\x42\x55hello\x52\xff\xfe", "malformed"),
        (HEADER + b"\x42\x55hello\xd8\x00\x09", "malformed"),
        (HEADER + b"\x42\x55hello\x70", "malformed"),
        (HEADER + b"\x42\x55hello\xb0\x01", "malformed"),
        (HEADER + b"\x42\x55hello\xc0\x01", "malformed"),
        (HEADER + b"\x42\x55hello\xd3" + b"\xff" * 20, "malformed"),
        (HEADER + b"\x41" * 100_000, "malformed"),
        (HEADER + b"\xdb\xff\xff\xff\xff\x0f", "malformed"),
    ],
)
def test_bytes_that_are_no_message_are_refused_with_their_reason(data: bytes, reason: str) -> None:
    assert outcome(CODEC.decode, data) == reason


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


def test_numbers_that_are_none_are_refused_when_read() -> None:
    for number in (math.nan, math.inf, -math.inf):
        event = Event("e", "s", Context("h"), 0, 0)
        event.attributes["a"] = number
        assert outcome(CODEC.decode, CODEC.encode(Carry(event))) == "malformed"


def test_repetitions_of_repetitions_are_refused_before_they_are_written_out() -> None:
    """Forty lists, each of the one before twice: a million million items in 130 bytes."""
    doubling = b"".join(b"\x42" for _ in range(40)) + b"\x00\x00"
    doubling += b"".join(bytes([0x70 + place]) for place in range(32))
    tracemalloc.start()
    try:
        assert outcome(CODEC.decode, HEADER + doubling) == "malformed"
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_points_count_with_their_numbers() -> None:
    """300 times the same point, and that 400 times: 120,000 points of three nodes in some 700 bytes."""
    repeated = b"\xdb\xac\x02" + b"\x70" * 300
    with pytest.raises(ValueError, match="nodes"):
        unpacked(HEADER + b"\x43\xde\x00\x00" + repeated + b"\xdb\x90\x03" + b"\x71" * 400)


@pytest.mark.parametrize("coordinate", [b"\x40", b"\x51x", b"\xd0", b"\xd2", b"\xde\x00\x00"])
def test_points_are_made_of_numbers(coordinate: bytes) -> None:
    assert unpacked(HEADER + b"\xde\x01\x02") == ["p", 1, 2]
    for data in (coordinate + b"\x00", b"\x00" + coordinate):
        with pytest.raises(ValueError, match="a point without numbers"):
            unpacked(HEADER + b"\xde" + data)


def test_texts_repeated_without_end_are_refused() -> None:
    text = b"x" * 60_000
    data = HEADER + b"\xdb\xff\x7f" + b"\xd9\xe0\xd4\x03" + text + b"\xd8\x00\xe0\xd4\x03" * 16_382
    assert outcome(CODEC.decode, data) == "malformed"


@examples(500)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    outcome(CODEC.decode, HEADER + data)


@examples(500)
@given(st.randoms(use_true_random=False))
def test_spoiled_messages_are_messages_or_refused(luck: random.Random) -> None:
    data = bytearray(CODEC.encode(FULL))
    for _ in range(luck.randint(1, 8)):
        data[luck.randrange(1, len(data))] = luck.randrange(256)
    outcome(CODEC.decode, bytes(data))
