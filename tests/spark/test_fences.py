"""P2: Spark finds the transitions of fences that the definition does, and says which were told."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from roamcast.journal import ContextChange, Journal, Move, Published, Record, Run
from roamcast.journal.plain import plain_attributes
from roamcast.journal.records import FENCE_PUT, FENCE_REMOVED, Noted
from roamcast.journal.schema import ATTRIBUTES
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.fence import BEGIN, Fence, FenceRule, Occurrence, State, Transition, elapsed, step
from roamcast.model.fence_text import read_fences
from roamcast.model.filter import parse_text
from roamcast.model.filter.write import to_text
from roamcast.model.region import Box, Circle, Polygon, Region
from roamcast.model.space import Earth, Plane, wrapped
from roamcast.model.values import Instant, Point, Value
from roamcast.spark.fences import audit_fences, fences_of, transitions
from roamcast.spark.oracle.fences import Fold, Guarded
from roamcast.spark.published import Tables
from tests.broker.mqtt.stage import Stage
from tests.broker.mqtt.test_fence_trials import FENCES, MOVES, FenceTrial
from tests.broker.mqtt.test_protocol_fences import at, watched
from tests.broker.mqtt.test_protocol_fences import put as put_fence
from tests.effort import seeds
from tests.spark.chain import surveyed, write_journal
from tests.spark.test_commands import invoke
from tests.spark.worlds import PERIOD_US, SECOND_US, Maker

Row = tuple[str, str, str, int, float, float, int]
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


class World:
    """Hosts that go back and forth for twenty seconds, and fences among them."""

    def __init__(self, seed: int, space: Plane | Earth) -> None:
        self.rng, self.space = random.Random(f"fences/{seed}"), space
        self.maker = Maker(self.rng, space, 0, "")
        self.end_us = 20 * SECOND_US
        self.moves = {host: self.way() for host in self.maker.hosts}
        self.fences = [self.guarded(number) for number in range(6)]

    def way(self) -> list[tuple[int, Point | None, bool, dict[str, Value]]]:
        rng = self.rng
        times = sorted(rng.randrange(0, self.end_us, rng.choice((500_000, 1))) for _ in range(rng.randint(2, 14)))
        found: list[tuple[int, Point | None, bool, dict[str, Value]]] = []
        for at_us in times:
            attributes: dict[str, Value] = {"accuracy_m": rng.choice((0, 5, 25))} if rng.random() < 0.3 else {}
            if rng.random() < 0.4:
                attributes["kind"] = rng.choice(("bus", "tram"))
            where = self.maker.somewhere() if rng.random() < 0.9 else None
            found.append((at_us, where, rng.random() < 0.93, attributes))
        return found

    def guarded(self, number: int) -> Guarded:
        rng = self.rng
        on = (Transition.ENTER, Transition.LEAVE, Transition.CROSS, *([Transition.DWELL] if number % 2 else []))
        rule = FenceRule(
            on,
            **({"hosts": parse_text("kind = 'bus' OR kind IS NULL")} if rng.random() < 0.3 else {}),
            dwell_us=2 * SECOND_US if number % 2 else None,
            hysteresis_m=rng.choice((0.0, 0.0, 10.0, None)),
            outside_us=rng.choice((None, 3 * SECOND_US)),
            certainty=rng.choice(("probably", "probably", "surely")),
        )
        begin_us = rng.choice((0, 0, 5 * SECOND_US))
        end_us = rng.choice((self.end_us, self.end_us, 12 * SECOND_US))
        return Guarded(Fence(f"f/{number}", self.region(), rule), begin_us, end_us)

    def region(self) -> Region:
        rng, at_m = self.rng, self.maker.at_m
        east, north, size = (float(rng.randrange(low, 200, 10)) for low in (0, 0, 20))
        match rng.randrange(3):
            case 0:
                return Circle(at_m(east, north), size)
            case 1:
                return Box(at_m(east, north), at_m(east + size, north + size))
            case _:
                first = at_m(east, north)
                others = (at_m(east + size, north), at_m(east, north + size))
                if isinstance(self.space, Earth):
                    others = tuple(Point(first.x + wrapped(each.x - first.x), each.y) for each in others)  # type: ignore[assignment]
                return Polygon((first, *others))

    def by_definition(self) -> list[Row]:
        found: list[Row] = []
        for fence, from_us, until_us in self.fences:
            for host, way in self.moves.items():
                state: State = BEGIN
                told: list[Occurrence] = []
                for at_us, position, up, attributes in way:
                    if up and from_us <= at_us < until_us:
                        context = Context(host, position, at_us, attributes=attributes)
                        state, more = step(fence, state, context, self.space)
                        told += more
                    elif not up:
                        told += elapsed(fence, state, min(at_us, until_us))[1]
                        state = BEGIN
                told += elapsed(fence, state, min(until_us, self.end_us))[1]
                found += [row(fence.name, host, each) for each in told]
        return sorted(found)

    def batches(self, rows: int) -> list[Any]:
        """As Spark hands them over."""
        every = [
            {
                "host": host,
                "at_us": at_us,
                "row_us": at_us,
                "broker": "b1",
                "up": up,
                "x": position and position.x,
                "y": position and position.y,
                "attributes": plain_attributes(attributes),
            }
            for host in sorted(self.moves)
            for at_us, position, up, attributes in self.moves[host]
        ]
        return [
            pa.RecordBatch.from_pylist(every[start : start + rows], schema=FIXES)
            for start in range(0, len(every), rows)
        ]


def row(fence: str, host: str, of: Occurrence) -> Row:
    return fence, str(of.transition), host, of.at_us, of.position.x, of.position.y, of.dwell_us


def folded(world: World, rows: int) -> list[Row]:
    fold = Fold(world.fences, world.space, world.end_us)
    return sorted(tuple(row.values()) for batch in fold(iter(world.batches(rows))) for row in batch.to_pylist())


@pytest.mark.parametrize("space", [Plane(), Earth()], ids=["plane", "earth"])
@seeds(12)
def test_p2_a_worker_finds_the_transitions_that_the_definition_does(seed: int, space: Plane | Earth) -> None:
    """However the fixes are cut into batches."""
    for number in range(seed * 10, seed * 10 + 10):
        world = World(number, space)
        wanted = world.by_definition()
        for rows in (3, 1_000):
            assert folded(world, rows) == wanted, f"seed {number}, {rows} rows"


def test_p2_the_comparison_catches_a_fold_that_skips_a_fix() -> None:
    """And there are transitions of all kinds to compare."""
    differ, kinds = 0, set()
    for number in range(20):
        world = World(number, Plane())
        wanted = world.by_definition()
        kinds |= {each[1] for each in wanted}
        world.moves = {host: way[:-1] for host, way in world.moves.items()}
        differ += folded(world, 1_000) != wanted
    assert kinds == {"enter", "leave", "cross", "dwell"}
    assert differ > 5


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_p2_the_audit_shows_transitions_that_are_missing_extra_or_told_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Fences that two brokers note, that are removed, and one that moves, which is left out."""
    world = next(each for each in (World(n, Plane()) for n in range(50)) if len(each.by_definition()) > 9)
    texts = {each.fence.name: geojson(each.fence) for each in world.fences}
    world.fences = [each._replace(fence=read_fences(*texts_of(each, texts), Plane())[0]) for each in world.fences]
    wanted = world.by_definition()
    moving = {"type": "Feature", "geometry": None, "properties": {"anchor": "h0", "radius_m": 50}}
    records: list[Record] = [Noted("b1", 0, FENCE_PUT, f"around\n{json.dumps(moving)}")]
    for fence, from_us, until_us in world.fences:
        detail = f"{fence.name}\n{texts[fence.name]}"
        records += [Noted(broker, from_us, FENCE_PUT, detail) for broker in ("b1", "b2")]
        if until_us < world.end_us:
            records.append(Noted("b2", until_us, FENCE_REMOVED, fence.name))
    for host, way in world.moves.items():
        for at_us, position, up, attributes in way:
            records.append(Move(host, at_us, position) if up else Move.gone(host, at_us))
            records.append(ContextChange(host, at_us, attributes))
    extra = ("f/0", "enter", "nobody", 7, 0.0, 0.0, 0)
    told = [*wanted[1:], wanted[1], extra]
    records += [published(number, each) for number, each in enumerate(told)]
    records.append(Noted("b1", world.end_us, "last", ""))
    write_journal(tmp_path, sorted(records, key=lambda each: each.at_us), Run("run", 0, Plane(), 1))
    journal, settings = surveyed(spark, tmp_path, period_us=PERIOD_US)
    fences = fences_of(journal, settings)
    assert sorted(each.fence.name for each in fences) == sorted(
        ["around", *(each.fence.name for each in world.fences)]
    )
    ideal = transitions(journal, fences, settings)
    assert sorted(tuple(each) for each in ideal.collect()) == wanted
    code, output, complaints = invoke("audit", str(tmp_path), "--json")
    assert code == 0, complaints
    found = json.loads(output)["fences"]
    sums = {name: sum(each[name] for each in found["lines"]) for name in ("expected", "told", "missing", "extra")}
    assert sums == {"expected": len(wanted), "told": len(told), "missing": 1, "extra": 1}
    assert sum(each["duplicates"] for each in found["lines"]) == 1
    assert {each["host"] for each in found["examples"]} == {"nobody", wanted[0][2], wanted[1][2]}
    assert "told twice" in (tmp_path / "audit" / "index.html").read_text()


