"""Random small worlds as journal records, and what `model.match` says of them, pair by pair and moment by moment.

Coordinates, radii and times are round numbers, so that hosts often stand exactly on a boundary and things often
happen at the same moment. On Earth the world lies across the date line or near a pole.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from msgspec.structs import replace

from roamcast.journal import ContextChange, Move, Published, Record, Run, Subscribed, Unsubscribed
from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.filter import parse_text
from roamcast.model.filter.tree import EVERYTHING
from roamcast.model.match import matches
from roamcast.model.places import MovementGraph, movement_graph
from roamcast.model.region import Anchored, Box, Circle, Polygon, Region, Shape
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.space import Earth, Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Instant, Point, Value, Velocity

SECOND_US = 1_000_000
PERIOD_US = 500_000
GRAPH = movement_graph({"p": ["q"], "q": ["r"], "r": ["s"]})
RANGE_M = 60.0

CONTENT = (
    "level >= 3",
    "level < me.limit",
    "near(position, 80)",
    "approaching(position)",
    "receding(publisher.position)",
    "near(publisher.position, 100) AND NOT kind = 'jam'",
    "kind LIKE 'j%' OR level IN (1, 2)",
    "place IN myloc(1)",
    "publisher.host <> me.host",
    "publisher.limit > me.limit OR busy",
    "neighbours.count() > 1",
    "me.limit <= neighbours.avg('limit')",
    "neighbours.count(limit > me.limit AND near(position, 90)) > 0",
    "level IS NULL OR level > 2",
    "since > TIMESTAMP('1970-01-01T00:00:02Z')",
    "me.place = 'p'",
)
HOSTLY = (
    "limit > 2",
    "limit >= neighbours.max('limit')",
    "neighbours.count() > 0",
    "neighbours.min('limit') < me.limit",
    "host LIKE 'h%' AND NOT place = 'q'",
    "place IN myloc(1) OR limit = 3",
    "near(position, 10)",
    "busy",
    "neighbours.avg('limit') > 2.5",
    "neighbours.any(place IN myloc(1) OR limit = 3)",
    "neighbours.min('limit', NOT busy) > 1",
    "neighbours.all(host LIKE 'h%' AND limit >= 1)",
)


@dataclass
class Small:
    """A world and how it went."""

    space: Plane | Earth
    records: list[Record] = field(default_factory=list)
    end_us: int = 0
    graph: MovementGraph | None = GRAPH

    def run(self) -> Run:
        neighbours = None if self.graph is None else self.graph.neighbours
        return Run("world", 0, self.space, 1, "world", RANGE_M, neighbours)


def small_world(seed: int, *, offset_us: int = 0, prefix: str = "", space: Plane | Earth | None = None) -> Small:
    """A world that begins at `offset_us` with hosts of its own; the same seed gives the same."""
    rng = random.Random(f"world/{seed}")
    drawn = space or rng.choice((Plane(), Plane(), Earth()))
    maker = Maker(rng, drawn, offset_us, prefix)
    return Small(drawn, maker.records(), offset_us + maker.length_us)


def large_world(seed: int, size: int, space: Plane | Earth) -> Small:
    """As many hosts, events and subscriptions, as far from each other as in a small one."""
    maker = Maker(random.Random(f"large world/{seed}"), space, 0, "", size)
    return Small(space, maker.records(), maker.length_us)


class Maker:
    def __init__(
        self, rng: random.Random, space: Plane | Earth, offset_us: int, prefix: str, size: int | None = None
    ) -> None:
        self.rng = rng
        self.space = space
        self.offset_us = offset_us
        self.length_us = rng.choice((3, 8)) * SECOND_US
        self.size = size
        self.hosts = [f"{prefix}h{number}" for number in range(size or rng.randint(2, 9))]
        self.prefix = prefix
        self.side_m = round(100 * size**0.5) if size else rng.choice((60, 120, 300))
        self.corner = rng.choice((Point(179.999, 60.0), Point(-180.0, -10.0), Point(30.0, 89.5), Point(8.5, 47.4)))

    def records(self) -> list[Record]:
        found: list[Record] = []
        for host in self.hosts:
            found += self.way_of(host)
        found += [self.published(number) for number in range(self.size or self.rng.randint(1, 9))]
        for number in range(self.size or self.rng.randint(1, 9)):
            found += self.subscribed(number)
        return sorted(found, key=lambda record: record.at_us)

    def moment_us(self) -> int:
        step_us = self.rng.choice((PERIOD_US, 100_000, 1))
        return self.offset_us + self.rng.randrange(0, self.length_us + 1, step_us)

    def at_m(self, east: float, north: float) -> Point:
        return Point(east, north) if isinstance(self.space, Plane) else self.space.moved(self.corner, east, north)

    def somewhere(self) -> Point:
        return self.at_m(self.rng.randrange(0, self.side_m, 10), self.rng.randrange(0, self.side_m, 10))

    def way_of(self, host: str) -> Iterator[Record]:
        rng = self.rng
        times = [self.offset_us if rng.random() < 0.7 else self.moment_us()]
        times += [self.moment_us() for _ in range(rng.randint(0, 4))]
        attributes_first = rng.random() < 0.1
        if attributes_first:
            yield ContextChange(host, self.offset_us, self.attributes())
        if attributes_first and rng.random() < 0.5:
            return
        for time_us in sorted(times):
            if rng.random() < 0.12:
                yield Move.gone(host, time_us)
                continue
            speeds = (None, Velocity(0.0, 0.0), Velocity(10.0, 0.0), Velocity(-5.0, 20.0), Velocity(3.3, -7.7))
            where = self.somewhere() if rng.random() < 0.9 else None
            yield Move(host, time_us, where, rng.choice(speeds))
            if rng.random() < 0.8:
                yield ContextChange(host, time_us, self.attributes())

    def attributes(self) -> dict[str, Value]:
        every: dict[str, Value] = {
            "limit": self.rng.choice((1, 2, 3, 2.5, "high")),
            "place": self.rng.choice("pqrsx"),
            "busy": self.rng.random() < 0.5,
        }
        return {name: value for name, value in every.items() if self.rng.random() < 0.8}

    def published(self, number: int) -> Published:
        rng, at_us = self.rng, self.moment_us()
        host = rng.choice(self.hosts)
        every: dict[str, Value] = {
            "level": rng.choice((1, 2, 3, 4.5, True)),
            "kind": rng.choice(("jam", "ice", "")),
            "place": rng.choice("pqr"),
            "busy": rng.random() < 0.5,
            "since": Instant(rng.randint(0, 4) * SECOND_US),
            "position": self.somewhere(),
        }
        content = {name: value for name, value in every.items() if rng.random() < 0.8}
        velocity = rng.choice((None, Velocity(5.0, 5.0)))
        where = rng.choice((None, self.somewhere(), self.somewhere()))
        publisher = Context(host, where, at_us, velocity, attributes=self.attributes())
        stamp_us = at_us + rng.choice((0, 0, 2_500_000))
        event = Event(
            f"{self.prefix}e{number}",
            rng.choice(("a", "a/b", "a/b", "$a")),
            publisher,
            stamp_us,
            stamp_us + rng.choice((0, 700_000, 2_000_000, 5_000_000)),
            content,
            self.scope(),
            self.scope(),
        )
        return Published(host, at_us, event)

    def subscribed(self, number: int) -> Iterator[Record]:
        rng, at_us = self.rng, self.moment_us()
        host = rng.choice(self.hosts)
        lifetime_us = rng.choice((0, 2_000_000, 4_000_000, FOREVER_US, FOREVER_US))
        subscription = Subscription(
            f"{self.prefix}s{number}",
            host,
            rng.choice(("a", "#", "#", "a/+", "a/#", "$a")),
            at_us,
            at_us + lifetime_us,
            EVERYTHING if rng.random() < 0.4 else parse_text(rng.choice(CONTENT)),
            self.scope(),
            self.scope(),
        )
        yield Subscribed(host, at_us, subscription)
        if rng.random() < 0.2:
            end_us = self.moment_us()
            if end_us > at_us:
                yield Unsubscribed(host, end_us, subscription.id)
        if rng.random() < 0.25:
            again_us = self.moment_us()
            if again_us > at_us:
                subject, wanted = rng.choice(("a", "#", "a/+")), self.scope()
                changes: dict[str, Any] = {"subject": subject, "issued_us": again_us, "interest": wanted}
                expires_us = again_us + lifetime_us
                yield Subscribed(host, again_us, replace(subscription, expires_us=expires_us, **changes))

    def scope(self) -> Scope:
        if self.rng.random() < 0.6:
            return EVERYWHERE
        region = self.region() if self.rng.random() < 0.75 else None
        filter_ = parse_text(self.rng.choice(HOSTLY)) if self.rng.random() < 0.4 else None
        return Scope(region, filter_)

    def region(self) -> Region:
        rng = self.rng
        if rng.random() < 0.5:
            reference = Point(float(rng.choice((0, 0, 20))), 0.0)
            anchor = rng.choice(self.hosts) if rng.random() < 0.95 else "stranger"
            return Anchored(self.shape(Plane()), anchor, reference)
        return self.shape(self.space)

    def shape(self, space: Plane | Earth) -> Shape:
        rng = self.rng
        low, high = rng.randrange(0, self.side_m if self.size else 150, 10), rng.randrange(10, 300, 10)

        def at(east: float, north: float) -> Point:
            return Point(float(east), float(north)) if isinstance(space, Plane) else self.at_m(east, north)

        match rng.randrange(3):
            case 0:
                return Circle(at(low, low), float(high))
            case 1:
                return Box(at(low, low), at(low + high, low + high))
            case _:
                corners = [at(low, low), at(low + high, low), at(low + high / 2, low + high / 4), at(low, low + high)]
                first = corners[0].x
                turned = [Point(c.x + 360 if first - c.x > 180 else c.x, c.y) for c in corners]
                return Polygon(tuple(turned))


def expected(world: Small) -> dict[tuple[str, str], int]:
    """(event, subscription) → when an ideal system delivers it, by the definition alone."""
    found: dict[tuple[str, str], int] = {}
    at = cache(partial(configuration, world))
    events = [shifted(r.event, r.at_us) for r in world.records if isinstance(r, Published)]
    for record in world.records:
        if isinstance(record, Subscribed):
            subscription = record.subscription
            ended_us = end_of(subscription, record.at_us, world)
            for event in events:
                last_us = min(event.expires_us, subscription.expires_us, ended_us - 1, world.end_us)
                for now_us in moments(max(event.published_us, subscription.issued_us), last_us):
                    if matches(event, subscription, at(now_us), now_us):
                        found.setdefault((event.id, subscription.id), now_us)
                        break
    return found


def shifted(event: Event, at_us: int) -> Event:
    lifetime_us = event.expires_us - event.published_us
    parts: Any = (event.attributes, event.relevance, event.audience)
    return Event(event.id, event.subject, event.publisher, at_us, at_us + lifetime_us, *parts)


def moments(first_us: int, last_us: int) -> Iterator[int]:
    if first_us <= last_us:
        yield first_us
        yield from range((first_us // PERIOD_US + 1) * PERIOD_US, last_us + 1, PERIOD_US)


def end_of(subscription: Subscription, from_us: int, world: Small) -> int:
    """From when on it holds no more, because it was ended or replaced, or its host is gone."""
    after = world.records[world.records.index(Subscribed(subscription.subscriber, from_us, subscription)) + 1 :]
    for record in after:
        gone = isinstance(record, Move) and not record.up and record.host == subscription.subscriber
        ended = isinstance(record, Unsubscribed) and record.subscription_id == subscription.id
        replaced = isinstance(record, Subscribed) and record.subscription.id == subscription.id
        if gone or ended or replaced:
            return record.at_us
    return FOREVER_US * 2


def configuration(world: Small, now_us: int) -> Configuration:
    moves: dict[str, Move] = {}
    attributes: dict[str, dict[str, Value]] = {}
    for record in world.records:
        if record.at_us <= now_us and isinstance(record, Move):
            moves[record.host] = record
        elif record.at_us <= now_us and isinstance(record, ContextChange):
            attributes[record.host] = record.attributes
    contexts = [
        move.context(attributes.get(host, {})).at(now_us, world.space) for host, move in moves.items() if move.up
    ]
    return Configuration(world.space, contexts, RANGE_M, world.graph)
