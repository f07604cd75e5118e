"""Files of rows that workers write into the tables of the journal, many segments in one; the ledger has the rest."""

import secrets
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from roamcast.spark.dealing import settle
from roamcast.spark.files import file_system
from roamcast.spark.ledger import read_rows
from roamcast.spark.published import Tables
from roamcast.spark.tables import SEGMENTS, struct_of

GROUP_ROWS = 131_072
FILE_ROWS = 4_000_000

Row = dict[str, Any]
"""Of the ledger: a segment, and where its rows lie."""


def run(spark: SparkSession, tasks: int, work: Callable[[int], list[Row]]) -> list[Row]:
    """The ledger's rows that so many tasks answer with."""

    def answers(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for task in batch["id"].to_pylist():
                yield from pa.Table.from_pylist(work(task), schema=SEGMENTS.schema).to_batches()
        settle()

    frame = spark.range(0, tasks, 1, tasks).mapInArrow(answers, struct_of(SEGMENTS.schema))
    found = frame.toArrow()
    # Ranges stay as they are: hosts may be many, and are asked about in columns.
    plain: list[Row] = found.drop_columns("ranges").to_pylist()
    complete: list[Row] = [row | {"ranges": ranges} for row, ranges in zip(plain, found["ranges"], strict=True)]
    return sorted(complete, key=itemgetter("path"))


class Output:
    """Files of rows that a task writes, one for each table; a name is never used twice."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.waiting: dict[str, list[Any]] = {}
        self.writers: dict[str, tuple[str, Any, int]] = {}

    def add(self, table: str, rows: Any) -> tuple[str, int]:
        """The file that has these rows, and where they begin in it."""
        if table in self.writers and self.writers[table][2] >= FILE_ROWS:
            self.close(table)
        if table not in self.writers:
            name = f"{secrets.token_hex(8)}.parquet"
            files, place = file_system(f"{self.root}/{table}")
            files.create_dir(place, recursive=True)
            writer = pq.ParquetWriter(f"{place}/{name}", rows.schema, filesystem=files, compression="zstd")
            self.writers[table] = (name, writer, 0)
        name, writer, first = self.writers[table]
        self.writers[table] = (name, writer, first + len(rows))
        waiting = self.waiting.setdefault(table, [])
        waiting.append(rows)
        if sum(map(len, waiting)) >= GROUP_ROWS:
            self.flush(table)
        return name, first

    def flush(self, table: str) -> None:
        if self.waiting[table]:
            self.writers[table][1].write_table(pa.concat_tables(self.waiting[table]), row_group_size=GROUP_ROWS)
        self.waiting[table] = []

    def close(self, table: str) -> None:
        self.flush(table)
        self.writers.pop(table)[1].close()

    def finish(self) -> None:
        for table in list(self.writers):
            self.close(table)


class Moving:
    """Moves the rows of segments into new files, a list of segments of one table to a file."""

    def __init__(self, root: str, segments: list[list[Row]]) -> None:
        self.root, self.segments = root, segments

    def __call__(self, task: int) -> list[Row]:
        output, moved = Output(self.root), []
        for row in self.segments[task]:
            rows = read_rows(f"{self.root}/{row['table']}", row["file"], row["first_row"], row["rows"])
            name, first = output.add(row["table"], rows)
            moved.append(row | {"file": name, "first_row": first})
        output.finish()
        return moved


def move(tables: Tables, segments: list[list[Row]]) -> list[Row]:
    """The ledger's rows of these segments when their rows lie in files of their own, a file for each list."""
    return run(tables.spark, len(segments), Moving(tables.root, segments)) if segments else []
