"""What applications do in a scenario: groups of hosts publish and subscribe, periodically, within scopes.

Times, places and values come from a generator for each host and rule, so one rule never disturbs another.
"""

from random import Random
from typing import Literal

from msgspec import Struct

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import EVERYTHING, Filter, parse_text
from roamcast.model.region import Anchored, Circle, Region, Shape, placed, rectangle
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.subject import check_pattern, check_subject
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point
from roamcast.node.boundary import Publish, Subscribe
from roamcast.sim.draws import Drawn, draw_all
from roamcast.sim.world import PLANE, World

ORIGIN = Point(0.0, 0.0)


class ScopeParams(Struct, frozen=True, forbid_unknown_fields=True):
    """A scope of the scenario: a circle or a box in metres, somewhere, and a filter over host attributes."""

    circle_m: float | None = None
    """Its radius."""
    box_m: tuple[float, float] | None = None
    """Its width and height."""
    at: Literal["anywhere", "here", "with-me"] = "here"
    """Centred on a random point of the area, on where the host is then, or on the host as it moves."""
    filter: str = ""
    share: float = 1.0
    """The share of events or subscriptions that carry this scope at all."""

    def __post_init__(self) -> None:
        if self.circle_m is not None and self.box_m is not None:
            raise ValueError("a scope has one shape: give circle_m or box_m, not both")
        if not 0 <= self.share <= 1:
            raise ValueError(f"share is {self.share}; a share lies between 0 and 1")
        self.shape()
        self.accepts()

    def shape(self) -> Shape | None:
        if self.circle_m is not None:
            return Circle(ORIGIN, self.circle_m)
        return None if self.box_m is None else rectangle(*self.box_m)

    def accepts(self) -> Filter | None:
        return parse_text(self.filter) if self.filter else None


class PublishRule(Struct, frozen=True, forbid_unknown_fields=True):
    by: str
    """The name of a group of hosts."""
    subject: str
    every_s: float
    share: float = 1.0
    """The share of the group that does it, chosen by the seed."""
    lifetime_s: tuple[float, ...] = (0.0,)
    """One is drawn for each event; 0 is an instantaneous event."""
    content: dict[str, Drawn] = {}
    relevance: ScopeParams | None = None
    audience: ScopeParams | None = None
    first_s: float | None = None
    """When the first one comes; by default at a random time within the first period."""
    until_s: float | None = None

    def __post_init__(self) -> None:
        check_rule(self.every_s, self.share, self.lifetime_s)
        check_subject(self.subject)


class SubscribeRule(Struct, frozen=True, forbid_unknown_fields=True):
    by: str
    subject: str
    share: float = 1.0
    every_s: float | None = None
    """None: one subscription for the whole run."""
    lifetime_s: tuple[float, ...] | None = None
    """One is drawn for each; None: until the next one, or the end of the run."""
    filter: str = ""
    interest: ScopeParams | None = None
    publishers: ScopeParams | None = None
    first_s: float | None = None

    def __post_init__(self) -> None:
        check_rule(self.every_s or 1.0, self.share, self.lifetime_s or (0.0,))
        check_pattern(self.subject)
        self.accepts()

    def accepts(self) -> Filter:
        return parse_text(self.filter) if self.filter else EVERYTHING


def check_rule(every_s: float, share: float, lifetime_s: tuple[float, ...]) -> None:
    if every_s <= 0:
        raise ValueError(f"every_s is {every_s}; give a period above 0")
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}; a share lies between 0 and 1")
    if not lifetime_s or min(lifetime_s) < 0:
        raise ValueError("lifetime_s needs at least one lifetime, none negative")


