"""What tests do with a journal: write one, take it in, run jobs on it, and read what came out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from roamcast.journal import Journal, Move, Record, Run
from roamcast.model.space import Earth, Plane
from roamcast.pipeline.ingest import ingest
from roamcast.pipeline.job import Settings
from roamcast.pipeline.registry import chain, job_named
from roamcast.pipeline.runner import Quiet, Runner
from roamcast.pipeline.store import Store
from roamcast.pipeline.survey import settings_of
from roamcast.pipeline.tables import EXPECTED
from tests.pipeline.worlds import GRAPH, PERIOD_US, RANGE_M, SECOND_US, expected, small_world

Expected = dict[tuple[str, str], int]
WORLD_US = 20 * SECOND_US
"""Longer than a world and all that lives on after it."""


def many_worlds(directory: Path, space: Plane | Earth, seeds: range) -> Expected:
    """A journal of small worlds one after the other, each with hosts of its own; answers what is expected in all."""
    records: list[Record] = []
    found: Expected = {}
    for number, seed in enumerate(seeds):
        world = small_world(seed, offset_us=number * WORLD_US, prefix=f"w{seed}-", space=space)
        found |= expected(world)
        records += world.records
        hosts = sorted({record.host for record in world.records})
        records += [Move.gone(host, world.end_us + 1) for host in hosts]
    write_journal(directory, records, Run("worlds", 0, space, 1, "worlds", RANGE_M, GRAPH.neighbours))
    return found


def write_journal(directory: Path, records: list[Record], run: Run, rows_per_segment: int = 400) -> None:
    with Journal(directory, run, durable=False, segment_rows_max=rows_per_segment) as journal:
        for record in records:
            journal.record(record)


def expected_by_spark(spark: SparkSession, directory: Path, join: str = "auto", **changes: Any) -> Expected:
    store = Store(spark, str(directory))
    ingest(spark, str(directory))
    settings = replace(settings_of(store, period_us=PERIOD_US, join=join), **changes)
    run_jobs(store, settings, "expected")
    rows = store.read(EXPECTED).collect()
    found = {(row["event_id"], row["subscription_id"]): row["at_us"] for row in rows}
    assert len(found) == len(rows), "a pair is there twice"
    return found


def run_jobs(store: Store, settings: Settings, name: str) -> None:
    Runner(store, settings, Quiet()).run(chain(job_named(name, settings.join), join=settings.join))
