"""Where every host is, exactly, at any time of a run, and who is in range of whom.

Movement is piecewise linear, so a position is one multiplication. For each host two lists are kept for a while: who
cannot but stay in range before they are renewed, and who could come into range or leave it. A query tests the exact
positions of the latter only, which are those near the edge of the range, so its cost does not grow with the number of
hosts that are out of range. Who is inside a box is looked for in a list of where everybody was at the last renewal,
ordered from west to east, with a margin for how far they have come since.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roamcast.model.region import Box
from roamcast.model.values import Point
from roamcast.movement.legs import Leg, Track

RENEWAL_US = 1_000_000
FEW = 200
"""So many hosts are held against each other one by one; of more, a tree finds those that are close."""


class Whereabouts:
    def __init__(self, tracks: Sequence[Track], range_m: float) -> None:
        self.tracks = list(tracks)
        self.range_m = range_m
        self.legs: list[Leg] = [track.leg_at(0) for track in self.tracks]
        count = len(self.tracks)
        # The current leg of each host, spread out for the inner loop: position = origin + velocity × (now - start).
        self._start_us = [0] * count
        self._end_us = [0] * count
        self._x = [0.0] * count
        self._y = [0.0] * count
        self._east = [0.0] * count
        self._north = [0.0] * count
        self._speed = [0.0] * count
        self._present = [True] * count
        self._settled: list[list[int]] = []
        """For each host those who stay in range of it until the next renewal, in ascending order."""
        self._candidates: list[list[int]] = []
        """For each host those who may be in range at one time and not at another."""
        self._renewed_us = 0
        self._renew_at_us = -1
        self._fastest_mps = 0.0
        self._by_x_then: list[int] = []
        """The hosts from west to east, as they were at the last renewal; and where they were, `_xs_then` in this
        order and `_ys_then` by host."""
        self._xs_then: list[float] = []
        self._ys_then: list[float] = []
        for index in range(count):
            self._take(index, self.legs[index])

    def _take(self, index: int, leg: Leg) -> None:
        self.legs[index] = leg
        self._start_us[index] = leg.start_us
        self._end_us[index] = leg.end_us
        self._x[index] = leg.start.x
        self._y[index] = leg.start.y
        self._east[index] = leg.velocity.east
        self._north[index] = leg.velocity.north
        self._speed[index] = leg.velocity.speed
        self._present[index] = leg.present

    def leg_at(self, index: int, now_us: int) -> Leg:
        if now_us >= self._end_us[index]:
            self._take(index, self.tracks[index].leg_at(now_us))
        return self.legs[index]

    def position(self, index: int, now_us: int) -> Point:
        if now_us >= self._end_us[index]:
            self._take(index, self.tracks[index].leg_at(now_us))
        return self.legs[index].position_at(now_us)

    def in_range(self, index: int, now_us: int) -> list[int]:
        """The hosts at most `range_m` from this one that are there at all, in ascending order."""
        if now_us >= self._renew_at_us:
            self._renew(now_us)
        starts, ends, xs, ys = self._start_us, self._end_us, self._x, self._y
        easts, norths, present = self._east, self._north, self._present
        if now_us >= ends[index]:
            self._take(index, self.tracks[index].leg_at(now_us))
        # The same arithmetic as `Leg.position_at` and `Context.position_at`: all three agree to the last bit.
        seconds = (now_us - starts[index]) / 1e6
        x = xs[index] + easts[index] * seconds
        y = ys[index] + norths[index] * seconds
        limit = self.range_m * self.range_m
        settled = self._settled[index]
        found = settled.copy()
        for other in self._candidates[index]:
            if now_us >= ends[other]:
                self._take(other, self.tracks[other].leg_at(now_us))
            seconds = (now_us - starts[other]) / 1e6
            dx = xs[other] + easts[other] * seconds - x
            dy = ys[other] + norths[other] * seconds - y
            if dx * dx + dy * dy <= limit and present[other]:
                found.append(other)
        if len(found) > len(settled):
            found.sort()
        return found

    def within(self, box: Box, now_us: int) -> list[int]:
        """The hosts inside the box, borders included, that are there at all, in ascending order."""
        if now_us >= self._renew_at_us:
            self._renew(now_us)
        low, high = box.low, box.high
        drift_m = self._fastest_mps * (now_us - self._renewed_us) / 1e6 + 1e-6
        first = bisect_left(self._xs_then, low.x - drift_m)
        last = bisect_right(self._xs_then, high.x + drift_m)
        south, north, ys = low.y - drift_m, high.y + drift_m, self._ys_then
        found = []
        for index in sorted([each for each in self._by_x_then[first:last] if south <= ys[each] <= north]):
            here = self.position(index, now_us)
            if low.x <= here.x <= high.x and low.y <= here.y <= high.y and self._present[index]:
                found.append(index)
        return found

    def nobody_until(self, box: Box, now_us: int) -> int:
        """A time before which nobody comes into the box: now, if somebody is near enough for the next renewal."""
        if now_us >= self._renew_at_us:
            self._renew(now_us)
        low, high = box.low, box.high
        drift_m = self._fastest_mps * (self._renew_at_us - self._renewed_us) / 1e6 + 1e-6
        first = bisect_left(self._xs_then, low.x - drift_m)
        last = bisect_right(self._xs_then, high.x + drift_m)
        south, north, ys = low.y - drift_m, high.y + drift_m, self._ys_then
        near = any(south <= ys[each] <= north for each in self._by_x_then[first:last])
        return now_us if near else self._renew_at_us

    def candidates_of(self, index: int) -> list[int]:
        """Whom the last query had to choose from."""
        return self._settled[index] + self._candidates[index]

    def _renew(self, now_us: int) -> None:
        """Who can be in range of whom until the next renewal: nobody goes faster than the fastest leg until then,
        and a jump to somewhere else renews at once."""
        until_us = now_us + RENEWAL_US
        for index, end_us in enumerate(self._end_us):
            if now_us >= end_us:
                self._take(index, self.tracks[index].leg_at(now_us))
        fastest_mps = max(self._speed, default=0.0)
        stays = self._present.copy()
        for index, end_us in enumerate(self._end_us):
            while end_us < until_us:
                leg = self.tracks[index].leg_at(end_us)
                if leg.jumps:
                    until_us = end_us
                    break
                fastest_mps = max(fastest_mps, leg.velocity.speed)
                stays[index] = stays[index] and leg.present
                end_us = leg.end_us
        if fastest_mps == 0.0 and until_us == now_us + RENEWAL_US:
            until_us = max(until_us, min(self._end_us, default=until_us))
        self._fastest_mps, self._renewed_us, self._renew_at_us = fastest_mps, now_us, until_us
        seconds = (now_us - np.array(self._start_us, dtype=np.int64)) / 1e6
        xs = np.array(self._x) + np.array(self._east) * seconds
        ys = np.array(self._y) + np.array(self._north) * seconds
        by_x = np.argsort(xs, kind="stable")
        self._by_x_then, self._xs_then, self._ys_then = by_x.tolist(), xs[by_x].tolist(), ys.tolist()
        self._sort_out(np.column_stack((xs, ys)), np.array(stays, dtype=np.bool_))

    def _sort_out(self, points: NDArray[np.float64], stays: NDArray[np.bool_]) -> None:
        """Tells, for each host, who stays in range from who may come or go, by how far the two can get meanwhile."""
        margin_m = 2 * self._fastest_mps * RENEWAL_US / 1e6 + 1e-6
        hosts, others = close_pairs(points, self.range_m + margin_m)
        apart = points[others] - points[hosts]
        near_m = self.range_m - margin_m
        squares = apart[:, 0] * apart[:, 0] + apart[:, 1] * apart[:, 1]
        settled = (squares <= near_m * near_m) & stays[others] & (near_m > 0)
        self._settled = rows_of(hosts[settled], others[settled], len(points))
        self._candidates = rows_of(hosts[~settled], others[~settled], len(points))

    def hops(self, source: int, now_us: int) -> list[int | None]:
        """Radio hops from `source` to every host by the shortest way; None where there is none."""
        hops: list[int | None] = [None] * len(self.tracks)
        hops[source] = 0
        reached, count = [source], 0
        while reached:
            count += 1
            near = [other for index in reached for other in self.in_range(index, now_us)]
            reached = [other for other in dict.fromkeys(near) if hops[other] is None]
            for other in reached:
                hops[other] = count
        return hops


def close_pairs(points: NDArray[np.float64], reach_m: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """All pairs of two points that are at most so far apart, in ascending order, each of them both ways."""
    if len(points) <= FEW:
        dx = points[:, 0] - points[:, 0, np.newaxis]
        dy = points[:, 1] - points[:, 1, np.newaxis]
        close = dx * dx + dy * dy <= reach_m * reach_m
        np.fill_diagonal(close, val=False)
        one, other = np.nonzero(close)
        return one, other
    # Loading it takes longer than all renewals of a short run of few hosts, which do without.
    from scipy.spatial import cKDTree

    pairs = cKDTree(points).query_pairs(reach_m, output_type="ndarray")
    one = np.concatenate((pairs[:, 0], pairs[:, 1]))
    other = np.concatenate((pairs[:, 1], pairs[:, 0]))
    order = np.argsort(one * len(points) + other)
    return one[order], other[order]


def rows_of(rows: NDArray[np.intp], values: NDArray[np.intp], count: int) -> list[list[int]]:
    """The values of each row, where `rows` is ascending."""
    ends = np.searchsorted(rows, np.arange(count), side="right").tolist()
    flat = values.tolist()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]
