"""The oracle as a Spark job: Spark schedules the buckets, workers read their own part of the tables with Arrow.

A task is one bucket, or a share of the events of a crowded one: its tables are read from where they lie, judged in
memory (`looks.py`), and the matches go back as Arrow batches. Nothing is collected, nothing is shipped with the
function but the settings, and the memory of a task is that of its bucket, however long the journal is.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.pipeline.job import Inputs, Job, Settings, Table
from roamcast.pipeline.oracle.bucket import Bucket, World
from roamcast.pipeline.oracle.looks import Matches, matches
from roamcast.pipeline.store import file_system
from roamcast.pipeline.tables import EVENTS, EXPECTED, LIVES, MATCHED, STATES, TRACKS

PARTS = (TRACKS, STATES, EVENTS, LIVES)


def matched(inputs: Inputs) -> DataFrame:
    settings = inputs.settings
    limit = settings.events_per_task
    shares = F.ceil(F.count("*") / limit).cast("bigint")
    tasks = (
        inputs[EVENTS]
        .groupBy("bucket")
        .agg(shares.alias("shares"))
        .withColumn("share", F.explode(F.sequence(F.lit(0).cast("bigint"), F.col("shares") - 1)))
        .repartition(F.col("bucket"), F.col("share"))
    )
    judge = Judge(settings, {table.name: inputs.place(table) for table in PARTS})
    return tasks.select("bucket", "share", "shares").mapInArrow(judge, MATCHED.struct)


def expected(inputs: Inputs) -> DataFrame:
    """Most pairs match in one bucket only and are as they should be; of the others the earliest match counts."""
    found = inputs[MATCHED]
    earliest = (
        found.where("NOT settled")
        .groupBy("event_id", "subscription_id")
        .agg(F.min_by("subscriber", "at_us").alias("subscriber"), F.min("at_us").alias("at_us"))
    )
    return found.where("settled").select(*EXPECTED.columns).unionByName(earliest)


class Judge:
    """What a worker does with the tasks it is given. Holds nothing but names and numbers: it travels to every one."""

    def __init__(self, settings: Settings, places: dict[str, str]) -> None:
        self.settings = settings
        self.places = places

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for task in batch.to_pylist():
                yield from self.judged(task["bucket"], task["share"], task["shares"])

    def judged(self, number: int, share: int, shares: int) -> Iterator[Any]:
        settings = self.settings
        start_us = settings.first_us + number * settings.bucket_us
        world = World(settings.space, settings.neighbour_range_m, settings.graph, settings.period_us)
        tables = [read_bucket(self.places[table.name], table, number) for table in PARTS]
        bucket = Bucket(world, start_us, start_us + settings.bucket_us, *tables)
        again = [table["again"].to_numpy(zero_copy_only=False) for table in tables[2:]]
        if len(bucket.lives) == 0:
            return
        mine = np.array_split(np.arange(len(bucket.events)), shares)[share]
        for found in matches(bucket, mine):
            if len(found.event):
                yield rows_of(bucket, found, again)


def rows_of(bucket: Bucket, found: Matches, again: list[Any]) -> Any:
    """The matches as rows of `matched`."""
    events, lives = bucket.events, bucket.lives
    begin_us = np.maximum(events.begin_us[found.event], lives.begin_us[found.life])
    end_us = np.minimum(events.end_us[found.event], lives.end_us[found.life])
    settled = (begin_us >= bucket.start_us) & (end_us < bucket.end_us)
    # An id that is there twice makes two pairs of one.
    settled &= ~again[0][found.event] & ~again[1][found.life]
    return pa.RecordBatch.from_arrays(
        [
            events.ids.take(pa.array(found.event)),
            lives.ids.take(pa.array(found.life)),
            bucket.hosts.names.take(pa.array(lives.subscriber[found.life])),
            pa.array(found.at_us, pa.int64()),
            pa.array(settled),
        ],
        names=MATCHED.columns,
    )


def read_bucket(place: str, table: Table, number: int) -> Any:
    """The rows of one bucket; none where there is no directory for it."""
    files, path = file_system(f"{place}/bucket={number}")
    wanted = pa.schema([field for field in table.schema if field.name != "bucket"])
    if files.get_file_info(path).type == arrow_fs.FileType.NotFound:
        return wanted.empty_table()
    return pq.read_table(path, filesystem=files, partitioning=None, schema=wanted)


JOBS = (
    Job("matched", PARTS, MATCHED, matched),
    Job("expected", (MATCHED,), EXPECTED, expected),
)
