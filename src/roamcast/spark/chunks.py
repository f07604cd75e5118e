"""Tracks of a journal that was ingested: workers write most of them straight from its files.

Time is cut into chunks of some buckets. A worker reads the moves of a chunk with Arrow, puts them in order, and
writes every stretch that begins and ends in it to its bin. What is left are the first and the last move of each host
in each chunk, which `tracks` joins over chunks in Spark. So few rows pass through Java, where sorting and writing all
of them takes four times as much CPU.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from roamcast.journal.schema import DOUBLE, FLAG, INTEGER, TEXT
from roamcast.model.filter.mask import Flags
from roamcast.spark.files import Finished
from roamcast.spark.journal import Piece
from roamcast.spark.ledger import read_rows
from roamcast.spark.oracle.boxes import Rows
from roamcast.spark.settings import Settings
from roamcast.spark.tables import TRACKS, UNREADABLE_FILE, BadPipeline, columns, struct_of
from roamcast.spark.workers import settle, tasks_for

BUCKETS_A_TASK = 8
PLACED = ("x", "y", "velocity_east", "velocity_north")
LEFT = columns(
    host=TEXT,
    incarnation=INTEGER,
    sequence=INTEGER,
    at_us=INTEGER,
    **dict.fromkeys(PLACED, DOUBLE),
    up=FLAG,
    open=FLAG,
)
"""Moves at the ends of chunks; `open`: the stretch that begins with it is not written yet."""


def written_in_chunks(spark: SparkSession, pieces: tuple[Piece, ...], settings: Settings, place: str) -> DataFrame:
    """Lazy: whoever writes what is left has the rest written below `place`."""
    tasks = tasks_for(settings.buckets, BUCKETS_A_TASK, BUCKETS_A_TASK)
    edges = [number * settings.buckets // tasks for number in range(tasks + 1)]
    times = [settings.borders[edge] for edge in edges]
    parts = [
        [each for each in pieces if each.first_us < stop_us and each.last_us >= start_us]
        for start_us, stop_us in pairwise(times)
    ]
    work = Chunks(settings, place, times, parts)
    return spark.range(0, tasks, 1, tasks).mapInArrow(work, struct_of(LEFT))


class Chunks:
    def __init__(self, settings: Settings, place: str, times: list[int], parts: list[list[Piece]]) -> None:
        self.settings, self.place, self.times, self.parts = settings, place, times, parts

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for task in batch["id"].to_pylist():
                moves = self.moves(task)
                if len(moves):
                    yield from self.write(moves, task).cast(LEFT).to_batches()
        settle()

    def moves(self, task: int) -> Any:
        """Of a chunk, in the order of hosts and times."""
        last_us = min(self.times[task + 1] - 1, self.settings.until_us)
        names = [name for name in LEFT.names if name != "open"]
        found = []
        for file in sorted({each.file for each in self.parts[task]}):
            own = [each for each in self.parts[task] if each.file == file]
            first, stop = min(each.first_row for each in own), max(each.first_row + each.rows for each in own)
            rows = undamaged(own[0].place, file, first, stop - first, names)
            within = pc.and_(pc.greater_equal(rows["at_us"], self.times[task]), pc.less_equal(rows["at_us"], last_us))
            found.append(rows.filter(within))
        if not found:
            return LEFT.empty_table()
        moves = pa.concat_tables([each.set_column(0, "host", coded(each["host"])) for each in found])
        return in_order(moves.unify_dictionaries().combine_chunks())

    def write(self, moves: Any, task: int) -> Any:
        """Writes the stretches between two moves of the chunk; answers with the moves at its ends."""
        code = moves["host"].combine_chunks().indices.to_numpy()
        from_us = moves["at_us"].to_numpy()
        goes_on: Flags = np.append(code[1:] == code[:-1], False)
        begins = np.append(True, ~goes_on[:-1])
        until_us = np.append(from_us[1:], 0)
        there = np.flatnonzero(goes_on & moves["up"].to_numpy(zero_copy_only=False) & (from_us < until_us))
        bins = bins_of(from_us[there], until_us[there] - 1, self.settings)
        order = np.argsort(bins, kind="stable")
        stretches = moves.select(["host", "at_us", *PLACED]).take(pa.array(there[order]))
        stretches = stretches.add_column(2, "until_us", pa.array(until_us[there[order]]))
        stretches = stretches.rename_columns([name for name in TRACKS.columns if name != "bin"])
        numbers, counts = np.unique(bins, return_counts=True)
        for number, start, count in zip(numbers, np.cumsum(counts) - counts, counts, strict=True):
            with Finished(f"{self.place}/bin={number}", f"{task:05d}.parquet", dictionary=["host"]) as file:
                file.write(stretches.slice(start, count))
        ends = np.flatnonzero(begins | ~goes_on)
        return moves.take(pa.array(ends)).append_column("open", pa.array(~goes_on[ends]))


def undamaged(place: str, file: str, first: int, rows: int, names: list[str]) -> Any:
    try:
        return read_rows(place, file, first, rows, names, ("host",))
    except (pa.ArrowException, OSError) as problem:
        raise BadPipeline(f"{UNREADABLE_FILE} {place}/{file} : {problem}") from problem


def coded(column: Any) -> Any:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def in_order(moves: Any) -> Any:
    """By host, time, incarnation and sequence number."""
    code, at_us = moves["host"].combine_chunks().indices.to_numpy().astype(np.int64), moves["at_us"].to_numpy()
    # Of one host moves nearly always have different times and come in their order.
    order = np.lexsort((at_us, code))
    same = (code[order[1:]] == code[order[:-1]]) & (at_us[order[1:]] == at_us[order[:-1]])
    if same.any():
        order = np.lexsort((moves["sequence"].to_numpy(), moves["incarnation"].to_numpy(), at_us, code))
    return moves.take(pa.array(order))


def bins_of(first_us: Rows, last_us: Rows, settings: Settings) -> Rows:
    """The smallest bin that holds all of a time, as `prepare.in_bins` has it."""
    leaf, other = (
        np.clip(np.searchsorted(settings.borders, each, "right") - 1, 0, settings.buckets - 1) + settings.leaves
        for each in (first_us, last_us)
    )
    found: Rows = leaf >> np.frexp((leaf ^ other).astype(float))[1]
    return found
