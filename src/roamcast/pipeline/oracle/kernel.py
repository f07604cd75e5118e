"""The compiled part of the oracle: which stretches of ways lie in which events' audience, and who wants them.

Events lie in a grid over time and place, each in every cell that it touches; lists of cells are one array with where
each begins. A stretch of a way looks up its cells and tests what is there, exactly: the arithmetic, and its order,
is that of `tracks.py` and `scopes.py`, so that the answers are the same to the last bit. Of the other conditions it
asks those that are numbers by now (times, subjects, filters and domains with one answer for an event, circles and
boxes that stand still). A pair is a match, or it is to be asked about again by `looks.py`, which knows all
conditions.

Compiled code checks no bounds: `EventSide` and `swift_pairs` have checked what it is given. Without numba, or where
it cannot compile here, there is no kernel, every event is left to `looks.py`, and the results are the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from roamcast.model.filter.mask import Flags, Floats
from roamcast.pipeline.oracle.boxes import MARGIN, Boxes, Rows, spread
from roamcast.pipeline.oracle.index import EventSide, Outlines
from roamcast.pipeline.oracle.scopes import CIRCLE, FIXED, NO_REGION
from roamcast.pipeline.oracle.tracks import Tracks

numba: Any
try:
    numba = import_module("numba")
except ImportError:  # it is a dependency, but there are machines that it does not run on
    numba = None

MATCH, ASK = 1, 2
NOWHERE = -1
"""In place of a shape: around a host that is not there."""
CELLS_PER_EVENT = 16
CELLS_PER_EVENT_MAX = 4_096
CELLS_PER_SIDE_MAX = 512
SLOTS_MAX = 64
HELD_AT_FIRST = 65_536
LIFE_COLUMNS = (
    "host_first",
    "life_begin_us",
    "life_end_us",
    "life_pattern",
    "life_content",
    "life_domain",
    "life_asks",
)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    if numba is None:
        return function
    made: Callable[..., Any]
    try:
        made = numba.njit(cache=True)(function)
    except RuntimeError:  # nowhere to keep what was compiled
        made = numba.njit(function)
    return made


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of a compiled function: a call would count the references to every array that it passes on."""
    made: Callable[..., Any] = function if numba is None else numba.njit(inline="always")(function)
    return made


def available() -> bool:
    return numba is not None


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """Stretches of ways with a position, in any order; hosts by the number that the index gives them."""

    host: Rows
    from_us: Rows
    until_us: Rows
    x: Floats
    y: Floats
    east: Floats
    north: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Aims:
    """The swift events of a bucket, by row: their number in the index, and where their regions are."""

    event: Rows
    audience_shape: Rows
    audience: Floats
    relevance_shape: Rows
    relevance: Floats
    domain: Any
    """By domain and event: whether the publisher is in it; `ASK` where that depends on when one asks."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Pairs by their numbers in the index; those to be asked about have no time."""

    event: Rows
    life: Rows
    at_us: Rows
    asked_event: Rows
    asked_life: Rows


def placed(outlines: Outlines, times_us: Rows, tracks: Tracks) -> tuple[Rows, Floats]:
    """Shapes as eight numbers each. A circle: its centre and the square of its radius. A box: where its host is, its
    reference point, and its corners."""
    shape = outlines.shape.copy()
    moving = np.flatnonzero((outlines.anchor != FIXED) & (shape != NO_REGION))
    naval_x, naval_y = np.zeros(len(shape)), np.zeros(len(shape))
    stands = tracks.at(outlines.anchor[moving], times_us[moving]).position
    naval_x[moving], naval_y[moving] = stands.x, stands.y
    shape[moving[~stands.valid]] = NOWHERE
    still = np.ones(len(shape), np.bool_)
    still[moving] = False
    reference_x, reference_y = (np.where(still, 0.0, side) for side in (outlines.reference_x, outlines.reference_y))
    circle = shape == CIRCLE
    centre_x = np.where(still, outlines.x, naval_x + (outlines.x - reference_x))
    centre_y = np.where(still, outlines.y, naval_y + (outlines.y - reference_y))
    columns = [
        np.where(circle, centre_x, naval_x),
        np.where(circle, centre_y, naval_y),
        np.where(circle, outlines.radius_m * outlines.radius_m, reference_x),
        reference_y,
        outlines.x,
        outlines.y,
        outlines.x2,
        outlines.y2,
    ]
    return shape, np.ascontiguousarray(np.stack(columns, axis=1))


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
    per_side = CELLS_PER_EVENT**0.5
    cell_x = max(float(np.median(boxes.east - boxes.west)) / per_side, across / CELLS_PER_SIDE_MAX, 1e-9)
    cell_y = max(float(np.median(boxes.north - boxes.south)) / per_side, high / CELLS_PER_SIDE_MAX, 1e-9)
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


