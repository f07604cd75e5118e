"""The grid of a mesh, its tree, and ways through it (M1, M4)."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.mesh.grid import Grid, hops
from roamcast.broker.mesh.params import MeshParams
from roamcast.model.space import Cell, Earth, Plane
from roamcast.model.values import Point
from tests.effort import examples

SIDES = st.integers(1, 9)


def grid_of(columns: int, rows: int) -> Grid:
    return Grid(MeshParams(columns=columns, rows=rows), Plane())


def cells(grid: Grid) -> list[Cell]:
    return [(column, row) for row in range(grid.rows) for column in range(grid.columns)]


@examples(40)
@given(SIDES, SIDES)
def test_m1_every_cell_has_one_broker_and_every_broker_a_cell(columns: int, rows: int) -> None:
    grid = grid_of(columns, rows)
    names = [grid.broker(cell) for cell in cells(grid)]
    assert names == grid.brokers() == [f"broker-{number}" for number in range(1, columns * rows + 1)]
    assert [grid.cell_of(name) for name in names] == cells(grid)
    assert [grid.cell_at(grid.centre(cell)) for cell in cells(grid)] == cells(grid)


@pytest.mark.parametrize("name", ["broker-0", "broker-10", "broker", "broker-x", "C1", "brokers-1", "", "broker--1"])
def test_who_is_not_a_broker_has_no_cell(name: str) -> None:
    assert grid_of(3, 3).cell_of(name) is None


def test_m1_neighbours_share_a_side_or_a_corner() -> None:
    grid = grid_of(5, 4)
    for cell in cells(grid):
        assert grid.neighbours(cell) == [other for other in cells(grid) if hops(cell, other) == 1]
    assert len(grid.neighbours((2, 2))) == 8


@examples(40)
@given(SIDES, SIDES)
def test_m4_the_links_for_subscriptions_are_a_tree_over_all_brokers(columns: int, rows: int) -> None:
    grid = grid_of(columns, rows)
    links = [
        (one, other)
        for one in cells(grid)
        for other in grid.neighbours(one)
        if one < other and grid.in_tree(grid.broker(one), grid.broker(other))
    ]
    assert len(links) == columns * rows - 1
    reached, edge = {grid.root}, [grid.root]
    while edge:
        here = edge.pop()
        for one, other in links:
            for near, far in ((one, other), (other, one)):
                if near == here and far not in reached:
                    reached.add(far)
                    edge.append(far)
    assert reached == set(cells(grid))


def test_m4_nobody_is_further_from_the_root_than_half_the_side() -> None:
    grid = grid_of(9, 9)
    for cell in cells(grid):
        depth, here = 0, grid.parent(cell)
        while here is not None:
            depth, here = depth + 1, grid.parent(here)
        assert depth == hops(cell, grid.root) <= 4


COORDINATES = st.floats(-100, 1_600)


@examples(200)
@given(COORDINATES, COORDINATES, COORDINATES, COORDINATES)
def test_m5_a_way_passes_the_cells_that_its_points_are_in(x: float, y: float, to_x: float, to_y: float) -> None:
    grid = grid_of(6, 6)
    start, end = Point(x, y), Point(to_x, to_y)
    passed = list(grid.passed(start, end))
    shares = [share for _, share in passed]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert passed[-1][0] == grid.cell_at(end)
    assert all(hops(one, other) == 1 for (one, _), (other, _) in itertools.pairwise(passed))
    for step in range(1, 40):
        at = step / 40
        if min(abs(at - share) for share in shares) < 1e-9:
            continue
        here = Point(x + (to_x - x) * at, y + (to_y - y) * at)
        assert grid.cell_at(here) == next(cell for cell, share in passed if at < share)


def test_a_way_to_where_one_is_passes_one_cell() -> None:
    assert list(grid_of(3, 3).passed(Point(300, 10), Point(300, 10))) == [((1, 0), 1.0)]


def test_a_grid_on_earth_has_cells_of_the_same_size() -> None:
    grid = Grid(MeshParams(columns=9, rows=9, origin=(24.93, 60.16)), Earth())
    assert [grid.cell_at(grid.centre((column, 4))) for column in range(9)] == [(column, 4) for column in range(9)]
    assert math.isclose(Earth().distance_m(grid.centre((3, 4)), grid.centre((4, 4))), 250, rel_tol=0.01)


@pytest.mark.parametrize("wrong", [{"columns": 0}, {"cell_m": -1.0}, {"broker": ""}, {"report_s": math.inf}])
def test_parameters_that_make_no_mesh_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="give"):
        MeshParams(**wrong)  # type: ignore[arg-type]
