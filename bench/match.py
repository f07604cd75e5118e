"""One event against very many subscriptions whose subscribers move: the engine, and what people would use instead.

Subscribers on a square, half of them in hot spots, each wants what is within its radius of one of 50 subjects;
events come where subscribers are. `near(position, r)` is what a subscription asks, and every fourth one a number as
well. All figures are per CPU second of whoever does the work, this process or Redis: the median of twelve slices,
which those that are compared take in turns.

Events go into the engine 64 at a time, as columns (`match_columns`) and as `Event`s (`match`), and one at a time;
moves 1,000 at a time and one at a time, with the sorting that they cause. Redis has the same events and moves, and
the spatial part only: one geo set a subject, searched with one radius that finds about as many, pipelined and
not. It is a process of its own: its time includes its protocol and
its socket, which a pipeline makes small, and the engine's is that of a call; and it answers names, where the engine
has numbers for which `id_of` has the names. STRtree is one tree of boxes a subject, asked subject by subject, and
cannot move. The plain loop asks the compiled filter of each subscription of the subject.

Bytes are what tracemalloc sees alive after the subscriptions were made, their own objects gone: columns, tables and
the names of subscriptions and subscribers. It is slow, so beyond 100,000 it is by how much the process has grown.

`python -m bench match` takes 10³ to 10⁶; `python -m bench.match 1000 10000` as many as it is told.
"""

import gc
import math
import resource
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import shapely
from msgspec import Struct
from numpy.typing import NDArray

from bench import progress
from bench.redis_geo import Redis, add, redis_server, search
from roamcast.matching import Engine
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter.evaluate import compile_filter
from roamcast.model.filter.parse import parse_text
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import Filter
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point

TAKES = "10 minutes"
NEEDS = {"redis-server": "apt-get install redis-server"}
SCALES = (1_000, 10_000, 100_000, 1_000_000)
SUBJECTS = 50
BATCH = 64
BATCHES = 200
"""Different ones, taken in turn: fewer are found in the processor's caches."""
SIDE_M = 20_000.0
HOT_SPOTS = 40
HOT_SPOT_M = 500.0
RADII_M = tuple(range(50, 301, 10))
STEP_M = 10.0
SLICES = 12
SLICE_S = 0.15
TRACED_MAX = 100_000
PLAIN_MAX = 100_000
"""To fill the loop with more takes minutes, and it is slow."""
TOGETHER = (
    ("events", "event_objects"),
    ("single_events",),
    ("moves",),
    ("single_moves",),
    ("events_after_moves",),
)
"""What is measured in turns: first what Redis and others do as well."""

Doubles = NDArray[np.float64]


