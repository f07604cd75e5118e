"""A journal as a source of Spark: `spark.read.format("roamcast")` and `spark.readStream.format("roamcast")`.

    from roamcast.spark import register
    register(spark)
    spark.read.format("roamcast").option("table", "moves").load("out/town")

A partition is a group of segments, which workers read and check with Arrow. As a stream, an offset is the set of
segments that were there: each comes once, in the batch after it appeared.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from roamcast.journal.schema import VERSION_DIRECTORY
from roamcast.spark.files import address, infos_in
from roamcast.spark.segment import read_segment
from roamcast.spark.tables import JOURNAL, BadPipeline

PARTITION_BYTES = 32 * 1024 * 1024


def register(spark: SparkSession) -> None:
    """Makes the format known to a session."""
    spark.dataSource.register(JournalSource)


class JournalSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "roamcast"

    def schema(self) -> Any:
        return table_asked(self.options).struct

    def reader(self, schema: Any) -> "JournalReader":
        return JournalReader(self.options)

    def streamReader(self, schema: Any) -> "JournalStreamReader":  # noqa: N802 - Spark's name
        return JournalStreamReader(self.options)


class Segments(InputPartition):
    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(None)
        self.paths = tuple(paths)


class Reading:
    """What reading once and reading on have in common."""

    def __init__(self, options: Any) -> None:
        table = table_asked(options)
        self.place = f"{address(options['path'])}/{VERSION_DIRECTORY}/{table.name}"
        self.table = table.name

    def segments(self) -> list[tuple[str, int]]:
        """The files of the table and their sizes, by name."""
        infos = (info for info in infos_in(self.place) if info.is_file and info.size)
        visible = (info for info in infos if not info.base_name.startswith((".", "_")))
        return [(f"{self.place}/{info.base_name}", info.size) for info in visible]

    def read(self, partition: Any) -> Iterator[Any]:
        # Spark compares schemas to the letter, and has every column nullable.
        schema = pa.schema([field.with_nullable(True) for field in JOURNAL[self.table].schema])
        for path in partition.paths:
            yield from read_segment(path)[0].cast(schema).to_batches()


class JournalReader(Reading, DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return in_groups(self.segments())


class JournalStreamReader(Reading, DataSourceStreamReader):
    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        return {}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, str]:  # noqa: N802 - Spark's name
        """By writer and opening the last segment that is there; they are numbered in the order they are written."""
        found: dict[str, str] = {}
        for path, _ in self.segments():
            writer, _, number = path.rpartition("-")
            found[writer] = max(found.get(writer, ""), number)
        return found

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        def new(path: str) -> bool:
            writer, _, number = path.rpartition("-")
            return start.get(writer, "") < number <= end.get(writer, "")

        return in_groups([(path, size) for path, size in self.segments() if new(path)])


def in_groups(segments: list[tuple[str, int]]) -> list[InputPartition]:
    groups: list[list[str]] = [[]]
    total = 0
    for path, size in segments:
        if groups[-1] and total + size > PARTITION_BYTES:
            groups.append([])
            total = 0
        groups[-1].append(path)
        total += size
    return [Segments(group) for group in groups]


def table_asked(options: Any) -> Any:
    name = options.get("table")
    if name not in JOURNAL:
        raise BadPipeline(f"option 'table' is '{name}'; give one of {', '.join(JOURNAL)}")
    return JOURNAL[name]
