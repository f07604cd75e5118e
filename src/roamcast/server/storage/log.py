"""The log of a broker: batches that were made safe one after the other, and a snapshot that stands for the oldest.

One SQLite file in a directory of its own, in WAL mode with a sync at every commit (unless settings turn it off), held
by one process at a time. The log does not know what is in a batch. It numbers them, and a checksum over number and
body goes with each, so that `load` gives back exactly what was appended, in order, or raises `DamagedLog` at the
first batch for which that is not so. `life` counts how often the log was opened; it makes names unique that a broker
makes up.

A batch is one INSERT, which is its own transaction: one page or two, and one sync. The row that says how many batches
there must be is written with the first batch, with snapshots and at the end. Behind it batches are numbered without a
gap. That none of the newest go missing unnoticed is seen to by `high_water.py`, and that none before them is damaged
by `wal.py`.

Segments are what the state refers to and does not hold. They are stored with the batch that made them, in one
transaction, and go with the first snapshot that needs them no more.

A snapshot and the removal of the batches that it covers are one transaction. It is not held to the quota, since it is
what makes room; the free space that the quota asks for is kept for it.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TypeAlias, TypeVar

from msgspec import Struct

from roamcast.server.storage.errors import DamagedLog, LogInUse, StorageError, StorageFull
from roamcast.server.storage.high_water import HighWater
from roamcast.server.storage.settings import StorageSettings
from roamcast.server.storage.store import Loaded, Needed, Segment
from roamcast.server.storage.wal import check_wal

FORMAT = 1
FILE = "log.sqlite"
LOCK = "lock"
CHECKSUM_BYTES = 16
BODY_BYTES_MAX = 512 * 1024 * 1024
"""Half of what SQLite takes in one value."""
WAL_BYTES_KEPT = 16 * 1024 * 1024
CHECKPOINT_PAGES = 4_000
"""How large SQLite's write-ahead log grows. Pages that a snapshot frees before are not copied into the database."""
LOOK_BYTES = 1024 * 1024
"""After so much that was written one looks again how much room there is."""
INCREMENTAL = 2
ROW_BYTES = 64
"""What a batch takes on disk besides its body, about."""
FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)

SCHEMA = """
CREATE TABLE state (one INTEGER PRIMARY KEY, format INT, life INT, covered INT, last INT, checksum BLOB) STRICT;
CREATE TABLE snapshot (covered INTEGER PRIMARY KEY, checksum BLOB, body BLOB) STRICT;
CREATE TABLE batches (number INTEGER PRIMARY KEY, checksum BLOB, body BLOB) STRICT;
"""

SEGMENTS = "CREATE TABLE IF NOT EXISTS segments (number INTEGER PRIMARY KEY, checksum BLOB, body BLOB) STRICT"
"""Made when there is the first, since files of earlier versions have none."""
INSERT = "INSERT INTO batches VALUES (?, ?, ?)"
INSERT_SEGMENT = "REPLACE INTO segments VALUES (?, ?, ?)"

Row: TypeAlias = tuple[object, ...]
Opened = TypeVar("Opened", bound="Log")


class State(Struct, frozen=True):
    """The one row that says what else must be there. `covered` and `last` are numbers of batches, 0 before any; there
    may be more behind `last`."""

    life: int = 0
    covered: int = 0
    last: int = 0

    def row(self) -> tuple[int, int, int, int, int, bytes]:
        values = (FORMAT, self.life, self.covered, self.last)
        return (1, *values, checksum(0, repr(values).encode()))


