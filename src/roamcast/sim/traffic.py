"""What applications do in a scenario: groups of hosts publish and subscribe, periodically, within scopes.

Times, places and values come from a generator for each host and rule, so one rule never disturbs another.

A host that is not there, or is down, publishes and subscribes nothing, and a rule that announces publishes nothing
before the time of its announcement. A rule that subscribes once, and every
announcement, is followed at each start of its host: when it comes into the world, when it comes back, and when it
restarts after a crash, since what it had said before is forgotten by then.
"""

from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from roamcast.model.context import Context
from roamcast.model.event import CONTENT_ATTRIBUTES_MAX, Announcement, ContentType, Delivery, Event, EventType, fits
from roamcast.model.filter import EVERYTHING, Filter, parse_text
from roamcast.model.region import Anchored, Circle, Region, Shape, placed, rectangle
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.subject import check_pattern, check_subject
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point
from roamcast.node.boundary import Announce, Publish, Subscribe
from roamcast.node.observer import Observer
from roamcast.sim.amounts import check_lifetimes, check_period, check_seconds, check_share, share_of
from roamcast.sim.draws import Draw, Drawn, check_drawn, draw_all
from roamcast.sim.world import PLANE, World

ORIGIN = Point(0.0, 0.0)
CONTENT_TYPES = (ContentType.BOOLEAN, ContentType.INTEGER, ContentType.DOUBLE, ContentType.STRING)
"""What a rule can draw, the narrower type first."""


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
        check_share("share", self.share)
        self.shape()
        self.accepts()

    def shape(self) -> Shape | None:
        return shape_of("a scope", self.circle_m, self.box_m)

    def accepts(self) -> Filter | None:
        return parsed(self.filter) if self.filter else None


class AnnounceParams(Struct, frozen=True, forbid_unknown_fields=True):
    """The announcement of a rule's events (S3): their proximity and how they want to be delivered.

    Without a shape the events have no proximity of their own, and go where consumers want them (S14).
    """

    circle_m: float | None = None
    """Its radius."""
    box_m: tuple[float, float] | None = None
    """Its width and height."""
    stationary: bool = False
    """Whether the proximity stays where the producer announced it, instead of moving with the producer."""
    first_s: float = 0.0
    """When it is announced, at the earliest."""
    period_s: float | None = None
    """How often it is repeated; as often as the protocol's parameters say without it."""
    validity_s: float | None = None
    priority: int = 0
    deadline_s: float | None = None
    order: Literal["none", "sender"] = "none"

    def __post_init__(self) -> None:
        for name in ("first_s", "validity_s", "deadline_s"):
            check_seconds(name, getattr(self, name))
        if self.period_s is not None:
            check_period("period_s", self.period_s)
        self.shape()

    def shape(self) -> Shape | None:
        return shape_of("a proximity", self.circle_m, self.box_m)

    def delivery(self) -> Delivery:
        validity_us = None if self.validity_s is None else round(self.validity_s * 1e6)
        deadline_us = None if self.deadline_s is None else round(self.deadline_s * 1e6)
        return Delivery(validity_us, self.priority, deadline_us, self.order)


class PublishRule(Struct, frozen=True, forbid_unknown_fields=True):
    by: str
    """The name of a group of hosts."""
    subject: str
    every_s: float
    share: float = 1.0
    """The share of the group that does it, chosen by the seed: rounded, but somebody unless it is 0."""
    lifetime_s: tuple[float, ...] = (0.0,)
    """One is drawn for each event; 0 is an instantaneous event."""
    content: dict[str, Drawn] = {}
    relevance: ScopeParams | None = None
    audience: ScopeParams | None = None
    announce: AnnounceParams | None = None
    """With a proximity in it, that is the events' audience."""
    first_s: float | None = None
    """When the first one comes; by default at a random time within the first period."""
    until_s: float | None = None

    def __post_init__(self) -> None:
        check_period("every_s", self.every_s)
        check_share("share", self.share)
        check_lifetimes("lifetime_s", self.lifetime_s)
        check_seconds("first_s", self.first_s)
        check_seconds("until_s", self.until_s)
        check_subject(self.subject)
        check_drawn("content", self.content)
        # Every event also carries its position.
        if len(self.content) >= CONTENT_ATTRIBUTES_MAX:
            raise ValueError(f"content has {len(self.content)} entries; give fewer than {CONTENT_ATTRIBUTES_MAX}")
        if self.announce is None or self.announce.shape() is None or self.audience is None:
            return
        if self.audience.shape() is not None:
            raise ValueError("the announced proximity is the audience's region; leave the audience without a shape")

    def event_type(self) -> EventType:
        """The type that the rule's content has; every event also says where it was published."""
        content = {name: content_type_of(drawn) for name, drawn in self.content.items()}
        content.setdefault("position", ContentType.POSITION)
        return EventType(self.subject, content, Delivery() if self.announce is None else self.announce.delivery())


