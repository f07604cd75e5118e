"""Ingest (P1): from the segments of a journal to clean tables in which every record is once.

    list files ── new ones ──▶ judge and copy (one Spark job) ──▶ compare copies (one more, if any overlap) ──▶ ledger

A batch lists the files that the ledger does not know. Workers read and check them, and put the rows of good ones into
files of their own, many segments in one. What overlaps by sequence numbers is compared record by record: copies are
dropped and counted, contradictions quarantined. At last the ledger is published, with where each segment's rows lie.
Killed at any point before, a batch has taken nothing; after it, everything. Late files are taken when they come. What
cannot be taken is *quarantined*: it stays where it is, and the ledger says why. Nothing is fatal, nothing is silent.
"""

from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as arrow_fs
from pyspark.sql import SparkSession

from roamcast.journal.reader import table_directory
from roamcast.journal.records import RUN_ENDED, BadJournal
from roamcast.journal.schema import TABLES as JOURNAL_TABLES
from roamcast.journal.schema import VERSION_DIRECTORY
from roamcast.spark.files import file_system, infos_in, path_within
from roamcast.spark.ledger import QUARANTINED, TAKEN, Ledger, Output, Row, as_table, ledger_rows, move, read_rows
from roamcast.spark.published import Tables, Taken
from roamcast.spark.segment import (
    FAR_US,
    check_place,
    named,
    ranges_of,
    read_segment,
    table_of,
    without_known,
)
from roamcast.spark.tables import NOTES, SEGMENTS, BadPipeline

FILES_PER_BATCH = 2_000
TASK_BYTES = 16 * 1024 * 1024
REASONS_MAX = 10
EMPTY = "not taken in; it was empty when it was first seen"
NOTHING = {"status": QUARANTINED, "rows": 0, "duplicates": 0, "implausible": 0, "late": False, "ranges": []}


class Summary(msgspec.Struct, frozen=True):
    """What ingest has come to, over all batches."""

    segments: int
    rows: int
    duplicates: int
    late: int
    quarantined: int
    missing: int
    """Records that must have been there, by the gaps in the sequence numbers."""
    reasons: tuple[str, ...]
    """Of the first quarantined segments."""
    implausible: int = 0
    """Records whose time cannot be meant; they are left out."""


class Found(msgspec.Struct, frozen=True):
    """A file of the journal that the ledger does not know."""

    path: str
    bytes: int
    arrived_us: int


def ingest(spark: SparkSession, directory: str) -> Summary:
    """Takes in what is new in a journal, and says what all of it comes to."""
    tables = Tables(spark, directory)
    check_journal(tables.journal)
    while True:
        ledger = Ledger.of(tables)
        new, empty = new_files(tables.journal, ledger)
        if not new:
            if ledger.version is None:
                raise BadPipeline(f"{tables.journal}: the journal is empty; no segment was found in it")
            return summary(Ledger.of(tables, ranges=True), empty)
        try:
            take(tables, ledger, new[:FILES_PER_BATCH])
        except Taken:
            continue  # another ingest was faster; the ledger tells what it left


def check_journal(journal: str) -> None:
    """Says at once what is wrong with a directory that is no journal; one elsewhere shows most when it is read."""
    if "://" in journal:
        files, version = file_system(f"{journal}/{VERSION_DIRECTORY}")
        if files.get_file_info(version).type != arrow_fs.FileType.Directory:
            raise BadPipeline(f"{journal}: holds no journal; there is no directory {VERSION_DIRECTORY} in it")
    else:
        try:
            for table in JOURNAL_TABLES:
                table_directory(Path(journal), table)
        except BadJournal as problem:
            raise BadPipeline(str(problem)) from problem


