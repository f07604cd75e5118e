"""Reading a journal back into records: in order of time, whatever wrote them and into how many files.

The order is (time, host, incarnation, sequence). Row groups are opened only when their first record is due, so that
a journal much larger than memory can be read as long as its segments do not all overlap in time. A record that is
there twice, because a file was copied, is given once. Hidden files are not looked at; anything else that is not a
whole segment of this version is an error that names the file.
"""

import hashlib
import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from roamcast.journal.columns import from_arrow
from roamcast.journal.layout import segment_of, versions_in, visible_files
from roamcast.journal.records import BadJournal, Base, Record, Run
from roamcast.journal.schema import SCHEMA_VERSION, TABLE_KEY, TABLES, VERSION_DIRECTORY, VERSION_KEY, Table

HASH_CHUNK_BYTES = 1_048_576
AnyRecord = TypeVar("AnyRecord", bound=Base)


class Entry(Struct, frozen=True):
    """A record and what makes it unique beside its host."""

    incarnation: int
    sequence: int
    record: Record

    @property
    def order(self) -> tuple[int, str, int, int]:
        return (self.record.at_us, self.record.host, self.incarnation, self.sequence)


class Piece(Struct, frozen=True):
    """A row group of a file, and the time of the earliest record in it."""

    first_us: int
    path: Path
    group: int
    table: Table


def read_entries(directory: Path, *kinds: type[Base]) -> Iterator[Entry]:
    """The records of the given kinds, or of all, in order. Errors are raised before the first record where they can
    be seen without reading the rows: a missing table, a file of another version, a damaged footer."""
    tables = [table for table in TABLES if not kinds or table.record in kinds]
    return merged(sorted_pieces(directory, tables))


def read_records(directory: Path, kind: type[AnyRecord]) -> Iterator[AnyRecord]:
    """The records of one kind, in order."""
    return (cast(AnyRecord, entry.record) for entry in read_entries(directory, kind))


def read_run(directory: Path) -> Run:
    """The run that the journal is of: its earliest one, which all others must agree with about the world."""
    runs = list(read_records(directory, Run))
    if not runs:
        raise BadJournal(f"{directory}: table 'runs' has no rows, so nothing says what the journal is of")
    for other in runs[1:]:
        for field in ("space", "neighbour_range_m", "movement_graph"):
            if getattr(other, field) != getattr(runs[0], field):
                raise BadJournal(
                    f"{directory}: table 'runs', field '{field}': '{runs[0].host}' and '{other.host}' differ"
                )
    return runs[0]


