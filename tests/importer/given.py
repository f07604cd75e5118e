"""Small files, and what an import makes of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roamcast.importer.fixes import Reading
from roamcast.importer.rules import Rules
from roamcast.importer.running import Imported, import_files
from roamcast.journal import Move, read_records

NOON_US = 1_714_564_800_000_000
"""2024-05-01T12:00:00Z."""


def imported(
    path: Path, journal: Path, *, reading: Reading | None = None, **more: Any
) -> tuple[Imported, list[Move]]:
    found = import_files([path], journal, reading=reading, **more)
    return found, list(read_records(journal, Move))


def moves_of(text: str, directory: Path, reading: Reading | None = None, rules: Rules | None = None) -> list[Move]:
    """Of a CSV file with this text."""
    path = directory / "given.csv"
    path.write_text(text)
    return imported(path, directory / "journal", reading=reading, rules=rules)[1]


def places(moves: Sequence[Move]) -> list[tuple[str, int, float, float]]:
    """Where hosts were seen; not that they are gone."""
    return [(each.host, each.at_us, each.position.x, each.position.y) for each in moves if each.position is not None]