class Actor:
    """One host that follows one rule."""

    def __init__(self, host: str, name: str, rng: Random, area_m: tuple[float, float]) -> None:
        self.host = host
        self.name = name
        """Distinguishes the rules of one host in the ids they give out."""
        self.rng = rng
        self.area_m = area_m
        self.count = 0

    def next_id(self) -> str:
        self.count += 1
        return f"{self.host}:{self.name}{self.count}"

    def publish(self, rule: PublishRule, me: Context) -> Event:
        now_us = me.at_us
        content = draw_all(rule.content, self.rng)
        if me.position is not None:
            content.setdefault("position", me.position)
        return Event(
            id=self.next_id(),
            subject=rule.subject,
            publisher=me,
            published_us=now_us,
            expires_us=now_us + round(self.rng.choice(rule.lifetime_s) * 1e6),
            attributes=content,
            relevance=self.scope(rule.relevance, me),
            audience=self.scope(rule.audience, me),
        )

    def subscribe(self, rule: SubscribeRule, me: Context, end_us: int) -> Subscription:
        now_us = me.at_us
        if rule.lifetime_s is not None:
            expires_us = now_us + round(self.rng.choice(rule.lifetime_s) * 1e6)
        elif rule.every_s is not None:
            expires_us = now_us + round(rule.every_s * 1e6)
        else:
            expires_us = max(end_us, now_us)
        return Subscription(
            id=self.next_id(),
            subscriber=self.host,
            subject=rule.subject,
            issued_us=now_us,
            expires_us=expires_us,
            filter=rule.accepts(),
            interest=self.scope(rule.interest, me),
            publishers=self.scope(rule.publishers, me),
        )

    def scope(self, params: ScopeParams | None, me: Context) -> Scope:
        if params is None or self.rng.random() >= params.share:
            return EVERYWHERE
        return Scope(self.region(params, me), params.accepts())

    def region(self, params: ScopeParams, me: Context) -> Region | None:
        shape = params.shape()
        if shape is None:
            return None
        if params.at == "with-me":
            return Anchored(shape, self.host)
        centre = me.position or ORIGIN
        if params.at == "anywhere":
            centre = Point(self.rng.uniform(0, self.area_m[0]), self.rng.uniform(0, self.area_m[1]))
        return placed(shape, centre, PLANE)


class Traffic:
    """Puts every rule on the world's clock."""

    def __init__(
        self,
        world: World,
        groups: dict[str, list[str]],
        area_m: tuple[float, float],
        end_us: int,
        publish: tuple[PublishRule, ...],
        subscribe: tuple[SubscribeRule, ...],
    ) -> None:
        self.world = world
        self.area_m = area_m
        self.end_us = end_us
        # Subscriptions first: who subscribes and who publishes at the same instant is served.
        for number, wanted in enumerate(subscribe):
            for actor in self.actors("subscribe", f"s{number}.", number, groups[wanted.by], wanted.share):
                first_us = 0 if wanted.first_s is None and wanted.every_s is None else self.first_us(wanted, actor)
                world.kernel.at(first_us, self.subscribe, actor, wanted)
        for number, told in enumerate(publish):
            for actor in self.actors("publish", f"e{number}.", number, groups[told.by], told.share):
                world.kernel.at(self.first_us(told, actor), self.publish, actor, told)

    def actors(self, purpose: str, name: str, number: int, hosts: list[str], share: float) -> list[Actor]:
        chosen = self.world.rng(purpose, number).sample(hosts, round(share * len(hosts)))
        return [Actor(host, name, self.world.rng(purpose, number, host), self.area_m) for host in chosen]

    def first_us(self, rule: PublishRule | SubscribeRule, actor: Actor) -> int:
        if rule.first_s is not None:
            return round(rule.first_s * 1e6)
        return round(actor.rng.uniform(0, rule.every_s or 0.0) * 1e6)

    def publish(self, actor: Actor, rule: PublishRule) -> None:
        me = self.world.context_of(actor.host)
        if me is not None:
            self.world.give(actor.host, Publish(actor.publish(rule, me)))
        next_us = self.world.kernel.now_us + round(rule.every_s * 1e6)
        if rule.until_s is None or next_us <= rule.until_s * 1e6:
            self.world.kernel.at(next_us, self.publish, actor, rule)

    def subscribe(self, actor: Actor, rule: SubscribeRule) -> None:
        me = self.world.context_of(actor.host)
        if me is not None:
            self.world.give(actor.host, Subscribe(actor.subscribe(rule, me, self.end_us)))
        if rule.every_s is not None:
            next_us = self.world.kernel.now_us + round(rule.every_s * 1e6)
            self.world.kernel.at(next_us, self.subscribe, actor, rule)
