"""What a mesh adds: a client and its serving broker talk through any broker that the client passes (M2, M5 to M8)."""

from roamcast.broker.mesh.prediction import Status
from roamcast.broker.messages.clients import Numbered
from roamcast.node.boundary import Message


class Forwarded(Message, frozen=True, tag="forwarded"):
    """An event for a client, one packet each: to the broker in whose cell it will be (M5), or to its new one (M7)."""

    client: str
    numbered: Numbered
    status: Status | None = None
    """What the client said of its trip: a broker that it has left already sends the event on."""
    claim: int = 0
    """The epoch of the claim that this answers; 0: none."""
    chases: int = 0
    """How often it was sent on."""

    @property
    def event_id(self) -> str:
        return self.numbered.event_id


class Confirmed(Message, frozen=True, tag="confirmed"):
    """The client has everything of this attachment up to a number, said at another broker than its own (M5)."""

    client: str
    epoch: int
    number: int


class Polled(Message, frozen=True, tag="polled"):
    """The client asks its broker for what is new, from the cell of broker `at` (M8)."""

    client: str
    epoch: int
    after: int
    at: str


class Routed(Message, frozen=True, tag="routed"):
    """On its way to broker `to`, from neighbour to neighbour (M6). See `mesh/geographic.py` for its trail."""

    to: str
    cargo: Forwarded | Confirmed | Polled
    visited: tuple[str, ...] = ()
    way: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return self.cargo.kind

    @property
    def event_id(self) -> str | None:
        return self.cargo.event_id


class Welcomed(Message, frozen=True, tag="welcomed"):
    """This broker serves the client now: its report has arrived (M2)."""

    epoch: int
    settled: bool = False
    """Whether its session is here as a whole, so that a later broker may look for it here (M7)."""


class Subscribed(Message, frozen=True, tag="subscribed"):
    """The broker has every `Sub` and `Unsub` of the client up to this number."""

    number: int


class Has(Message, frozen=True, tag="has"):
    """As `Ack`, for the client's own broker, from a client that is elsewhere (M5)."""

    broker: str
    epoch: int
    number: int


class Poll(Message, frozen=True, tag="poll"):
    """The client asks its own broker for whatever came after this number (M8)."""

    broker: str
    epoch: int
    after: int
