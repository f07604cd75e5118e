"""Properties of MQTT 5: which packet takes which, how each is read and written, and which field it is.

A property that a packet does not take is malformed; one that comes twice, or has a value that the standard
excludes, is a protocol error. Only user properties (and, in PUBLISH, subscription identifiers) may be repeated."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from roamcast.mqtt import wire
from roamcast.mqtt.packets import (
    Auth,
    ConnAck,
    Connect,
    Disconnect,
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
from roamcast.mqtt.reasons import MalformedPacket, ProtocolError, Reason
from roamcast.mqtt.topics import check_topic_name


class Kind(Struct, frozen=True):
    read: Callable[[bytes, int, int], tuple[Any, int]]
    write: Callable[[Any], bytes]
    check: Callable[[Any], None] | None = None


class Property(Struct, frozen=True):
    """`absent` is the field's value that is not written, since leaving the property out means the same."""

    number: int
    field: str
    kind: Kind
    absent: Any = None
    many: bool = False


def _not_zero(value: int) -> None:
    if value == 0:
        raise ProtocolError("a property that must not be 0 is 0")


def _zero_or_one(value: int) -> None:
    if value > 1:
        raise ProtocolError(f"a property that is 0 or 1 is {value}")


def _alias(value: int) -> None:
    if value == 0:
        raise ProtocolError("a topic alias is 0", Reason.TOPIC_ALIAS_INVALID)


BYTE = Kind(wire.read_byte, wire.write_byte, _zero_or_one)
SWITCH = Kind(wire.read_switch, wire.write_switch)
TWO = Kind(wire.read_two, wire.write_two)
TWO_NOT_ZERO = Kind(wire.read_two, wire.write_two, _not_zero)
ALIAS = Kind(wire.read_two, wire.write_two, _alias)
FOUR = Kind(wire.read_four, wire.write_four)
FOUR_NOT_ZERO = Kind(wire.read_four, wire.write_four, _not_zero)
VARIABLE_NOT_ZERO = Kind(wire.read_variable, wire.write_variable, _not_zero)
TEXT = Kind(wire.read_text, wire.write_text)
TOPIC = Kind(wire.read_text, wire.write_text, check_topic_name)
BINARY = Kind(wire.read_binary, wire.write_binary)
PAIR = Kind(wire.read_pair, wire.write_pair)

PAYLOAD_FORMAT = Property(0x01, "payload_format", BYTE)
MESSAGE_EXPIRY = Property(0x02, "message_expiry_s", FOUR)
CONTENT_TYPE = Property(0x03, "content_type", TEXT)
RESPONSE_TOPIC = Property(0x08, "response_topic", TOPIC)
CORRELATION_DATA = Property(0x09, "correlation_data", BINARY)
SUBSCRIPTION_ID = Property(0x0B, "subscription_id", VARIABLE_NOT_ZERO)
SUBSCRIPTION_IDS = Property(0x0B, "subscription_ids", VARIABLE_NOT_ZERO, (), many=True)
SESSION_EXPIRY = Property(0x11, "session_expiry_s", FOUR)
SESSION_EXPIRY_OR_0 = Property(0x11, "session_expiry_s", FOUR, 0)
ASSIGNED_CLIENT_ID = Property(0x12, "assigned_client_id", TEXT)
SERVER_KEEP_ALIVE = Property(0x13, "server_keep_alive_s", TWO)
AUTHENTICATION_METHOD = Property(0x15, "authentication_method", TEXT)
AUTHENTICATION_DATA = Property(0x16, "authentication_data", BINARY)
REQUEST_PROBLEM = Property(0x17, "request_problem_information", SWITCH, True)
WILL_DELAY = Property(0x18, "delay_s", FOUR, 0)
REQUEST_RESPONSE = Property(0x19, "request_response_information", SWITCH, False)
RESPONSE_INFORMATION = Property(0x1A, "response_information", TEXT)
SERVER_REFERENCE = Property(0x1C, "server_reference", TEXT)
REASON_TEXT = Property(0x1F, "reason_text", TEXT)
RECEIVE_MAX = Property(0x21, "receive_max", TWO_NOT_ZERO, 0xFFFF)
TOPIC_ALIAS_MAX = Property(0x22, "topic_alias_max", TWO, 0)
TOPIC_ALIAS = Property(0x23, "topic_alias", ALIAS)
QOS_MAX = Property(0x24, "qos_max", BYTE, 2)
RETAIN_AVAILABLE = Property(0x25, "retain_available", SWITCH, True)
USER = Property(0x26, "user_properties", PAIR, (), many=True)
PACKET_BYTES_MAX = Property(0x27, "packet_bytes_max", FOUR_NOT_ZERO)
WILDCARDS_AVAILABLE = Property(0x28, "wildcards_available", SWITCH, True)
SUBSCRIPTION_IDS_AVAILABLE = Property(0x29, "subscription_ids_available", SWITCH, True)
SHARED_AVAILABLE = Property(0x2A, "shared_available", SWITCH, True)

