"""Fences of a scenario: hosts look where they are, and publish what the definition (`model/fence.py`) makes of it.

A host that is down looks at nothing: the way between its fixes breaks off, and goes on with the next one. What it
publishes, on `$roam/fence/<fence>/<transition>`, goes the way of all events: the ideal system expects it at whoever
subscribed, and the checkers look at it as at any other.
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.fence import ACCURACY_ATTRIBUTE, BEGIN, Fence, FenceRule, State, Transition, content_of, step
from roamcast.model.filter import EVERYTHING, parse_text
from roamcast.model.region import Anchored, Circle, Region
from roamcast.model.scope_text import ScopeText
from roamcast.model.values import Point
from roamcast.node.boundary import Publish
from roamcast.sim.amounts import check_period, check_seconds
from roamcast.sim.world import PLANE, World

TOPIC = "$roam/fence"


class FenceParams(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    by: str
    """The group of hosts that look whether they pass it."""
    circle: tuple[float, float, float] | None = None
    """Its centre and radius."""
    box: tuple[float, float, float, float] | None = None
    """West, south, east, north."""
    polygon: tuple[tuple[float, float], ...] | None = None
    around: str = ""
    """The host that a circle of `circle_m` moves with."""
    circle_m: float | None = None
    on: tuple[Literal["enter", "leave", "cross", "dwell"], ...] = ("enter", "leave")
    dwell_s: float | None = None
    hysteresis_m: float | None = None
    outside_s: float | None = None
    certainty: Literal["probably", "surely"] = "probably"
    hosts: str = ""
    every_s: float = 1.0
    """How often a host looks where it is."""
    noise_m: float = 0.0
    """How far it is mistaken: the standard deviation of both coordinates, which it tells as its accuracy."""

    def __post_init__(self) -> None:
        check_period("every_s", self.every_s)
        check_seconds("noise_m", self.noise_m)
        self.fence()

    def fence(self) -> Fence:
        rule = FenceRule(
            tuple(Transition(each) for each in self.on),
            parse_text(self.hosts) if self.hosts else EVERYTHING,
            microseconds(self.dwell_s),
            self.hysteresis_m,
            microseconds(self.outside_s),
            self.certainty,
        )
        return Fence(self.name, self.region(), rule)

    def region(self) -> Region:
        fixed = ScopeText(None, self.circle, self.box, self.polygon).region("", PLANE)
        moves = self.around and self.circle_m is not None
        if (fixed is None) == (not moves) or bool(self.around) != (self.circle_m is not None):
            raise ValueError("a fence is a circle, a box or a polygon, or circle_m around a host")
        if self.circle_m is not None:
            return Anchored(Circle(Point(0.0, 0.0), self.circle_m), self.around)
        assert fixed is not None
        return fixed


def microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e6)


class Looker:
    """One host and one fence."""

    def __init__(self, params: FenceParams, number: int, host: str, world: World) -> None:
        self.params = params
        self.fence = params.fence()
        self.name = f"{host}.f{number}"
        self.host = host
        self.world = world
        self.rng = world.rng("fence", number, host)
        self.state: State = BEGIN
        self.said = 0

    def look(self) -> None:
        now_us = self.world.kernel.now_us
        me = self.world.context_of(self.host)
        if me is None:
            self.state = State(None, self.state.stay)
        else:
            self._step(self._seen(me))
        self.world.kernel.at(now_us + round(self.params.every_s * 1e6), self.look)

    def _seen(self, me: Context) -> Context:
        noise_m = self.params.noise_m
        if not noise_m or me.position is None:
            return me
        x, y = (self.rng.gauss(each, noise_m) for each in (me.position.x, me.position.y))
        return replace(me, position=Point(x, y), attributes={**me.attributes, ACCURACY_ATTRIBUTE: noise_m})

    def _step(self, me: Context) -> None:
        around = self.world.context_of(self.params.around) if self.params.around else None
        anchor = None if around is None else around.position
        self.state, occurrences = step(self.fence, self.state, me, PLANE, anchor)
        for each in occurrences:
            self.said += 1
            subject = f"{TOPIC}/{self.fence.name}/{each.transition.value}"
            content = content_of(me, self.fence, each)
            event = Event(f"{self.name}.{self.said}", subject, me, me.at_us, me.at_us, content)
            self.world.give(self.host, Publish(event))


def watch_fences(fences: tuple[FenceParams, ...], groups: dict[str, list[str]], world: World) -> None:
    """Puts all looks on the world's clock; hosts look at different times."""
    for number, params in enumerate(fences):
        for host in groups[params.by]:
            if host != params.around:
                looker = Looker(params, number, host, world)
                first_us = round(looker.rng.uniform(0, params.every_s) * 1e6)
                world.kernel.at(first_us, looker.look)
