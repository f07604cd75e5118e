"""The oracle as Spark jobs: an index of the event side, and tasks that read positions and look them up there.

First one task writes the index (`index.py`). Then Spark schedules buckets of positions: a task reads the row groups
of one bucket after the other with Arrow, maps the index into memory, and has the compiled kernel find the pairs
(`share.py`); a crowded bucket is several pieces of work, each with some of its events. Nothing is collected, nothing
is shipped with the code but names and settings, and the memory of a task is that of a bucket, however long the
journal is.

Pairs that can match in one bucket only, nearly all, are final where they are found, and the task itself puts them
into a file of the table, as ingest does with segments; they need not pass through Spark. Of the others the earliest
counts.
"""

import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as arrow_fs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.pipeline.dealing import dealt_to, settle, tasks_for
from roamcast.pipeline.job import BadPipeline, Inputs, Job, Settings
from roamcast.pipeline.oracle.finished import Finished, batch_of, pair_rows
from roamcast.pipeline.oracle.index import EventSide, event_side
from roamcast.pipeline.oracle.reading import read_rows
from roamcast.pipeline.oracle.sections import write_sections
from roamcast.pipeline.oracle.share import Share, opened
from roamcast.pipeline.oracle.shipping import Shipped, local, shipped
from roamcast.pipeline.oracle.swift import warm
from roamcast.pipeline.store import file_system
from roamcast.pipeline.tables import EVENTS, EXPECTED, INDEX, LIVES, MATCHED, STATES, TRACKS

BUCKETS_A_TASK = 8
TASKS_EVEN = 12
"""Buckets are much alike, so fewer tasks will do."""
SUFFIX = ".index"

Piece = tuple[int, int, int]
"""A bucket, which share of it, and how many shares it has."""


def index(inputs: Inputs) -> DataFrame:
    place = f"{inputs.beside(INDEX)}/{secrets.token_hex(8)}{SUFFIX}"
    build = Build(inputs.settings, inputs.place(EVENTS), inputs.place(LIVES), place)
    spark = inputs[EVENTS].sparkSession
    return spark.range(0, 1, 1, 1).mapInArrow(build, INDEX.struct)


class Build:
    """Writes the index, and answers with where it is and how large."""

    def __init__(self, settings: Settings, events: str, lives: str, place: str) -> None:
        self.settings, self.events, self.lives, self.place = settings, events, lives, place

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for _ in range(batch.num_rows):
                yield self.built()

    def built(self) -> Any:
        events, lives = read_rows(self.events, EVENTS), read_rows(self.lives, LIVES)
        arrays, tables = event_side(events, lives, self.settings)
        files, path = file_system(self.place)
        directory = path.rpartition("/")[0]
        files.create_dir(directory, recursive=True)
        with files.open_output_stream(f"{path}.partial") as out:
            size = write_sections(out, arrays, tables)
        for old in files.get_file_info(arrow_fs.FileSelector(directory)):
            if old.path.endswith(SUFFIX):
                with suppress(FileNotFoundError):
                    files.delete_file(old.path)
        files.move(f"{path}.partial", path)
        if "://" not in self.place:
            warm(EventSide(path))
        row = {"path": [self.place], "bytes": [size], "events": [len(events)], "subscriptions": [len(lives)]}
        return pa.RecordBatch.from_pydict(row, schema=INDEX.schema)


def index_place(inputs: Inputs) -> str:
    """Where the index that was built last lies."""
    directory = inputs.beside(INDEX)
    files, path = file_system(directory)
    found = files.get_file_info(arrow_fs.FileSelector(path, allow_not_found=True))
    names = [each.base_name for each in found if each.base_name.endswith(SUFFIX)]
    if len(names) != 1:
        raise BadPipeline(f"{directory}: there is no index here, or more than one; compute table 'index' first")
    return f"{directory}/{names[0]}"


def expected(inputs: Inputs) -> DataFrame:
    place = index_place(inputs)
    spark = inputs[EVENTS].sparkSession
    side = EventSide(local(place))
    pieces = pieces_of(side, inputs.settings)
    tasks = tasks_for(len(pieces), BUCKETS_A_TASK, TASKS_EVEN)
    places = {table.name: inputs.place(table) for table in (TRACKS, STATES)}
    judge = Judge(inputs.settings, places, shipped(spark, place), inputs.beside(EXPECTED), pieces, tasks)
    found = spark.range(0, tasks, 1, tasks).mapInArrow(judge, MATCHED.struct)
    return found if side.each_in_one_bucket(inputs.settings) else earliest(found)


def pieces_of(side: EventSide, settings: Settings) -> list[Piece]:
    """Buckets, and of a crowded one its shares."""
    counts = side.events_by_bucket()
    shares = -(-counts // settings.events_per_task)
    return [
        (bucket, share, int(shares[bucket]))
        for bucket in np.flatnonzero(counts).tolist()
        for share in range(shares[bucket])
    ]


def earliest(found: DataFrame) -> DataFrame:
    """Of pairs that matched in several buckets the first match."""
    return found.groupBy("event_id", "subscription_id").agg(
        F.min_by("subscriber", "at_us").alias("subscriber"), F.min("at_us").alias("at_us")
    )


class Judge:
    """What a worker does with the tasks it is given. Holds nothing but names and numbers: it travels to every one."""

    def __init__(
        self, settings: Settings, places: dict[str, str], index: Shipped, out: str, pieces: list[Piece], tasks: int
    ) -> None:
        self.settings, self.places, self.index, self.out = settings, places, index, out
        self.pieces, self.tasks = pieces, tasks

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        side = opened(self.index.here())
        for batch in batches:
            for task in batch["id"].to_pylist():
                for number in dealt_to(task, self.tasks, len(self.pieces)):
                    yield from self.judged(side, *self.pieces[number])
        settle()

    def judged(self, side: EventSide, bucket: int, share: int, shares: int) -> Iterator[Any]:
        if not len(side.lives):
            return
        rows = np.array_split(side.events_of(bucket), shares)[share]
        part = Share(self.settings, self.places, side, bucket, rows)
        with Finished(self.out, f"{bucket:07d}-{share:05d}.parquet") as file:
            for event, life, at_us in part.matches():
                final = part.final(event, life)
                file.write(pair_rows(side.events, side.lives, event[final], life[final], at_us[final]))
                if not final.all():
                    rest = pair_rows(side.events, side.lives, event[~final], life[~final], at_us[~final])
                    yield batch_of(rest)


JOBS = (
    Job("index", (EVENTS, LIVES), INDEX, index),
    Job("expected", (INDEX, TRACKS, STATES, EVENTS), EXPECTED, expected),
)
