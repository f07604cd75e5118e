"""Ingest (P1): the segments of a journal become clean tables, each record once, in batches and as a stream alike.

A Structured Streaming query follows the journal's directory; what it streams is the names of new files. Spark's
checkpoint remembers which files belong to which batch before the batch runs. A batch

1. judges its files: whole, of this version, rows that make sense, and the ranges of sequence numbers in each;
2. finds by these ranges which files may hold records that other files have too, in this batch or an earlier one;
3. writes each good file into its table, without the records that are there already: files that may share records one
   after the other, in the order of their paths, so that nothing is left out for a file that is refused itself; and
4. writes the ledger, the table `segments`: a row for each file and what became of it.

A clean file has the name of its segment and appears by a rename, and a batch that runs again after a kill has the
same number and the same files: it writes the same again over what is there. So a query that was killed at any point
and is started again has every record once. In batch mode the query stops when there is nothing more to take;
following, it goes on. Late files are taken when they come. What cannot be taken is *quarantined*: it stays where it
is, and the ledger says why. Nothing is fatal, and nothing is silent.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.fs as arrow_fs
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.journal.reader import table_directory
from roamcast.journal.records import BadJournal
from roamcast.journal.schema import TABLES as JOURNAL_TABLES
from roamcast.journal.schema import VERSION_DIRECTORY
from roamcast.pipeline.carried import carried
from roamcast.pipeline.clean import read_taken
from roamcast.pipeline.job import BadPipeline
from roamcast.pipeline.segment import (
    check_place,
    named,
    ranges_of,
    read_segment,
    table_of,
    without_known,
    write_segment,
)
from roamcast.pipeline.session import is_remote, package_archive
from roamcast.pipeline.store import Store, file_system, path_within
from roamcast.pipeline.tables import SEGMENTS

FILES_PER_BATCH = 2_000
FILE_AGE_MAX = "36500d"
"""Spark forgets files that are older than the newest by more than this, silently: a copied journal must not be."""
CHECKPOINT_DIRECTORY = "checkpoint"
FILE_COLUMNS = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"

JUDGED = pa.schema([field for field in SEGMENTS.schema if field.name not in ("batch", "late")])
SETTLED = pa.schema([*JUDGED, pa.field("late", pa.bool_())])
TAKEN, QUARANTINED = "taken", "quarantined"
REASONS_MAX = 10
EMPTY = "not taken in; it was empty when it was first seen"


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


def ingest(spark: SparkSession, directory: str, *, follow_s: float | None = None) -> Any:
    """Takes in what is new in a journal and returns when that is done; with `follow_s`, a query that goes on."""
    store = Store(spark, directory)
    check_journal(store.journal)
    names = (
        spark.readStream.format("binaryFile")
        .schema(FILE_COLUMNS)
        .option("recursiveFileLookup", "true")
        .option("maxFilesPerTrigger", FILES_PER_BATCH)
        .option("maxFileAge", FILE_AGE_MAX)
        .load(f"{store.journal}/{VERSION_DIRECTORY}")
        .select("path")
    )
    take = Take(store.journal)
    query = (
        names.writeStream.foreachBatch(carried(take, package_archive()) if is_remote(spark) else take)
        .option("checkpointLocation", f"{store.root}/{CHECKPOINT_DIRECTORY}")
        .queryName("roamcast ingest")
    )
    if follow_s is not None:
        return query.trigger(processingTime=f"{follow_s} seconds").start()
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    return running


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


class Take:
    """What happens with a batch of new files."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def __call__(self, names: DataFrame, batch: int) -> None:
        spark = names.sparkSession
        store = Store(spark, self.directory)
        judge = Judge(f"{store.journal}/{VERSION_DIRECTORY}")
        at_once = files_at_once(spark, names.count())
        judged = names.repartition(at_once).mapInArrow(judge, struct_of(JUDGED)).localCheckpoint()
        earlier = earlier_segments(store, batch)
        known = earlier.where(F.col("status") == TAKEN).join(judged.select("path"), "path", "left_anti")
        groups = spark.createDataFrame(grouped(links(judged, known).collect()), "path STRING, together STRING")
        ours = judged.join(late_files(judged, earlier), "path", "left").withColumn("before", F.lit(False))
        theirs = known.drop("batch").join(F.broadcast(groups.select("path")), "path", "left_semi")
        settled = (
            ours.unionByName(theirs.withColumn("before", F.lit(True)))
            .join(F.broadcast(groups), "path", "left")
            .withColumn("together", F.coalesce("together", "path"))
            .repartition(at_once, "together")
            .sortWithinPartitions("together")
            .mapInArrow(Settle(store.root), struct_of(SETTLED))
        )
        ledger = settled.withColumn("batch", F.lit(batch).cast("bigint")).select(*SEGMENTS.columns)
        # A directory for each batch: one that runs again writes over its own and over no other.
        in_one_file(ledger).write.mode("overwrite").parquet(f"{store.place(SEGMENTS)}/number={batch}")


