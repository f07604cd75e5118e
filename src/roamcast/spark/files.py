"""Places of files, as Spark and Arrow both understand them: a local path, or an address such as `s3a://bucket/journal`.

Workers read and write files themselves, so a place must be visible to them under the same name: a local disk for
`local[*]`, a shared file system or an object store for a cluster.
"""

import posixpath
import re
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq

from roamcast.spark.tables import BadPipeline

HADOOP_TO_ARROW = {"s3a": "s3", "s3n": "s3", "wasbs": "abfs", "abfss": "abfs"}
PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "s3n": "org.apache.hadoop:hadoop-aws",
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "delta": "io.delta:delta-spark_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13",
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13",
}
"""The Java package without which Spark has no file system, format or catalog of this name."""
MISSING = re.compile(
    r'No FileSystem for scheme "(\w+)|Class org\.apache\.hadoop\.fs\.(\w+)'
    r"|[Ff]ailed to find (?:the )?data source: (\w+)|plugin class for catalog .*\b(delta|iceberg)\b"
)


def address(directory: str) -> str:
    """A directory wherever the process stands."""
    return directory.rstrip("/") if "://" in directory else posixpath.normpath(Path(directory).absolute())


def file_system(place: str) -> tuple[Any, str]:
    """Arrow's file system for an address or a path as Spark reports it, and the path within it."""
    scheme = urlparse(place).scheme
    if scheme in ("", "file"):
        return arrow_fs.LocalFileSystem(), re.sub("^file:(//)?", "", place)
    spelt = HADOOP_TO_ARROW.get(scheme, scheme) + place[len(scheme) :]
    try:
        found: tuple[Any, str] = arrow_fs.FileSystem.from_uri(spelt)
    except (pa.ArrowException, OSError) as problem:
        raise BadPipeline(f"{place}: not an address that can be read; {problem}") from problem
    return found


def missing_package(said: str) -> str | None:
    """What to install if Spark says that it lacks a file system, a format or a catalog."""
    found = MISSING.search(said)
    if found is None:
        return None
    name = next(group for group in found.groups() if group).lower()
    package = PACKAGES.get(name)
    advice = f"the package {package} in a version for this Spark" if package else "a package that has it"
    return f"this Spark has no '{name}'; start it with {advice} (--conf spark.jars.packages={package or '…'}:VERSION)"


def path_within(place: str) -> str:
    """The path within its file system, in one spelling: Spark takes `..` out of paths, Arrow does not."""
    return posixpath.normpath(file_system(place)[1])


def infos_in(place: str, *, recursive: bool = False) -> list[Any]:
    """Arrow's notes about all that lies in a directory, by path; nothing where there is none."""
    files, within = file_system(place)
    found = files.get_file_info(arrow_fs.FileSelector(within, allow_not_found=True, recursive=recursive))
    return sorted(found, key=lambda info: info.path)


def is_directory(place: str) -> bool:
    files, within = file_system(place)
    return bool(files.get_file_info(within).type == arrow_fs.FileType.Directory)


def write_bytes(place: str, content: bytes) -> None:
    files, within = file_system(place)
    with files.open_output_stream(within) as stream:
        stream.write(content)


def read_bytes(place: str) -> bytes:
    files, within = file_system(place)
    with files.open_input_stream(within) as stream:
        content: bytes = stream.read()
    return content


class Finished:
    """A Parquet file of a worker, put in its place as a whole; a task that runs again puts the same there."""

    def __init__(
        self, place: str | None, name: str, note: dict[str, bytes] | None = None, dictionary: list[str] | None = None
    ) -> None:
        """`dictionary`: the columns that repeat themselves; all are tried unless they are given."""
        self.place, self.name, self.note = place, name, note or {}
        self.dictionary = True if dictionary is None else dictionary
        self.writer: Any = None

    def __enter__(self) -> "Finished":
        return self

    def write(self, rows: Any) -> None:
        if not len(rows) or self.place is None:
            return
        if self.writer is None:
            self.files, within = file_system(self.place)
            # Two attempts at a task may be under way at the same time.
            self.partial, self.file = f"{within}/.{self.name}.{secrets.token_hex(4)}", f"{within}/{self.name}"
            self.files.create_dir(within, recursive=True)
            self.stream = self.files.open_output_stream(self.partial)
            # Nobody looks ids up by their range, and to find it takes longer than all the rest.
            self.writer = pq.ParquetWriter(
                self.stream,
                rows.schema,
                compression="zstd",
                store_schema=False,
                write_statistics=["at_us"],
                use_dictionary=self.dictionary,
            )
            self.writer.add_key_value_metadata(self.note)
        self.writer.write_table(rows)

    def __exit__(self, kind: object, *_: object) -> None:
        if self.writer is None:
            return
        self.writer.close()
        self.stream.close()
        if kind is None:
            self.files.move(self.partial, self.file)
        else:
            self.files.delete_file(self.partial)
