"""CQL2-JSON to a filter: a reader that knows what is allowed and refuses everything else, by its path.

Hostile input costs at most its own size: bytes, depth, parts and corners are bounded, numbers must be finite, and
nothing but `BadFilter` comes out. What a parsed tree looks like (its *normal shape*): AND and OR have two parts or
more and none of their own kind among them; a number without a fraction is an integer; the values of IN stand in one
sorted list per kind; BETWEEN, intervals, areas with holes and comparisons with NULL are gone, written with the rest.
"""

import re
from collections.abc import Callable
from typing import cast

import msgspec

from roamcast.model.filter.bad_filter import BadFilter
from roamcast.model.filter.read_space import read_closing, read_near, read_spatial
from roamcast.model.filter.read_terms import aggregated, described, inner_path, read_number, read_string, read_term
from roamcast.model.filter.read_time import read_temporal
from roamcast.model.filter.tree import (
    DEPTH_MAX,
    NODES_MAX,
    STEPS_MAX,
    TRUE,
    UNKNOWN,
    And,
    AtMyLoc,
    Compare,
    Constant,
    Filter,
    IsNull,
    Like,
    Literal,
    Neighbours,
    Not,
    OneOf,
    Operator,
    Or,
    Predicate,
    Term,
    conjunction,
    disjunction,
)
from roamcast.model.filter.words import COMPARISONS, QUANTIFIERS, USAGE, about_unknown, shown
from roamcast.model.values import Kind, Point, Value, kind_of

JSON_BYTES_MAX = 65_536
JSON_NESTING_MAX = 64
"""Brackets within one another: two for each level of the deepest tree, and some for geometries."""

JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
JSON_BRACKET = re.compile(r"[\[\]{}]")


def parse_json(data: object) -> Filter:
    """The filter that CQL2-JSON says, given as text, as bytes, or already decoded; raises `BadFilter`."""
    return read_filter(decoded(data) if isinstance(data, str | bytes) else data)


def decoded(data: str | bytes) -> object:
    if len(data) > JSON_BYTES_MAX:
        raise BadFilter(f"filter of {len(data)} bytes; at most {JSON_BYTES_MAX}")
    # Before it is decoded, because a decoder recurses, and a thread may have little stack.
    if json_nesting(data) > JSON_NESTING_MAX:
        raise BadFilter(f"not JSON: more than {JSON_NESTING_MAX} brackets within one another")
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise BadFilter(f"not JSON: {shown(str(problem), 200)}") from None


def json_nesting(data: str | bytes) -> int:
    """The depth of brackets outside of texts; of what is not JSON, at least as deep as a decoder would get."""
    written = data if isinstance(data, str) else data.decode("latin-1")
    depth = deepest = 0
    for bracket in JSON_BRACKET.findall(JSON_TEXT.sub("", written)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def read_filter(data: object) -> Filter:
    """The filter of decoded CQL2-JSON; a text here is a value, not JSON to decode."""
    root = Reader().predicate(data, "", 1)
    try:
        return Filter(root)
    except ValueError as problem:
        raise BadFilter(str(problem)) from None


def read_condition(data: object, path: str) -> Predicate:
    """A condition on neighbours."""
    return Reader().predicate(data, path, 2)


class Reader:
    """Reads one filter and counts its parts."""

    def __init__(self) -> None:
        self.parts = 0

    def count(self, path: str) -> None:
        self.parts += 1
        if self.parts > NODES_MAX:
            raise BadFilter(f"more than {NODES_MAX} conditions and list members", path=path)

    def predicate(self, data: object, path: str, depth: int) -> Predicate:
        self.count(path)
        if depth > DEPTH_MAX:
            raise BadFilter(f"conditions nested deeper than {DEPTH_MAX}", path=path)
        match data:
            case bool():
                return Constant(data)
            case None:
                return UNKNOWN
            case {"property": _}:
                term = read_term(data, path)
                return UNKNOWN if term is None else Compare("=", term, Literal(True))
            case {"op": str(op), "args": list(args), **rest} if not rest:
                return self.operation(op, args, path, depth)
            case {"op": _}:
                raise BadFilter("an operation is an object of 'op' (text) and 'args' (a list) alone", path=path)
            case _:
                raise BadFilter(f"expected a condition, found {described(data)}", path=path)

    def operation(self, op: str, args: list[object], path: str, depth: int) -> Predicate:
        name = op.lower()
        if name in ("and", "or", "not"):
            return self.connective(name, args, path, depth)
        if name == "in":
            return self.membership(args, path)
        read = OPERATIONS.get(name)
        if read is not None:
            return read(name, args, path)
        if name.removeprefix("neighbours.") in QUANTIFIERS and name in USAGE:
            return self.quantifier(name, args, path)
        if name.startswith("neighbours.") and name in USAGE:
            raise BadFilter(f"{op} is a number; compare it, as in {USAGE[name].partition(' or ')[0]} > 3", path=path)
        if name == "myloc":
            raise BadFilter("myloc stands after IN: place IN myloc(steps)", path=path)
        raise BadFilter(about_unknown(op), path=path)

    def connective(self, name: str, args: list[object], path: str, depth: int) -> Predicate:
        inside = inner_path(path, "args")
        if not args or (name == "not" and len(args) != 1):
            wanted = "one argument" if name == "not" else "at least one argument"
            raise BadFilter(f"'{name}' takes {wanted}, found {len(args)}", path=path)
        parts = [self.predicate(each, f"{inside}[{index}]", depth + 1) for index, each in enumerate(args)]
        if name == "not":
            return Not(parts[0])
        return joined(And, parts) if name == "and" else joined(Or, parts)

    def quantifier(self, name: str, args: list[object], path: str) -> Predicate:
        """Whether a condition is true of one neighbour at least, or of all there are."""
        if len(args) != 1:
            raise BadFilter(f"write {USAGE[name]}", path=path)
        fitting = aggregated("count", "", args, f"{inner_path(path, 'args')}[0]", path)
        if name == "neighbours.any":
            return Compare(">", fitting, Literal(0))
        return Compare("=", fitting, Neighbours("count"))

    def membership(self, args: list[object], path: str) -> Predicate:
        inside = inner_path(path, "args")
        if len(args) != 2:
            raise BadFilter("'in' takes a value and a list", path=path)
        members = args[1] if isinstance(args[1], list) else [args[1]] if is_myloc(args[1]) else None
        if members is None:
            raise BadFilter(f"expected a list after IN, found {described(args[1])}", path=f"{inside}[1]")
        if not members:
            raise BadFilter("the list after IN is empty", path=f"{inside}[1]")
        term = read_term(args[0], f"{inside}[0]")
        by_kind: dict[Kind, list[Value]] = {}
        others: list[Predicate] = []
        for index, member in enumerate(members):
            at = f"{inside}[1][{index}]"
            self.count(at)
            self.member(member, at, term, by_kind, others)
        if term is None:
            return UNKNOWN
        lists: list[Predicate] = [OneOf(term, in_order(by_kind[kind])) for kind in Kind if kind in by_kind]
        return joined(Or, [*lists, *others])

    def member(
        self,
        data: object,
        path: str,
        term: Term | None,
        by_kind: dict[Kind, list[Value]],
        others: list[Predicate],
    ) -> None:
        if is_myloc(data):
            steps = read_steps(data, path)
            others.append(UNKNOWN if term is None else AtMyLoc(term, steps))
            return
        match read_term(data, path):
            case None:
                others.append(UNKNOWN)
            case Literal(value):
                by_kind.setdefault(kind_of(value), []).append(value)
            case other:
                others.append(UNKNOWN if term is None else Compare("=", term, other))


def joined(kind: type[And] | type[Or], parts: list[Predicate]) -> Predicate:
    """AND or OR of the parts, with parts of the same kind opened."""
    flat: list[Predicate] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) else (part,))
    return conjunction(flat) if kind is And else disjunction(flat)


