"""Which transitions ideal fences tell of a host's way: `model/fence.py`, folded over the fixes of each host.

A worker has the fixes of some hosts in order. A fence is asked about a fix if its state is not *outside*, or if the
way to that fix touches the box around its region; of the others a fix changes nothing but where the way goes on from.
So the answers are those of the definition, asked far less often.

A fence that moves with a host is asked about each fix of the others, with the place of that host which the broker of
the fix knew of before it (`Anchors`).
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from roamcast.journal.plain import attributes_of
from roamcast.model.context import Context
from roamcast.model.fence import (
    ANCHOR_KEPT_US,
    BEGIN,
    OUTSIDE,
    Fence,
    Occurrence,
    State,
    concerns,
    elapsed,
    fix_of,
    step,
)
from roamcast.model.filter.mask import Floats
from roamcast.model.region import Anchored, Box, Circle, Polygon
from roamcast.model.space import Plane, Space
from roamcast.model.values import Point
from roamcast.spark.oracle.boxes import Boxes, Rows, grown, overlapping
from roamcast.spark.tables import TRANSITIONS

MARGIN_M = 1.0
"""Boxes around fences are so much wider, for rounding."""


class Guarded(NamedTuple):
    """A fence, and from when up to, not including, when it is in force."""

    fence: Fence
    from_us: int
    until_us: int


class Anchors:
    """When each broker learned where hosts are that fences move with."""

    def __init__(self, known: Mapping[tuple[str, str], Sequence[tuple[int, Point | None]]]) -> None:
        """By broker and host, in the order of time."""
        self._known = known

    def at(self, broker: str, host: str, before_us: int, now_us: int) -> Point | None:
        """As `Anchors.at` of a broker says it (`broker/mqtt/anchors.py`)."""
        known = self._known.get((broker, host), ())
        if before_us <= now_us - ANCHOR_KEPT_US:
            return None
        count = bisect_left(known, before_us, key=lambda each: each[0])
        return known[count - 1][1] if count else None


NO_ANCHORS = Anchors({})


class Fixes:
    """Of a batch, a row for each move of a host, by host and in order."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.host = batch["host"].to_pylist()
        self.at_us: Rows = batch["at_us"].to_numpy()
        self.row_us: Rows = batch["row_us"].to_numpy()
        self.broker = batch["broker"].to_pylist()
        self.up = batch["up"].to_numpy(zero_copy_only=False)
        self.x, self.y = (batch[name].to_numpy(zero_copy_only=False).astype(float) for name in ("x", "y"))

    def __len__(self) -> int:
        return len(self.host)

    def context(self, row: int) -> Context:
        place = None if np.isnan(self.x[row]) else Point(float(self.x[row]), float(self.y[row]))
        attributes = attributes_of(self.batch["attributes"][row].as_py() or [])
        return Context(self.host[row], place, int(self.at_us[row]), attributes=attributes)


class Fold:
    def __init__(self, fences: Sequence[Guarded], space: Space, until_us: int, anchors: Anchors = NO_ANCHORS) -> None:
        self.fences, self.space, self.until_us, self.anchors = tuple(fences), space, until_us, anchors
        self.boxes = boxes_of(self.fences, space)

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        walk = Walk(self)
        for batch in batches:
            if batch.num_rows:
                walk.take(Fixes(batch))
                yield from walk.rows().to_batches()
        walk.end()
        yield from walk.rows().to_batches()


