"""Crowds that move, large enough for grids and tails; and proof that the comparison would notice (C6)."""

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from roamcast.matching import kernel, layout, pool
from roamcast.matching.layout import ASKED_MAX, ASKED_PER_ENTRY
from roamcast.matching.table import Table
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import parse_text
from roamcast.model.filter.tree import Attribute, Filter, Inside
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point, Value
from tests.matching.worlds import NOW_US, World

PEOPLE = 150
SLACK_M = 8.0
PLACES: dict[str, tuple[Space, Point]] = {
    "plane": (Plane(), Point(0.0, 0.0)),
    "far out on a plane": (Plane(), Point(-9.9e8, 9.9e8)),
    "equator": (Earth(), Point(12.0, 0.0)),
    "date line": (Earth(), Point(180.0, -17.0)),
    "pole": (Earth(), Point(33.0, 89.999)),
}


class Crowd:
    """People within some kilometres of a place, who move, come and go, and are told of what happens there."""

    def __init__(self, space: Space, middle: Point, seed: int) -> None:
        self.world = World(space, neighbour_range_m=50.0)
        self.space, self.middle, self.rng = space, middle, Random(seed)
        self.matched = 0

    def somewhere(self) -> Point:
        spread_m = self.rng.choice((200.0, 2_000.0))
        return self.space.moved(self.middle, self.rng.gauss(0, spread_m), self.rng.gauss(0, spread_m))

    def place(self, name: str) -> None:
        self.world.place(Context(name, self.somewhere(), attributes={"speed": self.rng.randrange(5)}))

    def subscribe(self, name: str) -> None:
        radius_m = self.rng.choice((20, 100, 150, 300, 2_000))
        text = self.rng.choice(
            (
                "near(position, {r})",
                "near(position, {r}) AND level >= 2",
                "level = 3",
                "near(position, {r}) AND speed < me.speed",
            )
        )
        interest = Scope(Anchored(Circle(Point(0, 0), radius_m), name)) if self.rng.random() < 0.2 else EVERYWHERE
        subject = self.rng.choice(("news", "news/local", "news/#"))
        wanted = parse_text(text.format(r=radius_m))
        ends_us = self.rng.choice((NOW_US - 1, 1_000, FOREVER_US, FOREVER_US))
        self.world.subscribe(Subscription(f"of {name}", name, subject, 0, ends_us, wanted, interest))

    def event(self) -> Event:
        at = self.somewhere()
        audience = Scope(Circle(at, 500.0)) if self.rng.random() < 0.3 else EVERYWHERE
        relevance = Scope(Circle(at, 300.0)) if self.rng.random() < 0.3 else EVERYWHERE
        content: dict[str, Value] = {"position": at, "level": self.rng.randrange(4), "speed": self.rng.randrange(5)}
        subject = self.rng.choice(("news", "news/local"))
        return Event("e", subject, Context("press"), 0, 1_000, content, relevance, audience)

    def wander(self) -> None:
        engine, contexts = self.world.engine, self.world.contexts
        for name, context in contexts.items():
            assert context.position is not None
            step_m = self.rng.choice((1.0, 30.0))
            angle = self.rng.uniform(0, math.tau)
            to = self.space.moved(context.position, step_m * math.cos(angle), step_m * math.sin(angle))
            contexts[name] = replace(context, position=to)
        to_all = [context.position for context in contexts.values() if context.position is not None]
        engine.move([engine.host_number(name) for name in contexts], [to.x for to in to_all], [to.y for to in to_all])

    def live(self, rounds: int) -> None:
        for number in range(PEOPLE):
            self.place(f"p{number}")
            self.subscribe(f"p{number}")
        for _ in range(rounds):
            self.wander()
            for _ in range(10):
                name = f"p{self.rng.randrange(PEOPLE)}"
                self.rng.choice((self.place, self.subscribe, lambda name: self.world.unsubscribe(f"of {name}")))(name)
            happened = [self.event() for _ in range(6)]
            self.world.check(happened)
            self.world.check_grids()
            self.matched += sum(map(len, self.world.found(happened, 10)))


@pytest.mark.parametrize("where", PLACES)
def test_c6_a_crowd_on_the_move_is_told_what_the_definition_says(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "TAIL_MIN", 4)
    space, middle = PLACES[where]
    crowd = Crowd(space, middle, seed=7)
    crowd.live(rounds=6)
    assert crowd.matched > 100


