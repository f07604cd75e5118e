"""Replay of recorded movement (S10, L4): SUMO floating-car data, GPX tracks, CSV and BonnMotion files.

`load_trace` reads a file into a `Trace`: one `Recorded` for each host, which is a `Mobility`. Between two fixes a
host moves straight and evenly. `trace_formats` says how each format is read; these rules hold for all of them:

- Times count from the earliest fix of the file. Longitude and latitude become metres around that fix, `Trace.origin`.
- The fixes of a host are put in order of time. Two fixes of one host at the same microsecond must be the same place,
  and then count once; otherwise the trace is bad.
- A host is there from its first fix until its last (`present_from_us`, `present_until_us`) and absent outside, as
  vehicles depart and arrive. A host with a single fix is there for `SINGLE_FIX_US`. With `outside="rest"` hosts
  stand at their first fix from 0 on and at their last one for ever; this is the default for BonnMotion, which has
  no notion of absence.
- Where two fixes lie more than `gap_limit_us` apart, nothing is known between them: the host rests at the first and
  jumps to the second (`Leg.jumps`). BonnMotion has waypoints, not samples, so it has a limit only if one is given.
- A trip ends where the host rests, or with its last fix: that is the destination of the legs on the way (M2).
"""

import random
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec.structs import replace

from roamcast.model.space import Earth
from roamcast.model.values import Point
from roamcast.movement.legs import FOREVER_US, Leg, absent, resting, velocity_between
from roamcast.movement.params import Model, Pair, check_index, check_span, microseconds, point_of
from roamcast.movement.trace_formats import (
    TIME_MAX_US,
    BadTrace,
    Fixes,
    HostFixes,
    TraceKind,
    kind_of_file,
    read_bonnmotion,
    read_csv,
    read_fcd,
    read_gpx,
)

GAP_LIMIT_US = 60_000_000
"""Fixes further apart than a minute are not joined by a straight line."""

SINGLE_FIX_US = 1_000_000

Outside: TypeAlias = Literal["absent", "rest"]


class Recorded:
    """The movement of one recorded host: its fixes in order of time, at least one."""

    def __init__(
        self,
        times_us: Iterable[int],
        xs: Iterable[float],
        ys: Iterable[float],
        gap_limit_us: int | None = GAP_LIMIT_US,
        outside: Outside = "absent",
    ) -> None:
        self._times_us = array("q", times_us)
        self._xs = array("d", xs)
        self._ys = array("d", ys)
        self._gap_limit_us = gap_limit_us
        if outside == "rest":
            if self._times_us[0] > 0:
                self._times_us.insert(0, 0)
                self._xs.insert(0, self._xs[0])
                self._ys.insert(0, self._ys[0])
            self._stay_until(FOREVER_US)
        elif len(self._times_us) == 1:
            self._stay_until(self._times_us[0] + SINGLE_FIX_US)

    @property
    def present_from_us(self) -> int:
        return self._times_us[0]

    @property
    def present_until_us(self) -> int:
        """Exclusive."""
        return self._times_us[-1]

    def legs(
        self,
        rng: random.Random | None = None,
        index: int = 0,
        count: int = 1,
    ) -> Iterator[Leg]:
        last = len(self._times_us) - 1
        if self.present_from_us > 0:
            yield absent(0, self.present_from_us, self._point(0))
        at = 0
        jumps = False
        while at < last:
            if self._rests(at):
                end = self._rest_end(at)
                rest = resting(self._times_us[at], self._point(at), self._times_us[end] - self._times_us[at])
                yield replace(rest, jumps=jumps)
                jumps = not self._same_place(at, end)
            else:
                end = self._trip_end(at)
                yield from self._trip(at, end, jumps)
                jumps = False
            at = end
        if self.present_until_us < FOREVER_US:
            yield replace(absent(self.present_until_us, FOREVER_US, self._point(last)), jumps=jumps)

    def _trip(self, at: int, end: int, jumps: bool) -> Iterator[Leg]:
        pause_us = self._times_us[self._rest_end(end)] - self._times_us[end]
        for start in range(at, end):
            start_us, end_us = self._times_us[start], self._times_us[start + 1]
            yield Leg(
                start_us=start_us,
                end_us=end_us,
                start=self._point(start),
                velocity=velocity_between(self._point(start), self._point(start + 1), end_us - start_us),
                destination=self._point(end),
                pause_us=pause_us,
                jumps=jumps and start == at,
            )

    def _trip_end(self, at: int) -> int:
        """The first fix from `at` on where the host rests, or the last one."""
        end = at
        while end < len(self._times_us) - 1 and not self._rests(end):
            end += 1
        return end

    def _rest_end(self, at: int) -> int:
        """The last fix of the rest that begins at `at`; `at` itself if there is none."""
        end = at
        while end < len(self._times_us) - 1 and self._rests(end) and self._same_place(at, end):
            end += 1
        return end

    def _rests(self, at: int) -> bool:
        """Whether the host rests between this fix and the next, or counts as resting because nothing is known."""
        if self._same_place(at, at + 1):
            return True
        return self._gap_limit_us is not None and self._times_us[at + 1] - self._times_us[at] > self._gap_limit_us

    def _same_place(self, a: int, b: int) -> bool:
        return self._xs[a] == self._xs[b] and self._ys[a] == self._ys[b]

    def _point(self, at: int) -> Point:
        return Point(self._xs[at], self._ys[at])

    def _stay_until(self, until_us: int) -> None:
        self._times_us.append(until_us)
        self._xs.append(self._xs[-1])
        self._ys.append(self._ys[-1])


