"""What a broker's state machine wants done: to its clients, to its neighbours, for the record.

A runtime performs effects in their order, after the inputs that brought them about are logged. An order about a
client that is not connected any more is void: what must reach the client is in its session.
"""

from typing import TypeAlias

from msgspec import Struct

from roamcast.broker.session import Session
from roamcast.broker.window import Delivery
from roamcast.mqtt.batches import Batch
from roamcast.mqtt.reasons import Reason
from roamcast.node.boundary import Message


class ServerEffect(Struct, frozen=True, gc=False):
    """Base of all."""


class Admit(ServerEffect, frozen=True):
    """The client that arrived has this session; `present` says that it had it before."""

    client: str
    session: Session
    present: bool
    arrival: int = 0
    """Which arrival this answers; another one may have come since."""
    through: int = 0
    """The number of the last delivery that waits for it."""


class Deny(ServerEffect, frozen=True, gc=False):
    client: str
    reason: Reason
    text: str
    arrival: int = 0
    explains: bool = False
    """It wants to be told also where it only comes too early."""


class Dismiss(ServerEffect, frozen=True, gc=False):
    """Its connection ends from this side."""

    client: str
    reason: Reason
    text: str


class HangUp(ServerEffect, frozen=True, gc=False):
    """The same, and its session stays: that it has left is an input as any other."""

    client: str
    reason: Reason
    text: str


class Grant(ServerEffect, frozen=True, gc=False):
    client: str
    packet_id: int
    reasons: tuple[Reason, ...]
    text: str | None = None


class Revoke(ServerEffect, frozen=True, gc=False):
    client: str
    packet_id: int
    reasons: tuple[Reason, ...]


class Acknowledge(ServerEffect, frozen=True, gc=False):
    """PUBACK or PUBREC: the message is safe, or refused for a reason."""

    client: str
    packet_id: int
    reason: Reason = Reason.SUCCESS
    text: str | None = None


class Accept(ServerEffect, frozen=True, gc=False):
    """PUBACK of each of these messages: they are safe."""

    client: str
    packet_ids: tuple[int, ...]


class Complete(ServerEffect, frozen=True, gc=False):
    """PUBCOMP."""

    client: str
    packet_id: int


class Release(ServerEffect, frozen=True, gc=False):
    """PUBREL, for the delivery of this number."""

    client: str
    number: int


class Deliver(ServerEffect, frozen=True):
    """Deliveries of QoS 1 or 2, one behind the other in the windows of all these sessions, with the number of the
    last. By the time that it is performed a client may have another session, whose numbers are not stored yet."""

    run: list[Delivery]
    receivers: list[tuple[Session, int]]


class Hand(ServerEffect, frozen=True, gc=False):
    """Messages that these clients see alike, with QoS 0: now or never."""

    clients: tuple[str, ...]
    batch: Batch
    retain: bool = False
    subscription_ids: tuple[int, ...] = ()


class Gave(ServerEffect, frozen=True, gc=False):
    """A portion of retained messages is among the effects before this; `more` asks for `GoOn`, once there is time."""

    client: str
    more: bool


class Tell(ServerEffect, frozen=True, gc=False):
    """A message to a neighbouring broker."""

    peer: str
    message: Message
    link: int | None = None
    """Over which of the links to it that there were, if not over whichever there is."""


class Cut(ServerEffect, frozen=True, gc=False):
    """The link to a neighbour ends from this side."""

    peer: str


class SetAside(ServerEffect, frozen=True, gc=False):
    """Messages that wait for a neighbour, to be stored with the input that brought this about."""

    number: int
    body: bytes


class Fetch(ServerEffect, frozen=True, gc=False):
    """What was set aside under a number is wanted, for a neighbour (`Fetched`)."""

    peer: str
    number: int


class CaughtUp(ServerEffect, frozen=True, gc=False):
    """All that these publishers had said on these topics by then is performed (`ahead.py`)."""

    keys: tuple[tuple[str, str], ...]


class Remark(ServerEffect, frozen=True, gc=False):
    """Something to count."""

    what: str
    detail: str = ""


AnyEffect: TypeAlias = (
    Admit
    | Deny
    | Dismiss
    | HangUp
    | Grant
    | Revoke
    | Acknowledge
    | Accept
    | Complete
    | Release
    | Deliver
    | Hand
    | Gave
    | Tell
    | Cut
    | SetAside
    | Fetch
    | CaughtUp
    | Remark
)
