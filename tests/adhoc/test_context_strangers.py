"""What a stranger's frame says must be possible: no number in it stops a node, on a plane or on Earth (C7, C8)."""

import math
import struct
import sys
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from roamcast.adhoc.context.checks import Checks
from roamcast.adhoc.context.messages import (
    MESSAGES,
    Answer,
    Digest,
    EventItem,
    EventMessage,
    MatchedEvent,
    MatchingRequest,
    Query,
    Reach,
    Renewal,
    SubscriptionItem,
    SubscriptionMessage,
    Unknown,
    Untold,
)
from roamcast.adhoc.context.node import ContextNode
from roamcast.adhoc.context.params import ContextParams
from roamcast.adhoc.geocast_params import GeocastParams
from roamcast.adhoc.neighbours import Beacon, Here
from roamcast.adhoc.routes import Route, Routed, Walk
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import parse_text
from roamcast.model.region import Anchored, Box, Circle, Polygon, Shape
from roamcast.model.scope import Scope
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import BadValue, Point, Value, Velocity
from roamcast.node.boundary import Message, Note, Publish, Received, SetTimer, Start, Subscribe, TimerFired
from roamcast.node.codec import HEADER_BYTES, BadMessage, Codec

SECOND_US = 1_000_000
CODEC = Codec(MESSAGES)
HELSINKI = Point(24.9, 60.2)
DATE_LINE = Point(179.9995, -17.0)
PLACES: dict[str, tuple[Space, Point, float]] = {
    "plane": (Plane(), Point(0.0, 0.0), 1.0),
    "helsinki": (Earth(), HELSINKI, 1e-5),
    "date line": (Earth(), DATE_LINE, 1e-5),
}
"""Where the node is, and how much of a coordinate is about a metre there."""


def node_at(space: Space, position: Point, **params: Any) -> ContextNode:
    node = ContextNode("me", Random(1), ContextParams(**params), space=space)
    node.handle(0, Start(Context("me", position, 0, Velocity(0.0, 0.0))))
    return node


@pytest.mark.parametrize("place", [Point(400.0, 10.0), Point(0.0, 1e308), Point(-181.0, 0.0)])
def test_a_frame_from_nowhere_is_noted_and_changes_nothing(place: Point) -> None:
    node = node_at(Earth(), HELSINKI)
    assert node.handle(1, Received(Beacon(Here(place)), "stranger")) == [Note("bad_message", "stranger")]
    assert node.neighbours.contexts(2) == []
    node.handle(2, TimerFired("tick"))


@pytest.mark.parametrize(
    ("space", "home", "nowhere"),
    [(Plane(), Point(0.0, 0.0), Point(0.0, 2e9)), (Earth(), HELSINKI, Point(400.0, 10.0))],
    ids=["plane", "earth"],
)
def test_a_place_that_was_possible_does_not_let_another_pass(space: Space, home: Point, nowhere: Point) -> None:
    """C7: a node asks no further about the very frame that was looked at last, and about no other."""
    node = node_at(space, home)
    good, bad = Beacon(Here(home)), Beacon(Here(nowhere))
    assert [node.handle(1, Received(each, "stranger")) for each in (good, good, bad)] == [
        [],
        [],
        [Note("bad_message", "stranger")],
    ]
    assert [each.position for each in node.neighbours.contexts(2)] == [home]


def test_a_place_that_is_no_number_cannot_be_said() -> None:
    with pytest.raises(BadValue):
        Here(Point(math.nan, 0.0))
    with pytest.raises(BadValue):
        Here(Point(0.0, 0.0), attributes={"speed": math.inf})
    assert Here(Point(0.0, 0.0)) == Here(Point(0.0, 0.0))


# One impossible thing at a time.


