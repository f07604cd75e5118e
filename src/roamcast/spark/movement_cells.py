"""From straight stretches of a host's way to the cells of a grid that it passes, and when.

A cell holds its western and southern border. A piece of a stretch begins with the first microsecond in which the host
is in its cell. On Earth a stretch is taken as straight in metres around the grid's origin, as brokers of a mesh take
it. Whoever would pass more than `CROSSINGS_MAX` borders in one stretch was not measured but made up, and is nowhere
for that time.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from roamcast.journal.schema import FLAG, INTEGER, TEXT
from roamcast.model.filter.mask import Floats
from roamcast.model.space import Plane, Space
from roamcast.spark.oracle.boxes import Rows
from roamcast.spark.oracle.tracks import metres_per_degree, moved
from roamcast.spark.tables import columns

CROSSINGS_MAX = 100_000
CELLS_FROM_ORIGIN_MAX = 2**50
"""Further away a double does not tell one cell from the next."""
CORNER_US = 100
"""Borders that are crossed within less than this are crossed at once: whoever passes a corner was not in the cells
beside it, however the times are rounded."""
STANDING_MPS = 0.1
"""Slower than this is standing: positions from satellites wander."""
PIECES = columns(host=TEXT, life=INTEGER, from_us=INTEGER, until_us=INTEGER, column=INTEGER, row=INTEGER, stands=FLAG)


class Cut:
    """What workers do with stretches: `next_x` and `next_y` are where a host was next, if it tells no velocity."""

    def __init__(self, space: Space, cell_m: float, origin: tuple[float, float]) -> None:
        self.space, self.cell_m, self.origin = space, cell_m, origin

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.num_rows:
                yield from self.pieces(batch).to_batches()

    def pieces(self, batch: Any) -> Any:
        from_us, until_us = (batch[name].to_numpy(zero_copy_only=False) for name in ("from_us", "until_us"))
        start, end, stands = self.ends(batch, (until_us - from_us) / 1e6)
        with np.errstate(invalid="ignore", over="ignore"):
            counts = np.abs(np.floor(end[0]) - np.floor(start[0])) + np.abs(np.floor(end[1]) - np.floor(start[1]))
            furthest = np.maximum(np.abs(start[0]), np.abs(start[1]))
        kept = np.flatnonzero((counts <= CROSSINGS_MAX) & (furthest <= CELLS_FROM_ORIGIN_MAX))
        x, y = (np.stack([start[axis][kept], end[axis][kept]]) for axis in (0, 1))
        stretch, at_us, column, row = passed(x, y, from_us[kept], until_us[kept])
        last = np.r_[stretch[1:] != stretch[:-1], True] if len(stretch) else np.empty(0, np.bool_)
        ends_us = np.where(last, until_us[kept][stretch], np.r_[at_us[1:], 0] if len(at_us) else at_us)
        some = np.flatnonzero(at_us < ends_us)
        source = kept[stretch[some]]
        return pa.Table.from_arrays(
            [
                batch["host"].take(pa.array(source)),
                batch["life"].take(pa.array(source)),
                pa.array(at_us[some], pa.int64()),
                pa.array(ends_us[some], pa.int64()),
                pa.array(column[some], pa.int64()),
                pa.array(row[some], pa.int64()),
                pa.array(stands[source]),
            ],
            schema=PIECES,
        )

    def ends(self, batch: Any, seconds: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats], Any]:
        """Where each stretch begins and ends, in cells from the origin, and whether the host stands."""

        def floats(name: str) -> Floats:
            found: Floats = batch[name].to_numpy(zero_copy_only=False).astype(np.float64)
            return found

        x, y, east, north, next_x, next_y = map(
            floats, ("x", "y", "velocity_east", "velocity_north", "next_x", "next_y")
        )
        told, guided = ~np.isnan(east), ~np.isnan(next_x)
        with np.errstate(invalid="ignore", over="ignore"):
            to_x, to_y = moved(
                x, y, np.where(told, east, 0.0) * seconds, np.where(told, north, 0.0) * seconds, self.space
            )
            start = self.in_cells(x, y)
            end = self.in_cells(np.where(guided, next_x, to_x), np.where(guided, next_y, to_y))
            speed_mps = np.hypot(end[0] - start[0], end[1] - start[1]) * self.cell_m / seconds
        return start, end, (told | guided) & (speed_mps <= STANDING_MPS)

    def in_cells(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """`Space.offset_m` from the origin, point by point, with a cell as the unit."""
        if isinstance(self.space, Plane):
            return (x - self.origin[0]) / self.cell_m, (y - self.origin[1]) / self.cell_m
        north_degree, east_degree = metres_per_degree((y + self.origin[1]) / 2)
        turned = x - self.origin[0]
        turned = np.where((turned >= -180) & (turned <= 180), turned, (turned + 180) % 360 - 180)
        return turned * east_degree / self.cell_m, (y - self.origin[1]) * north_degree / self.cell_m


def passed(x: Floats, y: Floats, from_us: Rows, until_us: Rows) -> tuple[Rows, Rows, Rows, Rows]:
    """Which stretch is when in which column and row: one entry for each cell, in order; `x` and `y` are first and
    last values. Where two borders are crossed at once only the cell beyond both counts."""
    number = np.arange(len(from_us))
    still = np.zeros(len(from_us), np.int64)
    parts = [(number, from_us, np.floor(x[0]).astype(np.int64), np.floor(y[0]).astype(np.int64))]
    for axis, values in enumerate((x, y)):
        stretch, at_us, by = crossings(values, from_us, until_us)
        none = still[stretch]
        parts.append((stretch, at_us, by, none) if axis == 0 else (stretch, at_us, none, by))
    stretch, at_us, columns_by, rows_by = (np.concatenate(each) for each in zip(*parts, strict=True))
    # The sort is stable, so a stretch's own beginning comes before what it crosses at once.
    order = np.lexsort((at_us, stretch))
    stretch, at_us = stretch[order], at_us[order]
    column, row = (summed(by[order], stretch, len(from_us)) for by in (columns_by, rows_by))
    counts = np.ones(len(stretch), np.bool_)
    begins = np.r_[True, stretch[1:] != stretch[:-1]][: len(stretch)]
    wait_us = np.where(begins[:-1], 1, CORNER_US)
    counts[:-1] = begins[1:] | (at_us[1:] - at_us[:-1] >= wait_us)
    return stretch[counts], at_us[counts], column[counts], row[counts]


def crossings(values: Floats, from_us: Rows, until_us: Rows) -> tuple[Rows, Rows, Rows]:
    """Each border that is crossed along one axis: of which stretch, when, and whether up (1) or down (-1)."""
    first, last = values
    up = last > first
    below = np.floor(first).astype(np.int64)
    # Upwards a border is crossed when it is reached; downwards it is left, also by who begins on it.
    counts = np.where(up, np.ceil(last).astype(np.int64) - 1 - below, below - np.floor(last).astype(np.int64))
    counts = np.maximum(counts, 0)
    stretch = np.repeat(np.arange(len(first)), counts)
    nth = np.arange(len(stretch)) - np.repeat(np.cumsum(counts) - counts, counts)
    border = np.where(up[stretch], below[stretch] + 1 + nth, below[stretch] - nth)
    share = (border - first[stretch]) / (last - first)[stretch]
    passed_us = share * (until_us - from_us)[stretch]
    after_us = np.where(up[stretch], np.ceil(passed_us), np.floor(passed_us) + 1).astype(np.int64)
    at_us = np.minimum(from_us[stretch] + after_us, until_us[stretch])
    return stretch, at_us, np.where(up[stretch], 1, -1)


def summed(by: Rows, stretch: Rows, stretches: int) -> Rows:
    """Running sums that begin anew with each stretch."""
    total = np.cumsum(by)
    first = np.searchsorted(stretch, np.arange(stretches))
    before = total[first] - by[first] if stretches else total
    found: Rows = total - before[stretch]
    return found
