"""What brokers and their clients say to each other.

Between brokers, each inside a `Carried` (`steady.py`): `Wanted` and `Unwanted` (wishes), `Notified` (an event on its
way), `Relocate`, `Replay`, `NotFound` and `Farewell` (a client has moved, or is gone). `Hello` and `Got` keep the
stream between two brokers whole.

Between a client and its border broker: `Attach`, `Report`, `Sub`, `Unsub`, `Pub`, `Ack` one way, `Numbered`,
`Accepted`, `Lost` the other. There is no goodbye: a client need not know that it leaves (R3).
"""

from typing import Literal, TypeAlias

from roamcast.model.event import Event
from roamcast.model.subject import check_subject
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import Message
from roamcast.protocols.broker.logical.template import State, Template
from roamcast.protocols.broker.mesh.identity import EventId
from roamcast.protocols.broker.mesh.prediction import Status
from roamcast.protocols.broker.wishes import Wish


class Wanted(Message, frozen=True, tag="wanted"):
    """The sender wants what this wish accepts."""

    wish: Wish


class Unwanted(Message, frozen=True, tag="unwanted"):
    wish_id: str


class Advertised(Message, frozen=True, tag="advertised"):
    """Events of this subject are published on the sender's side (R1)."""

    subject: str
    number: int

    def __post_init__(self) -> None:
        check_subject(self.subject)


class Unadvertised(Message, frozen=True, tag="unadvertised"):
    subject: str


class Settled(Message, frozen=True, tag="settled"):
    """Everybody behind the sender knows of the advertisement of this number, and its wishes have come before this."""

    subject: str
    number: int


class Located(Message, frozen=True, tag="located"):
    """A wish that depends on its client, new or changed: each broker binds it to what the client may be like (R4)."""

    template: Template


class Unlocated(Message, frozen=True, tag="unlocated"):
    template_id: str


class Notified(Message, frozen=True, tag="notified"):
    """An event on its way through the brokers. `serial` grows with each publication of its publisher."""

    event: Event
    serial: int
    id: EventId | None = None
    """Its system-wide id, in a mesh (M3)."""
    hops: int = 0
    """From broker to broker; without a limit an event would go round for ever in a circle of brokers."""

    @property
    def event_id(self) -> str:
        return self.event.id


class Numbered(Message, frozen=True, tag="numbered"):
    """An event in the order in which its client gets it, for these subscriptions of the client."""

    number: int
    event: Event
    serial: int
    subscriptions: tuple[str, ...]
    epoch: int = 0
    """On a way of its own (M5): the attachment under which it was numbered. 0: from the broker that numbers."""

    @property
    def event_id(self) -> str:
        return self.event.id


class Relocate(Message, frozen=True, tag="relocate"):
    """A claim: `client` is now at the first broker of `path`, and has everything up to number `after`.

    `epoch` grows with each attachment of the client: of two claims, the later is right. One that `forgets` wants
    nothing of what was kept for the client: it has started anew.
    """

    client: str
    epoch: int
    after: int
    path: tuple[str, ...]
    forgets: bool = False
    was_at: str = ""
    """Where the client says that it was: a way to go where nobody knows better (M7)."""
    corrects: bool = False
    """It was sent back to where an earlier claim came from. Its own search goes another way, so nobody says of this
    one that nothing was found."""


class Replay(Message, frozen=True, tag="replay"):
    """What was kept for a client, on its way back along `path` to the broker that claimed it with `epoch`."""

    client: str
    epoch: int
    path: tuple[str, ...]
    events: tuple[Numbered, ...] = ()
    last: bool = False
    next_number: int = 1
    """Where the new broker goes on counting."""
    published: int = 0
    """The serial of the client's last publication that was accepted."""
    lost: int = 0
    """How many events the bounds of a buffer cost, and the client was not told yet."""
    marks: tuple[tuple[str, int], ...] = ()
    """By publisher, how far the client has it: copies of these events may still be on their way to the new broker."""
    apart: int = 0
    """How many events, up to the last number, travel apart from this message (M6)."""


class NotFound(Message, frozen=True, tag="not_found"):
    """Nobody on this side has anything for the client; on its way back along `path`."""

    client: str
    epoch: int
    path: tuple[str, ...]


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
        return self.numbered.event.id


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


class Prepare(Message, frozen=True, tag="prepare"):
    """Subscribe ahead for a client that may come (R7)."""

    client: str
    ticket: int
    subscriptions: tuple[Subscription, ...]


class Prepared(Message, frozen=True, tag="prepared"):
    client: str
    ticket: int


class Complete(Message, frozen=True, tag="complete"):
    """Of what is numbered for the client behind `number`, nothing has passed by the broker that is told."""

    client: str
    ticket: int
    number: int


