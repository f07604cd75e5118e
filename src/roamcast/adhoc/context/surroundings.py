"""What a host knows of itself and its surroundings: where it is now, and where others are as far as it has heard."""

from msgspec import Struct

from roamcast.adhoc.context.matching import Around
from roamcast.adhoc.neighbours import Here, NeighbourTable, Presence, rounded
from roamcast.model.context import Context
from roamcast.model.places import MovementGraph
from roamcast.model.space import Space
from roamcast.model.values import Point


class Surroundings(Struct):
    host: str
    space: Space
    presence: Presence
    neighbours: NeighbourTable
    context: Context
    """This host as its location service last told; everything below carries it forward to now."""
    graph: MovementGraph | None = None
    """What `myloc` walks on."""
    # One input asks several times for the same: what was reckoned last, of which context, and for when.
    _position: Point | None = None
    _position_of: Context | None = None
    _position_us: int = 0
    _me: Context | None = None
    _me_of: Context | None = None

    def position(self, now_us: int) -> Point | None:
        """To the centimetre, as others are told: who judges ways by another place than its neighbours see it at sends
        messages where nobody goes on with them."""
        context = self.context
        if self._position_us != now_us or self._position_of is not context:
            exact = context.position_at(now_us, self.space)
            self._position = None if exact is None else rounded(exact, self.space)
            self._position_of, self._position_us = context, now_us
        return self._position

    def me(self, now_us: int) -> Context:
        context, me = self.context, self._me
        if me is None or me.at_us != now_us or self._me_of is not context:
            me = self._me = context.at(now_us, self.space)
            self._me_of = context
        return me

    def here(self, now_us: int) -> Here | None:
        """What this host's frames say of it; None as long as it does not know its position."""
        position = self.position(now_us)
        return None if position is None else self.presence.here(now_us, self.context, position)

    def said(self, now_us: int) -> None:
        """A frame with this host's `here` was sent."""
        position = self.position(now_us)
        assert position is not None
        self.presence.said(now_us, position)

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
