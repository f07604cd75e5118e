"""Nodes that move, each in a namespace of its own, with a radio between them; and what they should have got.

Every node and the radio follow the same ways, straight from turn to turn, so that all agree on who is where at every
microsecond. Time passes as it does, but faster than in the trace: everything in metres per second and every period is
scaled by the same number.

What must come out is decided by `model.match` alone. An event is raised at one moment and delivered at another, and
a consumer may enter or leave the proximity meanwhile: such a pair of event and subscription is a *close call*, and
may go either way. All others may not. A consumer also needs to have heard of a proximity before its event, which
takes one announcement period.
"""

import asyncio
import math
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event, EventType
from roamcast.model.match import matches
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import Scope
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point, Velocity
from roamcast.multicast.host import NodeThread
from roamcast.multicast.keys import Identity
from roamcast.multicast.running import NodeSettings, RunningNode
from roamcast.papers.assemble import kit_of
from tests.multicast.lan import PATIENCE_S
from tests.networks.namespaces import enter
from tests.ports import free_port

PLANE = Plane()
SUBJECT = "ice"
STEP_US = 20_000
"""Between the moments that are looked at to find out whether a pair is a close call."""
EDGE_M = 2.0
"""So near the edge of a proximity it is one anyway: positions are carried on from the last turn that was heard of."""


class Turn(Struct, frozen=True):
    """From here on, with this velocity, until the next turn."""

    at_us: int
    position: Point
    velocity: Velocity


class Way:
    """Random waypoints on a square, with a rest at each."""

    def __init__(
        self, rng: Random, side_m: float, speed_mps: float, rest_s: float, from_us: int, until_us: int
    ) -> None:
        self.turns: list[Turn] = []
        here, at_us = Point(rng.uniform(0, side_m), rng.uniform(0, side_m)), from_us
        while at_us < until_us:
            there = Point(rng.uniform(0, side_m), rng.uniform(0, side_m))
            distance_m = math.dist((here.x, here.y), (there.x, there.y))
            pace_mps = rng.uniform(0.5, 1.5) * speed_mps
            east, north = (pace_mps * (b - a) / distance_m for a, b in ((here.x, there.x), (here.y, there.y)))
            self.turns.append(Turn(at_us, here, Velocity(east, north)))
            at_us += round(distance_m / pace_mps * 1e6)
            self.turns.append(Turn(at_us, there, Velocity(0.0, 0.0)))
            at_us += round(rng.uniform(0, 2) * rest_s * 1e6)
            here = there
        self._last = 0

    def at(self, now_us: int) -> Context:
        """The context of whoever is on this way, without a name of its own."""
        turns, number = self.turns, self._last
        if turns[number].at_us > now_us:
            number = 0
        while number + 1 < len(turns) and turns[number + 1].at_us <= now_us:
            number += 1
        # Nearly always asked in the order of time; two threads that ask at once only look a little longer.
        self._last = number
        turn = turns[number]
        return Context("way", turn.position, turn.at_us, turn.velocity)

    def point(self, now_us: int) -> Point:
        position = self.at(now_us).position_at(now_us, PLANE)
        assert position is not None
        return position


