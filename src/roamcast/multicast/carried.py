"""The mark of an event that a gateway brought into an ad hoc area (L9), in the event's body.

Such an event has the id and the publisher that it had where it began, so that whoever has it already knows it again.
Its publisher is not there to sign it: the gateway does, and the mark says which one that is. The scopes that the
event had where it began are kept beside it, since in the area they are written as fixed places (`gateway/parcel.py`).
"""

import msgspec
from msgspec import Struct

from roamcast.model.event import Event, EventType
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.mqtt.packets import Pairs

MARK = b"roamcast carried\x00"


class Carried(Struct, frozen=True, array_like=True):
    gateway: str
    relevance: Scope = EVERYWHERE
    audience: Scope = EVERYWHERE
    event_type: EventType | None = None
    payload: bytes | None = None
    """As an MQTT client published it; None: the attributes as JSON."""
    properties: Pairs = ()
    """User properties that mean nothing to us, and something to who reads them."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Carried)


def body_of(carried: Carried) -> bytes:
    return MARK + _encoder.encode(carried)


def carried_in(event: Event) -> Carried | None:
    """None for an event that began where it is, and for a body that is something else."""
    if event.body is None or not event.body.startswith(MARK):
        return None
    try:
        return _decoder.decode(event.body[len(MARK) :])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
