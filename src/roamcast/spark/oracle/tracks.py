"""Where everybody is at any time of a bucket: K(t) of C1, for very many questions at once.

A track is a stretch of a host's way, from `from_us` up to, not including, `until_us`, along which it keeps its
velocity. The tracks of a bucket lie sorted by host and time, so the one that holds at a time is found by bisection,
and the position is computed in the same arithmetic as `Context.position_at`: on a plane the two agree to the last
bit. A host is *present* while it has a track, whether or not that has a position. A state is likewise a stretch of
time in which a host's attributes stay as they are.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from roamcast.model.filter.mask import Flags, Floats, Pairs
from roamcast.model.space import ECCENTRICITY_SQUARED, EQUATOR_RADIUS_M, Plane, Space
from roamcast.spark.oracle.boxes import Boxes, Rows, empty, grown

NOBODY = -1
"""The number of a host that the bucket knows nothing of."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """What holds for a host for a while, sorted by host and time; of one host no two overlap."""

    host: Rows
    from_us: Rows
    until_us: Rows
    start_us: int
    """Of the bucket."""
    key: Rows
    span_us: int

    @classmethod
    def of(cls, host: Rows, from_us: Rows, until_us: Rows, start_us: int, end_us: int) -> "Stretches":
        span_us = end_us - start_us + 1
        key = host * span_us + np.clip(from_us - start_us, 0, span_us - 1)
        return cls(host, from_us, until_us, start_us, key, span_us)

    def at(self, hosts: Rows, times_us: Rows) -> Rows:
        """Which row holds for each host at each time of the bucket; -1 where none does."""
        if not len(self.host):
            return np.full(len(hosts), -1)
        found = np.searchsorted(self.key, hosts * self.span_us + (times_us - self.start_us), "right") - 1
        held = np.maximum(found, 0)
        holds = (found >= 0) & (self.host[held] == hosts) & (times_us < self.until_us[held])
        return np.where(holds, found, -1)


@dataclass(frozen=True, slots=True, eq=False)
class Stands:
    """Where hosts are, one row for each question."""

    present: Flags
    position: Pairs
    velocity: Pairs

    def take(self, rows: Rows) -> "Stands":
        return Stands(self.present[rows], pairs_at(self.position, rows), pairs_at(self.velocity, rows))


@dataclass(frozen=True, slots=True, eq=False)
class Tracks:
    stretches: Stretches
    position: Pairs
    velocity: Pairs
    space: Space

    def at(self, hosts: Rows, times_us: Rows) -> Stands:
        """Where the hosts are; what is asked several times in a row is computed once."""
        first, counts = runs_of(hosts, times_us)
        if len(first) * 2 < len(hosts):
            return self._at(hosts[first], times_us[first]).take(np.repeat(np.arange(len(first)), counts))
        return self._at(hosts, times_us)

    def _at(self, hosts: Rows, times_us: Rows) -> Stands:
        rows = self.stretches.at(hosts, times_us)
        present = rows >= 0
        if not len(self.stretches.host):
            nothing = Pairs(np.zeros(len(hosts)), np.zeros(len(hosts)), present)
            return Stands(present, nothing, nothing)
        held = np.maximum(rows, 0)
        seconds = (times_us - self.stretches.from_us[held]) / 1e6
        east, north = self.velocity.x[held], self.velocity.y[held]
        x, y = moved(self.position.x[held], self.position.y[held], east * seconds, north * seconds, self.space)
        return Stands(
            present,
            Pairs(x, y, present & self.position.valid[held]),
            Pairs(east, north, present & self.velocity.valid[held]),
        )

    def during(self, start_us: int, end_us: int) -> "Tracks":
        """The tracks that reach into a part of the bucket; `end_us` is exclusive."""
        of = self.stretches
        rows = np.flatnonzero((of.from_us < end_us) & (of.until_us > start_us))
        held = Stretches.of(of.host[rows], of.from_us[rows], of.until_us[rows], start_us, end_us)
        return Tracks(held, pairs_at(self.position, rows), pairs_at(self.velocity, rows), self.space)

    def boxes(self, hosts: int) -> Boxes:
        """Around where each of so many hosts is in the bucket; empty for one that is nowhere."""
        found = empty(hosts)
        rows = np.flatnonzero(self.position.valid)
        if not len(rows):
            return found
        each = self.stretch_boxes(rows)
        host = self.stretches.host[rows]
        first = np.flatnonzero(np.r_[True, host[1:] != host[:-1]])
        which = host[first]
        found.west[which] = np.minimum.reduceat(each.west, first)
        found.south[which] = np.minimum.reduceat(each.south, first)
        found.east[which] = np.maximum.reduceat(each.east, first)
        found.north[which] = np.maximum.reduceat(each.north, first)
        return found

    def stretch_boxes(self, rows: Rows) -> Boxes:
        stretches = self.stretches
        end_us = stretches.start_us + stretches.span_us - 1
        x, y = self.position.x[rows], self.position.y[rows]
        east, north = self.velocity.x[rows], self.velocity.y[rows]
        first_s = (np.maximum(stretches.from_us[rows], stretches.start_us) - stretches.from_us[rows]) / 1e6
        last_s = (np.minimum(stretches.until_us[rows], end_us) - stretches.from_us[rows]) / 1e6
        if not isinstance(self.space, Plane):
            # A straight way in metres is a curve in degrees: a box around as far as it may have come is always right.
            return grown(Boxes(x, y, x, y), np.hypot(east, north) * last_s, self.space)
        ends = np.stack([x + east * first_s, x + east * last_s]), np.stack([y + north * first_s, y + north * last_s])
        around = Boxes(ends[0].min(0), ends[1].min(0), ends[0].max(0), ends[1].max(0))
        return grown(around, np.zeros(len(rows)), self.space)

    def anybody(self, times_us: Rows) -> Flags:
        """Whether any host is present at each time."""
        begun = np.searchsorted(np.sort(self.stretches.from_us), times_us, "right")
        over = np.searchsorted(np.sort(self.stretches.until_us), times_us, "right")
        found: Flags = begun > over
        return found


def runs_of(*columns: Rows) -> tuple[Rows, Rows]:
    """Where runs of equal rows begin, and how long they are."""
    if not len(columns[0]):
        return columns[0], columns[0]
    new = np.ones(len(columns[0]), np.bool_)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    first = np.flatnonzero(new)
    return first, np.diff(np.append(first, len(new)))


def pairs_at(pairs: Pairs, rows: Rows) -> Pairs:
    return Pairs(pairs.x[rows], pairs.y[rows], pairs.valid[rows])


def moved(x: Floats, y: Floats, east_m: Floats, north_m: Floats, space: Space) -> tuple[Floats, Floats]:
    """`Space.moved`, point by point."""
    if isinstance(space, Plane):
        return x + east_m, y + north_m
    north_degree, _ = metres_per_degree(y)
    north_degree, _ = metres_per_degree(y + north_m / north_degree / 2)
    latitude = np.maximum(-90.0, np.minimum(90.0, y + north_m / north_degree))
    _, east_degree = metres_per_degree((y + latitude) / 2)
    turned = x + east_m / np.maximum(east_degree, 1e-9)
    return np.where((turned >= -180) & (turned <= 180), turned, (turned + 180) % 360 - 180), latitude


def metres_per_degree(latitude: Any) -> tuple[Any, Any]:
    sine = np.sin(np.radians(latitude))
    squared = 1 - ECCENTRICITY_SQUARED * sine * sine
    normal = EQUATOR_RADIUS_M / np.sqrt(squared)
    meridian = normal * (1 - ECCENTRICITY_SQUARED) / squared
    return np.radians(meridian), np.radians(normal * np.cos(np.radians(latitude)))
