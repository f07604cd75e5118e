"""Verdicts and totals of an ingested journal, which workers make straight from its files.

    expected, deliveries, publications ──▶ dealt by event into parts ──▶ verdicts, counts and examples ──▶ totals

`audit.py` says the same in Spark's own terms, for frames of any kind. Here no row passes through Java, where sorting
and writing pairs takes several times as much CPU: workers deal the rows of each event to one part, by a hash of its
name; then each part is compared as a whole, and only counts and examples come to the driver. Memory is that of a
part.
"""

import secrets
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from roamcast.journal.schema import DOUBLE, INTEGER, TEXT
from roamcast.model.filter.mask import Flags
from roamcast.spark.audit import PAIR
from roamcast.spark.files import Finished, file_system, infos_in
from roamcast.spark.ledger import Ledger, read_rows
from roamcast.spark.oracle.attributes import one_array
from roamcast.spark.oracle.boxes import Rows
from roamcast.spark.published import Tables
from roamcast.spark.settings import Settings
from roamcast.spark.tables import DELIVERIES, EXAMPLES, EXPECTED, PUBLICATIONS, TOTALS, VERDICTS, columns
from roamcast.spark.totals import COUNTED, counts_of, merged, summed
from roamcast.spark.workers import answers, dealt_to, tasks_for

WORKSHOP = "auditing"
"""Where rows lie that are dealt and not yet compared."""
PART_ROWS = 1_000_000
PARTS_A_TASK = 16
PIECE_ROWS = 500_000
HELD_ROWS = 2_000_000
"""That a worker deals at a time."""
TASKS_EVEN = 8
EXAMPLES_MAX = 20
"""Of each kind."""
NAMES = ("event_id", "subscription_id", "subscriber")
READ = {
    EXPECTED.name: (*NAMES, "at_us"),
    DELIVERIES.name: (*NAMES, "at_us"),
    PUBLICATIONS.name: ("event_id", "at_us", "subject", "publisher.x", "publisher.y"),
}
CODED = (*NAMES, "subject")
SHUFFLED = pa.ipc.IpcWriteOptions(compression="lz4")
DEALT = columns(rows=INTEGER)


class Piece(NamedTuple):
    """Rows of a file."""

    table: str
    place: str
    file: str
    first: int
    rows: int


