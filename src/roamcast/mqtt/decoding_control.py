"""Readers of infrequent packets: connecting, subscribing, disconnecting."""

from typing import Any

from roamcast.mqtt import wire
from roamcast.mqtt.packets import (
    NEVER_S,
    V5,
    V311,
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    PingResp,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
    Will,
    Wish,
)
from roamcast.mqtt.properties import read_properties
from roamcast.mqtt.reasons import (
    AUTH_REASONS,
    CONNACK_REASONS,
    DISCONNECT_REASONS,
    REASON_OF_311,
    SUBACK_REASONS,
    UNSUBACK_REASONS,
    MalformedPacket,
    ProtocolError,
    Reason,
)
from roamcast.mqtt.topics import check_topic_filter, check_topic_name

NAME_OF_31 = "MQIsdp"


def read_pingreq(data: bytes, at: int, end: int, version: int) -> PingReq:  # noqa: ARG001 - a reader's form
    _nothing_after(at, end)
    return PingReq()


def read_pingresp(data: bytes, at: int, end: int, version: int) -> PingResp:  # noqa: ARG001 - a reader's form
    _nothing_after(at, end)
    return PingResp()


def read_connect(data: bytes, at: int, end: int, version: int) -> Connect:  # noqa: ARG001 - it says its own
    name, at = wire.read_text(data, at, end)
    level, at = wire.read_byte(data, at, end)
    if name not in ("MQTT", NAME_OF_31):
        raise ProtocolError("the protocol's name is not MQTT", Reason.UNSUPPORTED_PROTOCOL_VERSION)
    if name == NAME_OF_31 or level not in (V311, V5):
        raise ProtocolError(f"protocol level {level}: 4 and 5 are spoken", Reason.UNSUPPORTED_PROTOCOL_VERSION)
    flags, at = wire.read_byte(data, at, end)
    _check_connect_flags(flags, level)
    keep_alive_s, at = wire.read_two(data, at, end)
    fields: dict[str, Any] = {}
    if level == V5:
        fields, at = read_properties(Connect, data, at, end)
        if "authentication_data" in fields and "authentication_method" not in fields:
            raise ProtocolError("authentication data without a method")
    elif not flags & 0x02:
        fields["session_expiry_s"] = NEVER_S
    client_id, at = wire.read_text(data, at, end)
    if flags & 0x04:
        fields["will"], at = _read_will(data, at, end, flags, level)
    if flags & 0x80:
        fields["username"], at = wire.read_text(data, at, end)
    if flags & 0x40:
        fields["password"], at = wire.read_binary(data, at, end)
    _nothing_after(at, end)
    return Connect(client_id, level, flags & 0x02 != 0, keep_alive_s, **fields)


def _check_connect_flags(flags: int, level: int) -> None:
    if flags & 0x01:
        raise MalformedPacket("the reserved flag of CONNECT is set")
    if flags & 0x04:
        if flags & 0x18 == 0x18:
            raise MalformedPacket("a will with QoS 3")
    elif flags & 0x38:
        raise MalformedPacket("QoS or retain of a will that is not there")
    if level == V311 and flags & 0xC0 == 0x40:
        raise MalformedPacket("a password without a user name")


def _read_will(data: bytes, at: int, end: int, flags: int, level: int) -> tuple[Will, int]:
    fields: dict[str, Any] = {}
    if level == V5:
        fields, at = read_properties(Will, data, at, end)
    topic, at = wire.read_text(data, at, end)
    check_topic_name(topic)
    payload, at = wire.read_binary(data, at, end)
    return Will(topic, payload, (flags >> 3) & 3, flags & 0x20 != 0, **fields), at


def read_connack(data: bytes, at: int, end: int, version: int) -> ConnAck:
    flags, at = wire.read_byte(data, at, end)
    if flags > 1:
        raise MalformedPacket("a reserved flag of CONNACK is set")
    code, at = wire.read_byte(data, at, end)
    reason = (CONNACK_REASONS if version == V5 else REASON_OF_311).get(code)
    if reason is None:
        raise ProtocolError(f"reason code 0x{code:02x} does not belong in CONNACK")
    if flags and reason is not Reason.SUCCESS:
        raise ProtocolError("a session that is present though the connection is refused")
    fields: dict[str, Any] = {}
    if version == V5:
        fields, at = read_properties(ConnAck, data, at, end)
    _nothing_after(at, end)
    return ConnAck(reason, flags == 1, **fields)


