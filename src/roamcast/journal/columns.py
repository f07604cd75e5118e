"""Rows of a table to Arrow columns and back.

To Arrow nothing is refused that the model lets pass, because a host must not stop for its journal: a time beyond
64 bits becomes the nearest that fits, half a surrogate pair in a text a question mark. From Arrow nothing is
accepted that the model would refuse; the error names the column.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from roamcast.journal.records import BadJournal, Record
from roamcast.journal.schema import HEADER, INTEGER, Column, Table

INT64_MAX = 2**63 - 1
TRANSPOSED_ROWS = 256
"""Rows that are turned into columns at a time: few enough to stay in the processor's cache, which halves the cost."""


def to_arrow(table: Table, entries: Sequence[tuple[int, Record]], incarnation: int) -> Any:
    """The Arrow table of records with their sequence numbers."""
    columns = (*HEADER, *table.columns)
    transposed: list[list[Any]] = [[] for _ in columns]
    for start in range(0, len(entries), TRANSPOSED_ROWS):
        rows = [
            (record.host, incarnation, sequence, record.at_us, *table.row(record))
            for sequence, record in entries[start : start + TRANSPOSED_ROWS]
        ]
        for values, more in zip(transposed, zip(*rows, strict=True), strict=True):
            values.extend(more)
    arrays = [array_of(values, column, table) for values, column in zip(transposed, columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=table.schema)


def numbered(columns: Any, sequences: MutableMapping[str, int]) -> Any:
    """With the sequence number of each row, counted on in `sequences`; `host` is a dictionary and becomes text."""
    hosts = columns.column("host").combine_chunks()
    numbers = hosts.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(numbers, kind="stable")
    present, first, counts = np.unique(numbers[order], return_index=True, return_counts=True)
    names = hosts.dictionary.take(pa.array(present)).to_pylist()
    counted = np.array([sequences[name] for name in names], np.int64)
    found = np.empty(len(numbers), np.int64)
    found[order] = np.arange(len(numbers)) + np.repeat(counted - first, counts)
    for name, count in zip(names, counts.tolist(), strict=True):
        sequences[name] += count
    texts = columns.set_column(columns.schema.get_field_index("host"), "host", hosts.cast(pa.string()))
    return texts.append_column("sequence", pa.array(found))


def with_incarnation(table: Table, columns: Any, incarnation: int) -> Any:
    """All columns of a table in its order, of one opening."""
    opening = pa.array(np.full(columns.num_rows, incarnation, np.int64))
    arrays = [
        opening if field.name == "incarnation" else columns.column(field.name).cast(field.type)
        for field in table.schema
    ]
    return pa.Table.from_arrays(arrays, schema=table.schema)


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
            raise BadJournal(f"{where}: row {index} is no record of '{table.name}': {problem}") from problem
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
