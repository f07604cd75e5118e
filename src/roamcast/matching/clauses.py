"""Clauses in columns: each subscription's ranges, one linked to the next, over numbered columns of event values."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roamcast.matching.layout import CLAUSE, NONE, Doubles, Records, enlarged
from roamcast.matching.registry import Registry
from roamcast.model.filter.clauses import Clause, ColumnKey, number_of
from roamcast.model.values import Kind, Point, Value, kind_of

COLUMNS_MAX = 256
"""The most attributes that clauses are about; what is asked of further ones is left to the model's closures."""
WHOLE_COLUMNS_MAX = 8
WHOLE_COLUMNS_EVENTS_MIN = 9
"""So many columns of so many events are written one by one; else each event is asked what it has."""
NUMBERS = {int, float}


class Clauses:
    def __init__(self) -> None:
        self.rows: Records = np.zeros(16, CLAUSE)
        self.columns: Registry[ColumnKey] = Registry(COLUMNS_MAX)
        self.texts: Registry[str] = Registry()
        self._row = self.blank(1)
        self._end = 0
        self._free: list[int] = []

    def take(self, clauses: tuple[Clause, ...]) -> int | None:
        """The first of a chain; None if there are no columns left for it."""
        first = NONE
        for clause in clauses:
            column = self.columns.take(clause.column)
            if column is None:
                self.drop(first)
                return None
            low, high = clause.low, clause.high
            if clause.text is not None:
                code = self.texts.take(clause.text)
                assert code is not None
                low = high = float(code)
            number = self._free.pop() if self._free else self._end
            self._end = max(self._end, number + 1)
            self.rows = enlarged(self.rows, self._end)
            self.rows[number] = (low, high, column, first)
            first = number
        return first

    def drop(self, first: int) -> None:
        while first != NONE:
            row = self.rows[first]
            column = self.columns.keys[row["column"]]
            assert column is not None
            if column[1] is Kind.TEXT:
                self.texts.drop(int(row["low"]))
            self.columns.drop(int(row["column"]))
            self._free.append(first)
            first = int(row["after"])

    def blank(self, events: int) -> Doubles:
        """A row for each event; NaN is a value that is missing, or of another kind."""
        return np.full((events, max(1, len(self.columns.keys))), math.nan)

    def values(self, attributes: Sequence[Mapping[str, Value]]) -> Doubles:
        """A row for each event, if clauses ask for anything; good until the next are asked for."""
        if not self.columns.numbers:
            return self._row
        if len(attributes) == 1:
            return self._values_of_one(attributes[0])
        rows, numbers = self.blank(len(attributes)), self.columns.numbers
        if len(numbers) <= WHOLE_COLUMNS_MAX and len(attributes) >= WHOLE_COLUMNS_EVENTS_MIN:
            for key, column in numbers.items():
                rows[:, column] = self._column(key, attributes)
        else:
            places, values = list[int](), list[float]()
            for index, each in enumerate(attributes):
                self.collect(each, index * rows.shape[1], places, values)
            rows.reshape(-1)[places] = values
        return rows

    def _values_of_one(self, attributes: Mapping[str, Value]) -> Doubles:
        """In a row that is kept: to make one takes longer than to write it."""
        if self._row.shape[1] != max(1, len(self.columns.keys)):
            self._row = self.blank(1)
        self._row.fill(math.nan)
        places, values = list[int](), list[float]()
        self.collect(attributes, 0, places, values)
        for place, value in zip(places, values, strict=True):
            self._row[0, place] = value
        return self._row

    def _column(self, key: ColumnKey, attributes: Sequence[Mapping[str, Value]]) -> list[float]:
        name, kind = key
        given: list[Any] = [each.get(name) for each in attributes]
        types = {*map(type, given)}
        if kind is Kind.NUMBER and types <= NUMBERS:
            return given
        if kind is Kind.TEXT and types == {str}:
            return [self.texts.numbers.get(text, math.nan) for text in given]
        return [self._number(kind, value) for value in given]

    def _number(self, kind: Kind | str, value: Value | None) -> float:
        """What stands for a value in a column of this kind, or of a coordinate; NaN if it is of another one."""
        if isinstance(value, Point):
            return value.x if kind == "x" else value.y if kind == "y" else math.nan
        if value is None or kind_of(value) is not kind:
            return math.nan
        number = self.texts.numbers.get(value) if isinstance(value, str) else number_of(value)
        return math.nan if number is None else number

    def collect(self, attributes: Mapping[str, Value], begin: int, places: list[int], values: list[float]) -> None:
        """Appends an event's values and where they belong, in a row that begins there."""
        numbers = self.columns.numbers
        if not numbers:
            return
        for name, value in attributes.items():
            if isinstance(value, Point):
                for key, coordinate in (((name, "x"), value.x), ((name, "y"), value.y)):
                    if key in numbers:
                        places.append(begin + numbers[key])
                        values.append(coordinate)
                continue
            column = numbers.get((name, kind_of(value)))
            if column is None:
                continue
            number = self.texts.numbers.get(value) if isinstance(value, str) else number_of(value)
            if number is not None:
                places.append(begin + column)
                values.append(number)
