"""The compiled part of the oracle: which stretches of ways lie in which events' audience, and who wants them.

Two loops. `met` looks stretches of ways up in a grid of events; `entered` tests what it finds, exactly: the
arithmetic, and its order, is that of `tracks.py` and `scopes.py`, so that the answers are the same to the last bit.

Compiled code checks no bounds: `EventSide` and `grid_join.py` have checked what it is given. Without numba there is
no kernel, every event is left to `conditions.py`, and the results are the same.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from roamcast.spark.oracle.scopes import CIRCLE

numba: Any
try:
    numba = import_module("numba")
except ImportError:  # it is a dependency, but there are machines that it does not run on
    numba = None

HELD_AT_FIRST = 65_536


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


# Parts of loops are given numbers, not arrays: to hand an array on counts its references, and costs more than a test.


@inlined
def in_circle(centre_x: float, centre_y: float, squared: float, x: float, y: float) -> bool:
    dx, dy = centre_x - x, centre_y - y
    return bool(dx * dx + dy * dy <= squared)


@inlined
def in_box(west: float, south: float, east: float, north: float, x: float, y: float) -> bool:
    return bool(west <= x <= east and south <= y <= north)


@inlined
def first_check_us(begin_us: int, from_us: int, start_us: int, period_us: int) -> int:
    """The first moment from `from_us` on at which a pair is looked at that exists since `begin_us`."""
    if begin_us >= start_us and begin_us >= from_us:
        return begin_us
    after = max(from_us, start_us)
    return -(-after // period_us) * period_us


@inlined
def swept(at: float, speed: float, early_s: float, late_s: float) -> Any:
    """How far a stretch of a way leads along one axis in this time, with a margin for rounding."""
    a, b = at + speed * early_s, at + speed * late_s
    margin = 1e-6 + (abs(a) + abs(b)) * 1e-12
    if not np.isfinite(margin):
        return -np.inf, np.inf
    return min(a, b) - margin, max(a, b) + margin


@inlined
def cell(value: float, origin: float, size: float, count: int) -> int:
    return int(min(max(np.floor((value - origin) / size), 0.0), count - 1.0))


@compiled
def grown_to(held: Any, room: int) -> Any:
    """What is held, in as much room."""
    more = np.empty((held.shape[0], room), held.dtype)
    more[:, : held.shape[1]] = held
    return more


@compiled
def met(ways: Any, grid: Any, wide: Any, boxes: Any, host_first: Any, bucket: Any) -> Any:
    """The stretches of ways and the events whose boxes overlap, each pair once."""
    host, from_us, until_us, x, y, east, north = ways
    origin, sides, first, entries, spans = grid
    low_x, low_y, high_x, high_y = boxes
    start_us, stop_us, _ = bucket
    held, count = np.empty((2, HELD_AT_FIRST), np.int64), 0
    known, early, late = (stop_us, stop_us), 0, -1
    for row in range(len(host)):
        begins, ends = max(from_us[row], start_us), min(until_us[row], stop_us)
        if begins >= ends or host_first[host[row]] == host_first[host[row] + 1]:
            continue
        if known != (begins, ends):
            # Mostly that of the row before, and to divide is dear.
            known = (begins, ends)
            early = (begins - start_us) * sides[0] // (stop_us - start_us)
            late = (ends - 1 - start_us) * sides[0] // (stop_us - start_us)
        early_s, late_s = (begins - from_us[row]) / 1e6, (ends - from_us[row]) / 1e6
        west, right_end = swept(x[row], east[row], early_s, late_s)
        south, top_end = swept(y[row], north[row], early_s, late_s)
        left, right = cell(west, origin[0], origin[2], sides[2]), cell(right_end, origin[0], origin[2], sides[2])
        low, high = cell(south, origin[1], origin[3], sides[1]), cell(top_end, origin[1], origin[3], sides[1])
        for slot in range(early, late + 1):
            for line in range(low, high + 1):
                begin = (slot * sides[1] + line) * sides[2]
                for column in range(left, right + 1):
                    for entry in range(first[begin + column], first[begin + column + 1]):
                        event = entries[entry]
                        # Where two meet in several cells they are a pair in the first of them.
                        if (
                            (max(spans[event, 0], early) != slot)
                            | (max(spans[event, 1], low) != line)
                            | (max(spans[event, 2], left) != column)
                            | (low_x[event] > right_end)
                            | (high_x[event] < west)
                            | (low_y[event] > top_end)
                            | (high_y[event] < south)
                        ):
                            continue
                        if count == held.shape[1]:
                            held = grown_to(held, count * 2)
                        held[0, count], held[1, count] = row, event
                        count += 1
        for entry in range(len(wide)):
            event = wide[entry]
            if low_x[event] <= right_end and high_x[event] >= west:
                if low_y[event] > top_end or high_y[event] < south:
                    continue
                if count == held.shape[1]:
                    held = grown_to(held, count * 2)
                held[0, count], held[1, count] = row, event
                count += 1
    return held[:, :count]


@compiled
def entered(
    pairs: Any, ways: Any, events: Any, audience_shape: Any, audience: Any, lives: Any, fits: Any, bucket: Any
) -> Any:
    """Events and subscriptions whose subject fits and whose subscriber is in the audience at a look on a stretch of
    its way: the two, the first such moment, and where it is then."""
    host, from_us, until_us, x, y, east, north = ways
    begin_us, end_us, subject = events
    host_first, life_begin_us, life_end_us, pattern = lives
    start_us, stop_us, period_us = bucket
    found, places, count = np.empty((3, HELD_AT_FIRST), np.int64), np.empty((2, HELD_AT_FIRST)), 0
    for nth in range(pairs.shape[1]):
        row, event = pairs[0, nth], pairs[1, nth]
        circle, a, b, c = audience_shape[event] == CIRCLE, audience[event, 0], audience[event, 1], audience[event, 2]
        d, low_x, low_y = audience[event, 3], audience[event, 4], audience[event, 5]
        high_x, high_y = audience[event, 6], audience[event, 7]
        for life in range(host_first[host[row]], host_first[host[row] + 1]):
            if not (fits[pattern[life], subject[event] >> 3] >> (subject[event] & 7)) & 1:
                continue
            since_us = max(begin_us[event], life_begin_us[life])
            last_us = min(min(end_us[event], life_end_us[life]), min(until_us[row], stop_us) - 1)
            at_us = first_check_us(since_us, from_us[row], start_us, period_us)
            while at_us <= last_us:
                seconds = (at_us - from_us[row]) / 1e6
                here_x, here_y = x[row] + east[row] * seconds, y[row] + north[row] * seconds
                inside = (
                    in_circle(a, b, c, here_x, here_y)
                    if circle
                    else in_box(low_x, low_y, high_x, high_y, (here_x - a) + c, (here_y - b) + d)
                )
                if inside:
                    if count == found.shape[1]:
                        found, places = grown_to(found, count * 2), grown_to(places, count * 2)
                    found[0, count], found[1, count], found[2, count] = event, life, at_us
                    places[0, count], places[1, count] = here_x, here_y
                    count += 1
                if inside or at_us == last_us:
                    break
                at_us = (at_us // period_us + 1) * period_us
    return found[:, :count], places[:, :count]
