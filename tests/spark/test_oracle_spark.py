"""P2: the whole chain on Spark, from a journal to what is expected, against the definition and a simulation."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from roamcast.journal import Journal, Move, Published, Record, Run, Subscribed, Unsubscribed
from roamcast.journal.records import EVENT_WITHDRAWN, Noted
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.region import Circle
from roamcast.model.scope import Scope
from roamcast.model.space import Earth, Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point
from roamcast.papers.assemble import kit_of
from roamcast.sim.run import Run as SimulationRun
from roamcast.sim.scenario import scenario_from
from roamcast.spark.journal import NAMES
from roamcast.spark.journal import Journal as Frames
from roamcast.spark.oracle.expected import write_expected
from roamcast.spark.page import page
from roamcast.spark.prepare import lived, prepare
from roamcast.spark.published import Tables
from roamcast.spark.report import Audit, read_audit
from roamcast.spark.tables import EXPECTED, JOURNAL
from roamcast.spark.verdicts import write_verdicts
from tests.sim.test_ideal import CROWD
from tests.spark.chain import Expected, expected_by_spark, many_worlds, pairs_of, surveyed, write_journal
from tests.spark.worlds import SECOND_US, expected, large_world

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("oracle")]


@pytest.fixture(scope="module", params=[Plane(), Earth()], ids=["plane", "earth"])
def worlds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Expected]:
    """The journal of many small worlds, and what is expected in them by the definition."""
    directory = tmp_path_factory.mktemp("worlds")
    return directory, many_worlds(directory, request.param, range(1_000, 1_020))


def test_p2_c6_the_oracle_equals_the_definition_on_many_worlds(
    spark: SparkSession, worlds: tuple[Path, Expected]
) -> None:
    """Small buckets, so that everything crosses a border somewhere."""
    directory, wanted = worlds
    assert expected_by_spark(spark, directory, 12 * SECOND_US + 500_000) == wanted
    assert len(wanted) > 20


@pytest.mark.parametrize(("space", "size"), [(Plane(), 200), (Earth(), 120)], ids=["plane", "earth"])
def test_p2_c6_the_oracle_equals_the_definition_on_a_large_world(
    spark: SparkSession, tmp_path: Path, space: Plane | Earth, size: int
) -> None:
    """As many hosts, events and subscriptions: each event is asked about with each subscription, at every look."""
    world = large_world(7, size, space)
    write_journal(tmp_path, world.records, world.run())
    wanted = expected(world)
    assert len(wanted) > 3 * size
    assert expected_by_spark(spark, tmp_path, 4 * SECOND_US) == wanted


def test_p2_a_host_that_stood_a_little_further_away_is_not_expected_to_hear(
    spark: SparkSession, tmp_path: Path
) -> None:
    """So the comparisons above would catch a journal in which one host stood elsewhere."""
    publisher, audience = Context("a", Point(0.0, 0.0)), Scope(Circle(Point(0.0, 0.0), 100.0))
    records: list[Record] = [Move("a", 0, Point(0.0, 0.0))]
    for host, x in (("on the border", 100.0), ("beyond it", 100.1)):
        wanted = Subscription(f"s-{host}", host, "x", 0, FOREVER_US)
        records += [Move(host, 0, Point(x, 0.0)), Subscribed(host, 0, wanted)]
    records.append(Published("a", SECOND_US, Event("e", "x", publisher, SECOND_US, SECOND_US, audience=audience)))
    write_journal(tmp_path, records, Run("border", 0, Plane(), 1))
    assert expected_by_spark(spark, tmp_path) == {("e", "s-on the border"): SECOND_US}


def test_p2_a_subscription_ends_when_ended_replaced_or_its_host_gone(spark: SparkSession, tmp_path: Path) -> None:
    """C3: and one that is issued again under its id begins anew, with its new filter."""
    here = Context("a", Point(0.0, 0.0))
    events = [
        Published("a", t * SECOND_US, Event(f"e{t}", "x", here, t * SECOND_US, t * SECOND_US)) for t in range(1, 9)
    ]

    def wish(host: str, at_s: int, subject: str = "x", id_: str | None = None) -> Subscribed:
        at_us = at_s * SECOND_US
        return Subscribed(host, at_us, Subscription(id_ or f"s-{host}", host, subject, at_us, FOREVER_US))

    records: list[Record] = [
        *(Move(host, 0, Point(0.0, 0.0)) for host in ("a", "ended", "replaced", "gone", "twice")),
        *(wish(host, 0) for host in ("ended", "replaced", "gone")),
        *events,
        Unsubscribed("ended", 3 * SECOND_US, "s-ended"),
        wish("replaced", 4, "y"),
        wish("replaced", 6, "x"),
        Move.gone("gone", 5 * SECOND_US),
        Move("gone", 6 * SECOND_US, Point(0.0, 0.0)),
        wish("gone", 7, id_="s-back"),
    ]
    write_journal(tmp_path, sorted(records, key=lambda each: each.at_us), Run("lives", 0, Plane(), 1))
    found = expected_by_spark(spark, tmp_path)
    heard: dict[str, list[str]] = {}
    for event_id, subscription_id in sorted(found):
        heard.setdefault(subscription_id, []).append(event_id)
    assert heard == {
        "s-ended": ["e1", "e2"],
        "s-replaced": ["e1", "e2", "e3", "e6", "e7", "e8"],
        "s-gone": ["e1", "e2", "e3", "e4"],
        "s-back": ["e7", "e8"],
    }


def test_p2_an_event_ends_when_its_publisher_withdraws_it(spark: SparkSession, tmp_path: Path) -> None:
    """C3: a note of another host ends nothing."""
    here = Context("a", Point(0.0, 0.0))
    records: list[Record] = [Move("a", 0, Point(0.0, 0.0)), Move("b", 0, Point(0.0, 0.0))]
    for name in ("withdrawn", "kept"):
        records.append(Published("a", SECOND_US, Event(name, "x", here, SECOND_US, 60 * SECOND_US)))
    records += [
        Noted("a", 2 * SECOND_US, EVENT_WITHDRAWN, "withdrawn"),
        Noted("b", 2 * SECOND_US, EVENT_WITHDRAWN, "kept"),
    ]
    records.append(Subscribed("b", 3 * SECOND_US, Subscription("s", "b", "x", 3 * SECOND_US, FOREVER_US)))
    write_journal(tmp_path, records, Run("withdrawn", 0, Plane(), 1))
    assert expected_by_spark(spark, tmp_path) == {("kept", "s"): 3 * SECOND_US}


def test_p2_no_window_over_lives_is_read_anew_for_each_row(spark: SparkSession) -> None:
    """A frame from the next row to the last would cost the square of what a host recorded."""
    nothing: dict[str, Any] = {name: spark.createDataFrame([], JOURNAL[name].struct) for name in NAMES}
    plan = str(lived(Frames(**nothing))._jdf.queryExecution().analyzed().toString())
    assert "specifiedwindowframe(RowFrame, unboundedpreceding$(), -1)" in plan
    assert "specifiedwindowframe(RowFrame, 1, unboundedfollowing$())" not in plan


@pytest.fixture(scope="module")
def crowd(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[SimulationRun, Path, Audit]:
    """A run with crashes, wrong clocks and losses; its journal; and the audit of that."""
    directory = tmp_path_factory.mktemp("crowd")
    crashes = [{"host": f"h-{n}", "at_s": 5.05 + n, "restart_s": 11.03 + n} for n in range(1, 9)]
    faults: dict[str, Any] = {"clock_offset_ms": 3_000, "crash": crashes, "duplicate": 0.3, "loss": 0.1}
    scenario = scenario_from({**CROWD, "faults": faults})
    with Journal(directory, Run("crowd", 0, Plane(), 3, "crowd", 100.0), durable=False) as journal:
        run = SimulationRun(scenario, kit_of(scenario.protocol), 3, journal)
        for _ in run.steps():
            pass
        journal.end(run.now_us)
    frames, settings = surveyed(spark, directory)
    tables = Tables(spark, str(directory))
    write_expected(tables, prepare(frames, str(directory), settings))
    write_verdicts(tables, settings)
    return run, directory, read_audit(tables, frames, settings)


def test_p2_c12_the_oracle_expects_what_the_simulation_did_at_the_same_moments(
    spark: SparkSession, crowd: tuple[SimulationRun, Path, Audit]
) -> None:
    run, directory, _ = crowd
    found = pairs_of(Tables(spark, str(directory)).read(EXPECTED))
    assert found == run.ideal.expected
    assert len(found) > 10


def test_p2_the_totals_of_the_audit_are_those_of_the_simulation(crowd: tuple[SimulationRun, Path, Audit]) -> None:
    run, _, audit = crowd
    result, total = run.result(), audit.total
    assert (total.expected, total.delivered, total.missed) == (result.expected, result.delivered, result.missed)
    assert (total.unwanted, total.duplicates) == (result.unwanted, result.duplicates)
    assert result.missed
    assert result.unwanted
    assert audit.delivery_rate == result.delivery_rate
    # There they count from the publication, here from when somebody was there for it.
    assert 0 <= (total.latency_p50_us or 0) <= (total.latency_p99_us or 0) <= (total.latency_max_us or 0)
    assert 0 < (total.latency_max_us or 0) <= max(run.tally.latencies_us)
    assert sum(line.delivered for line in audit.delays) == total.delivered


def test_p2_every_dimension_of_the_audit_adds_up_to_the_whole(crowd: tuple[SimulationRun, Path, Audit]) -> None:
    _, _, audit = crowd
    for lines in (audit.subjects, audit.places, audit.times):
        for name in ("expected", "delivered", "missed", "unwanted", "duplicates"):
            assert sum(getattr(line, name) for line in lines) == getattr(audit.total, name)
    assert len(audit.places) > 3
    assert len(audit.times) > 3


def test_p2_the_page_shows_figures_a_map_and_examples_and_escapes_names(
    crowd: tuple[SimulationRun, Path, Audit],
) -> None:
    _, _, audit = crowd
    shown = page(msgspec.structs.replace(audit, journal="<script>"))
    assert "<script>" not in shown
    assert f"<b>{audit.total.missed:,}</b>" in shown
    assert shown.count("<svg") == 3
    assert "unwanted" in shown
    assert {clock.host for clock in audit.quality.clocks} <= {f"h-{n}" for n in range(1, 100)}
    assert max(abs(clock.median_us) for clock in audit.quality.clocks) <= 3_000_000
    assert any(clock.median_us for clock in audit.quality.clocks)
    assert msgspec.json.decode(msgspec.json.encode(audit), type=Audit) == audit