def read_subscribe(data: bytes, at: int, end: int, version: int) -> Subscribe:
    packet_id, at = _read_packet_id(data, at, end)
    fields: dict[str, Any] = {}
    if version == V5:
        fields, at = read_properties(Subscribe, data, at, end)
    wishes: list[Wish] = []
    while at < end:
        pattern, at = wire.read_text(data, at, end)
        check_topic_filter(pattern)
        options, at = wire.read_byte(data, at, end)
        wishes.append(_wish(pattern, options, version))
    if not wishes:
        raise ProtocolError("SUBSCRIBE without a topic filter")
    return Subscribe(packet_id, tuple(wishes), **fields)


def _wish(pattern: str, options: int, version: int) -> Wish:
    if options & (0xC0 if version == V5 else 0xFC):
        raise MalformedPacket("reserved bits of subscription options are set")
    qos, handling = options & 3, (options >> 4) & 3
    if qos == 3:
        raise ProtocolError("a subscription with QoS 3")
    if handling == 3:
        raise ProtocolError("a subscription with retain handling 3")
    no_local = options & 0x04 != 0
    if no_local and pattern.startswith("$share/"):
        raise ProtocolError("a shared subscription with no local")
    return Wish(pattern, qos, no_local, options & 0x08 != 0, handling)


def read_suback(data: bytes, at: int, end: int, version: int) -> SubAck:
    packet_id, at = _read_packet_id(data, at, end)
    fields: dict[str, Any] = {}
    if version == V5:
        fields, at = read_properties(SubAck, data, at, end)
    reasons = _read_reasons(SUBACK_REASONS, data, at, end)
    if version != V5 and any(reason > Reason.UNSPECIFIED_ERROR for reason in reasons):
        raise ProtocolError("a return code that SUBACK of 3.1.1 does not have")
    return SubAck(packet_id, reasons, **fields)


def read_unsubscribe(data: bytes, at: int, end: int, version: int) -> Unsubscribe:
    packet_id, at = _read_packet_id(data, at, end)
    fields: dict[str, Any] = {}
    if version == V5:
        fields, at = read_properties(Unsubscribe, data, at, end)
    filters: list[str] = []
    while at < end:
        pattern, at = wire.read_text(data, at, end)
        check_topic_filter(pattern)
        filters.append(pattern)
    if not filters:
        raise ProtocolError("UNSUBSCRIBE without a topic filter")
    return Unsubscribe(packet_id, tuple(filters), **fields)


def read_unsuback(data: bytes, at: int, end: int, version: int) -> UnsubAck:
    packet_id, at = _read_packet_id(data, at, end)
    if version != V5:
        _nothing_after(at, end)
        return UnsubAck(packet_id)
    fields, at = read_properties(UnsubAck, data, at, end)
    return UnsubAck(packet_id, _read_reasons(UNSUBACK_REASONS, data, at, end), **fields)


def read_disconnect(data: bytes, at: int, end: int, version: int) -> Disconnect:
    if version != V5:
        _nothing_after(at, end)
        return Disconnect()
    reason, fields = _reason_and_properties(Disconnect, DISCONNECT_REASONS, data, at, end)
    return Disconnect(reason, **fields)


def read_auth(data: bytes, at: int, end: int, version: int) -> Auth:
    if version != V5:
        raise MalformedPacket("3.1.1 has no AUTH")
    reason, fields = _reason_and_properties(Auth, AUTH_REASONS, data, at, end)
    # The short form without properties is allowed to leave the method out; a longer one is not.
    if end > at and "authentication_method" not in fields:
        raise ProtocolError("AUTH without an authentication method")
    return Auth(reason, **fields)


def _reason_and_properties(
    kind: type[Disconnect] | type[Auth], reasons: dict[int, Reason], data: bytes, at: int, end: int
) -> tuple[Reason, dict[str, Any]]:
    if at == end:
        return Reason.SUCCESS, {}
    code, at = wire.read_byte(data, at, end)
    reason = reasons.get(code)
    if reason is None:
        raise ProtocolError(f"reason code 0x{code:02x} does not belong in {kind.__name__}")
    if at == end:
        return reason, {}
    fields, at = read_properties(kind, data, at, end)
    _nothing_after(at, end)
    return reason, fields


def _read_packet_id(data: bytes, at: int, end: int) -> tuple[int, int]:
    packet_id, at = wire.read_two(data, at, end)
    if packet_id == 0:
        raise ProtocolError("a packet identifier is 0")
    return packet_id, at


def _read_reasons(reasons: dict[int, Reason], data: bytes, at: int, end: int) -> tuple[Reason, ...]:
    if at == end:
        raise ProtocolError("an acknowledgement without a reason code")
    try:
        return tuple(reasons[code] for code in data[at:end])
    except KeyError as unknown:
        raise ProtocolError(f"reason code {unknown} does not belong in an acknowledgement") from unknown


def _nothing_after(at: int, end: int) -> None:
    if at != end:
        raise MalformedPacket("bytes after the end of the packet")
