"""Normal forms of a filter, on which all reasoning about filters stands.

`folded` computes what does not depend on any scene and flattens; `negation_normal` also pushes every NOT down to an
atom. Both keep all three truth values: true stays true, false false and unknown unknown, whatever the scene.

`cases` is the disjunctive form. It keeps only the "true": a filter accepts a scene if and only if all atoms of one
of its cases are true there. Cases that hold FALSE or UNKNOWN can never be true and are left out, which is why this
form must not be negated again.

Atoms come out in one shape: a comparison with a literal has it on the right, a comparison of two terms has the
smaller one (by `term_order`) on the left, and LIKE without wildcards is an equality.
"""

from typing import TypeAlias

from roamcast.model.filter.evaluate import comparison_of, constantly, pattern_of
from roamcast.model.filter.patterns import constant_text
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import (
    FALSE,
    MIRRORED,
    NEGATED,
    TRUE,
    UNKNOWN,
    And,
    Attribute,
    Compare,
    Constant,
    Inside,
    IsNull,
    Like,
    Literal,
    Mine,
    Neighbours,
    Not,
    OneOf,
    Operator,
    Or,
    Predicate,
    Publishers,
    Term,
    conjunction,
    disjunction,
)
from roamcast.model.values import Kind, Value, kind_of

CASES_MAX = 64
"""The most cases of a disjunctive form; a filter with more is reasoned about by its looks only."""

Case: TypeAlias = tuple[Predicate, ...]
"""Atoms and negated atoms that hold together; the empty case is always true."""

BLANK = Scene(lambda _: None)
"""What a predicate over literals alone is evaluated in."""


def folded(part: Predicate) -> Predicate:
    """The same truth with constants computed, nested conjunctions and disjunctions flattened, repetitions gone."""
    match part:
        case And(parts):
            return joined_by_and([folded(each) for each in parts])
        case Or(parts):
            return joined_by_or([folded(each) for each in parts])
        case Not(inner):
            return negated_constant(folded(inner))
        case Constant():
            return part
        case _:
            return folded_atom(part)


def negation_normal(part: Predicate) -> Predicate:
    """As `folded`, and NOT stands before atoms only."""
    return pushed(part, negate=False)


def pushed(part: Predicate, negate: bool) -> Predicate:
    match part:
        case And(parts):
            inner = [pushed(each, negate) for each in parts]
            return joined_by_or(inner) if negate else joined_by_and(inner)
        case Or(parts):
            inner = [pushed(each, negate) for each in parts]
            return joined_by_and(inner) if negate else joined_by_or(inner)
        case Not(below):
            return pushed(below, not negate)
        case _:
            atom = folded(part)
            return negated_constant(atom) if negate else atom


def cases(root: Predicate) -> tuple[Case, ...] | None:
    """The disjunctive normal form, or None if it has more than `CASES_MAX` cases. No case: never true."""
    found = expanded(negation_normal(root))
    return None if found is None else tuple(found)


def expanded(part: Predicate) -> list[Case] | None:
    match part:
        case Constant(value):
            return [()] if value else []
        case Or(parts):
            either: dict[Case, None] = {}
            for each in parts:
                found = expanded(each)
                if found is None:
                    return None
                either.update(dict.fromkeys(found))
                if len(either) > CASES_MAX:
                    return None
            return list(either)
        case And(parts):
            return product([expanded(each) for each in parts])
        case _:
            return [(part,)]


def product(factors: list[list[Case] | None]) -> list[Case] | None:
    # A factor that is never true makes the whole so, however large the others are.
    if [] in factors:
        return []
    result: dict[Case, None] = {(): None}
    for factor in factors:
        if factor is None or len(result) * len(factor) > CASES_MAX:
            return None
        result = dict.fromkeys(tuple(dict.fromkeys(left + right)) for left in result for right in factor)
    return list(result)


def joined_by_and(parts: list[Predicate]) -> Predicate:
    flat = dict.fromkeys(inner for part in parts for inner in (part.parts if isinstance(part, And) else (part,)))
    flat.pop(TRUE, None)
    return FALSE if FALSE in flat else conjunction(list(flat))


def joined_by_or(parts: list[Predicate]) -> Predicate:
    flat = dict.fromkeys(inner for part in parts for inner in (part.parts if isinstance(part, Or) else (part,)))
    flat.pop(FALSE, None)
    return TRUE if TRUE in flat else disjunction(list(flat))


def negated_constant(part: Predicate) -> Predicate:
    """NOT `part`, without a NOT where another operator or constant says it."""
    match part:
        case Constant(value):
            return UNKNOWN if value is None else FALSE if value else TRUE
        case Compare(operator, left, right):
            return Compare(NEGATED[operator], left, right)
        case Not(inner):
            return inner
        case _:
            return Not(part)


def folded_atom(part: Predicate) -> Predicate:
    match part:
        case Compare(operator, left, right):
            return folded_comparison(operator, left, right)
        case OneOf(Literal(value), values):
            same_kind = kind_of(value) is kind_of(values[0])
            return Constant(value in values) if same_kind else UNKNOWN
        case Like(Literal() as term, pattern):
            return Constant(pattern_of(constantly(term.value), pattern)(BLANK))
        case Like(term, pattern) if (text := constant_text(pattern)) is not None:
            return Compare("=", term, Literal(text))
        case IsNull(Literal()):
            return FALSE
        case Inside(Literal(value)) if kind_of(value) is not Kind.POSITION:
            return UNKNOWN
        case _:
            return part


def folded_comparison(operator: Operator, left: Term, right: Term) -> Predicate:
    if isinstance(left, Literal) and isinstance(right, Literal):
        return Constant(comparison_of(operator, constantly(left.value), constantly(right.value))(BLANK))
    if isinstance(left, Literal) or (not isinstance(right, Literal) and term_order(right) < term_order(left)):
        operator, left, right = MIRRORED[operator], right, left
    if isinstance(right, Literal) and operator not in ("=", "<>") and not ordered(right.value):
        return UNKNOWN
    return Compare(operator, left, right)


def ordered(value: Value) -> bool:
    """Whether `<` can be asked of the value; of truths and positions it is unknown."""
    return kind_of(value) not in (Kind.BOOLEAN, Kind.POSITION)


def term_order(term: Term) -> tuple[str, str, str]:
    """A fixed order of terms, the same in every process."""
    match term:
        case Literal(value):
            return ("literal", kind_of(value).value, str(value))
        case Attribute(name):
            return ("attribute", name, "")
        case Mine(name):
            return ("mine", name, "")
        case Publishers(name):
            return ("publishers", name, "")
        case Neighbours(aggregate, name, where):
            return ("neighbours", aggregate, f"{name} {where!r}")
