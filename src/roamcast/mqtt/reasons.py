"""Reason codes of MQTT 5, which packet may carry which, and the two ways in which bytes can be wrong.

A peer's packet is *malformed* when it cannot be read by the rules of the standard, and a *protocol error* when it can
be read but says what is not allowed. Both carry the reason code that the standard asks to answer with; the ones for a
packet that is too large, a topic alias out of range and so on are protocol errors with their own code.
"""

from enum import IntEnum


class Reason(IntEnum):
    """Values that share a number share a name: 0x00 is also "normal disconnection" and "granted QoS 0"."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    REAUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


FAILURE_FROM = 0x80
"""From this number on a reason code says that something went wrong."""


def _codes(*numbers: int) -> dict[int, Reason]:
    return {number: Reason(number) for number in numbers}


CONNACK_REASONS = _codes(
    0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F
)  # fmt: skip
PUBACK_REASONS = _codes(0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99)
PUBREC_REASONS = PUBACK_REASONS
PUBREL_REASONS = _codes(0x00, 0x92)
PUBCOMP_REASONS = PUBREL_REASONS
SUBACK_REASONS = _codes(0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2)
UNSUBACK_REASONS = _codes(0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91)
DISCONNECT_REASONS = _codes(
    0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)
)  # fmt: skip
AUTH_REASONS = _codes(0x00, 0x18, 0x19)

DISCONNECT_FROM_CLIENT = frozenset(
    _codes(0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99).values()
)
"""What a client may say when it leaves; the rest is for a server to say."""

CONNACK_OF_311 = {
    Reason.SUCCESS: 0,
    Reason.UNSUPPORTED_PROTOCOL_VERSION: 1,
    Reason.CLIENT_IDENTIFIER_NOT_VALID: 2,
    Reason.SERVER_UNAVAILABLE: 3,
    Reason.BAD_USER_NAME_OR_PASSWORD: 4,
    Reason.NOT_AUTHORIZED: 5,
}
"""Return codes of 3.1.1; `connack_code_311` finds the nearest for the others."""

REASON_OF_311 = {code: reason for reason, code in CONNACK_OF_311.items()}


def connack_code_311(reason: Reason) -> int:
    if reason in (Reason.BANNED, Reason.BAD_AUTHENTICATION_METHOD):
        return CONNACK_OF_311[Reason.NOT_AUTHORIZED]
    return CONNACK_OF_311.get(reason, CONNACK_OF_311[Reason.SERVER_UNAVAILABLE])


class BadPacket(Exception):
    """`reason` is what the standard asks to answer with, `detail` is for people."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason.name.lower()}: {detail}")
        self.reason = reason
        self.detail = detail


class MalformedPacket(BadPacket):
    """Bytes that cannot be read by the rules of the standard."""

    def __init__(self, detail: str) -> None:
        super().__init__(Reason.MALFORMED_PACKET, detail)


class ProtocolError(BadPacket):
    """A packet that can be read, but is not allowed: at all, here, or now."""

    def __init__(self, detail: str, reason: Reason = Reason.PROTOCOL_ERROR) -> None:
        super().__init__(reason, detail)


class Unsendable(BadPacket):
    """On the way out: a value that has no form on the wire, such as a text of more than 65,535 bytes."""

    def __init__(self, detail: str) -> None:
        super().__init__(Reason.IMPLEMENTATION_SPECIFIC_ERROR, detail)
