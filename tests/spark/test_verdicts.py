"""P2: verdicts and totals that workers make from files are those that Spark makes from frames."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from roamcast.journal import Delivered, Move, Record, Run
from roamcast.model.space import Plane
from roamcast.spark import verdicts
from roamcast.spark.audit import audit
from roamcast.spark.oracle.expected import write_expected
from roamcast.spark.prepare import prepare
from roamcast.spark.published import Tables
from roamcast.spark.settings import Extent, Settings
from roamcast.spark.tables import EXAMPLES, EXPECTED, TOTALS, VERDICTS
from roamcast.spark.totals import COUNTS, counts_of, summed, totals
from roamcast.spark.verdicts import write_verdicts
from tests.spark.chain import many_worlds, surveyed, write_journal
from tests.spark.worlds import GRAPH, PERIOD_US, RANGE_M


def delivered(wanted: dict[tuple[str, str], int]) -> list[Record]:
    """Most of what is wanted, some of it late, twice or before its time; and what nobody wants."""
    rng = random.Random(5)
    found = []
    for (event, subscription), at_us in wanted.items():
        for _ in range(rng.choice((0, 1, 1, 1, 1, 2))):
            late_us = rng.choice((0, 0, 7, 999, 12_345, 3_000_000, -40))
            found.append((at_us + late_us, event, subscription))
    events = sorted({event for event, _ in wanted})
    found += [(min(wanted.values()) + 5, events[0], "nobody's"), (max(wanted.values()) + 5, "never published", "s")]
    return [Delivered("recorder", at_us, event, wish, f"of {wish}") for at_us, event, wish in sorted(found)]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("oracle")
def test_p2_workers_say_of_files_what_spark_says_of_frames(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many parts, with pairs that were missed, doubled, unwanted and late, and events without a place."""
    monkeypatch.setattr(verdicts, "PART_ROWS", 30)
    monkeypatch.setattr(verdicts, "PIECE_ROWS", 10)
    monkeypatch.setattr(verdicts, "HELD_ROWS", 25)
    wanted = many_worlds(tmp_path, Plane(), range(4_000, 4_012))
    run = Run("recorder", 0, Plane(), 1, "worlds", RANGE_M, GRAPH.neighbours)
    write_journal(tmp_path, [Move("recorder", 0, None), *delivered(wanted)], run, 40)
    journal, settings = surveyed(spark, tmp_path, period_us=PERIOD_US)
    tables = Tables(spark, str(tmp_path))
    write_expected(tables, prepare(journal, str(tmp_path), replace(settings, until_us=settings.until_us - 9_000_000)))
    write_verdicts(tables, settings)
    made = audit(tables.read(EXPECTED), journal, settings)
    assert rows_of(tables.read(VERDICTS)) == rows_of(made)
    assert rows_of(tables.read(TOTALS)) == rows_of(totals(made, settings))
    missed = made.where("expected AND times = 0").orderBy("event_id", "subscription_id").limit(20).collect()
    shown = [row for row in tables.get(EXAMPLES).to_pylist() if row["kind"] == "missed"]
    assert [row["event_id"] for row in shown] == [row.event_id for row in missed]
    kinds = {"missed": "expected AND times = 0", "unwanted": "NOT expected", "duplicate": "expected AND times > 1"}
    wrong = {kind for kind, condition in kinds.items() if not made.where(condition).isEmpty()}
    assert {row["kind"] for row in tables.get(EXAMPLES).to_pylist()} == wrong
    assert len(wrong) > 1
    (total,) = tables.read(TOTALS).where("dimension = 'all'").collect()
    assert min(total.missed, total.unwanted, total.duplicates) > 0
    assert tables.read(TOTALS).where("dimension = 'place' AND value = 'unknown'").count() == 1
    assert not list((tmp_path / "tables" / verdicts.WORKSHOP).rglob("*.arrow"))


def test_p2_a_verdict_counts_in_its_subject_place_slice_and_step_of_delay() -> None:
    """By hand: sixteen cells a side of 10 m, 48 slices of a second, eight steps of delay to a power of ten; delays
    have three digits in all and by subject, and two elsewhere."""
    settings = Settings(Plane(), 0.0, None, (0, 48_000_000), 47_999_999, 1, extent=Extent(0.0, 160.0, 0.0, 160.0))
    names = ("subject", "expected", "times", "published_us", "latency_us", "x", "y")
    rows = [
        ("a", True, 1, 5, 0, 5.0, 25.0),
        ("a", True, 3, 2_500_000, 123_456, 160.0, 160.0),
        ("b", True, 0, 2_999_999, None, 15.0, 0.0),
        (None, False, 1, None, None, None, None),
    ]
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=COUNTED_FROM)
    found = counts_of(table, settings).to_pylist()
    counts = {(row["dimension"], row["value"], row["about_us"]): [row[name] for name in COUNTS] for row in found}
    assert counts == {
        ("all", "all", 0): [1, 1, 0, 0, 0],
        ("all", "all", 123_000): [1, 1, 0, 0, 2],
        ("all", "all", None): [1, 1, 1, 1, 0],
        ("subject", "a", 0): [1, 1, 0, 0, 0],
        ("subject", "a", 123_000): [1, 1, 0, 0, 2],
        ("subject", "b", None): [1, 0, 1, 0, 0],
        ("subject", "unknown", None): [0, 1, 0, 1, 0],
        ("place", "0/2", 0): [1, 1, 0, 0, 0],
        ("place", "15/15", 120_000): [1, 1, 0, 0, 2],
        ("place", "1/0", None): [1, 0, 1, 0, 0],
        ("place", "unknown", None): [0, 1, 0, 1, 0],
        ("time", "0", 0): [1, 1, 0, 0, 0],
        ("time", "2000000", 120_000): [1, 1, 0, 0, 2],
        ("time", "2000000", None): [1, 0, 1, 0, 0],
        ("time", "unknown", None): [0, 1, 0, 1, 0],
        ("delay", "0", 0): [1, 1, 0, 0, 0],
        ("delay", "100000", 120_000): [1, 1, 0, 0, 2],
    }


def test_p2_percentiles_are_those_of_all_latencies_in_a_line() -> None:
    """Between two latencies they lie in proportion, as Spark and numpy have it; nothing was delivered to `b`."""
    settings = Settings(Plane(), 0.0, None, (0, 48_000_000), 47_999_999, 1, extent=Extent(0.0, 160.0, 0.0, 160.0))
    late_us = [0, 7, 7, 90, 100, 640, 700]
    rows = [{"subject": "a", "expected": True, "times": 1, "latency_us": each} for each in late_us]
    rows += [{"subject": "b", "expected": True, "times": 0}]
    found = summed(counts_of(pa.Table.from_pylist(rows, schema=COUNTED_FROM), settings), settings).to_pylist()
    by = {(row["dimension"], row["value"]): [row[f"latency_p{share}_us"] for share in (50, 90, 99)] for row in found}
    wanted = [int(np.percentile(late_us, share)) for share in (50, 90, 99)]
    assert (by["subject", "a"], by["all", "all"]) == (wanted, wanted)
    assert by["subject", "b"] == [None, None, None]


COUNTED_FROM = pa.schema(
    [VERDICTS.schema.field(name) for name in ("subject", "expected", "times", "published_us", "latency_us", "x", "y")]
)


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)