class Release(Message, frozen=True, tag="release"):
    """The client is elsewhere, or gone."""

    client: str


class Letter(Message, frozen=True, tag="letter"):
    """From one broker to another that need not be its neighbour."""

    origin: str
    target: str
    body: Prepare | Prepared | Complete | Release


class Abandon(Message, frozen=True, tag="abandon"):
    """The client has begun anew with this epoch, because what was kept for it did not come: whatever is older goes.

    It is passed on to everybody: a broker that has crashed since may not know where the client was.
    """

    client: str
    epoch: int
    hops: int = 0


class Farewell(Message, frozen=True, tag="farewell"):
    """Nothing is kept for the client any more: whoever knows nothing newer of it forgets it."""

    client: str
    epoch: int


Between: TypeAlias = (
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
)


class Early(Message, frozen=True, tag="early"):
    """An event ahead of its number, for a client that has just come: it may get it again with one (R7)."""

    epoch: int
    event: Event
    serial: int
    subscriptions: tuple[str, ...]

    @property
    def event_id(self) -> str:
        return self.event.id


class Hello(Message, frozen=True, tag="hello"):
    """Said by a broker on every new link: that it is one, which life of it this is, and how much of the peer's stream
    it has got."""

    life: int
    peer_life: int
    got: int


class Carried(Message, frozen=True, tag="carried"):
    """The next message of the stream to a neighbour."""

    number: int
    message: Between

    @property
    def kind(self) -> str:
        return self.message.kind

    @property
    def event_id(self) -> str | None:
        return self.message.event_id


class Got(Message, frozen=True, tag="got"):
    """Everything of the stream up to this number has arrived."""

    number: int


class Probe(Message, frozen=True, tag="probe"):
    """Comes back as an `Echo`: how long a word to the other side and back takes, by the clock of this one (R5)."""

    at_us: int


class Echo(Message, frozen=True, tag="echo"):
    at_us: int


class Report(Message, frozen=True, tag="report"):
    """What the client's subscriptions depend on has changed: its place, or an attribute of its own (R4, R7)."""

    state: State


class Attach(Message, frozen=True, tag="attach"):
    """A client connects. `epoch` grows with each of its attachments; it has everything up to number `after`.

    It comes for the `first` time, or `again`, or it has `restarted` and knows nothing of what it was.
    """

    epoch: int
    after: int
    came: Literal["first", "again", "restarted"]
    subscriptions: tuple[Subscription, ...] = ()
    state: State | None = None
    """What the subscriptions depend on; None if they depend on nothing."""
    status: Status | None = None
    """Where the client is going (M2)."""
    marks: tuple[tuple[str, int], ...] = ()
    """By publisher, how far the client has it, if its next broker may have subscribed ahead."""
    announced: tuple[str, ...] = ()
    """The subjects that the client has announced, where there are advertisements."""
    was_at: str = ""
    """The broker that served it last, as far as it knows (M7)."""


class Welcomed(Message, frozen=True, tag="welcomed"):
    """This broker serves the client now: its report has arrived (M2)."""

    epoch: int
    settled: bool = False
    """Whether its session is here as a whole, so that a later broker may look for it here (M7)."""


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


class Sub(Message, frozen=True, tag="sub"):
    subscription: Subscription


class Unsub(Message, frozen=True, tag="unsub"):
    subscription_id: str


class Advertise(Message, frozen=True, tag="advertise"):
    """A client announces events of a subject, or no longer does (R1)."""

    subject: str
    ends: bool = False

    def __post_init__(self) -> None:
        check_subject(self.subject)


class Pub(Message, frozen=True, tag="pub"):
    """A client's publications have serials, so that one sent again to another broker is known there."""

    serial: int
    event: Event

    @property
    def event_id(self) -> str:
        return self.event.id


class Accepted(Message, frozen=True, tag="accepted"):
    """The broker has all publications up to this one."""

    serial: int


class Resend(Message, frozen=True, tag="resend"):
    """There is room again: the client sends once more what is not accepted."""


class Ack(Message, frozen=True, tag="ack"):
    """The client has everything up to this number."""

    number: int


class Lost(Message, frozen=True, tag="lost"):
    """So many events were lost to a bound while the client was away; None: nobody knows how many. Never silently."""

    count: int | None


MESSAGES: tuple[type[Message], ...] = (
    Hello,
    Carried,
    Got,
    Numbered,
    Attach,
    Probe,
    Echo,
    Report,
    Early,
    Advertise,
    Sub,
    Unsub,
    Pub,
    Accepted,
    Resend,
    Ack,
    Lost,
    Welcomed,
    Has,
    Poll,
)
