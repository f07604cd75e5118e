"""The clean files of a table: a segment's rows in a file of its name, or within a compacted file with many others.

A compacted file says in its metadata whose rows it holds, in order, and which files it took the place of. So the rows
of one segment can still be found, as ingest needs them for comparing copies, and the stream for reading what is new.
"""

from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
from msgspec import Struct

from roamcast.pipeline.store import file_system

COMPACTED = "compacted-"
MEMBERS_KEY = b"roamcast.members"
REPLACED_KEY = b"roamcast.replaced"
TRIES = 3
"""A compaction at the same time may move rows from one file to another while we look for them."""


class Member(Struct, frozen=True, array_like=True):
    """A segment within a compacted file."""

    name: str
    rows: int


def read_taken(place: str, name: str) -> Any:
    """The rows of a segment as they are in the table; its file in the journal may be gone by now."""
    for _ in range(TRIES):
        try:
            return found_in(place, name)
        except FileNotFoundError:
            continue
    raise FileNotFoundError(f"{place}: no file holds the rows of segment {name}")


def found_in(place: str, name: str) -> Any:
    files, within = file_system(place)
    if files.get_file_info(f"{within}/{name}").type == arrow_fs.FileType.File:
        return pq.read_table(f"{within}/{name}", filesystem=files, partitioning=None)
    for file in compacted_in(place):
        first = 0
        for member in members_of(place, file):
            if member.name == name:
                return rows_between(f"{place}/{file}", first, member.rows)
            first += member.rows
    raise FileNotFoundError(name)


def visible_in(place: str) -> list[Any]:
    """Arrow's notes about the files of a table, by name."""
    files, within = file_system(place)
    found = files.get_file_info(arrow_fs.FileSelector(within, allow_not_found=True))
    visible = (info for info in found if info.is_file and not info.base_name.startswith((".", "_")))
    return sorted(visible, key=lambda info: info.base_name)


def compacted_in(place: str) -> list[str]:
    return [info.base_name for info in visible_in(place) if info.base_name.startswith(COMPACTED)]


@lru_cache(maxsize=64)
def members_of(place: str, file: str) -> tuple[Member, ...]:
    """Whose rows a file of a table has; a file that was not compacted is its own only member."""
    metadata = metadata_of(f"{place}/{file}")
    if not file.startswith(COMPACTED):
        return (Member(file, metadata.num_rows),)
    return msgspec.json.decode(metadata.metadata[MEMBERS_KEY], type=tuple[Member, ...])


def replaced_by(place: str, file: str) -> list[str]:
    """The files that a compacted one took the place of."""
    return msgspec.json.decode(metadata_of(f"{place}/{file}").metadata[REPLACED_KEY], type=list[str])


def metadata_of(path: str) -> Any:
    files, within = file_system(path)
    return pq.read_metadata(within, filesystem=files)


def rows_between(path: str, first: int, rows: int) -> Any:
    """Only the row groups that hold them are read."""
    files, within = file_system(path)
    with files.open_input_file(within) as opened, pq.ParquetFile(opened) as file:
        wanted, skipped, begin = [], 0, 0
        for number in range(file.metadata.num_row_groups):
            end = begin + file.metadata.row_group(number).num_rows
            if end <= first:
                skipped = end
            elif begin < first + rows:
                wanted.append(number)
            begin = end
        found = file.read_row_groups(wanted) if wanted else file.schema_arrow.empty_table()
    return without_metadata(found).slice(first - skipped, rows)


def without_metadata(table: Any) -> Any:
    return table.cast(pa.schema(list(table.schema)))
