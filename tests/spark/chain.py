"""What tests do with a journal: write one, take it in, run jobs on it, and read what came out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from roamcast.journal import Journal, Move, Record, Run
from roamcast.model.space import Earth, Plane
from roamcast.spark.ingest import ingest
from roamcast.spark.journal import Journal as Frames
from roamcast.spark.journal import ingested
from roamcast.spark.ledger import Ledger
from roamcast.spark.oracle.expected import expected as lazily_expected
from roamcast.spark.oracle.expected import write_expected
from roamcast.spark.prepare import prepare
from roamcast.spark.published import Tables
from roamcast.spark.settings import Settings, Survey, settings_of
from roamcast.spark.tables import EXPECTED
from tests.spark.worlds import GRAPH, PERIOD_US, RANGE_M, SECOND_US, expected, small_world

Expected = dict[tuple[str, str], int]
WORLD_US = 20 * SECOND_US
"""Longer than a world and all that lives on after it."""


def many_worlds(directory: Path, space: Plane | Earth, seeds: range, *, closed: bool = False) -> Expected:
    """A journal of small worlds one after the other, each with hosts of its own; answers what is expected in all."""
    records: list[Record] = []
    found: Expected = {}
    for number, seed in enumerate(seeds):
        world = small_world(seed, offset_us=number * WORLD_US, prefix=f"w{seed}-", space=space)
        found |= expected(world)
        records += world.records
        hosts = sorted({record.host for record in world.records})
        records += [Move.gone(host, world.end_us + 1) for host in hosts]
    run = Run("worlds", 0, space, 1, "worlds", RANGE_M, GRAPH.neighbours)
    write_journal(
        directory, records, run, 100 if closed else 400, closed_us=len(seeds) * WORLD_US if closed else None
    )
    return found


def write_journal(
    directory: Path, records: list[Record], run: Run, rows_per_segment: int = 400, closed_us: int | None = None
) -> None:
    with Journal(directory, run, durable=False, segment_rows_max=rows_per_segment) as journal:
        for record in records:
            journal.record(record)
        if closed_us is not None:
            journal.end(closed_us)


def surveyed(spark: SparkSession, directory: Path, **given: Any) -> tuple[Frames, Settings]:
    """A journal that was taken in, and its settings as commands find them."""
    ingest(spark, str(directory))
    journal = ingested(spark, str(directory))
    survey = Survey.of_ledger(Ledger.of(Tables(spark, str(directory)), ranges=True))
    return journal, settings_of(journal, survey=survey, **given)


def expected_by_spark(spark: SparkSession, directory: Path, bucket_us: int | None = None) -> Expected:
    """By the table that commands write, and lazily: they must be the same."""
    journal, settings = surveyed(spark, directory, period_us=PERIOD_US)
    if bucket_us is not None:
        borders = range(settings.first_us, settings.until_us + 1 + bucket_us, bucket_us)
        # Every third bucket is divided into cells.
        sides = tuple(1 + (number % 3 == 0) for number in range(len(borders) - 1))
        settings = replace(settings, borders=tuple(borders), sides=sides)
    prepared = prepare(journal, str(directory), settings)
    tables = Tables(spark, str(directory))
    write_expected(tables, prepared)
    written = pairs_of(tables.read(EXPECTED))
    assert pairs_of(lazily_expected(prepared)) == written
    return written


def pairs_of(frame: Any) -> Expected:
    rows = frame.collect()
    found = {(row["event_id"], row["subscription_id"]): row["at_us"] for row in rows}
    assert len(found) == len(rows), "a pair is there twice"
    return found
