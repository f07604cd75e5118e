"""L2: messages that came together are read as they would be one by one, and go out as they would one by one."""

from hypothesis import given
from hypothesis import strategies as st

from roamcast.mqtt.decoding import Decoder
from roamcast.mqtt.encoding import encode, encode_publish
from roamcast.mqtt.packets import PACKET_ID_MAX, V5, V311, AnyPacket, PingReq, PubAck, Publish
from roamcast.mqtt.reasons import BadPacket
from roamcast.mqtt.runs import Run, acknowledged_at, acknowledgements, ids_from, read_run
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


def read_together(decoder: Decoder) -> list[AnyPacket]:
    """All that there is, by runs wherever there is one."""
    found: list[AnyPacket] = []
    while decoder.has_more:
        run = decoder.next_run() if decoder.next_byte in (0x30, 0x32) else None
        if run is not None:
            found += run.packets()
            continue
        packet = decoder.next_packet()
        if packet is None:
            break
        found.append(packet)
    return found


def run_of(payloads: list[bytes], qos: int, version: int) -> Run:
    packets = [Publish("t", each, qos, packet_id=number * qos) for number, each in enumerate(payloads, start=1)]
    found = read_run(b"".join(encode_publish(each, version) for each in packets), 0, version, {}, len(packets))
    assert found is not None
    return found[0]


@given(packets_said(), st.integers(1, 400))
@examples(150)
def test_l2_runs_are_the_packets_that_they_are_made_of_however_the_bytes_come(
    said: tuple[int, list[AnyPacket]], piece: int
) -> None:
    version, packets = said
    data = b"".join(encode(each, version) for each in packets)
    decoder = Decoder(version)
    found: list[AnyPacket] = []
    for at in range(0, len(data), piece):
        decoder.feed(data[at : at + piece])
        found += read_together(decoder)
    assert found == packets


@given(packets_said(), st.integers(0, 2_000), st.integers(0, 255))
@examples(150)
def test_l2_what_is_wrong_with_bytes_is_found_with_runs_as_without(
    said: tuple[int, list[AnyPacket]], at: int, byte: int
) -> None:
    version, packets = said
    data = bytearray(b"".join(encode(each, version) for each in packets))
    data[at % len(data)] = byte
    outcomes: list[tuple[list[AnyPacket], str]] = []
    for together in (True, False):
        decoder = Decoder(version)
        decoder.feed(bytes(data))
        found: list[AnyPacket] = []
        problem = ""
        try:
            while True:
                run = decoder.next_run() if together and decoder.has_more and decoder.next_byte in (48, 50) else None
                if run is not None:
                    found += run.packets()
                    continue
                packet = decoder.next_packet()
                if packet is None:
                    break
                found.append(packet)
        except BadPacket as raised:
            problem = str(raised)
        outcomes.append((found, problem))
    assert outcomes[0] == outcomes[1]


def test_l2_a_run_ends_where_the_topic_does() -> None:
    data = b"".join(encode_publish(Publish(topic, b"x"), V5) for topic in ("a", "a", "b"))
    found = read_run(data, 0, V5, {}, 100)
    assert found is not None
    assert (found[0].topic, found[0].count) == ("a", 2)
    assert read_run(data, found[1], V5, {}, 100) is not None


def test_l2_packets_under_one_identifier_are_no_run() -> None:
    data = encode_publish(Publish("a", b"x", 1, packet_id=7), V5) * 2
    assert read_run(data, 0, V5, {}, 100) is None


def test_l2_a_run_is_no_longer_than_is_allowed() -> None:
    data = b"".join(encode_publish(Publish("a", b"x", 1, packet_id=number), V5) for number in range(1, 9))
    found = read_run(data, 0, V5, {}, 3)
    assert found is not None
    assert found[0].packet_ids == [1, 2, 3]


@given(st.lists(payloads, min_size=1, max_size=8), versions, versions, st.integers(0, 1), st.integers(0, 1))
@examples(80)
def test_l2_a_run_is_seen_as_each_client_would_see_its_messages(
    said: list[bytes], spoken: int, heard: int, said_qos: int, wanted_qos: int
) -> None:
    seen = run_of(said, said_qos, spoken).seen_as(heard, wanted_qos)
    assert seen is not None
    first = PACKET_ID_MAX - 2
    expected = [
        encode_publish(Publish("t", each, wanted_qos, packet_id=packet_id), heard)
        for each, packet_id in zip(said, ids_from(first, len(said)), strict=True)
    ]
    assert (seen.numbered(first) if wanted_qos else seen.frames) == b"".join(expected)


def test_l2_after_the_last_packet_identifier_comes_the_first() -> None:
    assert ids_from(PACKET_ID_MAX, 3) == [PACKET_ID_MAX, 1, 2]


def test_l2_acknowledgements_that_stand_side_by_side_are_read_as_they_were_written() -> None:
    data = acknowledgements([1, 300, 65_535])
    assert data == b"".join(encode(PubAck(each), V5) for each in (1, 300, 65_535))
    assert acknowledged_at(data, 0) == [1, 300, 65_535]
    assert acknowledged_at(data + encode(PingReq(), V5) * 2, 0) == []
    assert acknowledged_at(acknowledgements([0]), 0) == []
