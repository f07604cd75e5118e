"""Writing a journal: records are kept in memory, and go to disk together as one segment.

A *segment* is what was recorded since the last one, a Parquet file for each table that has something, all under one
number. It is bounded in rows and bytes. Its files are written under names that readers ignore, fsynced, and only
when all of them are whole renamed one after the other to their final names. A process that is killed leaves whole
files and perhaps hidden ones, never a part of a file.

Opening a journal writes segment 0 at once: the `Run`, and every other table without rows, so that each table has a
schema for whoever looks. That also claims the *incarnation*, the number of this opening in its directory: a host
that was restarted counts its records from 0 again, under a greater incarnation. (host, incarnation, sequence) is
unique, and a host's sequence numbers run through all tables without a gap.

Recording is a few dictionary steps and an append; all else happens once a segment. A writer belongs to one thread.
A write that fails closes the journal: the error says why, and later records are refused, not silently dropped.
"""

import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec
import pyarrow.parquet as pq
from msgspec import Struct

from roamcast.journal.columns import numbered, to_arrow, with_incarnation
from roamcast.journal.layout import Segment, leftovers, temporary_name, used_incarnations, writer_name
from roamcast.journal.plain import plain_filter
from roamcast.journal.records import RUN_ENDED, BadJournal, Noted, Record, Run, UnwritableRecord
from roamcast.journal.schema import TABLES, VERSION_DIRECTORY, Table
from roamcast.model.filter.bad_filter import BadFilter

SEGMENT_ROWS_MAX = 131_072
SEGMENT_BYTES_MAX = 16 * 1024 * 1024
"""Of weighed records in MessagePack; their columns take some twenty times as much while a segment is written."""
UNWEIGHABLE_BYTES = 65_536
"""What a record counts that MessagePack cannot write: rare, and then better too heavy."""

ENCODER = msgspec.msgpack.Encoder()


class Recorder(Protocol):
    """Where a runtime puts what happened: a `Journal`, or a `NullJournal` for runs without one."""

    def record(self, record: Record) -> None: ...

    def flush(self) -> None:
        """What was recorded so far becomes visible to readers."""
        ...

    def end(self, at_us: int) -> None:
        """The run is over, and this is when it ended; closes the journal."""
        ...

    def close(self) -> None: ...


class NullJournal:
    """Keeps nothing."""

    def record(self, record: Record) -> None:
        pass

    def flush(self) -> None:
        pass

    def end(self, at_us: int) -> None:
        pass

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        pass


class Buffer:
    """What waits for the next segment of one table: sequence numbers and records."""

    __slots__ = ("entries", "table", "weighed")

    def __init__(self, table: Table) -> None:
        self.table = table
        self.weighed = table.weighed
        self.entries: list[tuple[int, Record]] = []

    def arrow(self, incarnation: int) -> Any:
        return to_arrow(self.table, self.entries, incarnation)


class Prepared(Struct, frozen=True):
    """Rows of a table that are columns already."""

    table: Table
    columns: Any

    def arrow(self, incarnation: int) -> Any:
        return with_incarnation(self.table, self.columns, incarnation)


