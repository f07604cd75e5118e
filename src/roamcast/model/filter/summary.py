"""What a case, that is atoms which hold together, says of each term: read once, then asked about other atoms.

`summarise` answers None for a case that can never be true. `Summary.implies(atom)` is true only if the atom holds in
every scene in which the case does. An atom says more than its operator: `x > 3` also says that x is there and is a
number, so it implies `x IS NOT NULL` and `x <> 3`, but not `x <> 'a'`, which is unknown for numbers.
"""

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct, field

from roamcast.model.filter.domain import Cut, Domain, compared, excluding, tidied
from roamcast.model.filter.enclosure import Area, disjoint, encloses, vacant
from roamcast.model.filter.evaluate import compile_predicate
from roamcast.model.filter.normal import BLANK, Case
from roamcast.model.filter.patterns import after_prefix, pattern_covers, prefix_of
from roamcast.model.filter.tree import (
    AtMyLoc,
    Closing,
    Compare,
    Inside,
    IsNull,
    Like,
    Literal,
    Near,
    Not,
    OneOf,
    Operator,
    Predicate,
    Term,
)
from roamcast.model.space import Space
from roamcast.model.values import Kind, Value, kind_of

ORDERINGS: dict[Operator, frozenset[str]] = {
    "=": frozenset("="),
    "<>": frozenset("<>"),
    "<": frozenset("<"),
    "<=": frozenset("<="),
    ">": frozenset(">"),
    ">=": frozenset(">="),
}
"""How two values can stand to each other if the operator holds."""

Pair: TypeAlias = tuple[Term, Term]


class About(Struct):
    """What is known of one term; filled by `summarise`."""

    missing: bool = False
    there: bool = False
    domain: Domain | None = None
    """Only if the kind is known."""
    atoms: dict[Predicate, None] = field(default_factory=dict)
    """Patterns, areas and nearness, as they stand."""

    def narrow(self, domain: Domain) -> None:
        self.there = True
        self.domain = domain if self.domain is None else self.domain.meet(domain)

    @property
    def kind(self) -> Kind | None:
        return None if self.domain is None else self.domain.kind

    @property
    def areas(self) -> tuple[Area, ...]:
        return tuple(Area(each.shape, each.boundary) for each in self.atoms if isinstance(each, Inside))


class Summary(Struct):
    space: Space
    terms: dict[Term, About] = field(default_factory=dict)
    pairs: dict[Pair, frozenset[str]] = field(default_factory=dict)
    """For two compared terms, how they may stand to each other."""
    ordered_pairs: dict[Pair, None] = field(default_factory=dict)
    """Pairs that are known to be of an ordered kind."""
    others: dict[Predicate, None] = field(default_factory=dict)

    def about(self, term: Term) -> About:
        known = self.terms.get(term)
        if known is None:
            known = self.terms[term] = About()
            if isinstance(term, Literal):
                known.narrow(compared("=", term.value))
        return known

    def note(self, atom: Predicate) -> None:
        match atom:
            case Compare(operator, left, Literal(value)):
                self.about(left).narrow(compared(operator, value))
            case Compare(operator, left, right):
                self.note_pair(operator, left, right)
            case OneOf(term, values):
                self.about(term).narrow(Domain(kind_of(values[0]), listed=frozenset(values)))
            case Not(OneOf(term, values)):
                self.about(term).narrow(excluding(kind_of(values[0]), values))
            case IsNull(term):
                self.about(term).missing = True
            case Not(IsNull(term)):
                self.about(term).there = True
            case Like(term, pattern):
                self.note_known(term, beginning(pattern)[0], atom)
            case Not(Like(term)) | AtMyLoc(term) | Not(AtMyLoc(term)):
                self.note_known(term, Domain(Kind.TEXT), atom)
            case Near(term) | Not(Near(term)) | Inside(term) | Not(Inside(term)) | Closing(term) | Not(Closing(term)):
                self.note_known(term, Domain(Kind.POSITION), atom)
            case _:
                self.others[atom] = None

    def note_known(self, term: Term, domain: Domain, atom: Predicate) -> None:
        self.about(term).narrow(domain)
        self.about(term).atoms[atom] = None

    def note_pair(self, operator: Operator, left: Term, right: Term) -> None:
        self.about(left).there = self.about(right).there = True
        self.pairs[left, right] = self.standing(left, right) & ORDERINGS[operator]
        if operator not in ("=", "<>"):
            self.ordered_pairs[left, right] = None

    def standing(self, left: Term, right: Term) -> frozenset[str]:
        return self.pairs.get((left, right), frozenset("=") if left == right else frozenset("<=>"))

    def possible(self) -> bool:
        """Whether the case may be true somewhere; a no is certain. Lists lose what patterns and areas refuse."""
        for known in self.terms.values():
            if known.domain is not None and known.domain.listed is not None:
                left = frozenset(value for value in known.domain.listed if not self.refused(known, value))
                known.domain = Domain(known.domain.kind, listed=left)
            if (known.missing and known.there) or (known.domain is not None and known.domain.empty):
                return False
            if vacant(known.areas, self.space):
                return False
            if any(isinstance(atom, Not) and self.implies(atom.part) for atom in known.atoms):
                return False
        return all(self.pairs.values())

    def refused(self, known: About, value: Value) -> bool:
        """Whether a term with this value makes some atom of the case other than true."""
        if known.domain is None or not known.domain.holds(value):
            return True
        return any(holds_of(atom, value, self.space) is False for atom in known.atoms)

    def implies(self, atom: Predicate) -> bool:
        """Whether the atom is true wherever the case is; never a wrong yes."""
        match atom:
            case Compare(operator, left, right) if not isinstance(right, Literal):
                return self.implies_pair(operator, left, right)
            case Compare(_, term) | OneOf(term) | Like(term) | Inside(term) | Near(term) | Closing(term):
                known = self.terms.get(term)
            case AtMyLoc(term) | IsNull(term) | Not(IsNull(term) | OneOf(term) | Like(term)):
                known = self.terms.get(term)
            case Not(Inside(term) | Near(term) | Closing(term) | AtMyLoc(term)):
                known = self.terms.get(term)
            case _:
                return atom in self.others
        return known is not None and self.implies_of(known, atom)

    def implies_of(self, known: About, atom: Predicate) -> bool:
        match atom:
            case IsNull():
                return known.missing
            case Not(IsNull()):
                return known.there
            case _ if known.domain is None:
                return False
            case Compare("<>", _, Literal(value)):
                return known.kind is kind_of(value) and self.refused(known, value)
            case Not(OneOf(_, values)):
                return known.kind is kind_of(values[0]) and all(self.refused(known, value) for value in values)
            case Compare(operator, _, Literal(value)):
                return known.domain.within(compared(operator, value))
            case OneOf(_, values):
                return known.domain.within(Domain(kind_of(values[0]), listed=frozenset(values)))
            case _ if atom in known.atoms:
                return True
            case _ if known.domain.listed is not None and reads_value_only(atom):
                return all(holds_of(atom, value, self.space) is True for value in known.domain.listed)
            case Like() | Not(Like()):
                return implies_pattern(known.domain, known.atoms, atom)
            case Inside() | Not(Inside()):
                return self.implies_area(known, atom)
            case _:
                return any(reaches(other, atom) for other in known.atoms)

    def implies_area(self, known: About, atom: Predicate) -> bool:
        match atom:
            case Inside(_, shape, boundary):
                return encloses(Area(shape, boundary), known.areas, self.space)
            case Not(Inside(_, shape, boundary)):
                area = Area(shape, boundary)
                shut_out = (each.part for each in known.atoms if isinstance(each, Not))
                return any(disjoint(area, each, self.space) for each in known.areas) or any(
                    encloses(Area(each.shape, each.boundary), (area,), self.space)
                    for each in shut_out
                    if isinstance(each, Inside)
                )
            case _:
                return False

    def implies_pair(self, operator: Operator, left: Term, right: Term) -> bool:
        compared_here = (left, right) in self.pairs
        known = self.terms.get(left)
        if not compared_here and not (left == right and known is not None and known.there):
            return False
        if operator not in ("=", "<>") and (left, right) not in self.ordered_pairs:
            kinds = [about.kind for term in (left, right) if (about := self.terms.get(term)) is not None]
            if not any(kind in (Kind.NUMBER, Kind.TEXT, Kind.TIME) for kind in kinds):
                return False  # two truths or positions can be equal, yet `<=` of them is unknown
        return self.standing(left, right) <= ORDERINGS[operator]


