"""Movement along streets: a graph of crossings, and trips between them by the shortest way.

Streets are straight between their two nodes; curves are nodes along the way. A host begins at a random node, rests,
chooses another node evenly, drives there by the shortest path, and again. Each trip has a speed of its own, and no
street is driven faster than its limit. The destination of a leg is that of the whole trip (M2), not the next corner.

Hosts use only the largest part of the map in which every node can be reached from every other (of equally large
ones the one with the first node), so no one-way street can trap them.
"""

import csv
import io
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import Struct

from roamcast.model.values import Point
from roamcast.movement.legs import Leg, moving, resting
from roamcast.movement.params import (
    Model,
    Pair,
    Span,
    check_count,
    check_index,
    check_length,
    check_pair,
    check_span,
    check_speed,
    drawn_us,
    point_of,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

TOWN_SPEED_MPS = 50 / 3.6
NODES_MAX = 100_000
PREDECESSORS_KEPT_MAX = 4_000_000
"""How many entries of predecessor rows, each as long as there are nodes, a graph keeps: 16 MB."""


class BadStreets(ValueError):
    """A street map that cannot be used; the message says where and why."""


class Street(Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "from", "end": "to"}):
    """In a map file: `{"from": "a", "to": "b", "speed_mps": 13.9, "one_way": true}`."""

    start: str
    end: str
    speed_mps: float = TOWN_SPEED_MPS
    one_way: bool = False


