"""Finding the filters that an event may satisfy without asking all of them.

Most filters demand something of one attribute that is easy to look up: that it is one of a few values, that a number
is in a range, that a position is in a shape. Each filter is kept under the most telling of these demands, and an
event is held only against those whose demand it meets. What is found may still say no; what is not found says no for
sure.

Ranges and shapes lie in cells as large as they are, so each touches at most two cells along an axis, and a value is
looked up in two cells of each size in use, however many ranges there are. Ranges without an end lie sorted by their
other end.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import le
from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct

from roamcast.model.filter.clauses import ColumnKey, clauses_of, number_of
from roamcast.model.filter.tree import And, Attribute, Filter, Inside, OneOf
from roamcast.model.region import Circle
from roamcast.model.values import Kind, Point, Value

Found = TypeVar("Found")
Key: TypeAlias = Value | float
EVERY_NUMBER = (-math.inf, math.inf)
REACH_MAX = 1e12
"""Beyond this a number is not put into cells: the cells of small ranges would not be exact."""


class OneOfValues(Struct, frozen=True):
    name: str
    values: tuple[Key, ...]


class InBox(Struct, frozen=True):
    """A position, or a number as a box of one dimension."""

    name: str
    low: tuple[float, ...]
    high: tuple[float, ...]


class Beyond(Struct, frozen=True):
    """A number above `limit`, or below it; the limit itself may be in or out."""

    name: str
    limit: float
    above: bool


Demand: TypeAlias = OneOfValues | InBox | Beyond


def demand_of(filter_: Filter, flat: bool) -> Demand | None:
    """The most telling demand of a filter, if it has any; circles only where space is `flat`."""
    found: list[Demand] = []
    ranges: dict[ColumnKey, tuple[float, float]] = {}
    for part in filter_.root.parts if isinstance(filter_.root, And) else (filter_.root,):
        for clause in clauses_of(part) or ():
            low, high = ranges.get(clause.column, EVERY_NUMBER)
            ranges[clause.column] = max(low, clause.low), min(high, clause.high)
            if clause.text is not None:
                found.append(OneOfValues(clause.column[0], (clause.text,)))
        match part:
            case OneOf(Attribute(name), values):
                found.append(OneOfValues(name, tuple(dict.fromkeys(map(key_of, values)))))
            case Inside(Attribute(name), Circle(centre, radius_m)) if flat:
                # A little wider, because a point on the rim may be rounded to either side.
                reach_m = radius_m * (1 + 1e-9) + 1e-6
                x, y = centre.x, centre.y
                found += box(name, (x - reach_m, y - reach_m), (x + reach_m, y + reach_m))
    for column in ranges:
        found += demands_of_range(column, ranges)
    return min(found, key=telling, default=None)


def demands_of_range(column: ColumnKey, ranges: dict[ColumnKey, tuple[float, float]]) -> list[Demand]:
    (name, kind), (low, high) = column, ranges[column]
    match kind:
        case Kind.TEXT | "y":
            return []
        case "x":
            south, north = ranges[name, "y"]
            return box(name, (low, south), (high, north))
        case _ if low == high:
            return [OneOfValues(name, (low,))]
        case _ if low < high < math.inf:
            return [*box(name, (low,), (high,)), Beyond(name, high, False)]
        case _:
            return [Beyond(name, low, True)]


def telling(demand: Demand) -> tuple[int, float]:
    match demand:
        case OneOfValues(_, values):
            return 0, len(values)
        case InBox(_, low, high):
            return 1, math.prod(b - a for a, b in zip(low, high, strict=True))
        case Beyond():
            return 2, 0


def key_of(value: Value) -> Key:
    """Under which a value is looked up: equal values have the same."""
    number = number_of(value)
    return value if number is None else number


def box(name: str, low: tuple[float, ...], high: tuple[float, ...]) -> list[Demand]:
    """None beyond the reach, nor where nothing is between the ends."""
    within_reach = all(-REACH_MAX <= a <= b <= REACH_MAX for a, b in zip(low, high, strict=True))
    return [InBox(name, low, high)] if within_reach else []


def may_cover(wide: Demand | None, narrow: Demand | None) -> bool:
    """Whether a filter with one demand may cover one with another; if not, no event meets both demands.

    Cheap beside the question whether it does, which is asked of each pair of filters of a subject.
    """
    if wide is None or narrow is None or wide.name != narrow.name:
        return True
    if isinstance(wide, OneOfValues) and isinstance(narrow, OneOfValues):
        return not set(wide.values).isdisjoint(narrow.values)
    if isinstance(wide, InBox) and isinstance(narrow, InBox) and len(wide.low) == len(narrow.low):
        return all(map(le, wide.low, narrow.high)) and all(map(le, narrow.low, wide.high))
    return True


class Cells(Generic[Found]):
    """Boxes of one number of dimensions, in cells of their own size."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        """By the power of two that is a cell's side, how many boxes have it."""
        self.at: dict[tuple[int, ...], dict[Filter, Found]] = {}

    def _place(self, low: tuple[float, ...], high: tuple[float, ...]) -> tuple[int, ...]:
        widest = max(b - a for a, b in zip(low, high, strict=True))
        power = max(math.frexp(widest)[1], -20)
        return (power, *(math.floor(each / 2.0**power) for each in low))

    def add(self, low: tuple[float, ...], high: tuple[float, ...], filter_: Filter, found: Found) -> None:
        place = self._place(low, high)
        self.sizes[place[0]] = self.sizes.get(place[0], 0) + 1
        self.at.setdefault(place, {})[filter_] = found

    def remove(self, low: tuple[float, ...], high: tuple[float, ...], filter_: Filter) -> None:
        place = self._place(low, high)
        self.sizes[place[0]] -= 1
        if not self.sizes[place[0]]:
            del self.sizes[place[0]]
        del self.at[place][filter_]
        if not self.at[place]:
            del self.at[place]

    def around(self, point: tuple[float, ...]) -> Iterator[Found]:
        for power in self.sizes:
            places: list[tuple[int, ...]] = [(power,)]
            for each in point:
                cell = math.floor(each / 2.0**power)
                places = [(*place, near) for place in places for near in (cell - 1, cell)]
            for place in places:
                yield from self.at.get(place, {}).values()