class Walk:
    """Along the ways of one host after the other."""

    def __init__(self, fold: Fold) -> None:
        self.fences, self.space, self.until_us, self.boxes = fold.fences, fold.space, fold.until_us, fold.boxes
        self.anchors = fold.anchors
        self.moving = {
            number: each.fence.region.host
            for number, each in enumerate(fold.fences)
            if isinstance(each.fence.region, Anchored)
        }
        """Fences that move, by number, and with whom."""
        self.host: str | None = None
        self.before: Context | None = None
        """The last fix of the batch before, if that is of the same host and up."""
        self.states: dict[int, State] = {}
        """Of the fences that the host is not outside of."""
        self.found: list[tuple[Any, ...]] = []

    def take(self, fixes: Fixes) -> None:
        if self.host != fixes.host[0]:
            self.end()
        touched, fences = self.touched(fixes)
        row = 0
        while row < len(fixes):
            if fixes.host[row] != self.host:
                self.end()
                self.host, self.before = fixes.host[row], None
            if not self.states and not self.moving:
                # Nothing happens before the next way that touches a fence.
                row = (
                    int(touched[np.searchsorted(touched, row)]) if len(touched) and touched[-1] >= row else len(fixes)
                )
                if row == len(fixes):
                    break
                self.host = fixes.host[row]
            first, last = np.searchsorted(touched, [row, row + 1])
            self.fix(fixes, row, {*fences[first:last].tolist(), *self.moving})
            row += 1
        self.host = fixes.host[-1]
        self.before = fixes.context(len(fixes) - 1) if fixes.up[-1] else None

    def touched(self, fixes: Fixes) -> tuple[Rows, Rows]:
        """The rows whose ways touch boxes of fences, in order, and these fences."""
        boxes = self.ways(fixes)
        pairs = [np.zeros((2, 0), np.int64), *(np.stack(each) for each in overlapping(boxes, self.boxes))]
        row, fence = np.concatenate(pairs, axis=1)
        order = np.argsort(row, kind="stable")
        return row[order], fence[order]

    def ways(self, fixes: Fixes) -> Boxes:
        """Around the way to each fix, from the fix before if that is of the same host; empty where none is known."""
        from_x, from_y = (np.concatenate([[np.nan], each[:-1]]) for each in (fixes.x, fixes.y))
        same = np.array([False, *(one == other for one, other in zip(fixes.host, fixes.host[1:], strict=False))])
        same[1:] &= fixes.up[:-1]
        if self.before is not None and self.before.position is not None and self.host == fixes.host[0]:
            from_x[0], from_y[0], same[0] = self.before.position.x, self.before.position.y, True
        known = same & ~np.isnan(from_x)
        from_x, from_y = np.where(known, from_x, fixes.x), np.where(known, from_y, fixes.y)
        west, east = np.minimum(from_x, fixes.x), np.maximum(from_x, fixes.x)
        if not isinstance(self.space, Plane):
            # Over the date line, where that is shorter.
            west, east = np.where(east - west >= 180, -180.0, west), np.where(east - west >= 180, 180.0, east)
        nowhere = np.isnan(fixes.x) | ~fixes.up
        sides = west, np.minimum(from_y, fixes.y), east, np.maximum(from_y, fixes.y)
        return Boxes(*(np.where(nowhere, out, side) for side, out in zip(sides, NOWHERE, strict=True)))

    def fix(self, fixes: Fixes, row: int, touched: set[int]) -> None:
        at_us = int(fixes.at_us[row])
        if not fixes.up[row]:
            self.end(at_us)
            return
        context, before = fixes.context(row), self.before_row(fixes, row)
        for number in sorted(touched | self.states.keys()):
            fence, from_us, until_us = self.fences[number]
            if not from_us <= at_us < until_us:
                self.leave(number, at_us)
                continue
            state = self.states.get(number) or self.outside(number, before)
            anchor = None
            if number in self.moving:
                state, anchor = self.seen_from(number, state, fixes, row)
            state, told = step(fence, state, context, self.space, anchor)
            self.tell(fence, context.host, told)
            self.states[number] = state
            if state.stay == OUTSIDE:
                del self.states[number]

    def before_row(self, fixes: Fixes, row: int) -> Context | None:
        if row == 0 or fixes.host[row - 1] != fixes.host[row]:
            return self.before if row == 0 and self.host == fixes.host[0] else None
        return fixes.context(row - 1) if fixes.up[row - 1] else None

    def outside(self, number: int, before: Context | None) -> State:
        """The state of a fence that was not touched by the fix before."""
        fence, from_us, _ = self.fences[number]
        if before is None or before.at_us < from_us or not concerns(fence.rule, before, self.space):
            return BEGIN
        return State(fix_of(before))

    def seen_from(self, number: int, state: State, fixes: Fixes, row: int) -> tuple[State, Point | None]:
        """With the place of its anchor at the last fix, and that at this one."""
        at_us, row_us, broker = int(fixes.at_us[row]), int(fixes.row_us[row]), fixes.broker[row]
        host = self.moving[number]
        if state.last is not None:
            anchor = self.anchors.at(broker, host, state.last.at_us, row_us)
            state = State(replace(state.last, anchor=anchor), state.stay)
        return state, self.anchors.at(broker, host, at_us, row_us)

    def leave(self, number: int, at_us: int) -> None:
        """The fence, or the host, is gone; what time alone has brought about before has happened."""
        state, (fence, _, until_us) = self.states.pop(number, BEGIN), self.fences[number]
        assert self.host is not None
        self.tell(fence, self.host, elapsed(fence, state, min(at_us, until_us))[1])

    def end(self, at_us: int | None = None) -> None:
        for number in sorted(self.states):
            self.leave(number, self.until_us if at_us is None else at_us)

    def tell(self, fence: Fence, host: str, told: tuple[Occurrence, ...]) -> None:
        for each in told:
            place = each.position.x, each.position.y
            self.found.append((fence.name, str(each.transition), host, each.at_us, *place, each.dwell_us))

    def rows(self) -> Any:
        columns = list(zip(*self.found, strict=True)) or [()] * len(TRANSITIONS.columns)
        self.found = []
        arrays = [pa.array(column, field.type) for column, field in zip(columns, TRANSITIONS.schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=TRANSITIONS.schema)


NOWHERE = (np.inf, np.inf, -np.inf, -np.inf)


def boxes_of(fences: Sequence[Guarded], space: Space) -> Boxes:
    sides: list[tuple[float, float, float, float]] = []
    reach: list[float] = []
    for fence, _, _ in fences:
        match fence.region:
            case Circle(centre, radius_m):
                sides.append((centre.x, centre.y, centre.x, centre.y))
                reach.append(radius_m)
            case Box(low, high):
                sides.append((low.x, low.y, high.x, high.y) if low.x < high.x else (-180.0, low.y, 180.0, high.y))
                reach.append(0.0)
            case Polygon(corners):
                x, y = [corner.x for corner in corners], [corner.y for corner in corners]
                sides.append((min(x), min(y), max(x), max(y)))
                reach.append(0.0)
            case Anchored():
                sides.append(NOWHERE)
                reach.append(0.0)
    columns: Floats = np.array(sides, float).reshape(-1, 4).T
    beyond = np.zeros(len(sides), np.bool_)
    if not isinstance(space, Plane):
        beyond = (columns[0] < -180) | (columns[2] > 180)
    west, east = np.where(beyond, -180.0, columns[0]), np.where(beyond, 180.0, columns[2])
    return grown(Boxes(west, columns[1], east, columns[3]), np.array(reach) + MARGIN_M, space)
