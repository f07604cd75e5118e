"""What an audit comes to: read from its tables, as values for programs (`audit.json`) and for the page (`page.py`).

The tables are small here, whatever the journal: at most so many subjects, cells and slices, the ones that matter most
first.
"""

from typing import Any

import msgspec
import numpy as np
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq

from roamcast.journal.plain import plain_space
from roamcast.spark.audit import UNKNOWN
from roamcast.spark.fences import FenceAudit, audit_fences
from roamcast.spark.files import file_system
from roamcast.spark.journal import Journal
from roamcast.spark.oracle.tracks import moved
from roamcast.spark.prepare import Prepared
from roamcast.spark.published import Tables
from roamcast.spark.quality import Quality, quality_of
from roamcast.spark.settings import Settings
from roamcast.spark.tables import EXAMPLES, TOTALS, TRACKS

SUBJECTS_MAX = 50
POINTS_MAX = 1_000
WAYS_MAX, WAYS_FILES_MAX = 10_000, 16


class Line(msgspec.Struct, frozen=True):
    """The counts of one subject, place or time, or of all."""

    value: str
    x: float | None
    y: float | None
    at_us: int | None
    expected: int
    delivered: int
    missed: int
    unwanted: int
    duplicates: int
    latency_p50_us: int | None
    latency_p90_us: int | None
    latency_p99_us: int | None
    latency_max_us: int | None

    @property
    def rate(self) -> float | None:
        """The share of what was expected that arrived."""
        return (self.expected - self.missed) / self.expected if self.expected else None


class Example(msgspec.Struct, frozen=True):
    """A pair that went wrong."""

    kind: str
    event_id: str
    subscription_id: str
    subscriber: str
    subject: str
    published_us: int | None
    expected_us: int | None
    delivered_us: int | None
    x: float | None
    y: float | None


class Audit(msgspec.Struct, frozen=True):
    journal: str
    space: str
    first_us: int
    until_us: int
    period_us: int
    total: Line
    delivery_rate: float | None
    subjects: tuple[Line, ...]
    places: tuple[Line, ...]
    times: tuple[Line, ...]
    delays: tuple[Line, ...]
    """First deliveries by how late they were: `at_us` is the least delay of the line."""
    examples: tuple[Example, ...]
    quality: Quality
    cut: tuple[str, ...] = ()
    """The first openings of the journal whose run was cut: they never said that it ended."""
    fences: FenceAudit = FenceAudit()

    @property
    def at_once(self) -> float | None:
        """The share of delivered pairs that were recorded in the microsecond of the ideal delivery. What a host or
        broker handles in one turn of its loop has one time, so they were delivered within a turn."""
        now = sum(line.delivered for line in self.delays if not line.at_us)
        return now / self.total.delivered if self.total.delivered else None


NOTHING = Line("all", None, None, None, 0, 0, 0, 0, 0, None, None, None, None)


def read_audit(tables: Tables, journal: Journal, settings: Settings) -> Audit:
    """From the tables `totals` and `examples`, the ledger, and one job for clocks."""
    lines = [(row.pop("dimension"), Line(**row)) for row in tables.get(TOTALS).to_pylist()]

    def of(dimension: str, key: Any, most: int) -> tuple[Line, ...]:
        return tuple(sorted((line for name, line in lines if name == dimension), key=key)[:most])

    def by_time(line: Line) -> tuple[bool, int]:
        return line.at_us is not None, line.at_us or 0

    total = next(iter(of("all", lambda line: line.value, 1)), NOTHING)
    examples = [row | {"subject": row["subject"] or UNKNOWN} for row in tables.get(EXAMPLES).to_pylist()]
    space: Any = settings.space
    return Audit(
        tables.journal,
        plain_space(space),
        settings.first_us,
        settings.until_us,
        settings.period_us,
        total,
        total.rate,
        of("subject", worst_first, SUBJECTS_MAX),
        of("place", lambda line: line.value, POINTS_MAX),
        of("time", by_time, POINTS_MAX),
        of("delay", by_time, POINTS_MAX),
        tuple(Example(**row) for row in examples),
        quality_of(tables, journal),
        settings.cut,
        audit_fences(tables, journal, settings),
    )


def worst_first(line: Line) -> tuple[int, int, str]:
    return -(line.missed + line.unwanted + line.duplicates), -line.expected, line.value


def ways_of(prepared: Prepared) -> Any:
    """Some of the stretches that hosts went, as pairs of points: read without Spark, from a few files."""
    files, within = file_system(prepared.at(TRACKS))
    found = files.get_file_info(arrow_fs.FileSelector(within, recursive=True))
    paths = sorted(info.path for info in found if info.is_file and info.path.endswith(".parquet"))
    some = paths[:: max(1, -(-len(paths) // WAYS_FILES_MAX))]
    names = ("x", "y", "velocity_east", "velocity_north", "from_us", "until_us")
    parts = [np.zeros((len(names), 0))]
    for path in some:
        with files.open_input_file(path) as opened, pq.ParquetFile(opened) as parquet:
            rows = parquet.read_row_group(0, columns=list(names)).drop_null() if parquet.num_row_groups else None
        if rows is not None and len(rows):
            picked = rows.take(np.linspace(0, len(rows) - 1, min(len(rows), WAYS_MAX // len(some)), dtype=np.int64))
            parts.append(np.array([picked[name].to_numpy() for name in names], float))
    x, y, east, north, from_us, until_us = np.concatenate(parts, axis=1)
    seconds = (until_us - from_us) / 1e6
    to_x, to_y = moved(x, y, east * seconds, north * seconds, prepared.settings.space)
    return np.stack([np.stack([x, y], 1), np.stack([to_x, to_y], 1)], 1)


def not_closed(cut: tuple[str, ...]) -> str:
    return (
        f"journal not closed: the run was interrupted or is still going on ({'; '.join(cut)}); "
        "what it recorded last may be missing"
    )


def percent(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.1%}"


def milliseconds(us: int | None) -> str:
    """A delay. Of those that are 0 no clock tells more than that they are within a turn of a host's loop."""
    return "–" if us is None else duration(us) if us else "at once"


def duration(us: int) -> str:
    """In the unit that suits it, with three digits at most behind it that mean something."""
    size = abs(us)
    if size < 1_000:
        return f"{us} µs"
    return f"{us / 1e3:,.1f} ms" if size < 1_000_000 else f"{us / 1e6:,.2f} s"
