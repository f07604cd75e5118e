"""An index of fences: finds the few that a move can concern, for which the model's definition is then evaluated.

    touched(start, end)     the names of the fences whose border a way may pass
    touched(None, end)      those that may hold a place

`model/fence.py` says what a move means for a fence. It means nothing where the way stays on one side of the border;
that is decided here for all fences at once: regions lie in columns and in the grid of the matching engine
(`pool.py`), by a circle around each, and a compiled kernel looks at those that a way comes near (`fence_kernel.py`).
Few fences, and those that fit into no cells, are looked at one by one.

A fence takes about 150 bytes: no object is kept of it, and `get` makes one.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from roamcast.matching.fence_layout import (
    BOX,
    CIRCLE_FENCE,
    FENCE_SLOT,
    LOOSE_M,
    POLEWARD_DEGREES,
    POLYGON,
    ROW,
    WIDE_DEGREES,
)
from roamcast.matching.layout import NONE, Doubles, Records, Whole, enlarged
from roamcast.matching.metric import around_shape, check_space, is_flat, straight
from roamcast.matching.names import Names
from roamcast.matching.pool import UNCELLED, Pool, fits_cells, radius_class
from roamcast.matching.registry import Registry
from roamcast.model.fence import Fence, FenceRule
from roamcast.model.region import Anchored, Box, Circle, Polygon, Shape
from roamcast.model.space import Space, metres_per_degree, wrapped
from roamcast.model.values import BadValue, Point
from roamcast.model.way import Way, length_max_m, outline, to_border_m

FEW = 16
"""So many fences are looked at one by one."""
CHANNEL = 0


class FenceIndex:
    def __init__(self, space: Space) -> None:
        check_space(space)
        self.space = space
        self._flat = is_flat(space)
        self._clear()

    def _clear(self) -> None:
        self._names = Names()
        self._rules: Registry[FenceRule] = Registry()
        self._rows: Records = np.zeros(16, ROW)
        self._slots: Records = np.zeros(16, FENCE_SLOT)
        self._corners: Doubles = np.zeros((16, 2))
        self._corners_end = self._corners_lost = 0
        self._pool = Pool(self._flat)
        self._pool.make_known(CHANNEL)
        self._wide: dict[int, None] = {}
        """Those that fit into no cells."""
        self._hits: Whole = np.zeros((1_024, 2), np.int32)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def nbytes(self) -> int:
        """What its columns and names take."""
        pool = self._pool
        columns = (self._rows, self._slots, self._corners, pool.entries, pool.heights, pool.groups, pool.cells)
        return sum(each.nbytes for each in columns) + self._names.nbytes

    def get(self, name: str) -> Fence | None:
        number = self._names.find(name)
        return None if number < 0 else self._fence(number)

    def at(self, number: int) -> Fence:
        """One that `touched_all` has found."""
        return self._fence(number)

    def name(self, number: int) -> str:
        """Of a fence that `touched_all` has found."""
        return self._names.name(number)

    def warm_up(self) -> None:
        """Has the kernel compiled, or read from its cache, so that no move has to wait for it."""
        other = FenceIndex(self.space)
        other.put_all(Fence(f"{number}", Circle(Point(0.0, 0.0), 10.0)) for number in range(FEW + 1))
        other.touched_all([0.0], [0.0], [1.0], [1.0])

    # Fences come and go.

    def put_all(self, fences: Iterable[Fence]) -> None:
        """In place of those of their names."""
        groups: dict[int, list[tuple[int, tuple[float, float, float], float]]] = {}
        for fence in fences:
            if isinstance(fence.region, Anchored):
                raise BadValue(f"'{fence.name}' moves with a host; the index holds fences that lie still")
            self.remove(fence.name)
            number = self._write(fence, fence.region)
            around = None if self._is_wide(fence.region) else around_shape(fence.region, self.space)
            at = (np.nan, np.nan, 0.0) if around is None else straight(around.centre, self.space)
            size = UNCELLED if around is None else radius_class(around.reach_m)
            if around is None or size == UNCELLED or not fits_cells(at[0], at[1]):
                self._wide[number] = None
            else:
                groups.setdefault(size, []).append((number, at, around.reach_m))
        for size, entries in groups.items():
            self._pool.insert_all(self._slots, (CHANNEL, 0, size), entries)

    def remove(self, name: str) -> bool:
        number = self._names.find(name)
        if number < 0:
            return False
        row = self._rows[number]
        if self._slots["entry"][number] != NONE:
            self._pool.remove(self._slots, number)
        self._wide.pop(number, None)
        self._rules.drop(int(row["rule"]))
        self._corners_lost += int(row["count"])
        self._names.remove(number)
        if not len(self._names):
            self._clear()
        elif 2 * self._corners_lost > self._corners_end:
            self._pack_corners()
        return True

    def _write(self, fence: Fence, shape: Shape) -> int:
        number = self._names.add(fence.name)
        self._rows, self._slots = enlarged(self._rows, number + 1), enlarged(self._slots, number + 1)
        rule = self._rules.take(fence.rule)
        assert rule is not None
        match shape:
            case Circle(centre, radius_m):
                said = (centre.x, centre.y, radius_m, 0.0, rule, 0, 0, CIRCLE_FENCE)
            case Box(low, high):
                said = (low.x, low.y, high.x, high.y, rule, 0, 0, BOX)
            case Polygon(corners):
                begin, end = self._corners_end, self._corners_end + len(corners)
                self._corners = enlarged(self._corners, end)
                self._corners[begin:end] = [(corner.x, corner.y) for corner in corners]
                self._corners_end = end
                said = (0.0, 0.0, 0.0, 0.0, rule, begin, len(corners), POLYGON)
        self._rows[number] = said
        self._slots[number] = (0, NONE, NONE, NONE, 0)
        return number

    def _is_wide(self, shape: Shape) -> bool:
        """On Earth: over the date line in a box, as far as a pole, or around half of it."""
        if self._flat or isinstance(shape, Circle):
            return False
        xs, ys = [corner.x for corner in outline(shape)], [abs(corner.y) for corner in outline(shape)]
        across = isinstance(shape, Box) and shape.low.x > shape.high.x
        return across or max(ys) > POLEWARD_DEGREES or max(xs) - min(xs) > WIDE_DEGREES

    def _pack_corners(self) -> None:
        kept, end = np.zeros_like(self._corners), 0
        for number in self._numbers():
            begin, count = int(self._rows["corners"][number]), int(self._rows["count"][number])
            kept[end : end + count] = self._corners[begin : begin + count]
            self._rows["corners"][number] = end
            end += count
        self._corners, self._corners_end, self._corners_lost = kept, end, 0

    def _numbers(self) -> Iterator[int]:
        return (number for number in range(len(self._rows)) if self._names.is_used(number))

    def _fence(self, number: int) -> Fence:
        rule = self._rules.keys[int(self._rows["rule"][number])]
        assert rule is not None
        return Fence(self._names.name(number), self._shape(number), rule)

    def _shape(self, number: int) -> Shape:
        a, b, c, d, _, begin, count, kind = self._rows[number].item()
        if kind == CIRCLE_FENCE:
            return Circle(Point(a, b), c)
        if kind == BOX:
            return Box(Point(a, b), Point(c, d))
        return Polygon(tuple(Point(x, y) for x, y in self._corners[begin : begin + count].tolist()))

    # Moves.

    def touched(self, start: Point | None, end: Point) -> list[str]:
        if len(self._names) <= FEW:
            return [self._names.name(each) for each in self._numbers() if self._may_touch(each, start, end)]
        from_ = end if start is None else start
        _, found = self._search(np.array([[from_.x, from_.y, end.x, end.y]]), start is None)
        wide = [each for each in self._wide if self._may_touch(each, start, end)]
        return [self._names.name(int(each)) for each in (*found, *wide)]

    def touched_all(
        self, from_x: ArrayLike, from_y: ArrayLike, to_x: ArrayLike, to_y: ArrayLike
    ) -> tuple[Whole, Whole]:
        """Of many ways: by pairs, which way, and the number of a fence that it may touch."""
        ways = np.stack([np.asarray(each, np.float64) for each in (from_x, from_y, to_x, to_y)], axis=1)
        which, found = self._search(np.ascontiguousarray(ways), False)
        pairs = [
            (index, number)
            for number in self._wide
            for index, way in enumerate(ways.tolist())
            if self._may_touch(number, Point(*way[:2]), Point(*way[2:]))
        ]
        if not pairs:
            return which, found
        more = np.array(pairs, np.int32)
        return np.concatenate((which, more[:, 0])), np.concatenate((found, more[:, 1]))

    def _may_touch(self, number: int, start: Point | None, end: Point) -> bool:
        """Whether the border is no farther from the middle of the way than half its length."""
        way = Way(end if start is None else start, end)
        middle = way.at(0.5, self.space)
        off_m = to_border_m(self._shape(number), middle, self.space)
        if start is None:
            return off_m <= LOOSE_M
        east, north = end.x - start.x, end.y - start.y
        if self._flat:
            length_m = float(np.hypot(east, north))
        else:
            north_m, east_m = metres_per_degree(middle.y)
            length_m = max(float(np.hypot(wrapped(east) * east_m, north * north_m)), length_max_m(way))
        return abs(off_m) <= length_m / 2 * 1.000_001 + LOOSE_M

    @cached_property
    def _kernel(self) -> Any:
        from roamcast.matching.fence_kernel import search_ways

        return search_ways

    def _search(self, ways: Doubles, is_first: bool) -> tuple[Whole, Whole]:
        pool, first, parts = self._pool, 0, list[Whole]()
        while first < len(ways):
            reached, count = self._kernel(
                first, ways, is_first, int(pool.channel_groups[CHANNEL]), *self._columns(), self._flat, pool.runs,
                self._hits,
            )  # fmt: skip
            parts.append(self._hits[:count].copy())
            if reached == first:
                # Not even one way has room.
                self._hits = np.zeros((2 * len(self._hits), 2), np.int32)
            first = reached
        found = np.concatenate(parts) if parts else self._hits[:0]
        return found[:, 0], found[:, 1]

    def _columns(self) -> tuple[Any, ...]:
        """Records as plain numbers: a field by its name costs ten times as much in compiled code."""
        pool = self._pool
        groups, entries = pool.groups, pool.entries
        return (
            groups.view(np.int64).reshape(len(groups), -1),
            groups.view(np.float64).reshape(len(groups), -1),
            groups.view(np.int32).reshape(len(groups), -1),
            pool.cells,
            entries.view(np.float64).reshape(len(entries), -1),
            entries.view(np.int32).reshape(len(entries), -1),
            pool.heights,
            self._rows.view(np.float64).reshape(len(self._rows), -1),
            self._rows.view(np.int32).reshape(len(self._rows), -1),
            self._corners,
        )
