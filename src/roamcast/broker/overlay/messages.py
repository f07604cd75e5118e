"""What hosts of an overlay say to each other.

Over the air, from host to host: `Search`. By unicast: `Here` (the answer), `Rows` (topology), `Parcel` (whatever a
broker says to another one, along a path of brokers), and what clients and home brokers say: that of all brokers and
clients (`broker/messages/`), and `Nearest`, `HomeIs`, `NotHome`, `Leave`, `Refused`, `Silent`.

Inside parcels: `Met`, `Enrol`, `Discharge`, `Whereabouts`, `Unknown`, `Produces` (the directory), `Routed` and
`Modulated` (events before and behind a modulator), `SwitchedOff`, `Retire`, and the relocation: `Ask`, `Agree`,
`Refuse`, `Cancel`, `Detour`, `Detoured`, `Handoff`, `HandoffPart`; and `Aside`, for whoever runs the brokers.
"""

from typing import TypeAlias

from msgspec import Struct

from roamcast.broker.messages import (
    Accepted,
    Ack,
    Attach,
    Echo,
    Lost,
    Numbered,
    Probe,
    Pub,
    Report,
    Sub,
    Unsub,
)
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import Message


class Search(Message, frozen=True, tag="search"):
    """One ring of a search for brokers: goes `reach` hops from its origin."""

    origin: str
    number: int
    reach: int
    travelled: int


class Here(Message, frozen=True, tag="here"):
    """A broker answers a search; `load` is the share of its capacity that is in use."""

    number: int
    hops: int
    load: float


LINK_KBPS = 1_000.0
"""What the link of a broker carries that says nothing of it."""


class Row(Struct, frozen=True, array_like=True):
    """A row of the topology table: the neighbours that a broker found, how many hops away, and what its own link
    carries. The broker alone changes it, and `number` grows each time."""

    broker: str
    number: int
    neighbours: tuple[tuple[str, int], ...] = ()
    kbps: float = LINK_KBPS

    def __post_init__(self) -> None:
        if not 0 < self.kbps < float("inf"):
            raise ValueError(f"a link of {self.kbps} kbit/s; give a number above 0")


class Rows(Message, frozen=True, tag="rows"):
    """`asks`: the sender has no row of the receiver, so it is new, or was down, and wants all rows."""

    rows: tuple[Row, ...]
    asks: bool = False


# The directory.


class Met(Message, frozen=True, tag="met"):
    """Says only that the sender is there."""


class Enrol(Message, frozen=True, tag="enrol"):
    """What this subscription accepts goes to `place`, where its modulator is. The later `version` is right.

    `made` tells its post from an earlier one of the same subscription, which knew other events.
    """

    subscription: Subscription
    place: str
    version: int
    made: int


class Discharge(Message, frozen=True, tag="discharge"):
    """This post of the subscription is gone, as far as anybody knew up to this version."""

    subscription_id: str
    version: int
    made: int
    certain: bool = True
    """Else the sender only knows that it does not have it."""


class Whereabouts(Message, frozen=True, tag="whereabouts"):
    """Where these posts are now, by subscription, when they were made, and the version of that news."""

    place: str
    posts: tuple[tuple[str, int, int], ...]


class Unknown(Message, frozen=True, tag="unknown"):
    """The sender was told where these posts are, and has never heard of their subscriptions: tell it."""

    posts: tuple[tuple[str, int], ...]


class Produces(Message, frozen=True, tag="produces"):
    """A client that publishes is at this home broker; None: nowhere any more."""

    client: str
    home: str | None
    epoch: int


# Events.


class Address(Struct, frozen=True, array_like=True):
    """One of those whom an event is for. `after` is the serial of what its producer sent there before."""

    subscription_id: str
    after: int
    version: int
    missed: int = 0
    """How many events of this producer did not get there since, because a bound was reached."""
    made: int = 0
    """The post that is meant."""


class Routed(Message, frozen=True, tag="routed"):
    """An event on its way to modulators of one broker."""

    event: Event
    serial: int
    addresses: tuple[Address, ...]

    @property
    def event_id(self) -> str:
        return self.event.id


class Modulated(Message, frozen=True, tag="modulated"):
    """What a modulator made, on its way to the home broker; `number` counts what this modulator has made."""

    client: str
    subscription_id: str
    made: int
    """Which post of that subscription: one that was made anew counts anew."""
    number: int
    event: Event
    serial: int
    missed: int = 0

    @property
    def event_id(self) -> str:
        return self.event.id


class SwitchedOff(Message, frozen=True, tag="switched_off"):
    """This post's modulator has failed too often, and makes nothing any more: for the home broker, to tell the
    client."""

    client: str
    subscription_id: str
    made: int


class Retire(Message, frozen=True, tag="retire"):
    """This post of the subscription, which is at the receiver, is no longer needed. A later post of the same
    subscription is none of its business."""

    subscription_id: str
    made: int


# Relocation (section 2.4).


class Ask(Message, frozen=True, tag="ask"):
    """Step 1, the first HANDOFF: will you take these of the client's modulators, and it itself if `with_home`?

    Modulators are named by their subscription and by when their post was made.
    """

    client: str
    move: int
    subscriptions: tuple[tuple[str, int], ...]
    with_home: bool


class Agree(Message, frozen=True, tag="agree"):
    """Step 2."""

    client: str
    move: int


class Refuse(Message, frozen=True, tag="refuse"):
    client: str
    move: int


