"""The grids: where the entries of all groups lie, and how they are kept in order while they come, go and move.

The entries of a group lie together: first those sorted by cell, then a *tail* of those that came or strayed since. A
query reads the cells it meets and the whole tail. A full tail is sorted in, which costs as much as the group is
large, so the tail may be as long as the root of that: neither queries nor moves pay much. An entry that moves is
changed where it lies, and may leave its cell by a column's width; queries reach as much farther as the farthest
one did. One that strays farther goes to the tail.

Circles of a class have a group of their own, unless they are few beside those of the next wider class: then they are
its *guests*. Another group costs a query as much as dozens of entries.

All groups share one pool of entries and one of cells, so that a batch of events for many groups is one call. A group
that outgrows its place gets another one at the end of the pool; once an eighth of a pool is lost so, it is packed.
"""

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from roamcast.matching.compiled import KERNEL
from roamcast.matching.layout import (
    BARE,
    CELL_MIN_M,
    COORDINATE_MAX_M,
    ENTRY,
    GROUP,
    NONE,
    RADIUS_MAX_M,
    TALL,
    Doubles,
    Long,
    Records,
    Whole,
    enlarged,
)
from roamcast.model.values import FOREVER_US

GroupKey: TypeAlias = tuple[int, int, int]
"""Channel, locator, and the class of the radius."""

COMPILED_FROM = 4_096
"""So many entries are sorted by the compiled kernel."""
UNCELLED = 99
"""The class of what cannot be put into cells: too far out, too wide, or nowhere."""
TAIL_MIN = 32
TAIL_PER_ROOT = 2
CELL_PER_RADIUS = 0.5
ENTRIES_PER_CELL = 2
CLASS_RATIO = 4
"""Circles of one class differ by this factor at most, so that a wide one makes no query of small ones wide."""
ENTRIES_PER_GUEST = 3
"""At least so many for each guest among them: then at most a half more is read than there would be without guests."""
PACKED_MIN = 4_096
"""To pack pools much smaller than that is not worth the while."""


def radius_class(reach_m: float) -> int:
    if not reach_m <= RADIUS_MAX_M:
        return UNCELLED
    return 0 if reach_m <= CELL_MIN_M else 1 + max(0, math.ceil(math.log(reach_m / CELL_MIN_M, CLASS_RATIO)))


def narrowest_m(size: int) -> float:
    """Circles of this class are wider than that; the first one, and that of no cells, have no smaller ones beside."""
    return float(CELL_MIN_M * CLASS_RATIO ** (size - 2)) if 1 < size < UNCELLED else -math.inf


def fits_cells(x: float, y: float) -> bool:
    return abs(x) <= COORDINATE_MAX_M and abs(y) <= COORDINATE_MAX_M


def ordered(numbers: Whole, size: int) -> tuple[Whole, Whole]:
    """As the kernel's, for few: so that many plain subscriptions do not have it loaded."""
    begin = np.zeros(size + 1, np.int32)
    np.cumsum(np.bincount(numbers, minlength=size), out=begin[1:])
    return np.argsort(numbers, kind="stable").astype(np.int32), begin


