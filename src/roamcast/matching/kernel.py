"""The compiled kernel: searching, sorting and moving entries, with numba.

Compiled code checks no bounds. All indices in here are the engine's own; what comes from outside are doubles, which
are only compared, and which cells they lie in is taken modulo the number of cells.

The cells of a group form a grid that is rolled up: columns, rows and layers are powers of two and a cell's number is
taken modulo them, so the world has no edge and a group has as many cells as it has use for. Two places that fall on
one cell are told apart by their distance. A query that spans fewer columns than there are visits every cell at most
once; one that spans more takes them all.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.numpy_support import carray

from roamcast.matching import layout as at
from roamcast.matching.layout import (
    ASKED_MAX,
    ASKED_PER_ENTRY,
    BARE,
    CELL,
    CIRCLE,
    CLAUSE,
    COORDINATE_MAX_M,
    DRIFT_MAX_CELLS,
    ENTRY,
    FINGERPRINT,
    GROUP,
    HIT_NUMBERS,
    HOST,
    MODE,
    NOBODY,
    NONE,
    PLACED,
    ROUNDING_CELLS,
    SETTLED,
    SLOT,
    TALL,
    UNSURE_M,
    UNSURE_SHARE,
    Bytes,
    Doubles,
    Long,
    Marks,
    Records,
    Whole,
)
from roamcast.model.space import ECCENTRICITY_SQUARED, EQUATOR_RADIUS_M

LAYOUT = 0x961F608A
if LAYOUT != FINGERPRINT:
    # What was compiled is kept, and made anew when this file changes. An older one would read other fields.
    raise RuntimeError(f"layout.py has changed: LAYOUT in kernel.py must be {FINGERPRINT:#x} now")


def stands_at(records: Any, name: str, size: int) -> int:
    """Which of the numbers of so many bytes that a record is made of a field is."""
    return int(records.fields[name][1]) // size


BEGIN, SORTED, TAIL = (stands_at(GROUP, name, 8) for name in ("begin", "sorted", "tail"))
CELLS, ASKED = stands_at(GROUP, "cells", 8), stands_at(GROUP, "asked", 8)
COLUMNS, ROWS, LAYERS = (stands_at(GROUP, name, 8) for name in ("columns", "rows", "layers"))
CELL_M, DRIFT, REACH_M = (stands_at(GROUP, name, 8) for name in ("cell_m", "drift", "reach_m"))
AFTER_LINK, LOCATOR_LINK = stands_at(GROUP, "after", 4), stands_at(GROUP, "locator", 4)
SLOT_LINK, HOME_LINK = stands_at(ENTRY, "slot", 4), stands_at(ENTRY, "home", 4)
ISSUED_US, EXPIRES_US = stands_at(SLOT, "issued_us", 8), stands_at(SLOT, "expires_us", 8)
CLAUSE_LINK, PROFILE_LINK = stands_at(SLOT, "clause", 4), stands_at(SLOT, "profile", 4)
MOVING_MARK = stands_at(SLOT, "moving", 1)
LOW, HIGH = stands_at(CLAUSE, "low", 8), stands_at(CLAUSE, "high", 8)
COLUMN_LINK, NEXT_LINK = stands_at(CLAUSE, "column", 4), stands_at(CLAUSE, "after", 4)

BLOCK = 256
"""Slots that are fetched together: with what else is read they fit into the processor's nearest cache."""
NO_QUESTION = 2
"""Beside what an event's scopes say of a hit: its slot has nothing to add."""

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    try:
        return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
    except RuntimeError:
        # No directory can be written to: compiled anew in each process.
        return cast(Function, numba.njit(nogil=True, error_model="numpy")(function))