class Sayings:
    """A message of each kind around a place, with regions of one shape."""

    def __init__(self, where: str, shape: str) -> None:
        self.space, self.place, self.metre = PLACES[where]
        self.here = Here(self.at(20, 0), self.at(25, 0), {"load": 1, "spot": self.at(1, 1)})
        shapes: dict[str, Shape] = {"circle": self.circle(40), "box": self.box(40), "polygon": self.polygon(40)}
        self.region = shapes[shape]

    def at(self, east_m: float, north_m: float) -> Point:
        x = self.place.x + east_m * self.metre
        return Point(
            x - 360 if not isinstance(self.space, Plane) and x > 180 else x, self.place.y + north_m * self.metre
        )

    def circle(self, size_m: float) -> Circle:
        return Circle(self.place, float(size_m))

    def box(self, size_m: float) -> Box:
        return Box(self.at(-size_m, -size_m), self.at(size_m, size_m))

    def polygon(self, size_m: float) -> Polygon:
        # Across the date line a polygon goes on beyond 180.
        size, x, y = size_m * self.metre, self.place.x, self.place.y
        return Polygon((Point(x - size, y - size), Point(x + size, y - size), Point(x + size, y + size)))

    def context(self, host: str) -> Context:
        return Context(host, self.at(10, 5), 7, Velocity(1.0, 2.0), self.at(90, 90), attributes={"load": 2})

    def scope(self) -> Scope:
        return Scope(self.region, parse_text("load > neighbours.avg('load') OR near(position, 5000)"))

    def reach(self) -> Reach:
        return Reach(self.context("stranger"), self.region, 3, 5)

    def event(self) -> Event:
        anchored = Scope(Anchored(Circle(Point(1.0, 2.0), 900.0), "stranger"))
        spot: dict[str, Value] = {"price": 2.5, "spot": self.at(3, 3)}
        return Event("e", "x", self.context("stranger"), 5, 9 * SECOND_US, spot, Scope(self.region), anchored)

    def event_item(self) -> EventItem:
        return EventItem(self.event(), self.reach(), 11, self.region)

    def subscription_item(self, subscriber: str = "stranger") -> SubscriptionItem:
        subscription = Subscription(
            "t", subscriber, "x", 5, 9 * SECOND_US, parse_text("price < 3.5"), Scope(self.region), self.scope()
        )
        return SubscriptionItem(subscription, self.reach(), 11, self.region)

    def route(self, **changes: Any) -> Route:
        return replace(Route("r", self.region, self.here, 2, 900), **changes)

    def all(self) -> list[Message]:
        """Of every kind; those that travel also on a new attempt and on a walk, inside the region and outside."""
        walk = Walk(("me",), "stranger", self.at(50, 50), self.at(45, 40))
        away = Box(self.at(300, 300), self.at(400, 400))
        routes = [
            self.route(seeks=True),
            self.route(id="d", attempt=1, escape_m=500.5),
            self.route(id="w", attempt=2, escape_m=100.5, walk=walk, target=away),
            self.route(id="s", seeks=True, walk=Walk(("me",), "stranger"), target=away),
        ]
        event, reach = self.event(), self.reach()
        routed: list[Message] = []
        for route in routes:
            routed += [
                EventMessage(route=replace(route, id=f"e{route.id}"), item=self.event_item()),
                SubscriptionMessage(route=replace(route, id=f"s{route.id}"), item=self.subscription_item()),
                MatchedEvent(
                    route=replace(route, id=f"m{route.id}"),
                    event=event,
                    publisher=self.context("stranger"),
                    age_us=4,
                    subscriber="me",
                    subscription_id="mine",
                ),
                MatchingRequest(
                    route=replace(route, id=f"q{route.id}"),
                    event="own",
                    publisher="me",
                    publishers=self.scope(),
                    subscription_id="t",
                    reach=reach,
                ),
            ]
        for issue, known in (("e", "x"), ("t", "y"), ("unheard of", "z")):
            renewal = Renewal(
                route=self.route(id=f"e/{known}"),
                issue=issue,
                issued_us=5,
                reach=reach,
                age_us=11,
                region=self.region,
            )
            routed.append(renewal)
        withdrawal = SubscriptionMessage(route=self.route(id="u"), item=self.subscription_item(), withdrawn=True)
        digest = Digest(self.here, (self.event_item(),), (self.subscription_item(),))
        answer = Answer(self.here, "q", "me", self.context("stranger"))
        return [*routed, withdrawal, digest, answer, Beacon(self.here), *self.asking()]

    def asking(self) -> list[Message]:
        return [Query(self.here, "q", ("load",), 2), Unknown(self.here, ("own", "mine", "e")), self.untold("own")]

    def untold(self, issue: str) -> Untold:
        return Untold(route=self.route(id=f"u/{issue}"), issue=issue, issuer="me")


SHAPES = ("circle", "box", "polygon")


