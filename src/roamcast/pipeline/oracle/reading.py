"""Tables as workers read them: with Arrow, straight from where they lie, only what is asked for."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq

from roamcast.pipeline.job import Table
from roamcast.pipeline.store import file_system


def read_bucket(place: str, table: Table, number: int, coded: Sequence[str] = ()) -> Any:
    """The rows of one bucket; none where there is no directory for it. Coded columns stay dictionaries."""
    wanted = pa.schema([field for field in table.schema if field.name != "bucket"])
    return rows_at(f"{place}/bucket={number}", wanted, coded)


def read_rows(place: str, table: Table) -> Any:
    """All rows of a table that is small enough."""
    return rows_at(place, table.schema, ())


def rows_at(place: str, wanted: Any, coded: Sequence[str]) -> Any:
    files, path = file_system(place)
    for name in coded:
        column = wanted.get_field_index(name)
        wanted = wanted.set(column, pa.field(name, pa.dictionary(pa.int32(), wanted.field(column).type)))
    if files.get_file_info(path).type == arrow_fs.FileType.NotFound:
        return wanted.empty_table()
    return pq.read_table(path, filesystem=files, partitioning=None, schema=wanted, read_dictionary=list(coded))
