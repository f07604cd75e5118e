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
from roamcast.matching.layout import CIRCLE, EVERYBODY, NOBODY, SETTLED
from roamcast.matching.metric import straight
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
        self._topics = topics
        self._locators = locators
        self._clauses = clauses
        self._width = 0
        self._blank = clauses.blank(HANDFUL_MAX)

    def asks_of_publishers(self) -> bool:
        return any(isinstance(each, Publishers) for each in self._locators.numbers)

    def asks_only(self, name: str) -> bool:
        """Whether no other attribute of an event than this place decides anything."""
        places = [each for each in self._locators.numbers if isinstance(each, Attribute)]
        return not self._clauses.columns.numbers and all(each.name == name for each in places)

    def batch(self, subjects: Sequence[str], attributes: Sequence[Mapping[str, Value]]) -> Batch:
        """Of at most `HANDFUL_MAX`; good until the next is asked for."""
        count, width = len(subjects), len(self._locators.keys)
        if width != self._width:
            self._width = width
            self._modes = np.full((HANDFUL_MAX, width), SETTLED | EVERYBODY, np.uint8)
            self._circles = np.zeros((HANDFUL_MAX, width, 4))
        modes, circles = self._modes, self._circles
        for locator, number in self._locators.numbers.items():
            if isinstance(locator, Attribute):
                for index, each in enumerate(attributes):
                    point = each.get(locator.name)
                    if isinstance(point, Point):
                        modes[index, number] = SETTLED | CIRCLE
                        circles[index, number] = (*straight(point, self._space), 0.0)
                    else:
                        modes[index, number] = NOBODY
            else:
                modes[:count, number] = SETTLED | EVERYBODY
        begin, channels = self._topics.channels_of_all(subjects)
        return Batch(begin, channels, modes[:count], circles[:count], self._values(attributes))

    def _values(self, attributes: Sequence[Mapping[str, Value]]) -> "np.typing.NDArray[np.float64]":
        if not self._clauses.columns.numbers:
            return self._blank[: len(attributes)]
        values = self._clauses.blank(len(attributes))
        at, given = list[int](), list[float]()
        for index, each in enumerate(attributes):
            self._clauses.collect(each, index * values.shape[1], at, given)
        values.reshape(-1)[at] = given
        return values
