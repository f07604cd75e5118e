"""What a host knows of itself and its surroundings: where it is now, and where others are as far as it has heard."""

from msgspec import Struct

from roamcast.model.context import Context
from roamcast.model.places import MovementGraph
from roamcast.model.space import Space
from roamcast.model.values import Point
from roamcast.protocols.adhoc.context.matching import Around
from roamcast.protocols.adhoc.neighbours import Here, NeighbourTable, Presence


class Surroundings(Struct):
    host: str
    space: Space
    presence: Presence
    neighbours: NeighbourTable
    context: Context
    """This host as its location service last told; everything below carries it forward to now."""
    graph: MovementGraph | None = None
    """What `myloc` walks on."""
    _reckoned: tuple[Context, int, Point | None] | None = None
    """Of which context and time the position was last asked: one input asks several times."""

    def position(self, now_us: int) -> Point | None:
        context, reckoned = self.context, self._reckoned
        if reckoned is not None and reckoned[1] == now_us and reckoned[0] is context:
            return reckoned[2]
        position = context.position_at(now_us, self.space)
        self._reckoned = (context, now_us, position)
        return position

    def me(self, now_us: int) -> Context:
        return self.context.at(now_us, self.space)

    def here(self, now_us: int) -> Here | None:
        """What this host's frames say of it; None as long as it does not know its position."""
        position = self.position(now_us)
        return None if position is None else self.presence.here(now_us, self.context, position)

    def around(self, now_us: int) -> Around:
        return lambda: self.neighbours.contexts(now_us)

    def where(self, now_us: int, host: str, *carried: Context) -> Point | None:
        """Where a host is: this one, one whose context a message carried, or a neighbour."""
        if host == self.host:
            return self.position(now_us)
        for context in carried:
            if context.host == host:
                return context.position_at(now_us, self.space)
        neighbour = self.neighbours.context(now_us, host)
        return None if neighbour is None else neighbour.position
