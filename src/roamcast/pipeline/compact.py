"""Compaction (P1): many small clean files of a table become few large ones, and no record is lost or doubled.

Every segment of a journal is a file in its table, and a live system writes thousands of small ones, which cost more
to open than to read. Compaction

1. plans: small files that lie next to each other by name come together, up to a size; only files of batches that are
   committed, because a batch that ingest does again writes its own files again;
2. merges each group into a hidden file, as Spark tasks;
3. leaves a mark that it is about to change tables, shows each merged file by a rename, removes the files that it
   replaces, and takes the mark away.

Killed before step 3 it has changed nothing. Killed within, the mark is there, and whoever opens the tables next calls
`finish`: a merged file that is visible is whole and says itself which files it replaces; what is left of them goes.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.journal.schema import INTEGER, TEXT
from roamcast.pipeline.clean import (
    COMPACTED,
    MEMBERS_KEY,
    REPLACED_KEY,
    compacted_in,
    members_of,
    replaced_by,
    visible_in,
    without_metadata,
)
from roamcast.pipeline.ingest import CHECKPOINT_DIRECTORY, TAKEN, struct_of
from roamcast.pipeline.store import Store, file_system
from roamcast.pipeline.tables import JOURNAL, SEGMENTS

FILE_BYTES = 64 * 1024 * 1024
"""What a merged file is about to have; files of half as much are left as they are."""
FILES_MAX = 5_000
"""That one merged file replaces: their names are in its metadata."""
GROUP_ROWS = 131_072
MARK = "_compacting"
DONE = pa.schema([("rows", INTEGER)])
PLAN = pa.schema([("table", TEXT), ("name", TEXT), ("files", pa.list_(TEXT))])


class Merge(Struct, frozen=True):
    """Files of a table, and the name of the one that takes their place."""

    table: str
    name: str
    files: tuple[str, ...]


class Compacted(Struct, frozen=True):
    """What a compaction did."""

    files: int
    into: int


def compact(store: Store, file_bytes: int = FILE_BYTES) -> Compacted:
    finish(store.root)
    merges = planned(store, file_bytes)
    if merges:
        merge_all(store, merges)
        settle(store.root, merges)
    return Compacted(sum(len(merge.files) for merge in merges), len(merges))


def planned(store: Store, file_bytes: int) -> list[Merge]:
    last = last_committed(store.root)
    taken = store.read(SEGMENTS).where((F.col("status") == TAKEN) & (F.col("batch") <= last)).select("path")
    committed = {(PurePosixPath(row[0]).parent.name, PurePosixPath(row[0]).name) for row in taken.collect()}
    found = []
    for table in JOURNAL:
        small = [
            info
            for info in visible_in(f"{store.root}/{table}")
            if info.size < file_bytes // 2
            and (info.base_name.startswith(COMPACTED) or (table, info.base_name) in committed)
        ]
        found += [merge_of(table, names) for names in grouped_by_size(small, file_bytes) if len(names) > 1]
    return found


def last_committed(root: str) -> int:
    """The last batch of ingest that will not be done again. Spark removes the records of those long before it."""
    files, within = file_system(f"{root}/{CHECKPOINT_DIRECTORY}/commits")
    commits = files.get_file_info(arrow_fs.FileSelector(within, allow_not_found=True))
    return max((int(info.base_name) for info in commits if info.base_name.isdecimal()), default=-1)


def grouped_by_size(infos: Iterable[Any], file_bytes: int) -> Iterator[list[str]]:
    names: list[str] = []
    size = 0
    for info in infos:
        if names and (size + info.size > file_bytes or len(names) == FILES_MAX):
            yield names
            names, size = [], 0
        names.append(info.base_name)
        size += info.size
    if names:
        yield names


def merge_of(table: str, names: Sequence[str]) -> Merge:
    """Named after what it replaces: the same plan makes the same file again."""
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
    return Merge(table, f"{COMPACTED}{digest}.parquet", tuple(names))


def merge_all(store: Store, merges: Sequence[Merge]) -> None:
    plan = [(merge.table, merge.name, list(merge.files)) for merge in merges]
    frame = store.spark.createDataFrame(plan, struct_of(PLAN)).repartition(len(plan))
    frame.mapInArrow(Merging(store.root), struct_of(DONE)).collect()


class Merging:
    """Merges on the workers, each into a file that nobody sees yet."""

    def __init__(self, root: str) -> None:
        self.root = root

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = [merged(self.root, Merge(**row)) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pydict({"rows": rows}, schema=DONE)


def merged(root: str, merge: Merge) -> int:
    """How many rows went into the hidden file; so many rows at a time are in memory as a row group has."""
    place = f"{root}/{merge.table}"
    files, within = file_system(place)
    members = [member for name in merge.files for member in members_of(place, name)]
    waiting: list[Any] = []
    with (
        files.open_output_stream(f"{within}/{hidden_name(merge.name)}") as stream,
        pq.ParquetWriter(stream, JOURNAL[merge.table].schema, compression="zstd") as writer,
    ):
        for name in merge.files:
            waiting.append(without_metadata(pq.read_table(f"{within}/{name}", filesystem=files, partitioning=None)))
            if sum(len(rows) for rows in waiting) >= GROUP_ROWS:
                writer.write_table(pa.concat_tables(waiting), row_group_size=GROUP_ROWS)
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting), row_group_size=GROUP_ROWS)
        said = {MEMBERS_KEY: members, REPLACED_KEY: merge.files}
        writer.add_key_value_metadata({key: msgspec.json.encode(value) for key, value in said.items()})
    return sum(member.rows for member in members)


def settle(root: str, merges: Iterable[Merge]) -> None:
    """Shows the merged files, and removes what they replace."""
    files, within = file_system(root)
    with files.open_output_stream(f"{within}/{MARK}"):
        pass
    for merge in merges:
        show(files, f"{within}/{merge.table}", merge.name)
        for name in merge.files:
            remove(files, f"{within}/{merge.table}/{name}")
    remove(files, f"{within}/{MARK}")


def finish(root: str) -> None:
    """Does the rest of a compaction that was killed while it changed tables."""
    files, within = file_system(root)
    if files.get_file_info(f"{within}/{MARK}").type == arrow_fs.FileType.NotFound:
        return
    for table in JOURNAL:
        place = f"{root}/{table}"
        there = {info.base_name for info in visible_in(place)}
        for name in compacted_in(place):
            # One that was replaced itself may be gone by now, and its own files were before it.
            for replaced in replaced_by(place, name) if name in there else ():
                if replaced in there:
                    remove(files, f"{within}/{table}/{replaced}")
                    there.discard(replaced)
    remove(files, f"{within}/{MARK}")


def show(files: Any, place: str, name: str) -> None:
    files.move(f"{place}/{hidden_name(name)}", f"{place}/{name}")


def remove(files: Any, path: str) -> None:
    """Whoever finished the same compaction meanwhile may have been faster."""
    if files.get_file_info(path).type != arrow_fs.FileType.NotFound:
        files.delete_file(path)


def hidden_name(name: str) -> str:
    return f".{name}.partial"