class Journal:
    """One opening of the journal in `directory`.

    Without an `incarnation` the next free one is taken: right for a live host that may have been restarted. A
    simulation gives 0, because its bytes must not depend on what the directory held; it is refused one that is used.
    What is not `durable` is not fsynced: a killed process loses no visible segment, a power failure may, which is
    good enough for what can be computed again.
    """

    def __init__(
        self,
        directory: Path,
        run: Run,
        *,
        incarnation: int | None = None,
        durable: bool = True,
        segment_rows_max: int = SEGMENT_ROWS_MAX,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
    ) -> None:
        if segment_rows_max < 1 or segment_bytes_max < 1:
            raise BadJournal("a segment holds at least 1 row and 1 byte")
        self.directory = directory / VERSION_DIRECTORY
        self.host = run.host
        self.writer = writer_name(run.host)
        for table in TABLES:
            (self.directory / table.name).mkdir(parents=True, exist_ok=True)
        used = used_incarnations(self.directory)
        if incarnation is not None and incarnation in used:
            raise BadJournal(f"{directory}: holds a journal already; give an empty directory or remove it")
        self.incarnation = max(used, default=-1) + 1 if incarnation is None else incarnation
        for path in leftovers(self.directory, self.writer):
            path.unlink(missing_ok=True)
        self.segment = 0
        self._durable = durable
        self._rows_max = self._rows_left = segment_rows_max
        self._bytes_max = self._bytes_left = segment_bytes_max
        self._sequences: defaultdict[str, int] = defaultdict(int)
        self._buffers = {table.record: Buffer(table) for table in TABLES}
        self._buffers[Run].entries.append((0, run))
        self._sequences[run.host] = 1
        self._write_buffers(list(self._buffers.values()))
        # A run describes an opening, so there is one in each.
        del self._buffers[Run]

    def record(self, record: Record) -> None:
        buffer = self._buffers.get(type(record))
        if buffer is None:
            raise self._refusal(record)
        if buffer.weighed:
            check_filters(buffer.table, record)
            self._bytes_left -= weight_bytes(record)
        host = record.host
        sequence = self._sequences[host]
        self._sequences[host] = sequence + 1
        # One append for both, so that an interrupt cannot part a record from its number.
        buffer.entries.append((sequence, record))
        self._rows_left -= 1
        if self._rows_left <= 0 or self._bytes_left <= 0:
            self.flush()

    def flush(self) -> None:
        filled = [buffer for buffer in self._buffers.values() if buffer.entries]
        if filled:
            self._write_buffers(filled)

    def record_columns(self, kind: type[Record], columns: Any) -> None:
        """Many records of one kind, in their order: an Arrow table of all columns but incarnation and sequence, with
        `host` as a dictionary. They are visible when this returns."""
        buffer = self._buffers.get(kind)
        if buffer is None:
            raise BadJournal(f"{self.directory}: {kind.__name__} cannot be recorded, or the journal is closed")
        self.flush()
        for start in range(0, columns.num_rows, self._rows_max):
            part = columns.slice(start, self._rows_max).combine_chunks()
            self._write([Prepared(buffer.table, numbered(part, self._sequences))])

    def end(self, at_us: int) -> None:
        """Says that the run ended, and when; its last record. A journal that is only closed was cut."""
        self.record(Noted(self.host, at_us, RUN_ENDED))
        self.close()

    def close(self) -> None:
        """Writes what is left; after that nothing can be recorded. Closing again does nothing."""
        self.flush()
        self._buffers = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def _write_buffers(self, buffers: Sequence[Buffer]) -> None:
        self._write(buffers)
        for buffer in buffers:
            buffer.entries = []

    def _write(self, parts: Sequence[Buffer | Prepared]) -> None:
        file_name = Segment(self.writer, self.incarnation, self.segment).file_name
        places = [self.directory / part.table.name for part in parts]
        try:
            for place, part in zip(places, parts, strict=True):
                write_file(place / temporary_name(file_name), part, self.incarnation, durable=self._durable)
            for place in places:
                appear(place, file_name)
            for place in places if self._durable else ():
                sync_directory(place)
        except BaseException:
            self._buffers = {}
            for place in places:
                (place / temporary_name(file_name)).unlink(missing_ok=True)
            raise
        self.segment += 1
        self._rows_left = self._rows_max
        self._bytes_left = self._bytes_max

    def _refusal(self, record: Record) -> BadJournal:
        if not self._buffers:
            return BadJournal(f"{self.directory}: the journal is closed; nothing more can be recorded")
        return BadJournal(f"{self.directory}: {type(record).__name__} cannot be recorded")


def check_filters(table: Table, record: Record) -> None:
    for filter_ in table.filters(record):
        if filter_ is not None:
            try:
                plain_filter(filter_)
            except BadFilter as problem:
                raise UnwritableRecord(
                    f"table '{table.name}': a filter of this record cannot be written: {problem}"
                ) from problem


def weight_bytes(record: Record) -> int:
    try:
        return len(ENCODER.encode(record))
    except (OverflowError, UnicodeEncodeError):
        return UNWEIGHABLE_BYTES


def write_file(path: Path, part: Buffer | Prepared, incarnation: int, *, durable: bool) -> None:
    arrow: Any = part.arrow(incarnation)
    with open(path, "wb") as file:
        rows = max(1, arrow.num_rows)
        pq.write_table(arrow, file, compression="zstd", row_group_size=rows, **part.table.encoding)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def appear(place: Path, file_name: str) -> None:
    final = place / file_name
    if final.exists():
        raise BadJournal(f"{final}: is there already; does another process write as the same host?")
    os.replace(place / temporary_name(file_name), final)


def sync_directory(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
