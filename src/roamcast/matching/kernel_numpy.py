"""What `kernel.py` does, in numpy, until that one is loaded: the same results in the same order."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from roamcast.matching.layout import (
    ASKED_MAX,
    ASKED_PER_ENTRY,
    CELL,
    CIRCLE,
    COORDINATE_MAX_M,
    DRIFT_MAX_CELLS,
    MODE,
    NOBODY,
    NONE,
    ROUNDING_CELLS,
    SETTLED,
    TALL,
    UNSURE_M,
    UNSURE_SHARE,
    Bytes,
    Doubles,
    Long,
    Records,
    Views,
    Whole,
)

NAME = "numpy"


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
    all_issued: bool,  # noqa: ARG001 - numpy asks all slots at once
    slack_m: float,
    runs: Long,  # noqa: ARG001 - scratch that numpy has no use for
    hits: Records,
    views: Views,  # noqa: ARG001 - to numpy a name costs nothing
) -> tuple[int, int, int]:
    count, candidates, overdue = 0, 0, NONE
    for event in range(first, len(channel_begin) - 1):
        complete = count
        for channel in channels[channel_begin[event] : channel_begin[event + 1]]:
            number = int(channel_groups[channel])
            while number >= 0:
                group, here = groups[number], number
                number = int(group["after"])
                mode, circle = modes[event, group["locator"]], circles[event, group["locator"]]
                if mode & MODE == NOBODY:
                    continue
                if group["sorted"] > 0:
                    group["asked"] += group["tail"]
                    if group["asked"] > ASKED_MAX + ASKED_PER_ENTRY * group["sorted"]:
                        overdue = here
                tested = mode & MODE == CIRCLE
                spans = runs_of(group, circle, slack_m, cells) if tested else whole(group)
                places = np.concatenate([np.arange(start, end) for start, end in spans])
                found, sure = (
                    met(places, circle, flat, slack_m, entries, heights, slots) if tested else (places, None)
                )
                slot = entries["slot"][found]
                kept = np.flatnonzero(slot >= 0)
                # The compiled kernel needs room for all whom distance lets through; both must end at the same event.
                candidates += len(kept)
                if candidates > len(hits):
                    return event, complete, overdue
                kept = kept[admitted(slot[kept], attributes[event], slots, clauses, now_us)]
                end = count + len(kept)
                hits["event"][count:end] = event
                hits["slot"][count:end] = slot[kept]
                hits["sure"][count:end] = 1 if sure is None else sure[kept]
                settled = (hits["sure"][count:end] != 0) & (slots["profile"][slot[kept]] == 0)
                hits["settled"][count:end] = settled & bool(mode & SETTLED == SETTLED)
                count = end
    return len(channel_begin) - 1, count, overdue


def whole(group: Any) -> Iterator[tuple[int, int]]:
    yield int(group["begin"]), int(group["begin"] + group["sorted"] + group["tail"])


def runs_of(group: Any, circle: Doubles, slack_m: float, cells: Whole) -> Iterator[tuple[int, int]]:
    """Where the entries lie that the circle may meet, from and to."""
    begin, columns, rows, layers = (int(group[name]) for name in ("begin", "columns", "rows", "layers"))
    reach_m = (group["reach_m"] + (circle[3] + slack_m)) * (1 + UNSURE_SHARE) + 2 * UNSURE_M
    margin, columns_per_m = float(group["drift"]) + ROUNDING_CELLS, 1 / float(group["cell_m"])
    left, width = span(float(circle[0]), reach_m, columns_per_m, margin, columns)
    south, height = span(float(circle[1]), reach_m, columns_per_m / TALL, margin / TALL, rows)
    low, depth = span(float(circle[2]), reach_m, columns_per_m / TALL, margin / TALL, layers)
    left &= columns - 1
    beyond = max(0, left + width - columns)
    for layer in range(low, low + depth):
        for row in range(south, south + height):
            base = int(group["cells"]) + ((layer & (layers - 1)) * rows + (row & (rows - 1))) * columns
            yield begin + int(cells[base + left]), begin + int(cells[base + left + width - beyond])
            if beyond:
                yield begin + int(cells[base]), begin + int(cells[base + beyond])
    start = begin + int(group["sorted"])
    yield start, start + int(group["tail"])


def span(centre: float, reach_m: float, cells_per_m: float, margin: float, size: int) -> tuple[int, int]:
    if size == 1:
        return 0, 1
    centre = min(max(centre, -2 * COORDINATE_MAX_M), 2 * COORDINATE_MAX_M)
    reach_m = min(reach_m, 4 * COORDINATE_MAX_M)
    first = math.floor((centre - reach_m) * cells_per_m - margin)
    last = math.floor((centre + reach_m) * cells_per_m + margin)
    return (0, size) if last - first + 1 >= size else (first, last - first + 1)


def met(
    places: Whole,
    circle: Doubles,
    flat: bool,
    slack_m: float,
    entries: Records,
    heights: Doubles,
    slots: Records,
) -> tuple[Whole, Whole | None]:
    """Those of the entries that the circle meets, and whether that is sure."""
    with np.errstate(over="ignore", invalid="ignore"):
        dx = entries["x"][places] - circle[0]
        dy = entries["y"][places] - circle[1]
        limit = entries["radius"][places] + circle[3]
        squared = dx * dx + dy * dy
        if flat and slack_m == 0:
            return places[squared <= limit * limit], None
        if not flat:
            dz = heights[places] - circle[2]
            squared += dz * dz
        slack = np.where(slots["moving"][entries["slot"][places]] != 0, slack_m, 0.0)
        outer = limit * (1 + UNSURE_SHARE) + UNSURE_M + slack
        inner = limit * (1 - UNSURE_SHARE) - UNSURE_M - slack
        if flat:
            outer, inner = np.where(slack > 0, outer, limit), np.where(slack > 0, inner, limit)
        kept = squared <= outer * outer
        sure = (inner >= 0) & (squared <= inner * inner)
    return places[kept], sure[kept].astype(np.int32)


def admitted(slot: Whole, attributes: Doubles, slots: Records, clauses: Records, now_us: int) -> Any:
    rows = slots[slot]
    kept = (rows["issued_us"] <= now_us) & (now_us <= rows["expires_us"])
    clause = np.where(kept, rows["clause"], NONE)
    while (open_ := np.flatnonzero(clause >= 0)).size:
        asked = clauses[clause[open_]]
        value = attributes[asked["column"]]
        holds = (asked["low"] <= value) & (value <= asked["high"])
        kept[open_] &= holds
        clause[open_] = np.where(holds, asked["after"], NONE)
    return kept


def ordered(numbers: Whole, size: int) -> tuple[Whole, Whole]:
    begin = np.zeros(size + 1, np.int32)
    np.cumsum(np.bincount(numbers, minlength=size), out=begin[1:])
    return np.argsort(numbers, kind="stable").astype(np.int32), begin


def strayed(coordinate_m: float, cell_m: float, home: int, size: int) -> float:
    if size == 1:
        return 0.0
    along = coordinate_m / cell_m
    cell = math.floor(along)
    away = (cell - home) & (size - 1)
    if away == 0:
        return 0.0
    return size - away - (along - cell) if away > size // 2 else along - cell + away - 1


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
    for index in range(first, len(numbers)):
        host = numbers[index]
        hosts["x"][host], hosts["y"][host] = x[index], y[index]
        at = (float(straight_x[index]), float(straight_y[index]), float(straight_z[index]))
        slot = int(hosts["first"][host])
        while slot >= 0:
            row = slots[slot]
            if row["moving"] and row["entry"] >= 0:
                place = place_for(slot, at, slots, groups, entries)
                if place < 0:
                    return index, int(row["group"])
                entries["x"][place], entries["y"][place] = at[0], at[1]
                if not flat:
                    heights[place] = at[2]
            slot = int(row["after"])
    return len(numbers), NONE


def place_for(slot: int, at: tuple[float, float, float], slots: Records, groups: Records, entries: Records) -> int:
    """Where the entry of a slot is to lie: where it is, or in the tail; NONE if that is full."""
    entry, number = int(slots["entry"][slot]), int(slots["group"][slot])
    group = groups[number]
    if entry - group["begin"] >= group["sorted"]:
        return entry
    columns, rows, home = int(group["columns"]), int(group["rows"]), int(entries["home"][entry]) & CELL
    cell_m = float(group["cell_m"])
    out = max(
        strayed(at[0], cell_m, home & (columns - 1), columns),
        TALL * strayed(at[1], TALL * cell_m, home // columns, rows),
        TALL * strayed(at[2], TALL * cell_m, home // (columns * rows), int(group["layers"])),
    )
    if out <= DRIFT_MAX_CELLS:
        groups["drift"][number] = max(out, float(group["drift"]))
        return entry
    if group["tail"] >= group["tail_max"]:
        return NONE
    place = int(group["begin"] + group["sorted"] + group["tail"])
    groups["tail"][number] += 1
    entries["radius"][place] = entries["radius"][entry]
    entries["slot"][place], entries["home"][place] = slot, entries["home"][entry]
    entries["slot"][entry] = NONE
    entries["x"][entry] = np.nan
    slots["entry"][slot] = place
    return place