@dataclass(frozen=True)
class Trace:
    """A recorded trace, by the name of each host, in the order in which the file first names them."""

    hosts: dict[str, Recorded]
    origin: Point | None
    """Longitude and latitude of the point (0, 0); None for a trace that was recorded in metres."""


class TraceReplay(Model, frozen=True, tag="trace"):
    """Host number i moves as the trace's host number i does. A relative path is the scenario reader's to resolve."""

    path: str
    trace_kind: TraceKind | None = None
    """None: by the file's extension."""
    gap_limit_s: float | None = None
    """None: `GAP_LIMIT_US`, or none at all for BonnMotion."""
    outside: Outside | None = None
    """None: absent, or at rest for BonnMotion."""
    origin: Pair | None = None
    """Longitude and latitude that become (0, 0), so that several traces fit together; None: the earliest fix."""

    def __post_init__(self) -> None:
        if not self.path:
            raise ValueError("trace: path is empty; give the file of the trace")
        if self.trace_kind is None:
            kind_of_file(Path(self.path))
        if self.gap_limit_s is not None:
            check_span("trace: gap_limit_s", self.gap_limit_s, least_us=1)
        if self.origin is not None:
            Earth().check(point_of(self.origin))

    def trace(self) -> Trace:
        """Read when first asked for, and again only when the file has changed."""
        path = Path(self.path)
        return _replayed(self, path.stat().st_mtime_ns if path.exists() else 0)

    def hosts(self) -> tuple[str, ...]:
        return tuple(self.trace().hosts)

    def legs(self, rng: random.Random, index: int, count: int) -> Iterator[Leg]:
        check_index(index, count)
        recorded = list(self.trace().hosts.values())
        if index >= len(recorded):
            raise ValueError(f"trace {self.path}: host number {index}, but the trace has only {len(recorded)} hosts")
        return recorded[index].legs(rng, index, count)


@lru_cache(maxsize=4)
def _replayed(replay: TraceReplay, modified_ns: int) -> Trace:  # noqa: ARG001 - a changed file is another entry
    origin = None if replay.origin is None else point_of(replay.origin)
    gap_limit_us = None if replay.gap_limit_s is None else microseconds(replay.gap_limit_s)
    return load_trace(
        replay.path, replay.trace_kind, gap_limit_us=gap_limit_us, outside=replay.outside, origin=origin
    )


