"""How far a message goes: one hop or several (S9), who repeats it (S12), after what delay, and how old it is then.

A proximity that lies within the producer's radio range is served by a single transmission. Beyond it every member
repeats a message once, after a random delay that keeps frames apart; a gossiper that is far from the producer leaves
it out now and then. `Forwards` keeps what waits for its delay. The waiting is done here and not left to the runtime,
because a message says how old it is, and the age must be right when it leaves.
"""

from random import Random

from msgspec import Struct
from msgspec.structs import replace

from roamcast.adhoc.proximity.messages import Announced, Missed, Raised, Wanted
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.model.region import (
    PLANE,
    Anchored,
    Box,
    Circle,
    Polygon,
    Region,
    anchored_contains,
    contains,
    grown,
    placed,
)
from roamcast.model.space import Space
from roamcast.model.values import BadValue, Point, Velocity
from roamcast.node.boundary import Broadcast, Does, Message, Note, SetTimer

TIMER = "forward "


def holds(region: Region, naval: Point | None, point: Point, space: Space) -> bool:
    """Whether a region contains a point while the host it is anchored to, if it is, is at `naval`."""
    if isinstance(region, Anchored):
        return naval is not None and anchored_contains(region, naval, point, space)
    return contains(region, point, space)


def nearly_holds(region: Region, naval: Point | None, point: Point, margin_m: float, space: Space) -> bool:
    """Whether a point is in a region or at most about `margin_m` from it."""
    if margin_m == 0 or holds(region, naval, point, space):
        return holds(region, naval, point, space)
    if isinstance(region, Anchored):
        try:
            wider = Anchored(grown(region.shape, margin_m, PLANE), region.host, region.reference)
        except BadValue:
            # With a margin of light-seconds it reaches farther than a region may.
            return True
        return holds(wider, naval, point, space)
    return contains(grown(region, margin_m, space), point, space)


def covered(region: Region, naval: Point, sender: Point, range_m: float, space: Space) -> bool:
    """Whether all of a region lies within `range_m` of the sender."""
    if naval is sender and type(region) is Anchored and type(region.shape) is Circle:
        circle = region.shape
        if circle.centre == region.reference:
            # The sender is in the middle, as most producers are in their proximity.
            return circle.radius_m <= range_m
    shape = placed(region.shape, naval, space, region.reference) if isinstance(region, Anchored) else region
    match shape:
        case Circle(centre, radius_m):
            return space.within(sender, centre, range_m - radius_m) if radius_m <= range_m else False
        case Box(low, high):
            corners: tuple[Point, ...] = (low, high, Point(low.x, high.y), Point(high.x, low.y))
        case Polygon():
            corners = shape.corners
    return all(space.within(sender, corner, range_m) for corner in corners)


def carried_on(position: Point, velocity: Velocity | None, age_us: int, space: Space) -> Point:
    """Where something is that was at `position` so long ago and kept its velocity."""
    if velocity is None or age_us == 0:
        return position
    seconds = age_us / 1e6
    return space.moved(position, velocity.east * seconds, velocity.north * seconds)


def nearer(message: Missed, here: Point, space: Space) -> Missed | None:
    """The question as it goes on from here, if that is nearer to the producer than where it was sent from."""
    if message.toward is None:
        return message
    left_m = space.distance_m(here, message.toward)
    return replace(message, left_m=left_m) if left_m < message.left_m else None


def repetition_key(message: Raised, group: int) -> str:
    """What a member repeats once: an event in a group, and each replay of it."""
    return f"{message.event.id}#{message.replay}@{group}"


class Waiting(Struct, frozen=True):
    message: Message
    group: int
    since_us: int
    priority: int


class Forwards:
    """What this node is about to repeat. A node that refuses repeats nothing."""

    def __init__(self, params: ProximityParams, rng: Random, refuses: bool) -> None:
        self.params = params
        self.rng = rng
        self.refuses = refuses
        self.waiting: dict[str, Waiting] = {}
        self._count = 0

    def add(self, now_us: int, message: Message, group: int, priority: int = 0) -> list[Does]:
        if self.refuses:
            return []
        if len(self.waiting) >= self.params.forwards_max:
            return [Note("forward_dropped")]
        self._count += 1
        name = f"{TIMER}{self._count}"
        self.waiting[name] = Waiting(message, group, now_us, priority)
        return [SetTimer(name, now_us + self.rng.randint(0, self.params.forward_jitter_us))]

    def gossips(self, distance_m: float) -> bool:
        """S12: near the producer always, farther away with the given probability."""
        if distance_m <= self.params.gossip_distance_m:
            return True
        return self.rng.random() < self.params.gossip_probability

    def due(self, now_us: int, name: str) -> list[Does]:
        waiting = self.waiting.pop(name, None)
        if waiting is None:
            return []
        message = waiting.message
        if isinstance(message, Raised | Announced | Wanted):
            message = replace(message, age_us=max(0, message.age_us) + now_us - waiting.since_us)
        return [Broadcast(message, waiting.group, priority=waiting.priority)]

    def clear(self) -> None:
        self.waiting.clear()
