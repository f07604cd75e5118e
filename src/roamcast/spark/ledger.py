"""The ledger of ingest: a row for each file of the journal, what became of it, and where its rows lie in the tables.

The ledger is what makes the tables of the journal: a file of rows that no ledger names is not there. It is published
like any other table (`published.py`), so a batch that is killed has taken nothing, and a compaction appears at once.
Workers write the files of rows, many segments in one (`Output`), and read them by the ledger (`read_rows`).
"""

import secrets
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from roamcast.spark.files import file_system
from roamcast.spark.published import Tables, Version
from roamcast.spark.segment import BY_NAME
from roamcast.spark.tables import RANGE, SEGMENTS, BadPipeline, Table
from roamcast.spark.workers import answers

PARTS_MAX = 32
"""Of the ledger; beyond that they become one."""
TAKEN, QUARANTINED = "taken", "quarantined"
GROUP_ROWS = 131_072
FILE_ROWS = 4_000_000

Row = dict[str, Any]
"""Of the ledger: a segment, and where its rows lie."""


class Ledger:
    def __init__(self, version: Version | None, rows: Any) -> None:
        self.version, self.rows = version, rows

    @classmethod
    def of(cls, tables: Tables, *, ranges: bool = False) -> "Ledger":
        """`ranges`: with the sequence numbers of each file, which are most of it."""
        version = tables.current(SEGMENTS.name)
        names = [name for name in SEGMENTS.columns if ranges or name != "ranges"]
        schema = pa.schema([SEGMENTS.schema.field(name) for name in names])
        if version is None:
            return cls(None, schema.empty_table())
        parts = [read_part(f"{tables.place(SEGMENTS.name)}/{part}", schema) for part in version.parts]
        return cls(version, pa.concat_tables(parts))

    @property
    def number(self) -> int:
        return 0 if self.version is None else self.version.number

    @property
    def taken(self) -> Any:
        return self.rows.filter(pc.equal(self.rows["status"], TAKEN))

    def of_table(self, table: str) -> Any:
        taken = self.taken
        return taken.filter(pc.and_(pc.equal(taken["table"], table), pc.greater(taken["rows"], 0)))

    def after(self, batch: int) -> Any:
        """Segments with rows that came after a batch."""
        taken = self.taken
        return taken.filter(pc.and_(pc.greater(taken["batch"], batch), pc.greater(taken["rows"], 0)))

    def files(self, table: str) -> list[str]:
        """The files that hold the rows of a table."""
        return sorted(self.of_table(table)["file"].unique().to_pylist())

    def next_batch(self) -> int:
        return 1 + (pc.max(self.rows["batch"]).as_py() or 0)

    def add(self, tables: Tables, rows: Any) -> None:
        """Publishes the ledger with these rows more; raises `Taken` if it is not the current one any more."""
        kept = () if self.version is None else self.version.parts
        if len(kept) >= PARTS_MAX:
            whole = Ledger.of(tables, ranges=True)
            kept, rows = (), pa.concat_tables([whole.rows, rows])
        self._publish(tables, kept, rows)

    def replace(self, tables: Tables, rows: Any) -> None:
        self._publish(tables, (), rows)

    def _publish(self, tables: Tables, kept: tuple[str, ...], rows: Any) -> None:
        part = tables.draft(SEGMENTS.name)
        place = f"{tables.place(SEGMENTS.name)}/{part}"
        files, within = file_system(place)
        files.create_dir(within, recursive=True)
        pq.write_table(
            rows.select(SEGMENTS.columns).cast(SEGMENTS.schema), f"{within}/part.parquet", filesystem=files
        )
        tables.publish(SEGMENTS.name, (*kept, part), after=self.number)


def read_part(place: str, schema: Any) -> Any:
    files, within = file_system(place)
    found = pq.read_table(within, filesystem=files, partitioning=None, columns=schema.names)
    return found.cast(schema)


def journal_table(tables: Tables, ledger: Ledger, table: Table) -> DataFrame:
    """The rows of a table of the journal as they were taken in, each once."""
    return tables.parquet(table, [f"{tables.place(table.name)}/{file}" for file in ledger.files(table.name)])


def check_files(tables: Tables, ledger: Ledger, table: Table) -> None:
    """Refuses a table of which somebody removed files: Spark would say so only when it reads them."""
    files, within = file_system(tables.place(table.name))
    for file in ledger.files(table.name):
        if not files.get_file_info(f"{within}/{file}").is_file:
            raise BadPipeline(f"{tables.place(table.name)}: table '{table.name}' is missing its file {file}")


def read_rows(
    place: str, file: str, first: int, rows: int, names: list[str] | None = None, coded: tuple[str, ...] = ()
) -> Any:
    """Some rows of a file, and some of its columns, `coded` as dictionaries; other row groups are not read."""
    files, within = file_system(f"{place}/{file}")
    with files.open_input_file(within) as opened, pq.ParquetFile(opened, read_dictionary=list(coded)) as parquet:
        ends = np.cumsum([0, *(parquet.metadata.row_group(n).num_rows for n in range(parquet.num_row_groups))])
        wanted = np.flatnonzero((ends[1:] > first) & (ends[:-1] < first + rows))
        if not len(wanted):
            return parquet.schema_arrow.remove_metadata().empty_table()
        found = parquet.read_row_groups(wanted.tolist(), columns=names)
    return pa.table(found.columns, schema=found.schema.remove_metadata()).slice(first - int(ends[wanted[0]]), rows)


def file_name(path: str) -> str:
    return PurePosixPath(path).name


# Rows that workers write.


def ledger_rows(spark: SparkSession, tasks: int, work: Callable[[int], list[Row]]) -> list[Row]:
    """The ledger's rows that so many tasks answer with, by path."""
    found = pa.concat_tables(table for (table,) in answers(spark, tasks, lambda task: [as_table(work(task))]))
    return sorted(as_rows(found), key=itemgetter("path"))


def as_rows(segments: Any) -> list[Row]:
    """Ranges stay what they are in Arrow: hosts may be many, and are asked about in columns."""
    plain = segments.drop_columns("ranges").to_pylist()
    return [row | {"ranges": ranges} for row, ranges in zip(plain, segments["ranges"], strict=True)]


def as_table(rows: Sequence[Row]) -> Any:
    """Of rows with ranges as Arrow has them, or as lists."""
    ranges = [row["ranges"] for row in rows]
    values = [each.values if isinstance(each, pa.ListScalar) else pa.array(each, RANGE) for each in ranges]
    ends = np.cumsum([0, *map(len, values)])
    every = pa.concat_arrays([pa.array([], RANGE), *values])
    plain = pa.Table.from_pylist([{**row, "ranges": None} for row in rows], schema=SEGMENTS.schema)
    column = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), every)
    return plain.set_column(plain.column_names.index("ranges"), "ranges", column)


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
            writer = pq.ParquetWriter(
                f"{place}/{name}",
                rows.schema,
                filesystem=files,
                compression="zstd",
                write_statistics=["at_us"],
                **BY_NAME[table].encoding,
            )
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
    return ledger_rows(tables.spark, len(segments), Moving(tables.root, segments)) if segments else []
