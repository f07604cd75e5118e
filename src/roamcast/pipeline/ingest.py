"""Ingest (P1): the segments of a journal become clean tables, each record once, in batches and as a stream alike.

A Structured Streaming query follows the journal's directory; what it streams is the names of new files. Spark's
checkpoint remembers which files belong to which batch before the batch runs. A batch

1. judges its files: whole, of this version, rows that make sense, and the ranges of sequence numbers in each;
2. finds by these ranges which files may hold records that other files have too, in this batch or an earlier one;
3. writes each good file into its table, without the records that are there already, and
4. writes the ledger, the table `segments`: a row for each file and what became of it.

A clean file has the name of its segment and appears by a rename, and a batch that runs again after a kill has the
same number and the same files: it writes the same again over what is there. So a query that was killed at any point
and is started again has every record once. In batch mode the query stops when there is nothing more to take;
following, it goes on. Late files are taken when they come. What cannot be taken is *quarantined*: it stays where it
is, and the ledger says why. Nothing is fatal, and nothing is silent.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from roamcast.journal.reader import table_directory
from roamcast.journal.records import BadJournal
from roamcast.journal.schema import TABLES as JOURNAL_TABLES
from roamcast.journal.schema import VERSION_DIRECTORY
from roamcast.pipeline.job import BadPipeline
from roamcast.pipeline.segment import named, ranges_of, read_segment, table_of, without_known, write_segment
from roamcast.pipeline.store import Store, file_system
from roamcast.pipeline.tables import SEGMENTS

FILES_PER_BATCH = 2_000
FILE_AGE_MAX = "36500d"
"""Spark forgets files that are older than the newest by more than this, silently: a copied journal must not be."""
CHECKPOINT_DIRECTORY = "checkpoint"
FILE_COLUMNS = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"

JUDGED = pa.schema([field for field in SEGMENTS.schema if field.name not in ("batch", "late")])
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
    query = (
        names.writeStream.foreachBatch(Take(store.journal))
        .option("checkpointLocation", f"{store.root}/{CHECKPOINT_DIRECTORY}")
        .queryName("roamcast ingest")
    )
    if follow_s is not None:
        return query.trigger(processingTime=f"{follow_s} seconds").start()
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    return running


def check_journal(journal: str) -> None:
    """Says at once what is wrong with a directory that is no journal; one elsewhere shows it when it is read."""
    if "://" not in journal:
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
        judged = names.repartition(files_at_once(spark)).mapInArrow(judge, struct_of(JUDGED)).localCheckpoint()
        earlier = earlier_segments(store, batch)
        overlaps = overlapping_files(judged, earlier)
        late = late_files(judged, earlier)
        marked = judged.join(overlaps, "path", "left").join(late, "path", "left")
        wide = pa.schema([*JUDGED, pa.field("late", pa.bool_())])
        taken = marked.repartition(files_at_once(spark)).mapInArrow(Keep(store.root), struct_of(wide))
        ledger = taken.withColumn("batch", F.lit(batch).cast("bigint")).select(*SEGMENTS.columns)
        # A directory for each batch: one that runs again writes over its own and over no other.
        ledger.coalesce(1).write.mode("overwrite").parquet(f"{store.place(SEGMENTS)}/number={batch}")


def files_at_once(spark: SparkSession) -> int:
    return max(2, int(spark.conf.get("spark.sql.shuffle.partitions") or 16) // 2)


def struct_of(schema: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def judge(batches: Iterator[Any]) -> Iterator[Any]:
    """For each name the ledger's row as far as the file alone tells it."""
    for batch in batches:
        rows = [judgement(path) for path in batch["path"].to_pylist()]
        yield from pa.Table.from_pylist(rows, schema=JUDGED).to_batches()


def judgement(path: str) -> dict[str, Any]:
    found: dict[str, Any] = {"path": path, "status": QUARANTINED, "rows": 0, "duplicates": 0, "ranges": []}
    try:
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
    return store.read(SEGMENTS).where(F.col("batch") != batch)