class Shared(Journal):
    """Of one of several brokers."""

    shared = True


def observed(folder: Path, stage: Stage) -> list[Journal]:
    """All brokers write into one journal."""
    journals: list[Journal] = []
    for number, (name, broker) in enumerate(stage.brokers.items(), start=1):
        journals.append(Shared(folder, Run(name, stage.loop.now_us, Plane(), 1), incarnation=number, durable=False))
        broker.observe(journals[-1])
    return journals


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.xdist_group("spark")
def test_p2_what_brokers_tell_of_fences_is_what_spark_expects_of_their_journal(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """With clients that roam: nothing is missing, extra or told twice."""
    trial = FenceTrial(seed, frozenset(("roam",)))
    journals = observed(tmp_path, trial.stage)
    trial.run()
    trial.check()
    for written in journals:
        written.end(trial.stage.loop.now_us)
    journal, settings = surveyed(spark, tmp_path)
    found = audit_fences(Tables(spark, str(tmp_path)), journal, settings)
    assert sorted(each.fence for each in found.lines) == sorted(FENCES)
    assert sum(each.expected for each in found.lines) > MOVES
    assert found.examples == ()
    for line in found.lines:
        assert (line.told, line.missing, line.extra, line.duplicates) == (line.expected, 0, 0, 0)


class RingTrial(FenceTrial):
    """With a fence that moves with one of those who roam."""

    def fences(self) -> dict[str, dict[str, object]]:
        properties = {"radius_m": 80, "hysteresis_m": 0, "on": ["enter", "leave", "cross"], "anchor": self.anchor}
        return {**FENCES, "ring": {"type": "Feature", "geometry": None, "properties": properties}}

    @property
    def anchor(self) -> str:
        return self.publishers[0].name


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.xdist_group("spark")
def test_p2_what_brokers_tell_of_a_fence_that_moves_is_what_spark_expects(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    trial = RingTrial(seed, frozenset(("roam",)))
    journals = observed(tmp_path, trial.stage)
    trial.run()
    for written in journals:
        written.end(trial.stage.loop.now_us)
    journal, settings = surveyed(spark, tmp_path)
    found = audit_fences(Tables(spark, str(tmp_path)), journal, settings)
    ring = next(each for each in found.lines if each.fence == "ring")
    assert ring.expected > 8
    assert found.examples == ()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_p2_a_way_goes_on_from_the_last_report_and_not_from_a_connection(spark: SparkSession, tmp_path: Path) -> None:
    """Nor from what a client tells of something else than its place."""
    scene, _, van = watched("ab", on=["cross"])
    journals = observed(tmp_path, scene.stage)
    put_fence(scene, van, on=["leave", "cross"])
    at(scene, van, -200)
    scene.rest(60.0)
    scene.move(van, "b")
    scene.rest(60.0)
    scene.report(van, attributes={"kind": "van"})
    at(scene, van, 200, kind="van")
    scene.rest(5.0)
    for written in journals:
        written.end(scene.stage.loop.now_us)
    journal, settings = surveyed(spark, tmp_path)
    (line,) = audit_fences(Tables(spark, str(tmp_path)), journal, settings).lines
    assert (line.expected, line.told, line.missing, line.extra, line.duplicates) == (2, 2, 0, 0, 0)


def texts_of(guarded: Guarded, texts: dict[str, str]) -> tuple[str, str]:
    return guarded.fence.name, texts[guarded.fence.name]


def geojson(fence: Fence) -> str:
    rule = fence.rule
    properties: dict[str, Any] = {"on": list(rule.on), "certainty": rule.certainty, "hosts": to_text(rule.hosts)}
    properties |= {"hysteresis_m": rule.hysteresis_m, "radius_m": getattr(fence.region, "radius_m", None)}
    properties |= {
        f"{name}_s": us and us / 1e6 for name, us in (("dwell", rule.dwell_us), ("outside", rule.outside_us))
    }
    match fence.region:
        case Circle(centre):
            geometry: dict[str, Any] = {"type": "Point", "coordinates": [centre.x, centre.y]}
        case Box(low, high):
            ring = [(low.x, low.y), (high.x, low.y), (high.x, high.y), (low.x, high.y), (low.x, low.y)]
            geometry = {"type": "Polygon", "coordinates": [ring]}
        case Polygon(corners):
            ring = [(each.x, each.y) for each in (*corners, corners[0])]
            geometry = {"type": "Polygon", "coordinates": [ring]}
        case other:
            raise AssertionError(other)
    return json.dumps({"type": "Feature", "geometry": geometry, "properties": properties})


def published(number: int, of: Row) -> Published:
    fence, transition, host, at_us, x, y, dwell_us = of
    said: dict[str, Value] = {"host": host, "time": Instant(at_us), "position": Point(x, y), "dwell": dwell_us / 1e6}
    event = Event(f"t{number}", f"$roam/fence/{fence}/{transition}", Context("b1"), at_us, at_us, said)
    return Published("b1", at_us, event)
