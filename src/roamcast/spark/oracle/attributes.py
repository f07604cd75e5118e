"""Attributes as columns by name: from the maps of a table to what `model.filter.mask` reads.

Only the names that some filter asks for are ever looked at. The columns of a whole table are made once for a bucket,
and what a filter is asked about is taken from them by row.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from roamcast.model.filter.mask import Column, Flags, Pairs, Scalars, Texts
from roamcast.spark.oracle.boxes import Rows


class Attributes:
    """One map from names to values for each row of a table."""

    def __init__(self, maps: Any) -> None:
        maps = one_array(maps)
        self.rows = len(maps)
        offsets = np.asarray(maps.offsets)
        self._row = np.repeat(np.arange(self.rows), np.diff(offsets))
        self._names = maps.keys.slice(int(offsets[0]), len(self._row)) if self.rows else maps.keys
        self._items = maps.items.slice(int(offsets[0]), len(self._row)) if self.rows else maps.items
        self._known: dict[str, Column] = {}

    def column(self, name: str) -> Column:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._made(name)
        return known

    def _made(self, name: str) -> Column:
        if not len(self._row):
            return Column()
        entries = np.flatnonzero(pc.equal(self._names, name).to_numpy(zero_copy_only=False))
        if not len(entries):
            return Column()
        rows, items = self._row[entries], self._items.take(pa.array(entries))
        return Column(
            number=self._scalars(rows, items.field("number"), np.float64),
            text=self._texts(rows, items.field("text")),
            boolean=self._scalars(rows, items.field("flag"), np.bool_),
            time_us=self._scalars(rows, items.field("time_us"), np.int64),
            position=self._pairs(rows, items.field("x"), items.field("y")),
        )

    def _scalars(self, rows: Rows, cells: Any, dtype: type) -> Scalars | None:
        there = rows[valid(cells)]
        if not len(there):
            return None
        values: npt.NDArray[Any] = np.zeros(self.rows, dtype)
        known = np.zeros(self.rows, np.bool_)
        values[there] = cells.drop_null().to_numpy(zero_copy_only=False)
        known[there] = True
        return Scalars(values, known)

    def _texts(self, rows: Rows, cells: Any) -> Texts | None:
        there = rows[valid(cells)]
        return None if not len(there) else texts(cells.drop_null(), there, self.rows)

    def _pairs(self, rows: Rows, x: Any, y: Any) -> Pairs | None:
        there = rows[valid(x)]
        if not len(there):
            return None
        xs, ys, known = np.zeros(self.rows), np.zeros(self.rows), np.zeros(self.rows, np.bool_)
        xs[there], ys[there] = x.drop_null().to_numpy(), y.drop_null().to_numpy()
        known[there] = True
        return Pairs(xs, ys, known)


def one_array(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def valid(cells: Any) -> Flags:
    found: Flags = cells.is_valid().to_numpy(zero_copy_only=False)
    return found


def texts(cells: Any, rows: Rows, count: int) -> Texts:
    """Texts at some rows out of so many."""
    coded = cells.dictionary_encode()
    words = coded.dictionary.to_pylist()
    order = sorted(range(len(words)), key=words.__getitem__)
    rank = np.empty(len(words), np.int64)
    rank[order] = np.arange(len(words))
    ranks, known = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    ranks[rows] = rank[coded.indices.to_numpy(zero_copy_only=False)]
    known[rows] = True
    return Texts(ranks, tuple(words[index] for index in order), known)


def taken(column: Column, rows: Rows) -> Column:
    """The column's values at the given rows; a negative row has none."""
    there, held = rows >= 0, np.maximum(rows, 0)

    def scalars(part: Scalars | None) -> Scalars | None:
        return None if part is None else Scalars(part.values[held], part.valid[held] & there)

    def words(part: Texts | None) -> Texts | None:
        return None if part is None else Texts(part.ranks[held], part.vocabulary, part.valid[held] & there)

    def pairs(part: Pairs | None) -> Pairs | None:
        return None if part is None else Pairs(part.x[held], part.y[held], part.valid[held] & there)

    return Column(
        number=scalars(column.number),
        text=words(column.text),
        boolean=scalars(column.boolean),
        time_us=scalars(column.time_us),
        position=pairs(column.position),
    )


def all_taken(attributes: Attributes, names: tuple[str, ...], rows: Rows) -> Mapping[str, Column]:
    return {name: taken(attributes.column(name), rows) for name in names}
