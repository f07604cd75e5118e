"""What a client and its border broker say to each other (R1, R3).

`Attach`, `Report`, `Sub`, `Unsub`, `Advertise`, `Pub`, `Ack` one way, `Numbered`, `Early`, `Accepted`, `Resend`,
`Lost` the other. There is no goodbye: a client need not know that it leaves. `Probe` and `Echo` also go between
brokers.
"""

from typing import Literal

from roamcast.broker.logical.template import State
from roamcast.broker.mesh.prediction import Status
from roamcast.broker.transfer import SessionState
from roamcast.broker.window import Delivery
from roamcast.model.event import Event
from roamcast.model.subject import check_subject
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import Message


class Attach(Message, frozen=True, tag="attach"):
    """A client connects. `epoch` grows with each of its attachments; it has everything up to number `after`.

    It comes for the `first` time, or `again`, or it has `restarted` and knows nothing of what it was.
    """

    epoch: int
    after: int
    came: Literal["first", "again", "restarted"]
    subscriptions: tuple[Subscription, ...] | None = ()
    """None: as the session has them, at this broker or by `session`."""
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
    session: SessionState | None = None
    """What was found out of the session of a client that cannot say so itself."""


class Report(Message, frozen=True, tag="report"):
    """What the client's subscriptions depend on has changed: its place, or an attribute of its own (R4, R7)."""

    state: State


class Sub(Message, frozen=True, tag="sub"):
    subscription: Subscription
    number: int = 0
    """Counts what the client wants confirmed, in a mesh (M7); 0: nothing."""


class Unsub(Message, frozen=True, tag="unsub"):
    subscription_id: str
    number: int = 0


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


class Numbered(Message, frozen=True, tag="numbered"):
    """A delivery in the order in which its client gets it."""

    number: int
    delivery: Delivery
    epoch: int = 0
    """On a way of its own (M5): the attachment under which it was numbered. 0: from the broker that numbers."""

    @property
    def event_id(self) -> str:
        return self.delivery.event.id


class Early(Message, frozen=True, tag="early"):
    """An event ahead of its number, for a client that has just come: it may get it again with one (R7)."""

    epoch: int
    event: Event
    serial: int
    subscriptions: tuple[str, ...]

    @property
    def event_id(self) -> str:
        return self.event.id


class Ack(Message, frozen=True, tag="ack"):
    """The client has everything up to this number."""

    number: int


class Lost(Message, frozen=True, tag="lost"):
    """So many events were lost to a bound while the client was away; None: nobody knows how many. Never silently."""

    count: int | None


class Probe(Message, frozen=True, tag="probe"):
    """Comes back as an `Echo`: how long a word to the other side and back takes, by the clock of this one (R5)."""

    at_us: int


class Echo(Message, frozen=True, tag="echo"):
    at_us: int
