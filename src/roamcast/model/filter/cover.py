"""Covering (R2): whether one filter accepts everything that another one accepts.

`covers(a, b)` is never wrong when it says yes: brokers drop `b` on its word. It says yes whenever that is so for
conjunctions over intervals, lists and circles, and often beyond; each case of `b` must be covered by a single case of
`a`. Filters with too many cases are compared by their looks.

Both filters are asked about one scene, so `me.` and nearness mean the same reader in both. To compare filters of
different readers, `bind` them first.
"""

from functools import lru_cache

from roamcast.model.filter.normal import Case, cases, negation_normal
from roamcast.model.filter.summary import Summary, summarise
from roamcast.model.filter.tree import TRUE, And, Filter, Or, Predicate
from roamcast.model.space import Space

UNDERSTOOD_MAX = 16_384
"""How many filters are remembered with their cases."""


def covers(a: Filter, b: Filter, space: Space) -> bool:
    """Whether every scene that `b` accepts is accepted by `a`; a no may mean "cannot tell"."""
    if a == b or a.root == TRUE:
        return True
    wide, narrow = understood(a, space), understood(b, space)
    if wide is None or narrow is None:
        return looks_covered(a, b)
    return all(any(case_covers(case, summary) for case, _ in wide) for _, summary in narrow)


def case_covers(wide: Case, narrow: Summary) -> bool:
    return all(narrow.implies(atom) for atom in wide)


@lru_cache(maxsize=UNDERSTOOD_MAX)
def understood(filter_: Filter, space: Space) -> tuple[tuple[Case, Summary], ...] | None:
    """The cases in which the filter may be true, each with what it says; None if they are too many."""
    found = cases(filter_.root)
    if found is None:
        return None
    summaries = ((case, summarise(case, space)) for case in found)
    return tuple((case, summary) for case, summary in summaries if summary is not None)


def looks_covered(a: Filter, b: Filter) -> bool:
    """Covering that shows without any understanding: `a` drops conditions of `b`, or adds alternatives to it."""
    wide, narrow = negation_normal(a.root), negation_normal(b.root)
    if set(conjuncts(wide)) <= set(conjuncts(narrow)):
        return True
    return set(disjuncts(narrow)) <= set(disjuncts(wide))


def conjuncts(part: Predicate) -> tuple[Predicate, ...]:
    return part.parts if isinstance(part, And) else (part,)


def disjuncts(part: Predicate) -> tuple[Predicate, ...]:
    return part.parts if isinstance(part, Or) else (part,)
