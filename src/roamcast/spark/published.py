"""Tables that are there whole or not at all.

    tables/expected/00000007-3f2a91c0/*.parquet    what a writer made, in a directory of its own
    tables/expected/_versions/00000007.json        the pointer, written when all of that is there

Readers take the pointer with the highest number. A writer that is killed leaves a directory that nothing points to,
and the last version stays what it was. Two writers never write into each other's directories; whoever comes second
with a number finds it taken (`Taken`) and reads again. The version before the last is kept for those who still read.
"""

import os
import secrets
import time
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from roamcast.spark.files import address, file_system, infos_in, is_directory, read_bytes, write_bytes
from roamcast.spark.tables import BadPipeline, Table, as_declared

TABLES_DIRECTORY = "tables"
VERSIONS = "_versions"
KEPT = 2
ABANDONED_S = 86_400
"""A directory that nothing points to is removed when it is older: its writer is gone."""


class Taken(Exception):
    """Somebody else has published a version under this number."""


class Version(msgspec.Struct, frozen=True):
    number: int
    parts: tuple[str, ...]
    """Directories of Parquet below the table's own."""
    about: dict[str, Any] = {}
    beside: tuple[str, ...] = ()
    """Directories that belong to the version and are none of its rows."""

    @property
    def held(self) -> set[str]:
        return {part.partition("/")[0] for part in (*self.parts, *self.beside)}


class Tables:
    """The tables of one journal, below one root."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        """`directory` is the journal's; tables lie in its `tables`."""
        self.spark = spark
        self.journal = address(directory)
        self.root = f"{self.journal}/{TABLES_DIRECTORY}"

    def place(self, name: str) -> str:
        return f"{self.root}/{name}"

    def current(self, name: str) -> Version | None:
        numbers = self._numbers(name)
        return self._version(name, numbers[-1]) if numbers else None

    def known(self, name: str) -> Version:
        version = self.current(name)
        if version is None:
            raise BadPipeline(f"{self.place(name)}: table '{name}' is missing")
        return version

    def paths(self, name: str) -> list[str]:
        """Where the rows of the current version lie."""
        found = [f"{self.place(name)}/{part}" for part in self.known(name).parts]
        for path in found:
            if not is_directory(path):
                raise BadPipeline(f"{path}: a part of table '{name}' is missing")
        return found

    def read(self, table: Table) -> DataFrame:
        return self.parquet(table, self.paths(table.name))

    def parquet(self, table: Table, paths: list[str]) -> DataFrame:
        if not paths:
            return self.spark.createDataFrame([], table.struct)
        try:
            return self.spark.read.schema(table.struct).parquet(*paths).select(*table.columns)
        except AnalysisException as problem:
            if problem.getCondition() != "PATH_NOT_FOUND":
                raise
            raise BadPipeline(f"{self.place(table.name)}: table '{table.name}' is missing") from None

    def write(self, table: Table, frame: DataFrame, **about: Any) -> str:
        """Computes the frame, and publishes it; answers where it lies."""
        part = self.draft(table.name)
        place = f"{self.place(table.name)}/{part}"
        as_declared(frame, table).write.parquet(place)
        self.publish(table.name, (part,), about)
        return place

    def put(self, table: Table, rows: Any) -> None:
        """Publishes rows that are here, as one file."""
        part = self.draft(table.name)
        files, within = file_system(f"{self.place(table.name)}/{part}")
        files.create_dir(within, recursive=True)
        pq.write_table(rows.select(table.columns).cast(table.schema), f"{within}/part.parquet", filesystem=files)
        self.publish(table.name, (part,))

    def get(self, table: Table) -> Any:
        """The rows of a small table, read without Spark."""
        parts = [table.schema.empty_table()]
        for path in self.paths(table.name):
            files, within = file_system(path)
            parts.append(pq.read_table(within, filesystem=files, partitioning=None, schema=table.schema))
        return pa.concat_tables(parts)

    def draft(self, name: str) -> str:
        """The name of a directory that nobody else writes into."""
        numbers = self._numbers(name)
        return f"{(numbers[-1] if numbers else 0) + 1:08d}-{secrets.token_hex(4)}"

    def publish(
        self,
        name: str,
        parts: tuple[str, ...],
        about: dict[str, Any] | None = None,
        after: int | None = None,
        beside: tuple[str, ...] = (),
    ) -> Version:
        """Makes these parts the current version. `after`: only if that one is current still, else raises `Taken`."""
        while True:
            numbers = self._numbers(name)
            number = (numbers[-1] if numbers else 0) + 1
            if after is not None and number != after + 1:
                raise Taken(f"{self.place(name)}: version {after + 1} was published by somebody else")
            version = Version(number, parts, about or {}, beside)
            try:
                self._point(name, version)
            except FileExistsError:
                continue
            self._prune(name, version)
            return version

    def _point(self, name: str, version: Version) -> None:
        """Creates the pointer; raises `FileExistsError` if there is one with its number."""
        content, file = msgspec.json.encode(version), f"{version.number:08d}.json"
        files, within = file_system(f"{self.place(name)}/{VERSIONS}")
        files.create_dir(within, recursive=True)
        if "://" in self.root:
            # An object appears whole. Arrow cannot ask a store to create it only once.
            if any(PurePosixPath(info.path).name == file for info in infos_in(f"{self.place(name)}/{VERSIONS}")):
                raise FileExistsError(file)
            write_bytes(f"{self.place(name)}/{VERSIONS}/{file}", content)
            return
        hidden = f"{within}/.{file}.{secrets.token_hex(4)}"
        write_bytes(hidden, content)
        try:
            os.link(hidden, f"{within}/{file}")
        finally:
            os.unlink(hidden)

    def _numbers(self, name: str) -> list[int]:
        names = (PurePosixPath(info.path) for info in infos_in(f"{self.place(name)}/{VERSIONS}"))
        return sorted(int(each.stem) for each in names if each.suffix == ".json" and each.stem.isdecimal())

    def _version(self, name: str, number: int) -> Version:
        place = f"{self.place(name)}/{VERSIONS}/{number:08d}.json"
        try:
            return msgspec.json.decode(read_bytes(place), type=Version)
        except (msgspec.MsgspecError, OSError) as problem:
            raise BadPipeline(f"{place}: not a version of a table ({problem})") from problem

    def _prune(self, name: str, current: Version) -> None:
        """Removes old pointers, what only they point to, and what a killed writer left long ago."""
        files, within = file_system(self.place(name))
        held = current.held
        old = [number for number in self._numbers(name) if number < current.number]
        for number in old[-(KEPT - 1) :]:
            held |= self._version(name, number).held
        over: set[str] = set()
        for number in old[: -(KEPT - 1)]:
            # Whoever publishes at the same time may be faster.
            with suppress(FileNotFoundError, BadPipeline):
                over |= self._version(name, number).held
                files.delete_file(f"{within}/{VERSIONS}/{number:08d}.json")
        for info in infos_in(self.place(name)):
            part = PurePosixPath(info.path).name
            abandoned = info.mtime is not None and time.time() - info.mtime.timestamp() > ABANDONED_S
            if part[:8].isdecimal() and part not in held and (part in over or abandoned):
                with suppress(FileNotFoundError):
                    files.delete_dir(info.path)


def read_table(spark: SparkSession, directory: str, name: str) -> DataFrame:
    """The current version of a table that a command wrote: `read_table(spark, "out/town", "verdicts")`."""
    return spark.read.parquet(*Tables(spark, directory).paths(name))
