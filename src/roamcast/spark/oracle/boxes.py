"""Boxes around places, very many at once, and which of them overlap: how the oracle finds whom to look at.

A box is a coarse answer to "where can this be within the bucket", never too small; the exact question is asked later,
of those whose boxes overlap. An unbounded box reaches to infinity, an empty one (west beyond east) overlaps nothing.
On Earth a box that would cross the date line or come near a pole spans all longitudes, which is always right.

`overlapping` sorts the boxes of one side into the cells of a grid and looks each box of the other side up there, so
its cost is that of the pairs in common cells. A box over very many cells is not sorted in; it is compared with all.
Pairs come in chunks of bounded size, so that a crowded cell costs time and not memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from roamcast.model.filter.mask import Flags, Floats
from roamcast.model.space import DEGREE_NORTH_MIN_M, ECCENTRICITY_SQUARED, EQUATOR_RADIUS_M, Plane, Space

Rows = npt.NDArray[np.int64]

CELLS_PER_BOX_MAX = 64
CELLS_PER_SIDE_MAX = 4_096
PAIRS_PER_CHUNK = 1_000_000
MARGIN = 1.01
"""Reaches are taken this much longer, which makes up for rounding and for the curvature of the Earth."""


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    west: Floats
    south: Floats
    east: Floats
    north: Floats

    def __len__(self) -> int:
        return len(self.west)

    def take(self, rows: Rows) -> "Boxes":
        return Boxes(self.west[rows], self.south[rows], self.east[rows], self.north[rows])

    @property
    def filled(self) -> Flags:
        found: Flags = (self.west <= self.east) & (self.south <= self.north)
        return found


def unbounded(count: int) -> Boxes:
    return Boxes(*(np.full(count, side) for side in (-np.inf, -np.inf, np.inf, np.inf)))


def empty(count: int) -> Boxes:
    return Boxes(*(np.full(count, side) for side in (np.inf, np.inf, -np.inf, -np.inf)))


def grown(boxes: Boxes, reach_m: Floats, space: Space) -> Boxes:
    """The boxes with a margin on every side; empty ones stay empty."""
    reach = reach_m * MARGIN + 1e-6
    if isinstance(space, Plane):
        # A coordinate far out is no exact number any more, so the margin grows with it.
        far = np.maximum.reduce([np.abs(side) for side in (boxes.west, boxes.south, boxes.east, boxes.north)])
        reach = reach + np.where(np.isfinite(far), far, 0.0) * 1e-12
        return Boxes(boxes.west - reach, boxes.south - reach, boxes.east + reach, boxes.north + reach)
    south = boxes.south - reach / DEGREE_NORTH_MIN_M
    north = boxes.north + reach / DEGREE_NORTH_MIN_M
    poleward = np.minimum(np.maximum(np.abs(south), np.abs(north)), 90.0)
    sine, cosine = np.sin(np.radians(poleward)), np.cos(np.radians(poleward))
    degree_m = np.radians(EQUATOR_RADIUS_M / np.sqrt(1 - ECCENTRICITY_SQUARED * sine * sine) * cosine)
    margin = reach / np.maximum(degree_m, 1e-9)
    west, east = boxes.west - margin, boxes.east + margin
    around = boxes.filled & ((west < -180) | (east > 180) | (poleward > 89))
    return Boxes(np.where(around, -180.0, west), south, np.where(around, 180.0, east), north)


def overlap(a: Boxes, b: Boxes) -> Flags:
    """Box by box."""
    found: Flags = (a.west <= b.east) & (b.west <= a.east) & (a.south <= b.north) & (b.south <= a.north)
    return found


def overlapping(a: Boxes, b: Boxes) -> Iterator[tuple[Rows, Rows]]:
    """Every pair of a row of `a` and a row of `b` whose boxes overlap, once, in chunks."""
    in_a = np.flatnonzero(a.filled & overlap(a, around(b)))
    in_b = np.flatnonzero(b.filled & overlap(b, around(a)))
    if not len(in_a) or not len(in_b):
        return
    grid = Grid.over(a.take(in_a), b.take(in_b))
    if grid is None:
        yield from compared(a, in_a, b, in_b)
        return
    a_wide, b_wide = grid.wide(a.take(in_a)), grid.wide(b.take(in_b))
    yield from compared(a, in_a[a_wide], b, in_b)
    yield from compared(a, in_a[~a_wide], b, in_b[b_wide])
    yield from grid.joined(a, in_a[~a_wide], b, in_b[~b_wide])


def around(boxes: Boxes) -> Boxes:
    """One box around all that are not empty."""
    inside = boxes.take(np.flatnonzero(boxes.filled))
    if not len(inside):
        return empty(1)
    return Boxes(inside.west.min()[None], inside.south.min()[None], inside.east.max()[None], inside.north.max()[None])


def compared(a: Boxes, in_a: Rows, b: Boxes, in_b: Rows) -> Iterator[tuple[Rows, Rows]]:
    """All with all: for the few boxes that a grid does not help with."""
    if not len(in_a) or not len(in_b):
        return
    step = max(1, PAIRS_PER_CHUNK // len(in_b))
    for start in range(0, len(in_a), step):
        some = in_a[start : start + step]
        left, right = np.repeat(some, len(in_b)), np.tile(in_b, len(some))
        hits = overlap(a.take(left), b.take(right))
        yield left[hits], right[hits]


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    west: float
    south: float
    cell_x: float
    cell_y: float
    columns: int
    rows: int

    @classmethod
    def over(cls, a: Boxes, b: Boxes) -> "Grid | None":
        """A grid over where both sides are; cells are about as large as a box. None where there is nothing to cut."""
        west, east = max(least(a.west), least(b.west)), min(most(a.east), most(b.east))
        south, north = max(least(a.south), least(b.south)), min(most(a.north), most(b.north))
        if not (west < east and south < north and np.isfinite([west, east, south, north]).all()):
            return None
        counted = max(1.0, float(max(len(a), len(b))) ** 0.5)
        cell_x = max(typical(a.east - a.west, b.east - b.west), (east - west) / counted)
        cell_y = max(typical(a.north - a.south, b.north - b.south), (north - south) / counted)
        columns = min(CELLS_PER_SIDE_MAX, max(1, int((east - west) / cell_x)))
        rows = min(CELLS_PER_SIDE_MAX, max(1, int((north - south) / cell_y)))
        return cls(west, south, (east - west) / columns, (north - south) / rows, columns, rows)

    def column(self, x: Floats) -> Rows:
        found = np.floor((np.clip(x, self.west, None) - self.west) / self.cell_x)
        return np.clip(found, 0, self.columns - 1).astype(np.int64)

    def row(self, y: Floats) -> Rows:
        found = np.floor((np.clip(y, self.south, None) - self.south) / self.cell_y)
        return np.clip(found, 0, self.rows - 1).astype(np.int64)

    def spans(self, boxes: Boxes) -> tuple[Rows, Rows, Rows, Rows]:
        return self.column(boxes.west), self.column(boxes.east), self.row(boxes.south), self.row(boxes.north)

    def wide(self, boxes: Boxes) -> Flags:
        left, right, low, high = self.spans(boxes)
        found: Flags = (right - left + 1) * (high - low + 1) > CELLS_PER_BOX_MAX
        return found

    def cells(self, boxes: Boxes) -> tuple[Rows, Rows]:
        """Each box in each of its cells: which box, and which cell."""
        left, right, low, high = self.spans(boxes)
        across = right - left + 1
        box, nth = spread(across * (high - low + 1))
        return box, (low[box] + nth // across[box]) * self.columns + left[box] + nth % across[box]

    def joined(self, a: Boxes, in_a: Rows, b: Boxes, in_b: Rows) -> Iterator[tuple[Rows, Rows]]:
        if not len(in_a) or not len(in_b):
            return
        a_box, a_cell = self.cells(a.take(in_a))
        b_box, b_cell = self.cells(b.take(in_b))
        order = np.argsort(b_cell, kind="stable")
        b_box, b_cell = b_box[order], b_cell[order]
        first = np.searchsorted(b_cell, a_cell, "left")
        counts = np.searchsorted(b_cell, a_cell, "right") - first
        for some in in_chunks(counts):
            entry, nth = spread(counts[some])
            entry = some[entry]
            left, right = in_a[a_box[entry]], in_b[b_box[first[entry] + nth]]
            # Two boxes meet in several cells; they are a pair in the one where their common part begins.
            begins = self.row(np.maximum(a.south[left], b.south[right])) * self.columns + self.column(
                np.maximum(a.west[left], b.west[right])
            )
            hits = (begins == a_cell[entry]) & overlap(a.take(left), b.take(right))
            yield left[hits], right[hits]


def least(values: Floats) -> float:
    """The smallest finite value."""
    return float(np.min(values, where=np.isfinite(values), initial=np.inf))


def most(values: Floats) -> float:
    return float(np.max(values, where=np.isfinite(values), initial=-np.inf))


def typical(a: Floats, b: Floats) -> float:
    sizes = [float(np.median(each[np.isfinite(each)])) for each in (a, b) if np.isfinite(each).any()]
    return max(sizes, default=0.0)


def spread(counts: Rows) -> tuple[Rows, Rows]:
    """For counts 2, 0, 3: the rows 0 0 2 2 2, and beside them 0 1 0 1 2."""
    rows = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return rows, np.arange(len(rows)) - np.repeat(starts, counts)


def in_chunks(counts: Rows, most_of_all: int = PAIRS_PER_CHUNK) -> Iterator[Rows]:
    """Consecutive rows whose counts add up to at most so many, or a single row that has more."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most_of_all, "right")))
        yield np.arange(start, stop)
        start = stop