class Limits(Generic[Found]):
    """Ranges without an end, sorted by the end they have."""

    def __init__(self) -> None:
        self.limits: list[float] = []
        self.at: dict[float, dict[Filter, Found]] = {}

    def add(self, limit: float, filter_: Filter, found: Found) -> None:
        if limit not in self.at:
            self.limits.insert(bisect_left(self.limits, limit), limit)
        self.at.setdefault(limit, {})[filter_] = found

    def remove(self, limit: float, filter_: Filter) -> None:
        del self.at[limit][filter_]
        if not self.at[limit]:
            del self.at[limit], self.limits[bisect_left(self.limits, limit)]

    def from_(self, value: float) -> Iterator[Found]:
        """Those whose limit is the value or more."""
        for limit in self.limits[bisect_left(self.limits, value) :]:
            yield from self.at[limit].values()

    def up_to(self, value: float) -> Iterator[Found]:
        for limit in self.limits[: bisect_right(self.limits, value)]:
            yield from self.at[limit].values()


class ByAttribute(Generic[Found]):
    """All demands on one attribute."""

    def __init__(self) -> None:
        self.values: dict[Key, dict[Filter, Found]] = {}
        self.numbers: Cells[Found] = Cells()
        self.positions: Cells[Found] = Cells()
        self.above: Limits[Found] = Limits()
        self.below: Limits[Found] = Limits()

    def candidates(self, value: Value) -> Iterator[Found]:
        number = number_of(value)
        yield from self.values.get(value if number is None else number, {}).values()
        if isinstance(value, Point):
            if max(abs(value.x), abs(value.y)) <= 2 * REACH_MAX:
                yield from self.positions.around((value.x, value.y))
        elif number is not None:
            if abs(number) <= 2 * REACH_MAX:
                yield from self.numbers.around((number,))
            yield from self.above.up_to(number)
            yield from self.below.from_(number)


class Finder(Generic[Found]):
    """Filters, and what is found under them."""

    def __init__(self, flat: bool) -> None:
        self.flat = flat
        self.by_attribute: dict[str, ByAttribute[Found]] = {}
        self.others: dict[Filter, Found] = {}

    def add(self, filter_: Filter, found: Found) -> None:
        demand = demand_of(filter_, self.flat)
        if demand is None:
            self.others[filter_] = found
            return
        at = self.by_attribute.setdefault(demand.name, ByAttribute())
        match demand:
            case OneOfValues(_, values):
                for value in values:
                    at.values.setdefault(value, {})[filter_] = found
            case InBox(_, low, high):
                (at.numbers if len(low) == 1 else at.positions).add(low, high, filter_, found)
            case Beyond(_, limit, above):
                (at.above if above else at.below).add(limit, filter_, found)

    def remove(self, filter_: Filter) -> None:
        demand = demand_of(filter_, self.flat)
        if demand is None:
            del self.others[filter_]
            return
        at = self.by_attribute[demand.name]
        match demand:
            case OneOfValues(_, values):
                for value in values:
                    del at.values[value][filter_]
                    if not at.values[value]:
                        del at.values[value]
            case InBox(_, low, high):
                (at.numbers if len(low) == 1 else at.positions).remove(low, high, filter_)
            case Beyond(_, limit, above):
                (at.above if above else at.below).remove(limit, filter_)

    def candidates(self, attributes: dict[str, Value]) -> Iterator[Found]:
        """What may be satisfied, each once."""
        yield from self.others.values()
        for name, at in self.by_attribute.items():
            value = attributes.get(name)
            if value is not None:
                yield from at.candidates(value)
