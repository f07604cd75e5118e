"""Verdicts and totals of an ingested journal, which workers make straight from its files.

    expected, deliveries, publications ──▶ dealt by event into parts ──▶ verdicts, and counts of them ──▶ totals

`audit.py` says the same in Spark's own terms, for frames of any kind. Here no row passes through Java, where sorting
and writing pairs takes several times as much CPU: workers deal the rows of each event to one part, by a hash of its
name; then each part is compared as a whole, and only counts go to Spark. Memory is that of a part.
"""

import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from roamcast.journal.schema import DOUBLE, INTEGER, TEXT
from roamcast.spark.dealing import dealt_to, settle, tasks_for
from roamcast.spark.files import Finished, file_system, infos_in
from roamcast.spark.ledger import Ledger, read_rows
from roamcast.spark.oracle.attributes import one_array
from roamcast.spark.oracle.boxes import Rows
from roamcast.spark.published import Tables
from roamcast.spark.settings import Settings
from roamcast.spark.tables import DELIVERIES, EXPECTED, PUBLICATIONS, TOTALS, VERDICTS, columns, struct_of
from roamcast.spark.totals import COUNTED, counts_of, summed

WORKSHOP = "auditing"
"""Where rows lie that are dealt and not yet compared."""
PART_ROWS = 1_000_000
PIECE_ROWS = 500_000
TASKS_EVEN = 8
NAMES = ("event_id", "subscription_id", "subscriber")
READ = {
    EXPECTED.name: (*NAMES, "at_us"),
    DELIVERIES.name: (*NAMES, "at_us"),
    PUBLICATIONS.name: ("event_id", "at_us", "subject", "publisher.x", "publisher.y"),
}
CODED = (*NAMES, "subject")
DEALT = columns(rows=INTEGER)


class Piece(NamedTuple):
    """Rows of a file."""

    table: str
    place: str
    file: str
    first: int
    rows: int


