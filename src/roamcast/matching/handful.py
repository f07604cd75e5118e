"""A few events of which only what they say counts, as the kernel reads them: what a live broker asks most.

Such an event was published now, is for everybody and relevant everywhere, and nothing is asked of its publisher. All
that differs from one to the next is where they are and their values, so the arrays of a `Batch` are made once and
written over. One event is worth its own way: to make arrays for it takes longer than to find who wants it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from roamcast.matching.batch import Batch
from roamcast.matching.clauses import Clauses
from roamcast.matching.demands import Locator
from roamcast.matching.layout import CIRCLE, EVERYBODY, NOBODY, SETTLED, Doubles
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
            for index, each in enumerate(attributes):
                point = each.get(name)
                if isinstance(point, Point):
                    modes[index, number] = SETTLED | CIRCLE
                    at = (point.x, point.y, 0.0) if self._flat else straight(point, self._space)
                    circles[index, number, :3] = at
                else:
                    modes[index, number] = NOBODY
        if count == 1:
            begin, channels = self._topics.channels_of_one(subjects[0])
        else:
            begin, channels = self._topics.channels_of_all(subjects)
        return Batch(begin, channels, modes, circles, self._values(attributes))

    def _values(self, attributes: Sequence[Mapping[str, Value]]) -> Doubles:
        if not self._clauses.columns.numbers:
            return self._blank
        values = self._clauses.blank(len(attributes))
        at, given = list[int](), list[float]()
        for index, each in enumerate(attributes):
            self._clauses.collect(each, index * values.shape[1], at, given)
        values.reshape(-1)[at] = given
        return values
