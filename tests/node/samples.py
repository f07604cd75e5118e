"""A message with everything in it, and what may come of bytes that are meant to be one."""

from collections.abc import Callable
from typing import get_args

import msgspec

from roamcast.model.context import Context
from roamcast.model.event import Announcement, ContentType, Delivery, Event, EventType
from roamcast.model.filter.tree import (
    And,
    AtMyLoc,
    Attribute,
    Closing,
    Compare,
    Constant,
    Filter,
    Inside,
    IsNull,
    Like,
    Literal,
    Mine,
    Near,
    Neighbours,
    Not,
    OneOf,
    Or,
    Predicate,
    Publishers,
)
from roamcast.model.region import (
    Anchored,
    Box,
    Circle,
    Polygon,
    rectangle,
)
from roamcast.model.scope import Scope
from roamcast.model.subscription import Subscription
from roamcast.model.values import Instant, Point, Velocity
from roamcast.node.boundary import Message
from roamcast.node.codec import MAGIC, VERSION, BadMessage, Codec, Reason


class Carry(Message, frozen=True, tag="carry"):
    """A message with a place for every value of the model."""

    event: Event | None = None
    subscription: Subscription | None = None
    announcement: Announcement | None = None
    context: Context | None = None
    hops: int = 0
    payload: bytes = b""
    numbers: tuple[int, ...] = ()


class Hello(Message, frozen=True, tag="hello"):
    name: str
    since_us: int = 0


CODEC = Codec((Carry, Hello))
HEADER = MAGIC + bytes([VERSION])

CORNERS = (Point(0, 0), Point(4, 0), Point(4, 2), Point(2, 2), Point(0, 4))
EVERY_PREDICATE: tuple[Predicate, ...] = (
    Constant(True),
    Constant(None),
    Compare("<=", Attribute("a"), Literal(1)),
    Compare("=", Mine("b"), Literal("text")),
    Compare("<>", Publishers("c"), Literal(Instant(5))),
    Compare(">", Attribute("speed"), Neighbours("avg", "speed")),
    Compare("<", Neighbours("min", "speed", Compare(">", Attribute("speed"), Mine("speed"))), Literal(3)),
    Compare("=", Attribute("p"), Literal(Point(1.5, 2.5))),
    OneOf(Attribute("d"), (1, 2.5, 3)),
    OneOf(Attribute("d"), ("x", "y")),
    Like(Attribute("e"), "a%_b"),
    IsNull(Attribute("f")),
    Near(Attribute("p"), 200.0),
    Closing(Publishers("position"), "approaching"),
    AtMyLoc(Attribute("place"), 3),
    Inside(Attribute("p"), Circle(Point(1, 2), 3.0)),
    Inside(Attribute("p"), Box(Point(0, 0), Point(1, 1)), boundary=False),
    Inside(Attribute("p"), Polygon(CORNERS)),
    Not(Compare("=", Attribute("g"), Literal(True))),
    Or((Constant(False), Compare("=", Attribute("g"), Literal(0.25)))),
)
FILTER = Filter(And(EVERY_PREDICATE))
CONTEXT = Context(
    "host",
    Point(-6.25, 53.35),
    123_456,
    Velocity(1.5, -2.5),
    Point(-6.3, 53.4),
    10,
    5,
    {"integer": 7, "double": 1.5, "text": "ü😀", "yes": True, "time": Instant(-5), "place": Point(1, 2)},
)
EVENT = Event(
    "e1",
    "a/b",
    CONTEXT,
    1,
    2,
    {"integer": -(2**53), "double": -0.0, "text": "", "no": False, "time": Instant(9), "place": Point(0.1, 0.2)},
    Scope(Circle(Point(0, 0), 5.0), FILTER),
    Scope(Anchored(rectangle(10, 20), "host", Point(1, 1))),
)
SUBSCRIPTION = Subscription(
    "s1", "host", "a/+/#", 0, 2**60, FILTER, Scope(Polygon(CORNERS)), Scope(filter=FILTER), "thumbnail"
)
ANNOUNCEMENT = Announcement(
    "a1",
    EventType("a/b", {kind.value: kind for kind in ContentType}, Delivery(5, -1, 7, "sender")),
    "host",
    Anchored(Polygon(CORNERS), "host"),
    Point(3, 4),
)
FULL = Carry(EVENT, SUBSCRIPTION, ANNOUNCEMENT, CONTEXT, 3, b"\x00\xff", (1, 2, 3))


def outcome(decode: Callable[[bytes], Message], data: bytes) -> str:
    """What came of it: a message, or a reason. Anything else escapes, and fails the test that asked."""
    reason = "message"
    try:
        assert isinstance(decode(data), Message)
    except BadMessage as bad:
        reason = bad.reason
    assert reason in ("message", *get_args(Reason))
    return reason


def body(**fields: object) -> bytes:
    """A `Carry` with these fields, whatever they are; those of the model may be given by name."""
    given = {name: arrayed(PARTS[name], each) if name in PARTS else each for name, each in fields.items()}
    return HEADER + msgspec.msgpack.encode(arrayed(Carry, given))


PARTS: dict[str, type[msgspec.Struct]] = {"context": Context, "subscription": Subscription, "event": Event}


def arrayed(struct: type[msgspec.Struct], given: object) -> object:
    """The array that a struct is on the wire, from a dict of its fields; anything else goes as it is."""
    if not isinstance(given, dict) or not set(given) <= set(struct.__struct_fields__):
        return given
    tag = struct.__struct_config__.tag
    found: list[object] = [] if tag is None else [tag]
    for each in msgspec.structs.fields(struct):
        default = each.default_factory() if each.default_factory is not msgspec.NODEFAULT else each.default
        missing = None if default is msgspec.NODEFAULT else msgspec.to_builtins(default, builtin_types=(bytes,))
        found.append(given.get(each.name, missing))
    return found
