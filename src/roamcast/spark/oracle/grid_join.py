"""Simple events of a bucket (`event_side.py`) and the compiled kernel: what it is given, what is made of its answers.

Events lie in a grid over time and place, each in every cell that it touches; the lists of all cells are one array
with where each begins. The kernel finds the subscribers that are in an audience. Of the other conditions those are
asked here that are numbers by now: filters and domains with one answer for an event, circles and boxes that stand
still. A pair is a match, or it is to be asked about again by `conditions.py`, which knows all conditions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from roamcast.model.filter.mask import Flags, Floats
from roamcast.spark.oracle.boxes import MARGIN, Boxes, Rows, spread
from roamcast.spark.oracle.event_side import EventSide, Outlines
from roamcast.spark.oracle.kernel import entered, met
from roamcast.spark.oracle.scopes import BOX, CIRCLE, FIXED, NO_REGION
from roamcast.spark.oracle.tracks import Tracks

MATCH, ASK = 1, 2
NOWHERE = -1
"""In place of a shape: around a host that is not there."""
CELLS_PER_EVENT = 16
CELLS_PER_EVENT_MAX = 4_096
CELLS_MAX = 2_000_000
"""Of a grid, over all slots of time: 16 MB for where their lists begin."""
SLOTS_MAX = 64
LIFE_COLUMNS = (
    "host_first",
    "life_begin_us",
    "life_end_us",
    "life_pattern",
)


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """Stretches of ways with a position, in any order; hosts by the number that the event side gives them."""

    host: Rows
    from_us: Rows
    until_us: Rows
    x: Floats
    y: Floats
    east: Floats
    north: Floats


@dataclass(frozen=True, slots=True, eq=False)
class SimpleEvents:
    """The simple events of a bucket, by row: their number on the event side, and where their regions are."""

    event: Rows
    audience_shape: Rows
    audience: Floats
    relevance_shape: Rows
    relevance: Floats
    domain: Any
    """By domain and event: whether the publisher is in it; `ASK` where that depends on when one asks."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Pairs by their numbers on the event side; those to be asked about have no time."""

    event: Rows
    life: Rows
    at_us: Rows
    asked_event: Rows
    asked_life: Rows


def placed(outlines: Outlines, times_us: Rows, tracks: Tracks) -> tuple[Rows, Floats]:
    """Shapes where they are at these times, as `standing` has them; those of hosts that are not there are nowhere."""
    moving = np.flatnonzero((outlines.anchor != FIXED) & (outlines.shape != NO_REGION))
    shape, numbers = standing(outlines)
    naval = tracks.at(outlines.anchor[moving], times_us[moving]).position
    shape[moving[~naval.valid]] = NOWHERE
    some = outlines.take(moving)
    circle = some.shape == CIRCLE
    numbers[moving, 0] = np.where(circle, naval.x + (some.x - some.reference_x), naval.x)
    numbers[moving, 1] = np.where(circle, naval.y + (some.y - some.reference_y), naval.y)
    numbers[moving, 2] = np.where(circle, numbers[moving, 2], some.reference_x)
    numbers[moving, 3] = some.reference_y
    return shape, numbers


def standing(outlines: Outlines) -> tuple[Rows, Floats]:
    """Shapes as eight numbers each. A circle: its centre and the square of its radius. A box: where its host is, its
    reference point, and its corners; without a host both are the origin."""
    circle, nought = outlines.shape == CIRCLE, np.zeros(len(outlines.shape))
    columns = [
        np.where(circle, outlines.x, 0.0),
        np.where(circle, outlines.y, 0.0),
        np.where(circle, outlines.radius_m * outlines.radius_m, 0.0),
        nought,
        outlines.x,
        outlines.y,
        outlines.x2,
        outlines.y2,
    ]
    return outlines.shape.copy(), np.ascontiguousarray(np.stack(columns, axis=1))


