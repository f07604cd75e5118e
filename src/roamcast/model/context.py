"""The context of one host at one time, and the configuration K(t) of all of them (C1)."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from roamcast.model.places import MovementGraph
from roamcast.model.space import Plane, Space
from roamcast.model.values import (
    BadValue,
    Point,
    Value,
    Velocity,
    check_attributes,
    check_point,
    check_velocity,
    is_plain,
)

RESERVED_NAMES = ("host", "position")
"""Names that a context answers from its own fields."""


class Context(Struct, frozen=True, array_like=True):
    """Who, where, and how it moves: identity, position, motion (M2) and attributes of one host.

    `position` and `velocity` hold at `at_us`; `position_at` carries them forward to another time, exactly as long
    as the host keeps its velocity.
    """

    host: str
    position: Point | None = None
    at_us: int = 0
    velocity: Velocity | None = None
    destination: Point | None = None
    pause_us: int = 0
    """How long the host rests at its destination."""
    pause_left_us: int = 0
    """How long it still rests where it is; 0 while it moves."""
    attributes: dict[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.host:
            raise BadValue("context: a host needs a name")
        if self.position is not None and not (type(self.position) is Point and is_plain(self.position)):
            check_point(self.position, f"host '{self.host}'")
        if self.destination is not None:
            check_point(self.destination, f"host '{self.host}'")
        if self.velocity is not None:
            check_velocity(self.velocity, f"host '{self.host}'")
        if self.attributes:
            for name in RESERVED_NAMES:
                if name in self.attributes:
                    raise BadValue(f"host '{self.host}': '{name}' is not an attribute but a field of its context")
            check_attributes(self.attributes)

    def value(self, name: str) -> Value | None:
        """What a filter finds under `name`: an attribute, or `position` or `host`."""
        found = self.attributes.get(name)
        if found is None and name == "position":
            return self.position
        if found is None and name == "host":
            return self.host
        return found

    def position_at(self, now_us: int, space: Space) -> Point | None:
        position, velocity = self.position, self.velocity
        if position is None or velocity is None or now_us == self.at_us:
            return position
        seconds = (now_us - self.at_us) / 1e6
        if type(space) is Plane:
            # As `Plane.moved` does it: simulated hosts ask this hundreds of thousands of times.
            return Point(position.x + velocity.east * seconds, position.y + velocity.north * seconds)
        return space.moved(position, velocity.east * seconds, velocity.north * seconds)

    def at(self, now_us: int, space: Space) -> "Context":
        """This context carried forward to `now_us`."""
        if now_us == self.at_us:
            return self
        if self.velocity is None and not self.pause_left_us:
            # Of a host that stands nothing changes but the time, and all else has been looked at.
            same: Context = self.__copy__()  # type: ignore[attr-defined]
            force_setattr(same, "at_us", now_us)
            return same
        left_us = max(0, self.pause_left_us - (now_us - self.at_us))
        return replace(self, position=self.position_at(now_us, space), at_us=now_us, pause_left_us=left_us)


class Configuration:
    """K(t): every host's context at one instant.

    The neighbours of a host, over which relational properties range (C2), are the hosts within
    `neighbour_range_m` of it, itself not among them. None says that nobody knows them, as a host that has heard of
    two others only does not: what a filter asks of neighbours is then unknown too. Domains range over hosts that are
    up to `domain_hops` such steps away (section 3.1's query service).

    A mapping of contexts is used as it is, so it may make a context when that is first asked for.
    """

    def __init__(
        self,
        space: Space,
        contexts: Mapping[str, Context] | Sequence[Context],
        neighbour_range_m: float | None = 0.0,
        graph: MovementGraph | None = None,
        domain_hops: int = 1,
    ) -> None:
        self.space = space
        self.contexts: Mapping[str, Context] = (
            contexts
            if type(contexts) is dict or isinstance(contexts, Mapping)
            else {context.host: context for context in contexts}
        )
        self.neighbour_range_m = neighbour_range_m
        self.graph = graph
        self.domain_hops = domain_hops

    def neighbours(self, host: str) -> list[Context]:
        here = self.contexts[host].position
        if here is None or self.neighbour_range_m is None:
            return []
        return [
            other
            for other in self.contexts.values()
            if other.host != host
            and other.position is not None
            and self.space.within(here, other.position, self.neighbour_range_m)
        ]

    def group(self, host: str, hops: int) -> list[Context]:
        """The others that can be reached from a host in so many steps, each between neighbours."""
        found = {each.host: each for each in self.neighbours(host)}
        latest = list(found)
        for _ in range(hops - 1):
            reached = [each for name in latest for each in self.neighbours(name)]
            new = {each.host: each for each in reached if each.host not in found and each.host != host}
            found |= new
            latest = list(new)
        return list(found.values())
