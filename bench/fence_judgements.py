"""The same random reports judged thrice: by the definition, by a broker, and by workers of Spark. They must agree.

A world has a hundred fences of all kinds, ten of which move with a host, and ten hosts that report two hundred times
each: 200,000 judgements of a report and a fence. The definition (`model/fence.py`) judges each. The broker is the
state machine of a live one, which is given reports, and whose timers are fired. Of Spark it is what its workers run
(`spark/oracle/fences.py`). Worlds lie in the plane and on Earth by turns. A difference ends it with its seed.

`python -m bench.fence_judgements 10000000` takes as many judgements as it is told; a second number is the first seed.
"""

import sys
from itertools import count
from random import Random

import msgspec
import pyarrow as pa

from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.inputs import Arrived, Fired, Published, Reported
from roamcast.journal.plain import plain_attributes
from roamcast.journal.schema import ATTRIBUTES
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.fence import BEGIN, Fence, FenceRule, State, Transition, elapsed, step
from roamcast.model.fence_text import written
from roamcast.model.filter import EVERYTHING, parse_text
from roamcast.model.region import ORIGIN, Anchored, Box, Circle, Polygon, Region
from roamcast.model.space import Earth, Plane
from roamcast.model.values import Instant, Point, Value
from roamcast.mqtt.messages import Message
from roamcast.node.observer import Observer
from roamcast.spark.oracle.fences import Anchors, Fold, Guarded

