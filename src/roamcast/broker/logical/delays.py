"""How long a link takes, there and back, by the sender's own clock alone (R5).

A probe carries its sender's time, and its echo brings that back: nobody's clocks need to agree. The delay of a link
is an average over its last few echoes. What is told to others stays until it is well off, so that a little jitter
does not make every broker on the way tell the next one;
sooner where the old word would have brokers look too short ahead.
"""

from collections import deque
from typing import Final

from roamcast.broker.logical.template import DURATION_US_MAX

LITTLE: Final = 1 / 16
MUCH: Final = 1 / 4


def steadied(before: int, now: int, rise: float, fall: float) -> int:
    """The value to go on telling: the one before, unless it rose or fell by more than these shares of it."""
    return before if before and -fall * before <= now - before <= rise * before else now


class Delays:
    def __init__(self, kept_max: int) -> None:
        self.kept_max = kept_max
        self.told_us: dict[str, int] = {}
        self._measured: dict[str, deque[int]] = {}

    def of(self, peer: str) -> int:
        """To the peer and back; 0 as long as nobody has measured it."""
        return self.told_us.get(peer, 0)

    def measured(self, peer: str, round_trip_us: int) -> bool:
        """One more echo; whether what is told changes by it."""
        echoes = self._measured.setdefault(peer, deque(maxlen=self.kept_max))
        echoes.append(min(max(0, round_trip_us), DURATION_US_MAX))
        before = self.told_us.get(peer, 0)
        self.told_us[peer] = steadied(before, sum(echoes) // len(echoes), LITTLE, MUCH)
        return self.told_us[peer] != before

    def forget(self, peer: str) -> None:
        self.told_us.pop(peer, None)
        self._measured.pop(peer, None)
