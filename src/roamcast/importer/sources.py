"""Finds the files to import and chooses a reader for each."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from roamcast.importer.fixes import BadImport, Found, Reading
from roamcast.importer.gtfs import read_gtfs
from roamcast.importer.nmea import read_nmea
from roamcast.importer.owntracks import read_owntracks
from roamcast.importer.tabular import read_csv, read_geolife, read_parquet
from roamcast.importer.traces import read_trace_file

Format: TypeAlias = Literal["csv", "parquet", "gpx", "fcd", "bonnmotion", "nmea", "gtfs-rt", "owntracks", "geolife"]
FORMATS: tuple[Format, ...] = get_args(Format)

FORMAT_OF_SUFFIX: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".geoparquet": "parquet",
    ".pq": "parquet",
    ".gpx": "gpx",
    ".xml": "fcd",
    ".movements": "bonnmotion",
    ".nmea": "nmea",
    ".ais": "nmea",
    ".pb": "gtfs-rt",
    ".rec": "owntracks",
    ".plt": "geolife",
}
COMPRESSED = (".gz", ".zst", ".bz2")
"""CSV may be compressed; Arrow reads it as it is."""

Opened: TypeAlias = Callable[[Path], Any]
"""Opens a file for reading by Arrow, so that somebody can see how far it is read."""


def files_of(given: Iterable[Path], asked: Format | None) -> list[Path]:
    """Files as they are, and of directories all that are of a known format, at any depth."""
    found: list[Path] = []
    for path in given:
        if path.is_dir():
            within = sorted(each for each in path.rglob("*") if each.is_file() and not hidden(each, path))
            wanted = [each for each in within if asked is not None or suffix_of(each) in FORMAT_OF_SUFFIX]
            if not wanted:
                raise BadImport(f"{path}: holds no file of a known format ({known()}); name the format with --format")
            found += wanted
        elif path.is_file():
            found.append(path)
        else:
            raise BadImport(f"{path}: no such file or directory")
    return found


def hidden(path: Path, below: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(below).parts)


def suffix_of(path: Path) -> str:
    name = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return name.suffix.lower()


def format_of(path: Path, asked: Format | None) -> Format:
    found = asked or FORMAT_OF_SUFFIX.get(suffix_of(path))
    if found is None:
        raise BadImport(f"{path}: its name does not tell its format ({known()}); give it with --format")
    return found


def known() -> str:
    return ", ".join(FORMAT_OF_SUFFIX)


def read_file(path: Path, format_: Format, reading: Reading, opened: Opened) -> Found:
    try:
        match format_:
            case "csv":
                return read_csv(path, reading, opened)
            case "geolife":
                return read_geolife(path, reading, opened)
            case "parquet":
                return read_parquet(path, reading)
            case "gpx" | "fcd" | "bonnmotion":
                return read_trace_file(path, format_, reading)
            case "nmea":
                return read_nmea(path, reading)
            case "gtfs-rt":
                return read_gtfs(path, reading)
            case "owntracks":
                return read_owntracks(path, reading)
    except (OSError, pa.ArrowInvalid) as problem:
        raise BadImport(f"{path}: {problem}") from None