def boxes_of(shape: Rows, numbers: Floats) -> Boxes:
    """Around placed shapes, with a margin for rounding."""
    circle = shape == CIRCLE
    reach = np.sqrt(np.where(circle, numbers[:, 2], 0.0)) * MARGIN + 1e-6
    sides = []
    for low, high, naval, reference in ((4, 6, 0, 2), (5, 7, 1, 3)):
        offset = numbers[:, naval] - np.where(circle, 0.0, numbers[:, reference])
        least = np.where(circle, numbers[:, naval], numbers[:, low] + offset)
        most = np.where(circle, numbers[:, naval], numbers[:, high] + offset)
        margin = reach + np.maximum(np.maximum(np.abs(least), np.abs(most)), np.abs(numbers[:, naval])) * 1e-12
        sides.append((least - margin, most + margin))
    return Boxes(sides[0][0], sides[1][0], sides[0][1], sides[1][1])


@dataclass(frozen=True, slots=True, eq=False)
class TimeGrid:
    """Events in cells of time and place."""

    origin: Floats
    """West, south, and the width and height of a cell."""
    sides: Rows
    """How many slots of time, rows and columns there are."""
    first: Rows
    entries: Rows
    spans: Rows
    """Of each event its first slot, row and column."""
    wide: Rows
    """Events over so many cells that they are not in the grid."""


def grid_of(boxes: Boxes, begin_us: Rows, end_us: Rows, start_us: int, stop_us: int, slots: int) -> TimeGrid:
    west, south = float(boxes.west.min()), float(boxes.south.min())
    across, high = float(boxes.east.max()) - west, float(boxes.north.max()) - south
    per_side, most = CELLS_PER_EVENT**0.5, (CELLS_MAX / slots) ** 0.5
    cell_x = max(float(np.median(boxes.east - boxes.west)) / per_side, across / most, 1e-9)
    cell_y = max(float(np.median(boxes.north - boxes.south)) / per_side, high / most, 1e-9)
    columns, rows = int(across / cell_x) + 1, int(high / cell_y) + 1
    left, right = (cells(side, west, cell_x, columns) for side in (boxes.west, boxes.east))
    low, top = (cells(side, south, cell_y, rows) for side in (boxes.south, boxes.north))
    last_us = stop_us - 1
    begins, ends = (
        (np.clip(each, start_us, last_us) - start_us) * slots // (stop_us - start_us) for each in (begin_us, end_us)
    )
    width, height = right - left + 1, top - low + 1
    counts = width * height * (ends - begins + 1)
    wide = counts > CELLS_PER_EVENT_MAX
    event, nth = spread(np.where(wide, 0, counts))
    column = left[event] + nth % width[event]
    row = low[event] + nth // width[event] % height[event]
    slot = begins[event] + nth // (width[event] * height[event])
    key = (slot * rows + row) * columns + column
    order = np.argsort(key, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=slots * rows * columns))]).astype(np.int64)
    return TimeGrid(
        np.array([west, south, cell_x, cell_y]),
        np.array([slots, rows, columns]),
        first,
        event[order],
        np.ascontiguousarray(np.stack([begins, low, left], axis=1)),
        np.flatnonzero(wide),
    )


def cells(values: Floats, origin: float, size: float, count: int) -> Rows:
    return np.clip(np.floor((values - origin) / size), 0, count - 1).astype(np.int64)


