"""Geographic forwarding finds its way, the shortest where all brokers are up, and around those that are down (M6)."""

from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.mesh.geographic import next_hop
from roamcast.broker.mesh.grid import Grid, hops
from roamcast.broker.mesh.params import MeshParams
from roamcast.broker.messages import Confirmed, Routed
from roamcast.model.space import Cell, Plane
from tests.effort import examples

GRID = Grid(MeshParams(columns=7, rows=7), Plane())
CELLS = [(column, row) for row in range(7) for column in range(7)]
CELL = st.sampled_from(CELLS)


def way(start: Cell, goal: Cell, down: frozenset[Cell], trail_max: int = 256) -> list[Cell] | None:
    """The cells a message passes; None where it gives up."""
    here, passed = start, [start]
    routed = Routed(GRID.broker(goal), Confirmed("c", 1, 1))
    while here != goal:
        up = [GRID.broker(cell) for cell in GRID.neighbours(here) if cell not in down]
        step = next_hop(GRID, GRID.broker(here), routed, up, trail_max)
        if step is None:
            return None
        peer, routed = step
        assert peer in up
        cell = GRID.cell_of(peer)
        assert cell is not None
        here = cell
        passed.append(here)
        assert len(passed) <= 4 * len(CELLS) ** 2, "goes on for ever"
    return passed


def connected(start: Cell, goal: Cell, down: frozenset[Cell]) -> bool:
    reached, edge = {start}, [start]
    while edge:
        for cell in GRID.neighbours(edge.pop()):
            if cell not in down and cell not in reached:
                reached.add(cell)
                edge.append(cell)
    return goal in reached


@examples(100)
@given(CELL, CELL)
def test_m6_with_all_brokers_up_the_way_is_a_shortest_one(start: Cell, goal: Cell) -> None:
    passed = way(start, goal, frozenset())
    assert passed is not None
    assert len(passed) - 1 == hops(start, goal)


@examples(300)
@given(CELL, CELL, st.frozensets(CELL, max_size=30))
def test_m6_a_message_arrives_exactly_where_brokers_that_are_up_lead(
    start: Cell, goal: Cell, down: frozenset[Cell]
) -> None:
    down -= {start, goal}
    assert (way(start, goal, down) is not None) == connected(start, goal, down)


def test_m6_a_message_gets_out_of_a_dead_end() -> None:
    wall = frozenset({(3, row) for row in range(1, 6)} | {(2, 1), (2, 5)})
    passed = way((2, 3), (6, 3), wall)
    assert passed is not None
    assert len(passed) <= 24


def test_m6_a_trail_that_is_too_short_ends_the_search() -> None:
    wall = frozenset((3, row) for row in range(6))
    assert way((0, 0), (6, 0), wall) is not None
    assert way((0, 0), (6, 0), wall, trail_max=2) is None


def test_a_goal_that_is_no_broker_is_never_reached() -> None:
    routed = Routed("nobody", Confirmed("c", 1, 1))
    assert next_hop(GRID, "broker-1", routed, [], 256) is None
