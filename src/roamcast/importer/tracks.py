"""What lies between two fixes of a host, by rule, and so the rows of `moves`.

| between two fixes that lie | the host |
|---|---|
| at most `gap` apart | goes straight and evenly from one to the other |
| at most `gap` apart, but further than it can have gone | is at the first until the second; nobody knows how |
| further apart in time | is at the first for `gap`, then what `in_gaps` says, until the second |
| after the last fix | the same |

`in_gaps` is `gone` (its recorder was off: the host is down), `unknown` (it is there, nobody knows where), `rest` (it
stands where it was) or `near`: it rested if it was next seen within `near_m` of where it was last, else it is gone.

A fix that could be neither reached from the one before nor left for the one after is an outlier and dropped; of
several in a row, every second one, so that two devices under one name do not remove each other entirely.

Fixes come one range of time after the other. The last fix of each host is held until its next one is known, and the
one before it as well where the last may turn out to be an outlier.
"""

import numpy as np
from msgspec import Struct

from roamcast.importer.fixes import FIX, FixRows
from roamcast.importer.rules import InGaps, Rules
from roamcast.model.filter.mask import Flags, Floats, Pairs, offset_m
from roamcast.model.space import Earth, Plane

MOVE = np.dtype([*((name, FIX[name]) for name in FIX.names or ()), ("up", "?")])
"""A row of `moves`: a position or velocity that is not known is not a number."""
SMALL_HOSTS = 1 << 16


class Steps(Struct, frozen=True):
    """From each fix to the next in the array, which may be of another host."""

    same: Flags
    seconds: Floats
    east_m: Floats
    north_m: Floats
    too_far: Flags

    @property
    def metres(self) -> Floats:
        return np.hypot(self.east_m, self.north_m)


