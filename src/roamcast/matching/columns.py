"""Many events that were read into columns already, as the kernel reads them: a position and numbers, open scopes.

Who has columns asks about dozens of events at a time, over and over. All that differs from one batch to the next are
coordinates and values, so the arrays of a `Batch` are kept, as large as the largest batch was, and written over. What
is written is as little as can be: a call of numpy takes as long as the kernel takes for two events. Where there are
thousands of events that is nothing to each, and arrays for so many are not kept.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roamcast.matching.batch import Batch
from roamcast.matching.clauses import Clauses
from roamcast.matching.demands import Locator
from roamcast.matching.layout import CIRCLE, EVERYBODY, NOBODY, SETTLED, Doubles
from roamcast.matching.metric import is_flat, straight_columns
from roamcast.matching.registry import Registry
from roamcast.matching.topics import Topics
from roamcast.model.filter.tree import Attribute
from roamcast.model.space import Space
from roamcast.model.values import BadValue, Kind

KEPT_AT_FIRST = 64
KEPT_MAX = 4_096
"""Events that arrays are kept for; what is asked of each may take some kilobytes."""


class Columns:
    def __init__(self, space: Space, topics: Topics, locators: Registry[Locator], clauses: Clauses) -> None:
        self._space = space
        self._flat = is_flat(space)
        self._topics = topics
        self._locators = locators
        self._clauses = clauses
        self._room = KEPT_AT_FIRST
        self._look()

    def _look(self) -> None:
        """Makes the arrays anew for what is asked of events now. An event of columns has nothing but what they say,
        and its audience and relevance are open."""
        self._changes = self._locators.changes, self._clauses.columns.changes
        width = len(self._locators.keys)
        self._modes = np.full((self._room, width), NOBODY, np.uint8)
        self._modes[:, :2] = SETTLED | EVERYBODY
        self._circles = np.zeros((self._room, width, 4))
        self._values = self._clauses.blank(self._room)
        self._position: str | None = None
        self._all_placed = False
        self._filled: list[str] = []

    def batch(
        self,
        subjects: Sequence[str],
        x: ArrayLike,
        y: ArrayLike,
        numbers: Mapping[str, ArrayLike],
        position: str,
        now_us: int,
    ) -> Batch:
        """A position that is not finite is missing, and so is a number that is NaN; good until the next is asked."""
        count = len(subjects)
        self._make_room(count)
        if position != self._position:
            self._look()
            self._position = position
            self._locator = self._locators.numbers.get(Attribute(position))
        at_x, at_y = column(x, count, position), column(y, count, position)
        placed: bool | NDArray[np.bool_] = True
        if not all_finite(at_x, at_y):
            placed = np.isfinite(at_x) & np.isfinite(at_y)
            at_x, at_y = np.where(placed, at_x, math.nan), np.where(placed, at_y, math.nan)
        if self._locator is not None:
            self._place(self._locator, at_x, at_y, placed)
        if self._clauses.columns.numbers:
            self._fill(position, at_x, at_y, {name: column(each, count, name) for name, each in numbers.items()})
        moments = np.full(count, now_us, np.int64)
        return Batch(*self._topics.channels_of_all(subjects), self._modes, self._circles, self._values, moments)

    def _make_room(self, count: int) -> None:
        if count > self._room or self._room > KEPT_MAX:
            self._room = max(count, min(count + count // 2, KEPT_MAX), KEPT_AT_FIRST)
            self._look()
        elif self._changes != (self._locators.changes, self._clauses.columns.changes):
            self._look()

    def _place(self, locator: int, x: Doubles, y: Doubles, placed: bool | NDArray[np.bool_]) -> None:
        count, circles = len(x), self._circles
        if placed is not True or not self._all_placed:
            self._modes[:, locator] = SETTLED | CIRCLE
            self._modes[:count, locator] = np.where(placed, SETTLED | CIRCLE, NOBODY)
            self._all_placed = placed is True
        if self._flat:
            circles[:count, locator, 0] = x
            circles[:count, locator, 1] = y
        else:
            circles[:count, locator, :3] = np.stack(straight_columns(x, y, self._space), axis=1)

    def _fill(self, position: str, x: Doubles, y: Doubles, numbers: dict[str, Doubles]) -> None:
        known, values = self._clauses.columns.numbers, self._values
        names = [*numbers]
        if names != self._filled:
            values.fill(math.nan)
            self._filled = names
        for name, given in numbers.items():
            if (name, Kind.NUMBER) in known:
                values[: len(x), known[name, Kind.NUMBER]] = given
        for axis, coordinate in (("x", x), ("y", y)):
            if (position, axis) in known:
                values[: len(x), known[position, axis]] = coordinate


def all_finite(x: Doubles, y: Doubles) -> bool:
    """In one call: what is not finite makes the sum of the products so, wherever it is. Very far out it says no."""
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(x.dot(y))


def column(given: ArrayLike, count: int, name: str) -> Doubles:
    values = np.asarray(given, np.float64)
    if values.shape != (count,):
        raise BadValue(f"column '{name}' has the shape {values.shape}; give one value for each of {count} events")
    return values
