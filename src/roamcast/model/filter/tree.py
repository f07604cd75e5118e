"""The filter tree: what CQL2 text and CQL2-JSON are parsed into, once, and what everything else works on.

A *term* names a value: a literal, an attribute of the event (or, in a scope, of the host that is looked at), an
attribute of the reader's own context (`me.budget`), of the publisher's (`publisher.speed`), or an aggregate over the
reader's neighbours, perhaps over those alone for which a condition holds. A *predicate* over terms is true, false or
unknown: a term that is missing, or of another kind than what it is compared with, makes the predicate unknown, and
unknown never matches (Kleene's logic).

What does not stand here is written with what does: BETWEEN as two comparisons, `T_DURING` likewise, a polygon with
holes as an outline without its holes, a list of mixed kinds as one list per kind, `neighbours.any` and
`neighbours.all` as comparisons of counts.
"""

from collections.abc import Iterator
from typing import Literal as Choice
from typing import TypeAlias

from msgspec import Struct

from roamcast.model.region import Shape
from roamcast.model.values import Kind, Value, check_value, kind_of

DEPTH_MAX = 24
NODES_MAX = 1_000
PATTERN_CHARS_MAX = 256
"""Of LIKE: the time that a pattern takes grows with its length times that of the text."""
STEPS_MAX = 64
"""The most movement-graph steps of `myloc`."""

Operator: TypeAlias = Choice["=", "<>", "<", "<=", ">", ">="]
Aggregate: TypeAlias = Choice["count", "avg", "min", "max"]

MIRRORED: dict[Operator, Operator] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator that says the same with the sides exchanged."""
NEGATED: dict[Operator, Operator] = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The operator that is true exactly where this one is false; both are unknown together."""


class Part(Struct, frozen=True, array_like=True, cache_hash=True):
    """Base of everything in a tree; compact on the wire, comparable and hashable."""


class Constant(Part, frozen=True, tag="const"):
    """A predicate that is true, false, or unknown (None) everywhere."""

    value: bool | None


TRUE = Constant(True)
FALSE = Constant(False)
UNKNOWN = Constant(None)

# Terms.


class Literal(Part, frozen=True, tag="lit"):
    value: Value

    # What comes over the wire is checked here and below, so that no evaluator ever meets a NaN or a mixed list.
    def __post_init__(self) -> None:
        check_value("literal", self.value)

    # Python holds True == 1, a filter does not: without this `a = TRUE` and `a = 1` would be one key of a cache.
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Literal) and kind_of(self.value) is kind_of(other.value) and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash(self.value)


class Attribute(Part, frozen=True, tag="attr"):
    """Of the event; in a scope, of the host under test."""

    name: str


class Mine(Part, frozen=True, tag="me"):
    """Of the reader: `me.<name>`."""

    name: str


class Publishers(Part, frozen=True, tag="pub"):
    """Of the publisher's context that the event carries: `publisher.<name>`."""

    name: str


class Neighbours(Part, frozen=True, tag="nbr"):
    """An aggregate over the reader's neighbours; `count` has no attribute.

    Only those count for which `where` is true. In it an attribute is the neighbour's, and `me.` the reader's.
    """

    aggregate: Aggregate
    name: str = ""
    where: "Predicate" = TRUE

    def __post_init__(self) -> None:
        if self.where is TRUE:
            return
        depth, nodes = extent(self.where)
        if depth > DEPTH_MAX or nodes > NODES_MAX:
            raise ValueError(
                f"condition on neighbours of depth {depth} with {nodes} parts; at most {DEPTH_MAX} and {NODES_MAX}"
            )
        for term in (term for atom in atoms(self.where) for term in terms(atom)):
            if isinstance(term, Neighbours | Publishers):
                raise ValueError("a condition on neighbours reads their attributes and the reader's (me.) alone")

    @property
    def asked(self) -> "Neighbours":
        """What is computed: the count has no attribute, whatever the tree says."""
        return Neighbours("count", "", self.where) if self.aggregate == "count" and self.name else self

    @property
    def names(self) -> list[str]:
        """The attributes of neighbours that are needed, in order."""
        read = [term.name for atom in atoms(self.where) for term in terms(atom) if isinstance(term, Attribute)]
        return list(dict.fromkeys([*([self.name] if self.aggregate != "count" else []), *read]))


Term: TypeAlias = Literal | Attribute | Mine | Publishers | Neighbours

# Predicates.


class Compare(Part, frozen=True, tag="cmp"):
    operator: Operator
    left: Term
    right: Term


class OneOf(Part, frozen=True, tag="in"):
    """The term equals one of `values`, which are all of one kind, sorted, none twice."""

    term: Term
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        for value in self.values:
            check_value("list", value)
        if len({kind_of(value) for value in self.values}) != 1:
            raise ValueError("a list in a filter holds values of one kind, at least one")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OneOf) or self.term != other.term or self.values != other.values:
            return False
        return all(kind_of(a) is kind_of(b) for a, b in zip(self.values, other.values, strict=True))

    def __hash__(self) -> int:
        return hash((self.term, self.values))