def busy_node(sayings: Sayings, **params: Any) -> ContextNode:
    """With an event and a subscription of its own, and some neighbours."""
    node = node_at(sayings.space, sayings.place, **params)
    interest = Scope(sayings.region)
    node.handle(1, Subscribe(Subscription("mine", "me", "x", 1, 99 * SECOND_US, interest=interest)))
    own = Event("own", "x", Context("me", sayings.place), 1, 99 * SECOND_US, {"price": 3}, interest)
    node.handle(1, Publish(own))
    for number, (east_m, north_m) in enumerate(((90, 10), (-90, 20), (30, -120))):
        node.handle(2, Received(Beacon(Here(sayings.at(east_m, north_m))), f"neighbour{number}"))
    return node


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("shape", SHAPES)
def test_honest_frames_are_not_refused(where: str, shape: str) -> None:
    """C7, C8: also those about the date line."""
    sayings = Sayings(where, shape)
    node = busy_node(sayings)
    for message in sayings.all():
        effects = node.handle(10, Received(CODEC.decode(CODEC.encode(message)), "stranger"))
        assert not any(isinstance(each, Note) and each.what == "bad_message" for each in effects)
    assert "e" in node.held.events


Spoil = Callable[[EventMessage], EventMessage]


def spoiled_item(**changes: Any) -> Spoil:
    return lambda message: replace(message, item=replace(message.item, **changes))


def spoiled_reach(**changes: Any) -> Spoil:
    return lambda message: replace(message, item=replace(message.item, reach=replace(message.item.reach, **changes)))


def spoiled_event(**changes: Any) -> Spoil:
    return lambda message: replace(message, item=replace(message.item, event=replace(message.item.event, **changes)))


def spoiled_route(**changes: Any) -> Spoil:
    return lambda message: replace(message, route=replace(message.route, **changes))


NOWHERE = Point(1e12, 1e12)
HUGE = Circle(NOWHERE, 1e300)
IMPOSSIBLE: dict[str, Spoil] = {
    "issuer": spoiled_reach(issuer=Context("stranger", NOWHERE)),
    "destination": spoiled_reach(issuer=Context("stranger", None, destination=NOWHERE)),
    "reachability": spoiled_reach(region=HUGE),
    "version": spoiled_reach(version=-1),
    "told in the future": spoiled_reach(age_us=-1),
    "told before time": spoiled_reach(age_us=2**60),
    "publisher": spoiled_event(publisher=Context("stranger", NOWHERE)),
    "attribute": spoiled_event(attributes={"spot": NOWHERE}),
    "relevance": spoiled_event(relevance=Scope(HUGE)),
    "audience": spoiled_event(audience=Scope(Anchored(Circle(Point(0.0, 0.0), 1e300), "stranger"))),
    "endless": spoiled_event(expires_us=2**62),
    "issued in the future": spoiled_item(age_us=-1),
    "target": spoiled_route(target=HUGE),
    "target of corners": spoiled_route(target=Polygon((Point(0.0, 0.0), NOWHERE, Point(0.0, 1e12)))),
    "age": spoiled_route(age_us=-5),
    "hops": spoiled_route(hops=-1),
    "escape": spoiled_route(attempt=1, escape_m=-1.0),
    "start of a walk": spoiled_route(walk=Walk(("me",), "stranger", NOWHERE, NOWHERE)),
    "entry of a walk": spoiled_route(walk=Walk(("me",), "stranger", None, NOWHERE)),
}


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_an_impossible_frame_is_noted_and_not_held(where: str, what: str) -> None:
    """C7, C8: ages below 0 would let an event outlive its expiry."""
    sayings = Sayings(where, "box")
    message = EventMessage(route=sayings.route(), item=sayings.event_item())
    node = node_at(sayings.space, sayings.place)
    effects = node.handle(10, Received(IMPOSSIBLE[what](message), "stranger"))
    assert [each.what for each in effects if isinstance(each, Note)] == ["bad_message"]
    assert len(node.held) == 0


def test_a_box_whose_west_exceeds_its_east_is_for_earth_only() -> None:
    turned = Box(Point(10.0, -10.0), Point(-10.0, 10.0))
    assert not Checks(Plane()).shape(turned)
    assert Checks(Earth()).shape(turned)


# Many at once.

