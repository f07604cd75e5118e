"""What gpsd says, line by line: JSON objects with a `class` (gpsd_json(5)). No I/O here.

Two classes matter. VERSION greets, and tells the protocol's major number, which has been 3 since gpsd 2.90 of 2010; a
daemon of another one might mean something else by the same words, so it is refused. TPV is a report of time, position
and velocity. Its `mode` says whether there is a position: 2 is longitude and latitude, 3 height as well. Everything
else in it may be missing. How vague the position is, newer daemons say in `eph`, older ones by `epx` and `epy`.
"""

import math
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import Struct

from roamcast.movement.fix import Fix

PROTOCOL_MAJOR = 3
MODE_2D = 2
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BadLine(ValueError):
    """Not a line of gpsd; the message says why."""


class Version(Struct, frozen=True, tag_field="class", tag="VERSION"):
    release: str = ""
    proto_major: int = 0
    proto_minor: int = 0


class TimePositionVelocity(Struct, frozen=True, tag_field="class", tag="TPV"):
    mode: int
    device: str = ""
    time: str | float = ""
    lat: float | None = None
    lon: float | None = None
    speed: float | None = None
    track: float | None = None
    eph: float | None = None
    epx: float | None = None
    epy: float | None = None


class Other(Struct, frozen=True):
    """Satellites, devices, errors."""

    kind: str = msgspec.field(name="class")


_kinds = msgspec.json.Decoder(Other)
_versions = msgspec.json.Decoder(Version)
_reports = msgspec.json.Decoder(TimePositionVelocity)


def read_line(line: bytes) -> Version | TimePositionVelocity | Other:
    """Raises `BadLine`."""
    try:
        found = _kinds.decode(line)
        if found.kind == "VERSION":
            return _versions.decode(line)
        return _reports.decode(line) if found.kind == "TPV" else found
    except (msgspec.MsgspecError, RecursionError, ValueError) as problem:
        raise BadLine(f"not a line of gpsd: {problem}") from problem


def fix_of(report: TimePositionVelocity, arrived_us: int, apart_us_max: int | None) -> Fix | None:
    """None if the receiver knows no position.

    The receiver's time is believed as long as it is no further from the host's than `apart_us_max` (None: always);
    else the fix is from when it arrived. So a host whose own clock is wrong is not left without a position.
    """
    if report.mode < MODE_2D or report.lat is None or report.lon is None:
        return None
    told_us = time_us(report.time)
    if told_us is None or (apart_us_max is not None and abs(told_us - arrived_us) > apart_us_max):
        told_us = arrived_us
    return Fix(told_us, (report.lon, report.lat), report.speed, report.track, accuracy_m(report))


def accuracy_m(report: TimePositionVelocity) -> float | None:
    if report.eph is not None:
        return report.eph
    return None if report.epx is None or report.epy is None else math.hypot(report.epx, report.epy)


def time_us(given: str | float) -> int | None:
    """ISO 8601, or seconds since 1970 as daemons before 3.0 had it; None for anything else."""
    try:
        if isinstance(given, str):
            read = datetime.fromisoformat(given)
            return ((read if read.tzinfo else read.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)
        return round(given * 1e6)
    except (ValueError, OverflowError):
        return None