@pytest.mark.parametrize("where", ["plane", "pole"])
def test_c6_nobody_is_lost_by_packing_a_pool_at_every_chance(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "TAIL_MIN", 4)
    monkeypatch.setattr(pool, "PACKED_MIN", -1_000_000)
    space, middle = PLACES[where]
    crowd = Crowd(space, middle, seed=7)
    crowd.live(rounds=15)
    assert crowd.matched > 100


@pytest.mark.parametrize("where", PLACES)
def test_c6_whoever_went_on_a_little_is_found_where_it_is_by_asking_those_at_the_edge(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "TAIL_MIN", 4)
    space, middle = PLACES[where]
    crowd = Crowd(space, middle, seed=11)
    world, rng = crowd.world, crowd.rng
    for number in range(PEOPLE):
        name, radius_m = f"p{number}", rng.choice((20, 150, 300))
        text = rng.choice((f"near(position, {radius_m})", f"near(position, {radius_m}) AND level >= 2"))
        crowd.place(name)
        world.subscribe(Subscription(f"of {name}", name, "news/#", 0, 1_000, parse_text(text)))
        if isinstance(space, Plane) and number % 5 == 0:
            here = Filter(Inside(Attribute("position"), Circle(crowd.somewhere(), radius_m)))
            world.subscribe(Subscription(f"place {name}", name, "news", 0, 1_000, here))
    happened = [crowd.event() for _ in range(60)]
    world.check(happened)
    for name, context in world.contexts.items():
        assert context.position is not None
        angle, far_m = rng.uniform(0, math.tau), SLACK_M * rng.choice((0.5, 0.999))
        to = space.moved(context.position, far_m * math.cos(angle), far_m * math.sin(angle))
        if space.within(context.position, to, SLACK_M):
            world.contexts[name] = replace(context, position=to)
    with pytest.raises(AssertionError):
        world.check(happened)
    world.check_loosely(happened, SLACK_M)


def test_a_tail_that_is_looked_at_again_and_again_is_sorted_in_and_nobody_is_lost() -> None:
    world = World(Plane())
    for number in range(140):
        world.place(Context(f"p{number}", Point(10.0 * number, 0.0)))
        world.subscribe(Subscription(f"s{number}", f"p{number}", "news", 0, 100, parse_text("near(position, 25)")))
    tail = int(world.engine._pool.groups["tail"][0])
    assert tail > 0
    events = [
        Event("e", "news", Context("press"), 0, 100, {"position": Point(3.0 * number, 20.0)}) for number in range(500)
    ]
    rounds = 1 + (ASKED_MAX + ASKED_PER_ENTRY * 140) // (tail * len(events))
    for _ in range(rounds):
        world.engine.match(events, 10)
    assert world.engine._pool.groups["tail"][0] == 0
    world.check(events[::25])


def test_c6_unbounded_circle_does_not_match_before_subscription_start() -> None:
    world = World(Plane())
    for number in range(40):
        world.place(Context(f"p{number}", Point(10.0 * number, 0.0)))
        issued_us = 10 if number % 2 else 0
        near = parse_text("near(position, 25)")
        world.subscribe(Subscription(f"s{number}", f"p{number}", "news", issued_us, FOREVER_US, near))
    event = Event("e", "news", Context("press"), 0, FOREVER_US, {"position": Point(200.0, 0.0)})
    for now_us, told in ((5, 3), (10, 5), (FOREVER_US, 5), (FOREVER_US + 1, 0)):
        world.check([event], now_us)
        assert len(world.found([event], now_us)[0]) == told


def test_c6_who_strays_to_where_an_endless_subscription_lay_still_ends_in_time() -> None:
    rng, world = Random(9), World(Plane())

    def somewhere() -> Point:
        return Point(rng.uniform(0, 500), rng.uniform(0, 500))

    def ask(name: str) -> None:
        ends_us = FOREVER_US if rng.random() < 0.5 else NOW_US - 1
        world.subscribe(Subscription(f"of {name}", name, "news", 0, ends_us, parse_text("near(position, 100)")))

    names = [f"p{number}" for number in range(80)]
    for name in names:
        world.place(Context(name, somewhere()))
        ask(name)
    for _ in range(30):
        for name in rng.sample(names, 20):
            world.place(Context(name, somewhere()))
        for name in rng.sample(names, 10):
            ask(name)
        world.check([Event("e", "news", Context("press"), 0, 1_000, {"position": somewhere()})])


