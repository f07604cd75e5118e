"""Writing a journal: an observer that keeps what it is told in memory, column by column, and writes it as segments.

A *segment* is what was recorded since the last one, a Parquet file for each table that has something, all under one
number. It is bounded in rows and bytes. Its files are written under names that readers ignore, fsynced, and only
when all of them are whole renamed one after the other to their final names. A process that is killed leaves whole
files and perhaps hidden ones, never a part of a file.

Opening a journal writes segment 0 at once: the `Run`, and every other table without rows, so that each table has a
schema for whoever looks. That also claims the *incarnation*, the number of this opening in its directory: a host
that was restarted counts its records from 0 again, under a greater incarnation. (host, incarnation, sequence) is
unique, and a host's sequence numbers run through all tables without a gap.

Recording appends to lists, for all receivers of an event at once; all else happens once a segment. `record` is for
those who have a record; both ways lead to the same rows. A writer belongs to one thread. A write that fails closes
the journal: the error says why, and later records are refused, not silently dropped.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import pyarrow.parquet as pq

from roamcast.journal.columns import Columns, Prepared, numbered
from roamcast.journal.layout import Segment, leftovers, temporary_name, used_incarnations, writer_name
from roamcast.journal.plain import plain_filter, plain_point, plain_velocity
from roamcast.journal.records import (
    EVENT_WITHDRAWN,
    RUN_ENDED,
    Announced,
    BadJournal,
    ContextChange,
    Delivered,
    Move,
    Noted,
    Published,
    Record,
    Run,
    Subscribed,
    Transmitted,
    Unannounced,
    Unsubscribed,
    UnwritableRecord,
)
from roamcast.journal.schema import TABLES, VERSION_DIRECTORY, Row, Table
from roamcast.model.context import Context
from roamcast.model.event import Announcement, Event
from roamcast.model.filter.bad_filter import BadFilter
from roamcast.model.subscription import Subscription
from roamcast.model.values import Value
from roamcast.node.observer import Observer, SubscriptionIds

SEGMENT_ROWS_MAX = 131_072
SEGMENT_BYTES_MAX = 16 * 1024 * 1024
"""Of weighed records in MessagePack; their columns take some twenty times as much while a segment is written."""
UNWEIGHABLE_BYTES = 65_536
"""What a record counts that MessagePack cannot write: rare, and then better too heavy."""

ENCODER = msgspec.msgpack.Encoder()


class Journal(Observer):
    """One opening of the journal in `directory`.

    Without an `incarnation` the next free one is taken: right for a live host that may have been restarted. A
    simulation gives 0, because its bytes must not depend on what the directory held; it is refused one that is used.
    What is not `durable` is not fsynced: a killed process loses no visible segment, a power failure may, which is
    good enough for what can be computed again.
    """

    shared = False
    """Whether others write of the same hosts, in journals of their own."""

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
        self.dropped = 0
        """Rows that found no room."""
        self._durable = durable
        self._rows_max = self._rows_left = segment_rows_max
        self._bytes_max = self._bytes_left = segment_bytes_max
        self._attributes: dict[str, dict[str, Value]] = {}
        self._numbers: defaultdict[str, Iterator[int]] = defaultdict(count)
        """By host, its next sequence number."""
        self._columns = {table.record: Columns(table) for table in TABLES}
        self._columns[Run].append_record(next(self._numbers[run.host]), run)
        self._write(list(self._columns.values()))
        # A run describes an opening, so there is one in each.
        del self._columns[Run]

    # What is observed.

    def moved(self, now_us: int, context: Context) -> None:
        row = (
            *plain_point(context.position),
            *plain_velocity(context.velocity),
            *plain_point(context.destination),
            context.pause_us,
            context.pause_left_us,
            True,
        )
        self._append(Move, context.host, now_us, row)
        # Most moves leave the attributes as they are.
        if self._attributes.get(context.host) != context.attributes:
            self._attributes[context.host] = context.attributes
            self.record(ContextChange(context.host, now_us, context.attributes))

    def gone(self, now_us: int, host: str, to: str | None = None) -> None:
        if self.shared:
            # Its next context is written whole: somebody else may have written others meanwhile.
            self._attributes.pop(host, None)
        if to is None:
            self.record(Move.gone(host, now_us))

    def subscribed(self, now_us: int, host: str, subscription: Subscription) -> None:
        self._record_or_note(Subscribed(host, now_us, subscription))

    def unsubscribed(self, now_us: int, host: str, subscription_id: str) -> None:
        self._append(Unsubscribed, host, now_us, (subscription_id,))

    def announced(self, now_us: int, host: str, announcement: Announcement) -> None:
        self.record(Announced(host, now_us, announcement))

    def unannounced(self, now_us: int, host: str, announcement_id: str) -> None:
        self._append(Unannounced, host, now_us, (announcement_id,))

    def published(self, now_us: int, host: str, event: Event) -> None:
        self._record_or_note(Published(host, now_us, event))

    def withdrawn(self, now_us: int, host: str, event_id: str) -> None:
        self.noted(now_us, host, EVENT_WITHDRAWN, event_id)

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        self._append(Delivered, host, now_us, (event.id, subscription_id, host, None))

    def fanned_out(self, now_us: int, event: Event, hosts: Sequence[str], subscription_ids: SubscriptionIds) -> None:
        if None in subscription_ids:
            kept = [place for place, each in enumerate(subscription_ids) if each is not None]
            hosts, subscription_ids = [hosts[place] for place in kept], [subscription_ids[place] for place in kept]
        for start in range(0, len(hosts), self._rows_max):
            end = start + self._rows_max
            self._deliver(now_us, event.id, hosts[start:end], subscription_ids[start:end])

    def _deliver(self, now_us: int, event_id: str, hosts: Sequence[str], subscription_ids: SubscriptionIds) -> None:
        rows = len(hosts)
        if self._takes(now_us, rows):
            columns = self._columns[Delivered]
            columns.hosts.extend(hosts)
            columns.sequences.extend(map(next, map(self._numbers.__getitem__, hosts)))
            columns.times_us.extend([now_us] * rows)
            event_ids, subscriptions, subscribers, hops = columns.values
            event_ids.extend([event_id] * rows)
            subscriptions.extend(subscription_ids)
            subscribers.extend(hosts)
            hops.extend([None] * rows)

    def transmitted(
        self, now_us: int, host: str, message_type: str, size_bytes: int, to: str | None, event_id: str | None
    ) -> None:
        self._append(Transmitted, host, now_us, (message_type, size_bytes, to, event_id))

    def noted(self, now_us: int, host: str, what: str, detail: str) -> None:
        self.record(Noted(host, now_us, what, detail))

    # Rows.

    def record(self, record: Record) -> None:
        columns = self._columns.get(type(record))
        if columns is None:
            raise self._refusal(record)
        table = columns.table
        if table.weighed:
            check_filters(table, record)
        if not columns.is_nested:
            self._append(type(record), record.host, record.at_us, table.row(record))
        elif self._takes(record.at_us, 1):
            self._columns[type(record)].append_record(next(self._numbers[record.host]), record)
        if table.weighed:
            self._bytes_left -= weight_bytes(record)

    def _record_or_note(self, record: Published | Subscribed) -> None:
        """What a peer sends must not stop a host, even a filter that has no text."""
        try:
            self.record(record)
        except UnwritableRecord as problem:
            self.noted(record.at_us, record.host, "unwritable_record", str(problem))

    def _append(self, kind: type[Record], host: str, at_us: int, row: Row) -> None:
        if self._takes(at_us, 1):
            self._columns[kind].append(host, next(self._numbers[host]), at_us, row)

    def _takes(self, at_us: int, rows: int) -> bool:
        """Whether there is room for so many; what fills a segment is written first."""
        if rows > self._rows_left or self._bytes_left <= 0:
            if not self._columns:
                raise BadJournal(f"{self.directory}: the journal is closed; nothing more can be recorded")
            self.flush()
            if rows > self._rows_left or self._bytes_left <= 0:
                self.dropped += rows
                return False
        self._rows_left -= rows
        return True

    # Segments.

    def flush(self) -> None:
        """What was recorded so far becomes visible to readers."""
        filled = [columns for columns in self._columns.values() if len(columns)]
        if filled:
            self._write(filled)

    def record_columns(self, kind: type[Record], columns: Any) -> None:
        """Many records of one kind, in their order: an Arrow table of all columns but incarnation and sequence, with
        `host` as a dictionary. They are visible when this returns."""
        known = self._columns.get(kind)
        if known is None:
            raise BadJournal(f"{self.directory}: {kind.__name__} cannot be recorded, or the journal is closed")
        self.flush()
        for start in range(0, columns.num_rows, self._rows_max):
            part = columns.slice(start, self._rows_max).combine_chunks()
            self._write([Prepared(known.table, numbered(part, self._numbers))])

    def end(self, at_us: int) -> None:
        """Says that the run ended, and when; its last record. A journal that is only closed was cut."""
        self.record(Noted(self.host, at_us, RUN_ENDED))
        self.close()

    def close(self) -> None:
        """Writes what is left; after that nothing can be recorded. Closing again does nothing."""
        self.flush()
        self._refuse_more()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, filled: Sequence[Columns | Prepared]) -> None:
        try:
            self._write_files(self._segment(), filled)
        except BaseException:
            self._refuse_more()
            raise
        self._begin_segment(filled)

    def _segment(self) -> Segment:
        return Segment(self.writer, self.incarnation, self.segment)

    def _begin_segment(self, filled: Sequence[Columns | Prepared]) -> None:
        self.segment += 1
        self._rows_left = self._rows_max
        self._bytes_left = self._bytes_max
        for columns in filled:
            self._columns[columns.table.record] = Columns(columns.table)

    def _write_files(self, segment: Segment, filled: Sequence[Columns | Prepared]) -> None:
        file_name = segment.file_name
        places = [self.directory / columns.table.name for columns in filled]
        try:
            for place, columns in zip(places, filled, strict=True):
                write_file(place / temporary_name(file_name), columns, self.incarnation, durable=self._durable)
            for place in places:
                appear(place, file_name)
            for place in places if self._durable else ():
                sync_directory(place)
        except BaseException:
            for place in places:
                (place / temporary_name(file_name)).unlink(missing_ok=True)
            raise

    def _refuse_more(self) -> None:
        self._columns = {}
        self._rows_left = 0

    def _refusal(self, record: Record) -> BadJournal:
        if not self._columns:
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


def write_file(path: Path, columns: Columns | Prepared, incarnation: int, *, durable: bool) -> None:
    arrow: Any = columns.arrow(incarnation)
    with open(path, "wb") as file:
        rows = max(1, arrow.num_rows)
        pq.write_table(arrow, file, compression="zstd", row_group_size=rows, **columns.table.encoding)
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