TAKES = "3 minutes"
JUDGEMENTS = 1_000_000
FENCES, MOVING, HOSTS, REPORTS = 100, 10, 10, 200
SIDE_M = 1_500.0
SECOND_US = 1_000_000
BEGIN_US = 1_000 * SECOND_US
HOME = Point(24.94, 60.17)
BROKER = "b"
FIXES = pa.schema(
    [
        ("host", pa.string()),
        ("at_us", pa.int64()),
        ("row_us", pa.int64()),
        ("broker", pa.string()),
        ("up", pa.bool_()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("attributes", ATTRIBUTES),
    ]
)
Row = tuple[str, str, str, int, float, float, int]


class World:
    def __init__(self, seed: int) -> None:
        self.rng = Random(f"judgements/{seed}")
        self.space: Plane | Earth = Earth() if seed % 2 else Plane()
        self.hosts = [f"host-{number}" for number in range(HOSTS)]
        self.fences = [Fence(f"w/{number}", self.region(number), self.rule()) for number in range(FENCES)]
        self.reports = self.walks()
        self.end_us = self.reports[-1].at_us + 100 * SECOND_US
        self.moving = {each.region.host for each in self.fences if isinstance(each.region, Anchored)}

    def at(self, east_m: float, north_m: float) -> Point:
        return Point(east_m, north_m) if isinstance(self.space, Plane) else self.space.moved(HOME, east_m, north_m)

    def region(self, number: int) -> Region:
        rng = self.rng
        east, north, size = rng.uniform(0, SIDE_M), rng.uniform(0, SIDE_M), rng.uniform(20, 250)
        if number < MOVING:
            return Anchored(Circle(ORIGIN, size), rng.choice(self.hosts))
        corners = [self.at(east + size * x, north + size * y) for x, y in ((0, 0), (1, 0.1), (0.8, 1), (-0.2, 0.7))]
        kinds: tuple[Region, ...] = (Circle(corners[0], size), Box(corners[0], corners[2]), Polygon(tuple(corners)))
        return rng.choice(kinds)

    def rule(self) -> FenceRule:
        rng = self.rng
        dwells = rng.random() < 0.4
        on = (Transition.ENTER, Transition.LEAVE, Transition.CROSS, *((Transition.DWELL,) if dwells else ()))
        return FenceRule(
            on,
            parse_text("kind = 'van'") if rng.random() < 0.2 else EVERYTHING,
            rng.choice((5, 40)) * SECOND_US if dwells else None,
            rng.choice((0.0, 0.0, 15.0, None)),
            rng.choice((None, None, 8 * SECOND_US)),
            rng.choice(("probably", "surely")),
        )

    def walks(self) -> list[Context]:
        """In the order of time; no two at the same."""
        rng, times = self.rng, set[int]()
        found: list[Context] = []
        for host in self.hosts:
            east, north, now_us = rng.uniform(0, SIDE_M), rng.uniform(0, SIDE_M), BEGIN_US
            for _ in range(REPORTS):
                now_us += rng.choice((200_000, SECOND_US, SECOND_US, 10 * SECOND_US, 45 * SECOND_US)) + rng.randrange(
                    999
                )
                while now_us in times:
                    now_us += 1
                times.add(now_us)
                stride_m = rng.choice((0.0, 5.0, 30.0, 200.0))
                east = min(SIDE_M, max(0.0, east + rng.uniform(-stride_m, stride_m)))
                north = min(SIDE_M, max(0.0, north + rng.uniform(-stride_m, stride_m)))
                attributes: dict[str, Value] = {"kind": rng.choice(("van", "van", "car"))}
                if rng.random() < 0.3:
                    attributes["accuracy_m"] = rng.choice((5.0, 30.0))
                place = self.at(east, north) if rng.random() < 0.97 else None
                found.append(Context(host, place, now_us, attributes=attributes))
        return sorted(found, key=lambda each: each.at_us)

    def known(self) -> Anchors:
        """Where hosts that fences move with were, by one broker."""
        told: dict[tuple[str, str], list[tuple[int, Point | None]]] = {}
        for each in self.reports:
            if each.host in self.moving:
                told.setdefault((BROKER, each.host), []).append((each.at_us, each.position))
        return Anchors(told)


def by_definition(world: World) -> list[Row]:
    anchors, found = world.known(), list[Row]()
    for fence in world.fences:
        host = fence.region.host if isinstance(fence.region, Anchored) else None
        states: dict[str, State] = {}
        for report in world.reports:
            state, anchor = states.get(report.host, BEGIN), None
            if host is not None:
                if state.last is not None:
                    before = anchors.at(BROKER, host, state.last.at_us, report.at_us)
                    state = State(msgspec.structs.replace(state.last, anchor=before), state.stay)
                anchor = anchors.at(BROKER, host, report.at_us, report.at_us)
            states[report.host], told = step(fence, state, report, world.space, anchor)
            found += [row(fence, report.host, each) for each in told]
        for name, state in states.items():
            found += [row(fence, name, each) for each in elapsed(fence, state, world.end_us)[1]]
    return sorted(found)


def row(fence: Fence, host: str, of: object) -> Row:
    transition, at_us, position, dwell_us = (
        getattr(of, each) for each in ("transition", "at_us", "position", "dwell_us")
    )
    return fence.name, str(transition), host, at_us, position.x, position.y, dwell_us


class Watcher(Observer):
    def __init__(self) -> None:
        self.found: list[Row] = []

    def published(self, now_us: int, host: str, event: Event) -> None:
        if event.subject.startswith("$roam/fence/"):
            said = event.attributes
            position, time = said["position"], said["time"]
            assert isinstance(position, Point)
            assert isinstance(time, Instant)
            dwell_us = round(float(said["dwell_s"]) * 1e6)  # type: ignore[arg-type]
            self.found.append(
                (str(said["fence"]), str(said["transition"]), host, time.us, position.x, position.y, dwell_us)
            )


def by_broker(world: World) -> list[Row]:
    core, watcher = Core(BROKER, 1, space=world.space), Watcher()
    core.border.observation.observers.add(watcher)
    for client in ("office", *world.hosts):
        core.handle(BEGIN_US - 2, Arrived(client, True, 1_000_000))
    features = [{"id": each.name.removeprefix("w/"), **written(each)} for each in world.fences]
    payload = msgspec.json.encode({"type": "FeatureCollection", "features": features})
    core.handle(BEGIN_US - 1, Published("office", 1, Message("$roam/fences/w", payload, 1, True)))
    for report in world.reports:
        fire(core, report.at_us)
        core.handle(report.at_us, Reported(report))
    fire(core, world.end_us)
    return sorted(watcher.found)


def fire(core: Core, until_us: int) -> None:
    while (due := core.next_timer()) is not None and due[0] <= until_us:
        core.handle(due[0], Fired(due[1]))


def by_spark(world: World) -> list[Row]:
    ordered = sorted(world.reports, key=lambda each: (each.host, each.at_us))
    rows = [
        {
            "host": each.host,
            "at_us": each.at_us,
            "row_us": each.at_us,
            "broker": BROKER,
            "up": True,
            "x": each.position and each.position.x,
            "y": each.position and each.position.y,
            "attributes": plain_attributes(each.attributes),
        }
        for each in ordered
    ]
    guarded = [Guarded(each, BEGIN_US - 1, world.end_us + 1) for each in world.fences]
    fold = Fold(guarded, world.space, world.end_us, world.known())
    batches = fold(iter([pa.RecordBatch.from_pylist(rows, schema=FIXES)]))
    return sorted(tuple(each.values()) for batch in batches for each in batch.to_pylist())


def main(judgements: int = JUDGEMENTS, first: int = 0) -> dict[str, float]:
    done = transitions = 0
    for seed in count(first):
        if done >= judgements:
            break
        world = World(seed)
        wanted = by_definition(world)
        for name, found in (("the broker", by_broker(world)), ("Spark", by_spark(world))):
            differing = set(wanted) ^ set(found)
            if differing or len(wanted) != len(found):
                raise SystemExit(f"seed {seed}: {name} differs from the definition: {sorted(differing)[:5]}")
        done += FENCES * len(world.reports)
        transitions += len(wanted)
        print(f"\r{done:,} judgements, {transitions:,} transitions, 0 differences", end="", flush=True)
    print()
    return {"judgements": float(done), "transitions": float(transitions), "differences": 0.0}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
