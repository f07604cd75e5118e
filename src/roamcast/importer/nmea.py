"""NMEA 0183 logs: ships by AIS (`!AIVDM`, decoded by pyais) and a receiver's own positions (`$..RMC`).

An AIS report says only the second of the minute, so each sentence needs the time at which it was received: a tag
block (`\\c:1700000000*5A\\!AIVDM…`), a time before the sentence, or seconds since 1970 after it, as receivers' logs
have it. RMC says date and time itself; its host is the file, since receivers do not say who they are.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from roamcast.importer.fixes import MPS_PER_UNIT, BadImport, Found, Reading, batches_of_rows, host_of
from roamcast.model.space import Earth

TAG_TIME = re.compile(rb"[\\,]c:(\d{9,13})\b")
TIME_BEFORE = re.compile(rb"^([^!$\\]*?)[\s,;|]*$")
SECONDS_AFTER = re.compile(rb"\*[0-9A-Fa-f]{2},(?:.*,)?(\d{9,10})\s*$")
SENTENCE = re.compile(rb"!(?:AI|BS|AB)VD[MO],[^\s]*?\*[0-9A-Fa-f]{2}")
RMC = re.compile(rb"\$..RMC,[^*\s]*(?:\*[0-9A-Fa-f]{2})?")
POSITION_TYPES = frozenset((1, 2, 3, 9, 18, 19, 27))
SPEED_KNOTS_MAX = 102.2
"""AIS says 102.3 for a speed, and 360 for a course, that is not available."""
MILLISECONDS_FROM = 10**11

Row: TypeAlias = tuple[str, int | None, float, float, float | None, float | None, None]


def read_nmea(path: Path, reading: Reading) -> Found:
    return Found(Earth(), batches_of_rows(rows_of(path, reading)))


def rows_of(path: Path, reading: Reading) -> Iterator[Row]:
    log = Log(path, reading)
    with path.open("rb") as file:
        for line in file:
            if (found := SENTENCE.search(line)) is not None:
                yield from log.ais_rows(line, found[0])
            elif (found := RMC.search(line)) is not None:
                row = rmc_row(found[0], log.host, reading.times.start_us)
                if row is not None:
                    yield row
    if log.untimed and not log.timed:
        raise BadImport(
            f"{path}: none of its {log.untimed} AIS sentences says when it was received; log them with tag blocks "
            "(\\c:SECONDS*..\\), or with seconds since 1970 or an ISO 8601 time in front"
        )


class Log:
    """The AIS sentences of one file; pyais puts messages of several sentences together."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.host = host_of(path, reading.host_name or "{stem}")
        self.timed = self.untimed = 0
        self._start_us = reading.times.start_us
        self._sentences: Any = None

    def ais_rows(self, line: bytes, sentence: bytes) -> Iterator[Row]:
        at_us = received_us(line)
        if at_us is None:
            self.untimed += 1
            return
        self.timed += 1
        if self._sentences is None:
            self._sentences = pyais_queue()
        self._sentences.put_line(sentence)
        message = self._sentences.get_or_none()
        row = None if message is None else ais_row(message, at_us + self._start_us)
        if row is not None:
            yield row


def pyais_queue() -> Any:
    try:
        from pyais.queue import NMEAQueue
    except ImportError:
        raise BadImport("AIS needs the package pyais: pip install 'roamcast[import]'") from None
    return NMEAQueue()


def ais_row(message: Any, at_us: int) -> Row | None:
    from pyais.exceptions import AISBaseException

    try:
        report = message.decode()
    except (AISBaseException, ValueError):
        return None
    if report.msg_type not in POSITION_TYPES:
        return None
    known = report.speed <= SPEED_KNOTS_MAX and report.course < 360
    speed_mps = report.speed * MPS_PER_UNIT["knots"] if known else None
    return (str(report.mmsi), at_us, report.lon, report.lat, speed_mps, report.course if known else None, None)


def received_us(line: bytes) -> int | None:
    tagged = TAG_TIME.search(line) or SECONDS_AFTER.search(line)
    if tagged is not None:
        return us_of_number(int(tagged[1]))
    before = TIME_BEFORE.match(line[: line.index(b"!")])
    text = before[1].decode("ascii", "replace").strip() if before is not None else ""
    if re.fullmatch(r"\d{9,13}", text):
        return us_of_number(int(text))
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1e6)


def us_of_number(number: int) -> int:
    return number * (1_000 if number >= MILLISECONDS_FROM else 1_000_000)


def rmc_row(sentence: bytes, host: str, start_us: int) -> Row | None:
    """None for one without a fix."""
    fields = sentence.decode("ascii", "replace").split("*")[0].split(",")
    if len(fields) < 10 or fields[2] != "A":
        return None
    try:
        at = datetime.strptime(fields[9] + fields[1][:6], "%d%m%y%H%M%S").replace(tzinfo=UTC)
        fraction_us = round(float(f"0.{fields[1][7:] or 0}") * 1e6)
        latitude, longitude = degrees(fields[3], fields[4], 2), degrees(fields[5], fields[6], 3)
        knots = float(fields[7]) if fields[7] else None
        course = float(fields[8]) if fields[8] else None
    except ValueError:
        return None
    speed_mps = None if knots is None else knots * MPS_PER_UNIT["knots"]
    at_us = round(at.timestamp()) * 1_000_000 + fraction_us + start_us
    return host, at_us, longitude, latitude, speed_mps, course, None


def degrees(given: str, side: str, whole: int) -> float:
    """`6010.2` north: 60 degrees and 10.2 minutes."""
    value = int(given[:whole]) + float(given[whole:]) / 60
    return -value if side in ("S", "W") else value
