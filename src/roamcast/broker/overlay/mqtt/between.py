"""What broker processes of an overlay say to each other about the clients that they play (L3, O4).

Over links, from neighbour to neighbour: `Seek` and `Sought` (`seeking.py`). Through the overlay, which keeps order
and sends again what a link has lost: `Upward` and `Downward` between a client and a home broker of another process,
`Absent`, and what has a session follow its client: `Claim`, `Carried`, `Withheld` (`following.py`).
"""

from typing import TypeAlias

from msgspec import Struct

from roamcast.broker.messages import Numbered
from roamcast.broker.overlay.client import ClientState
from roamcast.broker.overlay.messages import ClientAddress
from roamcast.broker.transfer import SessionState
from roamcast.model.event import Event
from roamcast.node.boundary import Message
from roamcast.node.codec import Codec

BYTES_MAX = 3_900_000
"""What a parcel of an overlay has room for."""


class Found(Struct, frozen=True, array_like=True):
    """A session, where it is, and of which attachment."""

    broker: str
    epoch: int
    session: SessionState


class Seek(Message, frozen=True, tag="seek"):
    """Who has a session of this client? `number` tells the questions of `origin` apart."""

    client: str
    number: int
    origin: str


class Sought(Message, frozen=True, tag="sought"):
    """The answer of those who were asked by way of the sender: who they are, and what they found."""

    client: str
    number: int
    origin: str
    asked: tuple[str, ...] = ()
    found: Found | None = None


class Upward(Message, frozen=True, tag="upward"):
    """A client, which has been at the sender since a time, says something to its home broker."""

    name: str
    since_us: int
    data: bytes


class Downward(Message, frozen=True, tag="downward"):
    """A home broker says something to a client."""

    name: str
    data: bytes


class Absent(Message, frozen=True, tag="absent"):
    """A client to whom a home broker said something is not at the sender, which may know where it went."""

    name: str
    address: ClientAddress | None = None


class Claim(Message, frozen=True, tag="claim"):
    """The client is at the sender now. One that `forgets` wants nothing of its session."""

    client: str
    epoch: int
    forgets: bool = False


class Accompanying(Struct, frozen=True, array_like=True):
    """What the overlay's client of an MQTT client is, which goes with its session."""

    state: ClientState
    since_us: int
    unaccepted: tuple[tuple[int, int, bool], ...]
    """By serial, the packet identifier of a publication that is not acknowledged yet, and whether it has QoS 2."""


class Carried(Message, frozen=True, tag="carried"):
    """A part of a session on its way; the last one says what it is beside its deliveries and publications."""

    client: str
    epoch: int
    events: tuple[Numbered, ...] = ()
    pending: tuple[int, Event] | None = None
    session: SessionState | None = None
    guest: Accompanying | None = None


class Withheld(Message, frozen=True, tag="withheld"):
    """The sender has no session of this client; or not yet all of it, `soon`."""

    client: str
    epoch: int
    soon: bool


Said: TypeAlias = Upward | Downward | Absent | Claim | Carried | Withheld
CODEC = Codec((Upward, Downward, Absent, Claim, Carried, Withheld), BYTES_MAX)
