"""P2: verdicts and totals that workers make from files are those that Spark makes from frames."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from roamcast.journal import Delivered, Move, Record, Run
from roamcast.model.space import Plane
from roamcast.spark import verdicts
from roamcast.spark.audit import audit, totals
from roamcast.spark.oracle.expected import write_expected
from roamcast.spark.prepare import prepare
from roamcast.spark.published import Tables
from roamcast.spark.tables import EXPECTED, TOTALS, VERDICTS
from roamcast.spark.verdicts import write_verdicts
from tests.spark.chain import many_worlds, surveyed, write_journal
from tests.spark.worlds import GRAPH, PERIOD_US, RANGE_M

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("oracle")]


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


@pytest.mark.slow
def test_p2_workers_say_of_files_what_spark_says_of_frames(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many parts, with pairs that were missed, doubled, unwanted and late, and events without a place."""
    monkeypatch.setattr(verdicts, "PART_ROWS", 30)
    monkeypatch.setattr(verdicts, "PIECE_ROWS", 10)
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
    (total,) = tables.read(TOTALS).where("dimension = 'all'").collect()
    assert min(total.missed, total.unwanted, total.duplicates) > 0
    assert tables.read(TOTALS).where("dimension = 'place' AND value = 'unknown'").count() == 1
    assert not list((tmp_path / "tables" / verdicts.WORKSHOP).rglob("*.parquet"))


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)