class Moving:
    """A node in its namespace, on a thread of its own, that goes its way."""

    def __init__(self, name: str, namespace: str, way: Way, protocol: dict[str, Any], journal: Path | None) -> None:
        self.name = name
        self.way = way
        self.thread = NodeThread(name)
        self.call(lambda: enter(namespace))
        self.node = self.call(lambda: self._open(protocol, journal))
        self.raised: list[Event] = []
        self.got: list[tuple[str, int]] = []
        """Events by id, and when they came."""

    def _open(self, protocol: dict[str, Any], journal: Path | None) -> RunningNode:
        settings = NodeSettings(
            name=self.name, identity=Identity.fresh(), space=PLANE, port=PORT, journal=journal, range_m=300.0
        )
        node = RunningNode(settings, kit_of(protocol), Context(self.name, self.way.point(time.time_ns() // 1_000)))
        node.start()
        self._turn(node)
        return node

    def _turn(self, node: RunningNode) -> None:
        """At every turn of its way the node is told where it is and how it moves."""
        now_us = time.time_ns() // 1_000
        turn = self.way.at(now_us)
        node.move(turn.position_at(now_us, PLANE), turn.velocity)
        later = [each.at_us for each in self.way.turns if each.at_us > now_us]
        if later:
            node.loop.call_later((later[0] - now_us) / 1e6, self._turn, node)

    def call(self, action: Callable[[], Any]) -> Any:
        async def work() -> Any:
            return action()

        return asyncio.run_coroutine_threadsafe(work(), self.thread.loop).result(PATIENCE_S)

    def announce(self, radius_m: float) -> None:
        self.call(lambda: self.node.port.announce(EventType(SUBJECT), Circle(Point(0.0, 0.0), radius_m)))

    def raise_every(self, seconds: float) -> None:
        def act() -> None:
            self.raised.append(self.node.port.raise_(SUBJECT))

        self.call(lambda: self.node.port.every(seconds, act))

    def subscribe(self) -> str:
        def heard(event: Event) -> None:
            self.got.append((event.id, time.time_ns() // 1_000))

        subscription_id: str = self.call(lambda: self.node.port.subscribe(SUBJECT, heard))
        return subscription_id

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self.node.stop(), self.thread.loop).result(PATIENCE_S)
        self.thread.stop()


PORT = free_port()


class Judgement(Struct):
    """Pairs of an event and a consumer, by what the model says of them."""

    expected: list[tuple[str, str]] = []
    close: list[tuple[str, str]] = []
    missed: list[tuple[str, str]] = []
    unwanted: list[tuple[str, str]] = []
    twice: list[tuple[str, str]] = []
    latencies_us: list[int] = []


def fits(event: Event, consumer: str, ways: dict[str, Way], now_us: int, margin_m: float) -> bool:
    """What `model.match` says of an event that is delivered at a moment, with everybody where they really are and
    the proximity larger by a margin."""
    region = event.audience.region
    assert isinstance(region, Anchored)
    assert isinstance(region.shape, Circle)
    wider = replace(region, shape=replace(region.shape, radius_m=region.shape.radius_m + margin_m))
    there = (event.publisher.host, consumer)
    contexts = {name: Context(name, ways[name].point(now_us), now_us) for name in there}
    subscription = Subscription(f"{consumer}:s", consumer, SUBJECT, 0, FOREVER_US)
    lasting = Event(event.id, event.subject, event.publisher, 0, FOREVER_US, audience=Scope(wider))
    return matches(lasting, subscription, Configuration(PLANE, contexts), now_us)


def judge(
    raised: list[Event], got: dict[str, list[tuple[str, int]]], ways: dict[str, Way], before_us: int, after_us: int
) -> Judgement:
    """A pair is close if the model does not give one answer from `before_us` before the event was raised, when its
    consumer must have heard of the proximity, until `after_us` later, or until it was delivered if that was later."""
    found = Judgement()
    for consumer, deliveries in got.items():
        times: dict[str, int] = {}
        for event_id, at_us in deliveries:
            if event_id in times:
                found.twice.append((event_id, consumer))
            times[event_id] = at_us
        for event in raised:
            pair = (event.id, consumer)
            arrived_us = times.get(event.id)
            if arrived_us is not None:
                found.latencies_us.append(arrived_us - event.published_us)
            until_us = max(event.published_us + after_us, arrived_us or 0)
            moments = range(event.published_us - before_us, until_us + STEP_US, STEP_US)
            answers = {fits(event, consumer, ways, each, margin) for each in moments for margin in (-EDGE_M, EDGE_M)}
            if len(answers) == 2:
                found.close.append(pair)
            elif True in answers:
                found.expected.append(pair)
                if arrived_us is None:
                    found.missed.append(pair)
            elif arrived_us is not None:
                found.unwanted.append(pair)
    return found
