"""Which fences a move can be of any concern to. (To be replaced by a grid.)"""

from collections.abc import Iterable

from roamcast.model.fence import Fence
from roamcast.model.region import Anchored, contains
from roamcast.model.space import Space
from roamcast.model.values import Point
from roamcast.model.way import Way, pieces


class FenceIndex:
    def __init__(self, space: Space) -> None:
        self.space = space
        self._fences: dict[str, Fence] = {}

    def __len__(self) -> int:
        return len(self._fences)

    def get(self, name: str) -> Fence | None:
        return self._fences.get(name)

    def put_all(self, fences: Iterable[Fence]) -> None:
        for each in fences:
            self._fences[each.name] = each

    def remove(self, name: str) -> bool:
        return self._fences.pop(name, None) is not None

    def touched(self, start: Point | None, end: Point) -> list[str]:
        found: list[str] = []
        for name, fence in self._fences.items():
            region = fence.region
            assert not isinstance(region, Anchored)
            if start is None:
                if contains(region, end, self.space):
                    found.append(name)
            elif len(pieces(Way(start, end), region, self.space)) > 1:
                found.append(name)
        return found
