"""Answers cut down to what the client can take: reason texts and user properties are left out where it asked for none
(Request Problem Information), where they would exceed its maximum packet size, or have no form on the wire."""

from typing import TypeVar

from msgspec.structs import replace

from roamcast.mqtt.encoding import encode
from roamcast.mqtt.packets import ConnAck, Disconnect, PubAck, PubRec, SubAck, UnsubAck
from roamcast.mqtt.reasons import Unsendable

Answer = TypeVar("Answer", ConnAck, Disconnect, PubAck, PubRec, SubAck, UnsubAck)


def fitting(packet: Answer, version: int, bytes_max: int | None, tells_problems: bool) -> Answer:
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
