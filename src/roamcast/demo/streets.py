"""The streets of the demo's town: a graph to find ways in, and journeys along them.

The town is one GeoJSON file (`helsinki.json.gz`, © OpenStreetMap contributors, ODbL; `tools/make_town.py` makes it).
Consecutive corners of a road or path are an edge, and lines meet where they have a corner in common. A `Network` is
the roads, for wheels, or the paths, for feet. A `Journey` is somebody on the way along them: from route to route,
each to a corner that its generator draws, as fast as the street allows.
"""

import gzip
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import pairwise
from random import Random
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from roamcast.model.values import Point

FILE = "helsinki.json.gz"
WALK_KMH = 5.0
EARTH_DEGREE_M = 111_320.0
NO_NODE = -9_999
"""What scipy says of a node that nothing leads to."""

Kind: TypeAlias = Literal["road", "path", "building", "light", "parking"]


class Town(Struct, frozen=True):
    """What the file says."""

    attribution: str
    licence: str
    features: tuple[dict[str, Any], ...]

    def lines(self, kind: Kind) -> Iterator[tuple[list[Point], Mapping[str, Any]]]:
        for each in self.features:
            if each["properties"]["kind"] == kind:
                yield [Point(*corner) for corner in each["geometry"]["coordinates"]], each["properties"]

    def points(self, kind: Kind) -> list[Point]:
        return [
            Point(*each["geometry"]["coordinates"]) for each in self.features if each["properties"]["kind"] == kind
        ]

    def map_json(self) -> bytes:
        """Its lines alone, as a map draws them."""
        lines = [each for each in self.features if each["geometry"]["type"] == "LineString"]
        return msgspec.json.encode({"type": "FeatureCollection", "attribution": self.attribution, "features": lines})


@cache
def load_town() -> Town:
    packed = files("roamcast.demo").joinpath(FILE).read_bytes()
    return msgspec.json.decode(gzip.decompress(packed), type=Town)


def metres_between(one: Point, other: Point) -> float:
    """Within a town the Earth is flat."""
    east = (other.x - one.x) * math.cos(math.radians((one.y + other.y) / 2))
    return math.hypot(east, other.y - one.y) * EARTH_DEGREE_M


class Stretch(Struct, frozen=True):
    """From one corner to the next."""

    length_m: float
    speed_mps: float
    street: str


class Network:
    """Corners by number, and how one gets from one to another."""

    def __init__(self, lines: Iterable[tuple[list[Point], Mapping[str, Any]]], default_kmh: float) -> None:
        self.corners: list[Point] = []
        self.stretches: dict[tuple[int, int], Stretch] = {}
        numbers: dict[Point, int] = {}
        for line, said in lines:
            speed_mps = said.get("kmh", default_kmh) / 3.6
            for one, other in pairwise(line):
                ends = [self._number(each, numbers) for each in (one, other)]
                stretch = Stretch(metres_between(one, other), speed_mps, said.get("name", ""))
                way = said.get("oneway", 0)
                if way >= 0:
                    self.stretches[ends[0], ends[1]] = stretch
                if way <= 0:
                    self.stretches[ends[1], ends[0]] = stretch
        seconds = [max(0.01, each.length_m / each.speed_mps) for each in self.stretches.values()]
        ends_of = np.array(list(self.stretches), dtype=np.int64)
        size = len(self.corners)
        self._seconds = csr_matrix((seconds, (ends_of[:, 0], ends_of[:, 1])), shape=(size, size))

    def _number(self, corner: Point, numbers: dict[Point, int]) -> int:
        if corner not in numbers:
            numbers[corner] = len(self.corners)
            self.corners.append(corner)
        return numbers[corner]

    def nearest(self, to: Point) -> int:
        return min(range(len(self.corners)), key=lambda each: metres_between(self.corners[each], to))

    def route(self, start: int, end: int) -> list[int]:
        """The quickest way, as corners from `start` to `end`; only `start` if nothing leads there."""
        _, before = dijkstra(self._seconds, indices=start, return_predecessors=True)
        way = [end]
        while way[-1] != start:
            previous = int(before[way[-1]])
            if previous == NO_NODE:
                return [start]
            way.append(previous)
        return way[::-1]


@cache
def roads() -> Network:
    return Network(load_town().lines("road"), 30.0)


@cache
def paths() -> Network:
    return Network(load_town().lines("path"), WALK_KMH)


class Journey:
    """Somebody who goes on and on. The same network and generator give the same journey."""

    def __init__(self, network: Network, generator: Random, stops: tuple[int, ...] = ()) -> None:
        """`stops` are where it goes round and round; without any, every destination is drawn."""
        self.network = network
        self._generator = generator
        self._stops = stops
        self._leg = 0
        start = stops[0] if stops else generator.randrange(len(network.corners))
        self.way = self._next_way(start)
        self._at = 0
        self._along_m = 0.0

    @property
    def stretch(self) -> Stretch:
        return self.network.stretches[self.way[self._at], self.way[self._at + 1]]

    @property
    def position(self) -> Point:
        one, other = (self.network.corners[each] for each in self.way[self._at : self._at + 2])
        part = min(1.0, self._along_m / self.stretch.length_m) if self.stretch.length_m else 0.0
        return Point(one.x + (other.x - one.x) * part, one.y + (other.y - one.y) * part)

    @property
    def ahead(self) -> list[int]:
        """The corners that it still passes on this way."""
        return self.way[self._at + 1 :]

    def go(self, seconds: float) -> None:
        while seconds > 0:
            stretch = self.stretch
            left_s = (stretch.length_m - self._along_m) / stretch.speed_mps
            if seconds < left_s:
                self._along_m += seconds * stretch.speed_mps
                return
            seconds -= max(left_s, 0.0)
            self._at += 1
            self._along_m = 0.0
            if self._at + 1 >= len(self.way):
                self.way, self._at = self._next_way(self.way[-1]), 0

    def _next_way(self, start: int) -> list[int]:
        while True:
            if self._stops:
                self._leg = (self._leg + 1) % len(self._stops)
                end = self._stops[self._leg]
            else:
                end = self._generator.randrange(len(self.network.corners))
            way = self.network.route(start, end)
            if len(way) > 1:
                return way
