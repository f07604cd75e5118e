"""Geographic forwarding between the brokers of a mesh, and how a message gets around brokers that are down (M6).

A message goes to the neighbour that is nearest to its goal, as long as that one is nearer than here: with all brokers
up that is a shortest way. Where no such neighbour is up the message is *stuck* and searches: it remembers the brokers
it has visited since, goes to the nearest one it has not visited, back where there is none, and is greedy again as
soon as it is nearer to the goal than where it got stuck. (The perimeter mode of GPSR, which the paper cites, needs a
planar graph, and a mesh with diagonal links is none; the trail costs a few names in a message that is in trouble.)

Guarantee: the message arrives if the brokers that are up connect the two and the trail is long enough.
"""

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from roamcast.broker.mesh.grid import Grid, hops, sign
from roamcast.broker.messages import Routed
from roamcast.model.space import Cell

NOWHERE = (1 << 30, 0)
"""How far it is to somebody who is not on the grid."""


class Compass:
    """Distances to one goal."""

    def __init__(self, grid: Grid, goal: str) -> None:
        self.grid = grid
        self.goal = grid.cell_of(goal)

    def away(self, broker: str) -> tuple[int, int]:
        """In hops, then in a straight line: of two equally near neighbours the one on the straighter way."""
        cell = self.grid.cell_of(broker)
        if cell is None or self.goal is None:
            return NOWHERE
        return hops(cell, self.goal), (cell[0] - self.goal[0]) ** 2 + (cell[1] - self.goal[1]) ** 2

    def nearest(self, brokers: Iterable[str]) -> str | None:
        return min(brokers, key=self.away, default=None)


def next_hop(grid: Grid, here: str, routed: Routed, up: Collection[str], trail_max: int) -> tuple[str, Routed] | None:
    """Which of the neighbours that are up gets the message, and the message as it goes there; None: no way."""
    if not routed.visited:
        straight = straight_hop(grid, here, routed.to)
        if straight in up:
            return straight, routed
    compass = Compass(grid, routed.to)
    if routed.visited and compass.away(here) < compass.away(routed.visited[0]):
        routed = replace(routed, visited=(), way=())
    if not routed.visited:
        nearest = compass.nearest(up)
        if nearest is not None and compass.away(nearest) < compass.away(here):
            return nearest, routed
    return search(compass, here, routed, up, trail_max)


def straight_hop(grid: Grid, here: str, to: str) -> str:
    """The neighbour nearest to the goal, were all of them up."""
    cell, goal = grid.cell_of(here), grid.cell_of(to)
    if cell is None or goal is None:
        return here
    towards: Cell = cell[0] + sign(goal[0] - cell[0]), cell[1] + sign(goal[1] - cell[1])
    return grid.broker(towards)


def search(
    compass: Compass, here: str, routed: Routed, up: Collection[str], trail_max: int
) -> tuple[str, Routed] | None:
    visited = routed.visited if here in routed.visited else (*routed.visited, here)
    fresh = compass.nearest(peer for peer in up if peer not in visited)
    if fresh is not None and len(visited) <= trail_max:
        return fresh, replace(routed, visited=visited, way=(*routed.way, here))
    if routed.way and routed.way[-1] in up:
        return routed.way[-1], replace(routed, visited=visited, way=routed.way[:-1])
    return None
