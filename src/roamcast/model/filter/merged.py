"""Merging (R2): one filter in the place of two, exact where that stays short, else a little wider.

Exact merging takes the cases of both filters, leaves out those that another one covers, and joins two that differ in
one term only: `x < 3` and `x = 3` become `x <= 3`, lists are united. What remains is a disjunction, as long as it has
at most `MERGED_CASES_MAX` cases. Beyond that the merger is the hull: the conditions that every case implies, among
them the interval around all intervals and the list of all listed values. A broker that routes by a hull forwards
some events that nobody downstream wants; it never misses one.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import TypeAlias

from msgspec import Struct

from roamcast.model.filter.cover import case_covers, covers, understood
from roamcast.model.filter.domain import Domain, in_order
from roamcast.model.filter.normal import Case, ordered
from roamcast.model.filter.summary import Summary, summarise
from roamcast.model.filter.tree import (
    DEPTH_MAX,
    EVERYTHING,
    NODES_MAX,
    And,
    Compare,
    Filter,
    IsNull,
    Literal,
    Not,
    OneOf,
    Predicate,
    Term,
    atoms,
    conjunction,
    disjunction,
    extent,
    terms,
)
from roamcast.model.space import Space
from roamcast.model.values import Value

MERGED_CASES_MAX = 8
"""The longest disjunction that a merger may be."""
JOINED_CASES_MAX = 32
"""The most cases among which pairs to join are looked for."""
MERGED_LIST_MAX = 256
"""The longest list of a hull; beyond it the list's bounds stand for it."""
CONDITIONS_MAX = 256
"""The most conditions that are tried for a hull."""

Understood: TypeAlias = tuple[Case, Summary]
Group: TypeAlias = Term | tuple[Term, Term]
"""What an atom is about: a term, or two that it compares."""


class Merged(Struct, frozen=True):
    filter: Filter
    exact: bool
    """Whether the merger accepts only what one of the two accepts."""


def merge(a: Filter, b: Filter, space: Space, cases_max: int = MERGED_CASES_MAX) -> Merged:
    """A filter that covers both; beyond `cases_max` alternatives their hull."""
    if covers(a, b, space):
        return Merged(a, True)
    if covers(b, a, space):
        return Merged(b, True)
    some, others = understood(a, space), understood(b, space)
    if some is None or others is None:
        return Merged(EVERYTHING, False)
    both = [*some, *others]
    if len(both) <= JOINED_CASES_MAX:
        both = fewest(both, space)
        exact = disjunction([conjunction(case) for case, _ in both])
        if len(both) <= cases_max and in_bounds(exact):
            return Merged(Filter(exact), True)
    return Merged(Filter(hull(both, space)), False)


def in_bounds(root: Predicate) -> bool:
    depth, nodes = extent(root)
    return depth <= DEPTH_MAX and nodes <= NODES_MAX


# Exact.


def fewest(both: list[Understood], space: Space) -> list[Understood]:
    """The same cases with covered ones left out and neighbouring ones joined, until nothing more can be done."""
    while True:
        left = uncovered(both)
        joint = next(joints(left, space), None)
        if joint is None:
            return left
        both = joint


def uncovered(both: list[Understood]) -> list[Understood]:
    left: list[Understood] = []
    for index, (case, summary) in enumerate(both):
        # Of two cases that cover each other the last stays.
        rivals = [wide for wide, _ in left] + [wide for wide, _ in both[index + 1 :]]
        if not any(case_covers(wide, summary) for wide in rivals):
            left.append((case, summary))
    return left


def joints(both: list[Understood], space: Space) -> Iterator[list[Understood]]:
    """The cases with two of them joined, for each pair that can be."""
    for one, other in combinations(both, 2):
        joint = joined(one, other)
        summary = None if joint is None else summarise(joint, space)
        if joint is not None and summary is not None:
            yield [each for each in both if each is not one and each is not other] + [(joint, summary)]


def joined(one: Understood, other: Understood) -> Case | None:
    """The one case that is true where either is, if they differ in the values of a single term."""
    here, there = grouped(one[0]), grouped(other[0])
    differing = [
        group
        for group in dict.fromkeys((*here, *there))
        if not case_covers(tuple(here.get(group, ())), other[1])
        or not case_covers(tuple(there.get(group, ())), one[1])
    ]
    if len(differing) != 1 or isinstance(differing[0], tuple):
        return None
    term = differing[0]
    if not all(limits_values(atom) for atom in (*here.get(term, ()), *there.get(term, ()))):
        return None
    left, right = domain_of(one[1], term), domain_of(other[1], term)
    union = None if left is None or right is None else left.join(right)
    written = None if union is None else union.written(term)
    if written is None:
        return None
    return (*(atom for group, shared in here.items() if group != term for atom in shared), *written)


def grouped(case: Case) -> dict[Group, list[Predicate]]:
    groups: dict[Group, list[Predicate]] = {}
    for atom in case:
        about = [term for inner in atoms(atom) for term in terms(inner)]
        pair = len(about) == 2 and not isinstance(about[1], Literal)
        groups.setdefault((about[0], about[1]) if pair else about[0], []).append(atom)
    return groups


def limits_values(atom: Predicate) -> bool:
    """Whether the summary's domain of the term says all that the atom says."""
    match atom:
        case Compare() | OneOf() | Not(OneOf() | IsNull()):
            return True
        case _:
            return False


def domain_of(summary: Summary, term: Term) -> Domain | None:
    known = summary.terms.get(term)
    return None if known is None else known.domain


# Hull.


def hull(both: list[Understood], space: Space) -> Predicate:
    """The conditions that all cases share, none that follows from the others, as far as a filter can hold them."""
    summaries = [summary for _, summary in both]
    shared = Summary(space)
    kept: list[Predicate] = []
    for atom in list(conditions(both))[:CONDITIONS_MAX]:
        if (
            all(summary.implies(atom) for summary in summaries)
            and not shared.implies(atom)
            and in_bounds(And((*kept, atom)))
        ):
            shared.note(atom)
            kept.append(atom)
    for atom in list(kept):
        rest = [other for other in kept if other is not atom]
        without = summarise(tuple(rest), space)
        if without is not None and without.implies(atom):
            kept = rest
    return conjunction(kept)


def conditions(both: list[Understood]) -> dict[Predicate, None]:
    """What may be shared, the strongest first: common lists, the atoms themselves, bounds of lists, presence."""
    found: dict[Predicate, None] = {}
    first_terms = [term for term in both[0][1].terms if not isinstance(term, Literal)]
    for term in first_terms:
        domains = [domain for _, summary in both if (domain := domain_of(summary, term)) is not None]
        lists = [domain.listed for domain in domains if domain.listed is not None]
        if not lists or len({domain.kind for domain in domains}) > 1:
            continue
        values = in_order(frozenset[Value]().union(*lists))
        if len(lists) == len(both) and len(values) <= MERGED_LIST_MAX:
            found[OneOf(term, tuple(values))] = None
        if ordered(values[0]):
            found[Compare(">=", term, Literal(values[0]))] = None
            found[Compare("<=", term, Literal(values[-1]))] = None
    found.update(dict.fromkeys(atom for case, _ in both for atom in case))
    found.update(dict.fromkeys(Not(IsNull(term)) for term in first_terms))
    return found
