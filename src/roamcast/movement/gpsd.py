"""The receiver of this host, or of another one, through gpsd's JSON over TCP (L4).

    away --connected--> asked (?WATCH) --VERSION--> watching --ended, silent, not gpsd--> away, after a pause

It never gives up and never fails: a daemon that is not there yet, restarts, or says something else is tried again,
with pauses that double up to a bound, and everything is counted. A daemon that is silent for long is left and called
again, since a TCP connection may be dead without a word.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from enum import StrEnum
from random import Random

from roamcast.model.space import Earth
from roamcast.movement.fix import Clock, Fix, HostClock
from roamcast.movement.gpsd_reports import (
    PROTOCOL_MAJOR,
    BadLine,
    TimePositionVelocity,
    Version,
    fix_of,
    read_line,
)

PORT = 2947
WATCH = b'?WATCH={"enable":true,"json":true};\n'
LINE_BYTES_MAX = 65_536
"""A daemon's longest line, of all satellites in sight, has about ten thousand."""
PAUSE_MIN_US, PAUSE_MAX_US = 200_000, 30_000_000
CONNECT_S = 10.0
SILENCE_S = 60.0
CLOCKS_APART_US = 10_000_000


class Heard(StrEnum):
    """What is counted of a daemon."""

    CONNECTED = "connected"
    UNREACHABLE = "unreachable"
    ENDED = "ended"
    SILENT = "silent"
    WRONG_VERSION = "wrong_version"
    MALFORMED = "malformed"
    NO_FIX = "no_fix"
    OTHER_DEVICE = "other_device"
    FIX = "fix"


class Gpsd:
    def __init__(
        self,
        host: str = "localhost",
        port: int = PORT,
        device: str | None = None,
        clock: Clock | None = None,
        apart_us_max: int | None = CLOCKS_APART_US,
        silence_s: float = SILENCE_S,
    ) -> None:
        """With `device` only that one's reports count, where a daemon has several."""
        self.host, self.port, self.device = host, port, device
        self.space = Earth()
        self.counts: dict[Heard, int] = dict.fromkeys(Heard, 0)
        self.last: Heard | None = None
        """What was counted last."""
        self.release = ""
        """Which gpsd it is, once it has said so."""
        self._clock = clock or HostClock()
        self._apart_us_max = apart_us_max
        self._silence_s = silence_s
        self._random = Random(f"{host}:{port}")
        self._failures = 0

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def _count(self, heard: Heard) -> None:
        self.last = heard
        self.counts[heard] += 1

    async def fixes(self) -> AsyncGenerator[Fix, None]:
        while True:
            async with contextlib.aclosing(self._connection()) as connection:
                async for fix in connection:
                    self._failures = 0
                    yield fix
            await self._clock.until(self._clock.now_us() + self._pause_us())

    def _pause_us(self) -> int:
        bound_us = min(PAUSE_MAX_US, PAUSE_MIN_US << min(self._failures, 16))
        self._failures += 1
        return round(bound_us * self._random.uniform(0.5, 1.0))

    async def _connection(self) -> AsyncGenerator[Fix, None]:
        """Until it ends, for whatever reason."""
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(self.host, self.port, limit=LINE_BYTES_MAX)
        except OSError:
            self._count(Heard.UNREACHABLE)
            return
        self._count(Heard.CONNECTED)
        try:
            writer.write(WATCH)
            while (line := await self._line(reader)) is not None:
                fix = self._understood(line)
                if fix is not None:
                    yield fix
        except WrongVersion:
            self._count(Heard.WRONG_VERSION)
        finally:
            writer.close()

    async def _line(self, reader: asyncio.StreamReader) -> bytes | None:
        """None at the end."""
        try:
            async with asyncio.timeout(self._silence_s):
                line = await reader.readline()
        except TimeoutError:
            self._count(Heard.SILENT)
            return None
        except ValueError:
            # A line beyond the bound: where the next one begins is anybody's guess.
            self._count(Heard.MALFORMED)
            return None
        except OSError:
            line = b""
        if not line:
            self._count(Heard.ENDED)
        return line or None

    def _understood(self, line: bytes) -> Fix | None:
        try:
            said = read_line(line)
        except BadLine:
            self._count(Heard.MALFORMED)
            return None
        match said:
            case Version(release, major):
                self.release = release
                if major != PROTOCOL_MAJOR:
                    raise WrongVersion
                return None
            case TimePositionVelocity(device=device) if self.device is not None and device != self.device:
                self._count(Heard.OTHER_DEVICE)
                return None
            case TimePositionVelocity():
                fix = fix_of(said, self._clock.now_us(), self._apart_us_max)
                self._count(Heard.NO_FIX if fix is None else Heard.FIX)
                return fix
            case _:
                return None


class WrongVersion(Exception):
    """A daemon that speaks another protocol."""
