"""The compiled kernel: searching, sorting and moving entries, with numba.

Compiled code checks no bounds. All indices in here are the engine's own; what comes from outside are doubles, which
are only compared, and which cells they lie in is taken modulo the number of cells.

The cells of a group form a grid that is rolled up: columns, rows and layers are powers of two and a cell's number is
taken modulo them, so the world has no edge and a group has as many cells as it has use for. Two places that fall on
one cell are told apart by their distance. A query that spans fewer columns than there are visits every cell at most
once; one that spans more takes them all.

`kernel_numpy.py` does the same without numba, with the same results in the same order.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from roamcast.matching.layout import (
    CIRCLE,
    COORDINATE_MAX_M,
    DRIFT_MAX_CELLS,
    MODE,
    NOBODY,
    NONE,
    ROUNDING_CELLS,
    SETTLED,
    UNSURE_M,
    UNSURE_SHARE,
    Bytes,
    Doubles,
    Records,
    Whole,
)

NAME = "numba"

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    try:
        return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
    except RuntimeError:
        # No directory can be written to: compiled anew in each process.
        return cast(Function, numba.njit(nogil=True, error_model="numpy")(function))


def inlined(function: Function) -> Function:
    """Part of what calls it: passing a dozen arrays would cost more than the few entries of a cell."""
    return cast(Function, numba.njit(nogil=True, error_model="numpy", inline="always")(function))


@compiled
def admitted(event: int, slot: int, attributes: Doubles, slots: Records, clauses: Records, now_us: int) -> bool:
    """Lifetimes and clauses of one slot."""
    row = slots[slot]
    if now_us < row.issued_us or now_us > row.expires_us:
        return False
    clause = row.clause
    while clause >= 0:
        value = attributes[event, clauses[clause].column]
        # Written so that a missing value, which is NaN, is out.
        if not (clauses[clause].low <= value <= clauses[clause].high):
            return False
        clause = clauses[clause].after
    return True


@inlined
def scan(
    begin: int,
    end: int,
    event: int,
    mode: int,
    circle: Doubles,
    flat: bool,
    attributes: Doubles,
    entries: Records,
    heights: Doubles,
    slots: Records,
    clauses: Records,
    now_us: int,
    hits: Records,
    count: int,
) -> int:
    """Appends what is found from `begin` to `end`; NONE if the hits have no more room."""
    tested = mode & MODE == CIRCLE
    nothing_left = mode & SETTLED == SETTLED
    x, y, z, reach_m = circle[0], circle[1], circle[2], circle[3]
    for index in range(begin, end):
        sure = 1
        if tested:
            dx = entries[index].x - x
            dy = entries[index].y - y
            limit = entries[index].radius + reach_m
            squared = dx * dx + dy * dy
            if flat:
                if not squared <= limit * limit:
                    continue
            else:
                dz = heights[index] - z
                squared += dz * dz
                outer = limit * (1 + UNSURE_SHARE) + UNSURE_M
                if not squared <= outer * outer:
                    continue
                inner = limit * (1 - UNSURE_SHARE) - UNSURE_M
                if inner < 0 or squared > inner * inner:
                    sure = 0
        slot = entries[index].slot
        if slot < 0 or not admitted(event, slot, attributes, slots, clauses, now_us):
            continue
        if count >= len(hits):
            return NONE
        hits[count].event = event
        hits[count].slot = slot
        hits[count].sure = sure
        hits[count].settled = nothing_left and sure != 0 and slots[slot].profile == 0
        count += 1
    return count


@compiled
def span(centre: float, reach_m: float, cell_m: float, margin: float, size: int) -> tuple[int, int]:
    """First cell and number of cells along one axis."""
    if size == 1:
        return 0, 1
    centre = min(max(centre, -2 * COORDINATE_MAX_M), 2 * COORDINATE_MAX_M)
    reach_m = min(reach_m, 4 * COORDINATE_MAX_M)
    first = math.floor((centre - reach_m) / cell_m - margin)
    last = math.floor((centre + reach_m) / cell_m + margin)
    if last - first + 1 >= size:
        return 0, size
    return int(first), int(last - first + 1)


@inlined
def search_cells(
    event: int,
    group: Any,
    mode: int,
    circle: Doubles,
    flat: bool,
    attributes: Doubles,
    cells: Whole,
    entries: Records,
    heights: Doubles,
    slots: Records,
    clauses: Records,
    now_us: int,
    hits: Records,
    count: int,
) -> int:
    """The sorted entries of one group that the circle meets."""
    reach_m = (group.reach_m + circle[3]) * (1 + UNSURE_SHARE) + 2 * UNSURE_M
    margin = group.drift + ROUNDING_CELLS
    left, width = span(circle[0], reach_m, group.cell_m, margin, group.columns)
    south, height = span(circle[1], reach_m, group.cell_m, margin, group.rows)
    low, depth = span(circle[2], reach_m, group.cell_m, margin, group.layers)
    left &= group.columns - 1
    beyond = max(0, left + width - group.columns)
    for layer in range(low, low + depth):
        for row in range(south, south + height):
            line = (layer & (group.layers - 1)) * group.rows + (row & (group.rows - 1))
            base = group.cells + line * group.columns
            start, end = group.begin + cells[base + left], group.begin + cells[base + left + width - beyond]
            count = scan(
                start, end, event, mode, circle, flat, attributes, entries, heights, slots, clauses, now_us, hits,
                count,
            )  # fmt: skip
            if count >= 0 and beyond > 0:
                start, end = group.begin + cells[base], group.begin + cells[base + beyond]
                count = scan(
                    start, end, event, mode, circle, flat, attributes, entries, heights, slots, clauses, now_us, hits,
                    count,
                )  # fmt: skip
            if count < 0:
                return count
    return count


@compiled
def search(
    first: int,
    channel_begin: Whole,
    channels: Whole,
    modes: Bytes,
    circles: Doubles,
    attributes: Doubles,
    channel_groups: Whole,
    groups: Records,
    cells: Whole,
    entries: Records,
    heights: Doubles,
    slots: Records,
    clauses: Records,
    flat: bool,
    now_us: int,
    hits: Records,
) -> tuple[int, int]:
    """The hits of the events from `first` on: up to which event there was room, and how many they are."""
    count = 0
    for event in range(first, len(channel_begin) - 1):
        complete = count
        for place in range(channel_begin[event], channel_begin[event + 1]):
            number = channel_groups[channels[place]]
            while number >= 0:
                group = groups[number]
                number = group.after
                mode = modes[event, group.locator]
                if mode & MODE == NOBODY:
                    continue
                circle = circles[event, group.locator]
                start = group.begin
                if mode & MODE == CIRCLE:
                    start += group.sorted
                    count = search_cells(
                        event, group, mode, circle, flat, attributes, cells, entries, heights, slots, clauses,
                        now_us, hits, count,
                    )  # fmt: skip
                if count >= 0:
                    end = group.begin + group.sorted + group.tail
                    count = scan(
                        start, end, event, mode, circle, flat, attributes, entries, heights, slots, clauses,
                        now_us, hits, count,
                    )  # fmt: skip
                if count < 0:
                    return event, complete
    return len(channel_begin) - 1, count


@compiled
def ordered(numbers: Whole, size: int) -> tuple[Whole, Whole]:
    """The stable order of cell numbers below `size`, and where each cell begins in it."""
    begin = np.zeros(size + 1, np.int32)
    for number in numbers:
        begin[number + 1] += 1
    for cell in range(size):
        begin[cell + 1] += begin[cell]
    filled = begin[:size].copy()
    order = np.empty(len(numbers), np.int32)
    for index in range(len(numbers)):
        number = numbers[index]
        order[filled[number]] = index
        filled[number] += 1
    return order, begin


@compiled
def strayed(coordinate_m: float, cell_m: float, home: int, size: int) -> float:
    """How far a coordinate is out of its home cell, in cells."""
    if size == 1:
        return 0.0
    along = coordinate_m / cell_m
    cell = math.floor(along)
    away = (int(cell) - home) & (size - 1)
    if away == 0:
        return 0.0
    if away > size // 2:
        return size - away - (along - cell)
    return along - cell + away - 1


@compiled
def move(
    first: int,
    numbers: Whole,
    x: Doubles,
    y: Doubles,
    straight_x: Doubles,
    straight_y: Doubles,
    straight_z: Doubles,
    hosts: Records,
    slots: Records,
    groups: Records,
    entries: Records,
    heights: Doubles,
    flat: bool,
) -> tuple[int, int]:
    """Moves hosts from `first` on: up to which one it came, and which group must be sorted before it can go on."""
    for index in range(first, len(numbers)):
        hosts[numbers[index]].x = x[index]
        hosts[numbers[index]].y = y[index]
        slot = hosts[numbers[index]].first
        while slot >= 0:
            entry = slots[slot].entry
            if slots[slot].moving and entry >= 0:
                number = slots[slot].group
                group = groups[number]
                place = entry
                if entry - group.begin < group.sorted:
                    home = entries[entry].home
                    out = max(
                        strayed(straight_x[index], group.cell_m, home & (group.columns - 1), group.columns),
                        strayed(straight_y[index], group.cell_m, home // group.columns, group.rows),
                    )
                    if not flat:
                        layer = home // (group.columns * group.rows)
                        out = max(out, strayed(straight_z[index], group.cell_m, layer, group.layers))
                    if out > DRIFT_MAX_CELLS:
                        if group.tail >= group.tail_max:
                            return index, number
                        place = group.begin + group.sorted + group.tail
                        groups[number].tail += 1
                        entries[place].radius = entries[entry].radius
                        entries[place].slot = slot
                        entries[entry].slot = NONE
                        entries[entry].x = np.nan
                        slots[slot].entry = place
                    elif out > group.drift:
                        groups[number].drift = out
                entries[place].x = straight_x[index]
                entries[place].y = straight_y[index]
                if not flat:
                    heights[place] = straight_z[index]
            slot = slots[slot].after
    return len(numbers), NONE
