"""docs/PROTOCOL.md, sections 11 to 13: storage at its limit, Server Reference, and what brokers say to each other."""

import msgspec
import pytest

from roamcast.broker.frames import CODEC
from roamcast.broker.messages import Hello
from roamcast.mqtt.packets import PubAck, SubAck
from roamcast.mqtt.reasons import Reason
from roamcast.server.links.frames import (
    GREETING,
    MAGIC,
    PAYLOAD_BYTES_MAX,
    VERSION,
    BadFrame,
    FrameReader,
    frame,
    read_greeting,
    write_greeting,
)
from roamcast.server.neighbours import PASSING, STREAM
from roamcast.server.server import Redirect
from tests.broker.mqtt.scene import Scene, dismissal, last
from tests.broker.mqtt.stage import SimClient


def test_a_broker_that_cannot_store_takes_nothing_that_it_would_have_to_store_rule_57() -> None:
    scene = Scene()
    client = scene.client("c")
    scene.stage.brokers["a"].server.write_ahead.full = OSError("no space left")
    client.publish("t", b"x", 1)
    client.subscribe("t", 1)
    stranger = SimClient(scene.stage, "stranger")
    stranger.connect("a")
    scene.rest()
    assert last(client, PubAck).reason is Reason.QUOTA_EXCEEDED
    assert last(client, SubAck).reasons == (Reason.QUOTA_EXCEEDED,)
    assert stranger.connacks[0].reason is Reason.QUOTA_EXCEEDED


@pytest.mark.parametrize(("moved", "reason"), [(False, Reason.USE_ANOTHER_SERVER), (True, Reason.SERVER_MOVED)])
def test_a_broker_that_redirects_lets_nobody_in_and_says_where_to_go_rule_59(moved: bool, reason: Reason) -> None:
    scene = Scene()
    scene.stage.brokers["a"].server.redirect = Redirect("north.example:1883", moved)
    client = SimClient(scene.stage, "c")
    client.connect("a")
    scene.rest()
    assert [(each.reason, each.server_reference) for each in client.connacks] == [(reason, "north.example:1883")]


def test_a_broker_that_stops_sends_its_clients_to_a_peer_which_fetches_their_sessions_rule_60() -> None:
    scene = Scene("ab")
    client, writer = scene.client("c", "a"), scene.client("writer", "b")
    scene.subscribe(client, "t")
    assert scene.stage.brokers["a"].server.send_away("b.example:1883") == ["c"]
    scene.rest()
    told = dismissal(client)
    assert (told.reason, told.server_reference) == (Reason.USE_ANOTHER_SERVER, "b.example:1883")
    scene.move(client, "b")
    scene.publish(writer, "t", b"there")
    assert client.taken == [b"there"]
    assert "c" not in scene.stage.brokers["a"].server.core.border.sessions


def test_a_frame_is_a_length_a_kind_and_a_payload_rule_61() -> None:
    assert frame(STREAM, b"abc") == b"\x00\x00\x00\x03\x01abc"
    reader = FrameReader()
    reader.payload_bytes_max = PAYLOAD_BYTES_MAX
    reader.feed(frame(PASSING, b"abc") + (PAYLOAD_BYTES_MAX + 1).to_bytes(4, "big") + b"\x01")
    assert reader.next_frame() == (PASSING, b"abc")
    with pytest.raises(BadFrame):
        reader.next_frame()
    assert PAYLOAD_BYTES_MAX == 4_194_304


def test_a_greeting_names_both_ends_and_the_version_rule_62() -> None:
    assert msgspec.msgpack.decode(write_greeting("a", "b")) == [MAGIC, VERSION, "a", "b"]
    assert GREETING == 0xFF
    for bad in (["other", VERSION, "a", "b"], [MAGIC, VERSION + 1, "a", "b"], [MAGIC, VERSION, "@a", "b"], ["x"]):
        with pytest.raises(BadFrame):
            read_greeting(msgspec.msgpack.encode(bad))


def test_a_message_of_the_stream_has_magic_bytes_and_a_version_rule_63() -> None:
    encoded = CODEC.encode(Hello(1, 2, 3))
    assert encoded[:3] == b"rc\x01"
    assert CODEC.decode(encoded) == Hello(1, 2, 3)
    scene = Scene("ab")
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    scene.subscribe(reader, "t")
    desk = scene.stage.brokers["a"].desk
    for data in (b"", b"rc", b"rc\x02" + encoded[3:], b"xx\x01" + encoded[3:], encoded[:-1]):
        desk.frame("b", STREAM, data)
        desk.frame("b", PASSING, data)
    scene.rest()
    assert scene.remarks("a").count("bad_link_message") == 10
    scene.publish(writer, "t", b"unharmed")
    assert reader.taken == [b"unharmed"]


def test_what_is_said_while_a_link_is_down_goes_when_it_is_up_again_rule_64() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    scene.subscribe(reader, "t")
    scene.stage.unlink("a", "b")
    scene.rest()
    for number in range(30):
        writer.publish("t", b"%d" % number, 1)
    scene.rest(10.0)
    assert reader.taken == []
    scene.stage.heal()
    scene.rest(2.0)
    assert reader.taken == [b"%d" % number for number in range(30)]


def test_a_message_of_qos_0_is_lost_with_its_link_rule_65() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    scene.subscribe(reader, "t", filter="n > 0")
    scene.publish(writer, "t", {"n": 1}, qos=0)
    scene.stage.unlink("a", "b")
    scene.rest()
    scene.publish(writer, "t", {"n": 2}, qos=0)
    scene.stage.heal()
    scene.rest(2.0)
    scene.publish(writer, "t", {"n": 3}, qos=0)
    assert reader.taken == [b'{"n": 1}', b'{"n": 3}']


def test_what_every_broker_must_have_goes_to_all_rule_66() -> None:
    scene = Scene("abcd")
    writer = scene.client("writer", "b")
    scene.publish(writer, "t", b"to all", retain=True)
    scene.publish(writer, "u", b"to nobody")
    ids = [event.id for broker in scene.stage.brokers.values() for event in broker.server.core.border.retained.all()]
    assert ids == [ids[0]] * 4
    assert ids[0].endswith("!")


def test_a_frame_of_another_kind_is_passed_over_rule_67() -> None:
    scene = Scene("ab")
    scene.stage.brokers["a"].desk.frame("b", 77, b"?")
    assert "unknown_frame" in scene.remarks("a")


def test_a_publication_too_long_for_a_link_is_refused_rule_61() -> None:
    scene = Scene("ab")
    writer = scene.client("writer")
    server = scene.stage.brokers["a"].server
    server.limits = msgspec.structs.replace(server.limits, packet_bytes_max=8_000_000)
    large = SimClient(scene.stage, "large")
    large.connect("a")
    scene.rest()
    assert scene.publish(large, "t", bytes(3_600_000)) is Reason.IMPLEMENTATION_SPECIFIC_ERROR
    assert scene.publish(writer, "t", bytes(1_000_000)) is Reason.SUCCESS
