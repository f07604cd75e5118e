"""L2: the rules of the standard, each with bytes written by hand. Numbers in brackets are statements of MQTT 5."""

import pytest

from roamcast.mqtt import MalformedPacket, ProtocolError, decode
from roamcast.mqtt.packets import (
    NEVER_S,
    V5,
    V311,
    AnyPacket,
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
    Will,
    Wish,
)
from roamcast.mqtt.reasons import Reason


def packet(first: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    assert len(body) < 128
    return bytes([first, len(body)]) + body


NAME = b"\x00\x04MQTT"


def connect(level: int = 5, flags: int = 2, properties: bytes = b"\x00", payload: bytes = b"\x00\x01c") -> bytes:
    return packet(0x10, NAME, bytes([level, flags]), b"\x00\x3c", properties if level == 5 else b"", payload)


GOOD: list[tuple[str, int, bytes, AnyPacket]] = [
    ("ping", V5, b"\xc0\x00", PingReq()),
    ("connect", V5, connect(), Connect("c", V5, True, 60)),
    ("connect 3.1.1", V311, connect(4), Connect("c", V311, True, 60)),
    ("connect 3.1.1 keeps its session", V311, connect(4, 0), Connect("c", V311, False, 60, session_expiry_s=NEVER_S)),
    (
        "password without user in MQTT 5",
        V5,
        connect(5, 0x42, b"\x00", b"\x00\x00\x00\x01p"),
        Connect("", V5, True, 60, password=b"p"),
    ),
    (
        "connect with everything",
        V5,
        connect(
            5,
            0xEE,
            b"\x05\x11\x00\x00\x00\x0a",
            b"\x00\x01c\x05\x18\x00\x00\x00\x05\x00\x01w\x00\x02by\x00\x01u\x00\x01p",
        ),
        Connect("c", V5, True, 60, "u", b"p", Will("w", b"by", 1, True, 5), 10),
    ),
    ("connack", V5, b"\x20\x03\x01\x00\x00", ConnAck(session_present=True)),
    ("connack 3.1.1 not authorized", V311, b"\x20\x02\x00\x05", ConnAck(Reason.NOT_AUTHORIZED)),
    ("publish", V5, b"\x30\x06\x00\x01t\x00hi", Publish("t", b"hi")),
    ("publish 3.1.1", V311, b"\x30\x05\x00\x01thi", Publish("t", b"hi")),
    ("publish qos 2 dup retain", V5, b"\x3d\x06\x00\x01t\x12\x34\x00", Publish("t", b"", 2, True, True, 0x1234)),
    ("publish by alias", V5, b"\x30\x06\x00\x00\x03\x23\x00\x07", Publish("", b"", topic_alias=7)),
    (
        "an empty user property",
        V5,
        b"\x30\x09\x00\x01t\x05\x26\x00\x00\x00\x00",
        Publish("t", b"", user_properties=(("", ""),)),
    ),
    (
        "two subscription identifiers",
        V5,
        b"\x30\x09\x00\x01t\x05\x0b\x01\x0b\x80\x01",
        Publish("t", b"", subscription_ids=(1, 128)),
    ),
    ("U+FEFF is kept (1.5.4-3)", V5, b"\x30\x06\x00\x03\xef\xbb\xbf\x00", Publish("\ufeff", b"")),
    ("puback short", V5, b"\x40\x02\x00\x01", PubAck(1)),
    ("puback with reason", V5, b"\x40\x03\x00\x01\x10", PubAck(1, Reason.NO_MATCHING_SUBSCRIBERS)),
    ("puback with empty properties", V5, b"\x40\x04\x00\x01\x00\x00", PubAck(1)),
    ("pubrec with text", V5, b"\x50\x08\x00\x01\x97\x04\x1f\x00\x01x", PubRec(1, Reason.QUOTA_EXCEEDED, "x")),
    ("pubrel", V5, b"\x62\x02\x00\x01", PubRel(1)),
    ("pubcomp not found", V5, b"\x70\x03\x00\x01\x92", PubComp(1, Reason.PACKET_IDENTIFIER_NOT_FOUND)),
    ("subscribe", V5, b"\x82\x07\x00\x01\x00\x00\x01#\x2d", Subscribe(1, (Wish("#", 1, True, True, 2),))),
    ("subscribe 3.1.1", V311, b"\x82\x06\x00\x01\x00\x01#\x02", Subscribe(1, (Wish("#", 2),))),
    ("suback", V5, b"\x90\x05\x00\x01\x00\x02\x87", SubAck(1, (Reason.GRANTED_QOS_2, Reason.NOT_AUTHORIZED))),
    ("unsubscribe", V5, b"\xa2\x06\x00\x01\x00\x00\x01#", Unsubscribe(1, ("#",))),
    ("unsuback", V5, b"\xb0\x04\x00\x01\x00\x11", UnsubAck(1, (Reason.NO_SUBSCRIPTION_EXISTED,))),
    ("unsuback 3.1.1", V311, b"\xb0\x02\x00\x01", UnsubAck(1)),
    ("disconnect", V5, b"\xe0\x00", Disconnect()),
    ("disconnect with will", V5, b"\xe0\x01\x04", Disconnect(Reason.DISCONNECT_WITH_WILL)),
    ("auth", V5, b"\xf0\x06\x18\x04\x15\x00\x01x", Auth(Reason.CONTINUE_AUTHENTICATION, "x")),
]

M, P, U = Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR, Reason.UNSUPPORTED_PROTOCOL_VERSION
BAD: list[tuple[str, int, bytes, Reason]] = [
    ("packet type 0", V5, b"\x00\x00", M),
    ("reserved flags of PINGREQ", V5, b"\xc1\x00", M),
    ("reserved flags of SUBSCRIBE (3.8.1-1)", V5, b"\x80\x07\x00\x01\x00\x00\x01#\x00", M),
    ("reserved flags of PUBREL (3.6.1-1)", V5, b"\x60\x02\x00\x01", M),
    ("remaining length of five bytes", V5, b"\x30\xff\xff\xff\xff\x01", M),
    ("remaining length longer than needed (1.5.5-1)", V5, b"\xc0\x80\x00", M),
    ("PINGREQ with a body", V5, b"\xc0\x01\x00", M),
    ("AUTH in 3.1.1", V311, b"\xf0\x00", M),
    ("QoS 3 (3.3.1-4)", V5, b"\x36\x06\x00\x01t\x00\x01\x00", M),
    ("DUP with QoS 0 (3.3.1-2)", V5, b"\x38\x04\x00\x01t\x00", M),
    ("+ in a topic name (3.3.2-2)", V5, b"\x30\x04\x00\x01+\x00", M),
    ("# in a topic name (3.3.2-2)", V5, b"\x30\x04\x00\x01#\x00", M),
    ("no topic and no alias", V5, b"\x30\x03\x00\x00\x00", P),
    ("no topic in 3.1.1 (4.7.3-1)", V311, b"\x30\x02\x00\x00", M),
    ("alias 0 (3.3.2-8)", V5, b"\x30\x07\x00\x01t\x03\x23\x00\x00", Reason.TOPIC_ALIAS_INVALID),
    ("alias twice", V5, b"\x30\x0a\x00\x01t\x06\x23\x00\x01\x23\x00\x01", P),
    ("packet identifier 0 (2.2.1-3)", V5, b"\x32\x06\x00\x01t\x00\x00\x00", P),
    ("topic longer than the packet", V5, b"\x30\x04\x00\x09t\x00", M),
    ("no packet identifier", V5, b"\x32\x04\x00\x01t\x00", M),
    ("no property length", V5, b"\x30\x03\x00\x01t", M),
    ("properties longer than the packet", V5, b"\x30\x04\x00\x01t\x05", M),
    ("topic with U+0000 (1.5.4-2)", V5, b"\x30\x04\x00\x01\x00\x00", M),
    ("topic with a surrogate (1.5.4-1)", V5, b"\x30\x06\x00\x03\xed\xa0\x80\x00", M),
    ("topic in overlong UTF-8", V5, b"\x30\x05\x00\x02\xc0\x80\x00", M),
    ("user property with U+0000", V5, b"\x30\x0a\x00\x01t\x06\x26\x00\x01\x00\x00\x00", M),
    ("user property that ends early", V5, b"\x30\x07\x00\x01t\x03\x26\x00\x00", M),
    ("property of another packet (2.2.2.2)", V5, b"\x30\x09\x00\x01t\x05\x11\x00\x00\x00\x01", M),
    ("unknown property", V5, b"\x30\x06\x00\x01t\x02\x7f\x00", M),
    ("payload format 2", V5, b"\x30\x06\x00\x01t\x02\x01\x02", P),
    ("payload format twice", V5, b"\x30\x08\x00\x01t\x04\x01\x01\x01\x01", P),
    ("response topic with wildcard (3.3.2-14)", V5, b"\x30\x08\x00\x01t\x04\x08\x00\x01#", M),
    ("response topic empty", V5, b"\x30\x07\x00\x01t\x03\x08\x00\x00", M),
    ("subscription identifier 0", V5, b"\x30\x06\x00\x01t\x02\x0b\x00", P),
    ("PUBACK with identifier 0", V5, b"\x40\x02\x00\x00", P),
    ("PUBACK of one byte", V5, b"\x40\x01\x00", M),
    ("PUBACK with a reason it does not have", V5, b"\x40\x03\x00\x01\x92", P),
    ("PUBACK of 3.1.1 with a reason", V311, b"\x40\x03\x00\x01\x00", M),
    ("PUBREL with a reason it does not have", V5, b"\x62\x03\x00\x01\x10", P),
    ("PUBACK with bytes after it", V5, b"\x40\x05\x00\x01\x00\x00\x00", M),
    ("reason text twice", V5, b"\x40\x0a\x00\x01\x00\x06\x1f\x00\x00\x1f\x00\x00", P),
    ("SUBSCRIBE of nothing (3.8.3-2)", V5, b"\x82\x03\x00\x01\x00", P),
    ("SUBSCRIBE with identifier 0", V5, b"\x82\x07\x00\x00\x00\x00\x01#\x00", P),
    ("SUBSCRIBE without options", V5, b"\x82\x06\x00\x01\x00\x00\x01#", M),
    ("reserved subscription options (3.8.3-5)", V5, b"\x82\x07\x00\x01\x00\x00\x01#\x40", M),
    ("options of MQTT 5 in 3.1.1", V311, b"\x82\x06\x00\x01\x00\x01#\x04", M),
    ("subscription with QoS 3", V5, b"\x82\x07\x00\x01\x00\x00\x01#\x03", P),
    ("retain handling 3", V5, b"\x82\x07\x00\x01\x00\x00\x01#\x30", P),
    ("empty filter (4.7.3-1)", V5, b"\x82\x06\x00\x01\x00\x00\x00\x00", M),
    ("filter a# (4.7.1-1)", V5, b"\x82\x08\x00\x01\x00\x00\x02a#\x00", M),
    ("filter #/a (4.7.1-1)", V5, b"\x82\x09\x00\x01\x00\x00\x03#/a\x00", M),
    ("filter a+ (4.7.1-2)", V5, b"\x82\x08\x00\x01\x00\x00\x02a+\x00", M),
    ("shared with no local (3.8.3-4)", V5, b"\x82\x10\x00\x01\x00\x00\x0a$share/g/a\x04", P),
    ("subscription identifier twice", V5, b"\x82\x0b\x00\x01\x04\x0b\x01\x0b\x02\x00\x01#\x00", P),
    ("subscription identifier 0 in SUBSCRIBE", V5, b"\x82\x09\x00\x01\x02\x0b\x00\x00\x01#\x00", P),
    ("UNSUBSCRIBE of nothing (3.10.3-2)", V5, b"\xa2\x03\x00\x01\x00", P),
    ("UNSUBSCRIBE with a bad filter", V5, b"\xa2\x07\x00\x01\x00\x00\x02a#", M),
    ("SUBACK without reasons", V5, b"\x90\x03\x00\x01\x00", P),
    ("SUBACK of 3.1.1 with 0x87", V311, b"\x90\x03\x00\x01\x87", P),
    ("DISCONNECT with a reason it does not have", V5, b"\xe0\x01\x01", P),
    ("DISCONNECT of 3.1.1 with a body", V311, b"\xe0\x01\x00", M),
    ("DISCONNECT with bytes after it", V5, b"\xe0\x03\x00\x00\x00", M),
    ("AUTH without a method", V5, b"\xf0\x02\x18\x00", P),
    ("CONNACK with reserved flags (3.2.2-1)", V5, b"\x20\x03\x02\x00\x00", M),
    ("CONNACK refused with a session (3.2.2-6)", V5, b"\x20\x03\x01\x87\x00", P),
    ("CONNACK with maximum QoS 2", V5, b"\x20\x05\x00\x00\x02\x24\x02", P),
    ("CONNECT with the reserved flag (3.1.2-3)", V5, connect(5, 3), M),
    ("CONNECT with will QoS without will (3.1.2-11)", V5, connect(5, 0x0A), M),
    ("CONNECT with will retain without will (3.1.2-13)", V5, connect(5, 0x22), M),
    ("CONNECT with will QoS 3 (3.1.2-12)", V5, connect(5, 0x1E), M),
    ("CONNECT with password but no user in 3.1.1", V311, connect(4, 0x42, b"", b"\x00\x01c\x00\x01p"), M),
    ("CONNECT with bytes after it", V5, connect(payload=b"\x00\x01cX"), M),
    ("CONNECT without the user it announces", V5, connect(5, 0x82), M),
    ("CONNECT with receive maximum 0", V5, connect(properties=b"\x03\x21\x00\x00"), P),
    ("CONNECT with maximum packet size 0", V5, connect(properties=b"\x05\x27\x00\x00\x00\x00"), P),
    ("CONNECT with request problem information 2", V5, connect(properties=b"\x02\x17\x02"), P),
    ("CONNECT with session expiry twice", V5, connect(properties=b"\x0a\x11\x00\x00\x00\x01\x11\x00\x00\x00\x01"), P),
    ("CONNECT with authentication data alone", V5, connect(properties=b"\x03\x16\x00\x00"), P),
    ("CONNECT with a will topic with wildcard", V5, connect(5, 6, b"\x00", b"\x00\x01c\x00\x00\x01#\x00\x00"), M),
    ("CONNECT level 6", V5, connect(6), U),
    ("CONNECT of 3.1", V5, packet(0x10, b"\x00\x06MQIsdp\x03\x02\x00\x3c\x00\x01c"), U),
    ("CONNECT of another protocol", V5, packet(0x10, b"\x00\x04HTTP\x05\x02\x00\x3c\x00\x00\x01c"), U),
]  # fmt: skip


@pytest.mark.parametrize(("version", "data", "expected"), [case[1:] for case in GOOD], ids=[case[0] for case in GOOD])
def test_good_bytes_are_read(version: int, data: bytes, expected: AnyPacket) -> None:
    assert decode(data, version) == (expected, len(data))


@pytest.mark.parametrize(("version", "data", "reason"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_bytes_are_refused_with_the_reason_of_the_standard(version: int, data: bytes, reason: Reason) -> None:
    with pytest.raises((MalformedPacket, ProtocolError)) as caught:
        decode(data, version)
    assert caught.value.reason is reason