def load_trace(
    path: str | Path,
    kind: TraceKind | None = None,
    *,
    gap_limit_us: int | None = None,
    outside: Outside | None = None,
    origin: Point | None = None,
    from_earliest: bool = True,
) -> Trace:
    """Reads a recorded trace; the rules are those at the top of this module.

    With `from_earliest` false the file's own times are kept: seconds as they stand, ISO times since 1970.
    """
    path = Path(path)
    kind = kind or kind_of_file(path)
    check_gap_limit(gap_limit_us)
    if kind != "bonnmotion" and gap_limit_us is None:
        gap_limit_us = GAP_LIMIT_US
    outside = outside or ("rest" if kind == "bonnmotion" else "absent")
    fixes = read_fixes(path, kind)
    if not fixes.hosts:
        raise BadTrace(f"{path}: the trace holds no fix")
    in_order = {host: ordered(fixes, host, found) for host, found in fixes.hosts.items()}
    first = min(in_order.values(), key=lambda found: found.times_us[0])
    earliest_us = first.times_us[0] if from_earliest else 0
    if first.times_us[0] < earliest_us:
        fixes.bad(first.lines[0], "time", f"{first.times_us[0]} µs lies before 0; let times count from the earliest")
    for found in in_order.values():
        if found.times_us[-1] - earliest_us > TIME_MAX_US:
            fixes.bad(found.lines[-1], "time", f"more than {TIME_MAX_US} µs after the start")
    if fixes.geographic:
        origin = origin or Point(first.xs[0], first.ys[0])
        in_order = {host: projected(found, origin) for host, found in in_order.items()}
    hosts = {
        host: Recorded(
            (time_us - earliest_us for time_us in found.times_us), found.xs, found.ys, gap_limit_us, outside
        )
        for host, found in in_order.items()
    }
    return Trace(hosts, origin if fixes.geographic else None)


def read_fixes(path: Path, kind: TraceKind) -> Fixes:
    fixes = Fixes(path, geographic=is_geographic(kind))
    read_into(fixes, kind)
    return fixes


def is_geographic(kind: TraceKind) -> bool:
    """As far as the kind tells; a CSV file tells by its header."""
    return kind in ("gpx", "fcd-geo")


def read_into(fixes: Fixes, kind: TraceKind) -> None:
    try:
        match kind:
            case "fcd" | "fcd-geo":
                read_fcd(fixes)
            case "gpx":
                read_gpx(fixes)
            case "csv":
                read_csv(fixes)
            case "bonnmotion":
                read_bonnmotion(fixes)
    except OSError as error:
        raise BadTrace(f"{fixes.path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadTrace(f"{fixes.path}: not UTF-8 text at byte {error.start}") from error


def ordered(fixes: Fixes, host: str, found: HostFixes) -> HostFixes:
    """The fixes in order of time, each time once."""
    result = HostFixes()
    for at in sorted(range(len(found.times_us)), key=found.times_us.__getitem__):
        time_us, x, y, line = found.times_us[at], found.xs[at], found.ys[at], found.lines[at]
        if result.times_us and result.times_us[-1] == time_us:
            if (result.xs[-1], result.ys[-1]) != (x, y):
                fixes.bad(line, f"host '{host}'", f"is elsewhere at the same time in line {result.lines[-1]}")
            continue
        result.append(time_us, x, y, line)
    return result


def projected(found: HostFixes, origin: Point) -> HostFixes:
    result = HostFixes()
    for time_us, x, y, line in found.rows():
        result.append(time_us, *Earth().offset_m(origin, Point(x, y)), line)
    return result


def check_gap_limit(gap_limit_us: int | None) -> None:
    if gap_limit_us is not None and gap_limit_us < 1:
        raise ValueError(f"trace: gap_limit_us is {gap_limit_us}; give microseconds above 0")
