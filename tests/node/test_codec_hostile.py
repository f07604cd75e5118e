"""Bytes in, a message or `BadMessage` out, whatever the bytes are; and what comes out, a node can work with."""

import random
import struct
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.match import matches
from roamcast.model.region import (
    Anchored,
    Box,
    Circle,
    Polygon,
    bounds,
    grown,
    intersects,
    placed,
)
from roamcast.model.space import Earth, Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point
from roamcast.node.boundary import Message
from roamcast.node.codec import HEADER_BYTES, Codec
from tests.effort import examples
from tests.node.samples import CODEC, CORNERS, FILTER, FULL, HEADER, SUBSCRIPTION, Carry, Hello, body, outcome

FIELDS = (*Carry.__struct_fields__, "unknown")


def field_with(name: str, content: bytes) -> bytes:
    """A `Carry` that ends with this field, all fields before it left at their defaults."""
    before = msgspec.msgpack.encode(Carry())[1:]
    place = FIELDS.index(name)
    defaults = [msgspec.msgpack.encode(getattr(Carry(), each)) for each in FIELDS[:place]]
    assert before.startswith(b"\xa5carry" + b"".join(defaults))
    return HEADER + bytes([0x92 + place]) + b"\xa5carry" + b"".join(defaults) + content


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1a", b"\x81\x91", b"\x92\xa3not"])
def test_a_hundred_thousand_levels_are_refused(name: str, opening: bytes) -> None:
    assert outcome(CODEC.decode, field_with(name, opening * 100_000)) == "malformed"


def test_a_filter_of_a_hundred_thousand_levels_is_refused() -> None:
    start = CODEC.encode(Carry(subscription=SUBSCRIPTION))
    nested = start.replace(msgspec.msgpack.encode(FILTER), b"\x91" + b"\x92\xa3not" * 100_000)
    assert len(nested) > 400_000
    assert outcome(CODEC.decode, nested) == "malformed"


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("marker", [0xDD, 0xDF, 0xC6, 0xDB, 0xC9])
@pytest.mark.parametrize("declared", [2**20, 2**28, 2**32 - 1])
def test_a_declared_length_takes_no_memory(name: str, marker: int, declared: int) -> None:
    """Array, map, binary, text and extension of up to four billion, with next to nothing behind."""
    data = field_with(name, bytes([marker]) + struct.pack(">I", declared) + b"\x01\x02\x03")
    tracemalloc.start()
    try:
        assert outcome(CODEC.decode, data) == "malformed"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_the_memory_check_sees_an_allocation() -> None:
    """The check above can fail."""
    tracemalloc.start()
    try:
        kept = bytearray(2**20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(kept) <= peak


def test_every_truncation_of_a_full_message_is_refused() -> None:
    whole = CODEC.encode(FULL)
    for length in range(len(whole)):
        assert outcome(CODEC.decode, whole[:length]) in ("not_ours", "malformed")


@examples(1_000)
@given(st.binary(max_size=200), st.booleans())
def test_arbitrary_bytes_are_a_message_or_refused(data: bytes, with_header: bool) -> None:
    outcome(CODEC.decode, HEADER + data if with_header else data)


tree = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
field_names = st.sampled_from(
    [*Carry.__struct_fields__, *Event.__struct_fields__, *Subscription.__struct_fields__, *Context.__struct_fields__]
)


@examples(150)
@given(st.dictionaries(st.sampled_from(Carry.__struct_fields__), tree | st.dictionaries(field_names, tree)))
def test_well_formed_messagepack_of_the_wrong_shape_is_refused(fields: dict[str, object]) -> None:
    try:
        data = body(**fields)
    except UnicodeEncodeError:
        return
    outcome(CODEC.decode, data)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, taken out, put in or repeated."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(HEADER_BYTES, len(found))
        match rng.randrange(4):
            case 0:
                found[place] = rng.randrange(256)
            case 1:
                del found[place : place + rng.randint(1, 8)]
            case 2:
                found[place:place] = rng.randbytes(rng.randint(1, 8))
            case _:
                found[place:place] = found[place : place + rng.randint(1, 40)]
        if len(found) <= HEADER_BYTES:
            break
    return bytes(found)


@pytest.mark.slow
def test_twenty_thousand_mutations_of_a_full_message_are_a_message_or_refused() -> None:
    rng = random.Random(7)
    whole = CODEC.encode(FULL)
    counts: dict[str, int] = {}
    for _ in range(20_000):
        came = outcome(CODEC.decode, mutated(whole, rng))
        counts[came] = counts.get(came, 0) + 1
    assert counts["malformed"] > 1_000
    assert counts["message"] > 100


def test_what_decodes_can_be_encoded_again() -> None:
    """A mutation that passes for a message is one in every respect."""
    rng = random.Random(8)
    whole = CODEC.encode(FULL)
    for _ in range(5_000):
        data = mutated(whole, rng)
        if outcome(CODEC.decode, data) == "message":
            message = CODEC.decode(data)
            assert CODEC.decode(CODEC.encode(message)) == message


EXTREMES = (0.0, -0.0, 1e308, -1e308, 5e-324, 180.0, -180.0, 90.0, -90.0, 89.999, 1e15, 1e-12, 360.0, 1e154)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_what_decodes_can_be_matched_and_placed() -> None:
    """Whatever numbers a stranger puts into a message that decodes, a node can work with it."""
    rng = random.Random(9)
    whole = CODEC.encode(FULL)
    floats = [place for place in range(HEADER_BYTES, len(whole) - 9) if whole[place] == 0xCB]
    decoded = 0
    for _ in range(3_000):
        data = bytearray(whole)
        for place in rng.choices(floats, k=rng.randint(1, 6)):
            data[place + 1 : place + 9] = struct.pack(">d", rng.choice(EXTREMES))
        if outcome(CODEC.decode, bytes(data)) != "message":
            continue
        message = CODEC.decode(bytes(data))
        if isinstance(message, Carry):
            decoded += 1
            work_with(message)
    assert decoded > 1_000


def work_with(message: Carry) -> None:
    event, subscription, context = message.event, message.subscription, message.context
    assert event is not None
    assert subscription is not None
    assert message.announcement is not None
    assert context is not None
    for space in (Plane(), Earth()):
        hosts = [context.at(10**15, space), replace(event.publisher, host="other")]
        matches(event, subscription, Configuration(space, hosts, 100.0), 1)
        for region in (event.relevance.region, subscription.interest.region, message.announcement.proximity):
            assert region is not None
            shape = region
            if isinstance(region, Anchored):
                shape = placed(region.shape, context.position or Point(0, 0), space, region.reference)
            assert not isinstance(shape, Anchored)
            bounds(shape, space)
            grown(shape, 10.0, space)
            for other in (Circle(Point(0, 0), 5.0), Box(Point(0, 0), Point(1, 1)), Polygon(CORNERS)):
                intersects(shape, other, space)


class Careless(Message, frozen=True, tag="careless"):
    """A message whose check trips over its own feet: what `decode` cannot turn into `BadMessage`."""

    name: str

    def __post_init__(self) -> None:
        if self.name[0] == "x":
            raise KeyError(self.name)


def test_the_fuzz_harness_notices_what_escapes() -> None:
    """Every fuzz test above can fail: another exception than `BadMessage` is not swallowed on the way."""
    careless = Codec((Careless, Hello))
    data = careless.encode(Careless("a")).replace(b"\xa1a", b"\xa1x")
    with pytest.raises(KeyError):
        outcome(careless.decode, data)
