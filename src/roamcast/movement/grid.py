"""Movement from place to place: a random walk over named cells of a grid, or over any graph of places (M1, R4, R5).

A host stays in each place for its residence time, which is what Rebeca's adaptivity is computed from. It stands at
the place's centre, then goes straight to the centre of a random neighbour; the border is half-way. So that the time
between two borders is exactly the residence time, the rest at the centre is what the ways in and out leave of it.
The same parameters give the `MovementGraph` that brokers need.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from roamcast.model.places import MovementGraph, movement_graph
from roamcast.model.values import Point
from roamcast.movement.legs import Leg, moving, resting, resting_forever, travel_us
from roamcast.movement.params import (
    Model,
    Pair,
    Span,
    bounds_us,
    check_count,
    check_index,
    check_length,
    check_pair,
    check_span,
    check_speed,
    drawn_us,
    point_of,
)

CELLS_MAX = 1_000_000

Place = TypeVar("Place")


class GridWalk(Model, frozen=True, tag="grid"):
    """Cells of `cell_m` by `cell_m`, from (0, 0) on; a step goes to a cell that shares a side, with `corners` also to
    one that shares only a corner (the eight neighbours of M1)."""

    columns: int
    rows: int
    cell_m: float
    residence_s: Span
    speed_mps: float
    corners: bool = False
    names: tuple[str, ...] = ()
    """Of all cells, row by row from the south-west; left empty they are c0r0, c1r0 and so on."""
    start: str | None = None
    """Where every host begins; None: in a random cell."""

    def __post_init__(self) -> None:
        check_count("grid: columns", self.columns)
        check_count("grid: rows", self.rows)
        if self.columns * self.rows > CELLS_MAX:
            raise ValueError(f"grid: {self.columns} by {self.rows} cells; at most {CELLS_MAX} together")
        check_length("grid: cell_m", self.cell_m)
        check_length("grid: the longer side", max(self.columns, self.rows) * self.cell_m)
        step_m = self.cell_m * (math.sqrt(2) if self.corners else 1)
        check_pace("grid", self.residence_s, self.speed_mps, step_m)
        if self.names and len(dict.fromkeys(self.names)) != self.columns * self.rows:
            raise ValueError(
                f"grid: {len(self.names)} names, or some twice or more, for {self.columns * self.rows} cells; "
                "give each its own"
            )
        if "" in self.names:
            raise ValueError("grid: a cell needs a name that is not empty")
        if self.start is not None and self.start not in self._cells():
            raise ValueError(f"grid: start '{self.start}' is not one of its cells")

    def name_of(self, column: int, row: int) -> str:
        if self.names:
            return self.names[row * self.columns + column]
        return f"c{column}r{row}"

    def centre_of(self, column: int, row: int) -> Point:
        return Point((column + 0.5) * self.cell_m, (row + 0.5) * self.cell_m)

    def place_at(self, point: Point) -> str:
        """The cell that holds `point`; of a point outside, the nearest one."""
        column = min(self.columns - 1, max(0, math.floor(point.x / self.cell_m)))
        row = min(self.rows - 1, max(0, math.floor(point.y / self.cell_m)))
        return self.name_of(column, row)

    def graph(self) -> MovementGraph:
        """The movement graph of the grid (R4): which cells are one step apart."""
        return movement_graph(
            {
                self.name_of(column, row): [self.name_of(*near) for near in self._around(column, row)]
                for row in range(self.rows)
                for column in range(self.columns)
            }
        )

    def legs(self, rng: random.Random, index: int, count: int) -> Iterator[Leg]:
        check_index(index, count)
        first = rng.randrange(self.columns * self.rows) if self.start is None else self._cells().index(self.start)
        row, column = divmod(first, self.columns)
        return walk(
            rng,
            (column, row),
            lambda cell: self.centre_of(*cell),
            lambda cell: self._around(*cell),
            self.residence_s,
            self.speed_mps,
        )

    def _cells(self) -> list[str]:
        return [self.name_of(column, row) for row in range(self.rows) for column in range(self.columns)]

    def _around(self, column: int, row: int) -> list[tuple[int, int]]:
        return [
            (column + east, row + north)
            for north in (-1, 0, 1)
            for east in (-1, 0, 1)
            if (east or north)
            and (self.corners or not (east and north))
            and 0 <= column + east < self.columns
            and 0 <= row + north < self.rows
        ]


class PlaceWalk(Model, frozen=True, tag="places"):
    """A walk over named places and the ways between them, which go in both directions: Rebeca's own examples."""

    places: dict[str, Pair]
    """The centre of each place."""
    ways: dict[str, tuple[str, ...]]
    """From each place to those it leads to; the way back need not be given."""
    residence_s: Span
    speed_mps: float
    start: str | None = None
    """Where every host begins; None: in a random place."""

    def __post_init__(self) -> None:
        check_count("places: the number of places", len(self.places))
        for name, pair in self.places.items():
            check_pair(f"places: '{name}'", pair)
        for place, nears in self.ways.items():
            for name in (place, *nears):
                if name not in self.places:
                    raise ValueError(f"places: a way leads from or to '{name}', which is not one of the places")
            for near in nears:
                if self.places[place] == self.places[near]:
                    raise ValueError(f"places: the way from '{place}' to '{near}' has no length")
        if self.start is not None and self.start not in self.places:
            raise ValueError(f"places: start '{self.start}' is not one of the places")
        lengths_m = [
            math.dist(self.places[place], self.places[near]) for place, nears in self.ways.items() for near in nears
        ]
        check_pace("places", self.residence_s, self.speed_mps, max(lengths_m, default=0.0))

    def graph(self) -> MovementGraph:
        return movement_graph({place: self.ways.get(place, ()) for place in self.places})

    def place_at(self, point: Point) -> str:
        """The place whose centre is nearest."""
        return min(self.places, key=lambda name: math.dist(self.places[name], (point.x, point.y)))

    def legs(self, rng: random.Random, index: int, count: int) -> Iterator[Leg]:
        check_index(index, count)
        neighbours = self.graph().neighbours
        first = rng.choice(list(self.places)) if self.start is None else self.start
        return walk(
            rng,
            first,
            lambda name: point_of(self.places[name]),
            lambda name: neighbours[name],
            self.residence_s,
            self.speed_mps,
        )


