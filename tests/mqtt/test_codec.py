"""L2: every packet of both versions goes through bytes unchanged, and any other bytes are refused in words."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from roamcast.mqtt import Decoder, MalformedPacket, ProtocolError, Unsendable, decode, encode
from roamcast.mqtt.decoding_publish import read_publish
from roamcast.mqtt.encoding import PublishFrame
from roamcast.mqtt.messages import Form, Message, message_of
from roamcast.mqtt.packets import V5, V311, AnyPacket, Connect, PingReq, PubAck, Publish, SubAck, Subscribe, Wish
from roamcast.mqtt.properties import read_properties, write_properties
from roamcast.mqtt.reasons import BadPacket, Reason
from tests.effort import examples
from tests.mqtt.strategies import packets_5, publishes, versioned

NOW_US = 1_000_000
Versioned = tuple[int, AnyPacket]


def outcome(data: bytes, version: int) -> AnyPacket | str | None:
    """What comes of bytes; anything but a packet, a wait for more and the two errors escapes."""
    try:
        decoded = decode(data, version)
    except (MalformedPacket, ProtocolError) as problem:
        return type(problem).__name__
    return None if decoded is None else decoded[0]


@examples(400)
@given(versioned)
def test_every_packet_comes_back_as_it_was(case: Versioned) -> None:
    version, packet = case
    data = encode(packet, version)
    assert decode(data, version) == (packet, len(data))


@examples(25)
@given(st.lists(packets_5, min_size=1, max_size=4))
def test_a_stream_cut_at_every_byte_gives_the_same_packets(packets: list[AnyPacket]) -> None:
    data = b"".join(encode(packet, V5) for packet in packets if not isinstance(packet, Connect))
    expected = [packet for packet in packets if not isinstance(packet, Connect)]
    for cut in range(len(data) + 1):
        decoder = Decoder(V5)
        got: list[AnyPacket] = []
        for piece in (data[:cut], data[cut:]):
            decoder.feed(piece)
            while (packet := decoder.next_packet()) is not None:
                got.append(packet)
        assert got == expected


@examples(60)
@given(versioned)
def test_a_packet_in_single_bytes_is_whole_with_its_last_byte_and_not_before(case: Versioned) -> None:
    version, packet = case
    data = encode(packet, version)
    decoder = Decoder(version)
    for byte in data[:-1]:
        decoder.feed(bytes([byte]))
        assert decoder.next_packet() is None
    decoder.feed(data[-1:])
    assert decoder.next_packet() == packet
    assert decoder.waiting_bytes == 0


@examples(600)
@given(st.binary(max_size=60), st.sampled_from([V5, V311]))
def test_arbitrary_bytes_raise_nothing_but_the_two_errors(data: bytes, version: int) -> None:
    outcome(data, version)


@examples(400)
@given(st.integers(0, 255), st.binary(max_size=60), st.sampled_from([V5, V311]))
def test_arbitrary_bodies_raise_nothing_but_the_two_errors(first: int, body: bytes, version: int) -> None:
    assert outcome(bytes([first, len(body)]) + body, version) is not None


@examples(400)
@given(versioned, st.data())
def test_a_damaged_packet_raises_nothing_but_the_two_errors(case: Versioned, data: st.DataObject) -> None:
    version, packet = case
    damaged = bytearray(encode(packet, version))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    result = outcome(bytes(damaged), version)
    if isinstance(result, Publish | Subscribe | SubAck):
        assert outcome(encode(result, version), version) == result


def test_the_fuzz_target_lets_other_errors_through() -> None:
    with pytest.raises(TypeError):
        outcome("text", V5)  # type: ignore[arg-type]


@examples(300)
@given(publishes(), st.data())
def test_the_fast_reader_of_publish_agrees_with_the_tables(packet: Publish, data: st.DataObject) -> None:
    properties = bytearray(write_properties(packet))
    if len(properties) > 1 and data.draw(st.booleans()):
        properties[data.draw(st.integers(1, len(properties) - 1))] = data.draw(st.integers(0, 255))
    body = b"\x00\x01t" + bytes(properties) + b"payload"
    try:
        fields, stop = read_properties(Publish, body, 3, len(body))
        by_tables: Publish | type[BadPacket] = Publish("t", body[stop:], **fields)
    except BadPacket as problem:
        by_tables = type(problem)
    try:
        fast: Publish | type[BadPacket] = read_publish(body, 0x30, 0, len(body), V5)
    except BadPacket as problem:
        fast = type(problem)
    assert fast == by_tables


@examples(100)
@given(publishes(), st.sampled_from([V5, V311]), st.booleans())
@example(Publish("t", b"", 1, packet_id=1), V311, True)
def test_a_frame_for_many_is_the_packet_of_each(packet: Publish, version: int, dup: bool) -> None:
    if packet.topic_alias is not None:
        return
    packet = replace(packet, dup=dup and packet.qos > 0, message_expiry_s=packet.message_expiry_s or None)
    message = message_of(packet, packet.topic, NOW_US)
    frame = PublishFrame(message, Form(packet.qos, packet.retain, packet.subscription_ids), version, NOW_US)
    written = frame.to_bytes(packet.packet_id, packet.dup)
    assert written == encode(packet, version)
    assert frame.size == len(written)


def test_a_large_packet_is_refused_by_its_length_alone() -> None:
    decoder = Decoder(V5, bytes_max=1_000)
    decoder.feed(b"\x30\xff\xff\x7f")
    with pytest.raises(ProtocolError) as caught:
        decoder.next_packet()
    assert caught.value.reason is Reason.PACKET_TOO_LARGE


def test_a_packet_of_exactly_the_maximum_is_read() -> None:
    packet = Publish("t", b"x" * 94)
    data = encode(packet, V5)
    assert decode(data, V5, 0, len(data)) == (packet, len(data))
    with pytest.raises(ProtocolError):
        decode(data, V5, 0, len(data) - 1)


def test_a_decoder_stays_broken() -> None:
    decoder = Decoder(V5)
    decoder.feed(b"\x00\x00" + encode(PingReq(), V5))
    for _ in range(2):
        with pytest.raises(MalformedPacket):
            decoder.next_packet()


def test_a_packet_in_many_pieces_is_put_together_once() -> None:
    packet = Publish("t", bytes(200_000))
    data = encode(packet, V5)
    decoder = Decoder(V5)
    for at in range(0, len(data), 10):
        decoder.feed(data[at : at + 10])
        last = decoder.next_packet()
    assert last == packet


def test_the_version_is_that_of_the_connect() -> None:
    decoder = Decoder()
    decoder.feed(encode(Connect("c", V311), V311) + encode(Publish("t", b"\x00\x01"), V311))
    assert isinstance(decoder.next_packet(), Connect)
    assert decoder.next_packet() == Publish("t", b"\x00\x01")


@pytest.mark.parametrize(
    "packet",
    [
        Publish("x" * 70_000, b""),
        Publish("t", b"", user_properties=(("name", "x" * 70_000),)),
        Publish("t", b"", content_type="x" * 70_000),
        Publish("t", b"", user_properties=(("a\0b", ""),)),
        Publish("t", b"", user_properties=(("\ud800", ""),)),
        Publish("\ud800", b""),
        Publish("t", b"", message_expiry_s=1 << 32),
        PubAck(70_000),
        Subscribe(1, (Wish("\0"),)),
    ],
)
def test_what_has_no_form_on_the_wire_is_said_so(packet: AnyPacket) -> None:
    with pytest.raises(Unsendable):
        encode(packet, V5)


@pytest.mark.parametrize("message", [Message("t", b"", payload_format=6), Message("t", b"", response_topic="a/#")])
def test_l7_what_mqtt_excludes_in_a_message_of_a_neighbour_is_unsendable(message: Message) -> None:
    with pytest.raises(Unsendable):
        PublishFrame(message, Form(0), V5, 0)