class Log:
    """Blocking. Methods may be called from any thread, one at a time."""

    def __init__(
        self,
        directory: Path,
        settings: StorageSettings,
        lock: int,
        database: sqlite3.Connection,
        state: State,
        high_water: HighWater | None = None,
    ) -> None:
        self.file = directory / FILE
        self.synced = settings.sync == "full"
        self._settings = settings
        self._lock = lock
        self._database = database
        self._state = state
        """As it is stored, but for `life` before the first commit."""
        self._state_is_stored = False
        self._last = max(state.last, last_batch(database))
        self._high_water = high_water
        self._room_bytes = 0
        """What may be written before one looks again."""
        self._page_bytes = int(database.execute("PRAGMA page_size").fetchone()[0])

    @classmethod
    def open(cls: type[Opened], directory: Path, settings: StorageSettings | None = None) -> Opened:
        """Makes the directory, for its owner alone, if it is not there."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = locked(directory)
        except OSError as problem:
            raise StorageError(f"{directory}: cannot be used as a data directory: {problem.strerror}") from problem
        high_water = None
        try:
            settings = settings or StorageSettings()
            # Without syncs a number could reach the disk before its batch.
            high_water = HighWater(directory) if settings.sync == "full" else None
            database, state = opened(directory / FILE, settings, high_water)
            return cls(directory, settings, lock, database, state, high_water)
        except BaseException:
            if high_water is not None:
                high_water.close()
            os.close(lock)
            raise

    @property
    def place(self) -> str:
        return str(self.file)

    @property
    def life(self) -> int:
        return self._state.life

    @property
    def last(self) -> int:
        """The number of the last batch."""
        return self._last

    def load(self) -> Loaded:
        snapshot = None
        if self._state.covered:
            row = self._read("SELECT * FROM snapshot WHERE covered = ?", self._state.covered)
            snapshot = self._body(next(row, None), self._state.covered, "the snapshot")
        return Loaded(snapshot, self._batches(), self._state.life, self._segments())

    def segment(self, number: int) -> bytes:
        rows = self._read("SELECT * FROM segments WHERE number = ?", number) if self._has_segments() else iter(())
        return self._body(next(rows, None), number, f"segment {number}")

    def _segments(self) -> Iterator[Segment]:
        if self._has_segments():
            for row in self._read("SELECT * FROM segments WHERE number > ? ORDER BY number", 0):
                number = int(str(row[0]))
                yield number, self._body(row, number, f"segment {number}")

    def _has_segments(self) -> bool:
        return self._database.execute("SELECT 1 FROM sqlite_master WHERE name = 'segments'").fetchone() is not None

    def _batches(self) -> Iterator[bytes]:
        state = self._state
        rows = self._read("SELECT * FROM batches WHERE number > ? ORDER BY number", state.covered)
        for number in range(state.covered + 1, state.last + 1):
            yield self._body(next(rows, None), number, f"batch {number} of {state.last}")
        for number, row in enumerate(rows, state.last + 1):
            yield self._body(row, number, f"batch {number}")

    def _read(self, query: str, number: int) -> Iterator[Row]:
        try:
            for row in self._database.execute(query, (number,)):  # noqa: UP028  (a cursor's own close would follow)
                yield row
        except sqlite3.DatabaseError as problem:
            raise DamagedLog(self.file, f"SQLite cannot read it ({problem})") from problem

    def _body(self, row: Row | None, number: int, what: str) -> bytes:
        if row is None or row[0] != number:
            raise DamagedLog(self.file, f"{what} is missing")
        if not isinstance(row[2], bytes) or row[1] != checksum(number, row[2]):
            raise DamagedLog(self.file, f"{what} is damaged: its checksum is wrong")
        return row[2]

    def append(self, batch: bytes) -> None:
        self.append_all([batch])

    def append_all(self, batches: Sequence[bytes], segments: Sequence[Segment] = ()) -> None:
        """All of them or none, safe on disk when it returns; `StorageFull` when there is no room."""
        self._check_room([*batches, *(body for _, body in segments)])
        last = self._last + len(batches)
        rows: list[Row] = [
            (number, checksum(number, body), body) for number, body in enumerate(batches, self._last + 1)
        ]
        if self._state_is_stored and len(rows) == 1 and not segments:
            self._append_one(rows[0])
        else:
            changes = [(INSERT, rows), *storing(segments)]
            self._commit(State(self._state.life, self._state.covered, last), changes)
        self._last = last
        if self._high_water is not None:
            self._high_water.write(last)

    def _append_one(self, row: Row) -> None:
        try:
            # `execute` would ask for the id of the row too, and give the lock of the interpreter away for that.
            self._database.executemany(INSERT, (row,))
        except sqlite3.DatabaseError as problem:
            raise self._explained(problem) from problem

    def snapshot(
        self, state: bytes, behind: int = 0, segments: Sequence[Segment] = (), needed: Needed | None = None
    ) -> None:
        """`state` stands from now on for all batches so far but the last `behind`; `StorageFull` when the disk has no
        room for it."""
        if len(state) > BODY_BYTES_MAX:
            raise StorageFull(f"{self.file}: a snapshot of {len(state)} bytes; at most {BODY_BYTES_MAX} are stored")
        before = self._state
        # A snapshot before any batch needs a number above 0 too, or it could not be told from none.
        last = max(self._last, 1)
        covered = last - behind
        if behind < 0 or covered < max(before.covered, 1):
            raise ValueError(f"{behind} batches behind a snapshot, of {self._last - before.covered}")
        self._commit(
            State(before.life, covered, last),
            [
                ("DELETE FROM snapshot", [()]),
                ("INSERT INTO snapshot VALUES (?, ?, ?)", [(covered, checksum(covered, state), state)]),
                ("DELETE FROM batches WHERE number <= ?", [(covered,)]),
                *storing(segments),
                *self._dropping(needed),
            ],
        )
        self._last, self._room_bytes = last, 0
        self._give_back()

    def _dropping(self, needed: Needed | None) -> list[tuple[str, list[Row]]]:
        if needed is None or not needed.last or not self._has_segments():
            return []
        numbers = [row[0] for row in self._database.execute("SELECT number FROM segments")]
        return [("DELETE FROM segments WHERE number = ?", [(each,) for each in numbers if needed.drops(each)])]

    def _commit(self, state: State, changes: list[tuple[str, list[Row]]]) -> None:
        database = self._database
        try:
            database.execute("BEGIN IMMEDIATE")
            for statement, rows in changes:
                database.executemany(statement, rows)
            database.execute("REPLACE INTO state VALUES (?, ?, ?, ?, ?, ?)", state.row())
            database.execute("COMMIT")
        except sqlite3.DatabaseError as problem:
            roll_back(database)
            raise self._explained(problem) from problem
        self._state, self._state_is_stored = state, True

    def _explained(self, problem: sqlite3.DatabaseError) -> StorageError:
        if primary_code(problem) in FULL:
            return StorageFull(
                f"{self.file}: not written ({problem}); make room on the disk, or see whether it fails"
            )
        return DamagedLog(self.file, f"SQLite cannot write to it ({problem})")

    def _check_room(self, batches: Sequence[bytes]) -> None:
        if max(map(len, batches), default=0) > BODY_BYTES_MAX:
            raise StorageFull(f"{self.file}: a batch of more than {BODY_BYTES_MAX} bytes is not stored")
        wanted = sum(map(len, batches)) + ROW_BYTES * len(batches)
        if wanted > self._room_bytes:
            # A quarter of it, since pages are not full.
            self._room_bytes = min(self._room(wanted) // 4, LOOK_BYTES)
        else:
            self._room_bytes -= wanted

    def _room(self, wanted: int) -> int:
        """What is left behind `wanted` bytes, at least 0; `StorageFull` if there is no room for these."""
        settings, used = self._settings, self.used_bytes()
        room = settings.bytes_max - used - wanted
        if room < 0:
            raise StorageFull(
                f"{self.file}: {used} bytes are used and {wanted} more wanted; the quota is {settings.bytes_max}"
            )
        if not settings.free_bytes_min:
            return room
        disk = os.statvfs(self.file.parent)
        free = disk.f_bavail * disk.f_frsize
        if free - wanted < settings.free_bytes_min:
            raise StorageFull(
                f"{self.file}: {free} bytes are free on the disk and {wanted} wanted; "
                f"{settings.free_bytes_min} must stay free"
            )
        return min(room, free - wanted - settings.free_bytes_min)

    def used_bytes(self) -> int:
        """What is held. The files may be larger by what was given up and is used again for the next."""
        pages = int(self._database.execute("PRAGMA page_count").fetchone()[0])
        free = int(self._database.execute("PRAGMA freelist_count").fetchone()[0])
        return (pages - free) * self._page_bytes

    def _give_back(self) -> None:
        """Leave unused pages to the file system. It is no loss if there is no room to do so: they are used later."""
        try:
            # As a script, since `execute` stops after the first page.
            self._database.executescript("PRAGMA incremental_vacuum")
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.DatabaseError as problem:
            roll_back(self._database)
            if primary_code(problem) not in FULL:
                raise self._explained(problem) from problem

    def close(self) -> None:
        """Nothing is lost without it; it leaves one tidy file that says how many batches there are."""
        if self._state_is_stored and self._state.last != self._last:
            with suppress(StorageError):
                self._commit(State(self._state.life, self._state.covered, self._last), [])
        self._database.close()
        if self._high_water is not None:
            self._high_water.close()
        os.close(self._lock)


def storing(segments: Sequence[Segment]) -> list[tuple[str, list[Row]]]:
    if not segments:
        return []
    rows: list[Row] = [(number, checksum(number, body), body) for number, body in segments]
    return [(SEGMENTS, [()]), (INSERT_SEGMENT, rows)]


def checksum(number: int, body: bytes) -> bytes:
    return blake2b(body, digest_size=CHECKSUM_BYTES, salt=number.to_bytes(16, "big")).digest()


def primary_code(problem: sqlite3.Error) -> int:
    """Without the details that SQLite adds in the higher bytes."""
    return problem.sqlite_errorcode & 0xFF if hasattr(problem, "sqlite_errorcode") else sqlite3.SQLITE_ERROR


def roll_back(database: sqlite3.Connection) -> None:
    if database.in_transaction:
        database.execute("ROLLBACK")


def locked(directory: Path) -> int:
    """The lock is the system's and ends with the process, however that ends; the number in the file is for people."""
    lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as problem:
        pid = os.read(lock, 20).decode("ascii", "replace").strip()
        os.close(lock)
        raise LogInUse(directory, pid) from problem
    try:
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
    except OSError:
        # On a full disk the broker still starts, to hand out what it has.
        os.ftruncate(lock, 0)
    return lock