def walk(
    rng: random.Random,
    first: Place,
    centre_of: Callable[[Place], Point],
    around: Callable[[Place], Sequence[Place]],
    residence_s: Span,
    speed_mps: float,
) -> Iterator[Leg]:
    """The endless random walk from `first`; a place without neighbours is never left."""
    here, now_us, way_in_us = first, 0, 0
    if not around(here):
        yield resting_forever(0, centre_of(here))
        return

    def plan() -> tuple[Place, int]:
        """Where to go next, and how long to rest before."""
        to = rng.choice(around(here))
        way_out_us = travel_us(centre_of(here), centre_of(to), speed_mps) // 2
        return to, drawn_us(rng, residence_s) - way_in_us - way_out_us

    to, rest_us = plan()
    while True:
        if rest_us:
            yield resting(now_us, centre_of(here), rest_us)
            now_us += rest_us
        start, end = centre_of(here), centre_of(to)
        duration_us = travel_us(start, end, speed_mps)
        here, way_in_us = to, duration_us - duration_us // 2
        to, rest_us = plan()
        yield moving(now_us, start, end, speed_mps, pause_us=rest_us)
        now_us += duration_us


def check_pace(what: str, residence_s: Span, speed_mps: float, longest_step_m: float) -> None:
    """A host must be able to come in and go out within the shortest residence."""
    check_span(f"{what}: residence_s", residence_s, least_us=1)
    check_speed(f"{what}: speed_mps", speed_mps)
    shortest_us, _ = bounds_us(residence_s)
    needed_us = math.ceil(longest_step_m / speed_mps * 1e6) + 1
    if needed_us > shortest_us:
        raise ValueError(
            f"{what}: residence_s can be {shortest_us / 1e6:g}, but a step of {longest_step_m:.1f} m at "
            f"{speed_mps} m/s takes {needed_us / 1e6:g} s; give a longer residence or a higher speed"
        )