class Cancel(Message, frozen=True, tag="cancel"):
    """The sender waited too long for an answer: nothing will come."""

    client: str
    move: int


class Detour(Message, frozen=True, tag="detour"):
    """Step 3: from now on, `to` is where these are, by subscription, when made, and version; and if `with_home`, the
    client's session of that birth."""

    client: str
    move: int
    posts: tuple[tuple[str, int, int], ...]
    with_home: bool
    to: str
    born: int = 0


class Detoured(Message, frozen=True, tag="detoured"):
    """Step 4: everything that the sender sends from now on takes the new way."""

    client: str
    move: int
    known: bool = True
    """Else the sender knows nothing of some of these, and D must tell it."""


class PostState(Struct, frozen=True, array_like=True):
    """A modulator on its way to another broker, with all it needs to go on."""

    subscription: Subscription
    made: int
    home: str
    state: bytes
    next_number: int
    marks: tuple[tuple[str, int], ...]
    held: tuple[tuple[Event, int, Address], ...]
    missed: int = 0
    load: float = 0.0
    """The share of a broker's capacity that it used lately."""
    born: int = 0
    """Of the session that it works for."""


class ClientAddress(Struct, frozen=True, array_like=True):
    """Where a client can be reached whose name does not say so: a live broker plays it, since this time."""

    broker: str
    since_us: int


class HomeState(Struct, frozen=True, array_like=True):
    """A session on its way to another home broker."""

    born: int
    moves: int
    epoch: int
    next_number: int
    kept: tuple[Numbered, ...]
    lost: int
    published: int
    produces: bool
    subscriptions: tuple[Subscription, ...]
    expected: tuple[tuple[str, int, int], ...]
    """By subscription, which post it has, and the number of what comes next from there."""
    ahead: tuple[Modulated, ...]
    """What has come before its turn."""
    chain: tuple[tuple[str, int, int], ...]
    """By subscription, its post and the serial of what the client published for it last."""
    missed: tuple[tuple[str, int], ...]
    off: tuple[str, ...] = ()
    """The subscriptions whose modulators are switched off."""
    missing: bool = False
    """Whether the client must be told that a post was lost."""
    load: float = 0.0
    """The share of a broker's time that it took lately."""
    address: ClientAddress | None = None


class Handoff(Message, frozen=True, tag="handoff"):
    """Step 7: everything that moves. `told` are the brokers that know of these subscriptions."""

    client: str
    move: int
    posts: tuple[PostState, ...]
    session: HomeState | None
    told: tuple[str, ...]
    informed: tuple[str, ...] = ()
    """Those of them that know where these are now."""


class Aside(Message, frozen=True, tag="aside"):
    """No business of the brokers: those who run them, and play clients there, say something to each other (L2)."""

    data: bytes


class HandoffPart(Message, frozen=True, tag="handoff_part"):
    """A handoff that is too long for one message, cut into pieces of its bytes; `left` says how many follow."""

    client: str
    move: int
    left: int
    piece: bytes


Inside: TypeAlias = (
    Met
    | Enrol
    | Discharge
    | Whereabouts
    | Unknown
    | Produces
    | Routed
    | Modulated
    | SwitchedOff
    | Retire
    | Ask
    | Agree
    | Refuse
    | Cancel
    | Detour
    | Detoured
    | Handoff
    | HandoffPart
    | Aside
)


class Parcel(Message, frozen=True, tag="parcel"):
    """Source routing (O5): a message with the path of brokers it takes, the sender first, and where on it it is.

    `number` counts the messages from sender to receiver, 0 is an acknowledgement alone. `got` says that the sender
    has everything up to there of what the receiver says. `life` and `peer_life` tell starts of the two brokers apart.
    """

    path: tuple[str, ...]
    at: int
    life: int
    peer_life: int
    got: int
    number: int = 0
    inside: Inside | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.at < len(self.path):
            raise ValueError(f"a parcel at place {self.at} of a path of {len(self.path)}")

    @property
    def event_id(self) -> str | None:
        return None if self.inside is None else self.inside.event_id


# Between a client and its home broker.


class Nearest(Message, frozen=True, tag="nearest"):
    """A client tells its home broker which broker is nearest to it, and how loaded that is."""

    broker: str
    hops: int
    load: float


class HomeIs(Message, frozen=True, tag="home_is"):
    """The sender is the home broker of the session that the client began with the epoch `born`: let it attach again.
    `moves` counts the home brokers that the session has had: of two that say so the later is right."""

    born: int
    moves: int


class NotHome(Message, frozen=True, tag="not_home"):
    """The sender knows nothing of the client."""


class Leave(Message, frozen=True, tag="leave"):
    """The client's session is the one that began with this epoch; an earlier one is over."""

    born: int


class Refused(Message, frozen=True, tag="refused"):
    """The home broker does not take this subscription, and why."""

    subscription_id: str
    why: str


class Silent(Message, frozen=True, tag="silent"):
    """The modulator of this subscription is switched off: nothing comes of it any more."""

    subscription_id: str


MESSAGES: tuple[type[Message], ...] = (
    Search,
    Here,
    Rows,
    Parcel,
    Nearest,
    HomeIs,
    NotHome,
    Leave,
    Refused,
    Silent,
    Attach,
    Sub,
    Unsub,
    Pub,
    Ack,
    Numbered,
    Accepted,
    Lost,
    Probe,
    Echo,
    Report,
)
