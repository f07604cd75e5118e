"""Nodes' seals and messages of both protocols, small and generated, for the tests of frames."""

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from roamcast.adhoc.context import messages as context
from roamcast.adhoc.neighbours import Beacon, Here
from roamcast.adhoc.proximity import messages as proximity
from roamcast.adhoc.routes import Route
from roamcast.model.context import Context
from roamcast.model.event import Announcement, ContentType, Event, EventType
from roamcast.model.region import Anchored, Circle
from roamcast.model.space import Earth, Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point
from roamcast.multicast.drops import Dropped
from roamcast.multicast.keys import OPEN_GROUP_KEY, Identity
from roamcast.multicast.peers import Peers
from roamcast.multicast.sealing import Heard, Seals
from roamcast.node.boundary import Message
from roamcast.node.compact import CompactCodec
from tests.journal import strategies as some

CODEC = CompactCodec((*proximity.MESSAGES, *context.MESSAGES))
"""Of both protocols, whose messages have different tags."""
GROUP = 77
ANN, BOB, EVE = (Identity(bytes([number]) * 32) for number in (1, 2, 3))
IDENTITIES = {"ann": ANN, "bob": BOB, "eve": EVE}
CIRCLE = Anchored(Circle(Point(0.0, 0.0), 100.0), "ann")


class Posing(Identity):
    """Says that another's key is its own."""

    def __init__(self, own: Identity, public: bytes) -> None:
        super().__init__(bytes(32))
        self._secret = own._secret
        self.public = public


def seals(
    name: str,
    began_us: int = 1,
    group_key: bytes = OPEN_GROUP_KEY,
    identity: Identity | None = None,
    peers: Peers | None = None,
    space: Plane | Earth | None = None,
) -> Seals:
    identity = identity or IDENTITIES[name]
    return Seals(name, CODEC, identity, began_us, identity.public[:8], group_key, peers, space or Plane())


def sealed(by: Seals, message: Message, group: int = GROUP) -> bytes:
    return by.seal(CODEC.encode(message), group)


def opened(by: Seals, datagram: bytes, now_us: int = 1_000) -> Heard:
    heard = by.open(now_us, datagram, by.header(datagram))
    assert heard is not None, "a greeting"
    return heard


def outcome(by: Seals, datagram: bytes, now_us: int = 1_000) -> str:
    """`heard`, or why not; anything but `Dropped` is a failure of the test."""
    try:
        opened(by, datagram, now_us)
    except Dropped as dropped:
        return dropped.reason
    return "heard"


def raised(origin: str = "ann", number: int = 1, **changes: Any) -> proximity.Raised:
    event = Event(f"{origin}:e{number}", "ice", Context(origin, Point(1.0, 2.0)), 5, 5, {"depth": 3})
    return replace(proximity.Raised(event, f"{origin}:a1", f"{origin}:a1", number), **changes)


def announced(origin: str = "ann", **changes: Any) -> proximity.Announced:
    kind = EventType("ice", {"depth": ContentType.INTEGER})
    announcement = Announcement(f"{origin}:a1", kind, origin, CIRCLE, Point(0.0, 0.0))
    return replace(proximity.Announced(Point(0.0, 0.0), None, 5, 1, False, 0, announcement), **changes)


def subscribed(origin: str = "ann") -> context.SubscriptionMessage:
    here = Point(0.0, 0.0)
    reach = context.Reach(Context(origin, here), Circle(here, 9.0))
    item = context.SubscriptionItem(Subscription(f"{origin}:s1", origin, "ice", 5, 9), reach, 0, Circle(here, 9.0))
    route = Route(f"s/{origin}:s1/0", Circle(here, 9.0), Here(here))
    return context.SubscriptionMessage(route=route, item=item)


def published(origin: str = "ann") -> context.EventMessage:
    here, event = Point(0.0, 0.0), raised(origin).event
    item = context.EventItem(event, context.Reach(event.publisher, Circle(here, 9.0)), 0, Circle(here, 9.0))
    route = Route(f"e/{event.id}/0", Circle(here, 9.0), Here(here))
    return context.EventMessage(route=route, item=item)


@st.composite
def events(draw: st.DrawFn) -> Event:
    event = draw(some.events())
    return replace(event, id=f"{event.publisher.host}:{event.id.replace(':', '.')}")


@st.composite
def any_messages(draw: st.DrawFn, origin: str = "ann") -> Message:
    """By one origin, as only it may send them without having heard them."""
    event = draw(events())
    event = replace(
        event, publisher=replace(event.publisher, host=origin), id=f"{origin}:{event.id.replace(':', '.')}"
    )
    subscription = replace(draw(some.subscriptions()), id=f"{origin}:s", subscriber=origin)
    announcement = replace(draw(some.announcements), id=f"{origin}:a", producer=origin)
    point, age_us, flag = draw(some.points), draw(some.times), draw(st.booleans())
    here = Here(point, None, draw(some.attributes))
    route = Route("r", draw(some.shapes), here, hops=draw(st.integers(0, 9)), age_us=age_us)
    reach = context.Reach(event.publisher, Circle(point, 9.0))
    event_item = context.EventItem(event, reach, age_us, Circle(point, 9.0))
    wanted_item = context.SubscriptionItem(subscription, reach, age_us, Circle(point, 9.0))

    def on_its_way(named: str) -> Route:
        return replace(route, id=named, target=Circle(point, 9.0))

    region = draw(some.regions)
    choices: list[Message] = [
        proximity.Raised(event, "p", f"{origin}:a", 1, flag, age_us),
        proximity.Announced(point, None, 1, 2, flag, age_us, announcement, 3, (1, 2)),
        proximity.Wanted(point, None, 1, 2, flag, age_us, f"{origin}:s", origin, "ice", region, point),
        proximity.Withdrawn(f"{origin}:a", 3),
        proximity.Missed(origin, 1, "p", "s", (1, 2), point, flag, point, float(age_us)),
        Beacon(here),
        context.EventMessage(route=on_its_way(f"e/{event.id}/0"), item=event_item),
        context.SubscriptionMessage(route=on_its_way(f"s/{origin}:s/0"), item=wanted_item, withdrawn=flag),
        context.MatchedEvent(
            route=route, event=event, publisher=event.publisher, age_us=age_us, subscriber="x", subscription_id="s"
        ),
        context.MatchingRequest(
            route=route, event="e", publisher="x", publishers=draw(some.scopes), subscription_id="s", reach=reach
        ),
        context.Renewal(
            route=on_its_way(f"s/{origin}:s/0"),
            issue=f"{origin}:s",
            issued_us=age_us,
            reach=reach,
            age_us=age_us,
            region=Circle(point, 9.0),
        ),
        context.Unknown(here, ("a", "b")),
        context.Untold(route=route, issue="x:s", issuer="x"),
        context.Digest(here, (event_item,), (wanted_item,)),
        context.Query(here, "q", ("speed",)),
        context.Answer(here, "q", "x", event.publisher),
    ]
    return draw(st.sampled_from(choices))
