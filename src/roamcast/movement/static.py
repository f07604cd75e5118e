"""Hosts that stay where they are, and the ways of placing them: at given points, at random, on a grid, on a line."""

import math
import random
from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from roamcast.model.values import Point
from roamcast.movement.legs import Leg, resting_forever
from roamcast.movement.params import (
    Model,
    Pair,
    check_count,
    check_index,
    check_length,
    check_pair,
    point_of,
)

ORIGIN: Pair = (0.0, 0.0)


class Placement(Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """Base of all placements: `point(rng, index, count)` is where host number `index` of `count` stands."""


class At(Placement, frozen=True, tag="at"):
    """One given point for each host, or one for all of them."""

    points: tuple[Pair, ...]

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("placement at points: give at least one point")
        for pair in self.points:
            check_pair("placement at points: a point", pair)

    def point(self, rng: random.Random, index: int, count: int) -> Point:
        if len(self.points) == 1:
            return point_of(self.points[0])
        if count > len(self.points):
            raise ValueError(f"placement at points: {len(self.points)} points for {count} hosts; give one for each")
        return point_of(self.points[index])


class Uniform(Placement, frozen=True, tag="uniform"):
    """Anywhere in the area, evenly."""

    width_m: float
    height_m: float
    origin: Pair = ORIGIN

    def __post_init__(self) -> None:
        check_area("uniform placement", self.width_m, self.height_m, self.origin)

    def point(self, rng: random.Random, index: int, count: int) -> Point:
        return Point(
            self.origin[0] + rng.uniform(0.0, self.width_m), self.origin[1] + rng.uniform(0.0, self.height_m)
        )


class Lattice(Placement, frozen=True, tag="grid"):
    """The centres of a regular grid of cells over the area, row by row from the south-west.

    With `columns` and `rows` left at 0, the cells are made as square as they can be while every host has one.
    """

    width_m: float
    height_m: float
    columns: int = 0
    rows: int = 0
    origin: Pair = ORIGIN

    def __post_init__(self) -> None:
        check_area("grid placement", self.width_m, self.height_m, self.origin)
        if (self.columns, self.rows) != (0, 0):
            check_count("grid placement: columns", self.columns)
            check_count("grid placement: rows", self.rows)

    def point(self, rng: random.Random, index: int, count: int) -> Point:
        columns, rows = self.columns, self.rows
        if columns == 0:
            columns = min(count, max(1, math.ceil(math.sqrt(count * self.width_m / self.height_m))))
            rows = math.ceil(count / columns)
        if columns * rows < count:
            raise ValueError(f"grid placement: {columns} by {rows} cells are too few for {count} hosts")
        row, column = divmod(index, columns)
        return Point(
            self.origin[0] + (column + 0.5) * self.width_m / columns,
            self.origin[1] + (row + 0.5) * self.height_m / rows,
        )


class Line(Placement, frozen=True, tag="line"):
    """Evenly from one point to another, the first and last host at the ends."""

    start: Pair
    end: Pair

    def __post_init__(self) -> None:
        check_pair("line placement: start", self.start)
        check_pair("line placement: end", self.end)

    def point(self, rng: random.Random, index: int, count: int) -> Point:
        share = index / max(1, count - 1)
        return Point(
            self.start[0] + (self.end[0] - self.start[0]) * share,
            self.start[1] + (self.end[1] - self.start[1]) * share,
        )


AnyPlacement: TypeAlias = At | Uniform | Lattice | Line


class Static(Model, frozen=True, tag="static"):
    """Rests for ever where its placement puts it."""

    placement: AnyPlacement

    @classmethod
    def at(cls, *points: Point) -> "Static":
        """Hosts at these points, or all at one."""
        return cls(At(tuple((point.x, point.y) for point in points)))

    def legs(self, rng: random.Random, index: int, count: int) -> Iterator[Leg]:
        check_index(index, count)
        return iter((resting_forever(0, self.placement.point(rng, index, count)),))


def check_area(what: str, width_m: float, height_m: float, origin: Pair) -> None:
    check_length(f"{what}: width_m", width_m)
    check_length(f"{what}: height_m", height_m)
    check_pair(f"{what}: origin", origin)
