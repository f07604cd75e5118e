"""Columns of a table to Arrow and back.

To Arrow nothing is refused that the model lets pass, because a host must not stop for its journal: a time beyond
64 bits becomes the nearest that fits, half a surrogate pair in a text a question mark. From Arrow nothing is
accepted that the model would refuse; the error names the column.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from roamcast.journal.records import BadJournal, Record
from roamcast.journal.schema import HEADER, INTEGER, Column, Row, Table

INT64_MAX = 2**63 - 1
TRANSPOSED_ROWS = 256
"""Rows that are turned into columns at a time: few enough to stay in the processor's cache, which halves the cost."""


class Columns:
    """What waits for the next segment of one table, column by column.

    Of a table with nested columns whole records wait: as plain values they take some twenty times as much.
    """

    __slots__ = ("hosts", "is_nested", "records", "sequences", "table", "times_us", "values")

    def __init__(self, table: Table) -> None:
        self.table = table
        self.is_nested = table.is_nested
        self.hosts: list[str] = []
        self.sequences: list[int] = []
        self.times_us: list[int] = []
        self.values: list[list[Any]] = [] if self.is_nested else [[] for _ in table.columns]
        self.records: list[Record] = []

    def __len__(self) -> int:
        return len(self.hosts)

    def append(self, host: str, sequence: int, at_us: int, row: Row) -> None:
        self.hosts.append(host)
        self.sequences.append(sequence)
        self.times_us.append(at_us)
        for values, value in zip(self.values, row, strict=True):
            values.append(value)

    def append_record(self, sequence: int, record: Record) -> None:
        self.hosts.append(record.host)
        self.sequences.append(sequence)
        self.times_us.append(record.at_us)
        self.records.append(record)

    def trim(self) -> None:
        """Leaves out a last row that an interrupt has cut short."""
        rest = [self.records] if self.is_nested else self.values
        columns: list[list[Any]] = [self.hosts, self.sequences, self.times_us, *rest]
        rows = min(map(len, columns))
        for column in columns:
            del column[rows:]

    def arrow(self, incarnation: int) -> Any:
        table = self.table
        self.trim()
        own = transposed(table, self.records) if self.is_nested else self.values
        columns: list[Sequence[Any]] = [self.hosts, [incarnation] * len(self), self.sequences, self.times_us, *own]
        arrays = [
            array_of(values, column, table) for values, column in zip(columns, (*HEADER, *table.columns), strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=table.schema)


class Prepared(Struct, frozen=True):
    """Rows of a table that are columns of Arrow already."""

    table: Table
    columns: Any

    def arrow(self, incarnation: int) -> Any:
        opening = pa.array(np.full(self.columns.num_rows, incarnation, np.int64))
        arrays = [
            opening if field.name == "incarnation" else self.columns.column(field.name).cast(field.type)
            for field in self.table.schema
        ]
        return pa.Table.from_arrays(arrays, schema=self.table.schema)


def transposed(table: Table, records: Sequence[Record]) -> list[list[Any]]:
    found: list[list[Any]] = [[] for _ in table.columns]
    for start in range(0, len(records), TRANSPOSED_ROWS):
        rows = [table.row(record) for record in records[start : start + TRANSPOSED_ROWS]]
        for values, more in zip(found, zip(*rows, strict=True), strict=True):
            values.extend(more)
    return found


def numbered(columns: Any, sequences: MutableMapping[str, Iterator[int]]) -> Any:
    """With the sequence number of each row, counted on in `sequences`; `host` is a dictionary and becomes text."""
    hosts = columns.column("host").combine_chunks()
    numbers = hosts.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(numbers, kind="stable")
    present, first, counts = np.unique(numbers[order], return_index=True, return_counts=True)
    names = hosts.dictionary.take(pa.array(present)).to_pylist()
    counted = np.array([next(sequences[name]) for name in names], np.int64)
    found = np.empty(len(numbers), np.int64)
    found[order] = np.arange(len(numbers)) + np.repeat(counted - first, counts)
    for name, next_number in zip(names, (counted + counts).tolist(), strict=True):
        sequences[name] = count(next_number)
    texts = columns.set_column(columns.schema.get_field_index("host"), "host", hosts.cast(pa.string()))
    return texts.append_column("sequence", pa.array(found))


def array_of(values: Sequence[Any], column: Column, table: Table) -> Any:
    try:
        return pa.array(values, column.type)
    except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
        pass
    try:
        return pa.array([mended(value, column.type) for value in values], column.type)
    except (TypeError, ValueError, OverflowError) as problem:
        raise BadJournal(f"table '{table.name}', field '{column.name}': {problem}") from problem


def mended(value: Any, type_: Any) -> Any:
    """The nearest value that the type can hold."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {part.name: mended(value.get(part.name), part.type) for part in type_}
    if pa.types.is_map(type_):
        return [(mended(name, type_.key_type), mended(part, type_.item_type)) for name, part in value]
    if pa.types.is_list(type_):
        return [mended(part, type_.value_type) for part in value]
    if type_ == INTEGER and isinstance(value, int):
        return max(-INT64_MAX - 1, min(INT64_MAX, value))
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return float(value) if pa.types.is_floating(type_) else value


def from_arrow(table: Table, arrow: Any, where: str) -> Iterator[tuple[int, int, Record]]:
    """Incarnation, sequence number and record of each row; `where` names the file in errors."""
    hosts, incarnations, sequences, times = (arrow.column(column.name).to_pylist() for column in HEADER)
    columns = [values_of(column, arrow.column(column.name).to_pylist(), where) for column in table.columns]
    for index, row in enumerate(zip(hosts, times, *columns, strict=True)):
        try:
            record = table.make(*row)
        except (TypeError, ValueError) as problem:
            raise BadJournal(f"{where}: row {index} is not a record of '{table.name}': {problem}") from problem
        yield incarnations[index], sequences[index], record


def values_of(column: Column, plain: list[Any], where: str) -> list[Any]:
    if not column.nullable and None in plain:
        raise BadJournal(f"{where}: field '{column.name}' is null in row {plain.index(None)}, and must not be")
    if column.value is None:
        return plain
    value = column.value
    found = []
    for index, part in enumerate(plain):
        try:
            found.append(value(part))
        except (TypeError, ValueError, KeyError) as problem:
            raise BadJournal(f"{where}: field '{column.name}' in row {index}: {problem}") from problem
    return found