class SubscribeRule(Struct, frozen=True, forbid_unknown_fields=True):
    by: str
    subject: str
    share: float = 1.0
    every_s: float | None = None
    """None: one subscription at each start of the host."""
    lifetime_s: tuple[float, ...] | None = None
    """One is drawn for each; None: until the next one, or the end of the run."""
    filter: str = ""
    interest: ScopeParams | None = None
    publishers: ScopeParams | None = None
    first_s: float | None = None

    def __post_init__(self) -> None:
        check_period("every_s", self.every_s)
        check_share("share", self.share)
        check_lifetimes("lifetime_s", self.lifetime_s)
        check_seconds("first_s", self.first_s)
        check_pattern(self.subject)
        self.accepts()

    def accepts(self) -> Filter:
        return parsed(self.filter) if self.filter else EVERYTHING


def shape_of(what: str, circle_m: float | None, box_m: tuple[float, float] | None) -> Shape | None:
    if circle_m is not None and box_m is not None:
        raise ValueError(f"{what} has one shape: give circle_m or box_m, not both")
    if circle_m is not None:
        return Circle(ORIGIN, circle_m)
    if box_m is not None and not min(box_m) > 0:
        raise ValueError(f"box_m is {list(box_m)}; give a width and a height above 0")
    return None if box_m is None else rectangle(*box_m)


@lru_cache(maxsize=256)
def parsed(text: str) -> Filter:
    try:
        return parse_text(text)
    except ValueError as problem:
        raise ValueError(f"filter: {problem}") from problem


class Actor:
    """One host that follows one rule."""

    def __init__(self, host: str, name: str, rng: Random, area_m: tuple[float, float]) -> None:
        self.host = host
        self.name = name
        """Distinguishes the rules of one host in the ids they give out."""
        self.rng = rng
        self.area_m = area_m
        self.count = 0
        self.announcement: Announcement | None = None
        self.followed_start = 0
        """The start of its host, counted from 1, at which what is to be said once was said last."""

    def next_id(self) -> str:
        self.count += 1
        return f"{self.host}:{self.name}{self.count}"

    def announce(self, rule: PublishRule, params: AnnounceParams, me: Context) -> Announcement:
        naval = me.position or ORIGIN
        shape = params.shape()
        proximity: Region | None = None
        if shape is not None:
            proximity = placed(shape, naval, PLANE) if params.stationary else Anchored(shape, self.host)
        period_us = None if params.period_s is None else round(params.period_s * 1e6)
        self.announcement = Announcement(self.next_id(), rule.event_type(), self.host, proximity, naval, period_us)
        return self.announcement

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
            audience=self.audience(rule, me),
        )

    def audience(self, rule: PublishRule, me: Context) -> Scope:
        scope = self.scope(rule.audience, me)
        if self.announcement is None or self.announcement.proximity is None:
            return scope
        return Scope(self.announcement.proximity, scope.filter)

    def subscribe(self, rule: SubscribeRule, me: Context, left_us: int) -> Subscription:
        """`left_us`: how long the run still takes."""
        now_us = me.at_us
        if rule.lifetime_s is not None:
            expires_us = now_us + round(self.rng.choice(rule.lifetime_s) * 1e6)
        elif rule.every_s is not None:
            expires_us = now_us + round(rule.every_s * 1e6)
        else:
            expires_us = now_us + left_us
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


def content_type_of(drawn: Drawn) -> ContentType:
    """The type of what a rule draws; a choice has that of its first value."""
    if isinstance(drawn, Draw):
        if drawn.number is not None:
            return ContentType.DOUBLE
        if drawn.integer is not None:
            return ContentType.INTEGER
        drawn = drawn.choice[0] if drawn.choice else 0
    return next(each for each in CONTENT_TYPES if fits(drawn, each))


Action: TypeAlias = Callable[[Actor, Any], None]