FLOATS = (
    0.0,
    -0.0,
    1e308,
    -1e308,
    sys.float_info.max,
    5e-324,
    180.0,
    -180.0,
    90.0,
    -90.0,
    89.9999999,
    1e9,
    1e15,
    1e-12,
    360.0,
)
INTEGERS = (0, 1, 2**31, 2**53, 2**62, 2**63 - 1, -1, -(2**53), -(2**62))


def exaggerated(data: bytes, rng: Random) -> bytes:
    """Some numbers of a message replaced by extreme ones."""
    found = bytearray(data)
    places = [place for place in range(HEADER_BYTES, len(data) - 8) if data[place] == 0xCB]
    few = rng.sample(places, min(len(places), rng.randint(0, 3)))
    for place in few if rng.random() < 0.7 else places[: rng.randint(1, len(places))]:
        found[place + 1 : place + 9] = struct.pack(">d", rng.choice(FLOATS))
    if rng.random() < 0.3:
        # Small integers are one byte each: from the end, so that what is before keeps its place.
        small = [place for place in range(HEADER_BYTES, len(data)) if data[place] < 0x10]
        for place in sorted(rng.sample(small, min(len(small), 2)), reverse=True):
            found[place : place + 1] = b"\xd3" + struct.pack(">q", rng.choice(INTEGERS))
    return bytes(found)


def fuzz(sayings: Sayings, rng: Random, rounds: int, make: Callable[[], ContextNode]) -> tuple[int, int]:
    """Feeds a node with exaggerated messages and lets all that follows happen; how many decoded and were refused."""
    whole = [CODEC.encode(message) for message in sayings.all()]
    decoded = refused = 0
    for number in range(rounds):
        if number % 25 == 0:
            node, now_us = make(), 10
        try:
            message = CODEC.decode(exaggerated(rng.choice(whole), rng))
        except BadMessage:
            continue
        if isinstance(message, Routed):
            message = replace(message, route=replace(message.route, id=f"{message.route.id}{number}"))
        decoded += 1
        now_us += rng.randint(1, SECOND_US)
        effects = node.handle(now_us, Received(message, f"stranger{number % 3}"))
        refused += any(isinstance(each, Note) and each.what == "bad_message" for each in effects)
        timers = [each.name for each in effects if isinstance(each, SetTimer)]
        for name in (*timers, *timers, "tick", "refresh", "digest", "unknown", "beacon"):
            now_us += 1_000
            for effect in node.handle(now_us, TimerFired(name)):
                if not isinstance(effect, Note | SetTimer) and (said := getattr(effect, "message", None)) is not None:
                    CODEC.encode(said)
    return decoded, refused


PRESETS: dict[str, dict[str, Any]] = {
    "recommended": {"key_attributes": ("load",)},
    "without walks": {"geocast": GeocastParams(walks=False), "query_hops": 2},
}


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value")
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("preset", PRESETS)
def test_no_number_in_a_message_stops_a_node(where: str, shape: str, preset: str) -> None:
    """C7, C8"""
    sayings = Sayings(where, shape)
    rng = Random(f"{where}/{shape}/{preset}")
    decoded, refused = fuzz(sayings, rng, 600, lambda: busy_node(sayings, **PRESETS[preset]))
    assert decoded > 200
    assert 0.2 * decoded < refused < decoded


class Gullible(Checks):
    """Believes everything."""

    def here(self, here: Here) -> bool:
        return True

    def route(self, route: Route) -> bool:
        return True

    def item(self, item: EventItem | SubscriptionItem) -> bool:
        return True

    def renewal(self, renewal: Renewal) -> bool:
        return True

    def matched(self, matched: MatchedEvent) -> bool:
        return True

    def request(self, request: MatchingRequest) -> bool:
        return True

    def answer(self, answer: Answer) -> bool:
        return True


@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value")
@pytest.mark.parametrize("where", PLACES)
def test_the_fuzz_stops_a_node_that_believes_everything(where: str) -> None:
    """The test above can fail."""

    def gullible_node() -> ContextNode:
        node = busy_node(sayings)
        node.checks = node.keeping.checks = Gullible(sayings.space)
        return node

    rng, sayings = Random(1), Sayings(where, "circle")
    with pytest.raises((ValueError, OverflowError, ZeroDivisionError)):
        fuzz(sayings, rng, 10_000, gullible_node)
