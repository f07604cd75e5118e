"""Where every host is, exactly, at any time of a run, and who is in range of whom.

Movement is piecewise linear, so a position is one multiplication. For each host a list of candidates is kept for a
while: everybody who could come into range before the list is renewed. A query tests the candidates' exact positions
only, so its cost does not grow with the number of hosts that are out of range. Who is inside a box is found in the
same way, in a tree of where everybody was at the last renewal, with a margin for how far they have come since.
"""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from roamcast.model.region import Box
from roamcast.model.values import Point
from roamcast.sim.mobility.legs import Leg, Track

RENEWAL_US = 1_000_000


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
        self._present = [True] * count
        self._candidates: list[list[int]] = []
        self._renewed_us = 0
        self._renew_at_us = -1
        self._fastest_mps = 0.0
        self._tree = cKDTree(np.empty((0, 2)))
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
        found = []
        for other in self._candidates[index]:
            if now_us >= ends[other]:
                self._take(other, self.tracks[other].leg_at(now_us))
            seconds = (now_us - starts[other]) / 1e6
            dx = xs[other] + easts[other] * seconds - x
            dy = ys[other] + norths[other] * seconds - y
            if dx * dx + dy * dy <= limit and present[other]:
                found.append(other)
        return found

    def within(self, box: Box, now_us: int) -> list[int]:
        """The hosts inside the box, borders included, that are there at all, in ascending order."""
        if now_us >= self._renew_at_us:
            self._renew(now_us)
        low, high = box.low, box.high
        drift_m = self._fastest_mps * (now_us - self._renewed_us) / 1e6 + 1e-6
        reach_m = max(high.x - low.x, high.y - low.y) / 2 + drift_m
        centre = ((low.x + high.x) / 2, (low.y + high.y) / 2)
        found = []
        # In this norm a ball is a square, which holds the box.
        for index in self._tree.query_ball_point(centre, reach_m * (1 + 1e-9), p=np.inf, return_sorted=True):
            here = self.position(index, now_us)
            if low.x <= here.x <= high.x and low.y <= here.y <= high.y and self._present[index]:
                found.append(index)
        return found

    def candidates_of(self, index: int) -> list[int]:
        """Whom the last query had to look at."""
        return self._candidates[index]

    def _renew(self, now_us: int) -> None:
        """Who can be in range of whom until the next renewal: nobody goes faster than the fastest leg until then,
        and a jump to somewhere else renews at once."""
        count = len(self.tracks)
        until_us = now_us + RENEWAL_US
        fastest_mps = 0.0
        for index in range(count):
            leg = self.leg_at(index, now_us)
            fastest_mps = max(fastest_mps, leg.velocity.speed)
            while leg.end_us < until_us:
                leg = self.tracks[index].leg_at(leg.end_us)
                if leg.jumps:
                    until_us = leg.start_us
                    break
                fastest_mps = max(fastest_mps, leg.velocity.speed)
        points = np.array([self._exact(index, now_us) for index in range(count)]).reshape(-1, 2)
        reach_m = self.range_m + 2 * fastest_mps * RENEWAL_US / 1e6 + 1e-6
        self._tree = cKDTree(points)
        self._fastest_mps = fastest_mps
        self._renewed_us = now_us
        found = self._tree.query_ball_point(points, reach_m, return_sorted=True)
        self._candidates = [[other for other in each if other != index] for index, each in enumerate(found)]
        if fastest_mps == 0.0 and until_us == now_us + RENEWAL_US:
            until_us = max(until_us, min((leg.end_us for leg in self.legs), default=until_us))
        self._renew_at_us = until_us

    def _exact(self, index: int, now_us: int) -> tuple[float, float]:
        point = self.position(index, now_us)
        return point.x, point.y

    def hops(self, source: int, now_us: int) -> list[int | None]:
        """Radio hops from `source` to every host by the shortest way; None where there is none."""
        count = len(self.tracks)
        rows: list[int] = []
        columns: list[int] = []
        for index in range(count):
            near = self.in_range(index, now_us)
            rows.extend([index] * len(near))
            columns.extend(near)
        graph = csr_array((np.ones(len(rows)), (rows, columns)), shape=(count, count))
        distances = dijkstra(graph, unweighted=True, indices=source)
        return [None if np.isinf(each) else int(each) for each in distances]