def last_batch(database: sqlite3.Connection) -> int:
    return int(database.execute("SELECT ifnull(max(number), 0) FROM batches").fetchone()[0])


def opened(file: Path, settings: StorageSettings, high_water: HighWater | None) -> tuple[sqlite3.Connection, State]:
    """The database with its settings, checked, and counted as opened once more."""
    if settings.sync == "full":
        # Without syncs no transaction is sure to be whole before the next one.
        check_wal(file.with_name(file.name + "-wal"))
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    database = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    try:
        prepare(database, settings)
        state = next_life(database, file)
        if high_water is not None:
            high_water.check(max(state.last, last_batch(database)), file)
        return database, state
    except sqlite3.DatabaseError as problem:
        database.close()
        if primary_code(problem) in FULL:
            raise StorageFull(f"{file}: cannot be opened ({problem}); make room on the disk") from problem
        raise DamagedLog(file, f"SQLite cannot read it ({problem})") from problem
    except BaseException:
        database.close()
        raise


def prepare(database: sqlite3.Connection, settings: StorageSettings) -> None:
    database.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    if database.execute("PRAGMA auto_vacuum").fetchone()[0] != INCREMENTAL:
        # Only for a new file, since this writes even where nothing changes.
        database.execute("PRAGMA auto_vacuum = INCREMENTAL")
    for setting in (
        "journal_mode = WAL",
        f"synchronous = {settings.sync}",
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        f"journal_size_limit = {WAL_BYTES_KEPT}",
    ):
        database.execute(f"PRAGMA {setting}").fetchall()


def next_life(database: sqlite3.Connection, file: Path) -> State:
    if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        state = State(life=1)
        # One transaction, so that a broker killed here leaves an empty file or a whole one.
        database.executescript(f"BEGIN;{SCHEMA}")
        database.execute("INSERT INTO state VALUES (?, ?, ?, ?, ?, ?)", state.row())
        database.execute("COMMIT")
        return state
    findings = [row[0] for row in database.execute("PRAGMA quick_check(1)")]
    if findings != ["ok"]:
        raise DamagedLog(file, f"SQLite's own check says: {findings[0]}")
    rows = database.execute("SELECT * FROM state").fetchall()
    if len(rows) == 1 and isinstance(rows[0][1], int) and rows[0][1] > FORMAT:
        raise StorageError(f"{file}: written by a newer roamcast (format {rows[0][1]}, this one knows {FORMAT})")
    state = State(*rows[0][2:5]) if len(rows) == 1 else State()
    if len(rows) != 1 or rows[0] != state.row():
        raise DamagedLog(file, "the row that says what is stored is damaged")
    # It is stored with the first batch: a file that turns out to be damaged stays as it is.
    return State(state.life + 1, state.covered, state.last)