class Traffic(Observer):
    """Puts every rule on the world's clock, and sees its hosts come and go."""

    def __init__(
        self,
        groups: dict[str, list[str]],
        area_m: tuple[float, float],
        end_us: int,
        publish: tuple[PublishRule, ...],
        subscribe: tuple[SubscribeRule, ...],
    ) -> None:
        self.groups = groups
        self.area_m = area_m
        self.end_us = end_us
        self.publish_rules = publish
        self.subscribe_rules = subscribe
        self.up: dict[str, bool] = {}
        self.starts: dict[str, int] = {}
        self.at_each_start: dict[str, list[tuple[int, Action, Actor, object]]] = {}
        """For each host what it does whenever it starts, and when at the earliest."""

    def watch(self, world: World) -> None:
        self.world = world
        # Subscriptions first: who subscribes and who publishes at the same instant is served.
        for number, wanted in enumerate(self.subscribe_rules):
            for actor in self.actors("subscribe", f"s{number}.", number, self.groups[wanted.by], wanted.share):
                if wanted.every_s is None:
                    self.whenever_up(round((wanted.first_s or 0.0) * 1e6), self.subscribe_once, actor, wanted)
                else:
                    world.kernel.at(self.first_us(wanted, actor), self.subscribe_again, actor, wanted)
        for number, told in enumerate(self.publish_rules):
            for actor in self.actors("publish", f"e{number}.", number, self.groups[told.by], told.share):
                world.kernel.at(self.first_us(told, actor), self.publish, actor, told)
                if told.announce is not None:
                    self.whenever_up(round(told.announce.first_s * 1e6), self.announce, actor, told)

    def actors(self, purpose: str, name: str, number: int, hosts: list[str], share: float) -> list[Actor]:
        chosen = self.world.rng(purpose, number).sample(hosts, share_of(share, len(hosts)))
        return [Actor(host, name, self.world.rng(purpose, number, host), self.area_m) for host in chosen]

    def first_us(self, rule: PublishRule | SubscribeRule, actor: Actor) -> int:
        if rule.first_s is not None:
            return round(rule.first_s * 1e6)
        return round(actor.rng.uniform(0, rule.every_s or 0.0) * 1e6)

    def whenever_up(self, first_us: int, action: Action, actor: Actor, rule: object) -> None:
        self.world.kernel.at(first_us, action, actor, rule)
        self.at_each_start.setdefault(actor.host, []).append((first_us, action, actor, rule))

    def moved(self, now_us: int, context: Context) -> None:
        host = context.host
        if self.up.get(host, False):
            return
        self.up[host] = True
        self.starts[host] = self.starts.get(host, 0) + 1
        # It acts when it has started, which it is about to.
        for first_us, action, actor, rule in self.at_each_start.get(host, ()):
            self.world.kernel.at(max(now_us, first_us), action, actor, rule)

    def gone(self, now_us: int, host: str, to: str | None = None) -> None:
        self.up[host] = False

    def once(self, actor: Actor) -> bool:
        """Whether this is the first time since the start of its host that the actor comes here."""
        before, actor.followed_start = actor.followed_start, self.starts.get(actor.host, 0)
        return before != actor.followed_start

    def announce(self, actor: Actor, rule: PublishRule) -> None:
        me = self.world.context_of(actor.host)
        if rule.announce is not None and me is not None and self.once(actor):
            self.world.give(actor.host, Announce(actor.announce(rule, rule.announce, me)))

    def announces_by_now(self, rule: PublishRule) -> bool:
        return rule.announce is None or self.world.kernel.now_us >= round(rule.announce.first_s * 1e6)

    def publish(self, actor: Actor, rule: PublishRule) -> None:
        me = self.world.context_of(actor.host)
        if me is not None and self.announces_by_now(rule):
            # Both may be due at the same instant, and what is announced comes first.
            self.announce(actor, rule)
            self.world.give(actor.host, Publish(actor.publish(rule, me)))
        next_us = self.world.kernel.now_us + round(rule.every_s * 1e6)
        if rule.until_s is None or next_us <= rule.until_s * 1e6:
            self.world.kernel.at(next_us, self.publish, actor, rule)

    def subscribe_once(self, actor: Actor, rule: SubscribeRule) -> None:
        me = self.world.context_of(actor.host)
        if me is not None and self.once(actor):
            self._subscribe(actor, rule, me)

    def subscribe_again(self, actor: Actor, rule: SubscribeRule) -> None:
        me = self.world.context_of(actor.host)
        if me is not None:
            self._subscribe(actor, rule, me)
        assert rule.every_s is not None
        self.world.kernel.at(self.world.kernel.now_us + round(rule.every_s * 1e6), self.subscribe_again, actor, rule)

    def _subscribe(self, actor: Actor, rule: SubscribeRule, me: Context) -> None:
        left_us = max(0, self.end_us - self.world.kernel.now_us)
        self.world.give(actor.host, Subscribe(actor.subscribe(rule, me, left_us)))