class Tracks:
    def __init__(self, space: Plane | Earth, rules: Rules) -> None:
        self.repeated = 0
        self.outliers = 0
        self.gaps = 0
        self._space, self._rules = space, rules
        self._held = np.empty(0, FIX)
        """By the number of the host; what is there is said by `_is_held`."""
        self._is_held = np.empty(0, np.bool_)
        self._before = np.empty(0, FIX)
        """The fix before the held one, where that is too far away; `_has_before` says where."""
        self._has_before = np.empty(0, np.bool_)
        self._spared = np.empty(0, np.bool_)
        """Whether the fix before the held one was dropped, so that this one stays."""

    def add(self, fixes: FixRows) -> FixRows:
        """Rows of `MOVE` in order of time. No fix may be earlier than those of an earlier call."""
        if not len(fixes):
            return np.empty(0, MOVE)
        self._make_room(int(fixes["host"].max()) + 1)
        fixes = self._together(fixes)
        steps = self._steps(fixes)
        outliers = self._outliers(fixes, steps)
        if outliers.any():
            self.outliers += int(np.count_nonzero(outliers))
        spared = self._spared_last(fixes, steps, outliers)
        if outliers.any():
            fixes = fixes[~outliers]
            steps = self._steps(fixes)
        open_ended = steps.too_far & np.append(~steps.same[1:], True)[: len(steps.same)]
        moves = self._moves(fixes, steps, steps.same & ~open_ended)
        self._hold(fixes, steps, spared)
        return in_time(moves)

    def finish(self) -> FixRows:
        """The last fix of each host, and that it is gone after that."""
        held = self._held[self._is_held]
        open_ended = np.concatenate([self._before[self._has_before], held])
        if not len(open_ended):
            return np.empty(0, MOVE)
        open_ended = open_ended[by_host_and_time(open_ended)]
        steps = self._steps(open_ended)
        before = self._moves(open_ended, steps, steps.same)
        self._is_held[:] = self._has_before[:] = False
        moves = blank_moves(held)
        if self._rules.velocity != "told":
            moves["east_mps"] = moves["north_mps"] = np.nan
        return in_time(np.concatenate([before, moves, self._leaving(moves)]))

    def _together(self, fixes: FixRows) -> FixRows:
        """With what is held of their hosts, by host and time, each time once."""
        present = np.zeros(len(self._is_held), np.bool_)
        present[fixes["host"]] = True
        held = [self._before[present & self._has_before], self._held[present & self._is_held]]
        merged = np.concatenate([*held, fixes])
        merged = merged[by_host_and_time(merged)]
        again = np.zeros(len(merged), np.bool_)
        again[1:] = (merged["host"][1:] == merged["host"][:-1]) & (merged["at_us"][1:] == merged["at_us"][:-1])
        self.repeated += int(np.count_nonzero(again))
        return merged[~again] if again.any() else merged

    def _steps(self, fixes: FixRows) -> Steps:
        """One less than there are fixes."""
        one, two = fixes[:-1], fixes[1:]
        same = one["host"] == two["host"]
        seconds = np.where(same, (two["at_us"] - one["at_us"]) / 1e6, 1.0)
        east_m, north_m = offset_m(pairs(one), pairs(two), self._space)
        limits = self._rules.limits
        reach_m = limits.jump_slack_m + limits.speed_mps_max * seconds
        return Steps(same, seconds, east_m, north_m, same & (np.hypot(east_m, north_m) > reach_m))

    def _outliers(self, fixes: FixRows, steps: Steps) -> Flags:
        suspicious = np.append(False, steps.too_far) & np.append(steps.too_far, False)
        number = np.arange(len(fixes))
        begins = suspicious & ~np.append(False, suspicious[:-1] & steps.same)
        begin = np.maximum.accumulate(np.where(begins, number, 0))
        found: Flags = suspicious & ((number - begin + self._held_and_spared(fixes)[begin]) % 2 == 0)
        return found

    def _held_and_spared(self, fixes: FixRows) -> Flags:
        hosts = fixes["host"]
        was_held = self._is_held[hosts] & (self._held["at_us"][hosts] == fixes["at_us"])
        spared: Flags = was_held & self._spared[hosts]
        return spared

    def _spared_last(self, fixes: FixRows, steps: Steps, outliers: Flags) -> Flags:
        """By host with a fix here, whether the one before its last is dropped, now or when the last was held."""
        last = np.append(~steps.same, True)
        spared: Flags = (np.append(False, outliers[:-1] & steps.same) | self._held_and_spared(fixes))[last]
        return spared

    def _moves(self, fixes: FixRows, steps: Steps, settled: Flags) -> FixRows:
        """Of the steps that are `settled`: nothing that comes later changes them."""
        gap = settled & (steps.seconds > self._rules.limits.gap_us / 1e6)
        match self._rules.in_gaps:
            case InGaps.REST:
                rests = gap
            case InGaps.NEAR:
                rests = gap & (steps.metres <= self._rules.near_m)
            case InGaps.GONE | InGaps.UNKNOWN:
                rests = np.zeros(len(gap), np.bool_)
        self.gaps += int(np.count_nonzero(gap))
        moves = blank_moves(fixes[:-1])
        self._set_velocities(moves, steps, steps.same & ~gap & ~steps.too_far, rests)
        return np.concatenate([moves[settled], self._leaving(moves[gap & ~rests])])

    def _set_velocities(self, moves: FixRows, steps: Steps, joined: Flags, rests: Flags) -> None:
        if self._rules.velocity != "told":
            speed_mps = steps.metres / steps.seconds
            # Two fixes in one instant, some metres apart, say nothing about speed.
            known = joined & (speed_mps <= self._rules.limits.speed_mps_max) & (self._rules.velocity == "between")
            moves["east_mps"] = np.where(known, steps.east_m / steps.seconds, np.nan)
            moves["north_mps"] = np.where(known, steps.north_m / steps.seconds, np.nan)
        moves["east_mps"][rests] = moves["north_mps"][rests] = 0.0

    def _leaving(self, moves: FixRows) -> FixRows:
        """That nobody knows any more where these hosts are."""
        gone = moves.copy()
        gone["at_us"] += self._rules.limits.gap_us
        for name in ("x", "y", "east_mps", "north_mps"):
            gone[name] = np.nan
        gone["up"] = self._rules.in_gaps is InGaps.UNKNOWN
        return gone

    def _hold(self, fixes: FixRows, steps: Steps, spared: Flags) -> None:
        last = np.flatnonzero(np.append(~steps.same, True))
        hosts = fixes["host"][last]
        far = np.append(False, steps.too_far)[last]
        self._before[hosts[far]] = fixes[last[far] - 1]
        self._has_before[hosts] = far
        self._held[hosts] = fixes[last]
        self._is_held[hosts] = True
        self._spared[hosts] = spared

    def _make_room(self, hosts: int) -> None:
        more = hosts - len(self._held)
        if more > 0:
            self._held = np.append(self._held, np.zeros(more, FIX))
            self._is_held = np.append(self._is_held, np.zeros(more, np.bool_))
            self._before = np.append(self._before, np.zeros(more, FIX))
            self._has_before = np.append(self._has_before, np.zeros(more, np.bool_))
            self._spared = np.append(self._spared, np.zeros(more, np.bool_))


def pairs(fixes: FixRows) -> Pairs:
    return Pairs(fixes["x"], fixes["y"], np.ones(len(fixes), np.bool_))


def by_host_and_time(fixes: FixRows) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """As lexsort, in a third of the time: fixes come as a few sorted runs, and small numbers are sorted by radix."""
    in_order = np.argsort(fixes["at_us"], kind="stable")
    hosts = fixes["host"][in_order]
    small = hosts.astype(np.uint16) if hosts.max() < SMALL_HOSTS else hosts
    return in_order[np.argsort(small, kind="stable")]


def blank_moves(fixes: FixRows) -> FixRows:
    moves = np.empty(len(fixes), MOVE)
    for name in FIX.names or ():
        moves[name] = fixes[name]
    moves["up"] = True
    return moves


def in_time(moves: FixRows) -> FixRows:
    return moves[np.argsort(moves["at_us"], kind="stable")]
