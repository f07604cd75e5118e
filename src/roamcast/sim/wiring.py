"""Wiring: the links of a whole group of hosts at once, in a shape.

| shape | links |
|---|---|
| line | each host to the next |
| star | the first host to every other |
| tree | each host to its `branching` children, the first one at the root |
| random-tree | each host to a random one before it; the seed decides which |
| grid | rows of `columns` hosts; each to the next in its row and its column, with `corners` diagonally too (M1) |
"""

from collections.abc import Iterator
from random import Random
from typing import Literal

from msgspec import Struct

from roamcast.sim.links import LinkParams


class Wiring(Struct, frozen=True, forbid_unknown_fields=True):
    of: str
    """The name of a group of hosts."""
    shape: Literal["line", "star", "tree", "random-tree", "grid"]
    delay_ms: float = 5.0
    jitter_ms: float = 0.0
    branching: int = 2
    columns: int = 0
    corners: bool = False

    def __post_init__(self) -> None:
        if not (0 <= self.delay_ms < float("inf") and 0 <= self.jitter_ms < float("inf")):
            raise ValueError("delay_ms and jitter_ms must not be negative")
        if self.branching < 1:
            raise ValueError(f"branching is {self.branching}; give at least 1")
        if self.shape == "grid" and self.columns < 1:
            raise ValueError("a grid needs columns: how many hosts are in a row")

    def links(self, hosts: list[str], rng: Random) -> list[LinkParams]:
        return [
            LinkParams(hosts[one], hosts[other], self.delay_ms, self.jitter_ms)
            for one, other in self._pairs(len(hosts), rng)
        ]

    def _pairs(self, count: int, rng: Random) -> Iterator[tuple[int, int]]:
        for index in range(1, count):
            match self.shape:
                case "line":
                    yield index - 1, index
                case "star":
                    yield 0, index
                case "tree":
                    yield (index - 1) // self.branching, index
                case "random-tree":
                    yield rng.randrange(index), index
                case "grid":
                    yield from self._earlier_in_grid(index)

    def _earlier_in_grid(self, index: int) -> Iterator[tuple[int, int]]:
        row, column = divmod(index, self.columns)
        steps = [(0, -1), (-1, 0), *([(-1, -1), (-1, 1)] if self.corners else [])]
        for down, right in steps:
            if row + down >= 0 and 0 <= column + right < self.columns:
                yield (row + down) * self.columns + column + right, index
