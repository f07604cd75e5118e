"""P2: the whole chain on Spark, from a journal to what is expected, against the definition and a simulation."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from roamcast.experiments.assemble import kit_of
from roamcast.journal import Journal, Move, Published, Record, Run, Subscribed, Unsubscribed
from roamcast.journal.plain import plain_filter
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import parse_text
from roamcast.model.region import Circle
from roamcast.model.scope import Scope
from roamcast.model.space import Earth, Plane
from roamcast.model.subject import subject_matches
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point
from roamcast.pipeline.ingest import ingest
from roamcast.pipeline.job import Settings, Table
from roamcast.pipeline.oracle.merge import candidates, fits, hot_cells, keyed_events
from roamcast.pipeline.prepare import lives
from roamcast.pipeline.report import Audit, page, read_audit
from roamcast.pipeline.store import Store
from roamcast.pipeline.survey import settings_of
from roamcast.pipeline.tables import EVENTS, EXPECTED
from roamcast.sim.run import Run as SimulationRun
from roamcast.sim.scenario import scenario_from
from tests.pipeline.chain import Expected, expected_by_spark, many_worlds, run_jobs, write_journal
from tests.pipeline.worlds import SECOND_US, expected, large_world
from tests.sim.test_ideal import CROWD

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("oracle")]


@pytest.fixture(scope="module", params=[Plane(), Earth()], ids=["plane", "earth"])
def worlds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Expected]:
    """The journal of many small worlds, and what is expected in them by the definition."""
    directory = tmp_path_factory.mktemp("worlds")
    return directory, many_worlds(directory, request.param, range(1_000, 1_020))


@pytest.mark.parametrize("join", ["index", "merge"])
def test_p2_c6_the_oracle_equals_the_definition_on_many_worlds(
    spark: SparkSession, worlds: tuple[Path, Expected], join: str
) -> None:
    """Small buckets and cells, and few events to a task, so that everything crosses a border somewhere."""
    directory, wanted = worlds
    small = {"bucket_us": 12 * SECOND_US + 500_000, "events_per_task": 3, "pairs_per_task": 3}
    cells = {"slots_per_bucket": 5, "join_cell_m": 40.0, "cell_rows_max": 3}
    assert expected_by_spark(spark, directory, join, **small, **cells) == wanted
    assert len(wanted) > 20


@pytest.mark.parametrize(
    ("space", "size", "join"), [(Plane(), 200, "index"), (Earth(), 120, "merge")], ids=["plane", "earth"]
)
def test_p2_c6_the_oracle_equals_the_definition_on_a_large_world(
    spark: SparkSession, tmp_path: Path, space: Plane | Earth, size: int, join: str
) -> None:
    """As many hosts, events and subscriptions: each event is asked about with each subscription, at every look."""
    world = large_world(7, size, space)
    write_journal(tmp_path, world.records, world.run())
    wanted = expected(world)
    assert len(wanted) > 3 * size
    assert expected_by_spark(spark, tmp_path, join, bucket_us=4 * SECOND_US) == wanted


def test_p2_the_join_by_sorting_has_no_cartesian_product(spark: SparkSession) -> None:
    plan = str(candidates(NothingRecorded(spark))._jdf.queryExecution().sparkPlan().toString())
    assert "SortMergeJoin" in plan
    assert "CartesianProduct" not in plan
    assert "BroadcastNestedLoopJoin" not in plan


def test_p2_a_crowded_cell_is_divided_and_no_other(spark: SparkSession) -> None:
    rows = [(0, 0, 1, 1)] * 10 + [(0, 0, 2, 2)] * 3
    ways = spark.createDataFrame(rows, "slot long, level int, column long, line long")
    found = hot_cells(ways, replace(NothingRecorded.settings, cell_rows_max=4)).collect()
    assert [(row["column"], row["line"], row["parts"]) for row in found] == [(1, 1, 3)]


def test_p2_subjects_match_in_spark_as_in_the_model(spark: SparkSession) -> None:
    subjects = ["a", "a/b", "a/b/c", "/a", "a/", "$a", "$a/b", "b", "a.b"]
    patterns = [*subjects, "#", "+", "a/#", "a/+", "+/b", "a/+/c", "/#", "+/+", "$a/#", "a/b/#"]
    pairs = [(pattern, subject) for pattern in patterns for subject in subjects]
    rows = spark.createDataFrame(pairs, "pattern string, subject string").select("*", fits().alias("fits")).collect()
    assert {(row["pattern"], row["subject"]) for row in rows if row["fits"]} == {
        pair for pair in pairs if subject_matches(*pair)
    }


def test_p2_filters_as_columns_refuse_what_nobody_would_accept(spark: SparkSession) -> None:
    """S4: and what depends on the reader they refuse nothing."""
    texts = tuple(
        plain_filter(parse_text(text)) for text in ("level >= 3", "publisher.host = 'a'", "level < me.limit")
    )
    value = dict.fromkeys(("number", "integer", "text", "flag", "time_us", "x", "y"))
    publisher = {"host": "b", "attributes": {}}
    rows = [
        {"event_id": f"{level}", "publisher": publisher, "attributes": {"level": {**value, "number": level}}}
        for level in (2.0, 3.0)
    ]
    events = spark.createDataFrame(rows, EVENTS.struct)
    found = keyed_events(events, replace(NothingRecorded.settings, filters=texts)).collect()
    assert {row["event_id"]: row["refused"] for row in found} == {"2.0": [0, 1], "3.0": [1]}


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


def test_p2_no_window_over_lives_is_read_anew_for_each_row(spark: SparkSession) -> None:
    """A frame from the next row to the last would cost the square of what a host recorded."""
    plan = str(lives(NothingRecorded(spark))._jdf.queryExecution().analyzed().toString())
    assert "specifiedwindowframe(RowFrame, unboundedpreceding$(), -1)" in plan
    assert "specifiedwindowframe(RowFrame, 1, unboundedfollowing$())" not in plan


class NothingRecorded:
    """Tables without rows, as a job's inputs."""

    settings = Settings(Plane(), 100.0, None, 0, SECOND_US, SECOND_US, SECOND_US)

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def __getitem__(self, table: Table) -> DataFrame:
        return self.spark.createDataFrame([], table.struct)

    def place(self, table: Table) -> str:
        return table.name

    beside = place


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
    ingest(spark, str(directory))
    store = Store(spark, str(directory))
    settings = settings_of(store)
    run_jobs(store, settings, "totals")
    return run, directory, read_audit(store, "plane", settings)


def test_p2_c12_the_oracle_expects_what_the_simulation_did_at_the_same_moments(
    spark: SparkSession, crowd: tuple[SimulationRun, Path, Audit]
) -> None:
    run, directory, _ = crowd
    rows = Store(spark, str(directory)).read(EXPECTED).collect()
    found = {(row["event_id"], row["subscription_id"]): row["at_us"] for row in rows}
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
    latencies_us = sorted(run.tally.latencies_us)
    assert total.latency_max_us == latencies_us[-1]
    assert latencies_us[0] <= (total.latency_p50_us or 0) <= (total.latency_p99_us or 0) <= latencies_us[-1]


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
    assert shown.count("<svg") == 2
    assert "unwanted" in shown
    assert msgspec.json.decode(msgspec.json.encode(audit), type=Audit) == audit