@compiled
def admitted(
    count: int,
    hits: Whole,
    times_us: Long,
    slot_links: Whole,
    attributes: Doubles,
    ranges: Doubles,
    clause_links: Whole,
    moments_us: Long,
) -> tuple[int, int]:
    """Leaves of the hits those that lifetimes and clauses let through; how many they are, and how many are settled.

    Slots lie anywhere in memory. Asked one after the other, each is waited for; so those of a block are fetched
    together first, with nothing to decide in between, which takes half as long with a million subscriptions.
    """
    kept, all_settled = 0, 0
    if count == 0:
        return kept, all_settled
    fetched = np.empty(BLOCK, np.int32)
    for begin in range(0, count, BLOCK):
        end = min(begin + BLOCK, count)
        for index in range(begin, end):
            if hits[index, 3] < NO_QUESTION:
                fetched[index - begin] = slot_links[hits[index, 1], CLAUSE_LINK]
        for index in range(begin, end):
            event, slot, clause = hits[index, 0], hits[index, 1], fetched[index - begin]
            if hits[index, 3] >= NO_QUESTION:
                settled = hits[index, 2] and hits[index, 3] > NO_QUESTION
                hits[kept, 0], hits[kept, 1], hits[kept, 2], hits[kept, 3] = event, slot, hits[index, 2], settled
                kept += 1
                all_settled += settled
                continue
            if moments_us[event] < times_us[slot, ISSUED_US] or moments_us[event] > times_us[slot, EXPIRES_US]:
                continue
            while clause >= 0:
                value = attributes[event, clause_links[clause, COLUMN_LINK]]
                # Written so that a missing value, which is NaN, is out.
                if not (ranges[clause, LOW] <= value <= ranges[clause, HIGH]):
                    break
                clause = clause_links[clause, NEXT_LINK]
            if clause >= 0:
                continue
            settled = hits[index, 2] and hits[index, 3] and slot_links[slot, PROFILE_LINK] == 0
            hits[kept, 0], hits[kept, 1], hits[kept, 2], hits[kept, 3] = event, slot, hits[index, 2], settled
            kept += 1
            all_settled += settled
    return kept, all_settled


@compiled
def met(squared: float, limit: float, flat: bool, slack_m: float) -> int:
    """0: too far; 1: near enough; 2: so near the limit that somebody else must say."""
    if flat and slack_m == 0:
        return 1 if squared <= limit * limit else 0
    outer = limit * (1 + UNSURE_SHARE) + UNSURE_M + slack_m
    if not squared <= outer * outer:
        return 0
    inner = limit * (1 - UNSURE_SHARE) - UNSURE_M - slack_m
    return 2 if inner < 0 or squared > inner * inner else 1


@compiled
def span(centre: float, reach_m: float, cells_per_m: float, margin: float, size: int) -> tuple[int, int]:
    """First cell and number of cells along one axis."""
    if size == 1:
        return 0, 1
    centre = min(max(centre, -2 * COORDINATE_MAX_M), 2 * COORDINATE_MAX_M)
    reach_m = min(reach_m, 4 * COORDINATE_MAX_M)
    first = math.floor((centre - reach_m) * cells_per_m - margin)
    last = math.floor((centre + reach_m) * cells_per_m + margin)
    if last - first + 1 >= size:
        return 0, size
    return int(first), int(last - first + 1)


@compiled
def runs_of(
    group: Long, size_m: Doubles, mode: int, x: float, y: float, z: float, reach_m: float, cells: Whole, runs: Long
) -> int:
    """Writes from where to where the entries lie that may be met; how many such runs there are."""
    begin, sorted_end = group[BEGIN], group[BEGIN] + group[SORTED]
    if mode & MODE != CIRCLE:
        runs[0, 0], runs[0, 1] = begin, sorted_end + group[TAIL]
        return 1
    reach_m = (size_m[REACH_M] + reach_m) * (1 + UNSURE_SHARE) + 2 * UNSURE_M
    margin, columns_per_m = size_m[DRIFT] + ROUNDING_CELLS, 1 / size_m[CELL_M]
    columns, rows, layers = group[COLUMNS], group[ROWS], group[LAYERS]
    left, width = span(x, reach_m, columns_per_m, margin, columns)
    south, height = span(y, reach_m, columns_per_m / TALL, margin / TALL, rows)
    low, depth = span(z, reach_m, columns_per_m / TALL, margin / TALL, layers)
    left &= columns - 1
    beyond = max(0, left + width - columns)
    count = 0
    for layer in range(low, low + depth):
        for row in range(south, south + height):
            line = (layer & (layers - 1)) * rows + (row & (rows - 1))
            base = group[CELLS] + line * columns
            runs[count, 0] = begin + cells[base + left]
            runs[count, 1] = begin + cells[base + left + width - beyond]
            count += 1
            if beyond > 0:
                runs[count, 0], runs[count, 1] = begin + cells[base], begin + cells[base + beyond]
                count += 1
    if group[TAIL] == 0:
        return count
    runs[count, 0], runs[count, 1] = sorted_end, sorted_end + group[TAIL]
    return count + 1


