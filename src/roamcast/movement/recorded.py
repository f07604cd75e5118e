"""Recorded fixes played again, at the pace at which they were made: GPX, SUMO floating-car data and CSV (L4).

The files are read by the simulator's readers (`movement/trace_formats.py`), as hostile as they may be, whole and
before anything plays. What cannot be read at all is a mistake that is told then. What was measured wrongly is not: a
position that is out of range or not a number, and a time that lies before the one in front of it, are played as they
stand, for a receiver does the same; `clean` deals with them. Only where the clock was set by more than a day
(receivers begin in 1970, or are in 2080 for a moment) nobody is made to wait for it.

Time counts from the earliest fix of the file, not of the host, so that hosts of one file which are started together
meet as they did. Each fix is told at its time of now.
"""

import math
from array import array
from collections.abc import AsyncIterator
from pathlib import Path

from msgspec import Struct

from roamcast.model.space import Earth, Plane
from roamcast.model.values import Point
from roamcast.movement.fix import BadSource, Clock, Fix, HostClock
from roamcast.movement.trace_formats import BadTrace, Fixes, HostFixes, TraceKind, kind_of_file
from roamcast.movement.traces import is_geographic, read_into

TRACE_BYTES_MAX = 1 << 30
HOSTS_NAMED_MAX = 5
STEP_US = 1_000_000
"""Between the last fix of a file and its first one, when it begins again, and where its clock was set."""
CLOCK_STEP_US = 86_400_000_000


class Playing(Struct, frozen=True):
    """How a trace is played."""

    speed: float = 1.0
    """2 is twice as fast as it was recorded."""
    begin_s: float = 0.0
    """How far into the trace to begin."""
    loop: bool = False
    origin: Point | None = None
    """Longitude and latitude of (0, 0): puts a trace in metres on Earth."""

    def __post_init__(self) -> None:
        if not 1e-3 <= self.speed <= 1e3:
            raise ValueError(f"speed is {self.speed}; give 0.001 to 1000")
        if not 0 <= self.begin_s <= 1e9:
            raise ValueError(f"begin_s is {self.begin_s}; give seconds of 0 or more")
        if self.origin is not None:
            Earth().check(self.origin)


class AsMeasured(Fixes):
    """Lets measurements pass whatever they are; everything else of a file must be right."""

    def coordinate(self, given: str | None, line: int, what: str) -> float:
        return self.double(given, line, what)

    def check_place(self, x: float, y: float, line: int, what: str) -> None:
        """A receiver that is wrong is no reason to stop."""


class Recording:
    """One host of a file, as a source."""

    def __init__(
        self,
        path: Path,
        host: str | None = None,
        kind: TraceKind | None = None,
        playing: Playing | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Raises `BadSource`."""
        fixes = read_trace(path, kind)
        self.playing = playing or Playing()
        self.host = chosen(path, host, list(fixes.hosts))
        self._fixes: HostFixes = fixes.hosts[self.host]
        times_us = {each: without_steps(found.times_us) for each, found in fixes.hosts.items()}
        self._times_us = times_us[self.host]
        self._first_us = min(map(min, times_us.values()))
        self._length_us = max(map(max, times_us.values())) - self._first_us
        self.space = Earth() if fixes.geographic or self.playing.origin is not None else Plane()
        self._clock = clock or HostClock()
        if fixes.geographic and self.playing.origin is not None:
            raise BadSource(f"{path}: origin puts metres on Earth, and this trace is in degrees already")

    async def fixes(self) -> AsyncIterator[Fix]:
        playing = self.playing
        begin_us = round(playing.begin_s * 1e6)
        start_us = self._clock.now_us() - round(begin_us / playing.speed)
        while True:
            for recorded_us, x, y in zip(self._times_us, self._fixes.xs, self._fixes.ys, strict=True):
                since_us = recorded_us - self._first_us
                if since_us >= begin_us:
                    at_us = start_us + round(since_us / playing.speed)
                    await self._clock.until(at_us)
                    yield Fix(at_us, self._placed(x, y))
            if not playing.loop:
                return
            begin_us = 0
            start_us += round((self._length_us + STEP_US) / playing.speed)

    def _placed(self, x: float, y: float) -> tuple[float, float]:
        origin = self.playing.origin
        return (x, y) if origin is None else on_earth(origin, Point(x, y))


def without_steps(times_us: "array[int]") -> "array[int]":
    """Looked at from the end, for a clock that was set is right afterwards."""
    even_us = array("q", times_us)
    for at in range(len(times_us) - 2, -1, -1):
        step_us = times_us[at + 1] - times_us[at]
        even_us[at] = even_us[at + 1] - (step_us if abs(step_us) <= CLOCK_STEP_US else STEP_US)
    return even_us


def on_earth(origin: Point, metres: Point) -> tuple[float, float]:
    if not (math.isfinite(metres.x) and math.isfinite(metres.y)):
        return math.nan, math.nan
    placed = Earth().moved(origin, metres.x, metres.y)
    return placed.x, placed.y


def read_trace(path: Path, kind: TraceKind | None) -> Fixes:
    try:
        size_bytes = path.stat().st_size
        if size_bytes > TRACE_BYTES_MAX:
            raise BadSource(f"{path}: {size_bytes} bytes; a trace has at most {TRACE_BYTES_MAX}")
        kind = kind or kind_of_file(path)
        fixes = AsMeasured(path, geographic=is_geographic(kind))
        read_into(fixes, kind)
    except BadTrace as problem:
        raise BadSource(str(problem)) from problem
    except OSError as problem:
        raise BadSource(f"{path}: {problem.strerror or problem}") from problem
    if not fixes.hosts:
        raise BadSource(f"{path}: the trace holds no fix")
    return fixes


def chosen(path: Path, host: str | None, hosts: list[str]) -> str:
    """The host that is asked for, or the only one."""
    if host is None and len(hosts) == 1:
        return hosts[0]
    if host in hosts:
        return str(host)
    some = ", ".join(hosts[:HOSTS_NAMED_MAX]) + (", …" if len(hosts) > HOSTS_NAMED_MAX else "")
    asked = f"there is no host '{host}'" if host is not None else f"say which of its {len(hosts)} hosts"
    raise BadSource(f"{path}: {asked}; write {path.name}#HOST with one of {some}")