def test_a_few_small_circles_share_the_grid_of_the_wide_ones_and_many_have_their_own() -> None:
    rng, world = Random(5), World(Plane())

    def ask(name: str, radius_m: int) -> None:
        world.place(Context(name, Point(rng.uniform(0, 3_000), rng.uniform(0, 3_000))))
        world.subscribe(Subscription(f"of {name}", name, "news", 0, 100, parse_text(f"near(position, {radius_m})")))

    def check() -> None:
        at = [Point(rng.uniform(0, 3_000), rng.uniform(0, 3_000)) for _ in range(40)]
        world.check([Event("e", "news", Context("press"), 0, 100, {"position": point}) for point in at])
        world.check_grids()

    grids = world.engine._pool.numbers
    for number in range(8):
        ask(f"early {number}", 60)
    assert len(grids) == 1
    for number in range(200):
        ask(f"wide {number}", 300)
    assert len(grids) == 1, "the early ones have joined the wide ones"
    check()
    for number in range(400):
        ask(f"late {number}", 60)
    assert len(grids) == 2, "they are more than guests"
    check()
    for number in range(200):
        world.unsubscribe(f"of wide {number}")
    check()
    for name in [*world.subscriptions]:
        world.unsubscribe(name)
    assert not grids


@pytest.mark.parametrize("field", ["live", "begin", "after"])
def test_a_count_or_a_place_that_is_wrong_in_a_grid_would_be_noticed(field: str) -> None:
    crowd = Crowd(Plane(), Point(0.0, 0.0), seed=7)
    crowd.live(rounds=1)
    crowd.world.engine._pool.groups[field][0] += 1
    with pytest.raises(AssertionError):
        crowd.world.check_grids()


def test_a_tail_is_sorted_in_between_two_calls_of_the_kernel() -> None:
    """A call meets more than there is room for."""
    world = World(Plane())
    for number in range(140):
        world.place(Context(f"p{number}", Point(0.7 * (37 * number % 140), 0.0)))
        wanted = parse_text("near(position, 25) AND level >= 2")
        world.subscribe(Subscription(f"s{number}", f"p{number}", "news", 0, 100, wanted))
    assert world.engine._pool.groups["tail"][0] > 0
    events = [
        Event("e", "news", Context("press"), 0, 100, {"position": Point(0.1 * number, 2.0), "level": level})
        for number, level in enumerate([0] * 980 + [2] * 20)
    ]
    world.check(events)
    assert world.engine._pool.groups["tail"][0] == 0


@pytest.mark.slow
def test_an_engine_that_forgets_how_far_entries_strayed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker can fail: without the widening, who left the cell is missed."""
    monkeypatch.setattr(pool, "TAIL_MIN", 4)
    monkeypatch.setattr(kernel, "strayed", lambda *_: 0.0)
    uncompiled = kernel.move.py_func  # type: ignore[attr-defined]

    def move(of: Table, first: int) -> Any:
        of._refresh()
        count = of._number[2 * layout.MOVED + 1]
        moved = [of.array(place)[:count] for place in (layout.MOVED, layout.MOVED_X, layout.MOVED_Y)]
        places = (layout.HOSTS, layout.SLOTS, layout.GROUPS, layout.ENTRIES)
        records = [of.array(place).view(np.recarray) for place in places]
        return uncompiled(first, *moved, *records, of.array(layout.HEIGHTS), True)

    monkeypatch.setattr(Table, "_move", move)
    crowd = Crowd(Plane(), Point(0.0, 0.0), seed=7)
    with pytest.raises(AssertionError):
        crowd.live(rounds=40)


def test_an_engine_with_a_radius_a_little_too_small_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(Plane())
    world.place(Context("me", Point(0.0, 0.0)))
    world.subscribe(Subscription("s", "me", "news", 0, 100, parse_text("near(position, 5)")))
    at_the_rim = [Event("e", "news", Context("press"), 0, 100, {"position": Point(3.0, 4.0)})]
    world.check(at_the_rim)
    assert world.found(at_the_rim, 10) == [["s"]]
    world.engine._pool.entries["radius"] *= 1 - 1e-15
    with pytest.raises(AssertionError):
        world.check(at_the_rim)
