"""The network under an overlay: unicast over the shortest radio path, as an ideal ad hoc routing protocol has it
(O1).

Papers on overlays assume that some routing protocol brings a message from any host to any other. Here it is an ideal
one: it knows who is in range of whom, takes a path with the fewest hops, and costs nothing itself. A message takes
its hops times the delay of one, counts as so many transmissions, and stays in order with what the same sender sent
to the same receiver before. Where there is no path the message is lost and its sender is told at once (`LinkDown`).

Paths are found by a breadth-first search from the sender, which is kept for a step of time: within a step nobody
moves far enough to matter.
"""

from collections.abc import Callable

from msgspec import Struct

from roamcast.sim.kernel import Kernel
from roamcast.sim.whereabouts import Whereabouts

PAIRS_MAX = 1_000_000
"""Of how many pairs it is remembered when their last message arrives."""


class UnderlayParams(Struct, frozen=True, forbid_unknown_fields=True):
    """Hosts reach each other over as many radio hops as it takes."""

    hop_ms: float = 2.0
    """How long one hop takes."""
    step_ms: float = 100.0
    """How long a path that was found is used before it is looked for again."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise ValueError(f"{name} is {value}; give milliseconds above 0")


class Underlay:
    def __init__(
        self, params: UnderlayParams, kernel: Kernel, whereabouts: Whereabouts, is_up: Callable[[int], bool]
    ) -> None:
        """`is_up` says of a host whether it can hear and relay now."""
        self.params = params
        self.kernel = kernel
        self.whereabouts = whereabouts
        self.is_up = is_up
        self._step = -1
        self._near: dict[int, list[int]] = {}
        self._hops: dict[int, dict[int, int]] = {}
        self._arrives_us: dict[tuple[int, int], int] = {}

    def hops(self, sender: int, receiver: int) -> int | None:
        """How many hops the shortest path has now; None where there is none."""
        return self.hops_from(sender).get(receiver)

    def hops_from(self, sender: int) -> dict[int, int]:
        """The same to every host that can be reached, itself included with 0."""
        step = self.kernel.now_us // round(self.params.step_ms * 1_000)
        if step != self._step:
            self._step = step
            self._near.clear()
            self._hops.clear()
        found = self._hops.get(sender)
        if found is None:
            found = self._hops[sender] = self._search(sender)
        return found

    def changed(self) -> None:
        """A host came or went: what was found before may be wrong."""
        self._step = -1

    def _search(self, source: int) -> dict[int, int]:
        if not self.is_up(source):
            return {}
        found = {source: 0}
        ring = [source]
        while ring:
            following = []
            for each in ring:
                for other in self._neighbours(each):
                    if other not in found:
                        found[other] = found[each] + 1
                        following.append(other)
            ring = following
        return found

    def _neighbours(self, index: int) -> list[int]:
        near = self._near.get(index)
        if near is None:
            found = self.whereabouts.in_range(index, self.kernel.now_us)
            near = self._near[index] = [other for other in found if self.is_up(other)]
        return near

    def arrival_us(self, sender: int, receiver: int, hops: int) -> int:
        """When a message that leaves now arrives: never before one that left earlier on the same way."""
        pair = (sender, receiver)
        before_us = self._arrives_us.pop(pair, 0)
        arrives_us = max(self.kernel.now_us + round(1_000 * hops * self.params.hop_ms), before_us)
        self._arrives_us[pair] = arrives_us
        if len(self._arrives_us) > PAIRS_MAX:
            del self._arrives_us[next(iter(self._arrives_us))]
        return arrives_us
