"""One file of a journal, as a worker judges and takes it in: whole, of this version, and with rows that make sense.

A file is taken or quarantined. What is wrong with one that is not taken is said in a sentence that names the file and
the field; it stays where it is, and the ledger has it as `quarantined`. Two kinds of rows are left out of a good file
and counted: those that another file brought already, and those whose time cannot be meant, years away from the rest.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from roamcast.journal.columns import from_arrow
from roamcast.journal.layout import Segment, segment_of
from roamcast.journal.reader import check_schema
from roamcast.journal.records import BadJournal
from roamcast.journal.schema import DOUBLE, HEADER
from roamcast.journal.schema import TABLES as JOURNAL_TABLES
from roamcast.journal.schema import Table as JournalTable
from roamcast.spark.files import file_system, path_within
from roamcast.spark.tables import RANGE

FAR_US = 10 * 365 * 86_400 * 1_000_000
"""A record so far from the middle of its file, or a file so far from its journal, has a time that cannot be meant."""
KEY = ["host", "incarnation", "sequence"]
BY_NAME = {table.name: table for table in JOURNAL_TABLES}
CHECKED_ROWS = 4_096
"""Nested rows are made into records to see whether they can be, so many at a time."""


def check_place(path: str, version: str) -> None:
    """Refuses what lies deeper: in its table a clean file has its segment's name, and two would share one."""
    if PurePosixPath(path_within(path)).parent.parent != PurePosixPath(path_within(version)):
        raise BadJournal(f"{path}: does not lie in a table's directory, {version}/<table>")


def table_of(path: str) -> JournalTable:
    """The journal's table that a file belongs to, by the directory it lies in."""
    name = PurePosixPath(path).parent.name
    if name not in BY_NAME:
        raise BadJournal(f"{path}: lies in '{name}', which is not a table of a journal")
    return BY_NAME[name]


def named(path: str) -> Segment:
    segment = segment_of(PurePosixPath(path))  # type: ignore[arg-type]
    if segment is None:
        raise BadJournal(f"{path}: is not named as a segment, <writer>-<incarnation>-<number>.parquet")
    return segment


def read_segment(path: str) -> tuple[Any, Any, int]:
    """The rows of a file, found to be in order; whose they are; and how many were left out for their time. Raises
    `BadJournal` for a file that cannot be taken."""
    table = table_of(path)
    segment = named(path)
    files, within = file_system(path)
    try:
        with files.open_input_file(within) as opened, pq.ParquetFile(opened) as file:
            known, missing = evolved(file.schema_arrow, table)
            check_schema(pa.schema([*known, *missing], file.schema_arrow.metadata), table, path)  # type: ignore[arg-type]
            rows = file.read(columns=[field.name for field in known])
    except (OSError, pa.ArrowException) as problem:
        raise BadJournal(f"{path}: damaged, not a whole Parquet file ({problem})") from problem
    for field in missing:
        rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    check_rows(rows, table, segment, path)
    kept = plausible(rows)
    check_clock(kept, path)
    ordered = kept.select(table.schema.names).cast(table.schema.remove_metadata())
    return ordered, ranges_of(rows), len(rows) - len(kept)


def evolved(found: Any, table: JournalTable) -> tuple[list[Any], list[Any]]:
    """The columns of a file that this program knows, and those it may lack: another version of roamcast wrote it."""
    nullable = {column.name for column in (*HEADER, *table.columns) if column.nullable}
    known = [found.field(name) for name in table.schema.names if name in found.names]
    lacking = [field for field in table.schema if field.name not in found.names]
    return known, [field for field in lacking if field.name in nullable]


def plausible(rows: Any) -> Any:
    """The rows whose time is not years away from the middle of all."""
    if not len(rows):
        return rows
    at_us = rows["at_us"].to_numpy()
    near = np.abs(at_us - np.median(at_us)) <= FAR_US
    return rows if near.all() else rows.filter(pa.array(near))


