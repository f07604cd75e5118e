"""A few events of which only what they say counts, as the kernel reads them: what a live broker asks most.

Such an event is valid now, for everybody and relevant everywhere, and nothing is asked of its publisher. All
that differs from one to the next is where they are and their values, so the arrays of a `Batch` are made once and
written over. One event is worth its own way: to make arrays for it takes longer than to find who wants it.
"""

from collections.abc import Mapping, Sequence
from typing import TypeGuard

import numpy as np

from roamcast.matching.batch import Batch
from roamcast.matching.clauses import Clauses
from roamcast.matching.demands import Locator
from roamcast.matching.layout import CIRCLE, EVERYBODY, NOBODY, SETTLED
from roamcast.matching.metric import is_flat, straight
from roamcast.matching.registry import Registry
from roamcast.matching.topics import Topics
from roamcast.model.filter.tree import Attribute, Publishers
from roamcast.model.space import Space
from roamcast.model.values import Point, Value

HANDFUL_MAX = 64
"""Events at once."""


class Handful:
    def __init__(self, space: Space, topics: Topics, locators: Registry[Locator], clauses: Clauses) -> None:
        self._space = space
        self._flat = is_flat(space)
        self._topics = topics
        self._locators = locators
        self._clauses = clauses
        self._blank = clauses.blank(HANDFUL_MAX)
        self._look()

    def _look(self) -> None:
        """What is asked of events, until that changes."""
        self._changes = self._locators.changes
        width, numbers = len(self._locators.keys), self._locators.numbers
        self._modes = np.full((HANDFUL_MAX, width), SETTLED | EVERYBODY, np.uint8)
        self._circles = np.zeros((HANDFUL_MAX, width, 4))
        self._places = [(each.name, number) for each, number in numbers.items() if isinstance(each, Attribute)]
        self._of_publishers = any(isinstance(each, Publishers) for each in numbers)

    def asks_of_publishers(self) -> bool:
        if self._changes != self._locators.changes:
            self._look()
        return self._of_publishers

    def asks_only(self, name: str) -> bool:
        """Whether no other attribute of an event than this place decides anything."""
        if self._changes != self._locators.changes:
            self._look()
        if self._clauses.columns.numbers:
            return False
        return not self._places or (len(self._places) == 1 and self._places[0][0] == name)

    def batch(self, subjects: Sequence[str], attributes: Sequence[Mapping[str, Value]]) -> Batch:
        """Of at most `HANDFUL_MAX`; good until the next is asked for."""
        if self._changes != self._locators.changes:
            self._look()
        modes, circles, count = self._modes, self._circles, len(subjects)
        for name, number in self._places:
            points = [each.get(name) for each in attributes]
            if count > 1 and are_points(points):
                self._place_all(number, points)
            else:
                for index, point in enumerate(points):
                    self._place(index, number, point)
        if count == 1:
            begin, channels = self._topics.channels_of_one(subjects[0])
        else:
            begin, channels = self._topics.channels_of_all(subjects)
        values = self._clauses.values(attributes) if self._clauses.columns.numbers else self._blank
        return Batch(begin, channels, modes, circles, values)

    def _place(self, index: int, number: int, point: Value | None) -> None:
        if isinstance(point, Point):
            self._modes[index, number] = SETTLED | CIRCLE
            at = (point.x, point.y, 0.0) if self._flat else straight(point, self._space)
            self._circles[index, number, :3] = at
        else:
            self._modes[index, number] = NOBODY

    def _place_all(self, number: int, points: Sequence[Point]) -> None:
        """Column by column: numpy takes as long for one number as for a dozen."""
        count = len(points)
        self._modes[:count, number] = SETTLED | CIRCLE
        if self._flat:
            self._circles[:count, number, 0] = [point.x for point in points]
            self._circles[:count, number, 1] = [point.y for point in points]
        else:
            self._circles[:count, number, :3] = [straight(point, self._space) for point in points]


def are_points(values: Sequence[Value | None]) -> TypeGuard[Sequence[Point]]:
    return {*map(type, values)} == {Point}