def new_files(journal: str, ledger: Ledger) -> tuple[list[Found], list[str]]:
    """The files that the ledger does not know, by table and name; those that are still empty apart."""
    version = f"{journal}/{VERSION_DIRECTORY}"
    root = PurePosixPath(path_within(version))
    known = set(ledger.rows["path"].to_pylist())
    new, empty = [], []
    for info in infos_in(version, recursive=True):
        path = PurePosixPath(info.path)
        if not info.is_file or any(part.startswith((".", "_")) for part in path.relative_to(root).parts):
            continue
        name = str(path) if "://" not in journal else f"{version}/{path.relative_to(root)}"
        if name in known:
            continue
        if info.size:
            new.append(Found(name, info.size, int(info.mtime.timestamp() * 1e6) if info.mtime else 0))
        else:
            empty.append(name)
    return new, empty


def take(tables: Tables, ledger: Ledger, new: Sequence[Found]) -> None:
    tasks = dealt(new)
    judge = Judge(tables.journal, tables.root, tasks)
    judged: list[Row] = ledger_rows(tables.spark, len(tasks), judge)
    known = Ledger.of(tables, ranges=True) if ledger.number else ledger
    written = {row["path"]: row["file"] for row in judged if row.get("file")}
    doubt_times(judged, known)
    groups = overlapping(judged, known)
    if groups:
        mended = {row["path"]: row for row in ledger_rows(tables.spark, len(groups), Settle(tables.root, groups))}
        judged = [mended.get(row["path"], row) for row in judged]
    judged = without_refused(tables, judged, written)
    newest = newest_segments(ledger)
    for row in judged:
        row["batch"] = ledger.next_batch()
        of = (row.get("table"), row.get("writer"), row.get("incarnation"))
        row["late"] = row.get("segment") is not None and row["segment"] < newest.get(of, -1)
    ledger.add(tables, as_table(judged))


