"""An import from files: two passes, one that reads and sorts, one that writes.

A new journal appears whole: it is written into the hidden directory `.importing` and renamed when it is complete, so
that an import which is killed or fails leaves nothing that readers see. `.importing` also keeps two imports apart.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from roamcast.importer.fixes import BadImport, FixRows, Reading
from roamcast.importer.intake import Drop, Intake
from roamcast.importer.ordering import TimeSorted
from roamcast.importer.rules import Rules
from roamcast.importer.sources import Format, files_of, format_of, read_file
from roamcast.importer.times import RELATIVE_MAX_US
from roamcast.importer.tracks import Tracks
from roamcast.journal import BadJournal, Journal, Move, Run, read_run
from roamcast.journal.schema import VERSION_DIRECTORY
from roamcast.model.space import Earth, Plane

WRITER = "import"
WORKING = ".importing"

Progress = Callable[[str, int, int], None]
"""What is being done, how far it is, and of how much."""


class Imported(Struct, frozen=True):
    """What an import did."""

    files: int
    hosts: int
    fixes: int
    """That are in the journal."""
    moves: int
    """Rows, with those that say that a host is gone."""
    gaps: int
    first_us: int
    last_us: int
    absolute: bool
    """Whether times are since 1970; else since the start of a simulation."""
    dropped: dict[Drop, int]


def import_files(
    given: Sequence[Path],
    journal: Path,
    *,
    format_: Format | None = None,
    reading: Reading | None = None,
    rules: Rules | None = None,
    append: bool = False,
    progress: Progress = lambda *_: None,
) -> Imported:
    """Raises `BadImport` or `BadJournal`."""
    files = files_of(given, format_)
    rules = rules or Rules()
    earlier = earlier_run(journal, append=append)
    how = replace(reading or Reading(), many=len(files) > 1)
    with working_directory(journal) as place:
        intake, fixes, space = collected(files, format_, how, rules, place, progress)
        absolute = fixes.median_us >= RELATIVE_MAX_US
        first_us = fixes.first_us(RELATIVE_MAX_US if absolute else -(2**63))
        run = run_of(earlier, space, first_us, absolute=absolute)
        target = journal if append else place
        tracks = Tracks(space, rules)
        with Journal(target, run, incarnation=None if append else 0, durable=append) as written:
            done, last_us, moves = 0, first_us, 0
            for rows in fixes.ranges():
                done += len(rows)
                believed = intake.without_bad_clocks(rows, absolute=absolute)
                for change in intake.attributes.changes(believed, intake.hosts):
                    written.record(change)
                found = tracks.add(believed)
                moves += write_moves(written, found, intake.hosts)
                last_us = max(last_us, latest(found, last_us))
                progress("writing", done, fixes.rows)
            rest = tracks.finish()
            moves += write_moves(written, rest, intake.hosts)
            last_us = max(last_us, latest(rest, last_us))
            written.end(last_us)
        if not append:
            os.rename(place / VERSION_DIRECTORY, journal / VERSION_DIRECTORY)
    drops = {**intake.drops, Drop.REPEATED: tracks.repeated, Drop.OUTLIER: tracks.outliers}
    kept = fixes.rows - sum(drops[reason] for reason in (Drop.BAD_CLOCK, Drop.REPEATED, Drop.OUTLIER))
    return Imported(
        files=len(files),
        hosts=len(intake.hosts),
        fixes=kept,
        moves=moves,
        gaps=tracks.gaps,
        first_us=first_us,
        last_us=last_us,
        absolute=absolute,
        dropped={reason: count for reason, count in drops.items() if count},
    )


def collected(
    files: Sequence[Path], format_: Format | None, reading: Reading, rules: Rules, place: Path, progress: Progress
) -> tuple[Intake, TimeSorted, Plane | Earth]:
    """The first pass: all fixes of all files, checked and on their way to being sorted."""
    sizes = [path.stat().st_size for path in files]
    total, before = sum(sizes), 0
    fixes = TimeSorted(place)
    intake: Intake | None = None
    space: Plane | Earth | None = None
    for path, size in zip(files, sizes, strict=True):
        opened = Watched()
        found = read_file(path, format_of(path, format_), reading, opened)
        if space is not None and found.space != space:
            raise BadImport(f"{path}: is in {unit(found.space)}, files before it in {unit(space)}; import them apart")
        space = found.space
        intake = intake or Intake(space, rules.limits)
        for batch in found.batches:
            fixes.add(intake.take(batch, str(path)))
            progress("reading", before + min(size, opened.position()), total)
        before += size
        progress("reading", before, total)
    if intake is None or space is None or not fixes.rows:
        raise BadImport(f"no fix was found in {', '.join(map(str, files[:3]))}{said_drops(intake)}")
    return intake, fixes, space


class Watched:
    """Opens a file for Arrow, and knows how far it has been read."""

    def __init__(self) -> None:
        self._file: Any = None

    def __call__(self, path: Path) -> Any:
        self._file = pa.OSFile(str(path))
        compression = pa.Codec.detect(str(path)).name if path.suffix in (".gz", ".zst", ".bz2") else None
        return self._file if compression is None else pa.CompressedInputStream(self._file, compression)

    def position(self) -> int:
        return 0 if self._file is None or self._file.closed else int(self._file.tell())


def write_moves(journal: Journal, moves: FixRows, hosts: list[str]) -> int:
    rows = len(moves)
    if not rows:
        return 0
    names = pa.DictionaryArray.from_arrays(pa.array(moves["host"]), pa.array(hosts))

    def numbers(name: str) -> Any:
        return pa.array(moves[name], from_pandas=True)

    zero, nothing = pa.array(np.zeros(rows, np.int64)), pa.nulls(rows, pa.float64())
    journal.record_columns(
        Move,
        pa.table(
            {
                "host": names,
                "at_us": pa.array(moves["at_us"]),
                "x": numbers("x"),
                "y": numbers("y"),
                "velocity_east": numbers("east_mps"),
                "velocity_north": numbers("north_mps"),
                "destination_x": nothing,
                "destination_y": nothing,
                "pause_us": zero,
                "pause_left_us": zero,
                "up": pa.array(moves["up"]),
            }
        ),
    )
    return rows


def earlier_run(journal: Path, *, append: bool) -> Run | None:
    """The run of the journal that is there, if it is to be added to."""
    there = (journal / VERSION_DIRECTORY).is_dir()
    if there and not append:
        raise BadJournal(f"{journal}: holds a journal already; give an empty directory, or --append to add to it")
    if append and not there:
        raise BadJournal(f"{journal}: holds no journal to append to; leave --append out to make one")
    return read_run(journal) if there else None


def run_of(earlier: Run | None, space: Plane | Earth, first_us: int, *, absolute: bool) -> Run:
    seed = None if absolute else 0
    if earlier is None:
        return Run(WRITER, first_us, space, seed=seed)
    if earlier.space != space or (earlier.seed is None) != absolute:
        raise BadImport(
            f"the journal is in {unit(earlier.space)} with times {since(earlier.seed is None)}, "
            f"the data in {unit(space)} with times {since(absolute)}; import them into a journal of their own"
        )
    return replace(earlier, host=WRITER, at_us=first_us, seed=seed)


def unit(space: Plane | Earth) -> str:
    return "degrees" if isinstance(space, Earth) else "metres"


def since(absolute: bool) -> str:
    return "since 1970" if absolute else "since a start (--start says when that was)"


def latest(moves: FixRows, otherwise: int) -> int:
    return int(moves["at_us"].max()) if len(moves) else otherwise


def said_drops(intake: Intake | None) -> str:
    drops = {} if intake is None else {reason: count for reason, count in intake.drops.items() if count}
    return "".join(f"; {count:,} rows: {reason.value}" for reason, count in drops.items())


@contextmanager
def working_directory(journal: Path) -> Iterator[Path]:
    journal.mkdir(parents=True, exist_ok=True)
    place = journal / WORKING
    try:
        place.mkdir()
    except FileExistsError:
        raise BadImport(
            f"{place}: another import is at work here, or one was killed; if none runs, remove that directory"
        ) from None
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
