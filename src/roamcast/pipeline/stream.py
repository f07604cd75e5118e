"""Stream (P5): moving subscribers against events as a stateful streaming query, for populations beyond one broker.

It follows the ledger of ingest. Every segment that was taken is read once and goes to *shares*: subscriptions to the
share of their subscriber, everything else to all of them. A share is one key of Spark's state store; it keeps what it
was given, and judges a bucket of time when the watermark has passed its end (`stream_state.py`). What it finds is
what the oracle finds, a bucket later: same pairs, same times, each once, in the table `streamed`.

    segments ──read──▶ records ──share, watermark──▶ state of each share ──judge──▶ streamed

The watermark follows the latest record and stays `late_us` behind. A segment that comes later than that as a whole is
not looked at; the batch oracle, which has all the time, does look.
"""

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from roamcast.journal.schema import INTEGER, TEXT
from roamcast.pipeline.clean import read_taken
from roamcast.pipeline.ingest import TAKEN
from roamcast.pipeline.job import BadPipeline, Settings, Table
from roamcast.pipeline.oracle.bucket import World
from roamcast.pipeline.store import Store
from roamcast.pipeline.stream_state import KINDS, Share, read, written
from roamcast.pipeline.tables import EXPECTED, SEGMENTS, SUBSCRIPTIONS, columns

BUCKET_US = 1_000_000
LATE_US = 10_000_000
TICK_US = 1_000
"""Spark's watermark begins at 0, counts milliseconds, and leaves out what is not above it. Stamped so much later,
what happened at 0, or in the very moment of the watermark, is taken; the watermark itself stays where it is."""
SHARES = 4
FILES_PER_BATCH = 100
CHECKPOINT_DIRECTORY = "checkpoint-stream"

STREAMED = Table("streamed", EXPECTED.schema, "what an ideal system delivers, as the stream finds it: each pair once")
RECORDS = columns(kind=TEXT, share=INTEGER, last_us=INTEGER, content=pa.binary())


def stream(
    store: Store,
    settings: Settings,
    *,
    shares: int = SHARES,
    bucket_us: int = BUCKET_US,
    late_us: int = LATE_US,
    follow_s: float | None = None,
    batch_files: int = FILES_PER_BATCH,
) -> Any:
    """Judges what is new in the tables, and returns when that is done; with `follow_s`, a query that goes on.

    `batch_files`: how many files of the ledger to take at a time; each is a batch of ingest.
    """
    if shares < 1 or bucket_us < 1 or late_us < 0:
        raise BadPipeline(f"{shares} shares, buckets of {bucket_us} µs, {late_us} µs late: give 1, 1 and 0 or more")
    ledger = (
        store.spark.readStream.schema(SEGMENTS.struct)
        .option("maxFilesPerTrigger", batch_files)
        .parquet(store.place(SEGMENTS))
    )
    world = World(settings.space, settings.neighbour_range_m, settings.graph, settings.period_us)
    query = (
        judged(shared(ledger, store.root, shares), world, bucket_us, late_us)
        .writeStream.format("parquet")
        .outputMode("append")
        .option("checkpointLocation", f"{store.root}/{CHECKPOINT_DIRECTORY}")
        .queryName("roamcast stream")
    )
    if follow_s is not None:
        return query.trigger(processingTime=f"{follow_s} seconds").start(store.place(STREAMED))
    running = query.trigger(availableNow=True).start(store.place(STREAMED))
    running.awaitTermination()
    return running


def shared(ledger: DataFrame, root: str, shares: int) -> DataFrame:
    """The records of each segment, once for every share that needs them."""
    kinds = [table.name for table in KINDS]
    taken = ledger.where((F.col("status") == TAKEN) & (F.col("rows") > 0) & F.col("table").isin(kinds))
    records = taken.select("path", "table").mapInArrow(Records(root, shares), from_arrow_schema(RECORDS))
    everyone = F.sequence(F.lit(0), F.lit(shares - 1)).cast("array<bigint>")
    to = F.when(F.col("share").isNull(), everyone).otherwise(F.array("share"))
    return records.withColumn("share", F.explode(to))


def judged(records: DataFrame, world: World, bucket_us: int, late_us: int) -> DataFrame:
    return (
        records.withColumn("at", F.timestamp_micros(F.col("last_us") + TICK_US))
        .withWatermark("at", f"{late_us + TICK_US} microseconds")
        .groupBy("share")
        .applyInPandasWithState(
            keeper(world, bucket_us), STREAMED.struct, "memory BINARY", "append", GroupStateTimeout.EventTimeTimeout
        )
    )


class Records:
    """Reads clean segments on the workers; what belongs to one share only is split."""

    def __init__(self, root: str, shares: int) -> None:
        self.root, self.shares = root, shares

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for row in batch.to_pylist():
                rows = [
                    {
                        "kind": row["table"],
                        "share": share,
                        "last_us": pc.max(part["at_us"]).as_py(),
                        "content": written(part),
                    }
                    for share, part in self.parts(row["table"], self.segment(row))
                ]
                yield from pa.Table.from_pylist(rows, schema=RECORDS).to_batches()

    def segment(self, row: dict[str, str]) -> Any:
        return read_taken(f"{self.root}/{row['table']}", PurePosixPath(row["path"]).name)

    def parts(self, kind: str, table: Any) -> Iterator[tuple[int | None, Any]]:
        if kind != SUBSCRIPTIONS.name:
            yield None, table
            return
        of = np.array([crc32(each.encode()) % self.shares for each in table["subscriber"].to_pylist()])
        for share in np.unique(of).tolist():
            yield share, table.filter(pa.array(of == share))


def keeper(
    world: World, bucket_us: int
) -> Callable[[Any, Iterator[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]:
    """What a worker does with a share: recall, take in what came, judge what is complete, remember."""

    def keep(_key: Any, batches: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        share = Share(world, bucket_us)
        if state.exists:
            share.recall(bytes(state.get[0]))
        for batch in batches:
            for kind, content in zip(batch["kind"], batch["content"], strict=True):
                share.add(kind, read(content))
        watermark_ms = state.getCurrentWatermarkMs()
        found = share.judge(watermark_ms * 1_000)
        state.update((share.remembered(),))
        # Without a bucket begun, whatever time comes is worth a look.
        next_us = watermark_ms * 1_000 if share.next_us is None else share.next_us + bucket_us
        state.setTimeoutTimestamp(max(watermark_ms + 1, -(-next_us // 1_000)))
        yield pd.DataFrame(found, columns=STREAMED.columns)

    return keep