def overlapping_files(judged: DataFrame, earlier: DataFrame) -> DataFrame:
    """For each file the other ones, earlier or before it in this batch, that have numbers within its ranges."""
    mine = ranges(judged).alias("mine")
    ours = ranges(judged).withColumn("before", F.lit(False))
    known = ranges(earlier.where(F.col("status") == TAKEN)).withColumn("before", F.lit(True))
    theirs = ours.unionByName(known).alias("theirs")
    same = [F.col(f"mine.{name}") == F.col(f"theirs.{name}") for name in ("table", "host", "incarnation")]
    meet = (F.col("mine.first") <= F.col("theirs.last")) & (F.col("theirs.first") <= F.col("mine.last"))
    other = (F.col("mine.path") != F.col("theirs.path")) & (
        F.col("before") | (F.col("theirs.path") < F.col("mine.path"))
    )
    return (
        mine.join(theirs, [*same, meet, other])
        .groupBy(F.col("mine.path").alias("path"))
        .agg(F.sort_array(F.collect_set(F.struct("theirs.path", "theirs.before"))).alias("others"))
    )


def ranges(segments: DataFrame) -> DataFrame:
    return segments.select("path", "table", F.explode("ranges").alias("range")).select("path", "table", "range.*")


def late_files(judged: DataFrame, earlier: DataFrame) -> DataFrame:
    """The files of which the writer's later ones were there in an earlier batch."""
    of = ["table", "writer", "incarnation"]
    newest = earlier.groupBy(*of).agg(F.max("segment").alias("newest"))
    return judged.join(newest, of).select("path", (F.col("segment") < F.col("newest")).alias("late"))


class Keep:
    """Writes good files into their tables, and answers with the ledger's rows."""

    def __init__(self, root: str) -> None:
        self.root = root

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        wide = pa.schema([*JUDGED, pa.field("late", pa.bool_())])
        for batch in batches:
            rows = [self.kept(row) for row in batch.to_pylist()]
            yield from pa.Table.from_pylist(rows, schema=wide).to_batches()

    def kept(self, row: dict[str, Any]) -> dict[str, Any]:
        others = row.pop("others") or ()
        row["late"] = bool(row["late"])
        if row["status"] != TAKEN:
            return row
        path, place = row["path"], f"{self.root}/{row['table']}"
        try:
            rows = read_segment(path)
            clean = without_known(rows, [self.known(other, place) for other in others], path)
        except BadJournal as problem:
            return row | {"status": QUARANTINED, "reason": str(problem), "rows": 0, "ranges": []}
        write_segment(clean, place, PurePosixPath(path).name)
        kept = [msgspec.to_builtins(each) for each in ranges_of(clean)]
        return row | {"rows": len(clean), "duplicates": len(rows) - len(clean), "ranges": kept}

    def known(self, other: dict[str, Any], place: str) -> Any:
        """The rows of another file: those of an earlier batch as they were taken, its segment may be gone by now."""
        if not other["before"]:
            return read_segment(other["path"])
        name = PurePosixPath(other["path"]).name
        files, within = file_system(f"{place}/{name}")
        return pq.read_table(within, filesystem=files, partitioning=None)


def summary(store: Store) -> Summary:
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
    files, path = file_system(f"{store.journal}/{VERSION_DIRECTORY}")
    infos = files.get_file_info(arrow_fs.FileSelector(path, recursive=True))
    seen = [PurePosixPath(info.path) for info in infos if info.type == arrow_fs.FileType.File and info.size == 0]
    tails = {"/".join(each.parts[-2:]): str(each) for each in seen if not each.name.startswith((".", "_"))}
    if not tails:
        return []
    tail = F.regexp_extract("path", "[^/]+/[^/]+$", 0)
    known = {row[0] for row in segments.where(tail.isin(list(tails))).select(tail).collect()}
    return sorted(each for end, each in tails.items() if end not in known)
