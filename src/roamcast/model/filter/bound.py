"""Binding (R4, R7): a filter over the reader's own state becomes one that anybody can evaluate.

Brokers compare and route filters of many readers, and an event's scene has no reader until it arrives. `bind` puts
in everything about the reader as it is known now: `me.budget` becomes a number, "within 200 m of me" a circle,
`myloc` the places of the movement graph, an aggregate over neighbours its value. What is missing makes its atom
unknown. The bound filter has in every scene the truth that the filter has there for this reader, until the
reader's state changes; then it is bound anew.

Two atoms stay as they are and still read the reader: `approaching` and `receding` of a position that the event
brings, because the half-plane before a moving reader is no shape; and `myloc` when its places are more than a filter
can hold. `is_bound` says whether any did.
"""

import math
from collections.abc import Sequence

from roamcast.model.context import Context
from roamcast.model.filter.evaluate import compile_predicate, reading_of
from roamcast.model.filter.normal import folded
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import (
    NODES_MAX,
    UNKNOWN,
    And,
    AtMyLoc,
    Atom,
    Closing,
    Compare,
    Constant,
    Filter,
    Inside,
    Literal,
    Mine,
    Near,
    Neighbours,
    Not,
    OneOf,
    Or,
    Predicate,
    Term,
    atoms,
    extent,
    terms,
)
from roamcast.model.places import MovementGraph
from roamcast.model.region import Circle
from roamcast.model.space import Space

SMALLEST_M = math.ulp(0.0)
"""A circle must have a radius; one of this radius holds its centre alone, as nearness of 0 m does."""


def bind(
    filter_: Filter,
    me: Context,
    space: Space,
    graph: MovementGraph | None = None,
    neighbours: Sequence[Context] | None = None,
) -> Filter:
    """The filter with the reader's state put in; without a graph `myloc` is unknown, and likewise aggregates."""
    around = None if neighbours is None else lambda: neighbours
    alone = Scene(lambda _: None, me, None, around)
    listed = folded(Reader(alone, me, space, graph, lists_places=True).bound(filter_.root))
    if extent(listed)[1] <= NODES_MAX:
        return Filter(listed)
    return Filter(folded(Reader(alone, me, space, graph, lists_places=False).bound(filter_.root)))


def is_bound(filter_: Filter) -> bool:
    """Whether the filter can be evaluated without a reader."""
    return not any(
        isinstance(atom, Near | Closing | AtMyLoc) or any(isinstance(term, Mine | Neighbours) for term in terms(atom))
        for atom in atoms(filter_.root)
    )


class Reader:
    """One reader's state, put into one filter."""

    def __init__(
        self, alone: Scene, me: Context, space: Space, graph: MovementGraph | None, lists_places: bool
    ) -> None:
        self.alone = alone
        self.me = me
        self.space = space
        self.graph = graph
        self.lists_places = lists_places

    def bound(self, part: Predicate) -> Predicate:
        match part:
            case And(parts):
                return And(tuple(self.bound(each) for each in parts))
            case Or(parts):
                return Or(tuple(self.bound(each) for each in parts))
            case Not(inner):
                return Not(self.bound(inner))
            case Constant():
                return part
            case _:
                return self.bound_atom(part)

    def bound_atom(self, atom: Atom) -> Predicate:
        if all(isinstance(term, Literal | Mine | Neighbours) for term in terms(atom)):
            return Constant(compile_predicate(atom, self.space, self.graph)(self.alone))
        match atom:
            case Compare(operator, left, right):
                known_left, known_right = self.known(left), self.known(right)
                if known_left is None or known_right is None:
                    return UNKNOWN
                return Compare(operator, known_left, known_right)
            case Near(position, metres):
                return self.around_me(position, metres)
            case AtMyLoc():
                return self.at_my_places(atom)
            case Closing() if self.me.position is None or self.me.velocity is None:
                return UNKNOWN
            case _:
                return atom

    def known(self, term: Term) -> Term | None:
        """The term as it is for everybody; None if it is the reader's and missing."""
        if not isinstance(term, Mine | Neighbours):
            return term
        value = reading_of(term, self.space, self.graph)(self.alone)
        return None if value is None else Literal(value)

    def around_me(self, position: Term, metres: float) -> Predicate:
        here = self.me.position
        if here is None:
            return UNKNOWN
        return Inside(position, Circle(here, metres or SMALLEST_M))

    def at_my_places(self, atom: AtMyLoc) -> Predicate:
        place = self.me.attributes.get("place")
        if self.graph is None or not isinstance(place, str):
            return UNKNOWN
        if not self.lists_places:
            return atom
        return OneOf(atom.term, tuple(sorted(self.graph.ploc(place, atom.steps))))
