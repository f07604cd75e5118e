"""The ledger of ingest: a row for each file of the journal, what became of it, and where its rows lie in the tables.

The ledger is what makes the tables of the journal: a file of rows that no ledger names is not there. It is published
like any other table (`published.py`), so a batch that is killed has taken nothing, and a compaction appears at once.
"""

from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from roamcast.spark.files import file_system
from roamcast.spark.published import Tables, Version
from roamcast.spark.tables import SEGMENTS, BadPipeline, Table

PARTS_MAX = 32
"""Of the ledger; beyond that they become one."""
TAKEN, QUARANTINED = "taken", "quarantined"


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
