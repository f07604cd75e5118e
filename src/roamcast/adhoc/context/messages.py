"""What hosts of context-aware publish/subscribe say to each other (section 3.2, Fig. 2).

Times in an event or subscription are by its issuer's clock, which nobody else shares. So a message says how old its
event or subscription was when the message was made (`age_us`); with the route's own age a receiver reckons when it
was issued by its own clock. A `Context` in a message is that host at the time the message was made.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from roamcast.adhoc.neighbours import Beacon, Here
from roamcast.adhoc.routes import Routed
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.region import Shape
from roamcast.model.scope import Scope
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import Message

UNKNOWN_MAX = 64
"""Renewed events and subscriptions that one frame asks for."""


class Reach(Struct, frozen=True, array_like=True):
    """How to reach an issuer: who and where it is, and the region in which it stays for a while."""

    issuer: Context
    region: Shape
    version: int = 0
    """Counts the refreshes."""
    age_us: int = 0
    """How long ago the issuer itself told this, when the message was made: 0 in its own messages, more in what others
    pass on."""


class EventItem(Struct, frozen=True, array_like=True):
    event: Event
    reach: Reach
    age_us: int
    region: Shape
    """Where the event is held: the region of its relevance, enlarged."""


class SubscriptionItem(Struct, frozen=True, array_like=True):
    subscription: Subscription
    reach: Reach
    age_us: int
    region: Shape


class EventMessage(Routed, frozen=True, kw_only=True, tag="event"):
    """To the region of relevance: when the event is published, with each refresh, and when it is withdrawn."""

    item: EventItem
    withdrawn: bool = False

    @property
    def event_id(self) -> str:
        return self.item.event.id


class SubscriptionMessage(Routed, frozen=True, kw_only=True, tag="subscription"):
    """To the region of interest: when it is issued, with each refresh, and when it is withdrawn."""

    item: SubscriptionItem
    withdrawn: bool = False


class Renewal(Routed, frozen=True, kw_only=True, tag="renewal"):
    """To the same regions: what was told there goes on; a refresh that does not repeat it."""

    issue: str
    """Its id."""
    issued_us: int
    """By its issuer's clock: with the id it says which one it is."""
    reach: Reach
    age_us: int
    region: Shape

    @property
    def event_id(self) -> str | None:
        return self.issue if self.route.id.startswith("e/") else None


class MatchedEvent(Routed, frozen=True, kw_only=True, tag="matched-event"):
    """To the subscriber's reachability region: conditions (i) to (iv) hold."""

    event: Event
    publisher: Context
    age_us: int
    subscriber: str
    subscription_id: str

    @property
    def event_id(self) -> str:
        return self.event.id


class MatchingRequest(Routed, frozen=True, kw_only=True, tag="matching-request"):
    """To the publisher's reachability region: conditions (i) to (iii) hold; is the publisher in this domain?"""

    event: str
    publisher: str
    publishers: Scope
    subscription_id: str
    reach: Reach
    """The subscriber's."""

    @property
    def event_id(self) -> str:
        return self.event


def telling_id(kind: Literal["e", "s", "u"], issue: str, issuer: str, version: int) -> str:
    """The id of the route on which an event or subscription is told, or its issuer is asked to tell it.

    Of an event that gateways brought each of them tells versions of its own.
    """
    by = "" if issue.rpartition(":")[0] == issuer else f"@{issuer}"
    return f"{kind}/{issue}{by}/{version}"


class Digest(Message, frozen=True, tag="digest"):
    """To those in range: what is held in a region that one of them has just entered (C11)."""

    here: Here
    events: tuple[EventItem, ...] = ()
    subscriptions: tuple[SubscriptionItem, ...] = ()


class Unknown(Message, frozen=True, tag="unknown"):
    """To those in range: what is this that goes on?"""

    here: Here
    issues: Annotated[tuple[str, ...], Meta(max_length=UNKNOWN_MAX)]


class Untold(Routed, frozen=True, kw_only=True, tag="untold"):
    """To the issuer's reachability region: nobody around here knows what this is that goes on."""

    issue: str
    issuer: str


class Query(Message, frozen=True, tag="query"):
    """Flooded a few hops around the asker: tell me these attributes of yours (section 3.1)."""

    here: Here
    id: str
    names: tuple[str, ...]
    hops: int = 1


class Answer(Message, frozen=True, tag="answer"):
    """Back on the way the query came, one hop at a time."""

    here: Here
    query_id: str
    to: str
    context: Context


MESSAGES: tuple[type[Message], ...] = (
    Beacon,
    EventMessage,
    SubscriptionMessage,
    Renewal,
    MatchedEvent,
    MatchingRequest,
    Digest,
    Unknown,
    Untold,
    Query,
    Answer,
)
