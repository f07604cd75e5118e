"""What the engine's columns look like in memory: record arrays that the compiled kernel and numpy read alike.

An *entry* is one subscription in a grid: a circle, and which slot it belongs to. A *slot* is all else that is
decided without Python about a subscription. A *group* is one grid: the entries of one channel that are found by the
same place of an event and have circles of similar size. A *clause* is a range that a value of the event must be in.

Circles lie in metres in which straight distance decides (`metric.py`): a plane's own, or those of the ellipsoid with
a height, which is kept apart because a plane has none.
"""

from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Records: TypeAlias = NDArray[Any]
Doubles: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int32]
Long: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.uint8]
Marks: TypeAlias = NDArray[np.int8]

NONE = -1
"""No slot, no entry, no group, no clause."""

# How an event asks the groups of one locator.
NOBODY, CIRCLE, EVERYBODY = 0, 1, 2
MODE = 3
AUDIENCE_MET, RELEVANCE_OPEN = 4, 8
"""Beside the mode: whoever is found is in the event's audience; the event is relevant everywhere."""
SETTLED = AUDIENCE_MET | RELEVANCE_OPEN

COORDINATE_MAX_M = 1e9
"""Farther out nothing is put into cells: as far as the model lets a fixed region lie."""
RADIUS_MAX_M = 1e8
CELL_MIN_M = 0.1
TALL = 4
"""Rows and layers are so many times as high as columns are wide: what lies in a row is read in one go, so few rows
are worth more than few cells."""
DRIFT_MAX_CELLS = 1.0
"""How far an entry may wander out of its cell before it goes to the tail, in widths of a column."""
ROUNDING_CELLS = 1e-3
"""Coordinates in cells are exact to better than this, given the limits above."""

# On Earth a distance this near the radius is left to the model's own arithmetic.
UNSURE_SHARE = 1e-9
UNSURE_M = 1e-6

ENTRY = np.dtype([("x", "f8"), ("y", "f8"), ("radius", "f8"), ("slot", "i4"), ("home", "i4")])
"""`home` is the cell in which it was sorted, and BARE; `slot` is NONE where nothing is any more."""

BARE = 2**30
"""Beside its cell: a subscription that asks for nothing but its circle and never ends. Once it is issued, its slot,
which lies anywhere in memory, need not be looked at."""
CELL = BARE - 1

SLOT = np.dtype(
    [
        ("issued_us", "i8"),
        ("expires_us", "i8"),
        ("radius_m", "f8"),
        ("clause", "i4"),
        ("profile", "i4"),
        ("entry", "i4"),
        ("group", "i4"),
        ("channel", "i4"),
        ("locator", "i2"),
        ("moving", "i1"),
        ("used", "i1"),
        ("host", "i4"),
        ("after", "i4"),
        ("before", "i4"),
        ("spare", "i4"),
    ]
)
"""`after` and `before` are the other slots of the same subscriber. A slot is one line of the processor's cache."""

GROUP = np.dtype(
    [
        ("begin", "i8"),
        ("sorted", "i8"),
        ("tail", "i8"),
        ("tail_max", "i8"),
        ("capacity", "i8"),
        ("cells", "i8"),
        ("cells_capacity", "i8"),
        ("live", "i8"),
        ("guests", "i8"),
        ("asked", "i8"),
        ("columns", "i8"),
        ("rows", "i8"),
        ("layers", "i8"),
        ("cell_m", "f8"),
        ("drift", "f8"),
        ("reach_m", "f8"),
        ("after", "i4"),
        ("locator", "i4"),
    ]
)
"""`after` is the next group of the channel; `drift` the farthest that an entry is out of its cell, in columns;
`asked` how many entries of the tail have been looked at since it was last sorted; `guests` how many circles of
smaller classes there were at most since then."""

ASKED_MAX = 12_000
ASKED_PER_ENTRY = 10
"""To look at so many entries of a tail takes about as long as to sort the group, which has it out of the way."""

CLAUSE = np.dtype([("low", "f8"), ("high", "f8"), ("column", "i4"), ("after", "i4")])

HOST = np.dtype([("x", "f8"), ("y", "f8"), ("first", "i4"), ("state", "i4")])

FREE, NAMED, PRESENT, PLACED = 0, 1, 2, 3
"""States of a host's number: without a host; a name without a context; a context without a position; one with it."""

HIT_NUMBERS = 4
"""A hit is its event, its slot, whether distance is sure of it, and whether it is settled: nothing is left to ask."""

# What stands where in the table with which the kernel is called (`table.py`). An array takes two numbers, address and
# length.
CHANNEL_GROUPS, GROUPS, CELLS, ENTRIES, HEIGHTS, RUNS, SLOTS, CLAUSES, HOSTS = range(9)
CHANNEL_BEGIN, CHANNELS, MODES, CIRCLES, ATTRIBUTES, MOMENTS_US = range(9, 15)
HITS, MOVED, MOVED_X, MOVED_Y = range(15, 19)
ARRAYS = 19
# Then come numbers by themselves.
FLAT, FIRST, ALL_ISSUED, SLACK_M, LOCATORS, COLUMNS = range(2 * ARRAYS, 2 * ARRAYS + 6)
REACHED, COUNT, SETTLED_COUNT, GROUP_DUE = range(2 * ARRAYS + 6, 2 * ARRAYS + 10)
"""What the kernel answers; `SLACK_M` holds a double."""
TABLE_SIZE = 2 * ARRAYS + 10

FINGERPRINT = crc32(
    repr(
        (
            [each.descr for each in (ENTRY, SLOT, GROUP, CLAUSE, HOST)],
            (NONE, NOBODY, CIRCLE, EVERYBODY, MODE, SETTLED, BARE, TALL, PLACED, ASKED_MAX, ASKED_PER_ENTRY),
            (COORDINATE_MAX_M, DRIFT_MAX_CELLS, ROUNDING_CELLS, UNSURE_SHARE, UNSURE_M),
            (CHANNEL_GROUPS, CHANNEL_BEGIN, MOMENTS_US, HITS, ARRAYS, FLAT, REACHED, TABLE_SIZE),
        )
    ).encode()
)
"""Of all that is compiled into the kernel: who changes it must write it into `kernel.py`."""


def enlarged(records: Records, size: int) -> Records:
    """The same with room for `size` and a sixteenth more, so that growing one by one copies seldom."""
    if size <= len(records):
        return records
    more = np.zeros((size + size // 16 + 64, *records.shape[1:]), records.dtype)
    more[: len(records)] = records
    return more
