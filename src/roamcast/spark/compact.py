"""Compaction (P1): many small files of a table become few large ones, and no record is lost or doubled.

Every batch of ingest writes files of its own, and one that follows a live system leaves thousands, which cost more to
open than to read. Workers merge neighbours into new files; then the ledger is published with where the rows lie
now. Killed before that, a compaction has changed nothing. The files that were replaced stay for those who still read
the version before, and go with the next compaction.
"""

import time

import pyarrow.compute as pc
from msgspec import Struct

from roamcast.spark.files import file_system, infos_in
from roamcast.spark.ledger import Ledger, Row, as_rows, as_table, file_name, move
from roamcast.spark.published import ABANDONED_S, Tables
from roamcast.spark.tables import JOURNAL

FILE_BYTES = 64 * 1024 * 1024
"""What a merged file is about to have; files of half as much are left as they are."""


class Compacted(Struct, frozen=True):
    """What a compaction did."""

    files: int
    into: int


def compact(tables: Tables, file_bytes: int = FILE_BYTES, keep_s: float = ABANDONED_S) -> Compacted:
    """`keep_s`: how old a file must be that no ledger names before it is removed."""
    ledger = Ledger.of(tables, ranges=True)
    merges = [merge for table in JOURNAL for merge in planned(tables, ledger, table, file_bytes)]
    if merges:
        moved = {row["path"]: row for row in move(tables, merges)}
        ledger.replace(tables, as_table([moved.get(row["path"], row) for row in as_rows(ledger.rows)]))
    remove_unnamed(tables, ledger, keep_s)
    return Compacted(sum(len(files_of(merge)) for merge in merges), len(merges))


def planned(tables: Tables, ledger: Ledger, table: str, file_bytes: int) -> list[list[Row]]:
    """Segments whose rows lie in small files, a list for each file that these become."""
    sizes = {file_name(info.path): info.size for info in infos_in(tables.place(table))}
    of = ledger.of_table(table)
    merges: list[list[Row]] = [[]]
    size = 0
    for file in ledger.files(table):
        if sizes.get(file, file_bytes) >= file_bytes // 2:
            continue
        if merges[-1] and size + sizes[file] > file_bytes:
            merges.append([])
            size = 0
        merges[-1] += as_rows(of.filter(pc.equal(of["file"], file)).sort_by("first_row"))
        size += sizes[file]
    return [merge for merge in merges if len(files_of(merge)) > 1]


def files_of(segments: list[Row]) -> set[str]:
    return {row["file"] for row in segments}


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