OF_MESSAGE = (PAYLOAD_FORMAT, MESSAGE_EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA, USER)
OF_ANSWER = (REASON_TEXT, USER)
OF_AUTHENTICATION = (AUTHENTICATION_METHOD, AUTHENTICATION_DATA)

PROPERTIES: dict[type[Struct], tuple[Property, ...]] = {
    Will: (WILL_DELAY, *OF_MESSAGE),
    Connect: (
        SESSION_EXPIRY_OR_0,
        RECEIVE_MAX,
        PACKET_BYTES_MAX,
        TOPIC_ALIAS_MAX,
        REQUEST_RESPONSE,
        REQUEST_PROBLEM,
        USER,
        *OF_AUTHENTICATION,
    ),
    ConnAck: (
        SESSION_EXPIRY,
        RECEIVE_MAX,
        QOS_MAX,
        RETAIN_AVAILABLE,
        PACKET_BYTES_MAX,
        ASSIGNED_CLIENT_ID,
        TOPIC_ALIAS_MAX,
        *OF_ANSWER,
        WILDCARDS_AVAILABLE,
        SUBSCRIPTION_IDS_AVAILABLE,
        SHARED_AVAILABLE,
        SERVER_KEEP_ALIVE,
        RESPONSE_INFORMATION,
        SERVER_REFERENCE,
        *OF_AUTHENTICATION,
    ),
    Publish: (*OF_MESSAGE, TOPIC_ALIAS, SUBSCRIPTION_IDS),
    PubAck: OF_ANSWER,
    PubRec: OF_ANSWER,
    PubRel: OF_ANSWER,
    PubComp: OF_ANSWER,
    Subscribe: (SUBSCRIPTION_ID, USER),
    SubAck: OF_ANSWER,
    Unsubscribe: (USER,),
    UnsubAck: OF_ANSWER,
    Disconnect: (SESSION_EXPIRY, *OF_ANSWER, SERVER_REFERENCE),
    Auth: (*OF_AUTHENTICATION, *OF_ANSWER),
}

BY_NUMBER: dict[type[Struct], dict[int, Property]] = {
    packet: {each.number: each for each in properties} for packet, properties in PROPERTIES.items()
}


def read_properties(packet: type[Struct], data: bytes, at: int, end: int) -> tuple[dict[str, Any], int]:
    """The properties of a packet as its fields, and where they ended."""
    size, at = wire.read_variable(data, at, end)
    stop = at + size
    if stop > end:
        raise MalformedPacket("the packet ends within its properties")
    fields: dict[str, Any] = {}
    allowed = BY_NUMBER[packet]
    while at < stop:
        number, at = wire.read_variable(data, at, stop)
        known = allowed.get(number)
        if known is None:
            raise MalformedPacket(f"property 0x{number:02x} does not belong in {packet.__name__}")
        value, at = known.kind.read(data, at, stop)
        if known.kind.check is not None:
            known.kind.check(value)
        if known.many:
            fields.setdefault(known.field, []).append(value)
        elif known.field in fields:
            raise ProtocolError(f"property 0x{number:02x} comes twice")
        else:
            fields[known.field] = value
    for field, value in fields.items():
        if type(value) is list:
            fields[field] = tuple(value)
    return fields, stop


def write_properties(value: Struct) -> bytes:
    """With their length before them; a check holds on the way out as well."""
    written: list[bytes] = []
    for known in PROPERTIES[type(value)]:
        said = getattr(value, known.field)
        if said == known.absent:
            continue
        for each in said if known.many else (said,):
            if known.kind.check is not None:
                known.kind.check(each)
            written.append(known.number.to_bytes(1, "big") + known.kind.write(each))
    body = b"".join(written)
    return wire.write_variable(len(body)) + body