def pairs_in_grid(
    side: EventSide, simple: SimpleEvents, ways: Ways, start_us: int, stop_us: int, period_us: int
) -> Found:
    """The pairs of these events and the subscriptions of these hosts that match, or may match, in a bucket."""
    nothing = np.zeros(0, np.int64)
    there = np.flatnonzero(simple.audience_shape > NO_REGION)
    if not len(there) or not len(ways.host):
        return Found(nothing, nothing, nothing, nothing, nothing)
    check_ways(side, ways)
    begin_us, end_us = side["event_begin_us"][simple.event], side["event_end_us"][simple.event]
    boxes = boxes_of(simple.audience_shape, simple.audience)
    boxes.west[simple.audience_shape <= NO_REGION] = np.inf
    slots = int(np.clip(len(ways.host) // max(1, len(side.hosts)), 1, SLOTS_MAX))
    grid = grid_of(boxes.take(there), begin_us[there], end_us[there], start_us, stop_us, slots)
    way = (ways.host, ways.from_us, ways.until_us, ways.x, ways.y, ways.east, ways.north)
    bucket = (start_us, stop_us, period_us)
    pairs = met(
        way,
        (grid.origin, grid.sides, grid.first, there[grid.entries], spans_by_event(grid, there, len(begin_us))),
        there[grid.wide],
        (boxes.west, boxes.south, boxes.east, boxes.north),
        side["host_first"],
        bucket,
    )
    found, places = entered(
        pairs,
        way,
        (begin_us, end_us, side["event_subject"][simple.event]),
        simple.audience_shape,
        simple.audience,
        tuple(side[name] for name in LIFE_COLUMNS),
        side["fits"],
        bucket,
    )
    event, life, at_us = found
    state = verdicts(side, simple, event, life, places)
    left = np.flatnonzero(state)
    lasting = end_us[event[left]] > begin_us[event[left]]
    return once_each(simple.event[event[left]], life[left], at_us[left], state[left], lasting, len(side.lives))


def verdicts(side: EventSide, simple: SimpleEvents, event: Rows, life: Rows, places: Floats) -> Any:
    """0, `MATCH` or `ASK` for subscribers that are within the audience at these places."""
    row = side["life_content"][life]
    refused = np.zeros(len(event), np.bool_)
    if len(side["content"]):
        refused = (row >= 0) & ~side["content"][np.maximum(row, 0), simple.event[event]]
    domain = simple.domain[side["life_domain"][life], event]
    asked = (row < 0) | (domain == ASK) | side["event_asks"][simple.event[event]] | side["life_asks"][life]
    # Some host must be in relevance and interest: the subscriber is there, and mostly it is one.
    asked |= ~inside(simple.relevance_shape[event], simple.relevance, event, places)
    interest = side.outlines["interest"]
    limited = np.flatnonzero(interest.shape[life] != NO_REGION)
    if len(limited):
        shape, numbers = standing(interest.take(life[limited]))
        asked[limited] |= ~inside(shape, numbers, np.arange(len(limited)), places[:, limited])
    return np.where(refused | (domain == 0), 0, np.where(asked, ASK, MATCH))


def inside(shape: Rows, numbers: Floats, rows: Rows, places: Floats) -> Flags:
    """Whether placed shapes hold the places beside them; where there is no region, all are in it."""
    found: Flags = shape == NO_REGION
    for kind in (CIRCLE, BOX):
        some = np.flatnonzero(shape == kind)
        if not len(some):
            continue
        of, x, y = numbers[rows[some]], places[0, some], places[1, some]
        if kind == CIRCLE:
            dx, dy = of[:, 0] - x, of[:, 1] - y
            found[some] = dx * dx + dy * dy <= of[:, 2]
        else:
            east, north = (x - of[:, 0]) + of[:, 2], (y - of[:, 1]) + of[:, 3]
            found[some] = (of[:, 4] <= east) & (east <= of[:, 6]) & (of[:, 5] <= north) & (north <= of[:, 7])
    return found


def spans_by_event(grid: TimeGrid, there: Rows, count: int) -> Rows:
    spans = np.zeros((count, 3), np.int64)
    spans[there] = grid.spans
    return spans


def check_ways(side: EventSide, ways: Ways) -> None:
    rows = len(ways.host)
    if any(len(getattr(ways, name)) != rows for name in Ways.__dataclass_fields__):
        raise ValueError("the columns of ways are not equally long")
    if ways.host.min() < 0 or ways.host.max() >= len(side.hosts):
        raise ValueError("ways of hosts that the event side does not know")
    if any(getattr(ways, name).dtype != np.float64 for name in ("x", "y", "east", "north")):
        raise ValueError("coordinates must be doubles")


def once_each(event: Rows, life: Rows, at_us: Rows, state: Any, lasting: Flags, lives: int) -> Found:
    """Of a pair that several stretches of a way have found the earliest match; to be asked about if one says so."""
    asked = state == ASK
    if lasting.any():
        key = event * lives + life
        asked_keys = np.unique(key[asked])
        rest = np.flatnonzero(~asked & ~np.isin(key, asked_keys))
        rest = rest[np.lexsort((at_us[rest], key[rest]))]
        keys = key[rest]
        rest = rest[np.r_[True, keys[1:] != keys[:-1]]] if len(rest) else rest
        return Found(event[rest], life[rest], at_us[rest], asked_keys // lives, asked_keys % lives)
    return Found(event[~asked], life[~asked], at_us[~asked], event[asked], life[asked])
