"""Where the files of a journal are and how they are called: `v2/<table>/<writer>-<incarnation>-<segment>.parquet`.

The version is a directory, so that one version's tables can be read whole with any tool; numbers are padded, so that
names sort as they were written; a name that begins with a dot is not there yet, as Spark, Arrow and we all agree.
"""

import re
from pathlib import Path

from msgspec import Struct

from roamcast.journal.records import BadJournal
from roamcast.journal.schema import TABLES

NAME_CHARACTERS_MAX = 200

SEGMENT_NAME = re.compile(r"(?P<writer>.+)-(?P<incarnation>\d{6,})-(?P<segment>\d{8,})\.parquet")
UNSAFE = re.compile(r"^[._]|[^A-Za-z0-9._-]")
VERSION_NAME = re.compile(r"v(\d+)")


class Segment(Struct, frozen=True, order=True):
    """What the name of a segment's file says."""

    writer: str
    incarnation: int
    number: int

    @property
    def file_name(self) -> str:
        return f"{self.writer}-{self.incarnation:06d}-{self.number:08d}.parquet"


def writer_name(host: str) -> str:
    """A host's name as a file may be called in every file system and in Spark: other characters as `~` and hex."""
    name = UNSAFE.sub(escaped, host)
    if not name or len(name) > NAME_CHARACTERS_MAX:
        raise BadJournal(
            f"'{host[:40]}' cannot name the files of a journal; give 1 to {NAME_CHARACTERS_MAX} characters"
        )
    return name


def escaped(found: re.Match[str]) -> str:
    return "".join(f"~{byte:02x}" for byte in found[0].encode("utf-8", "surrogatepass"))


def temporary_name(file_name: str) -> str:
    return f".{file_name}.partial"


def segment_of(path: Path) -> Segment | None:
    """None for a file that no writer of ours named so."""
    found = SEGMENT_NAME.fullmatch(path.name)
    return None if found is None else Segment(found["writer"], int(found["incarnation"]), int(found["segment"]))


def visible_files(table_directory: Path) -> list[Path]:
    return sorted(path for path in table_directory.iterdir() if not path.name.startswith((".", "_")))


def used_incarnations(version_directory: Path) -> list[int]:
    """Of every writer and table, so that a number is not given twice even when old segments were removed."""
    found = [segment_of(path) for table in TABLES for path in visible_files(version_directory / table.name)]
    return sorted({segment.incarnation for segment in found if segment is not None})


def leftovers(version_directory: Path, writer: str) -> list[Path]:
    """The hidden files that a killed process of this writer left behind."""
    found = [path for table in TABLES for path in (version_directory / table.name).glob(".*.partial")]
    return [path for path in found if (segment := written_as(path)) is not None and segment.writer == writer]


def written_as(partial: Path) -> Segment | None:
    return segment_of(Path(partial.name.removeprefix(".").removesuffix(".partial")))


def versions_in(directory: Path) -> list[int]:
    names = [VERSION_NAME.fullmatch(path.name) for path in directory.iterdir() if path.is_dir()]
    return sorted(int(found[1]) for found in names if found is not None)
