"""MQTT 5 and 3.1.1 at the border of a live broker, as a protocol without I/O.

A `Connection` is the server's side of one network connection; what outlives it is the broker's (`broker/session.py`).
The values in between are `Message`, `Form` and `Subscription`; `decode` and `encode` are for packets.
"""

from typing import TYPE_CHECKING

from roamcast.on_demand import on_demand

if TYPE_CHECKING:
    from roamcast.mqtt.connection import Connection
    from roamcast.mqtt.decoding import Decoder, decode
    from roamcast.mqtt.encoding import encode
    from roamcast.mqtt.limits import Limits, SessionLimits
    from roamcast.mqtt.messages import Form, Message, Subscription, message_of_will
    from roamcast.mqtt.outgoing import Frames
    from roamcast.mqtt.reasons import MalformedPacket, ProtocolError, Reason, Unsendable
    from roamcast.mqtt.topics import TopicFilter, matches, parse_filter

__all__ = [
    "Connection",
    "Decoder",
    "Form",
    "Frames",
    "Limits",
    "MalformedPacket",
    "Message",
    "ProtocolError",
    "Reason",
    "SessionLimits",
    "Subscription",
    "TopicFilter",
    "Unsendable",
    "decode",
    "encode",
    "matches",
    "message_of_will",
    "parse_filter",
]

__getattr__ = on_demand(
    "roamcast.mqtt",
    {
        "connection": ("Connection",),
        "decoding": ("Decoder", "decode"),
        "encoding": ("encode",),
        "limits": ("Limits", "SessionLimits"),
        "messages": ("Form", "Message", "Subscription", "message_of_will"),
        "outgoing": ("Frames",),
        "reasons": ("MalformedPacket", "ProtocolError", "Reason", "Unsendable"),
        "topics": ("TopicFilter", "matches", "parse_filter"),
    },
)