def dealt(new: Sequence[Found]) -> list[list[Found]]:
    """Neighbours by name come together, so that a task writes into few tables; few tasks where there is little."""
    most = max(TASK_BYTES, sum(file.bytes for file in new) // 64)
    tasks: list[list[Found]] = []
    size = most
    for file in new:
        if size >= most:
            tasks.append([])
            size = 0
        tasks[-1].append(file)
        size += file.bytes
    return tasks


class Judge:
    """For each file the ledger's row as far as the file alone tells it, its rows copied if it is good."""

    def __init__(self, journal: str, root: str, tasks: list[list[Found]]) -> None:
        self.version, self.root, self.tasks = f"{journal}/{VERSION_DIRECTORY}", root, tasks

    def __call__(self, task: int) -> list[Row]:
        output = Output(self.root)
        rows = [judgement(file, self.version, output) for file in self.tasks[task]]
        output.finish()
        return rows


def judgement(file: Found, version: str, output: Output) -> Row:
    """`version` is the directory that the journal's tables lie in."""
    path = file.path
    found: Row = {**NOTHING, "path": path, "arrived_us": file.arrived_us}
    try:
        check_place(path, version)
        found["table"] = table_of(path).name
        segment = named(path)
        found |= {"writer": segment.writer, "incarnation": segment.incarnation, "segment": segment.number}
        rows, ranges, implausible = read_segment(path)
    except BadJournal as problem:
        return found | {"reason": str(problem)}
    except Exception as problem:
        # Whatever a hostile file makes a library do, it must not stop the others.
        return found | {"reason": f"{path}: cannot be read ({type(problem).__name__}: {problem})"}
    found |= {"status": TAKEN, "rows": len(rows), "implausible": implausible, "ranges": ranges}
    if implausible:
        found["reason"] = (
            f"{path}: field 'at_us' is years away from the others in {implausible} rows; they are left out"
        )
    if len(rows):
        name, first = output.add(found["table"], rows)
        times = rows["at_us"].to_numpy()
        found |= {"file": name, "first_row": first, "first_us": int(times.min()), "last_us": int(times.max())}
    if found["table"] == NOTES.name:
        found["ended_us"] = pc.max(rows.filter(pc.equal(rows["what"], RUN_ENDED))["at_us"]).as_py()
    return found


def doubt_times(judged: list[Row], ledger: Ledger) -> None:
    """Quarantines files whose times are years away from those of the whole journal."""
    times = [row["first_us"] for row in judged if row.get("first_us") is not None]
    times += ledger.taken["first_us"].drop_null().to_pylist()
    middle = float(np.median(times)) if times else 0.0
    for row in judged:
        if row.get("first_us") is not None and abs(row["first_us"] - middle) > FAR_US:
            said = f"{row['path']}: field 'at_us' is years away from the rest of the journal"
            row |= {**NOTHING, "reason": said, "file": None, "first_us": None, "last_us": None}


def newest_segments(ledger: Ledger) -> dict[tuple[Any, ...], int]:
    of = ["table", "writer", "incarnation"]
    rows = ledger.rows.group_by(of).aggregate([("segment", "max")]).to_pylist()
    return {tuple(row[name] for name in of): row["segment_max"] for row in rows if row["segment_max"] is not None}


# Copies.


def overlapping(judged: list[Row], ledger: Ledger) -> list[list[Row]]:
    """Groups of files with numbers of a host in common, of which at least one is new; the others are `known`.

    In the order of their beginnings, a range overlaps some range before it if and only if it overlaps the one of
    these that reaches farthest.
    """
    ours = as_table([row for row in judged if row["status"] == TAKEN and row["rows"]])
    hosts = pc.struct_field(ours["ranges"].combine_chunks().flatten(), "host").unique()
    theirs = near_rows(ledger, hosts)
    every = pa.concat_tables([theirs, ours])
    known = np.arange(len(every)) < len(theirs)
    file, first, last = ranges_in_order(every)
    if not len(file):
        return []
    # Each range with the one before it that reaches farthest; of another host none reaches so far.
    reach = np.maximum.accumulate(last)
    leader = np.maximum.accumulate(np.where(last == reach, np.arange(len(last)), 0))
    common = np.flatnonzero(first[1:] <= reach[:-1])
    paths = every["path"].to_pylist() if len(common) else []
    pairs = [(paths[file[at + 1]], paths[file[leader[at]]]) for at in common]
    place = {path: number for number, path in enumerate(paths)}
    groups: dict[str, list[Row]] = {}
    for path, head in grouped(pairs):
        row = every.slice(place[path], 1).to_pylist()[0]
        groups.setdefault(head, []).append(row | {"known": bool(known[place[path]])})
    return [group for group in groups.values() if not all(row["known"] for row in group)]


def ranges_in_order(files: Any) -> tuple[Any, Any, Any]:
    """Of each range its file's row, and its first and last number with the host's own added, so that those of two
    hosts, openings or tables never meet; in the order of the first."""
    ranges = files["ranges"].combine_chunks()
    file = pc.list_parent_indices(ranges).to_numpy()
    host, incarnation, first, last = (
        pc.struct_field(ranges.flatten(), name) for name in ("host", "incarnation", "first", "last")
    )
    table = files["table"].combine_chunks().take(pa.array(file))
    of = [codes(table), codes(host), codes(incarnation)]
    order = np.lexsort((*(each.to_numpy() for each in (last, first)), *reversed(of)))
    first, last = first.to_numpy()[order], last.to_numpy()[order]
    new = np.logical_or.reduce([np.diff(each[order], prepend=-1) != 0 for each in of])
    base = np.cumsum(new) * (int(last.max(initial=0)) + 1)
    return file[order], first + base, last + base


def codes(column: Any) -> Any:
    return column.dictionary_encode().indices.to_numpy()


def near_rows(ledger: Ledger, hosts: Any) -> Any:
    """Files that were taken before, with the numbers of these hosts."""
    taken = ledger.taken
    if "ranges" not in taken.column_names or not len(taken):
        return SEGMENTS.schema.empty_table()
    ranges = taken["ranges"].combine_chunks()
    of = pc.list_parent_indices(ranges).filter(pc.is_in(pc.struct_field(ranges.flatten(), "host"), value_set=hosts))
    near = taken.take(of.unique())
    return near.filter(pc.greater(near["rows"], 0)).select(SEGMENTS.columns).cast(SEGMENTS.schema)


def grouped(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each file that is linked to others, and the least of all that it is connected with."""
    leader: dict[str, str] = {}

    def leading(path: str) -> str:
        while (above := leader.setdefault(path, path)) != path:
            leader[path] = path = leader[above]
        return path

    for one, other in pairs:
        least, most = sorted((leading(one), leading(other)))
        leader[most] = least
    return sorted((path, leading(path)) for path in list(leader))


class Settle:
    """Of files that overlap, drops what others have; one that contradicts them is quarantined."""

    def __init__(self, root: str, groups: list[list[Row]]) -> None:
        self.root, self.groups = root, groups

    def __call__(self, task: int) -> list[Row]:
        """File by file: what one may repeat or contradict is what has been taken before it, and nothing else."""
        output = Output(self.root)
        known = [row for row in self.groups[task] if row["known"]]
        found = []
        for row in sorted((row for row in self.groups[task] if not row["known"]), key=itemgetter("path")):
            settled, kept = self.kept(row, [other for other in known if overlap(row, other)])
            if kept is not None and settled["duplicates"]:
                name, first = output.add(row["table"], kept) if len(kept) else (None, None)
                settled |= {"file": name, "first_row": first}
            found.append(settled)
            if settled["status"] == TAKEN:
                # Compared from where judging put it: what this task writes is not readable yet.
                known.append(settled | {"ranges": row["ranges"], "file": row["file"], "first_row": row["first_row"]})
                known[-1]["rows"] = row["rows"]
        output.finish()
        return found

    def kept(self, row: Row, others: list[Row]) -> tuple[Row, Any]:
        place = f"{self.root}/{row['table']}"
        rows = read_rows(place, row["file"], row["first_row"], row["rows"])
        theirs = [read_rows(place, other["file"], other["first_row"], other["rows"]) for other in others]
        try:
            clean = without_known(rows, theirs, row["path"])
        except BadJournal as problem:
            return row | {**NOTHING, "reason": str(problem), "file": None}, None
        dropped = len(rows) - len(clean)
        return row | {"rows": len(clean), "duplicates": dropped, "ranges": ranges_of(clean).as_py()}, clean


def without_refused(tables: Tables, judged: list[Row], written: dict[str, str]) -> list[Row]:
    """A file of rows is read as a whole: where some of it was refused or is a copy, the rest moves to another."""
    over = {written[row["path"]] for row in judged if written.get(row["path"]) not in (None, row["file"])}
    left = [[row for row in judged if row["file"] == file] for file in sorted(over)] if over else []
    moved = {row["path"]: row for row in move(tables, [rows for rows in left if rows])}
    return [moved.get(row["path"], row) for row in judged]


def overlap(row: Row, other: Row) -> bool:
    theirs = {(each["host"], each["incarnation"]): each for each in other["ranges"]}
    pairs = ((mine, theirs.get((mine["host"], mine["incarnation"]))) for mine in row["ranges"])
    return any(their and mine["first"] <= their["last"] and their["first"] <= mine["last"] for mine, their in pairs)


def summary(ledger: Ledger, empty: Sequence[str] = ()) -> Summary:
    """Of a ledger with ranges."""
    rows, taken = ledger.rows, ledger.taken
    refused = rows.filter(pc.is_valid(rows["reason"])).sort_by("path")
    said = [*(f"{path}: {EMPTY}" for path in empty), *refused["reason"].to_pylist()[:REASONS_MAX]]
    return Summary(
        segments=len(taken),
        rows=total(rows, "rows"),
        duplicates=total(rows, "duplicates"),
        late=total(taken, "late"),
        quarantined=len(rows) - len(taken) + len(empty),
        missing=missing_records(taken),
        reasons=tuple(said[:REASONS_MAX]),
        implausible=total(rows, "implausible"),
    )


def total(rows: Any, name: str) -> int:
    return int(pc.sum(rows[name]).as_py() or 0)


def missing_records(taken: Any) -> int:
    ranges = pa.Table.from_struct_array(taken["ranges"].combine_chunks().flatten())
    hosts = ranges.group_by(["host", "incarnation"]).aggregate([("last", "max"), ("rows", "sum")])
    return int(pc.sum(pc.subtract(pc.add(hosts["last_max"], 1), hosts["rows_sum"])).as_py() or 0)