def in_one_file(frame: DataFrame) -> DataFrame:
    """Only the rows come together; with `coalesce` the work that makes them would be done by one task as well."""
    return frame.repartition(1)


def files_at_once(spark: SparkSession, files: int) -> int:
    """A cluster's default are hundreds of tasks, and a batch of a following query has few files."""
    return max(2, min(files, int(spark.conf.get("spark.sql.shuffle.partitions") or 16) // 2))


def struct_of(schema: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


class Judge:
    """For each name the ledger's row as far as the file alone tells it."""

    def __init__(self, version: str) -> None:
        self.version = version

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = [judgement(path, self.version) for path in batch["path"].to_pylist()]
            yield from pa.Table.from_pylist(rows, schema=JUDGED).to_batches()


def judgement(path: str, version: str) -> dict[str, Any]:
    """`version` is the directory that the journal's tables lie in."""
    found: dict[str, Any] = {"path": path, "status": QUARANTINED, "rows": 0, "duplicates": 0, "ranges": []}
    try:
        check_place(path, version)
        found["table"] = table_of(path).name
        segment = named(path)
        found |= {"writer": segment.writer, "incarnation": segment.incarnation, "segment": segment.number}
        rows = read_segment(path)
    except BadJournal as problem:
        return found | {"reason": str(problem)}
    except Exception as problem:
        # Whatever a hostile file makes a library do, it must not stop the others.
        return found | {"reason": f"{path}: cannot be read ({type(problem).__name__}: {problem})"}
    found |= {"status": TAKEN, "rows": len(rows), "ranges": [msgspec.to_builtins(each) for each in ranges_of(rows)]}
    if len(rows):
        times = rows["at_us"].to_numpy()
        found |= {"first_us": int(times.min()), "last_us": int(times.max())}
    return found


def earlier_segments(store: Store, batch: int) -> DataFrame:
    """The ledger without this batch: what it wrote before it was killed does not count."""
    if not store.exists(SEGMENTS):
        return store.spark.createDataFrame([], SEGMENTS.struct)
    # By the directory, so that files this batch is about to write over are not even opened.
    number = struct_of(pa.schema([*SEGMENTS.schema, pa.field("number", pa.int64())]))
    segments = store.spark.read.schema(number).parquet(store.place(SEGMENTS))
    return segments.where(F.col("number") != batch).select(*SEGMENTS.columns)


def links(judged: DataFrame, known: DataFrame) -> DataFrame:
    """Pairs of files with numbers of a host in common: not all pairs, but enough to connect whatever overlaps.

    In the order of their beginnings, a range overlaps some range before it if and only if it overlaps the one of
    these that reaches farthest.
    """
    of = ["table", "host", "incarnation"]
    ours = ranges(judged)
    span = ours.groupBy(*of).agg(F.min("first").alias("lowest"), F.max("last").alias("highest"))
    near = ranges(known).join(span, of).where("first <= highest AND lowest <= last").drop("lowest", "highest")
    before = Window.partitionBy(*of).orderBy("first", "path").rowsBetween(Window.unboundedPreceding, -1)
    return (
        ours.unionByName(near)
        .withColumn("reach", F.max(F.struct("last", "path")).over(before))
        .where("reach.last >= first")
        .select("path", F.col("reach.path").alias("other"))
        .distinct()
    )


def grouped(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
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


def ranges(segments: DataFrame) -> DataFrame:
    return segments.select("path", "table", F.explode("ranges").alias("range")).select("path", "table", "range.*")


def late_files(judged: DataFrame, earlier: DataFrame) -> DataFrame:
    """The files of which the writer's later ones were there in an earlier batch."""
    of = ["table", "writer", "incarnation"]
    newest = earlier.groupBy(*of).agg(F.max("segment").alias("newest"))
    return judged.join(newest, of).select("path", (F.col("segment") < F.col("newest")).alias("late"))


class Settle:
    """Writes good files into their tables, and answers with the ledger's rows."""

    def __init__(self, root: str) -> None:
        self.root = root

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for _, together in groupby(rows, key=itemgetter("together")):
            yield from pa.Table.from_pylist(self.settled(list(together)), schema=SETTLED).to_batches()

    def settled(self, together: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """File by file: what one may repeat or contradict is what has been taken before it, and nothing else."""
        known = [row for row in together if row["before"]]
        found = []
        for row in sorted((row for row in together if not row["before"]), key=itemgetter("path")):
            settled = self.kept(row, [other["path"] for other in known if overlap(row, other)])
            found.append(settled)
            if settled["status"] == TAKEN:
                known.append(settled)
        return found

    def kept(self, row: dict[str, Any], others: list[str]) -> dict[str, Any]:
        row["late"] = bool(row["late"])
        if row["status"] != TAKEN:
            return row
        path, place = row["path"], f"{self.root}/{row['table']}"
        try:
            rows = read_segment(path)
            clean = without_known(rows, [read_taken(place, PurePosixPath(other).name) for other in others], path)
        except BadJournal as problem:
            return row | {"status": QUARANTINED, "reason": str(problem), "rows": 0, "ranges": []}
        write_segment(clean, place, PurePosixPath(path).name)
        kept = [msgspec.to_builtins(each) for each in ranges_of(clean)]
        return row | {"rows": len(clean), "duplicates": len(rows) - len(clean), "ranges": kept}


def overlap(row: dict[str, Any], other: dict[str, Any]) -> bool:
    theirs = {(each["host"], each["incarnation"]): each for each in other["ranges"]}
    pairs = ((mine, theirs.get((mine["host"], mine["incarnation"]))) for mine in row["ranges"])
    return any(their and mine["first"] <= their["last"] and their["first"] <= mine["last"] for mine, their in pairs)


def summary(store: Store) -> Summary:
    if not store.exists(SEGMENTS):
        raise BadPipeline(f"{store.journal}: the journal is empty; no segment was found in it")
    segments = store.read(SEGMENTS)
    taken = F.col("status") == TAKEN
    counted = segments.agg(
        F.count(F.when(taken, 1)),
        F.coalesce(F.sum("rows"), F.lit(0)),
        F.coalesce(F.sum("duplicates"), F.lit(0)),
        F.count(F.when(taken & F.col("late"), 1)),
        F.count(F.when(~taken, 1)),
    ).first()
    of_host = segments.select(F.explode("ranges").alias("range")).select("range.*").groupBy("host", "incarnation")
    gaps = of_host.agg((F.max("last") + 1 - F.sum("rows")).alias("missing")).agg(F.sum("missing")).first()
    reasons = segments.where(~taken).select("reason").orderBy("path").limit(REASONS_MAX).collect()
    assert counted is not None
    assert gaps is not None
    empty = unlisted(store, segments)
    said = [*(f"{path}: {EMPTY}" for path in empty), *(row[0] for row in reasons)]
    return Summary(
        segments=counted[0],
        rows=counted[1],
        duplicates=counted[2],
        late=counted[3],
        quarantined=counted[4] + len(empty),
        missing=gaps[0] or 0,
        reasons=tuple(said[:REASONS_MAX]),
    )


def unlisted(store: Store, segments: DataFrame) -> list[str]:
    """The empty files of the journal that the ledger does not know: Spark passes over them without a word."""
    version = f"{store.journal}/{VERSION_DIRECTORY}"
    files, path = file_system(version)
    infos = files.get_file_info(arrow_fs.FileSelector(path, recursive=True))
    seen = [PurePosixPath(info.path) for info in infos if info.type == arrow_fs.FileType.File and info.size == 0]
    empty = {str(each) for each in seen if not hidden(each.relative_to(path))}
    if not empty:
        return []
    name = F.regexp_extract("path", "[^/]+$", 0)
    namesakes = segments.where(name.isin(sorted({PurePosixPath(each).name for each in empty}))).select("path")
    return sorted(empty - {path_within(row[0]) for row in namesakes.collect()})


def hidden(path: PurePosixPath) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)