def summarise(case: Case, space: Space) -> Summary | None:
    """What a case says; None if it can never be true."""
    summary = Summary(space)
    for atom in case:
        summary.note(atom)
    return summary if summary.possible() else None


def reads_value_only(atom: Predicate) -> bool:
    """Whether the truth follows from the term's value alone; nearness also needs to know where the reader is."""
    return isinstance(atom.part if isinstance(atom, Not) else atom, Compare | OneOf | Like | Inside)


def holds_of(atom: Predicate, value: Value, space: Space) -> bool | None:
    """The truth of a pattern or area for a value; None also for atoms that read more than that."""
    match atom:
        case Not(inner):
            found = holds_of(inner, value, space)
            return None if found is None else not found
        case Like(_, pattern):
            return compile_predicate(Like(Literal(value), pattern), space, None)(BLANK)
        case Inside(_, shape, boundary):
            return compile_predicate(Inside(Literal(value), shape, boundary), space, None)(BLANK)
        case _:
            return None


def beginning(pattern: str) -> tuple[Domain, bool]:
    """The interval of all texts that begin as the pattern does, and whether the pattern says no more than that."""
    prefix, alone = prefix_of(pattern)
    end = after_prefix(prefix)
    return tidied(Domain(Kind.TEXT, Cut(prefix, False), None if end is None else Cut(end, False))), alone


def implies_pattern(domain: Domain, known: Iterable[Predicate], atom: Predicate) -> bool:
    match atom:
        case Like(_, pattern) if domain.kind is Kind.TEXT:
            texts, alone = beginning(pattern)
            return (alone and domain.within(texts)) or any(
                isinstance(each, Like) and pattern_covers(pattern, each.pattern) for each in known
            )
        case Not(Like(_, pattern)) if domain.kind is Kind.TEXT:
            refused = (each.part for each in known if isinstance(each, Not))
            return domain.meet(beginning(pattern)[0]).empty or any(
                isinstance(each, Like) and pattern_covers(each.pattern, pattern) for each in refused
            )
        case _:
            return False


def reaches(known: Predicate, atom: Predicate) -> bool:
    """Whether nearness to the reader, or the lack of it, follows from another one over the same term."""
    match known, atom:
        case Near(_, narrow), Near(_, wide):
            return 0 <= narrow <= wide
        case Not(Near(_, wide)), Not(Near(_, narrow)):
            return 0 <= narrow <= wide
        case AtMyLoc(_, fewer), AtMyLoc(_, more):
            return fewer <= more
        case Not(AtMyLoc(_, more)), Not(AtMyLoc(_, fewer)):
            return fewer <= more
        case _:
            return False
