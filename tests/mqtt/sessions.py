"""Sessions of a broker that is not there: what connections of the tests work on."""

from functools import lru_cache

import msgspec

from roamcast.broker.modulators.limits import Limits
from roamcast.broker.modulators.running import Modulators
from roamcast.broker.session import Session
from roamcast.broker.window import Bounds, Delivery, Window
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Plane
from roamcast.mqtt import Form, Message, SessionLimits


def new_session(client: str, limits: SessionLimits | None = None) -> Session:
    limits = limits or SessionLimits()
    bounds = Bounds(limits.queue_messages_max, 10, limits.queue_bytes_max, evicts=False)
    return Session(client, 1, Window(bounds), Modulators(Plane(), Limits()))


def delivery_of(message: Message, form: Form, serial: int = 0) -> Delivery:
    event = Event(f"e{serial}", "t", Context("publisher"), 0, 0, body=msgspec.msgpack.encode(message))
    return Delivery(event, serial, (), form)


@lru_cache(maxsize=1_000)
def _decoded(body: bytes) -> Message:
    return msgspec.msgpack.decode(body, type=Message)


def message_in(delivery: Delivery) -> Message:
    return _decoded(delivery.event.body or b"")


def published(session: Session, packet_id: int) -> bool:
    """Whether a QoS 2 message is new."""
    is_new = packet_id not in session.received
    session.received[packet_id] = None
    return is_new