def in_order(values: list[Value]) -> tuple[Value, ...]:
    """Sorted, none twice; positions have no order of their own, so by their coordinates."""
    distinct = list(dict.fromkeys(values))
    return tuple(sorted(distinct, key=lambda value: (value.x, value.y) if isinstance(value, Point) else value))


def is_myloc(data: object) -> bool:
    return isinstance(data, dict) and isinstance(op := data.get("op"), str) and op.lower() == "myloc"


def read_steps(data: object, path: str) -> int:
    match data:
        case {"op": _, "args": [steps], **rest} if not rest:
            found = read_number(steps, f"{inner_path(path, 'args')}[0]")
            if isinstance(found, int) and 0 <= found <= STEPS_MAX:
                return found
    raise BadFilter(f"myloc takes a whole number of steps, 0 to {STEPS_MAX}: place IN myloc(1)", path=path)


def read_comparison(name: str, args: list[object], path: str) -> Predicate:
    if len(args) != 2:
        raise BadFilter(f"'{name}' takes two values, found {len(args)}", path=path)
    left, right = read_values(args, path)
    return compared(cast(Operator, name), left, right)


def compared(operator: Operator, left: Term | None, right: Term | None) -> Predicate:
    return UNKNOWN if left is None or right is None else Compare(operator, left, right)


def read_values(args: list[object], path: str) -> list[Term | None]:
    return [read_term(each, f"{inner_path(path, 'args')}[{index}]") for index, each in enumerate(args)]


def read_between(name: str, args: list[object], path: str) -> Predicate:
    if len(args) != 3:
        raise BadFilter(f"'{name}' takes a value and two bounds", path=path)
    value, low, high = read_values(args, path)
    return And((compared(">=", value, low), compared("<=", value, high)))


def read_like(name: str, args: list[object], path: str) -> Predicate:
    if len(args) != 2:
        raise BadFilter(f"'{name}' takes a value and a pattern", path=path)
    inside = inner_path(path, "args")
    term = read_term(args[0], f"{inside}[0]")
    if args[1] is None:
        return UNKNOWN
    if not isinstance(args[1], str):
        raise BadFilter(
            f"the pattern after LIKE must be text in single quotes, found {described(args[1])}", path=f"{inside}[1]"
        )
    pattern = read_string(args[1], f"{inside}[1]")
    return UNKNOWN if term is None else Like(term, pattern)


def read_is_null(name: str, args: list[object], path: str) -> Predicate:
    if len(args) != 1:
        raise BadFilter(f"'{name}' takes one value", path=path)
    term = read_values(args, path)[0]
    return TRUE if term is None else IsNull(term)


OPERATIONS: dict[str, Callable[[str, list[object], str], Predicate]] = {
    **dict.fromkeys(COMPARISONS, read_comparison),
    "between": read_between,
    "like": read_like,
    "isnull": read_is_null,
    **dict.fromkeys((each for each in USAGE if each.startswith("s_")), read_spatial),
    **dict.fromkeys((each for each in USAGE if each.startswith("t_")), read_temporal),
    **dict.fromkeys(("near", "nearer"), read_near),
    **dict.fromkeys(("approaching", "receding"), read_closing),
}
"""What reads an operation, by its name in lower case."""