@compiled
def search_views(
    first: int,
    channel_begin: Whole,
    channels: Whole,
    modes: Bytes,
    circles: Doubles,
    channel_groups: Whole,
    groups: Long,
    sizes_m: Doubles,
    group_links: Whole,
    cells: Whole,
    places: Doubles,
    links: Whole,
    heights: Doubles,
    slot_marks: Marks,
    flat: bool,
    all_issued: bool,
    slack_m: float,
    runs: Long,
    hits: Whole,
) -> tuple[int, int, int]:
    """One function with all its loops: to pass the arrays on costs more than the few entries of a cell."""
    count, overdue = 0, NONE
    looser, farther_m = (1.0, 0.0) if flat and slack_m == 0 else (1 + UNSURE_SHARE, UNSURE_M + slack_m)
    for event in range(first, len(channel_begin) - 1):
        complete = count
        for place in range(channel_begin[event], channel_begin[event + 1]):
            number = channel_groups[channels[place]]
            while number >= 0:
                locator = group_links[number, LOCATOR_LINK]
                mode = modes[event, locator]
                circle = mode & MODE == CIRCLE
                if mode & MODE != NOBODY:
                    x, y = circles[event, locator, 0], circles[event, locator, 1]
                    z, reach_m = circles[event, locator, 2], circles[event, locator, 3]
                    found_runs = runs_of(
                        groups[number], sizes_m[number], mode, x, y, z, reach_m + slack_m, cells, runs
                    )
                    if groups[number, SORTED] > 0:
                        groups[number, ASKED] += groups[number, TAIL]
                        if groups[number, ASKED] > ASKED_MAX + ASKED_PER_ENTRY * groups[number, SORTED]:
                            overdue = number
                    for run in range(found_runs):
                        # Numbers without a sign: those with one are asked each time whether they count from the end.
                        for index in range(np.uint64(runs[run, 0]), np.uint64(runs[run, 1])):
                            found, squared = 1, 0.0
                            if circle:
                                dx, dy = places[index, 0] - x, places[index, 1] - y
                                squared = dx * dx + dy * dy
                                if not flat:
                                    squared += (heights[index] - z) * (heights[index] - z)
                                outer = (places[index, 2] + reach_m) * looser + farther_m
                                if not squared <= outer * outer:
                                    continue
                            slot = links[index, SLOT_LINK]
                            if slot < 0:
                                continue
                            if circle and (slack_m > 0 or not flat):
                                slack = slack_m if slack_m > 0 and slot_marks[slot, MOVING_MARK] else 0.0
                                found = met(squared, places[index, 2] + reach_m, flat, slack)
                                if found == 0:
                                    continue
                            if count >= len(hits):
                                return event, complete, overdue
                            hits[count, 0], hits[count, 1] = event, slot
                            bare = all_issued and links[index, HOME_LINK] & BARE != 0
                            hits[count, 2] = found == 1
                            hits[count, 3] = (mode & SETTLED == SETTLED) + (NO_QUESTION if bare else 0)
                            count += 1
                number = group_links[number, AFTER_LINK]
    return len(channel_begin) - 1, count, overdue