def write_verdicts(tables: Tables, settings: Settings) -> None:
    """Publishes `verdicts` and `totals`, of `expected` and the journal as they are now."""
    pieces = [*pieces_of(tables), *pieces_expected(tables)]
    parts = max(1, sum(piece.rows for piece in pieces) // PART_ROWS)
    part = tables.draft(VERDICTS.name)
    workshop = f"{tables.place(WORKSHOP)}/{part}"
    spark = tables.spark
    try:
        if pieces:
            tasks = tasks_for(len(pieces), len(pieces), TASKS_EVEN)
            spark.range(0, tasks, 1, tasks).mapInArrow(
                Deal(pieces, tasks, parts, workshop), struct_of(DEALT)
            ).collect()
        compare = Compare(f"{tables.place(VERDICTS.name)}/{part}", workshop, settings)
        files, within = file_system(f"{tables.place(VERDICTS.name)}/{part}")
        files.create_dir(within, recursive=True)
        counted: DataFrame = spark.range(0, parts, 1, parts).mapInArrow(compare, struct_of(COUNTED))
        place = tables.draft(TOTALS.name)
        summed(counted, settings).write.parquet(f"{tables.place(TOTALS.name)}/{place}")
    finally:
        files, within = file_system(workshop)
        files.delete_dir_contents(within, missing_dir_ok=True)
    tables.publish(VERDICTS.name, (part,))
    tables.publish(TOTALS.name, (place,))


def pieces_of(tables: Tables) -> Iterator[Piece]:
    """Of the journal, from the ledger; segments that lie beside each other in a file are read together."""
    ledger = Ledger.of(tables)
    for table in (DELIVERIES, PUBLICATIONS):
        of = ledger.of_table(table.name).sort_by([("file", "ascending"), ("first_row", "ascending")])
        held: Piece | None = None
        for file, first, rows in zip(*(of[name].to_pylist() for name in ("file", "first_row", "rows")), strict=True):
            beside = held is not None and (held.file, held.first + held.rows) == (file, first)
            if held is not None and beside and held.rows < PIECE_ROWS:
                held = held._replace(rows=held.rows + rows)
                continue
            if held is not None:
                yield held
            held = Piece(table.name, tables.place(table.name), file, first, rows)
        if held is not None:
            yield held


def pieces_expected(tables: Tables) -> Iterator[Piece]:
    for place in tables.paths(EXPECTED.name):
        files, _ = file_system(place)
        for info in infos_in(place):
            if info.base_name.endswith(".parquet"):
                with files.open_input_file(info.path) as opened:
                    rows = pq.read_metadata(opened).num_rows
                if rows:
                    yield Piece(EXPECTED.name, place, info.base_name, 0, rows)


class Deal:
    """Writes the rows of pieces to parts, all of an event to one."""

    def __init__(self, pieces: list[Piece], tasks: int, parts: int, place: str) -> None:
        self.pieces, self.tasks, self.parts, self.place = pieces, tasks, parts, place

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for task in batch["id"].to_pylist():
                rows = sum(self.dealt(number) for number in dealt_to(task, self.tasks, len(self.pieces)))
                yield pa.RecordBatch.from_arrays([pa.array([rows], INTEGER)], schema=DEALT)
        settle()

    def dealt(self, number: int) -> int:
        piece = self.pieces[number]
        names = READ[piece.table]
        coded = tuple(name for name in CODED if name in names)
        rows = flat(read_rows(piece.place, piece.file, piece.first, piece.rows, list(names), coded))
        part = part_of(rows["event_id"], self.parts)
        order = np.argsort(part, kind="stable")
        sorted_ = rows.take(pa.array(order))
        ends = np.cumsum(np.bincount(part, minlength=self.parts))
        for each, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
            with Finished(
                f"{self.place}/{each}/{piece.table}", f"{number:06d}.parquet", dictionary=list(CODED)
            ) as file:
                file.write(sorted_.slice(start, stop - start))
        return len(rows)


def flat(rows: Any) -> Any:
    """With the coordinates of a publisher as columns, and names as dictionaries."""
    if "publisher" in rows.column_names:
        publisher = one_array(rows["publisher"])
        rows = rows.drop_columns("publisher")
        for name in ("x", "y"):
            rows = rows.append_column(name, pc.struct_field(publisher, name))
    for name in set(CODED) & set(rows.column_names):
        number = rows.column_names.index(name)
        if not pa.types.is_dictionary(rows[name].type):
            rows = rows.set_column(number, name, rows[name].dictionary_encode())
    return plain(rows)


def plain(rows: Any) -> Any:
    """In one piece, and as if anything could be null: whether it can is said by some files and not by others."""
    whole = rows.unify_dictionaries().combine_chunks()
    return pa.table(whole.columns, names=whole.column_names)


def part_of(names: Any, parts: int) -> Rows:
    column = one_array(names)
    known = np.array([zlib.crc32(name.encode()) % parts for name in column.dictionary.to_pylist()], np.int64)
    return known[column.indices.to_numpy()] if len(known) else np.zeros(0, np.int64)


class Compare:
    """Of each part what was expected and delivered, pair by pair; answers with counts."""

    def __init__(self, place: str, workshop: str, settings: Settings) -> None:
        self.place, self.workshop, self.settings = place, workshop, settings

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for part in batch["id"].to_pylist():
                verdicts = self.verdicts(part)
                if len(verdicts):
                    with Finished(self.place, f"{part:05d}.parquet", dictionary=list(CODED)) as file:
                        file.write(verdicts)
                    yield from counts_of(verdicts, self.settings).to_batches()
        settle()

    def verdicts(self, part: int) -> Any:
        expected, delivered, published = (self.rows(part, name) for name in READ)
        delivered = delivered.filter(pc.less_equal(delivered["at_us"], self.settings.until_us))
        pairs = pairs_of(expected, delivered)
        event = one_array(pairs["event_id"])
        first = first_published(published, event.dictionary)
        row = pa.array(first[event.indices.to_numpy()], mask=first[event.indices.to_numpy()] < 0)
        of_event = {name: one_array(published[name]).take(row) for name in ("subject", "at_us", "x", "y")}
        due_us = pc.coalesce(pairs["expected_us"], of_event["at_us"])
        late_us = pc.subtract(pairs["delivered_us"], due_us)
        found = {
            **{name: pairs[name] for name in NAMES},
            "subject": of_event["subject"],
            "expected": pc.is_valid(pairs["expected_us"]),
            "times": pairs["times"],
            "published_us": of_event["at_us"],
            "expected_us": pairs["expected_us"],
            "delivered_us": pairs["delivered_us"],
            # What matches between two looks may be delivered before the oracle looks again.
            "latency_us": pc.max_element_wise(late_us, 0, skip_nulls=False),
            "x": of_event["x"],
            "y": of_event["y"],
        }
        return pa.table(found)

    def rows(self, part: int, table: str) -> Any:
        files, within = file_system(f"{self.workshop}/{part}/{table}")
        if files.get_file_info(within).type == arrow_fs.FileType.NotFound:
            return flat(EMPTY[table].empty_table())
        coded = [name for name in CODED if name in READ[table]]
        found = pq.read_table(within, filesystem=files, partitioning=None, read_dictionary=coded)
        return plain(found)


TIMED = columns(**dict.fromkeys(NAMES, TEXT), at_us=INTEGER)
EMPTY = {
    EXPECTED.name: TIMED,
    DELIVERIES.name: TIMED,
    PUBLICATIONS.name: columns(event_id=TEXT, at_us=INTEGER, subject=TEXT, x=DOUBLE, y=DOUBLE),
}


def pairs_of(expected: Any, delivered: Any) -> Any:
    """Each pair once: names, expected_us, times, delivered_us."""
    both = pa.concat_tables([expected, delivered]).unify_dictionaries().combine_chunks()
    wanted = np.arange(len(both)) < len(expected)
    at_us = both["at_us"].combine_chunks()
    names = [one_array(both[name]) for name in NAMES]
    table = pa.table(
        {
            **{name: column.indices for name, column in zip(NAMES, names, strict=True)},
            "expected_us": pc.if_else(pa.array(wanted), at_us, None),
            "delivered_us": pc.if_else(pa.array(wanted), None, at_us),
        }
    )
    found = table.group_by(list(NAMES), use_threads=False).aggregate(
        [("expected_us", "min"), ("delivered_us", "count"), ("delivered_us", "min")]
    )
    again = {
        name: pa.DictionaryArray.from_arrays(one_array(found[name]), column.dictionary)
        for name, column in zip(NAMES, names, strict=True)
    }
    times = {"expected_us": "expected_us_min", "times": "delivered_us_count", "delivered_us": "delivered_us_min"}
    return pa.table({**again, **{name: found[of] for name, of in times.items()}})


def first_published(published: Any, names: Any) -> Rows:
    """For each event the row of its first publication; -1 for one that was not published."""
    event = one_array(published["event_id"])
    code = event.indices.to_numpy()
    order = np.lexsort((published["at_us"].to_numpy(), code))
    first = order[np.flatnonzero(np.diff(code[order], prepend=-1))]
    row_of = np.full(len(event.dictionary) + 1, -1)
    row_of[code[first]] = first
    where = pc.index_in(names, value_set=event.dictionary).fill_null(-1).to_numpy()
    found: Rows = row_of[where]
    return found
