"""The values that comparisons and lists leave to one term: an interval with holes, or a finite list.

An interval lies between two *cuts*. A cut is a place just before or just after a value, so open and closed ends
need no cases of their own: `x > 3` begins after 3, `x <= 3` ends after 3, and `x < 3` ends before it. Times are
whole microseconds and texts are ordered by code point, so "after 5 µs" is "before 6 µs" and "after 'a'" is "before
'a\\0'"; numbers are dense.

A domain is kept in one form, which makes containment exact: what is finite is listed, and an interval has no hole at
its ends and none outside.
"""

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from roamcast.model.filter.tree import (
    NODES_MAX,
    Compare,
    Literal,
    Not,
    OneOf,
    Operator,
    Predicate,
    Term,
    same_kind_operators,
)
from roamcast.model.values import Instant, Kind, Point, Value, kind_of

LISTED_MAX = NODES_MAX
"""The longest list; no list in a filter is longer, so no longer one needs to be compared with."""

Place: TypeAlias = tuple[float, bool] | tuple[str, bool]


class Cut(Struct, frozen=True):
    """Just before `value`, or just after it."""

    value: Value
    after: bool

    @property
    def place(self) -> Place:
        """Cuts of one kind compare by this."""
        match self.value:
            case str():
                return (self.value + "\0", False) if self.after else (self.value, False)
            case Instant(us):
                return (us + 1, False) if self.after else (us, False)
            case _:
                assert isinstance(self.value, int | float)  # nothing else has an order
                return (self.value, self.after)


class Domain(Struct, frozen=True):
    """All values of a kind from `low` to `high` without `holes`, or those in `listed`.

    `kind` alone matters too: a comparison is unknown for values of another kind, so a domain never holds them.
    """

    kind: Kind
    low: Cut | None = None
    high: Cut | None = None
    holes: frozenset[Value] = frozenset()
    listed: frozenset[Value] | None = None

    def holds(self, value: Value) -> bool:
        if kind_of(value) is not self.kind or value in self.holes:
            return False
        return value in self.listed if self.listed is not None else self.spans(value)

    def spans(self, value: Value) -> bool:
        """Whether a value of this kind lies between the cuts."""
        return (self.low is None or before(self.low, Cut(value, False))) and (
            self.high is None or before(Cut(value, True), self.high)
        )

    @property
    def empty(self) -> bool:
        return self.listed is not None and not self.listed

    def within(self, other: "Domain") -> bool:
        """Whether `other` holds every value of this one."""
        if self.listed is not None:
            return all(other.holds(value) for value in self.listed)
        if self.kind is not other.kind or other.listed is not None:
            return False
        return (
            (other.low is None or (self.low is not None and before(other.low, self.low)))
            and (other.high is None or (self.high is not None and before(self.high, other.high)))
            and not any(self.holds(hole) for hole in other.holes)
        )

    def meet(self, other: "Domain") -> "Domain":
        """The values in both."""
        if self.kind is not other.kind:
            return Domain(self.kind, listed=frozenset())
        if self.listed is not None or other.listed is not None:
            listed, rest = (self.listed, other) if self.listed is not None else (other.listed, self)
            assert listed is not None
            return Domain(self.kind, listed=frozenset(value for value in listed if rest.holds(value)))
        low = self.low if other.low is None or (self.low and before(other.low, self.low)) else other.low
        high = self.high if other.high is None or (self.high and before(self.high, other.high)) else other.high
        return tidied(Domain(self.kind, low, high, self.holes | other.holes))

    def join(self, other: "Domain") -> "Domain | None":
        """The values in either, if that is a domain again: lists, or what overlaps or touches."""
        if self.kind is not other.kind:
            return None
        if self.listed is not None and other.listed is not None:
            return Domain(self.kind, listed=self.listed | other.listed)
        if self.listed is not None:
            return other.join(self)
        if other.listed is None:
            return self.joined_interval(other)
        wide = self
        # Ascending from below and descending from above, each value may touch what the one before it widened.
        values = in_order(value for value in other.listed if not self.holds(value))
        for value in (*values, *reversed(values)):
            if wide.holds(value):
                continue
            if value in wide.holes:
                wide = replace(wide, holes=wide.holes - {value})
            elif wide.low is not None and wide.low.place == Cut(value, True).place:
                wide = replace(wide, low=Cut(value, False))
            elif wide.high is not None and wide.high.place == Cut(value, False).place:
                wide = replace(wide, high=Cut(value, True))
        return wide if all(wide.holds(value) for value in values) else None

    def joined_interval(self, other: "Domain") -> "Domain | None":
        for first, second in ((self, other), (other, self)):
            if first.high is not None and second.low is not None and not before(second.low, first.high):
                return None
        low = self.low if self.low and other.low and before(self.low, other.low) else self.low and other.low
        high = self.high if self.high and other.high and before(other.high, self.high) else self.high and other.high
        holes = {hole for hole in self.holes if not other.holds(hole)}
        holes |= {hole for hole in other.holes if not self.holds(hole)}
        return tidied(Domain(self.kind, low, high, frozenset(holes)))

    def written(self, term: Term) -> list[Predicate] | None:
        """Atoms over `term` that hold exactly here; None for "any value of this kind", which no atom says."""
        if self.listed is not None:
            values = in_order(self.listed)
            if len(values) == 1:
                return [Compare("=", term, Literal(values[0]))]
            return [OneOf(term, tuple(values))] if values else None
        parts: list[Predicate] = []
        if self.low is not None:
            parts.append(Compare(">" if self.low.after else ">=", term, Literal(self.low.value)))
        if self.high is not None:
            parts.append(Compare("<=" if self.high.after else "<", term, Literal(self.high.value)))
        holes = in_order(self.holes)
        if len(holes) == 1:
            parts.append(Compare("<>", term, Literal(holes[0])))
        elif holes:
            parts.append(Not(OneOf(term, tuple(holes))))
        return parts or None