class StreetMap(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole map file: `{"nodes": {"a": [0, 0], ...}, "edges": [...]}`."""

    nodes: dict[str, Pair]
    edges: tuple[Street, ...]


class StreetGraph:
    """Nodes, edges and shortest paths; paths are computed for a source when it is first asked for."""

    def __init__(self, nodes: Mapping[str, Pair], streets: Sequence[Street]) -> None:
        if len(nodes) > NODES_MAX:
            raise BadStreets(f"{len(nodes)} nodes; at most {NODES_MAX}")
        for name, pair in nodes.items():
            try:
                check_pair(f"node '{name}'", pair)
            except ValueError as error:
                raise BadStreets(str(error)) from None
        self.names = tuple(nodes)
        self.points = tuple(point_of(pair) for pair in nodes.values())
        self.speed_limits_mps = directed(self.names, self.points, streets)
        self._lengths = lengths_of(self.points, list(self.speed_limits_mps))
        self.reachable = largest_part(self._lengths)
        self._predecessors: dict[int, np.ndarray[tuple[int], np.dtype[np.int32]]] = {}
        self._sources_max = max(1, PREDECESSORS_KEPT_MAX // len(nodes))

    def path(self, source: int, target: int) -> list[int]:
        """The nodes of the shortest path, both ends included."""
        row = self._predecessors_of(source)
        backwards = [target]
        while backwards[-1] != source:
            before = int(row[backwards[-1]])
            if before < 0:
                raise BadStreets(f"no way leads from '{self.names[source]}' to '{self.names[target]}'")
            backwards.append(before)
        return backwards[::-1]

    def _predecessors_of(self, source: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        known = self._predecessors.get(source)
        if known is None:
            from scipy.sparse.csgraph import dijkstra

            _, known = dijkstra(self._lengths, indices=source, return_predecessors=True)
            if len(self._predecessors) >= self._sources_max:
                del self._predecessors[next(iter(self._predecessors))]
            self._predecessors[source] = known
        return known


class Streets(Model, frozen=True, tag="streets"):
    """Trips on the map in the file `map`, or on a rectangular pattern of `columns` by `rows` streets."""

    speed_min_mps: float
    speed_max_mps: float
    map: str | None = None
    columns: int = 0
    rows: int = 0
    block_m: float = 100.0
    pause_s: Span = 0.0

    def __post_init__(self) -> None:
        check_speed("streets: speed_min_mps to speed_max_mps", (self.speed_min_mps, self.speed_max_mps))
        check_span("streets: pause_s", self.pause_s)
        if (self.map is None) == (self.columns == 0 and self.rows == 0):
            raise ValueError("streets: give either a map file or columns and rows, not both")
        if self.map is None:
            check_pattern(self.columns, self.rows, self.block_m)

    def graph(self) -> StreetGraph:
        """The same object for the same parameters, as long as the map file does not change."""
        if self.map is None:
            return manhattan(self.columns, self.rows, self.block_m)
        path = Path(self.map)
        return _loaded(path, path.stat().st_mtime_ns if path.exists() else 0)

    def legs(self, rng: random.Random, index: int, count: int) -> Iterator[Leg]:
        check_index(index, count)
        return self._trips(self.graph(), rng)

    def _trips(self, graph: StreetGraph, rng: random.Random) -> Iterator[Leg]:
        now_us = 0
        here = rng.choice(graph.reachable)
        pause_us = drawn_us(rng, self.pause_s)
        while True:
            if pause_us:
                yield resting(now_us, graph.points[here], pause_us)
                now_us += pause_us
            to = here
            while to == here:
                to = rng.choice(graph.reachable)
            own_mps = rng.uniform(self.speed_min_mps, self.speed_max_mps)
            pause_us = drawn_us(rng, self.pause_s)
            for a, b in pairwise(graph.path(here, to)):
                speed_mps = min(own_mps, graph.speed_limits_mps[a, b])
                leg = moving(now_us, graph.points[a], graph.points[b], speed_mps, graph.points[to], pause_us)
                yield leg
                now_us = leg.end_us
            here = to


@lru_cache(maxsize=8)
def manhattan(columns: int, rows: int, block_m: float, speed_mps: float = TOWN_SPEED_MPS) -> StreetGraph:
    """`columns` streets north to south crossing `rows` streets east to west, `block_m` apart, all both ways."""
    check_pattern(columns, rows, block_m)
    check_speed("streets: speed_mps", speed_mps)
    nodes = {f"c{c}r{r}": (c * block_m, r * block_m) for r in range(rows) for c in range(columns)}
    eastward = [Street(f"c{c}r{r}", f"c{c + 1}r{r}", speed_mps) for r in range(rows) for c in range(columns - 1)]
    northward = [Street(f"c{c}r{r}", f"c{c}r{r + 1}", speed_mps) for r in range(rows - 1) for c in range(columns)]
    return StreetGraph(nodes, eastward + northward)


def load_streets(path: Path) -> StreetGraph:
    """A map from `.json` (see `StreetMap`) or `.csv`.

    A CSV map has no header; its rows are `node,NAME,X,Y` and `edge,FROM,TO[,SPEED_MPS[,one-way]]`, in any order.
    """
    try:
        content = path.read_bytes()
        if path.suffix.lower() == ".json":
            drawn = msgspec.json.decode(content, type=StreetMap)
        elif path.suffix.lower() == ".csv":
            drawn = map_from_rows(content.decode("utf-8-sig"))
        else:
            raise BadStreets("a street map is a .json or a .csv file")
        return StreetGraph(drawn.nodes, drawn.edges)
    except OSError as error:
        raise BadStreets(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, msgspec.MsgspecError, csv.Error) as error:
        raise BadStreets(f"{path}: {error}") from error


@lru_cache(maxsize=8)
def _loaded(path: Path, modified_ns: int) -> StreetGraph:  # noqa: ARG001 - a changed file is another entry
    return load_streets(path)


def map_from_rows(text: str) -> StreetMap:
    nodes: dict[str, Pair] = {}
    edges: list[Street] = []
    for line, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        match [cell.strip() for cell in row]:
            case []:
                continue
            case ["node", name, x, y]:
                if name in nodes:
                    raise BadStreets(f"line {line}: node '{name}' is given twice")
                nodes[name] = (number(x, line, "x"), number(y, line, "y"))
            case ["edge", start, end]:
                edges.append(Street(start, end))
            case ["edge", start, end, speed]:
                edges.append(Street(start, end, number(speed, line, "speed_mps")))
            case ["edge", start, end, speed, "one-way"]:
                edges.append(Street(start, end, number(speed, line, "speed_mps"), one_way=True))
            case _:
                raise BadStreets(f"line {line}: neither node,NAME,X,Y nor edge,FROM,TO[,SPEED_MPS[,one-way]]")
    return StreetMap(nodes, tuple(edges))


def number(text: str, line: int, field: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadStreets(f"line {line}, field '{field}': '{text}' is not a number") from None


def directed(
    names: Sequence[str], points: Sequence[Point], streets: Sequence[Street]
) -> dict[tuple[int, int], float]:
    """The speed limit of every street in every direction in which it can be driven."""
    numbers = {name: number for number, name in enumerate(names)}
    limits_mps: dict[tuple[int, int], float] = {}
    for street in streets:
        for name in (street.start, street.end):
            if name not in numbers:
                raise BadStreets(f"edge '{street.start}' to '{street.end}': no node is called '{name}'")
        try:
            check_speed(f"edge '{street.start}' to '{street.end}': speed_mps", street.speed_mps)
        except ValueError as error:
            raise BadStreets(str(error)) from None
        a, b = numbers[street.start], numbers[street.end]
        if points[a] == points[b]:
            raise BadStreets(f"edge '{street.start}' to '{street.end}' has no length")
        for way in [(a, b)] if street.one_way else [(a, b), (b, a)]:
            if way in limits_mps:
                raise BadStreets(f"edge '{names[way[0]]}' to '{names[way[1]]}' is given twice")
            limits_mps[way] = street.speed_mps
    return limits_mps


def lengths_of(points: Sequence[Point], ways: Sequence[tuple[int, int]]) -> "csr_array":
    # Loaded when somebody moves on streets, since it takes a while and most scenarios have none.
    from scipy.sparse import csr_array

    if not ways:
        raise BadStreets("a street map needs at least one edge")
    xy = np.array([(point.x, point.y) for point in points])
    ends = np.array(ways)
    offsets = xy[ends[:, 1]] - xy[ends[:, 0]]
    shape = (len(points), len(points))
    return csr_array((np.hypot(offsets[:, 0], offsets[:, 1]), (ends[:, 0], ends[:, 1])), shape=shape)


def largest_part(lengths: "csr_array") -> tuple[int, ...]:
    from scipy.sparse.csgraph import connected_components

    _, labels = connected_components(lengths, directed=True, connection="strong")
    sizes = np.bincount(labels)
    first = int(np.argmax(sizes[labels]))
    members = tuple(int(node) for node in np.flatnonzero(labels == labels[first]))
    if len(members) < 2:
        raise BadStreets("no two nodes of the street map can be reached from each other")
    return members


def check_pattern(columns: int, rows: int, block_m: float) -> None:
    check_count("streets: columns", columns)
    check_count("streets: rows", rows)
    check_length("streets: block_m", block_m)
    if not 2 <= columns * rows <= NODES_MAX:
        raise ValueError(f"streets: {columns} by {rows} streets have {columns * rows} crossings; 2 to {NODES_MAX}")