def write_verdicts(tables: Tables, settings: Settings) -> None:
    """Publishes `verdicts`, `examples` and `totals`, of `expected` and the journal as they are now."""
    pieces = [*pieces_of(tables), *pieces_expected(tables)]
    parts = max(1, sum(piece.rows for piece in pieces) // PART_ROWS)
    part = tables.draft(VERDICTS.name)
    workshop, place = (f"{tables.place(name)}/{part}" for name in (WORKSHOP, VERDICTS.name))
    files, within = file_system(place)
    files.create_dir(within, recursive=True)
    try:
        tasks = max(1, min(len(pieces), TASKS_EVEN))
        list(answers(tables.spark, tasks, Deal(pieces, tasks, parts, workshop)))
        tasks = tasks_for(parts, PARTS_A_TASK, TASKS_EVEN)
        compared = list(answers(tables.spark, tasks, Compare(place, workshop, parts, tasks, settings)))
    finally:
        files, within = file_system(workshop)
        files.delete_dir_contents(within, missing_dir_ok=True)
    counted, examples = (pa.concat_tables(each) for each in zip(*compared, strict=True))
    tables.publish(VERDICTS.name, (part,))
    tables.put(EXAMPLES, first_of_each_kind(examples))
    tables.put(TOTALS, summed(counted, settings))


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

    def __call__(self, task: int) -> list[Any]:
        held: dict[str, list[Any]] = {name: [] for name in READ}
        dealt = 0
        for number in dealt_to(task, self.tasks, len(self.pieces)):
            piece = self.pieces[number]
            held[piece.table].append(rows_of(piece))
            if sum(map(len, held[piece.table])) >= HELD_ROWS:
                dealt += self.write(piece.table, held.pop(piece.table), f"{number:06d}")
                held[piece.table] = []
        dealt += sum(self.write(name, some, f"last-{task:04d}") for name, some in held.items() if some)
        return [pa.table([[dealt]], DEALT)]

    def write(self, table: str, some: list[Any], name: str) -> int:
        rows = whole(pa.concat_tables(some))
        part = part_of(rows["event_id"], self.parts)
        rows = rows.take(pa.array(np.argsort(part, kind="stable")))
        ends = np.cumsum(np.bincount(part, minlength=self.parts)).tolist()
        for number, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
            if start < stop:
                files, place = file_system(f"{self.place}/{number}/{table}")
                files.create_dir(place, recursive=True)
                own = pa.table(
                    {
                        each.name: trimmed(column)
                        for each, column in zip(rows.schema, rows.slice(start, stop - start).columns, strict=True)
                    }
                )
                # Two attempts at a task may be under way at the same time.
                partial = f"{place}/.{name}.{secrets.token_hex(4)}"
                with (
                    files.open_output_stream(partial) as stream,
                    pa.ipc.new_stream(stream, own.schema, options=SHUFFLED) as file,
                ):
                    file.write_table(own)
                files.move(partial, f"{place}/{name}.arrow")
        return len(rows)


def rows_of(piece: Piece) -> Any:
    names = READ[piece.table]
    coded = tuple(name for name in CODED if name in names)
    return flat(read_rows(piece.place, piece.file, piece.first, piece.rows, list(names), coded))


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
    return pa.table(rows.columns, names=rows.column_names)


def whole(rows: Any) -> Any:
    """In one piece, and as if anything could be null: whether it can is said by some files and not by others."""
    found = rows.unify_dictionaries().combine_chunks()
    return pa.table(found.columns, names=found.column_names)


def trimmed(column: Any) -> Any:
    """A dictionary without texts that no row has."""
    column = one_array(column)
    if not pa.types.is_dictionary(column.type):
        return column
    indices, used = column.indices, np.zeros(len(column.dictionary), np.bool_)
    used[indices.drop_null().to_numpy()] = True
    code = pa.array(np.cumsum(used, dtype=np.int32) - 1)
    return pa.DictionaryArray.from_arrays(code.take(indices), column.dictionary.filter(pa.array(used)))


def part_of(names: Any, parts: int) -> Any:
    column = one_array(names)
    known = np.array([zlib.crc32(name.encode()) % parts for name in column.dictionary.to_pylist()], np.uint16)
    return known[column.indices.to_numpy()] if len(known) else known


class Compare:
    """Of each part what was expected and delivered, pair by pair; answers with counts and examples."""

    def __init__(self, place: str, workshop: str, parts: int, tasks: int, settings: Settings) -> None:
        self.place, self.workshop, self.parts, self.tasks = place, workshop, parts, tasks
        self.settings = settings

    def __call__(self, task: int) -> list[Any]:
        counted, examples = [COUNTED.empty_table()], [EXAMPLES.schema.empty_table()]
        for part in dealt_to(task, self.tasks, self.parts):
            verdicts = self.verdicts(part)
            if len(verdicts):
                with Finished(self.place, f"{part:05d}.parquet", dictionary=list(CODED)) as file:
                    file.write(verdicts)
                counted = [merged(pa.concat_tables([*counted, counts_of(verdicts, self.settings)]))]
                examples.append(examples_of(verdicts))
        return [counted[0], first_of_each_kind(pa.concat_tables(examples))]

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
        found = [flat(EMPTY[table].empty_table())]
        place = f"{self.workshop}/{part}/{table}"
        files, _ = file_system(place)
        for info in (each for each in infos_in(place) if each.base_name.endswith(".arrow")):
            with files.open_input_stream(info.path) as stream, pa.ipc.open_stream(stream) as file:
                found.append(file.read_all())
        return whole(pa.concat_tables(found))


def examples_of(verdicts: Any) -> Any:
    """Of each kind of pair that went wrong the first, by the names of event and subscription."""
    wanted, times = (one_array(verdicts[name]).to_numpy(zero_copy_only=False) for name in ("expected", "times"))
    kinds = {"missed": wanted & (times == 0), "unwanted": ~wanted, "duplicate": wanted & (times > 1)}
    event = one_array(verdicts["event_id"])
    rank = np.empty(len(event.dictionary), np.int64)
    rank[pc.array_sort_indices(event.dictionary).to_numpy()] = np.arange(len(rank))
    of = rank[event.indices.to_numpy()]
    found = [EXAMPLES.schema.empty_table()]
    for kind, wrong in kinds.items():
        rows = verdicts.filter(pa.array(wrong & first_events(of, wrong)))
        rows = rows.append_column("kind", pa.array([kind] * len(rows), TEXT))
        found.append(rows.select(EXAMPLES.columns).cast(EXAMPLES.schema))
    return first_of_each_kind(pa.concat_tables(found))


def first_events(rank: Rows, wrong: Flags) -> Flags:
    """The rows of as many first events as there must be for all examples."""
    counts = np.cumsum(np.bincount(rank[wrong]))
    found: Flags = rank <= np.searchsorted(counts, EXAMPLES_MAX)
    return found


def first_of_each_kind(examples: Any) -> Any:
    kinds = [examples.filter(pc.equal(examples["kind"], kind)) for kind in ("missed", "unwanted", "duplicate")]
    return pa.concat_tables(
        [each.sort_by([(name, "ascending") for name in PAIR]).slice(0, EXAMPLES_MAX) for each in kinds]
    )


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
