"""Where tables lie: one directory of Parquet for each, below one root. A local path, or any address Spark can read.

Workers read parts of tables and write segments themselves, so the root must be visible to them under the same name:
a local disk for `local[*]`, a shared file system or an object store for a cluster.
"""

import posixpath
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.fs as arrow_fs
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from roamcast.pipeline.job import BadPipeline, Settings, Table, as_declared

TABLES_DIRECTORY = "tables"


def address(directory: str) -> str:
    """A directory as Spark and Arrow both understand it, wherever the process stands."""
    return directory.rstrip("/") if "://" in directory else str(Path(directory).absolute())


def file_system(place: str) -> tuple[Any, str]:
    """Arrow's file system for an address or a path as Spark reports it, and the path within it."""
    scheme = urlparse(place).scheme
    if scheme in ("", "file"):
        return arrow_fs.LocalFileSystem(), re.sub("^file:(//)?", "", place)
    try:
        found: tuple[Any, str] = arrow_fs.FileSystem.from_uri(place)
    except (pa.ArrowException, OSError) as problem:
        raise BadPipeline(f"{place}: not an address that can be read; {problem}") from problem
    return found


def path_within(place: str) -> str:
    """The path within its file system, in one spelling: Spark takes `..` out of paths, Arrow does not."""
    return posixpath.normpath(file_system(place)[1])


class Store:
    def __init__(self, spark: SparkSession, directory: str) -> None:
        """`directory` is the journal's; tables lie in its `tables`."""
        self.spark = spark
        self.journal = address(directory)
        self.root = f"{self.journal}/{TABLES_DIRECTORY}"

    def place(self, table: Table) -> str:
        return f"{self.root}/{table.name}"

    def beside(self, table: Table) -> str:
        """A directory next to the table's for what workers write themselves; Spark overlooks it."""
        return f"{self.root}/.{table.name}"

    def exists(self, table: Table) -> bool:
        files, path = file_system(self.place(table))
        return bool(files.get_file_info(path).type == arrow_fs.FileType.Directory)

    def read(self, table: Table) -> DataFrame:
        try:
            return self.spark.read.schema(table.struct).parquet(self.place(table)).select(*table.columns)
        except AnalysisException as problem:
            if problem.getCondition() != "PATH_NOT_FOUND":
                raise
            raise BadPipeline(f"{self.place(table)}: table '{table.name}' is missing") from None

    def write(self, table: Table, frame: DataFrame) -> None:
        """Computes the frame, and puts it in the table's place, with the rows that workers have written beside it."""
        files, beside = file_system(self.beside(table))
        self._clear(files, beside)
        writer = as_declared(frame, table).write.mode("overwrite")
        if table.by_bucket:
            writer = writer.partitionBy("bucket")
        writer.parquet(self.place(table))
        _, place = file_system(self.place(table))
        for each in files.get_file_info(arrow_fs.FileSelector(beside, allow_not_found=True)):
            if each.base_name.endswith(".parquet") and not each.base_name.startswith("."):
                files.move(each.path, f"{place}/{each.base_name}")

    def _clear(self, files: Any, directory: str) -> None:
        if files.get_file_info(directory).type == arrow_fs.FileType.Directory:
            files.delete_dir(directory)


class StoredInputs:
    """The tables of a store as a job's inputs."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings

    def __getitem__(self, table: Table) -> DataFrame:
        return self.store.read(table)

    def place(self, table: Table) -> str:
        return self.store.place(table)

    def beside(self, table: Table) -> str:
        return self.store.beside(table)
