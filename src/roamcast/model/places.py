"""Named places and how one can walk between them: Rebeca's movement graph (R4).

`ploc(x, q)` is where a client that is at x now may be after q steps. It grows with q and always holds x itself,
because staying is a step too.
"""

from collections.abc import Iterable, Mapping

from roamcast.model.values import BadValue


class MovementGraph:
    """Immutable once made; what `ploc` computed is kept."""

    def __init__(self, neighbours: Mapping[str, tuple[str, ...]]) -> None:
        self.neighbours = dict(neighbours)
        self._ploc: dict[tuple[str, int], frozenset[str]] = {}

    def ploc(self, place: str, steps: int) -> frozenset[str]:
        """The places within `steps` of `place`; of an unknown place, only itself."""
        if place not in self.neighbours:
            return frozenset((place,))
        known = self._ploc.get((place, steps))
        if known is not None:
            return known
        reached = {place: None}
        edge = [place]
        for _ in range(steps):
            nears = dict.fromkeys(near for here in edge for near in self.neighbours.get(here, ()))
            edge = [near for near in nears if near not in reached]
            if not edge:
                break
            reached.update(dict.fromkeys(edge))
        found = frozenset(reached)
        self._ploc[(place, steps)] = found
        return found


def movement_graph(edges: Mapping[str, Iterable[str]], *, both_ways: bool = True) -> MovementGraph:
    """A graph from `place: neighbours`. Edges go both ways unless told otherwise."""
    neighbours: dict[str, dict[str, None]] = {}
    for place, nears in edges.items():
        neighbours.setdefault(place, {})
        for near in nears:
            neighbours[place][near] = None
            neighbours.setdefault(near, {})
            if both_ways:
                neighbours[near][place] = None
    if "" in neighbours:
        raise BadValue("movement graph: a place needs a name")
    return MovementGraph({place: tuple(sorted(nears)) for place, nears in sorted(neighbours.items())})