@compiled
def search(
    first: int,
    channel_begin: Whole,
    channels: Whole,
    modes: Bytes,
    circles: Doubles,
    attributes: Doubles,
    channel_groups: Whole,
    groups: Long,
    sizes_m: Doubles,
    group_links: Whole,
    cells: Whole,
    places: Doubles,
    links: Whole,
    heights: Doubles,
    times_us: Long,
    slot_links: Whole,
    slot_marks: Marks,
    ranges: Doubles,
    clause_links: Whole,
    runs: Long,
    flat: bool,
    moments_us: Long,
    all_issued: bool,
    slack_m: float,
    hits: Whole,
) -> tuple[int, int, int, int]:
    """The hits of the events from `first` on: up to which event there was room, how many they are, how many of them
    are settled, and a group whose tail was looked at so often that it had better be sorted. What moves may be
    `slack_m` from where it stands: what that may change is met, and not surely. Where `all_issued` no subscription
    waits for its time to come.

    Records come as plain numbers: a field by its name costs ten times as much where all entries are looked at.
    """
    reached, count, overdue = search_views(
        first, channel_begin, channels, modes, circles, channel_groups, groups, sizes_m, group_links, cells, places,
        links, heights, slot_marks, flat, all_issued, slack_m, runs, hits,
    )  # fmt: skip
    kept, settled = admitted(count, hits, times_us, slot_links, attributes, ranges, clause_links, moments_us)
    return reached, kept, settled, overdue


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
def straight(x: float, y: float, flat: bool) -> tuple[float, float, float]:
    """As `metric.straight`, but for the last bit."""
    if flat:
        return x, y, 0.0
    longitude, latitude = math.radians(x), math.radians(y)
    sine, cosine = math.sin(latitude), math.cos(latitude)
    normal = EQUATOR_RADIUS_M / math.sqrt(1 - ECCENTRICITY_SQUARED * sine * sine)
    return (
        normal * cosine * math.cos(longitude),
        normal * cosine * math.sin(longitude),
        normal * (1 - ECCENTRICITY_SQUARED) * sine,
    )


@compiled
def fits(x: float, y: float) -> bool:
    """Whether it can be put into cells; what is no number cannot."""
    return abs(x) <= COORDINATE_MAX_M and abs(y) <= COORDINATE_MAX_M