class Population:
    """Who is where and wants what, the same for everyone who is measured."""

    def __init__(self, count: int, subjects: int) -> None:
        rng = np.random.default_rng(count)
        self.count, self.subjects, self.rng = count, subjects, rng
        spots = rng.uniform(0, SIDE_M, (HOT_SPOTS, 2))
        self.at = rng.uniform(0, SIDE_M, (count, 2))
        hot = rng.random(count) < 0.5
        self.at[hot] = spots[rng.integers(0, HOT_SPOTS, hot.sum())] + rng.normal(0, HOT_SPOT_M, (hot.sum(), 2))
        self.subject = rng.integers(0, subjects, count)
        self.radius_m = rng.choice(RADII_M, count)
        self.severity = np.where(rng.random(count) < 0.25, rng.integers(1, 6, count), 0)
        self.filters = {
            (radius_m, severity): parse_text(
                f"near(position, {radius_m})" + (f" AND severity >= {severity}" if severity else "")
            )
            for radius_m in RADII_M
            for severity in range(6)
        }

    def filter(self, number: int) -> Filter:
        return self.filters[int(self.radius_m[number]), int(self.severity[number])]

    def subscription(self, number: int) -> Subscription:
        subject = f"traffic/{self.subject[number]}"
        return Subscription(f"s{number}", f"h{number}", subject, 0, FOREVER_US, self.filter(number))

    def context(self, number: int) -> Context:
        return Context(f"h{number}", Point(float(self.at[number, 0]), float(self.at[number, 1])))

    def events(self, count: int) -> tuple[list[str], Doubles, Doubles, Doubles]:
        """Subjects, places and severities; events happen where people are."""
        near = self.at[self.rng.integers(0, self.count, count)] + self.rng.normal(0, 50.0, (count, 2))
        subjects = [f"traffic/{number}" for number in self.rng.integers(0, self.subjects, count)]
        return subjects, near[:, 0].copy(), near[:, 1].copy(), self.rng.integers(1, 6, count).astype(float)

    def steps(self, count: int) -> tuple[NDArray[np.int64], Doubles]:
        """Who moves, and where to: a step of ten metres in any direction."""
        who = self.rng.integers(0, self.count, count)
        angle = self.rng.uniform(0, 2 * math.pi, count)
        self.at[who] += STEP_M * np.stack((np.cos(angle), np.sin(angle)), axis=1)
        return who, self.at[who]

    def walk(self) -> list[tuple[NDArray[np.int64], Doubles]]:
        """Steps of a thousand at a time, so many that most hosts take one: to who stays Redis does less."""
        return [self.steps(1_000) for _ in range(max(200, self.count // 1_000))]


class Runner(Struct, frozen=True):
    """Somebody who does the work; each call says how much it did."""

    action: Callable[[], int]
    cpu_s: Callable[[], float] = time.process_time

    def slice(self) -> float:
        """How much a CPU second."""
        done, started = 0, self.cpu_s()
        while (taken := self.cpu_s() - started) < SLICE_S:
            done += self.action()
        return done / taken


def in_turns(runners: dict[str, Runner], compared: Sequence[str]) -> dict[str, float]:
    """What each does a second: others use the same processor, so those that are compared take turns. And what those
    that are named do for one of Redis, of each turn by itself: the machine is faster in one than in another."""
    for runner in runners.values():
        runner.action()
    slices = [{name: runner.slice() for name, runner in runners.items()} for _ in range(SLICES)]
    figures = {f"{name}_per_s": median(each[name] for each in slices) for name in runners}
    for redis in (name for name in runners if name.startswith("redis_")):
        for name in compared:
            ratios = sorted(each[name] / each[redis] for each in slices)
            figures |= {f"{name}_over_redis": median(ratios)}
            figures |= {f"{name}_over_redis_least": ratios[0], f"{name}_over_redis_most": ratios[-1]}
    return figures


def held_bytes(traced: bool) -> int:
    if traced:
        return tracemalloc.get_traced_memory()[0]
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def engine_of(population: Population) -> tuple[Engine, float, float]:
    """Filled one subscription at a time; with bytes and seconds for each."""
    Engine(Plane()).warm_up()
    gc.collect()
    engine = Engine(Plane())
    traced = population.count <= TRACED_MAX
    if traced:
        tracemalloc.start()
    before = held_bytes(traced)
    started = time.process_time()
    for number in range(population.count):
        engine.place(population.context(number))
        engine.subscribe(population.subscription(number))
    seconds = time.process_time() - started
    gc.collect()
    held = held_bytes(traced) - before
    tracemalloc.stop()
    return engine, held / population.count, seconds / population.count


def plain(column: Doubles) -> list[float]:
    """Python's own numbers, as in what clients send."""
    return [float(value) for value in column]


def as_events(columns: tuple[list[str], Doubles, Doubles, Doubles]) -> list[Event]:
    publisher = Context("publisher")
    return [
        Event(f"e{number}", subject, publisher, 0, FOREVER_US, {"position": Point(x, y), "severity": severity})
        for number, (subject, x, y, severity) in enumerate(zip(columns[0], *map(plain, columns[1:]), strict=True))
    ]


class Turns(Struct):
    """One after the other of some things, over and over."""

    things: list[Any]
    at: int = -1

    def next(self) -> Any:
        self.at = (self.at + 1) % len(self.things)
        return self.things[self.at]


def runs_of_engine(engine: Engine, population: Population) -> dict[str, Runner]:
    columns = [population.events(BATCH) for _ in range(BATCHES)]
    batches = [as_events(each) for each in columns]
    in_columns, in_events = Turns([*zip(columns, batches, strict=True)]), Turns(batches)

    def by_columns() -> int:
        (subjects, x, y, severity), events = in_columns.next()
        engine.match_columns(subjects, x, y, {"severity": severity}, events.__getitem__, 1)
        return BATCH

    def by_events() -> int:
        engine.match(in_events.next(), 1)
        return BATCH

    def one_by_one() -> int:
        for event in in_events.next():
            engine.match([event], 1)
        return BATCH

    numbers = np.array([engine.host_number(f"h{number}") for number in range(population.count)])
    steps = Turns(population.walk())

    def move_many() -> int:
        who, to = steps.next()
        engine.move(numbers[who], to[:, 0], to[:, 1])
        return len(who)

    def move_one() -> int:
        who, to = steps.next()
        for number, (x, y) in zip(who[:100].tolist(), to.tolist(), strict=False):
            engine.place(Context(f"h{number}", Point(x, y)))
        return 100

    for _ in columns:
        by_columns()
    return {
        "events": Runner(by_columns),
        "event_objects": Runner(by_events),
        "single_events": Runner(one_by_one),
        "moves": Runner(move_many),
        "single_moves": Runner(move_one),
        "events_after_moves": Runner(by_columns),
    }


def hits_per_event(engine: Engine, population: Population) -> float:
    events = as_events(population.events(BATCH * 20))
    return len(engine.match(events, 1)) / len(events)


def loop_run(population: Population) -> Runner:
    """The compiled filters of the subject, one after the other."""
    by_subject: dict[str, list[tuple[Context, Callable[[Scene], Any]]]] = {}
    for number in range(population.count):
        asked = population.context(number), compile_filter(population.filter(number), Plane(), None)
        by_subject.setdefault(f"traffic/{population.subject[number]}", []).append(asked)
    events = Turns(as_events(population.events(1_000)))

    def one() -> int:
        event = events.next()
        for me, wants in by_subject.get(event.subject, ()):
            wants(Scene(event.attributes.get, me, event.publisher))
        return 1

    return Runner(one)


def tree_run(population: Population) -> Runner:
    """Shapely: a tree of boxes a subject, and the distance of what they hold, 64 events a call."""
    trees: dict[str, tuple[shapely.STRtree, Doubles, Doubles]] = {}
    for subject in range(population.subjects):
        mine = population.subject == subject
        at, radius_m = population.at[mine], population.radius_m[mine].astype(float)
        boxes = shapely.box(*(at - radius_m[:, None]).T, *(at + radius_m[:, None]).T)
        trees[f"traffic/{subject}"] = shapely.STRtree(boxes), at, radius_m
    columns = Turns([population.events(BATCH) for _ in range(BATCHES)])

    def batch() -> int:
        subjects, x, y, _ = columns.next()
        by_subject: dict[str, list[int]] = {}
        for index, subject in enumerate(subjects):
            by_subject.setdefault(subject, []).append(index)
        for subject, indices in by_subject.items():
            tree, at, radius_m = trees[subject]
            points = shapely.points(x[indices], y[indices])
            event, found = tree.query(points)
            place = np.array(indices)[event]
            away = (at[found, 0] - x[place]) ** 2 + (at[found, 1] - y[place]) ** 2
            np.flatnonzero(away <= radius_m[found] ** 2)
        return BATCH

    return Runner(batch)


def runs_of_redis(redis: Redis, population: Population) -> dict[str, Runner]:
    # One radius for all, with which it finds about as many as there are.
    radius_m = float(np.sqrt(np.mean(population.radius_m.astype(float) ** 2)))
    columns = [population.events(BATCH) for _ in range(BATCHES)]
    searches = Turns(
        [[search(subject, x, y, radius_m) for subject, x, y in zip(*each[:3], strict=True)] for each in columns]
    )

    def pipelined() -> int:
        redis.ask(searches.next())
        return BATCH

    def single() -> int:
        for each in searches.next():
            redis.ask([each])
        return BATCH

    def placed(who: NDArray[np.int64], to: Doubles) -> list[bytes]:
        return [
            add(f"traffic/{population.subject[number]}", f"s{number}", x, y)
            for number, (x, y) in zip(who.tolist(), to.tolist(), strict=True)
        ]

    for begin in range(0, population.count, 10_000):
        some = np.arange(begin, min(begin + 10_000, population.count))
        redis.ask(placed(some, population.at[some]))
    steps = Turns([placed(*each) for each in population.walk()])

    def moved() -> int:
        step = steps.next()
        redis.ask(step)
        return len(step)

    return {
        "events": Runner(pipelined, redis.cpu_s),
        "single_events": Runner(single, redis.cpu_s),
        "moves": Runner(moved, redis.cpu_s),
    }


def measured(count: int, subjects: int) -> dict[str, float]:
    population = Population(count, subjects)
    say(f"  {count:,} subscriptions are made")
    engine, held, filled_s = engine_of(population)
    figures = {
        "bytes": held,
        "subscribe_us": filled_s * 1e6,
        "hits_per_event": hits_per_event(engine, Population(count, subjects)),
    }
    ours = runs_of_engine(engine, population)
    with ExitStack() as stack:
        theirs = redis_if_there(stack, count, subjects)
        others = others_of(count, subjects)
        for together in TOGETHER:
            say(f"  measuring {', '.join(together)}")
            first = together[0]
            beside = {f"redis_{first}": theirs[first]} if first in theirs else {}
            figures |= in_turns({what: ours[what] for what in together} | beside | others.get(first, {}), together)
    return figures


def redis_if_there(stack: ExitStack, count: int, subjects: int) -> dict[str, Runner]:
    if subjects == 1:
        return {}
    program = redis_server()
    if program is None:
        progress.skipped("Redis", f"there is no redis-server; {NEEDS['redis-server']}")
        return {}
    say("  Redis is filled")
    return runs_of_redis(stack.enter_context(Redis(program)), Population(count, subjects))


def others_of(count: int, subjects: int) -> dict[str, dict[str, Runner]]:
    """What else is measured beside events and moves: a loop, a tree."""
    if subjects == 1:
        return {}
    say("  others are filled")
    found = {"events": {"strtree_events": tree_run(Population(count, subjects))}}
    if count <= PLAIN_MAX:
        found["events"]["loop_events"] = loop_run(Population(count, subjects))
    return found


def say(what: str) -> None:
    """That something goes on, to who looks on: filling takes a minute or two."""
    print(what, file=sys.stderr, flush=True)


def main(scales: tuple[int, ...] = SCALES) -> dict[str, float]:
    figures: dict[str, float] = {}
    for count, subjects in [*((count, SUBJECTS) for count in scales), (max(scales), 1)]:
        print(f"{count:,} subscriptions in {subjects} {'subjects' if subjects > 1 else 'subject'}")
        for name, value in measured(count, subjects).items():
            print(f"  {name:28} {value:14,.1f}")
            figures[f"{count}_in_{subjects}_{name}"] = value
        progress.note(figures)
    return figures


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or SCALES)
