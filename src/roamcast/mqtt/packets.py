"""The fifteen packets of MQTT 5 and the fourteen of 3.1.1, as values.

Each packet has the properties of the standard as fields, so that a property that is not allowed in a packet cannot
be said. Absent is `None`, except where absence and a value mean the same by the standard: then it is that value. In
3.1.1 the fields of MQTT 5 stay at their defaults, and encoding for 3.1.1 leaves them out. `decoding` makes these
from bytes, `encoding` makes bytes from these."""

from typing import TypeAlias

from msgspec import Struct

from roamcast.mqtt.reasons import Reason

V311 = 4
V5 = 5
"""Protocol levels as CONNECT says them."""

NEVER_S = 0xFFFF_FFFF
"""A session expiry interval that means: never."""
PACKET_ID_MAX = 0xFFFF
RECEIVE_DEFAULT = 0xFFFF

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""User properties: names may repeat and the order is kept."""


class Packet(Struct, frozen=True, gc=False):
    """Base of all. Packets hold nothing that can form a cycle, so the collector need not visit them."""


class Will(Struct, frozen=True, gc=False):
    """What a client leaves behind to be published when it goes without a word."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    delay_s: int = 0
    payload_format: int | None = None
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    user_properties: Pairs = ()


class Connect(Packet, frozen=True, gc=False):
    """`session_expiry_s` of a 3.1.1 client is 0 or, without Clean Session, never."""

    client_id: str
    version: int = V5
    clean_start: bool = True
    keep_alive_s: int = 0
    username: str | None = None
    password: bytes | None = None
    will: Will | None = None
    session_expiry_s: int = 0
    receive_max: int = RECEIVE_DEFAULT
    packet_bytes_max: int | None = None
    topic_alias_max: int = 0
    request_response_information: bool = False
    request_problem_information: bool = True
    user_properties: Pairs = ()
    authentication_method: str | None = None
    authentication_data: bytes | None = None


class ConnAck(Packet, frozen=True, gc=False):
    reason: Reason = Reason.SUCCESS
    session_present: bool = False
    session_expiry_s: int | None = None
    receive_max: int = RECEIVE_DEFAULT
    qos_max: int = 2
    retain_available: bool = True
    packet_bytes_max: int | None = None
    assigned_client_id: str | None = None
    topic_alias_max: int = 0
    reason_text: str | None = None
    user_properties: Pairs = ()
    wildcards_available: bool = True
    subscription_ids_available: bool = True
    shared_available: bool = True
    server_keep_alive_s: int | None = None
    response_information: str | None = None
    server_reference: str | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None


class Publish(Packet, frozen=True, gc=False):
    """`topic` is empty where a topic alias stands for it; `packet_id` is 0 with QoS 0 and only then."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    payload_format: int | None = None
    message_expiry_s: int | None = None
    topic_alias: int | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    user_properties: Pairs = ()
    subscription_ids: tuple[int, ...] = ()
    content_type: str | None = None


class PubAck(Packet, frozen=True, gc=False):
    packet_id: int
    reason: Reason = Reason.SUCCESS
    reason_text: str | None = None
    user_properties: Pairs = ()


class PubRec(Packet, frozen=True, gc=False):
    packet_id: int
    reason: Reason = Reason.SUCCESS
    reason_text: str | None = None
    user_properties: Pairs = ()


class PubRel(Packet, frozen=True, gc=False):
    packet_id: int
    reason: Reason = Reason.SUCCESS
    reason_text: str | None = None
    user_properties: Pairs = ()


class PubComp(Packet, frozen=True, gc=False):
    packet_id: int
    reason: Reason = Reason.SUCCESS
    reason_text: str | None = None
    user_properties: Pairs = ()


class Wish(Struct, frozen=True, gc=False):
    """One line of a SUBSCRIBE: a topic filter and how to be served."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(Packet, frozen=True, gc=False):
    packet_id: int
    wishes: tuple[Wish, ...]
    subscription_id: int | None = None
    user_properties: Pairs = ()


class SubAck(Packet, frozen=True, gc=False):
    packet_id: int
    reasons: tuple[Reason, ...]
    reason_text: str | None = None
    user_properties: Pairs = ()


class Unsubscribe(Packet, frozen=True, gc=False):
    packet_id: int
    filters: tuple[str, ...]
    user_properties: Pairs = ()


class UnsubAck(Packet, frozen=True, gc=False):
    """3.1.1 says no reasons: there are none then."""

    packet_id: int
    reasons: tuple[Reason, ...] = ()
    reason_text: str | None = None
    user_properties: Pairs = ()


class PingReq(Packet, frozen=True, gc=False):
    pass


class PingResp(Packet, frozen=True, gc=False):
    pass


class Disconnect(Packet, frozen=True, gc=False):
    reason: Reason = Reason.SUCCESS
    session_expiry_s: int | None = None
    reason_text: str | None = None
    user_properties: Pairs = ()
    server_reference: str | None = None


class Auth(Packet, frozen=True, gc=False):
    reason: Reason = Reason.SUCCESS
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    reason_text: str | None = None
    user_properties: Pairs = ()


AnyPacket: TypeAlias = (
    Connect
    | ConnAck
    | Publish
    | PubAck
    | PubRec
    | PubRel
    | PubComp
    | Subscribe
    | SubAck
    | Unsubscribe
    | UnsubAck
    | PingReq
    | PingResp
    | Disconnect
    | Auth
)
