"""The oracle (P2): which events an ideal system delivers to which subscriptions, and when.

Spark schedules buckets of prepared tables, a few to a task. A worker reads the bins of a bucket with Arrow and judges
them (`judge.py`), a crowded bucket cell by cell (`cells.py`); rows never pass through Java on their way in, which
would cost six times as much. Memory is that of a bucket, however long the journal is, and however many events and
subscriptions there are.

A pair may match in every bucket in which both last. Nearly all can match in one only, and are final where they are
found; of the others the earliest counts.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.spark.files import Finished, file_system
from roamcast.spark.oracle.attributes import one_array
from roamcast.spark.oracle.boxes import Rows
from roamcast.spark.oracle.cells import in_cell
from roamcast.spark.prepare import Prepared
from roamcast.spark.published import Tables
from roamcast.spark.settings import Settings
from roamcast.spark.tables import EVENTS, EXPECTED, LIVES, STATES, TRACKS, Table
from roamcast.spark.workers import dealt_to, settle, tasks_for

if TYPE_CHECKING:
    from roamcast.spark.oracle.judge import Judge

BUCKETS_A_TASK = 16
TASKS_EVEN = 8
"""A Python task costs a tenth of a second of CPU whatever it does."""
BINS_KEPT = 64
FOUND, REST = "found", "rest"


def expected(prepared: Prepared) -> DataFrame:
    """Every pair once, when it first matches: event_id, subscription_id, subscriber, at_us. Lazy: an action on it
    judges everything, so write or cache it before a second."""
    found = judged(prepared, None)
    return earliest(found)


def write_expected(tables: Tables, prepared: Prepared) -> str:
    """Publishes the table `expected`; answers where it lies. Workers write final pairs themselves."""
    part = tables.draft(EXPECTED.name)
    place = f"{tables.place(EXPECTED.name)}/{part}"
    found = judged(prepared, f"{place}/{FOUND}")
    files, within = file_system(f"{place}/{FOUND}")
    files.create_dir(within, recursive=True)
    earliest(found).write.parquet(f"{place}/{REST}")
    tables.publish(EXPECTED.name, (f"{part}/{FOUND}", f"{part}/{REST}"))
    return place


def judged(prepared: Prepared, out: str | None) -> DataFrame:
    """What all buckets find; with `out`, only pairs that may match in several, and the others are files there."""
    tasks = tasks_for(len(prepared.settings.cells), BUCKETS_A_TASK, TASKS_EVEN)
    places = {name: prepared.at(table) for name, table in BY_NAME.items()}
    work = Work(prepared.settings, places, tasks, out)
    return prepared.spark.range(0, tasks, 1, tasks).mapInArrow(work, EXPECTED.struct)


def earliest(found: DataFrame) -> DataFrame:
    """Of pairs that matched in several buckets the first match."""
    return found.groupBy("event_id", "subscription_id").agg(
        F.min_by("subscriber", "at_us").alias("subscriber"), F.min("at_us").alias("at_us")
    )


class Work:
    """What a worker does with the tasks it is given. Holds nothing but names and numbers: it travels to every one."""

    def __init__(self, settings: Settings, places: dict[str, str], tasks: int, out: str | None) -> None:
        self.settings, self.places, self.tasks, self.out = settings, places, tasks, out

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        cells = self.settings.cells
        for batch in batches:
            for task in batch["id"].to_pylist():
                for number in dealt_to(task, self.tasks, len(cells)):
                    yield from self.judged(*cells[number])
        settle()

    def judged(self, bucket: int, cell: int) -> Iterator[Any]:
        judge = judge_of(self.settings, self.places, bucket, cell)
        if judge is None:
            return
        with Finished(self.out, f"{bucket:05d}-{cell:04d}.parquet") as file:
            for event, life, at_us in judge.matches():
                final = judge.final(event, life) & (self.out is not None)
                side = judge.side
                file.write(pair_rows(side.events, side.lives, event[final], life[final], at_us[final]))
                if not final.all():
                    rest = pair_rows(side.events, side.lives, event[~final], life[~final], at_us[~final])
                    yield rest.cast(EXPECTED.schema).combine_chunks().to_batches()[0]


def judge_of(settings: Settings, places: dict[str, str], bucket: int, cell: int) -> "Judge | None":
    """A bucket, or a cell of it, with what it needs; None where no event meets a subscription."""
    from roamcast.spark.oracle.judge import Judge  # its compiler takes a second to import: only who judges needs it

    start_us, stop_us = settings.borders[bucket], settings.borders[bucket + 1]
    bins = settings.bins_of(bucket)

    def rows(table: Table, coded: tuple[str, ...] = ()) -> Any:
        parts = [bin_rows(places[table.name], table, each, coded) for each in bins]
        own, *wider = parts
        return pa.concat_tables([own, *(during(part, start_us, stop_us) for part in wider)], promote_options="none")

    events, lives = rows(EVENTS), rows(LIVES)
    if not len(events) or not len(lives):
        return None
    tracks, side = rows(TRACKS, ("host",)).unify_dictionaries(), settings.side_of(bucket)
    if side > 1:
        events, lives = in_cell(cell, side, tracks, events, lives, settings.space, start_us, stop_us)
        if not len(events) or not len(lives):
            return None
    return Judge(settings, start_us, stop_us, tracks, rows(STATES), events, lives)


def bin_rows(place: str, table: Table, number: int, coded: tuple[str, ...]) -> Any:
    """Bins that many buckets share are read once by a worker."""
    return (kept_bin if number < BINS_KEPT else read_bin)(place, table.name, number, coded)


def read_bin(place: str, name: str, number: int, coded: tuple[str, ...]) -> Any:
    """The rows of a bin; none where there is no directory for it. Coded columns stay dictionaries."""
    table = BY_NAME[name]
    wanted = pa.schema([coded_field(field, coded) for field in table.schema if field.name != "bin"])
    files, path = file_system(f"{place}/bin={number}")
    if files.get_file_info(path).type == arrow_fs.FileType.NotFound:
        return wanted.empty_table()
    return pq.read_table(path, filesystem=files, partitioning=None, schema=wanted, read_dictionary=list(coded))


kept_bin = lru_cache(maxsize=BINS_KEPT)(read_bin)
BY_NAME = {table.name: table for table in (TRACKS, STATES, EVENTS, LIVES)}


def coded_field(field: Any, coded: tuple[str, ...]) -> Any:
    return pa.field(field.name, pa.dictionary(pa.int32(), field.type)) if field.name in coded else field


def during(rows: Any, start_us: int, stop_us: int) -> Any:
    """The rows that touch a bucket; `stop_us` is exclusive, as `until_us` is, while `end_us` is included."""
    if not len(rows):
        return rows
    stretch = "from_us" in rows.column_names
    first, last = (rows[name].to_numpy() for name in (("from_us", "until_us") if stretch else ("begin_us", "end_us")))
    return rows.filter(pa.array((first < stop_us) & (last - stretch >= start_us)))


def pair_rows(events: Any, lives: Any, event: Rows, life: Rows, at_us: Rows) -> Any:
    """Pairs as rows of `expected`, from the tables of events and subscriptions and their rows."""
    columns = [
        coded(events["event_id"], event),
        coded(lives["subscription_id"], life),
        coded(lives["subscriber"], life),
        pa.array(at_us, pa.int64()),
    ]
    return pa.Table.from_arrays(columns, names=EXPECTED.columns)


def coded(column: Any, rows: Rows) -> Any:
    """The texts at these rows, each text once: they are written as they are, and never spelt out."""
    used = np.zeros(len(column), np.bool_)
    used[rows] = True
    code = np.cumsum(used, dtype=np.int32) - 1
    texts = one_array(column).take(pa.array(np.flatnonzero(used)))
    return pa.DictionaryArray.from_arrays(pa.array(code[rows], pa.int32()), texts)
