"""L2: packets read many at a time are what they are when read one by one."""

from hypothesis import given
from hypothesis import strategies as st

from roamcast.mqtt.batches import acknowledged_at, read_batch
from roamcast.mqtt.decoding import Decoder
from roamcast.mqtt.encoding import encode, encode_publish
from roamcast.mqtt.packets import V5, V311, AnyPacket, PingReq, PubAck, Publish
from roamcast.mqtt.reasons import BadPacket
from tests.effort import examples

TOPICS = ("a", "a/b", "é/long/" + "x" * 130, "$own")
versions = st.sampled_from([V311, V5])
payloads = st.one_of(st.binary(max_size=3), st.sampled_from([b"x" * 100, b"y" * 100, b"z" * 300]))


@st.composite
def packets_said(draw: st.DrawFn) -> tuple[int, list[AnyPacket]]:
    version = draw(versions)
    said: list[AnyPacket] = []
    for number in range(draw(st.integers(1, 12))):
        qos = draw(st.sampled_from([0, 0, 1, 1, 2]))
        pairs = (("name", "value"),) if version == V5 and draw(st.integers(0, 5)) == 0 else ()
        topic, payload, retain = draw(st.sampled_from(TOPICS)), draw(payloads), draw(st.integers(0, 5)) == 0
        said.append(Publish(topic, payload, qos, retain, packet_id=number + 1 if qos else 0, user_properties=pairs))
        if draw(st.integers(0, 9)) == 0:
            said.append(PingReq())
    return version, said


def next_packets(decoder: Decoder, batched: bool) -> list[AnyPacket]:
    """A batch, or the next packet; none if there is no whole one."""
    if batched and decoder.has_more and decoder.data[decoder.at] in (0x30, 0x32):
        batch = decoder.next_batch()
        if batch is not None:
            ids = batch.packet_ids or [0] * len(batch.messages)
            return [
                Publish(each.topic, each.payload, each.qos, packet_id=packet_id)
                for each, packet_id in zip(batch.messages, ids, strict=True)
            ]
    packet = decoder.next_packet()
    return [] if packet is None else [packet]


@given(packets_said(), st.integers(1, 400))
@examples(150)
def test_l2_batches_hold_the_packets_sent_however_the_bytes_come(
    said: tuple[int, list[AnyPacket]], piece: int
) -> None:
    version, packets = said
    data = b"".join(encode(each, version) for each in packets)
    decoder = Decoder(version)
    found: list[AnyPacket] = []
    for at in range(0, len(data), piece):
        decoder.feed(data[at : at + piece])
        while some := next_packets(decoder, True):
            found += some
    assert found == packets


@given(packets_said(), st.integers(0, 2_000), st.integers(0, 255))
@examples(150)
def test_l2_batched_reading_finds_the_same_errors(said: tuple[int, list[AnyPacket]], at: int, byte: int) -> None:
    version, packets = said
    data = bytearray(b"".join(encode(each, version) for each in packets))
    data[at % len(data)] = byte
    outcomes: list[tuple[list[AnyPacket], str]] = []
    for batched in (True, False):
        decoder = Decoder(version)
        decoder.feed(bytes(data))
        found: list[AnyPacket] = []
        problem = ""
        try:
            while some := next_packets(decoder, batched):
                found += some
        except BadPacket as raised:
            problem = str(raised)
        outcomes.append((found, problem))
    assert outcomes[0] == outcomes[1]


def test_l2_a_batch_ends_where_the_topic_does() -> None:
    data = b"".join(encode_publish(Publish(topic, b"x"), V5) for topic in ("a", "a", "b"))
    found = read_batch(data, 0, V5, {}, 100)
    assert found is not None
    assert (found[0].topic, len(found[0].messages), found[0].payload_bytes) == ("a", 2, 2)
    assert read_batch(data, found[1], V5, {}, 100) is not None


def test_l2_a_repeated_packet_identifier_ends_a_batch() -> None:
    data = encode_publish(Publish("a", b"x", 1, packet_id=7), V5) * 2
    found = read_batch(data, 0, V5, {}, 100)
    assert found is not None
    assert (found[0].packet_ids, found[1]) == ([7], len(data) // 2)


def test_l2_a_batch_is_no_longer_than_allowed() -> None:
    data = b"".join(encode_publish(Publish("a", b"x", 1, packet_id=number), V5) for number in range(1, 9))
    found = read_batch(data, 0, V5, {}, 3)
    assert found is not None
    assert found[0].packet_ids == [1, 2, 3]


def test_l2_adjacent_pubacks_are_read_at_once() -> None:
    data = b"".join(encode(PubAck(each), V5) for each in (1, 300, 65_535))
    assert acknowledged_at(data, 0) == [1, 300, 65_535]
    assert acknowledged_at(data + encode(PingReq(), V5) * 2, 0) == []
    assert acknowledged_at(b"\x40\x02\0\0", 0) == []


def test_l2_a_topic_longer_than_its_packet_is_no_batch() -> None:
    """Forwarded as it came, it would cut off everybody who gets it."""
    assert read_batch(b"\x30\x04\x00\x10ab", 0, V311, {}, 100) is None
