"""Reach: a filter over a client's own state, widened to all that the client may accept soon (R4, R7).

`AtMyLoc` becomes the list of places that its client may look at after so many steps; a comparison with `me.budget`
one with the end of the range in which the budget may be; what nobody can foresee becomes TRUE and is left to the
client. Under a NOT the same is done the other way round: `NOT place IN myloc` excludes only places that every
possible place of the client excludes.

Guarantee: the widened filter reads no client, and accepts every event that the filter accepts for its client in any
state within reach.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache, reduce

from msgspec import Struct

from roamcast.model.filter.bound import is_bound
from roamcast.model.filter.normal import folded, negation_normal
from roamcast.model.filter.tree import (
    DEPTH_MAX,
    MIRRORED,
    NODES_MAX,
    TRUE,
    And,
    AtMyLoc,
    Atom,
    Compare,
    Constant,
    Filter,
    Literal,
    Mine,
    Neighbours,
    Not,
    OneOf,
    Operator,
    Or,
    Predicate,
    Term,
    atoms,
    children,
    extent,
    terms,
)
from roamcast.model.places import MovementGraph


class Reach(Struct, frozen=True):
    """Where a client may be and what it may be like: a place and steps from there, and a range for each attribute."""

    graph: MovementGraph | None = None
    place: str | None = None
    steps: int = 0
    ranges: Mapping[str, tuple[float, float]] = {}


ANYTHING = Reach()


def within(filter_: Filter, reach: Reach) -> Filter:
    """The filter for anybody who is within reach."""
    if is_bound(filter_):
        return filter_
    root = folded(widened(negation_normal(filter_.root), reach))
    depth, nodes = extent(root)
    if depth > DEPTH_MAX or nodes > NODES_MAX:
        # More places than a filter can hold: they are left to the client.
        return relaxed(filter_)
    return Filter(root)


@lru_cache(maxsize=65_536)
def relaxed(filter_: Filter) -> Filter:
    """What of the filter can be judged without knowing its client."""
    return within(filter_, ANYTHING)


def widened(part: Predicate, reach: Reach) -> Predicate:
    match part:
        case And(parts):
            return And(tuple(widened(each, reach) for each in parts))
        case Or(parts):
            return Or(tuple(widened(each, reach) for each in parts))
        case Constant():
            return part
        case Not(AtMyLoc() as atom):
            return outside_my_places(atom, reach)
        case Not(inner):
            return part if is_bound(Filter(inner)) else TRUE
        case AtMyLoc():
            return at_my_places(part, reach)
        case Compare(operator, left, right):
            return widened_comparison(operator, left, right, reach)
        case _:
            return part if is_bound(Filter(part)) else TRUE


def at_my_places(atom: AtMyLoc, reach: Reach) -> Predicate:
    if reach.graph is None or reach.place is None or isinstance(atom.term, Mine | Neighbours):
        return TRUE
    return OneOf(atom.term, tuple(sorted(reach.graph.ploc(reach.place, atom.steps + reach.steps))))


def outside_my_places(atom: AtMyLoc, reach: Reach) -> Predicate:
    if reach.graph is None or reach.place is None or isinstance(atom.term, Mine | Neighbours):
        return TRUE
    graph = reach.graph
    looked_at = [graph.ploc(place, atom.steps) for place in sorted(graph.ploc(reach.place, reach.steps))]
    always = reduce(frozenset.intersection, looked_at)
    return Not(OneOf(atom.term, tuple(sorted(always)))) if always else TRUE


def widened_comparison(operator: Operator, left: Term, right: Term, reach: Reach) -> Predicate:
    if isinstance(left, Mine):
        operator, left, right = MIRRORED[operator], right, left
    if not isinstance(right, Mine):
        plain = Compare(operator, left, right)
        return plain if is_bound(Filter(plain)) else TRUE
    found = reach.ranges.get(right.name)
    if found is None or not is_bound(Filter(Compare(operator, left, Literal(0)))):
        return TRUE
    low, high = found
    match operator:
        case "<" | "<=":
            return Compare(operator, left, Literal(high))
        case ">" | ">=":
            return Compare(operator, left, Literal(low))
        case "=":
            return And((Compare(">=", left, Literal(low)), Compare("<=", left, Literal(high))))
        case "<>":
            return Compare("<>", left, Literal(low)) if low == high else TRUE


def reads_place(filter_: Filter) -> bool:
    return any(isinstance(atom, AtMyLoc) for atom in atoms(filter_.root))


@lru_cache(maxsize=65_536)
def excludes_places(filter_: Filter) -> bool:
    """Whether the filter accepts an event because of where its client is not."""
    return any(isinstance(part, Not) and isinstance(part.part, AtMyLoc) for part in parts_of(filter_.root))


def parts_of(root: Predicate) -> Iterator[Predicate]:
    """Every part of the filter with all NOTs before atoms."""
    waiting = [negation_normal(root)]
    while waiting:
        part = waiting.pop()
        yield part
        if not isinstance(part, Not):
            waiting += children(part)


def reads_attributes(filter_: Filter) -> list[str]:
    """Which of the client's own attributes the filter compares something with."""
    return list(dict.fromkeys(term.name for atom in atoms(filter_.root) for term in compared(atom)))


def compared(atom: Atom) -> list[Mine]:
    return [term for term in terms(atom) if isinstance(term, Mine)] if isinstance(atom, Compare) else []
