"""Work that Spark deals out to workers, which read and write files themselves.

A task costs about 0.1 s of CPU whatever it does, so beyond as many as keep cores evenly busy one takes several
pieces. It takes them from all over the list: long ones, which are often next to each other, fall to different tasks.

What a task answers travels as one value, the bytes of an Arrow stream: Java would take the rows apart and build them
again, which costs ten times as much as making them.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

TASKS_EVEN = 24
"""So many keep cores evenly busy, whatever the pieces are."""
TASKS_MAX = 400
COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


def tasks_for(pieces: int, pieces_a_task: int, even: int = TASKS_EVEN) -> int:
    """Of very many pieces a task has `pieces_a_task`; then there are more tasks, for clusters that can use them."""
    return max(1, min(pieces, max(even, pieces // pieces_a_task), TASKS_MAX))


def dealt_to(task: int, tasks: int, pieces: int) -> range:
    """The numbers of the pieces of one task."""
    return range(task, pieces, tasks)


@cache
def settle() -> None:
    """For a worker that has done its first task, once. Spark has the garbage collector look at everything after each
    task, and nearly all of that are modules, which stay: it took a fifth of a worker's time."""
    gc.collect()
    gc.freeze()


def answers(spark: SparkSession, tasks: int, work: Callable[[int], Sequence[Any]]) -> Iterator[list[Any]]:
    """The tables that `work` answers with for each task; one job, which runs at once."""

    def packed(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for task in batch["id"].to_pylist():
                tables = pa.array([[as_bytes(table) for table in work(task)]], pa.list_(pa.binary()))
                yield pa.RecordBatch.from_arrays([tables], names=["tables"])
        settle()

    found = spark.range(0, tasks, 1, tasks).mapInArrow(packed, "tables array<binary>").toArrow()["tables"]
    return ([pa.ipc.open_stream(each.as_buffer()).read_all() for each in row.values] for row in found)


def as_bytes(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=COMPRESSED) as stream:
        stream.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found
