"""What geocast keeps of a message: the route that travels with it, and how it stands at one host (C8)."""

from typing import Literal, TypeAlias

from msgspec import Struct, field

from roamcast.adhoc.neighbours import Here
from roamcast.model.region import Shape
from roamcast.model.values import Point
from roamcast.node.boundary import Message

WALKING = "|walk"
"""Ends the keys of messages that walk."""


class Walk(Struct, frozen=True, array_like=True):
    """A message on its way around a face: around a void, or outside its region from one part of that to another."""

    next: tuple[str, ...]
    """Who is to go on with it."""
    by: str
    """Who says so: a host goes on once with what comes to it over one link, so no walk is endless."""
    start: Point | None = None
    """The void, where it began; None outside a region, where faces do not change."""
    entered: Point | None = None
    """Where it came to the face that it is on."""

    @property
    def name(self) -> str:
        """What tells it from other walks of the same message: the void it began at, or outside a region its last
        hop. Two walks that meet must not be taken for one, or they cut each other off."""
        return self.by if self.start is None else f"{self.start.x},{self.start.y}"


class Route(Struct, frozen=True, array_like=True):
    """How a message travels: which one it is, where to, and the hop it comes from."""

    id: str
    target: Shape
    here: Here
    """Of the previous hop."""
    hops: int = 0
    age_us: int = 0
    """How long it has been on its way, up to when the previous hop sent it."""
    attempt: int = 0
    """Counts recoveries from voids; hosts consider each attempt once."""
    escape_m: float | None = None
    """The distance to the region at which it was stuck: only who is nearer goes on greedily."""
    seeks: bool = False
    """Whether it is to find all parts of a region that does not hang together."""
    walk: Walk | None = None


class Routed(Message, frozen=True, kw_only=True):
    """Base of the messages that travel by geocast."""

    route: Route


State: TypeAlias = Literal["waiting", "sent", "held"]
Way: TypeAlias = Literal["greedy", "flood", "bridge", "walk"]


class UnderWay(Struct):
    """One message at one host."""

    key: str
    message: Routed
    way: Way
    distance_m: float
    """Of this host from the region, when it heard the message."""
    heard_us: int
    state: State = "waiting"
    copies: int = 0
    forwarders: list[Point] = field(default_factory=list)
    tries: int = 0
    carries: int = 0
    walk: Walk | None = None
    """With which to send it on."""


def walking_key(route: Route) -> str:
    """Of a message that walks: a host that holds it may be on the way of its walk too, or on that of several."""
    return route.id + WALKING + ("" if route.walk is None else route.walk.name)
