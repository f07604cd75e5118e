"""Attributes of hosts, from columns beside their positions.

Each combination of values has a number, which travels with the fixes. A host has the attributes of its last fix:
where they change, in order of time, the journal has a row in `contexts`.
"""

from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roamcast.importer.fixes import FIXES, BadImport, FixRows
from roamcast.journal import ContextChange
from roamcast.model.values import Instant, Value

NONE = 0
"""The number of no attributes at all."""


class HostAttributes:
    def __init__(self) -> None:
        self._known: list[dict[str, Value]] = [{}]
        self._numbers: dict[tuple[tuple[str, Value], ...], int] = {(): NONE}
        self._last: dict[int, int] = {}

    def numbers_of(self, batch: Any, where: str) -> npt.NDArray[np.int32]:
        """For each row of a batch the number of its attributes."""
        names = batch.schema.names[len(FIXES) :]
        if not names:
            return np.full(batch.num_rows, NONE, np.int32)
        coded = [batch[name].dictionary_encode() for name in names]
        codes = np.stack([each.indices.fill_null(-1).to_numpy(zero_copy_only=False) for each in coded], axis=1)
        values = [[*(value_of(each, where) for each in column.dictionary), None] for column in coded]
        combinations, of_row = np.unique(codes, axis=0, return_inverse=True)
        numbers = [
            self._number_of(tuple((n, v[c]) for n, v, c in zip(names, values, row, strict=True) if v[c] is not None))
            for row in combinations.tolist()
        ]
        return np.array(numbers, np.int32)[of_row.ravel()]

    def _number_of(self, combination: tuple[tuple[str, Value], ...]) -> int:
        number = self._numbers.setdefault(combination, len(self._known))
        if number == len(self._known):
            self._known.append(dict(combination))
        return number

    def changes(self, fixes: FixRows, hosts: list[str]) -> list[ContextChange]:
        """What is new in fixes that come in order of time, range after range."""
        if len(self._known) == 1:
            return []
        order = np.lexsort((fixes["at_us"], fixes["host"]))
        host, number = fixes["host"][order], fixes["attributes"][order]
        differs = np.ones(len(order), np.bool_)
        differs[1:] = (host[1:] != host[:-1]) | (number[1:] != number[:-1])
        found = []
        for row in order[differs].tolist():
            who, now = int(fixes["host"][row]), int(fixes["attributes"][row])
            if self._last.get(who, NONE) != now:
                self._last[who] = now
                found.append(ContextChange(hosts[who], int(fixes["at_us"][row]), self._known[now]))
        return sorted(found, key=lambda change: change.at_us)


def value_of(cell: Any, where: str) -> Value:
    """As filters know values: numbers, texts, flags and instants."""
    value = cell.as_py()
    if isinstance(value, datetime) and value.tzinfo is not None:
        return Instant(cell.cast(pa.timestamp("us", "UTC")).value)
    if isinstance(value, bool | int | float | str):
        return value
    raise BadImport(
        f"{where}: an attribute is {cell.type}; give a column of numbers, texts, flags or times with a zone"
    )