def journal_hash(directory: Path) -> str:
    """SHA-256 over names and bytes of all visible files: equal for two journals exactly if these are equal."""
    digest = hashlib.sha256()
    for path in sorted(path for table in TABLES for path in visible_files(table_directory(directory, table))):
        name = path.relative_to(directory).as_posix().encode()
        digest.update(len(name).to_bytes(8, "big") + name + path.stat().st_size.to_bytes(8, "big"))
        with open(path, "rb") as file:
            while chunk := file.read(HASH_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def table_directory(directory: Path, table: Table) -> Path:
    place = directory / VERSION_DIRECTORY / table.name
    if place.is_dir():
        return place
    if not directory.is_dir():
        raise BadJournal(f"{directory}: no such directory")
    versions = versions_in(directory)
    if not versions:
        raise BadJournal(f"{directory}: holds no journal; there is no directory {VERSION_DIRECTORY} in it")
    if SCHEMA_VERSION not in versions:
        raise BadJournal(f"{directory}: a journal of version {versions[-1]}; this program reads {SCHEMA_VERSION}")
    raise BadJournal(f"{place}: table '{table.name}' is missing")


def sorted_pieces(directory: Path, tables: Sequence[Table]) -> list[Piece]:
    pieces: list[Piece] = []
    for table in tables:
        place = table_directory(directory, table)
        files = visible_files(place)
        if not files:
            raise BadJournal(f"{place}: table '{table.name}' is missing; there is no segment of it")
        for path in files:
            pieces += pieces_of(path, table)
    return sorted(pieces, key=lambda piece: (piece.first_us, piece.path, piece.group))


def pieces_of(path: Path, table: Table) -> list[Piece]:
    if segment_of(path) is None:
        raise BadJournal(f"{path}: is not named as a segment, <writer>-<incarnation>-<number>.parquet")
    try:
        with pq.ParquetFile(path) as file:
            check_schema(file.schema_arrow, table, path)
            time_column = file.schema_arrow.get_field_index("at_us")
            groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
    except (OSError, pa.ArrowException) as problem:
        raise BadJournal(f"{path}: damaged, not a whole Parquet file ({problem})") from problem
    return [
        Piece(first_us_of(group.column(time_column).statistics), path, index, table)
        for index, group in enumerate(groups)
        if group.num_rows
    ]


def first_us_of(statistics: Any) -> int:
    # Without statistics (another writer's Parquet) the piece is opened first, which is never too late.
    return -(2**63) if statistics is None or not statistics.has_min_max else int(statistics.min)


def check_schema(found: Any, table: Table, path: Path) -> None:
    metadata = found.metadata or {}
    version = metadata.get(VERSION_KEY)
    if version is None:
        raise BadJournal(f"{path}: not written as a journal; its metadata has no '{VERSION_KEY.decode()}'")
    if version != str(SCHEMA_VERSION).encode():
        raise BadJournal(
            f"{path}: of schema version {version.decode(errors='replace')}; this program reads {SCHEMA_VERSION}"
        )
    if metadata.get(TABLE_KEY) != table.name.encode():
        raise BadJournal(
            f"{path}: holds table '{metadata.get(TABLE_KEY, b'').decode(errors='replace')}', not '{table.name}'"
        )
    wanted = table.schema
    for field in wanted:
        index = found.get_field_index(field.name)
        if index < 0:
            raise BadJournal(f"{path}: field '{field.name}' is missing")
        if found.field(index).type != field.type:
            raise BadJournal(f"{path}: field '{field.name}' is {found.field(index).type}, and must be {field.type}")
    for name in found.names:
        if wanted.get_field_index(name) < 0:
            raise BadJournal(f"{path}: field '{name}' is not one of table '{table.name}'")


def read_piece(piece: Piece) -> list[Entry]:
    try:
        with pq.ParquetFile(piece.path) as file:
            arrow = file.read_row_group(piece.group)
    except (OSError, pa.ArrowException) as problem:
        raise BadJournal(f"{piece.path}: damaged, its rows cannot be read ({problem})") from problem
    found = [Entry(*parts) for parts in from_arrow(piece.table, arrow, str(piece.path))]
    return sorted(found, key=lambda entry: entry.order)


def merged(pieces: Sequence[Piece]) -> Iterator[Entry]:
    """Of pieces in order of their first record: the smallest entry of all that are open, again and again."""
    heap: list[tuple[tuple[int, str, int, int], int, Entry, Iterator[Entry]]] = []
    opened = 0
    last: Entry | None = None
    while heap or opened < len(pieces):
        while opened < len(pieces) and (not heap or pieces[opened].first_us <= heap[0][0][0]):
            push(heap, opened, iter(read_piece(pieces[opened])))
            opened += 1
        _, number, entry, rest = heapq.heappop(heap)
        push(heap, number, rest)
        if last is not None and entry.order == last.order:
            if entry.record != last.record:
                raise BadJournal(
                    f"{pieces[number].path}: two records of host '{entry.record.host}' in incarnation "
                    f"{entry.incarnation} have sequence {entry.sequence}"
                )
            continue
        last = entry
        yield entry


def push(heap: list[Any], number: int, entries: Iterator[Entry]) -> None:
    entry = next(entries, None)
    if entry is not None:
        heapq.heappush(heap, (entry.order, number, entry, entries))
