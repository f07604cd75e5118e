"""Filter text (CQL2-text) to a filter: tokens to CQL2-JSON by recursive descent, then `read_json` makes the tree.

The two forms share one reader, so they cannot drift apart; what the reader refuses by its path in the JSON is
reported here by its place in the text. Work is linear in the text and nesting is bounded before anything recurses,
so hostile text costs no more than honest text, on any thread. That is why this does not call the `cql2` package,
whose parser crashes on deep text and takes time exponential in the depth of brackets around a mistake; it is the
reference that the tests compare with instead (docs/reference/FILTERS.md says where the two differ).

    or         = and { OR and }
    and        = not { AND not }
    not        = NOT not | comparison
    comparison = operand [ sign operand | IS [NOT] NULL
                         | [NOT] (BETWEEN operand AND operand | IN list | LIKE operand) ]
    list       = "(" operand { "," operand } ")" | call
    operand    = [+|-] number | text | TRUE | FALSE | NULL | name | call | geometry | "(" or ")"
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from roamcast.model.filter.bad_filter import BadFilter
from roamcast.model.filter.read_json import read_filter
from roamcast.model.filter.read_terms import inner_path
from roamcast.model.filter.tokens import Sort, Token, tokenize
from roamcast.model.filter.tree import DEPTH_MAX, Filter
from roamcast.model.filter.words import (
    ARITHMETIC,
    COMPARISONS,
    GEOMETRIES,
    NO_ARITHMETIC,
    OTHER_GEOMETRIES,
    USAGE,
    is_plain_name,
    shown,
)

NESTING_MAX = DEPTH_MAX
"""Brackets, NOTs and calls within one another; enough for the text of the deepest tree."""

VALUE = "a value (an attribute, a number, 'text', TRUE, FALSE, NULL or a function)"
JOINT = "AND, OR or the end of the filter"
CONSTANTS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}
Made = TypeVar("Made")


class Node(Struct, frozen=True):
    """A piece of CQL2-JSON and where its text begins: an operation, a list (no `op`), or a leaf (no `args`)."""

    start: int
    leaf: object = None
    op: str = ""
    args: "tuple[Node, ...] | None" = None


def parse_text(text: str) -> Filter:
    """The filter that `text` says; raises `BadFilter` with the position of what is wrong."""
    positions: dict[str, int] = {}
    data = unfolded(Parser(text).whole(), "", positions)
    try:
        return read_filter(data)
    except BadFilter as problem:
        raise BadFilter(problem.reason, position=place_of(problem.path, positions), text=text) from None


def unfolded(node: Node, path: str, positions: dict[str, int]) -> object:
    """The node as plain JSON values; notes where each path of it stands in the text."""
    positions[path] = node.start
    if node.args is None:
        return node.leaf
    inside = inner_path(path, "args") if node.op else path
    args = [unfolded(each, f"{inside}[{index}]", positions) for index, each in enumerate(node.args)]
    return {"op": node.op, "args": args} if node.op else args


def place_of(path: str, positions: dict[str, int]) -> int:
    """Where the path, or the smallest thing around it that has a place, begins in the text."""
    while path not in positions:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return positions[path]


class Parser:
    """One text; each method takes what its name says off the front, or raises `BadFilter`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.at = 0
        self.nesting = 0

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def fail(self, reason: str, position: int) -> BadFilter:
        return BadFilter(reason, position=position, text=self.text)

    def expected(self, what: str) -> BadFilter:
        token = self.next
        found = "the end" if token.sort is Sort.END else f"'{shown(token.value)}'"
        return self.fail(f"expected {what}, found {found}", token.start)

    def taken(self) -> Token:
        token = self.next
        self.at += 1
        return token

    def takes(self, *values: str) -> bool:
        """Takes these keywords or signs off the front if all of them stand there."""
        following = self.tokens[self.at : self.at + len(values)]
        if [each.value for each in following if each.sort in (Sort.KEYWORD, Sort.SIGN)] != list(values):
            return False
        self.at += len(values)
        return True

    def require(self, value: str, what: str) -> None:
        if not self.takes(value):
            raise self.expected(what)

    def nested(self, read: Callable[[], Made]) -> Made:
        if self.nesting >= NESTING_MAX:
            raise self.fail(f"more than {NESTING_MAX} brackets, NOTs and calls within one another", self.next.start)
        self.nesting += 1
        made = read()
        self.nesting -= 1
        return made

    def listed(self, read: Callable[[], Made], closing: str = "',' or ')'") -> list[Made]:
        """What stands in brackets, at least one."""
        self.require("(", "'('")
        found = [read()]
        while self.takes(","):
            found.append(read())
        self.require(")", closing)
        return found

    def whole(self) -> Node:
        if len(self.tokens) == 1:
            raise BadFilter("the filter is empty; TRUE accepts everything", position=0)
        node = self.either()
        if self.next.sort is not Sort.END:
            raise self.expected(JOINT)
        return node

    def either(self) -> Node:
        return self.joined("OR", self.both)

    def both(self) -> Node:
        return self.joined("AND", self.negation)

    def joined(self, word: str, read: Callable[[], Node]) -> Node:
        parts = [read()]
        while self.takes(word):
            parts.append(read())
        return parts[0] if len(parts) == 1 else Node(parts[0].start, op=word.lower(), args=tuple(parts))

    def negation(self) -> Node:
        start = self.next.start
        if self.takes("NOT"):
            return Node(start, op="not", args=(self.nested(self.negation),))
        return self.comparison()

    def comparison(self) -> Node:
        left = self.operand()
        token = self.next
        if token.sort is Sort.SIGN and token.value in COMPARISONS:
            self.at += 1
            node = Node(left.start, op=token.value, args=(left, self.value()))
            if self.next.sort is Sort.SIGN and self.next.value in COMPARISONS:
                raise self.fail("comparisons do not chain; write a < b AND b < c", self.next.start)
            return node
        if self.takes("IS", "NOT", "NULL"):
            return negated(Node(left.start, op="isNull", args=(left,)))
        if self.takes("IS", "NULL"):
            return Node(left.start, op="isNull", args=(left,))
        if self.takes("IS"):
            raise self.expected("NULL or NOT NULL after IS")
        if self.takes("NOT"):
            return negated(self.membership(left, "BETWEEN, IN or LIKE after NOT"))
        if token.value in ("BETWEEN", "IN", "LIKE") and token.sort is Sort.KEYWORD:
            return self.membership(left, "")
        return left

    def membership(self, left: Node, otherwise: str) -> Node:
        if self.takes("BETWEEN"):
            low = self.value()
            self.require("AND", "AND and the upper bound of BETWEEN")
            return Node(left.start, op="between", args=(left, low, self.value()))
        if self.takes("LIKE"):
            return Node(left.start, op="like", args=(left, self.value()))
        if not self.takes("IN"):
            raise self.expected(otherwise)
        start = self.next.start
        if self.next.value == "(" and self.next.sort is Sort.SIGN:
            members = tuple(self.nested(lambda: self.listed(self.value)))
        elif self.next.sort is Sort.NAME and self.tokens[self.at + 1].value == "(":
            members = (self.operand(),)
        else:
            raise self.expected("a list in brackets, such as (1, 2), or myloc(steps) after IN")
        return Node(left.start, op="in", args=(left, Node(start, args=members)))

    def value(self) -> Node:
        """An operand where text is likelier than a name, so that a name in needless double quotes is a mistake."""
        token = self.next
        if token.sort is Sort.QUOTED_NAME and is_plain_name(token.value):
            raise self.fail(
                f'"{shown(token.value)}" in double quotes is an attribute; use single quotes for text: '
                f"'{shown(token.value)}' (an attribute of this name needs no quotes)",
                token.start,
            )
        return self.operand()

    def operand(self) -> Node:
        node = self.primary()
        token = self.next
        if token.value.lower() in ARITHMETIC and token.sort in (Sort.SIGN, Sort.NAME):
            raise self.fail(f"'{token.value}': {NO_ARITHMETIC}", token.start)
        return node

    def primary(self) -> Node:
        token = self.next
        match token.sort:
            case Sort.NUMBER:
                return Node(token.start, leaf=self.number())
            case Sort.TEXT:
                return Node(self.taken().start, leaf=token.value)
            case Sort.QUOTED_NAME:
                return Node(self.taken().start, leaf={"property": token.value})
            case Sort.KEYWORD if token.value in CONSTANTS:
                return Node(self.taken().start, leaf=CONSTANTS[token.value])
            case Sort.NAME:
                return self.named()
            case Sort.SIGN if token.value in "+-":
                return Node(token.start, leaf=self.number())
            case Sort.SIGN if self.takes("("):
                node = self.nested(self.either)
                self.require(")", "AND, OR or ')'")
                return node
            case _:
                raise self.expected(VALUE)

    def number(self) -> int | float:
        start = self.next.start
        negative = self.takes("-")
        if not negative:
            self.takes("+")
        if self.next.sort is not Sort.NUMBER:
            if negative:
                raise self.fail(f"a minus sign stands only before a number; {NO_ARITHMETIC}", start)
            raise self.expected("a number")
        written = self.taken().value
        found: int | float = int(written) if written.isdigit() else float(written)
        return -found if negative else found

    def named(self) -> Node:
        token = self.taken()
        kind = token.value.upper()
        called = self.next.value == "(" and self.next.sort is Sort.SIGN
        if kind in OTHER_GEOMETRIES and (called or self.next.sort is Sort.NAME):
            raise self.fail(
                f"{kind} is not part of the filter language; use POINT, POLYGON, MULTIPOLYGON or BBOX", token.start
            )
        if kind in GEOMETRIES and self.next.value.upper() in ("Z", "M", "ZM", "EMPTY"):
            raise self.fail(f"{kind} {self.next.value}: a geometry has two dimensions and is not empty", token.start)
        if not called:
            return Node(token.start, leaf={"property": token.value})
        if kind in GEOMETRIES:
            return Node(token.start, leaf=self.geometry(kind))
        match kind:
            case "BBOX":
                return Node(token.start, leaf={"bbox": self.listed(self.number)})
            case "TIMESTAMP" | "DATE":
                return Node(token.start, leaf={kind.lower(): self.one_text(kind)})
            case "INTERVAL":
                ends = self.nested(lambda: self.listed(self.operand))
                return Node(token.start, leaf={"interval": [unfolded(each, "", {}) for each in ends]})
            case _:
                name = token.value.lower() if token.value.lower() in USAGE else token.value
                return Node(token.start, op=name, args=self.arguments())

    def arguments(self) -> tuple[Node, ...]:
        if self.takes("(", ")"):
            return ()
        return tuple(self.nested(lambda: self.listed(self.either)))

    def one_text(self, kind: str) -> str:
        self.require("(", "'('")
        if self.next.sort is not Sort.TEXT:
            raise self.expected(f"the {kind.lower()} in single quotes")
        found = self.taken().value
        self.require(")", "')'")
        return found

    def geometry(self, kind: str) -> dict[str, object]:
        match kind:
            case "POINT":
                self.require("(", "'('")
                point = self.coordinates()
                self.require(")", "')'")
                return {"type": "Point", "coordinates": point}
            case "POLYGON":
                return {"type": "Polygon", "coordinates": self.listed(self.ring)}
            case _:
                polygons = self.listed(lambda: self.listed(self.ring))
                return {"type": "MultiPolygon", "coordinates": polygons}

    def ring(self) -> list[list[int | float]]:
        return self.listed(self.coordinates)

    def coordinates(self) -> list[int | float]:
        found = [self.number(), self.number()]
        if self.next.sort is Sort.NUMBER or self.next.value in ("+", "-"):
            raise self.fail("a position has two coordinates, x and y", self.next.start)
        return found


def negated(node: Node) -> Node:
    return Node(node.start, op="not", args=(node,))
