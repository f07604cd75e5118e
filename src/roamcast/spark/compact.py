"""Compaction (P1): many small files of a table become few large ones, and no record is lost or doubled.

Every batch of ingest writes files of its own, and one that follows a live system leaves thousands, which cost more to
open than to read. Workers merge neighbours into new files; then the ledger is published with where the rows lie
now. Killed before that, a compaction has changed nothing. The files that were replaced stay for those who still read
the version before, and go with the next compaction.
"""

import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from roamcast.spark.files import file_system, infos_in
from roamcast.spark.ingest import Output, run
from roamcast.spark.ledger import Ledger, file_name, read_rows
from roamcast.spark.published import ABANDONED_S, Tables
from roamcast.spark.tables import JOURNAL, SEGMENTS

FILE_BYTES = 64 * 1024 * 1024
"""What a merged file is about to have; files of half as much are left as they are."""

Row = dict[str, Any]


class Compacted(Struct, frozen=True):
    """What a compaction did."""

    files: int
    into: int


class Merge(Struct, frozen=True):
    """Segments of a table, by the rows that they have in small files."""

    table: str
    rows: list[Row]

    @property
    def files(self) -> set[str]:
        return {row["file"] for row in self.rows}


def compact(tables: Tables, file_bytes: int = FILE_BYTES, keep_s: float = ABANDONED_S) -> Compacted:
    """`keep_s`: how old a file must be that no ledger names before it is removed."""
    ledger = Ledger.of(tables, ranges=True)
    merges = [merge for table in JOURNAL for merge in planned(tables, ledger, table, file_bytes)]
    if merges:
        moved = {row["path"]: row for row in run(tables.spark, len(merges), Merging(tables.root, merges))}
        rows = [moved.get(row["path"], row) for row in ledger.rows.to_pylist()]
        ledger.replace(tables, pa.Table.from_pylist(rows, schema=SEGMENTS.schema))
    remove_unnamed(tables, ledger, keep_s)
    return Compacted(sum(len(merge.files) for merge in merges), len(merges))


def planned(tables: Tables, ledger: Ledger, table: str, file_bytes: int) -> list[Merge]:
    sizes = {file_name(info.path): info.size for info in infos_in(tables.place(table))}
    of = ledger.of_table(table)
    merges: list[Merge] = []
    rows: list[Row] = []
    size = 0
    for file in sorted(ledger.files(table)):
        if sizes.get(file, file_bytes) >= file_bytes // 2:
            continue
        if rows and size + sizes[file] > file_bytes:
            merges.append(Merge(table, rows))
            rows, size = [], 0
        rows = rows + of.filter(pc.equal(of["file"], file)).sort_by("first_row").to_pylist()
        size += sizes[file]
    merges.append(Merge(table, rows))
    return [merge for merge in merges if len(merge.files) > 1]


class Merging:
    """Merges on the workers, and answers with the ledger's rows as they are then."""

    def __init__(self, root: str, merges: list[Merge]) -> None:
        self.root, self.merges = root, merges

    def __call__(self, task: int) -> list[Row]:
        merge, output = self.merges[task], Output(self.root)
        found = []
        for row in merge.rows:
            rows = read_rows(f"{self.root}/{merge.table}", row["file"], row["first_row"], row["rows"])
            name, first = output.add(merge.table, rows)
            found.append(row | {"file": name, "first_row": first})
        output.finish()
        return found


def remove_unnamed(tables: Tables, before: Ledger, keep_s: float) -> None:
    """Files that neither this ledger nor the one before names: left by a killed writer or an earlier compaction."""
    now = Ledger.of(tables)
    for table in JOURNAL:
        files, _ = file_system(tables.place(table))
        named = {*now.files(table), *before.files(table)}
        for info in infos_in(tables.place(table)):
            old = info.mtime is None or time.time() - info.mtime.timestamp() >= keep_s
            if info.is_file and file_name(info.path) not in named and old:
                files.delete_file(info.path)