@compiled
def move(
    first: int,
    numbers: Whole,
    x: Doubles,
    y: Doubles,
    hosts: Records,
    slots: Records,
    groups: Records,
    entries: Records,
    heights: Doubles,
    flat: bool,
) -> tuple[int, int]:
    """Moves hosts from `first` on: up to which one it came, and which group must be sorted before it can go on; none
    if that host was not in cells or will not be."""
    for index in range(first, len(numbers)):
        host = hosts[numbers[index]]
        if host.state != PLACED or not fits(x[index], y[index]) or not fits(host.x, host.y):
            return index, NONE
        to_x, to_y, to_z = straight(x[index], y[index], flat)
        slot = host.first
        while slot >= 0:
            entry = slots[slot].entry
            if slots[slot].moving and entry >= 0:
                number = slots[slot].group
                group = groups[number]
                place = entry
                if entry - group.begin < group.sorted:
                    home = entries[entry].home & CELL
                    out = max(
                        strayed(to_x, group.cell_m, home & (group.columns - 1), group.columns),
                        TALL * strayed(to_y, TALL * group.cell_m, home // group.columns, group.rows),
                    )
                    if not flat:
                        layer = home // (group.columns * group.rows)
                        high = TALL * strayed(to_z, TALL * group.cell_m, layer, group.layers)
                        out = max(out, high)
                    if out > DRIFT_MAX_CELLS:
                        if group.tail >= group.tail_max:
                            return index, number
                        place = group.begin + group.sorted + group.tail
                        groups[number].tail += 1
                        entries[place].radius = entries[entry].radius
                        entries[place].slot = slot
                        entries[place].home = entries[entry].home
                        entries[entry].slot = NONE
                        entries[entry].x = np.nan
                        slots[slot].entry = place
                    elif out > group.drift:
                        groups[number].drift = out
                entries[place].x = to_x
                entries[place].y = to_y
                if not flat:
                    heights[place] = to_z
            slot = slots[slot].after
        hosts[numbers[index]].x = x[index]
        hosts[numbers[index]].y = y[index]
    return len(numbers), NONE


# Where it is entered: with a table (`table.py`). In this file, because what is compiled is made anew when it changes.


def _pointer(_typing: Any, _address: Any) -> Any:
    def as_pointer(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), as_pointer


pointer: Any = intrinsic(_pointer)
"""An address as compiled code needs it."""


GROUP_NUMBERS, GROUP_LINKS = GROUP.itemsize // 8, GROUP.itemsize // 4
ENTRY_NUMBERS, ENTRY_LINKS = ENTRY.itemsize // 8, ENTRY.itemsize // 4
SLOT_NUMBERS, SLOT_LINKS = SLOT.itemsize // 8, SLOT.itemsize // 4
CLAUSE_NUMBERS, CLAUSE_LINKS = CLAUSE.itemsize // 8, CLAUSE.itemsize // 4
SLOT_BYTES = SLOT.itemsize


@compiled
def search_table(table: Long) -> None:
    """`search` in the arrays of a table (`table.py`)."""
    begins, channels = table[2 * at.CHANNEL_BEGIN + 1], table[2 * at.CHANNELS + 1]
    groups, entries = table[2 * at.GROUPS + 1], table[2 * at.ENTRIES + 1]
    slots, clauses = table[2 * at.SLOTS + 1], table[2 * at.CLAUSES + 1]
    of_groups, of_entries = pointer(table[2 * at.GROUPS]), pointer(table[2 * at.ENTRIES])
    of_slots, of_clauses = pointer(table[2 * at.SLOTS]), pointer(table[2 * at.CLAUSES])
    events, locators = table[2 * at.MODES + 1], table[at.LOCATORS]
    reached, count, settled, overdue = search(
        table[at.FIRST],
        carray(pointer(table[2 * at.CHANNEL_BEGIN]), (begins,), np.int32),
        carray(pointer(table[2 * at.CHANNELS]), (channels,), np.int32),
        carray(pointer(table[2 * at.MODES]), (events, locators), np.uint8),
        carray(pointer(table[2 * at.CIRCLES]), (events, locators, 4), np.float64),
        carray(pointer(table[2 * at.ATTRIBUTES]), (table[2 * at.ATTRIBUTES + 1], table[at.COLUMNS]), np.float64),
        carray(pointer(table[2 * at.CHANNEL_GROUPS]), (table[2 * at.CHANNEL_GROUPS + 1],), np.int32),
        carray(of_groups, (groups, GROUP_NUMBERS), np.int64),
        carray(of_groups, (groups, GROUP_NUMBERS), np.float64),
        carray(of_groups, (groups, GROUP_LINKS), np.int32),
        carray(pointer(table[2 * at.CELLS]), (table[2 * at.CELLS + 1],), np.int32),
        carray(of_entries, (entries, ENTRY_NUMBERS), np.float64),
        carray(of_entries, (entries, ENTRY_LINKS), np.int32),
        carray(pointer(table[2 * at.HEIGHTS]), (table[2 * at.HEIGHTS + 1],), np.float64),
        carray(of_slots, (slots, SLOT_NUMBERS), np.int64),
        carray(of_slots, (slots, SLOT_LINKS), np.int32),
        carray(of_slots, (slots, SLOT_BYTES), np.int8),
        carray(of_clauses, (clauses, CLAUSE_NUMBERS), np.float64),
        carray(of_clauses, (clauses, CLAUSE_LINKS), np.int32),
        carray(pointer(table[2 * at.RUNS]), (table[2 * at.RUNS + 1], 2), np.int64),
        table[at.FLAT] != 0,
        carray(pointer(table[2 * at.MOMENTS_US]), (table[2 * at.MOMENTS_US + 1],), np.int64),
        table[at.ALL_ISSUED] != 0,
        table.view(np.float64)[at.SLACK_M],
        carray(pointer(table[2 * at.HITS]), (table[2 * at.HITS + 1], HIT_NUMBERS), np.int32),
    )
    table[at.REACHED], table[at.COUNT], table[at.SETTLED_COUNT], table[at.GROUP_DUE] = (
        reached,
        count,
        settled,
        overdue,
    )


@compiled
def move_table(table: Long) -> None:
    """`move` in the arrays of a table."""
    hosts = table[2 * at.MOVED + 1]
    reached, full = move(
        table[at.FIRST],
        carray(pointer(table[2 * at.MOVED]), (hosts,), np.int32),
        carray(pointer(table[2 * at.MOVED_X]), (hosts,), np.float64),
        carray(pointer(table[2 * at.MOVED_Y]), (hosts,), np.float64),
        carray(pointer(table[2 * at.HOSTS]), (table[2 * at.HOSTS + 1],), HOST),
        carray(pointer(table[2 * at.SLOTS]), (table[2 * at.SLOTS + 1],), SLOT),
        carray(pointer(table[2 * at.GROUPS]), (table[2 * at.GROUPS + 1],), GROUP),
        carray(pointer(table[2 * at.ENTRIES]), (table[2 * at.ENTRIES + 1],), ENTRY),
        carray(pointer(table[2 * at.HEIGHTS]), (table[2 * at.HEIGHTS + 1],), np.float64),
        table[at.FLAT] != 0,
    )
    table[at.REACHED], table[at.GROUP_DUE] = reached, full
