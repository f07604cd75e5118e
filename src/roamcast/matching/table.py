"""All that the compiled kernel reads and writes, as one array of numbers: where each array lies, and how long it is.

To call compiled code each array that it is given is taken apart, which touches several lines of memory: for an event
that comes alone, with all of that out of the processor's caches, this takes longer than to search. So the kernel gets
this one array. Addresses are written when an array was replaced, by a larger one as a rule.
"""

from collections.abc import Sequence
from operator import is_
from typing import Any, cast

import numpy as np

from roamcast.matching.clauses import Clauses
from roamcast.matching.compiled import KERNEL
from roamcast.matching.hosts import Hosts
from roamcast.matching.layout import (
    ALL_ISSUED,
    ARRAYS,
    ATTRIBUTES,
    CHANNEL_BEGIN,
    COLUMNS,
    COUNT,
    FIRST,
    FLAT,
    GROUP_DUE,
    HIT_NUMBERS,
    HITS,
    LOCATORS,
    MODES,
    MOVED,
    MOVED_X,
    MOVED_Y,
    REACHED,
    SETTLED_COUNT,
    SLACK_M,
    TABLE_SIZE,
    Doubles,
    Long,
    Records,
    Whole,
)
from roamcast.matching.pool import Pool
from roamcast.matching.slots import Slots

FEW = 64
"""Hosts that move at a time, for which no arrays are made."""


class Table:
    def __init__(self, flat: bool, pool: Pool, slots: Slots, clauses: Clauses, hosts: Hosts) -> None:
        self._pool = pool
        self._slots = slots
        self._clauses = clauses
        self._hosts = hosts
        self._numbers: Long = np.zeros(TABLE_SIZE, np.int64)
        self._number = self._numbers.data
        self._double = cast("memoryview[float]", self._numbers.view(np.float64).data)
        self._number[FLAT] = flat
        self._arrays: list[Any] = [None] * ARRAYS
        """Held, so that an address stays good."""
        self._known: tuple[Any, ...] = ()
        self.few_hosts: Whole = np.zeros(FEW, np.int32)
        self.few_x: Doubles = np.zeros(FEW)
        self.few_y: Doubles = np.zeros(FEW)
        self.few: tuple[memoryview[int], memoryview[float], memoryview[float]] = (
            self.few_hosts.data,
            cast("memoryview[float]", self.few_x.data),
            cast("memoryview[float]", self.few_y.data),
        )
        """To be written one by one, then moved with `move_few`."""

    def array(self, place: int) -> Any:
        return self._arrays[place]

    def _put(self, place: int, array: Any) -> None:
        if not array.flags.c_contiguous:
            raise ValueError(f"array {place} has gaps, and the kernel would not see them")
        self._arrays[place] = array
        self._number[2 * place] = array.ctypes.data
        self._number[2 * place + 1] = len(array)

    def _refresh(self) -> None:
        pool = self._pool
        known: tuple[Records, ...] = (
            pool.channel_groups, pool.groups, pool.cells, pool.entries, pool.heights, pool.runs, self._slots.rows,
            self._clauses.rows, self._hosts.rows,
        )  # fmt: skip
        if not self._known or not all(map(is_, known, self._known)):
            self._known = known
            for place, array in enumerate(known):
                self._put(place, array)

    # Searching.

    def make_room(self, hits: int) -> Whole:
        room: Whole = np.zeros((hits, HIT_NUMBERS), np.int32)
        self._put(HITS, room)
        return room

    def ask_with(self, batch: Sequence[Any]) -> None:
        """The arrays of a batch, in the order of their places."""
        arrays, number = self._arrays, self._number
        for place, array in enumerate(batch, CHANNEL_BEGIN):
            if arrays[place] is not array:
                self._put(place, array)
                if place == MODES:
                    number[LOCATORS] = array.shape[1]
                elif place == ATTRIBUTES:
                    number[COLUMNS] = array.shape[1]

    def search(self, first: int, all_issued: bool, slack_m: float) -> tuple[int, int, int, int]:
        """The hits of the events from `first` on: up to which event there was room, how many they are, how many of
        them are settled, and a group that had better be sorted."""
        self._refresh()
        number = self._number
        number[FIRST], number[ALL_ISSUED] = first, all_issued
        self._double[SLACK_M] = slack_m
        KERNEL.search(self._numbers)
        return number[REACHED], number[COUNT], number[SETTLED_COUNT], number[GROUP_DUE]

    # Moving.

    def move_few(self, first: int, count: int) -> tuple[int, int]:
        """Moves hosts from `first` on: up to which one it came, and which group must be sorted before it can go on;
        none if that host was not in cells or will not be."""
        if self._arrays[MOVED] is not self.few_hosts:
            self._put(MOVED_X, self.few_x)
            self._put(MOVED_Y, self.few_y)
            self._put(MOVED, self.few_hosts)
        self._number[2 * MOVED + 1] = count
        return self._move(first)

    def move(self, first: int, hosts: Whole, x: Doubles, y: Doubles) -> tuple[int, int]:
        for place, array in ((MOVED, hosts), (MOVED_X, x), (MOVED_Y, y)):
            self._put(place, array)
        return self._move(first)

    def _move(self, first: int) -> tuple[int, int]:
        self._refresh()
        number = self._number
        number[FIRST] = first
        KERNEL.move(self._numbers)
        return number[REACHED], number[GROUP_DUE]
