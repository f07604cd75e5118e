"""Packets to bytes, for both versions.

What 3.1.1 cannot say is left out: properties, reason codes of answers, and AUTH, DISCONNECT with a reason and the
like that have no form there at all raise `Unsendable`. A PUBLISH on its way to many clients is made once:
`PublishFrame` keeps the bytes before and after the packet identifier."""

from collections.abc import Callable
from typing import Any

from roamcast.mqtt import wire
from roamcast.mqtt.messages import Form, Message, has_properties, publish_of
from roamcast.mqtt.packets import (
    V5,
    AnyPacket,
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
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
)
from roamcast.mqtt.properties import write_properties
from roamcast.mqtt.reasons import FAILURE_FROM, BadPacket, Reason, Unsendable, connack_code_311

PINGREQ = b"\xc0\x00"
PINGRESP = b"\xd0\x00"
NO_PROPERTIES = b"\x00"
DUP = 0x08


def encode(packet: AnyPacket, version: int) -> bytes:
    """Raises `Unsendable` for what has no form on the wire, and `ProtocolError` for values the standard excludes."""
    try:
        return ENCODERS[type(packet)](packet, version)
    except (OverflowError, ValueError) as problem:
        raise Unsendable(f"a value is out of range: {problem}") from problem


def encode_publish(packet: Publish, version: int) -> bytes:
    before, after = _publish_halves(packet, version)
    if packet.qos:
        return before + packet.packet_id.to_bytes(2, "big") + after
    return before + after


class PublishFrame:
    """One PUBLISH for many receivers: only the packet identifier and DUP differ."""

    __slots__ = ("after", "before", "qos", "size", "whole")

    def __init__(self, message: Message, form: Form, version: int, now_us: int) -> None:
        """Raises `Unsendable`."""
        self.qos = form.qos
        try:
            if version != V5:
                self.after = message.payload
            elif form.subscription_ids or has_properties(message):
                self.after = _publish_properties(publish_of(message, form, now_us)) + message.payload
            else:
                self.after = NO_PROPERTIES + message.payload
            self.before = _publish_head(message.topic, form.qos, form.retain, False, len(self.after))
        except (OverflowError, ValueError, BadPacket) as problem:
            # Messages come from other brokers too, which may have taken what this one would refuse.
            raise Unsendable(f"a value is out of range: {problem}") from problem
        self.whole = b"" if self.qos else self.before + self.after
        self.size = len(self.before) + len(self.after) + (2 if self.qos else 0)

    def to_bytes(self, packet_id: int = 0, dup: bool = False) -> bytes:
        if not self.qos:
            return self.whole
        before = bytes((self.before[0] | DUP,)) + self.before[1:] if dup else self.before
        return before + packet_id.to_bytes(2, "big") + self.after


def _publish_halves(packet: Publish, version: int) -> tuple[bytes, bytes]:
    after = _publish_properties(packet) + packet.payload if version == V5 else packet.payload
    return _publish_head(packet.topic, packet.qos, packet.retain, packet.dup, len(after)), after


def _publish_head(name: str, qos: int, retain: bool, dup: bool, after_bytes: int) -> bytes:
    """All that comes before the packet identifier."""
    topic = name.encode()
    topic_size = len(topic)
    remaining = 2 + topic_size + after_bytes + (2 if qos else 0)
    first = 0x30 | (qos << 1) | retain | (DUP if dup else 0)
    if topic_size > wire.LENGTH_MAX:
        raise Unsendable(f"a topic of {topic_size} bytes")
    if remaining < 128:
        return bytes((first, remaining, topic_size >> 8, topic_size & 0xFF)) + topic
    return first.to_bytes(1, "big") + wire.write_variable(remaining) + topic_size.to_bytes(2, "big") + topic


def _publish_properties(packet: Publish) -> bytes:
    if (
        packet.payload_format is None
        and packet.message_expiry_s is None
        and packet.topic_alias is None
        and packet.response_topic is None
        and packet.correlation_data is None
        and packet.content_type is None
        and not packet.subscription_ids
    ):
        return _only_pairs(packet.user_properties) if packet.user_properties else NO_PROPERTIES
    return write_properties(packet)


def _only_pairs(pairs: tuple[tuple[str, str], ...]) -> bytes:
    written = []
    for name, value in pairs:
        if "\0" in name or "\0" in value:
            raise Unsendable("a text contains U+0000")
        first, second = name.encode(), value.encode()
        written.append(b"&%b%b%b%b" % (len(first).to_bytes(2, "big"), first, len(second).to_bytes(2, "big"), second))
    body = b"".join(written)
    return wire.write_variable(len(body)) + body


