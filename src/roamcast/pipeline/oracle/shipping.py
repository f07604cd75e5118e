"""How the index reaches the workers: as the path of a file that each maps into memory, never inside the code.

On this machine that is the file itself. On a cluster, and through Spark Connect, Spark copies it to every machine
once, and a worker finds it by its name there.
"""

import tempfile
from pathlib import Path
from typing import Any

from msgspec import Struct
from pyspark import SparkFiles

from roamcast.pipeline.store import file_system


class Shipped(Struct, frozen=True):
    path: str
    name: str | None = None
    """By which Spark knows it on other machines."""

    def here(self) -> str:
        """The path on the machine that asks."""
        if self.name is not None:
            copied = Path(SparkFiles.getRootDirectory()) / self.name
            if copied.is_file():
                return str(copied)
        return self.path


def shipped(spark: Any, place: str) -> Shipped:
    """The file, made known to all workers of a session."""
    path = local(place)
    if not hasattr(spark, "_jsparkSession"):
        spark.addArtifacts(path, file=True)
    elif spark.sparkContext.master.startswith("local") and "cluster" not in spark.sparkContext.master:
        return Shipped(path)
    else:
        spark.sparkContext.addFile(path)
    return Shipped(path, Path(path).name)


def local(place: str) -> str:
    """A file of this machine with the content of that place: only such a file can be mapped into memory."""
    files, within = file_system(place)
    if "://" not in place:
        return str(within)
    copy = Path(tempfile.mkdtemp(prefix="roamcast-")) / Path(within).name
    with files.open_input_stream(within) as content, copy.open("wb") as out:
        while part := content.read(1 << 20):
            out.write(part)
    return str(copy)
