"""Moves against very many fences: which a move may matter to, by the index, and what the definition makes of those.

Fences lie on a square that is larger the more they are, half of them in hot spots: circles of 20 to 200 m, and
quadrilaterals as large; hosts drive in the same spots, at 15 m/s, and report once a second. A move is looked up
4,096 at a time (`touched_all`) and one at a time (`touched`, as a broker does); then the definition judges what was
found, which is nearly always a transition. All figures are per CPU second of this process: the median of seven
slices. Bytes are those of the index's columns, names, and what they keep in reserve.

Beside it, where their programs are in PATH, with 10⁵ fences and the same moves (`fence_peers.py`): Redis searches for
the fences around each new place, and who entered or left is still to be found out; Tile38 has a channel for each
fence, and tells it. Both are C or Go behind a socket, and only their own CPU time counts.

`python -m bench fences` takes 10⁵ and 10⁶; `python -m bench.fences 1000` as many as it is told.
"""

import math
import sys
import time
from statistics import median

import numpy as np

from bench import progress
from bench.fence_peers import RedisGeo, Tile38
from bench.match import Doubles
from roamcast.matching.fences import FenceIndex
from roamcast.model.fence import BEGIN, Fence, FenceRule, Fix, State, advance
from roamcast.model.region import Circle, Polygon
from roamcast.model.space import Plane
from roamcast.model.values import Point

TAKES = "3 minutes"
SCALES = (100_000, 1_000_000)
SPACING_M = 316.0
"""The side of the square that each has for itself, on average: 100,000 fences lie on 100 km × 100 km."""
FENCES_PER_SPOT = 2_500
SPEED_MPS = 15.0
BATCH = 4_096
PEER_MOVES = 40_000
SLICES = 7
PUT_AT_ONCE = 20_000
RULE = FenceRule(hysteresis_m=0.0)


class Town:
    def __init__(self, rng: np.random.Generator, fences: int) -> None:
        self.rng = rng
        self.side_m = SPACING_M * math.sqrt(fences)
        self.spots = rng.uniform(0, self.side_m, (max(1, fences // FENCES_PER_SPOT), 2))

    def places(self, count: int) -> Doubles:
        spots = self.spots[self.rng.integers(0, len(self.spots), count // 2)]
        near = spots + self.rng.normal(0, 3_000, (count // 2, 2))
        return np.concatenate((near, self.rng.uniform(0, self.side_m, (count - len(near), 2))))

    def fences(self, first: int, count: int) -> list[Fence]:
        sizes = self.rng.uniform(20, 200, count).tolist()
        return [
            Fence(f"fence-{first + number}", region(x, y, size, number), RULE)
            for number, ((x, y), size) in enumerate(zip(self.places(count).tolist(), sizes, strict=True))
        ]

    def moves(self, count: int) -> Doubles:
        start, heading = self.places(count), self.rng.uniform(0, math.tau, count)
        self.rng.shuffle(start)
        return np.concatenate((start, start + SPEED_MPS * np.stack((np.cos(heading), np.sin(heading)), 1)), 1)


def region(x: float, y: float, size: float, number: int) -> Circle | Polygon:
    if number % 2:
        return Circle(Point(x, y), size)
    corners = ((-1.0, -0.8), (0.9, -1.0), (1.0, 0.7), (-0.7, 1.0))
    return Polygon(tuple(Point(x + size * east, y + size * north) for east, north in corners))


def rate(index: FenceIndex, ways: Doubles, judged: bool) -> float:
    """Moves a CPU second."""
    rates: list[float] = []
    for part in np.array_split(ways, SLICES):
        began = time.process_time()
        for first in range(0, len(part), BATCH):
            batch = part[first : first + BATCH]
            which, found = index.touched_all(*batch.T)
            if judged:
                judge(index, batch, which.tolist(), found.tolist())
        rates.append(len(part) / (time.process_time() - began))
    return median(rates)


def judge(index: FenceIndex, ways: Doubles, which: list[int], found: list[int]) -> None:
    for way, number in zip(which, found, strict=True):
        fence = index.at(number)
        from_x, from_y, to_x, to_y = ways[way].tolist()
        state = State(Fix(0, Point(from_x, from_y)), BEGIN.stay)
        advance(fence, state, Fix(1_000_000, Point(to_x, to_y)), index.space)


def rate_alone(index: FenceIndex, ways: Doubles) -> float:
    points = [(Point(each[0], each[1]), Point(each[2], each[3])) for each in ways.tolist()]
    began = time.process_time()
    for start, end in points:
        index.touched(start, end)
    return len(points) / (time.process_time() - began)


def measure(count: int) -> dict[str, float]:
    town = Town(np.random.default_rng(1), count)
    index = FenceIndex(Plane())
    index.warm_up()
    put_s = 0.0
    for first in range(0, count, PUT_AT_ONCE):
        fences = town.fences(first, min(PUT_AT_ONCE, count - first))
        began = time.process_time()
        index.put_all(fences)
        put_s += time.process_time() - began
    ways = town.moves(400_000)
    which, _ = index.touched_all(*ways.T)
    return {
        f"moves_per_s_{count}": rate(index, ways, False),
        f"moves_judged_per_s_{count}": rate(index, ways, True),
        f"moves_alone_per_s_{count}": rate_alone(index, ways[:20_000]),
        f"judged_per_move_{count}": len(which) / len(ways),
        f"bytes_per_fence_{count}": index.nbytes / count,
        f"put_s_{count}": put_s,
    }


def peers(count: int) -> dict[str, float]:
    """The same fences and moves at Redis and Tile38."""
    town = Town(np.random.default_rng(1), count)
    fences, ways = town.fences(0, count), town.moves(PEER_MOVES)
    figures: dict[str, float] = {}
    for peer in (RedisGeo, Tile38):
        if why := peer.why_not():
            progress.skipped(peer.__name__, why)
        else:
            figures |= {f"{name}_{count}": value for name, value in peer().measure(fences, ways).items()}
    return figures


def main(scales: tuple[int, ...] = SCALES) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, value in peers(min(scales)).items():
        figures[name] = value
        print(f"{name:32} {value:14,.3f}", flush=True)
    for count in scales:
        found = measure(count)
        figures |= found
        progress.note(found)
        for name, value in found.items():
            print(f"{name:32} {value:14,.3f}", flush=True)
    return figures


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or SCALES)