class Like(Part, frozen=True, tag="like"):
    """SQL's LIKE, case-sensitive: `%` any text, `_` one character, a backslash takes the next one literally."""

    term: Term
    pattern: str

    def __post_init__(self) -> None:
        if len(self.pattern) > PATTERN_CHARS_MAX:
            raise ValueError(f"LIKE pattern of {len(self.pattern)} characters; at most {PATTERN_CHARS_MAX}")


class IsNull(Part, frozen=True, tag="null"):
    """The term is missing; never unknown."""

    term: Term


class Near(Part, frozen=True, tag="near"):
    """The position is at most so many metres from the reader."""

    position: Term
    metres: float

    def __post_init__(self) -> None:
        if not 0 <= self.metres < float("inf"):
            raise ValueError(f"near within {self.metres} m; give metres of 0 or more")


class Closing(Part, frozen=True, tag="closing"):
    """The distance between the reader and the position shrinks (`approaching`) or grows (`receding`) right now.

    `publisher.position` moves with the publisher's velocity, any other position stands still. Unknown unless every
    velocity that it needs is known.
    """

    position: Term
    direction: Choice["approaching", "receding"]


class AtMyLoc(Part, frozen=True, tag="myloc"):
    """The term names a place within so many steps of the reader's own place (`me.place`): Rebeca's marker (R4)."""

    term: Term
    steps: int

    def __post_init__(self) -> None:
        if not 0 <= self.steps <= STEPS_MAX:
            raise ValueError(f"myloc({self.steps}); give 0 to {STEPS_MAX} steps")


class Inside(Part, frozen=True, tag="inside"):
    """The position lies in a fixed shape, its boundary included or not."""

    position: Term
    shape: Shape
    boundary: bool = True


class And(Part, frozen=True, tag="and"):
    parts: "tuple[Predicate, ...]"


class Or(Part, frozen=True, tag="or"):
    parts: "tuple[Predicate, ...]"


class Not(Part, frozen=True, tag="not"):
    part: "Predicate"


Atom: TypeAlias = Compare | OneOf | Like | IsNull | Near | Closing | AtMyLoc | Inside
Predicate: TypeAlias = Constant | Atom | And | Or | Not


class Filter(Struct, frozen=True, array_like=True, cache_hash=True):
    """A predicate that was found to be within bounds; what events, subscriptions and scopes hold."""

    root: Predicate

    def __post_init__(self) -> None:
        depth, nodes = extent(self.root)
        if depth > DEPTH_MAX or nodes > NODES_MAX:
            raise ValueError(
                f"filter of depth {depth} with {nodes} parts; at most depth {DEPTH_MAX} and {NODES_MAX} parts"
            )


def extent(root: Predicate) -> tuple[int, int]:
    """Depth and number of predicates, those of conditions on neighbours among them, without recursion: a hostile tree
    must not exhaust the stack."""
    depth = nodes = 0
    level: list[Predicate] = [root]
    while level and depth <= DEPTH_MAX and nodes <= NODES_MAX:
        depth += 1
        nodes += len(level) + sum(len(part.values) for part in level if isinstance(part, OneOf))
        level = [child for part in level for child in (*children(part), *conditions(part))]
    return depth, nodes


def children(part: Predicate) -> tuple[Predicate, ...]:
    match part:
        case And(parts) | Or(parts):
            return parts
        case Not(inner):
            return (inner,)
        case _:
            return ()


def conditions(part: Predicate) -> list[Predicate]:
    """What an atom asks of neighbours before it counts them."""
    if not isinstance(part, Compare | OneOf | Like | IsNull | Near | Closing | AtMyLoc | Inside):
        return []
    return [term.where for term in terms(part) if isinstance(term, Neighbours) and term.where != TRUE]


def atoms(root: Predicate) -> Iterator[Atom]:
    """Every atom of the tree, left to right."""
    match root:
        case And() | Or() | Not():
            for child in children(root):
                yield from atoms(child)
        case Constant():
            return
        case _:
            yield root


def terms(atom: Atom) -> tuple[Term, ...]:
    """The terms an atom reads; `Near`, `Closing` and `AtMyLoc` also read the reader's own context."""
    match atom:
        case Compare(_, left, right):
            return (left, right)
        case OneOf(term) | Like(term) | IsNull(term) | AtMyLoc(term):
            return (term,)
        case Near(position) | Closing(position) | Inside(position):
            return (position,)


def over_neighbours(filter_: "Filter") -> list[Neighbours]:
    """What a filter asks of the reader's neighbours, left to right."""
    return [term for atom in atoms(filter_.root) for term in terms(atom) if isinstance(term, Neighbours)]


def same_kind_operators(kind: Kind) -> tuple[Operator, ...]:
    """What can be asked of two values of a kind; anything else is unknown."""
    if kind in (Kind.BOOLEAN, Kind.POSITION):
        return ("=", "<>")
    return ("=", "<>", "<", "<=", ">", ">=")


def conjunction(parts: "tuple[Predicate, ...] | list[Predicate]") -> Predicate:
    return TRUE if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))


def disjunction(parts: "tuple[Predicate, ...] | list[Predicate]") -> Predicate:
    return FALSE if not parts else parts[0] if len(parts) == 1 else Or(tuple(parts))


EVERYTHING = Filter(TRUE)
