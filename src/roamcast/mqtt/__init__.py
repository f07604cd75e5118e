"""MQTT 5 and 3.1.1 at the border of a live broker, as a protocol without I/O.

A `Connection` is the server's side of one network connection, a `Session` is what outlives it, and the values in
between are `Message`, `Delivery` and `Subscription`. `decode` and `encode` turn bytes into packets and back.
"""

from roamcast.mqtt.connection import Connection
from roamcast.mqtt.decoding import Decoder, decode
from roamcast.mqtt.encoding import encode
from roamcast.mqtt.limits import Limits
from roamcast.mqtt.messages import Delivery, Message, Subscription, message_of_will
from roamcast.mqtt.outgoing import Frames
from roamcast.mqtt.reasons import MalformedPacket, ProtocolError, Reason, Unsendable
from roamcast.mqtt.requests import Granted
from roamcast.mqtt.session import Session, SessionLimits, SessionState, state_from_bytes
from roamcast.mqtt.topics import FilterTree, TopicFilter, matches, parse_filter

__all__ = [
    "Connection",
    "Decoder",
    "Delivery",
    "FilterTree",
    "Frames",
    "Granted",
    "Limits",
    "MalformedPacket",
    "Message",
    "ProtocolError",
    "Reason",
    "Session",
    "SessionLimits",
    "SessionState",
    "Subscription",
    "TopicFilter",
    "Unsendable",
    "decode",
    "encode",
    "matches",
    "message_of_will",
    "parse_filter",
    "state_from_bytes",
]
