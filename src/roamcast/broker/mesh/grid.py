"""The grid of a mesh: cells, the broker of each, who is next to whom, and the tree for subscriptions (M1, M4).

Brokers are named by their cell (`MeshParams.broker`), so everybody who knows the parameters knows where each one is.
A broker is linked to the brokers of the eight cells around its own, so the number of hops between two cells is the
larger of the differences of their columns and rows.

Subscriptions need an acyclic graph: it is the tree in which the parent of a cell is the neighbour one step nearer to
the middle cell, diagonally as long as both columns and rows differ. Nobody is further from the root than half the
side of the grid, and both ends of a link know without asking whether it belongs to the tree.
"""

import math
from collections.abc import Iterator

from roamcast.broker.mesh.params import MeshParams
from roamcast.model.space import Cell, Space
from roamcast.model.values import Point


class Grid:
    def __init__(self, params: MeshParams, space: Space) -> None:
        self.columns, self.rows, self.cell_m = params.columns, params.rows, params.cell_m
        self.origin = Point(*params.origin)
        self.space = space
        self.root: Cell = (params.columns // 2, params.rows // 2)
        self._prefix = f"{params.broker}-"
        self._cells: dict[str, Cell | None] = {}
        """Whoever was asked for before, up to a bound."""

    def broker(self, cell: Cell) -> str:
        return f"{self._prefix}{cell[1] * self.columns + cell[0] + 1}"

    def cell_of(self, broker: str) -> Cell | None:
        """None for whoever is not a broker of this grid."""
        if broker not in self._cells:
            if len(self._cells) > 2 * self.columns * self.rows:
                self._cells.clear()
            self._cells[broker] = self._read(broker)
        return self._cells[broker]

    def _read(self, broker: str) -> Cell | None:
        number = broker.removeprefix(self._prefix)
        if number == broker or len(number) > 9 or not number.isdecimal():
            return None
        if not 1 <= int(number) <= self.columns * self.rows:
            return None
        row, column = divmod(int(number) - 1, self.columns)
        return column, row

    def brokers(self) -> list[str]:
        return [self.broker((column, row)) for row in range(self.rows) for column in range(self.columns)]

    def cell_at(self, point: Point) -> Cell:
        """Whoever is outside the grid belongs to the cell at its edge that is nearest."""
        return self._inside(*self._grid_units(point))

    def centre(self, cell: Cell) -> Point:
        east_m, north_m = (cell[0] + 0.5) * self.cell_m, (cell[1] + 0.5) * self.cell_m
        return self.space.moved(self.origin, east_m, north_m)

    def neighbours(self, cell: Cell) -> list[Cell]:
        column, row = cell
        return [
            (column + right, row + up)
            for up in (-1, 0, 1)
            for right in (-1, 0, 1)
            if (right or up) and 0 <= column + right < self.columns and 0 <= row + up < self.rows
        ]

    def parent(self, cell: Cell) -> Cell | None:
        if cell == self.root:
            return None
        return cell[0] + sign(self.root[0] - cell[0]), cell[1] + sign(self.root[1] - cell[1])

    def tree_step(self, here: Cell, goal: Cell) -> Cell | None:
        """The next cell on the tree's way from one cell to another."""
        child: Cell | None = goal
        while child is not None:
            above = self.parent(child)
            if above == here:
                return child
            child = above
        return self.parent(here)

    def in_tree(self, one: str, other: str) -> bool:
        """Whether subscriptions travel on the link between two brokers."""
        a, b = self.cell_of(one), self.cell_of(other)
        return a is not None and b is not None and (self.parent(a) == b or self.parent(b) == a)

    def passed(self, start: Point, end: Point) -> Iterator[tuple[Cell, float]]:
        """The cells on the straight way, each with the share of the way after which it is left; 1 for the last.

        Who ends on a border has passed all of the way in one cell, and is then in the other.
        """
        (x, y), (to_x, to_y) = self._grid_units(start), self._grid_units(end)
        crossings = sorted({*crossed(x, to_x, self.columns), *crossed(y, to_y, self.rows)})
        before, cell = 0.0, None
        for share in [*crossings, 1.0]:
            middle = (before + share) / 2
            following = self._inside(x + (to_x - x) * middle, y + (to_y - y) * middle)
            if cell is not None and following != cell:
                yield cell, before
            cell, before = following, share
        if cell is not None:
            yield cell, 1.0
        if self._inside(to_x, to_y) != cell:
            yield self._inside(to_x, to_y), 1.0

    def _grid_units(self, point: Point) -> tuple[float, float]:
        east_m, north_m = self.space.offset_m(self.origin, point)
        return east_m / self.cell_m, north_m / self.cell_m

    def _inside(self, x: float, y: float) -> Cell:
        return (
            min(max(math.floor(x), 0), self.columns - 1),
            min(max(math.floor(y), 0), self.rows - 1),
        )


def hops(one: Cell, other: Cell) -> int:
    return max(abs(one[0] - other[0]), abs(one[1] - other[1]))


def sign(number: int) -> int:
    return (number > 0) - (number < 0)


def crossed(start: float, end: float, lines: int) -> Iterator[float]:
    """At which shares of the way from `start` to `end` a line of the grid is passed; beyond it there is none."""
    low, high = min(start, end), max(start, end)
    for line in range(max(math.floor(low) + 1, 0), min(math.ceil(high), lines + 1)):
        yield (line - start) / (end - start)
