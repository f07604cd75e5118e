"""Where clients were in the last days: a table of SQLite beside the log, bounded by age and by points.

Moves are gathered in memory and written in one transaction a second, on a thread of their own. So a broker that is
killed lacks the last second of its tracks, which are a record and no promise; the log knows where everybody was last.
A client that hides leaves no track, and one that is shown coarsely leaves a coarse one.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from roamcast.broker.mqtt.positions import shown
from roamcast.model.context import Context
from roamcast.model.space import Space

FILE = "tracks.sqlite"
WRITE_S = 1.0
"""How long moves are gathered."""
WAITING_MAX = 100_000
"""Moves that are not written yet; a disk that is slower loses the next ones."""
DAY_US = 86_400_000_000
PRUNE_EVERY = 60
"""Of so many transactions one removes what is too old or too much."""
TABLE = """
CREATE TABLE IF NOT EXISTS track
    (client TEXT, at_us INTEGER, x REAL, y REAL, user TEXT, PRIMARY KEY (client, at_us)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS track_by_time ON track (at_us);
"""
ASKED = """
SELECT at_us, x, y FROM track WHERE client = ? AND at_us BETWEEN ? AND ? AND (? IS NULL OR user = ?)
ORDER BY at_us DESC LIMIT ?
"""

Row: TypeAlias = tuple[str, int, float, float, str | None]


class TrackSettings(Struct, frozen=True, forbid_unknown_fields=True):
    days: float = 7.0
    points_max: int = 10_000_000
    """Of all clients together; beyond them the oldest go."""

    def __post_init__(self) -> None:
        if not 0 < self.days < float("inf"):
            raise ValueError(f"days is {self.days}; give a number above 0")
        if self.points_max < 1:
            raise ValueError(f"points_max is {self.points_max}; give at least 1")


class TrackPoint(Struct, frozen=True):
    at_us: int
    x: float
    y: float


class Tracks:
    """Make it on a loop; `add` and `close` are called there."""

    def __init__(
        self,
        folder: Path,
        settings: TrackSettings,
        space: Space,
        now_us: Callable[[], int],
        failed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`failed` is told of what could not be written. Raises `OSError` or `sqlite3.Error`."""
        self._settings = settings
        self._space = space
        self._now_us = now_us
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tracks")
        self._waiting: list[Row] = []
        self._unwritten = 0
        """Those that wait, and those that are being written."""
        self._timer: asyncio.TimerHandle | None = None
        self._writes = 0
        self._database = sqlite3.connect(folder / FILE, check_same_thread=False, isolation_level=None)
        self._database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;" + TABLE)

    def add(self, context: Context, user: str | None = None) -> None:
        """`user` has the client now."""
        seen = shown(context, self._space)
        if seen is None or seen.position is None or self._unwritten >= WAITING_MAX:
            return
        self._unwritten += 1
        self._waiting.append((seen.host, seen.at_us, seen.position.x, seen.position.y, user))
        if self._timer is None:
            self._timer = self._loop.call_later(WRITE_S, self._write_soon)

    async def of(self, client: str, from_us: int, to_us: int, most: int, user: str | None = None) -> list[TrackPoint]:
        """In the order of time; the newest if there are more. With `user`, while that had the client."""
        self._write_soon()
        return await self._loop.run_in_executor(self._thread, self._read, client, from_us, to_us, most, user)

    def close(self) -> None:
        self._write_soon()
        self._thread.shutdown()
        self._database.close()

    def _write_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            rows, self._waiting = self._waiting, []
            self._writes += 1
            prune = self._writes % PRUNE_EVERY == 1
            writing = self._thread.submit(self._write, rows, prune, self._now_us())
            writing.add_done_callback(partial(self._written, len(rows)))

    def _written(self, count: int, writing: Future[None]) -> None:
        """On the thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._over, count, writing.exception())

    def _over(self, count: int, problem: BaseException | None) -> None:
        self._unwritten -= count
        if problem is not None:
            self._failed(str(problem))

    # On the thread.

    def _write(self, rows: Iterable[Row], prune: bool, now_us: int) -> None:
        database = self._database
        database.execute("BEGIN")
        try:
            database.executemany("INSERT OR REPLACE INTO track VALUES (?, ?, ?, ?, ?)", rows)
            if prune:
                oldest_us = now_us - round(self._settings.days * DAY_US)
                database.execute("DELETE FROM track WHERE at_us < ?", (oldest_us,))
                (count,) = database.execute("SELECT count(*) FROM track").fetchone()
                surplus = max(0, count - self._settings.points_max)
                oldest = "SELECT client, at_us FROM track ORDER BY at_us LIMIT ?"
                database.execute(f"DELETE FROM track WHERE (client, at_us) IN ({oldest})", (surplus,))
        except BaseException:
            database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")

    def _read(self, client: str, from_us: int, to_us: int, most: int, user: str | None) -> list[TrackPoint]:
        found = self._database.execute(ASKED, (client, from_us, to_us, user, user, most)).fetchall()
        return [TrackPoint(*row) for row in reversed(found)]