def swift_pairs(side: EventSide, aims: Aims, ways: Ways, start_us: int, stop_us: int, period_us: int) -> Found:
    """The pairs of these events and the subscriptions of these hosts that match, or may match, in a bucket."""
    nothing = np.zeros(0, np.int64)
    there = np.flatnonzero(aims.audience_shape > NO_REGION)
    if not len(there) or not len(ways.host):
        return Found(nothing, nothing, nothing, nothing, nothing)
    check_ways(side, ways)
    begin_us, end_us = side["event_begin_us"][aims.event], side["event_end_us"][aims.event]
    boxes = boxes_of(aims.audience_shape, aims.audience)
    boxes.west[aims.audience_shape <= NO_REGION] = np.inf
    slots = int(np.clip(len(ways.host) // max(1, len(side.hosts)), 1, SLOTS_MAX))
    grid = grid_of(boxes.take(there), begin_us[there], end_us[there], start_us, stop_us, slots)
    interest = side.outlines["interest"]
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
    event, life, at_us, state = judged(
        pairs,
        way,
        (begin_us, end_us, side["event_subject"][aims.event], side["event_asks"][aims.event]),
        (aims.audience_shape, aims.audience, aims.relevance_shape, aims.relevance),
        tuple(side[name] for name in LIFE_COLUMNS),
        (interest.shape, interest.x, interest.y, interest.x2, interest.y2, interest.radius_m),
        (side["fits"], np.ascontiguousarray(side["content"][:, aims.event]), aims.domain),
        bucket,
    )
    return once_each(aims.event[event], life, at_us, state, end_us[event] > begin_us[event], len(side.lives))


def warm(side: EventSide) -> None:
    """Has the kernel compiled, and kept on this machine, before many workers ask for it at once."""
    event, nought, nowhere = np.flatnonzero(side["event_swift"])[:1], np.zeros(1, np.int64), np.zeros(1)
    if not available() or not len(event) or not len(side.lives):
        return
    domain = np.ones((len(side["domain_life"]), 1), np.int8)
    aims = Aims(event, nought + CIRCLE, np.zeros((1, 8)), nought + NO_REGION, np.zeros((1, 8)), domain)
    swift_pairs(side, aims, Ways(nought, nought, nought + 1, *([nowhere] * 4)), 0, 1, 1)


def spans_by_event(grid: TimeGrid, there: Rows, count: int) -> Rows:
    spans = np.zeros((count, 3), np.int64)
    spans[there] = grid.spans
    return spans


def check_ways(side: EventSide, ways: Ways) -> None:
    rows = len(ways.host)
    if any(len(getattr(ways, name)) != rows for name in Ways.__dataclass_fields__):
        raise ValueError("the columns of ways are not equally long")
    if ways.host.min() < 0 or ways.host.max() >= len(side.hosts):
        raise ValueError("ways of hosts that the index does not know")
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


@inlined
def holds(shape: int, numbers: Any, x: float, y: float) -> bool:
    if shape == CIRCLE:
        dx, dy = numbers[0] - x, numbers[1] - y
        return bool(dx * dx + dy * dy <= numbers[2])
    east, north = (x - numbers[0]) + numbers[2], (y - numbers[1]) + numbers[3]
    return bool(numbers[4] <= east <= numbers[6] and numbers[5] <= north <= numbers[7])


@inlined
def still_holds(outlines: Any, life: int, x: float, y: float) -> bool:
    shape, xs, ys, x2s, y2s, radius = outlines
    if shape[life] == CIRCLE:
        dx, dy = xs[life] - x, ys[life] - y
        return bool(dx * dx + dy * dy <= radius[life] * radius[life])
    return bool(xs[life] <= x <= x2s[life] and ys[life] <= y <= y2s[life])


@inlined
def verdict(
    event: int, life: int, x: float, y: float, events: Any, regions: Any, lives: Any, interest: Any, answers: Any
) -> int:
    """0, `MATCH` or `ASK` for a subscriber at this place within the audience."""
    life_content, life_domain, life_asks = lives[4], lives[5], lives[6]
    _, content, domain = answers
    if life_content[life] >= 0 and not content[life_content[life], event]:
        return 0
    in_domain = domain[life_domain[life], event]
    if in_domain == 0:
        return 0
    if in_domain == ASK or life_content[life] < 0 or events[3][event] or life_asks[life]:
        return ASK
    # Some host must be in relevance and interest: the subscriber is there, and mostly it is one.
    relevant = regions[2][event] == NO_REGION or (
        regions[2][event] > NO_REGION and holds(regions[2][event], regions[3][event], x, y)
    )
    interested = interest[0][life] == NO_REGION or still_holds(interest, life, x, y)
    return MATCH if relevant and interested else ASK


@inlined
def first_look_us(begin_us: int, from_us: int, start_us: int, period_us: int) -> int:
    """The first moment from `from_us` on at which a pair is looked at that exists since `begin_us`."""
    if begin_us >= start_us and begin_us >= from_us:
        return begin_us
    after = max(from_us, start_us)
    return -(-after // period_us) * period_us


@inlined
def swept(way: Any, row: int, begins_us: int, ends_us: int) -> Any:
    """Where a stretch of a way leads in this time, with a margin for rounding: west, south, east, north."""
    _, from_us, _, x, y, east, north = way
    early, late = (begins_us - from_us[row]) / 1e6, (ends_us - from_us[row]) / 1e6
    x1, x2 = x[row] + east[row] * early, x[row] + east[row] * late
    y1, y2 = y[row] + north[row] * early, y[row] + north[row] * late
    margin = 1e-6 + (abs(x1) + abs(x2) + abs(y1) + abs(y2)) * 1e-12
    if not np.isfinite(margin):
        return -np.inf, -np.inf, np.inf, np.inf
    return min(x1, x2) - margin, min(y1, y2) - margin, max(x1, x2) + margin, max(y1, y2) + margin


@inlined
def cell(value: float, origin: float, size: float, count: int) -> int:
    return int(min(max(np.floor((value - origin) / size), 0.0), count - 1.0))


@inlined
def meets(boxes: Any, event: int, box: Any) -> bool:
    return bool(
        boxes[0][event] <= box[2]
        and boxes[2][event] >= box[0]
        and boxes[1][event] <= box[3]
        and boxes[3][event] >= box[1]
    )


@compiled
def put(held: Any, count: int, row: int, event: int) -> Any:
    """The pair in its place, in as much room as that takes."""
    if count == held.shape[1]:
        more = np.empty((2, count * 2), np.int64)
        more[:, :count] = held
        held = more
    held[0, count], held[1, count] = row, event
    return held


@compiled
def met(ways: Any, grid: Any, wide: Any, boxes: Any, host_first: Any, bucket: Any) -> Any:
    """The stretches of ways and the events whose boxes overlap, each pair once."""
    host, from_us, until_us = ways[0], ways[1], ways[2]
    origin, sides, first, entries, spans = grid
    start_us, stop_us, _ = bucket
    held, count = np.empty((2, HELD_AT_FIRST), np.int64), 0
    for row in range(len(host)):
        begins, ends = max(from_us[row], start_us), min(until_us[row], stop_us)
        if begins >= ends or host_first[host[row]] == host_first[host[row] + 1]:
            continue
        box = swept(ways, row, begins, ends)
        for event in wide:
            if meets(boxes, event, box):
                held = put(held, count, row, event)
                count += 1
        left, right = (cell(box[0], origin[0], origin[2], sides[2]), cell(box[2], origin[0], origin[2], sides[2]))
        low, high = (cell(box[1], origin[1], origin[3], sides[1]), cell(box[3], origin[1], origin[3], sides[1]))
        early = (begins - start_us) * sides[0] // (stop_us - start_us)
        late = (ends - 1 - start_us) * sides[0] // (stop_us - start_us)
        for slot in range(early, late + 1):
            for line in range(low, high + 1):
                for column in range(left, right + 1):
                    key = (slot * sides[1] + line) * sides[2] + column
                    for entry in range(first[key], first[key + 1]):
                        event = entries[entry]
                        # Where two meet in several cells they are a pair in the first of them.
                        once = (
                            max(spans[event, 0], early) == slot
                            and max(spans[event, 1], low) == line
                            and max(spans[event, 2], left) == column
                        )
                        if once and meets(boxes, event, box):
                            held = put(held, count, row, event)
                            count += 1
    return held[:, :count]


@inlined
def look(
    event: int,
    life: int,
    row: int,
    ways: Any,
    events: Any,
    regions: Any,
    lives: Any,
    interest: Any,
    answers: Any,
    bucket: Any,
) -> Any:
    """The first moment on this stretch of the way at which the subscriber is in the audience, and what then holds."""
    _, from_us, until_us, x, y, east, north = ways
    start_us, stop_us, period_us = bucket
    since_us = max(events[0][event], lives[1][life])
    last_us = min(min(events[1][event], lives[2][life]), min(until_us[row], stop_us) - 1)
    at_us = first_look_us(since_us, from_us[row], start_us, period_us)
    while at_us <= last_us:
        seconds = (at_us - from_us[row]) / 1e6
        here_x, here_y = x[row] + east[row] * seconds, y[row] + north[row] * seconds
        if holds(regions[0][event], regions[1][event], here_x, here_y):
            return at_us, verdict(event, life, here_x, here_y, events, regions, lives, interest, answers)
        at_us = (at_us // period_us + 1) * period_us
    return at_us, 0


@compiled
def judged(
    pairs: Any, ways: Any, events: Any, regions: Any, lives: Any, interest: Any, answers: Any, bucket: Any
) -> Any:
    """The events and subscriptions of the pairs that match or are to be asked about, when, and which of the two."""
    fits, host, host_first = answers[0], ways[0], lives[0]
    room, count = max(HELD_AT_FIRST, pairs.shape[1]), 0
    found = np.empty((4, room), np.int64)
    for nth in range(pairs.shape[1]):
        row, event = pairs[0, nth], pairs[1, nth]
        for life in range(host_first[host[row]], host_first[host[row] + 1]):
            if not fits[lives[3][life], events[2][event]]:
                continue
            at_us, state = look(event, life, row, ways, events, regions, lives, interest, answers, bucket)
            if state == 0:
                continue
            if count == found.shape[1]:
                more = np.empty((4, count * 2), np.int64)
                more[:, :count] = found
                found = more
            found[0, count], found[1, count], found[2, count], found[3, count] = event, life, at_us, state
            count += 1
    return found[:, :count]