def _frame(first: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes((first,)) + wire.write_variable(len(body)) + body


def _properties(packet: Packet, version: int) -> bytes:
    return write_properties(packet) if version == V5 else b""


def _encode_connect(packet: Connect, version: int) -> bytes:  # noqa: ARG001 - it says its own
    will = packet.will
    flags = packet.clean_start << 1
    payload = [wire.write_text(packet.client_id)]
    if will is not None:
        flags |= 0x04 | (will.qos << 3) | (will.retain << 5)
        payload += _will(will, packet.version)
    if packet.username is not None:
        flags |= 0x80
        payload.append(wire.write_text(packet.username))
    if packet.password is not None:
        flags |= 0x40
        payload.append(wire.write_binary(packet.password))
    head = wire.write_text("MQTT") + bytes((packet.version, flags)) + wire.write_two(packet.keep_alive_s)
    return _frame(0x10, head, _properties(packet, packet.version), *payload)


def _will(will: Will, version: int) -> list[bytes]:
    properties = [write_properties(will)] if version == V5 else []
    return [*properties, wire.write_text(will.topic), wire.write_binary(will.payload)]


def _encode_connack(packet: ConnAck, version: int) -> bytes:
    code = int(packet.reason) if version == V5 else connack_code_311(packet.reason)
    return _frame(0x20, bytes((packet.session_present, code)), _properties(packet, version))


def _encode_subscribe(packet: Subscribe, version: int) -> bytes:
    parts = [wire.write_two(packet.packet_id), _properties(packet, version)]
    for wish in packet.wishes:
        options = wish.qos
        if version == V5:
            options |= wish.no_local << 2 | wish.retain_as_published << 3 | wish.retain_handling << 4
        parts += [wire.write_text(wish.filter), bytes((options,))]
    return _frame(0x82, *parts)


def _encode_suback(packet: SubAck, version: int) -> bytes:
    codes = packet.reasons
    if version != V5:
        codes = tuple(min(code, Reason.UNSPECIFIED_ERROR) for code in codes)
    return _frame(0x90, wire.write_two(packet.packet_id), _properties(packet, version), bytes(codes))


def _encode_unsubscribe(packet: Unsubscribe, version: int) -> bytes:
    filters = [wire.write_text(each) for each in packet.filters]
    return _frame(0xA2, wire.write_two(packet.packet_id), _properties(packet, version), *filters)


def _encode_unsuback(packet: UnsubAck, version: int) -> bytes:
    reasons = bytes(packet.reasons) if version == V5 else b""
    return _frame(0xB0, wire.write_two(packet.packet_id), _properties(packet, version), reasons)


def _encode_disconnect(packet: Disconnect, version: int) -> bytes:
    if version != V5:
        if packet.reason is not Reason.SUCCESS:
            raise Unsendable("DISCONNECT of 3.1.1 says no reason")
        return b"\xe0\x00"
    return _frame(0xE0, _reason_and_properties(packet, packet.reason))


def _encode_auth(packet: Auth, version: int) -> bytes:
    if version != V5:
        raise Unsendable("3.1.1 has no AUTH")
    return _frame(0xF0, _reason_and_properties(packet, packet.reason))


def _reason_and_properties(packet: Packet, reason: Reason) -> bytes:
    """In the shortest of the three forms that say the same."""
    properties = write_properties(packet)
    if properties != NO_PROPERTIES:
        return bytes((reason,)) + properties
    return bytes((reason,)) if reason else b""


def encode_answer(first: int, packet: PubAck | PubRec | PubRel | PubComp, version: int) -> bytes:
    packet_id = packet.packet_id
    reason = packet.reason
    if version != V5:
        if reason >= FAILURE_FROM and type(packet) in (PubAck, PubRec):
            raise Unsendable("3.1.1 cannot refuse a message")
        return bytes((first, 2, packet_id >> 8, packet_id & 0xFF))
    if packet.reason_text is None and not packet.user_properties:
        if reason == 0:
            return bytes((first, 2, packet_id >> 8, packet_id & 0xFF))
        return bytes((first, 3, packet_id >> 8, packet_id & 0xFF, reason))
    return _frame(first, wire.write_two(packet_id), bytes((reason,)), write_properties(packet))


ENCODERS: dict[type[Packet], Callable[[Any, int], bytes]] = {
    Publish: encode_publish,
    PubAck: lambda packet, version: encode_answer(0x40, packet, version),
    PubRec: lambda packet, version: encode_answer(0x50, packet, version),
    PubRel: lambda packet, version: encode_answer(0x62, packet, version),
    PubComp: lambda packet, version: encode_answer(0x70, packet, version),
    Connect: _encode_connect,
    ConnAck: _encode_connack,
    Subscribe: _encode_subscribe,
    SubAck: _encode_suback,
    Unsubscribe: _encode_unsubscribe,
    UnsubAck: _encode_unsuback,
    PingReq: lambda _packet, _version: PINGREQ,
    PingResp: lambda _packet, _version: PINGRESP,
    Disconnect: _encode_disconnect,
    Auth: _encode_auth,
}
