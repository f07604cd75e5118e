"""What brokers and their clients say to each other.

Between brokers, each inside a `Carried` (`steady.py`): `Wanted` and `Unwanted` (wishes), `Notified` (an event on its
way), `Relocate`, `Replay`, `NotFound` and `Farewell` (a client has moved, or is gone). `Hello` and `Got` keep the
stream between two brokers whole.

Between a client and its border broker: `Attach`, `Sub`, `Unsub`, `Pub`, `Ack` one way, `Numbered`, `Accepted`, `Lost`
the other. There is no goodbye: a client need not know that it leaves (R3).
"""

from typing import Literal, TypeAlias

from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import Message
from roamcast.protocols.broker.wishes import Wish


class Wanted(Message, frozen=True, tag="wanted"):
    """The sender wants what this wish accepts."""

    wish: Wish


class Unwanted(Message, frozen=True, tag="unwanted"):
    wish_id: str


class Notified(Message, frozen=True, tag="notified"):
    """An event on its way through the brokers. `serial` grows with each publication of its publisher."""

    event: Event
    serial: int

    @property
    def event_id(self) -> str:
        return self.event.id


class Numbered(Message, frozen=True, tag="numbered"):
    """An event in the order in which its client gets it, for these subscriptions of the client."""

    number: int
    event: Event
    serial: int
    subscriptions: tuple[str, ...]

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


class NotFound(Message, frozen=True, tag="not_found"):
    """Nobody on this side has anything for the client; on its way back along `path`."""

    client: str
    epoch: int
    path: tuple[str, ...]


class Farewell(Message, frozen=True, tag="farewell"):
    """Nothing is kept for the client any more: whoever knows nothing newer of it forgets it."""

    client: str
    epoch: int


Between: TypeAlias = Wanted | Unwanted | Notified | Relocate | Replay | NotFound | Farewell


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
    def event_id(self) -> str | None:
        return self.message.event_id


class Got(Message, frozen=True, tag="got"):
    """Everything of the stream up to this number has arrived."""

    number: int


class Attach(Message, frozen=True, tag="attach"):
    """A client connects. `epoch` grows with each of its attachments; it has everything up to number `after`.

    It comes for the `first` time, or `again`, or it has `restarted` and knows nothing of what it was.
    """

    epoch: int
    after: int
    came: Literal["first", "again", "restarted"]
    subscriptions: tuple[Subscription, ...] = ()


class Sub(Message, frozen=True, tag="sub"):
    subscription: Subscription


class Unsub(Message, frozen=True, tag="unsub"):
    subscription_id: str


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
    Sub,
    Unsub,
    Pub,
    Accepted,
    Ack,
    Lost,
)