def check_rows(rows: Any, table: JournalTable, segment: Segment, path: str) -> None:
    for column in (*HEADER, *table.columns):
        cells = rows[column.name]
        if not column.nullable and cells.null_count:
            raise BadJournal(f"{path}: field '{column.name}' is null in {cells.null_count} rows, and must not be")
        if column.type == DOUBLE and not pc.all(pc.is_finite(cells), min_count=0).as_py():
            raise BadJournal(f"{path}: field '{column.name}' is not a finite number in every row")
    if len(rows) and pc.any(pc.not_equal(rows["incarnation"], segment.incarnation)).as_py():
        raise BadJournal(f"{path}: field 'incarnation' is not {segment.incarnation} in every row, as its name says")
    if any(pa.types.is_nested(column.type) for column in table.columns):
        for start in range(0, len(rows), CHECKED_ROWS):
            for _ in from_arrow(table, rows.slice(start, CHECKED_ROWS), path):
                pass


def check_clock(rows: Any, path: str) -> None:
    """Within a host, later records have later times and greater numbers."""
    host = rows["host"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    sequence, at_us = rows["sequence"].to_numpy(), rows["at_us"].to_numpy()
    order = np.lexsort((sequence, host))
    same = host[order][1:] == host[order][:-1]
    for name, steps in (("sequence", np.diff(sequence[order]) <= 0), ("at_us", np.diff(at_us[order]) < 0)):
        wrong = np.flatnonzero(same & steps)
        if len(wrong):
            row = int(order[wrong[0] + 1])
            what = "is there twice" if name == "sequence" else "goes backwards"
            who = rows["host"][row].as_py()
            raise BadJournal(f"{path}: field '{name}' {what} for host '{who}' at sequence {int(sequence[row])}")


def ranges_of(rows: Any) -> Any:
    """The sequence numbers of each host, as the ledger has them: as one value of Arrow, since hosts may be many."""
    found = rows.group_by(["host", "incarnation"]).aggregate(
        [("sequence", "min"), ("sequence", "max"), ("sequence", "count")]
    )
    columns = ("host", "incarnation", "sequence_min", "sequence_max", "sequence_count")
    plain = pa.table([found[name] for name in columns], RANGE.names).cast(pa.schema(RANGE.fields))
    ranges = plain.sort_by([("host", "ascending"), ("incarnation", "ascending")]).to_struct_array().combine_chunks()
    return pa.ListArray.from_arrays(pa.array([0, len(ranges)], pa.int32()), ranges)[0]


def without_known(rows: Any, others: Sequence[Any], path: str) -> Any:
    """The rows that none of the other files has; raises if one of them has another record under the same number."""
    if not others:
        return rows
    known = pa.concat_tables(others)
    mine, theirs = common_rows(rows, known)
    there = keyed(known.take(pa.array(theirs)))
    for key, record in keyed(rows.take(pa.array(mine))).items():
        if there[key] != record:
            host, incarnation, sequence = key
            raise BadJournal(
                f"{path}: two records of host '{host}' in incarnation {incarnation} have sequence {sequence}"
            )
    keep = np.ones(len(rows), np.bool_)
    keep[mine] = False
    return rows.filter(pa.array(keep))


def common_rows(rows: Any, known: Any) -> tuple[Any, Any]:
    """The numbers of the rows on both sides that have a key in common."""
    mine = rows.select(KEY).append_column("mine", pa.array(np.arange(len(rows))))
    theirs = known.select(KEY).append_column("theirs", pa.array(np.arange(len(known))))
    both = mine.join(theirs, KEY, join_type="inner")
    return np.unique(both["mine"].to_numpy()), np.unique(both["theirs"].to_numpy())


def keyed(rows: Any) -> dict[tuple[str, int, int], dict[str, Any]]:
    return {(row["host"], row["incarnation"], row["sequence"]): row for row in rows.to_pylist()}
