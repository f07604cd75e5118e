"""Explains to a user why a host has no position yet, and says when it has one (L4).

Sources never give up, so a receiver that is not there looks like one that is slow. A `Lookout` looks from time to
time: while there is no position it says why, each reason once, and afterwards that there is one again. So it says no
more than there are reasons, twice, however often a position comes and goes.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from roamcast.movement.clean import Cleaner, Reason
from roamcast.movement.fix import Source
from roamcast.movement.gpsd import Gpsd, Heard
from roamcast.movement.gpsd_reports import PROTOCOL_MAJOR

LOOK_EVERY_S = 2.0
"""Most sources have a position sooner than that, and then nothing need be said."""

NO_GPSD = (Heard.WRONG_VERSION, Heard.MALFORMED)


class Lookout:
    def __init__(self, missing: Callable[[], str | None], say: Callable[[str], None]) -> None:
        """`missing` answers what there is to say while there is no position; None if there is one."""
        self._missing = missing
        self._say = say
        self._said: dict[str, None] = {}
        self._waits = False
        self._next: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        """On a running loop."""
        self._later()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._next is not None:
            self._next.cancel()

    def _later(self) -> None:
        self._next = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._look_again)

    def _look_again(self) -> None:
        self._later()
        self.look()

    def look(self) -> None:
        why = self._missing()
        if why is None:
            if self._waits:
                self._say("the position is known now")
            self._waits = False
        elif why not in self._said:
            self._said[why] = None
            self._waits = True
            self._say(why)


def why_no_position(source: Source, cleaner: Cleaner) -> str:
    """As far as the source and the cleaner of its fixes can tell; of each there are few answers."""
    if isinstance(source, Gpsd) and source.last is not Heard.FIX:
        return why_no_fix(source)
    match cleaner.verdict if any(cleaner.counts.values()) else None:
        case None:
            return "the location source has sent no position yet"
        case Reason.TAKEN:
            return why_no_more(source, cleaner.limits.gap_us / 1e6)
        case Reason.VAGUE:
            return f"the source's are vaguer than {cleaner.limits.accuracy_m_max:g} m"
        case Reason.OUT_OF_RANGE:
            return "the source's are not in the space that is used here"
        case _:
            return "the location source sends no usable position"


def why_no_more(source: Source, silent_s: float) -> str:
    """What it told last was good, and is too old by now; that a gpsd is silent is found out later."""
    if isinstance(source, Gpsd):
        return f"gpsd at {source.address} has sent no fix for {silent_s:g} s; is its receiver still connected?"
    return f"the location source has sent no position for {silent_s:g} s"


def why_no_fix(gpsd: Gpsd) -> str:
    match gpsd.last:
        case None | Heard.CONNECTED if not gpsd.release:
            return f"gpsd at {gpsd.address} has not answered yet"
        case Heard.UNREACHABLE:
            return f"gpsd at {gpsd.address} cannot be reached; start it there, or name another with gpsd:HOST:PORT"
        case Heard.NO_FIX:
            return f"gpsd at {gpsd.address} has no fix; its receiver must see the sky, for minutes after a cold start"
        case Heard.OTHER_DEVICE:
            return f"gpsd at {gpsd.address} tells of others than {gpsd.device}; name one, or leave device= out"
        case heard if heard in NO_GPSD or not gpsd.release:
            return f"what answers at {gpsd.address} is not gpsd with protocol {PROTOCOL_MAJOR}; is it the right port?"
        case _:
            return f"gpsd at {gpsd.address} tells of no receiver; is one connected? `gpspipe -w` shows what gpsd says"
