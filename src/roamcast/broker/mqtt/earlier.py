"""Where clients were a moment ago: an event holds when it is published, and comes to other brokers later.

A message concerns who was where it matters when it was published (docs/PROTOCOL.md, P-7): so the oracle has it, and
so does whoever published it. When it comes from another broker some clients have reported since: for these the broker
goes back to the report that held then. Memory is bounded in time and number; of what is older, the oldest that is
remembered counts. So is the work: of very many who have reported since, which takes a clock that is seconds behind,
those who did so last are put back, and the others are where they are.
"""

import math
from collections import deque
from collections.abc import Callable

from roamcast.model.context import Context

EARLIER_US = 5_000_000
EARLIER_MAX = 64
"""Reports of one client."""
PUT_BACK_MAX = 2_000
"""Clients, for one message."""
NEVER = (-math.inf, -math.inf)


class Earlier:
    def __init__(self) -> None:
        self._before: dict[str, deque[Context]] = {}
        """By client, what its present report took the place of, the oldest first."""
        self._latest: dict[str, tuple[int, int]] = {}
        """Clients in the order in which they reported last: the latest time until then, and that of the report, which
        is earlier where it comes from another broker."""
        self._told_us = 0
        self._moved_m: dict[str, float] = {}
        """How far the present report of a client is from the one before, where that was asked."""

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update({"_moved_m": {}, **state})

    def __getstate__(self) -> dict[str, object]:
        """Without what was only asked."""
        return {**self.__dict__, "_moved_m": {}}

    def replaced(self, before: Context, now: Context) -> None:
        """A client has reported; `before` held until then."""
        host = now.host
        self._latest.pop(host, None)
        self._moved_m.pop(host, None)
        if before.at_us > now.at_us:
            # It comes from a broker whose clock is behind: nobody can say what was when.
            self._before.pop(host, None)
            return
        self._told_us = max(self._told_us, now.at_us)
        self._latest[host] = self._told_us, now.at_us
        kept = self._before.get(host)
        if kept is None:
            kept = self._before[host] = deque(maxlen=EARLIER_MAX)
        kept.append(before)
        while len(kept) > 1 and kept[1].at_us < now.at_us - EARLIER_US:
            kept.popleft()

    def forget(self, host: str) -> None:
        self._moved_m.pop(host, None)
        self._before.pop(host, None)
        self._latest.pop(host, None)

    def knows_after(self, moment_us: int) -> bool:
        """Whether anybody has reported since a moment."""
        return self._told_us > moment_us

    def at(self, moment_us: int) -> list[Context]:
        """Of those who have reported since, the reports that held at a moment."""
        found: list[Context] = []
        for host in reversed(self._latest):
            told_us, latest_us = self._latest[host]
            if told_us <= moment_us or len(found) == PUT_BACK_MAX:
                break
            if latest_us > moment_us:
                found.append(self._held(host, moment_us))
        return found

    def farthest_m(self, moment_us: int, hosts_max: int, between_m: Callable[[Context], float]) -> float:
        """The same as how far any of them is now from where it was then, by `between_m`; infinite, if they are too
        many. Nearly always that is one step of a client that told no velocity, and is known."""
        farthest_m, hosts = 0.0, 0
        for host in reversed(self._latest):
            told_us, latest_us = self._latest[host]
            if told_us <= moment_us:
                break
            if latest_us <= moment_us:
                continue
            hosts += 1
            if hosts > hosts_max:
                return math.inf
            before = self._before[host][-1]
            if before.at_us > moment_us or before.velocity is not None:
                moved_m = between_m(self._held(host, moment_us))
            else:
                known_m = self._moved_m.get(host)
                if known_m is None:
                    known_m = self._moved_m[host] = between_m(before)
                moved_m = known_m
            if moved_m > farthest_m:
                farthest_m = moved_m
        return farthest_m

    def of(self, host: str, moment_us: int) -> Context | None:
        """The same of one of them."""
        _, latest_us = self._latest.get(host, NEVER)
        return self._held(host, moment_us) if latest_us > moment_us else None

    def _held(self, host: str, moment_us: int) -> Context:
        kept = self._before[host]
        return next((each for each in reversed(kept) if each.at_us <= moment_us), kept[0])
