"""Sweeps: one function over many payloads, each a Spark task (P4).

A payload is worked on by itself: one that fails is tried once more, then its error is its answer, and the others go
on. The longest are started first if the caller puts them first, because tasks start in the order of the payloads.
"""

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pandas as pd
from pyspark.sql import SparkSession

from roamcast.spark.workers import dealt_to, settle, tasks_for

Work: TypeAlias = Callable[[str], str]
PAYLOADS_A_TASK = 16
SCHEMA = "number long, answer string, error string, cpu_s double"


class Answer:
    """What became of one payload: an answer, or an error that has the end of its traceback."""

    __slots__ = ("answer", "cpu_s", "error")

    def __init__(self, answer: str, error: str, cpu_s: float) -> None:
        self.answer = answer
        self.error = error
        self.cpu_s = cpu_s


def sweep(spark: SparkSession, work: Work, payloads: Sequence[str]) -> Iterator[tuple[int, Answer]]:
    """Each payload's number with what became of it, when all are done. Nothing of it depends on where it ran."""
    given = list(payloads)
    tasks = tasks_for(len(given), PAYLOADS_A_TASK)

    def work_on(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            for task in batch["id"]:
                for number in dealt_to(task, tasks, len(given)):
                    done = tried(work, given[number])
                    yield pd.DataFrame(
                        {"number": [number], "answer": [done.answer], "error": [done.error], "cpu_s": [done.cpu_s]}
                    )
        settle()

    frame: Any = spark.range(0, tasks, 1, tasks).mapInPandas(work_on, SCHEMA)
    for row in frame.collect():
        yield row.number, Answer(row.answer, row.error, row.cpu_s)


def tried(work: Work, payload: str) -> Answer:
    error = ""
    started = time.process_time()
    for _ in range(2):
        try:
            return Answer(work(payload), "", time.process_time() - started)
        except Exception:
            error = "".join(traceback.format_exc().splitlines(keepends=True)[-3:]).strip()
    return Answer("", error, time.process_time() - started)