def before(a: Cut, b: Cut) -> bool:
    """Whether cut `a` is not after cut `b`; both of one kind."""
    return a.place <= b.place  # type: ignore[operator]  # one kind has one type of place


def in_order(values: Iterable[Value]) -> list[Value]:
    """Values of one kind, ascending: as lists in a filter are."""
    return sorted(values, key=lambda value: (value.x, value.y) if isinstance(value, Point) else value)


def compared(operator: Operator, value: Value) -> Domain:
    """Where `x operator value` is true."""
    kind = kind_of(value)
    if operator not in same_kind_operators(kind):
        return Domain(kind, listed=frozenset())
    match operator:
        case "=":
            return Domain(kind, listed=frozenset({value}))
        case "<>":
            return excluding(kind, (value,))
        case "<" | "<=":
            return tidied(Domain(kind, high=Cut(value, operator == "<=")))
        case ">" | ">=":
            return tidied(Domain(kind, low=Cut(value, operator == ">")))


def excluding(kind: Kind, values: Iterable[Value]) -> Domain:
    if kind is Kind.BOOLEAN:
        return Domain(kind, listed=frozenset({False, True}) - frozenset(values))
    return tidied(Domain(kind, holes=frozenset(values)))


def tidied(domain: Domain) -> Domain:
    """The one form of an interval with holes: no hole at an end or outside, and listed if it is finite."""
    low, high = domain.low, domain.high
    if low is not None and low.place == ("", False):
        low = None
    while (first := least(domain.kind, low)) is not None and first in domain.holes:
        low = Cut(first, True)
        if high is not None and before(high, low):
            break
    while high is not None and (last := greatest(high)) is not None and last in domain.holes:
        high = Cut(last, False)
        if low is not None and before(high, low):
            break
    if high is not None and (high.place == ("", False) or (low is not None and before(high, low))):
        return Domain(domain.kind, listed=frozenset())
    open_ended = Domain(domain.kind, low, high)
    holes = frozenset(hole for hole in domain.holes if open_ended.spans(hole))
    listed = members(domain.kind, low, high)
    if listed is not None:
        return Domain(domain.kind, listed=frozenset(listed) - holes)
    return Domain(domain.kind, low, high, holes)


def least(kind: Kind, low: Cut | None) -> Value | None:
    """The smallest value above a cut, if there is one."""
    if low is None:
        return "" if kind is Kind.TEXT else None
    match low.value:
        case str(text):
            return text + "\0" if low.after else text
        case Instant(us):
            return Instant(us + 1) if low.after else low.value
        case value:
            return None if low.after else value


def greatest(high: Cut) -> Value | None:
    """The largest value below a cut, if there is one."""
    match high.value:
        case str(text):
            return text if high.after else text[:-1] if text.endswith("\0") else None
        case Instant(us):
            return high.value if high.after else Instant(us - 1)
        case value:
            return value if high.after else None


def members(kind: Kind, low: Cut | None, high: Cut | None) -> list[Value] | None:
    """Everything between two cuts, if that is a list of at most `LISTED_MAX`."""
    first = least(kind, low)
    if first is None or high is None:
        return None
    match first, high.place[0]:
        case Instant(us), int(end) if end - us <= LISTED_MAX:
            return [Instant(each) for each in range(us, end)]
        case str(text), str(end) if end.startswith(text) and not end[len(text) :].strip("\0"):
            count = len(end) - len(text)
            return [text + "\0" * each for each in range(count)] if count <= LISTED_MAX else None
        case ((int() | float()), _) if high == Cut(first, True):
            return [first]
        case _:
            return None
