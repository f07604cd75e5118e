"""Expanding ring search (O2, O3; section 2.3): who are the nearest brokers?

A search goes over the air from host to host, one hop far at first, then two, three, …, until enough brokers have
answered or it has gone as far as it may. Every host passes on a search once (`Relaying`), whatever else it is. A
broker that hears one answers by unicast with the hops it came. Rings are told apart by numbers that the searcher
counts, so a late answer to an earlier ring still counts as an answer.
"""

from random import Random

from msgspec import Struct

from roamcast.broker.overlay.messages import Here, Search
from roamcast.broker.overlay.params import OverlayParams
from roamcast.node.boundary import Broadcast, Does, Send, SetTimer
from roamcast.node.recent import Recent

TIMER = "ring"


class Found(Struct, frozen=True):
    broker: str
    hops: int
    load: float


class Relaying:
    """Passes on what others look for."""

    def __init__(self, host: str, params: OverlayParams) -> None:
        self.host = host
        self._seen = Recent(params.searches_max)

    def hear(self, search: Search) -> tuple[bool, list[Does]]:
        """Whether the search is new here, and what becomes of it."""
        if search.origin == self.host or not self._seen.add(f"{search.number} {search.origin}"):
            return False, []
        travelled = search.travelled + 1
        if travelled >= search.reach:
            return True, []
        return True, [Broadcast(Search(search.origin, search.number, search.reach, travelled))]


class Answering:
    """A broker's side of a search: it answers after a short while of chance."""

    def __init__(self, params: OverlayParams, rng: Random) -> None:
        self.jitter_us = round(params.answer_jitter_ms * 1_000)
        self.rng = rng
        self._owed: dict[str, tuple[str, Here]] = {}

    def owe(self, now_us: int, search: Search, load: float) -> list[Does]:
        timer = f"answer:{search.number}:{search.origin}"
        self._owed[timer] = (search.origin, Here(search.number, search.travelled + 1, load))
        return [SetTimer(timer, now_us + self.rng.randint(0, self.jitter_us))]

    def fired(self, timer: str) -> list[Does]:
        to, here = self._owed.pop(timer)
        return [Send(to, here)]


class Searching:
    """One's own search; there is one at a time."""

    def __init__(self, host: str, params: OverlayParams) -> None:
        self.host = host
        self.params = params
        self.number = 0
        self.reach = 0
        """Of the ring that is out; 0: no search is on."""
        self.wanted = 0
        self.found: dict[str, Found] = {}
        """In the order in which they answered."""

    def begin(self, now_us: int, wanted: int) -> list[Does]:
        """A search that is on goes on: where brokers are few it takes longer than a short period."""
        if self.reach:
            return []
        self.wanted = wanted
        self.found = {}
        return self._widen(now_us)

    def _widen(self, now_us: int) -> list[Does]:
        self.reach += 1
        # The clock goes on counting after a crash that forgot the last number.
        self.number = max(now_us, self.number + 1)
        due_us = now_us + round(self.params.ring_wait_ms * 1_000 * self.reach)
        return [Broadcast(Search(self.host, self.number, self.reach, 0)), SetTimer(TIMER, due_us)]

    def answered(self, here: Here, broker: str) -> None:
        if self.reach and broker not in self.found:
            self.found[broker] = Found(broker, here.hops, here.load)

    def fired(self, now_us: int) -> tuple[list[Found] | None, list[Does]]:
        """What was found, nearest first and of those equally near whoever answered first; None: it goes on."""
        if not self.reach:
            return None, []
        if len(self.found) < self.wanted and self.reach < self.params.ring_hops_max:
            return None, self._widen(now_us)
        self.reach = 0
        return sorted(self.found.values(), key=lambda found: found.hops)[: self.wanted], []
