"""An index of fences that move with hosts: for which of them a move of another host can matter.

Each is held in a circle around all places where its anchor was lately, so that it is found wherever on a way it was
passed; these circles lie still until the anchor moves, in an index as fixed fences do (`fences.py`).
"""

import math
from collections.abc import Sequence

from roamcast.matching.fences import FenceIndex
from roamcast.model.fence import Fence
from roamcast.model.region import Anchored, Circle
from roamcast.model.space import Space
from roamcast.model.values import Point
from roamcast.model.way import outline

LOOSE, LOOSE_M = 1.01, 1.0
"""Metres east and north of a host are not quite those between two places."""


class AnchoredFences:
    def __init__(self, space: Space) -> None:
        self.space = space
        self._fences: dict[str, Fence] = {}
        self._of: dict[str, dict[str, float]] = {}
        """By anchor, its fences, and how far each reaches."""
        self._index = FenceIndex(space)

    def __len__(self) -> int:
        return len(self._fences)

    def get(self, name: str) -> Fence | None:
        return self._fences.get(name)

    def has_anchor(self, host: str) -> bool:
        return host in self._of

    def put(self, fence: Fence, places: Sequence[Point]) -> None:
        """`places` are where its anchor was lately, the newest last; none: nobody knows."""
        assert isinstance(fence.region, Anchored)
        self.remove(fence.name)
        self._fences[fence.name] = fence
        self._of.setdefault(fence.region.host, {})[fence.name] = reach_m(fence.region)
        self.moved(fence.region.host, places)

    def remove(self, name: str) -> bool:
        fence = self._fences.pop(name, None)
        if fence is None:
            return False
        assert isinstance(fence.region, Anchored)
        names = self._of[fence.region.host]
        del names[name]
        if not names:
            del self._of[fence.region.host]
        self._index.remove(name)
        return True

    def moved(self, host: str, places: Sequence[Point]) -> None:
        names = self._of.get(host, {})
        if not places:
            for name in names:
                self._index.remove(name)
            return
        here = places[-1]
        swept_m = max(self.space.distance_m(here, each) for each in places)
        self._index.put_all(
            Fence(name, Circle(here, (swept_m + metres) * LOOSE + LOOSE_M)) for name, metres in names.items()
        )

    def touched(self, start: Point | None, end: Point) -> list[str]:
        """The names of those that a way may pass, or be in."""
        found = self._index.touched(None, end)
        return found if start is None else [*found, *self._index.touched(start, end)]


def reach_m(region: Anchored) -> float:
    """How far from its host it reaches."""
    shape, (east, north) = region.shape, (region.reference.x, region.reference.y)
    if isinstance(shape, Circle):
        return math.hypot(shape.centre.x - east, shape.centre.y - north) + shape.radius_m
    return max(math.hypot(corner.x - east, corner.y - north) for corner in outline(shape))