class Pool:
    def __init__(self, flat: bool) -> None:
        self.flat = flat
        self.entries: Records = np.zeros(TAIL_MIN, ENTRY)
        self.heights: Doubles = np.zeros(1 if flat else TAIL_MIN)
        self.groups: Records = np.zeros(4, GROUP)
        # A group that has not been sorted yet has one cell, and nothing in it: these two.
        self.cells: Whole = np.zeros(2, np.int32)
        self.channel_groups: Whole = np.full(4, NONE, np.int32)
        self.runs: Long = np.zeros((4, 2), np.int64)
        """Scratch for the kernel, with room for every row of the largest grid, twice, and its tail."""
        self.numbers: dict[GroupKey, int] = {}
        self._keys: dict[int, GroupKey] = {}
        self._free: list[int] = []
        self._entries_end = 0
        self._cells_end = 2
        self._entries_lost = 0
        self._cells_lost = 0

    def make_known(self, channel: int) -> None:
        """A channel may have no group: the kernel must find that out within bounds."""
        if channel >= len(self.channel_groups):
            known = len(self.channel_groups)
            self.channel_groups = enlarged(self.channel_groups, channel + 1)
            self.channel_groups[known:] = NONE

    # Entries.

    def insert(
        self, slots: Records, slot: int, key: GroupKey, at: tuple[float, float, float], reach_m: float
    ) -> None:
        number = self._group_for(key)
        if number is None:
            number = self._founded(key)
            self._pack(slots)
        if self.groups["tail"][number] >= self.groups["tail_max"][number]:
            self.sort(slots, number)
        group = self.groups[number]
        place = int(group["begin"] + group["sorted"] + group["tail"])
        row = slots[slot]
        bare = row["clause"] == NONE and row["profile"] == 0 and row["expires_us"] >= FOREVER_US
        self.entries[place] = (at[0], at[1], reach_m, slot, BARE if bare else 0)
        if not self.flat:
            self.heights[place] = at[2]
        group["tail"] += 1
        group["live"] += 1
        group["guests"] += self._keys[number] != key
        group["reach_m"] = max(float(group["reach_m"]), reach_m)
        slots["entry"][slot], slots["group"][slot] = place, number

    def insert_all(
        self, slots: Records, key: GroupKey, entries: Sequence[tuple[int, tuple[float, float, float], float]]
    ) -> None:
        """Many of one class: slot, place and reach of each. Sorted once, and not every time that a tail is full."""
        if len(entries) < TAIL_MIN:
            for slot, at, reach_m in entries:
                self.insert(slots, slot, key, at, reach_m)
            return
        own = self.numbers.get(key)
        number = self._founded(key) if own is None else own
        live = self._living(number)
        new: Records = np.zeros(len(entries), ENTRY)
        new["slot"] = [slot for slot, _, _ in entries]
        new["x"], new["y"] = [at[0] for _, at, _ in entries], [at[1] for _, at, _ in entries]
        new["radius"] = [reach_m for _, _, reach_m in entries]
        everything = np.concatenate((self.entries[live], new))
        heights = self.heights
        if not self.flat:
            heights = np.concatenate((self.heights[live], [at[2] for _, at, _ in entries]))
        slots["group"][new["slot"]] = number
        self._entries_lost += int(self.groups["capacity"][number])
        self._give_room(number, 0, len(everything) + TAIL_MIN)
        self._write(slots, number, everything, heights, np.array([0, 0], np.int32))
        self.groups["live"][number] = len(everything)
        self.sort(slots, number)

    def remove(self, slots: Records, slot: int) -> None:
        place, number = int(slots["entry"][slot]), int(slots["group"][slot])
        slots["entry"][slot], slots["group"][slot] = NONE, NONE
        self.entries["slot"][place] = NONE
        self.entries["x"][place] = math.nan
        group = self.groups[number]
        group["live"] -= 1
        if not group["live"]:
            self._dissolve(number)
        elif 2 * group["live"] + TAIL_MIN < group["sorted"]:
            self.sort(slots, number)

    # Groups.

    def _group_for(self, key: GroupKey) -> int | None:
        """The one of its class, or the next wider one if that has room for a guest."""
        own = self.numbers.get(key)
        wider = self.numbers.get((key[0], key[1], key[2] + 1))
        if own is not None or wider is None:
            return own
        group = self.groups[wider]
        return wider if ENTRIES_PER_GUEST * (group["guests"] + 1) <= group["live"] + 1 else None

    def _invite(self, slots: Records, number: int) -> Long:
        """Where all entries of a group lie, with those of the next smaller class if they are few enough: they have no
        group of their own from now on."""
        channel, locator, size = self._keys[number]
        group, own = self.groups[number], self._living(number)
        group["guests"] = np.count_nonzero(self.entries["radius"][own] <= narrowest_m(size))
        smaller = self.numbers.get((channel, locator, size - 1))
        if smaller is None:
            return own
        # Counted first: the smaller circles may be very many, and would be looked through at every sort of the wide.
        guests = int(group["guests"]) + int(self.groups["live"][smaller])
        if ENTRIES_PER_GUEST * guests > len(own) + int(self.groups["live"][smaller]):
            return own
        coming = self._living(smaller)
        slots["group"][self.entries["slot"][coming]] = number
        group["guests"], group["live"] = guests, len(own) + len(coming)
        self._dissolve(smaller)
        return np.concatenate((own, coming))

    def _living(self, number: int) -> Long:
        """Where the entries of a group lie that still are some."""
        group = self.groups[number]
        begin = int(group["begin"])
        used = slice(begin, begin + int(group["sorted"] + group["tail"]))
        return np.flatnonzero(self.entries["slot"][used] >= 0) + begin

    def _founded(self, key: GroupKey) -> int:
        channel, locator, _ = key
        number = self._free.pop() if self._free else len(self.numbers)
        self.groups = enlarged(self.groups, number + 1)
        group = self.groups[number]
        group["sorted"] = group["tail"] = group["live"] = group["guests"] = group["asked"] = group["cells"] = group[
            "cells_capacity"
        ] = 0
        group["columns"] = group["rows"] = group["layers"] = group["cell_m"] = 1
        group["drift"] = group["reach_m"] = 0.0
        # Most groups stay small: a few at first, and a full tail once they are more.
        self._give_room(number, 0, 8)
        group = self.groups[number]
        group["locator"] = locator
        group["after"] = self.channel_groups[channel]
        self.channel_groups[channel] = number
        self.numbers[key] = number
        self._keys[number] = key
        return number

    def _dissolve(self, number: int) -> None:
        key = self._keys.pop(number)
        del self.numbers[key]
        group = self.groups[number]
        self._entries_lost += int(group["capacity"])
        self._cells_lost += int(group["cells_capacity"])
        before, after = NONE, int(self.channel_groups[key[0]])
        while after != number:
            before, after = after, int(self.groups["after"][after])
        if before == NONE:
            self.channel_groups[key[0]] = group["after"]
        else:
            self.groups["after"][before] = group["after"]
        self._free.append(number)

    def _give_room(self, number: int, entries: int, tail: int) -> None:
        """A new place at the end of the pool, for so many sorted ones and such a tail."""
        room = entries + entries // 8 + tail
        self.entries = enlarged(self.entries, self._entries_end + room)
        if not self.flat:
            self.heights = enlarged(self.heights, len(self.entries))
        group = self.groups[number]
        group["begin"], group["capacity"], group["tail_max"] = self._entries_end, room, tail
        self._entries_end += room

    def sort(self, slots: Records, number: int) -> None:
        """Puts all entries of a group into its cells, and leaves the tail empty."""
        group = self.groups[number]
        live = self._invite(slots, number)
        entries, heights = self.entries[live], self.heights[live] if not self.flat else self.heights
        count = len(entries)
        if count < TAIL_MIN:
            tail, cells = TAIL_MIN, 1
            order = np.arange(count, dtype=np.int32)
            cell_begin = np.array([0, 0], np.int32)
        else:
            tail = TAIL_MIN + TAIL_PER_ROOT * math.isqrt(count)
            homes = self._cells_of(number, entries, heights)
            entries["home"] = homes | (entries["home"] & BARE)
            cells = int(group["columns"] * group["rows"] * group["layers"])
            order, cell_begin = KERNEL.ordered(homes, cells) if count >= COMPILED_FROM else ordered(homes, cells)
        if count + tail > group["capacity"]:
            self._entries_lost += int(group["capacity"])
            self._give_room(number, count, tail)
        self._write(slots, number, entries[order], heights if self.flat else heights[order], cell_begin)
        group = self.groups[number]
        group["tail_max"] = min(tail, int(group["capacity"]) - int(group["sorted"]))
        self._pack(slots)

    def _write(self, slots: Records, number: int, entries: Records, heights: Doubles, cell_begin: Whole) -> None:
        group = self.groups[number]
        begin, count = int(group["begin"]), len(entries)
        self.entries[begin : begin + count] = entries
        if not self.flat:
            self.heights[begin : begin + count] = heights
        slots["entry"][entries["slot"]] = np.arange(begin, begin + count, dtype=np.int32)
        in_cells = int(cell_begin[-1])
        group["sorted"], group["tail"], group["drift"], group["asked"] = in_cells, count - in_cells, 0.0, 0
        group["reach_m"] = entries["radius"].max(initial=0.0)
        if in_cells == 0:
            self._cells_lost += int(group["cells_capacity"])
            group["cells"] = group["cells_capacity"] = 0
            group["columns"] = group["rows"] = group["layers"] = 1
            return
        if len(cell_begin) > group["cells_capacity"]:
            self._cells_lost += int(group["cells_capacity"])
            self.cells = enlarged(self.cells, self._cells_end + len(cell_begin))
            group["cells"], group["cells_capacity"] = self._cells_end, len(cell_begin)
            self._cells_end += len(cell_begin)
        at = int(group["cells"])
        self.cells[at : at + len(cell_begin)] = cell_begin

    def _cells_of(self, number: int, entries: Records, heights: Doubles) -> Whole:
        """Chooses the group's cells, and says in which one each entry is."""
        group = self.groups[number]
        if self._keys[number][2] == UNCELLED:
            group["columns"] = group["rows"] = group["layers"] = 1
            return np.zeros(len(entries), np.int32)
        axes = [entries["x"], entries["y"]] if self.flat else [entries["x"], entries["y"], heights]
        doublings = max(0, round(math.log2(len(entries) / ENTRIES_PER_CELL)))
        if not self.flat:
            # In three dimensions a surface leaves most cells empty.
            doublings += 1
        sizes = sizes_of(doublings, len(axes))
        group["columns"], group["rows"], group["layers"] = (*sizes, 1)[:3]
        self.runs = enlarged(self.runs, 2 * math.prod(sizes[1:]) + 1)
        reach_m = float(entries["radius"].max())
        cell_m = reach_m * CELL_PER_RADIUS if reach_m > 0 else spread(axes, sizes)
        cell_m = group["cell_m"] = max(cell_m, CELL_MIN_M)
        cells = np.zeros(len(entries), np.int64)
        heights_m = (cell_m, TALL * cell_m, TALL * cell_m)
        for axis, size, height_m in reversed(list(zip(axes, sizes, heights_m, strict=False))):
            cells = cells * size + (np.floor(axis / height_m).astype(np.int64) & (size - 1))
        return cells.astype(np.int32)

    def _pack(self, slots: Records) -> None:
        """Gives every group its place anew when an eighth of a pool is lost."""
        if 8 * self._entries_lost > self._entries_end + PACKED_MIN:
            self._pack_entries(slots)
        if 8 * self._cells_lost > self._cells_end + PACKED_MIN:
            self._pack_cells()

    def _pack_entries(self, slots: Records) -> None:
        """Of all groups together: there may be as many as subscriptions, and one by one took a second for 30,000."""
        numbers = np.fromiter(self._keys, np.int64)
        groups = self.groups[numbers]
        begin, source = moved_up(groups["begin"], groups["capacity"])
        self.entries = self.entries[source]
        if not self.flat:
            self.heights = self.heights[source]
        self.groups["begin"][numbers] = begin
        self._entries_end, self._entries_lost = len(source), 0
        used = np.arange(len(source)) < np.repeat(begin + groups["sorted"] + groups["tail"], groups["capacity"])
        live = np.flatnonzero(used & (self.entries["slot"] >= 0))
        slots["entry"][self.entries["slot"][live]] = live

    def _pack_cells(self) -> None:
        numbers = np.fromiter(self._keys, np.int64)
        numbers = numbers[self.groups["cells_capacity"][numbers] > 0]
        begin, source = moved_up(self.groups["cells"][numbers], self.groups["cells_capacity"][numbers])
        self.groups["cells"][numbers] = begin + 2
        self.cells = np.concatenate((np.zeros(2, np.int32), self.cells[source]))
        self._cells_end, self._cells_lost = len(self.cells), 0


def moved_up(begin: Long, room: Long) -> tuple[Long, Long]:
    """Where each of some stretches begins when they lie one after the other, and what goes to each place there."""
    new = np.cumsum(room) - room
    return new, np.arange(room.sum()) + np.repeat(begin - new, room)


def sizes_of(doublings: int, axes: int) -> list[int]:
    """How many columns, rows and layers make so many cells and reach about equally far."""
    left, exponents = doublings, list[int]()
    for axis in range(axes - 1, 0, -1):
        exponents.append(max(0, (left - TALL.bit_length() + 1) // (axis + 1)))
        left -= exponents[-1]
    return [2**each for each in (left, *reversed(exponents))]


def spread(axes: list[Doubles], sizes: list[int]) -> float:
    """The cell with which most of what is there fills the grid once, for queries whose reach is not known."""
    widths = [
        float(np.subtract(*np.quantile(axis, (0.95, 0.05)))) / (size if number == 0 else TALL * size)
        for number, (axis, size) in enumerate(zip(axes, sizes, strict=True))
    ]
    return max(widths)
