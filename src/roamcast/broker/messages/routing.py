"""What brokers say to each other about who wants what, and events on their way (R1, R2, R4).

`Wanted` and `Unwanted` are wishes of the routing strategies, `Located` and `Unlocated` those that depend on their
client; `Advertised`, `Unadvertised` and `Settled` say where something is published.
"""

from roamcast.broker.logical.template import Template
from roamcast.broker.mesh.identity import EventId
from roamcast.broker.wishes import Wish
from roamcast.model.event import Event
from roamcast.model.subject import check_subject
from roamcast.node.boundary import Message


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
