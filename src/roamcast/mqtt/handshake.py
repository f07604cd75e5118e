"""CONNECT and CONNACK: what is refused without asking the broker, what the two sides agree on, and how answers keep
to that."""

from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from roamcast.mqtt.encoding import encode
from roamcast.mqtt.limits import Limits
from roamcast.mqtt.packets import V5, ConnAck, Connect, Disconnect, PubAck, PubRec, SubAck, UnsubAck
from roamcast.mqtt.reasons import CONNACK_REASONS, Reason, Unsendable

Answer = TypeVar("Answer", ConnAck, Disconnect, PubAck, PubRec, SubAck, UnsubAck)
MQTT_31_REFUSAL = b"\x20\x02\x00\x01"
"""Unacceptable protocol level, in the form that 3.1 and 3.1.1 share."""


class Agreement(Struct, frozen=True):
    """What holds for one connection."""

    version: int
    keep_alive_s: int
    session_expiry_s: int
    send_quota: int
    packet_bytes_max: int | None
    alias_out_max: int
    tells_problems: bool


def objection(connect: Connect, limits: Limits) -> tuple[Reason, str] | None:
    """Why a well-formed CONNECT cannot be accepted whoever it is from."""
    if connect.authentication_method is not None:
        return Reason.BAD_AUTHENTICATION_METHOD, "no enhanced authentication is offered"
    if not connect.client_id and not connect.clean_start and connect.version != V5:
        return Reason.CLIENT_IDENTIFIER_NOT_VALID, "a session to be kept needs a client id"
    will = connect.will
    if will is not None and will.qos > limits.qos_max:
        return Reason.QOS_NOT_SUPPORTED, f"at most QoS {limits.qos_max}"
    if will is not None and will.retain and not limits.retain_available:
        return Reason.RETAIN_NOT_SUPPORTED, "nothing is retained here"
    return None


def agree(connect: Connect, limits: Limits) -> Agreement:
    keep_alive_s = connect.keep_alive_s
    longest_s = limits.keep_alive_max_s
    if connect.version == V5 and longest_s is not None and not 0 < keep_alive_s <= longest_s:
        keep_alive_s = longest_s
    return Agreement(
        version=connect.version,
        keep_alive_s=keep_alive_s,
        session_expiry_s=min(connect.session_expiry_s, limits.session_expiry_max_s),
        send_quota=min(connect.receive_max, limits.in_flight_max),
        packet_bytes_max=connect.packet_bytes_max,
        alias_out_max=min(connect.topic_alias_max, limits.topic_alias_out_max),
        tells_problems=connect.request_problem_information,
    )


def acceptance(
    connect: Connect,
    agreement: Agreement,
    limits: Limits,
    client_id: str,
    session_present: bool,
) -> ConnAck:
    expiry_s, keep_alive_s = agreement.session_expiry_s, agreement.keep_alive_s
    return ConnAck(
        session_present=session_present,
        session_expiry_s=expiry_s if expiry_s != connect.session_expiry_s else None,
        receive_max=limits.receive_max,
        qos_max=limits.qos_max,
        retain_available=limits.retain_available,
        packet_bytes_max=limits.packet_bytes_max,
        assigned_client_id=None if connect.client_id else client_id,
        topic_alias_max=limits.topic_alias_max,
        shared_available=limits.shared_available,
        server_keep_alive_s=keep_alive_s if keep_alive_s != connect.keep_alive_s else None,
    )


def refusal_of_bytes(level: int | None, reason: Reason) -> bytes:
    """What to say to bytes that were to be a CONNECT of this protocol level; to anything else, nothing."""
    if level is None:
        return b""
    if level >= V5 and reason in CONNACK_REASONS:
        return encode(ConnAck(reason), V5)
    return MQTT_31_REFUSAL if reason is Reason.UNSUPPORTED_PROTOCOL_VERSION else b""


def fitting(packet: Answer, version: int, bytes_max: int | None, tells_problems: bool) -> Answer:
    """An answer cut down to what the client can take: reason texts and user properties are left out where it asked
    for none (Request Problem Information), where they would exceed its maximum packet size, or have no form on the
    wire."""
    if packet.reason_text is None and not packet.user_properties:
        return packet
    if not tells_problems and not isinstance(packet, ConnAck | Disconnect):
        return replace(packet, reason_text=None, user_properties=())
    without_pairs = replace(packet, user_properties=())
    for candidate in (packet, without_pairs):
        try:
            size = len(encode(candidate, version))
        except Unsendable:
            continue
        if bytes_max is None or size <= bytes_max:
            return candidate
    return replace(without_pairs, reason_text=None)
