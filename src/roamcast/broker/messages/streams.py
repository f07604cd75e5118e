"""The stream between two brokers that survives its link (`stream.py`), and all that it may carry."""

from typing import TypeAlias

from roamcast.broker.messages.mesh import Routed
from roamcast.broker.messages.roaming import (
    Abandon,
    Farewell,
    Letter,
    NotFound,
    Relocate,
    Remember,
    Remembered,
    Replay,
)
from roamcast.broker.messages.routing import (
    Advertised,
    Located,
    Notified,
    Settled,
    Unadvertised,
    Unlocated,
    Unwanted,
    Wanted,
)
from roamcast.node.boundary import Message

BrokerMessage: TypeAlias = (
    Wanted
    | Unwanted
    | Located
    | Unlocated
    | Notified
    | Relocate
    | Replay
    | NotFound
    | Farewell
    | Abandon
    | Routed
    | Letter
    | Advertised
    | Unadvertised
    | Settled
    | Remember
    | Remembered
)


class Hello(Message, frozen=True, tag="hello"):
    """Said by a broker on every new link: that it is one, which life of it this is, and how much of the peer's stream
    it has got."""

    life: int
    peer_life: int
    got: int
    at_us: int = 0
    """When it was said, by the clock of its sender; 0 where all have one clock."""


class Sequenced(Message, frozen=True, tag="sequenced"):
    """The next message of the stream to a neighbour; what came of the other direction is confirmed with it."""

    number: int
    message: BrokerMessage
    got: int = 0
    """Everything of the stream to the sender has arrived up to this number."""

    @property
    def kind(self) -> str:
        return self.message.kind

    @property
    def event_id(self) -> str | None:
        return self.message.event_id


class Got(Message, frozen=True, tag="got"):
    """Everything of the stream up to this number has arrived: said by itself where nothing goes the other way."""

    number: int
