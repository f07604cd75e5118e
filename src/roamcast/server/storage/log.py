"""The log of a broker: batches that were made safe one after the other, and a snapshot that stands for the oldest.

One SQLite file in a directory of its own, in WAL mode with a sync at every commit (unless settings turn it off), held
by one process at a time. The log does not know what is in a batch. It numbers them, and a checksum over number and
body goes with each, so that `load` gives back exactly what was appended, in order, or raises `DamagedLog` at the
first batch for which that is not so. `life` counts how often the log was opened; it makes names unique that a broker
makes up.

A snapshot and the removal of the batches that it covers are one transaction. It is not held to the quota, since it is
what makes room; the free space that the quota asks for is kept for it.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct

from roamcast.server.storage.errors import DamagedLog, LogInUse, StorageError, StorageFull
from roamcast.server.storage.wal import check_wal

FORMAT = 1
FILE = "log.sqlite"
LOCK = "lock"
CHECKSUM_BYTES = 16
BODY_BYTES_MAX = 512 * 1024 * 1024
"""Half of what SQLite takes in one value."""
QUOTA_BYTES_MIN = 65_536
"""An empty log takes some pages."""
WAL_BYTES_KEPT = 16 * 1024 * 1024
INCREMENTAL = 2
ROW_BYTES = 64
"""What a batch takes on disk besides its body, about."""
FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)

SCHEMA = """
CREATE TABLE state (one INTEGER PRIMARY KEY, format INT, life INT, covered INT, last INT, checksum BLOB) STRICT;
CREATE TABLE snapshot (covered INTEGER PRIMARY KEY, checksum BLOB, body BLOB) STRICT;
CREATE TABLE batches (number INTEGER PRIMARY KEY, checksum BLOB, body BLOB) STRICT;
"""

Row: TypeAlias = tuple[object, ...]
Opened = TypeVar("Opened", bound="Log")


class Quota(Struct, frozen=True, forbid_unknown_fields=True):
    bytes_max: int = 1024 * 1024 * 1024
    """What the log may take on disk."""
    free_bytes_min: int = 64 * 1024 * 1024
    """What must stay free on the file system; with 0 nobody looks before the system itself refuses."""
    snapshot_bytes: int = 64 * 1024 * 1024
    """When so much was logged, the state is written in one piece in its place."""
    snapshot_replay_s: float = 2.0
    """The same when so many seconds of work were logged: so long it would take to read them again."""
    sync: Literal["full", "off"] = "full"
    """With `off` a killed broker loses nothing, but a machine that loses power may lose or damage the log."""

    def __post_init__(self) -> None:
        if self.bytes_max < QUOTA_BYTES_MIN or self.free_bytes_min < 0:
            raise ValueError(f"bytes_max is at least {QUOTA_BYTES_MIN}, free_bytes_min 0 or more")
        if self.snapshot_bytes < 1:
            raise ValueError(f"snapshot_bytes is {self.snapshot_bytes}; give at least 1")
        if not 0 < self.snapshot_replay_s < float("inf"):
            raise ValueError(f"snapshot_replay_s is {self.snapshot_replay_s}; give a number above 0")

    @property
    def snapshot_every_bytes(self) -> int:
        """Early enough that what is logged does not take the room for what is kept."""
        return min(self.snapshot_bytes, self.bytes_max // 4)


class Loaded(Struct, frozen=True):
    """`batches` are those behind the snapshot. They are read while one goes through them, before the next append."""

    snapshot: bytes | None
    batches: Iterator[bytes]
    life: int


class State(Struct, frozen=True):
    """The one row that says what else must be there. `covered` and `last` are numbers of batches, 0 before any."""

    life: int = 0
    covered: int = 0
    last: int = 0

    def row(self) -> tuple[int, int, int, int, int, bytes]:
        values = (FORMAT, self.life, self.covered, self.last)
        return (1, *values, checksum(0, repr(values).encode()))


class Log:
    """Blocking. Methods may be called from any thread, one at a time."""

    def __init__(self, directory: Path, quota: Quota, lock: int, database: sqlite3.Connection, state: State) -> None:
        self.file = directory / FILE
        self._quota = quota
        self._lock = lock
        self._database = database
        self._state = state
        self._page_bytes = int(database.execute("PRAGMA page_size").fetchone()[0])

    @classmethod
    def open(cls: type[Opened], directory: Path, quota: Quota | None = None) -> Opened:
        """Makes the directory, for its owner alone, if it is not there."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = locked(directory)
        except OSError as problem:
            raise StorageError(f"{directory}: cannot be used as a data directory: {problem.strerror}") from problem
        try:
            quota = quota or Quota()
            database, state = opened(directory / FILE, quota)
            return cls(directory, quota, lock, database, state)
        except BaseException:
            os.close(lock)
            raise

    @property
    def life(self) -> int:
        return self._state.life

    def load(self) -> Loaded:
        snapshot = None
        if self._state.covered:
            row = self._read("SELECT * FROM snapshot WHERE covered = ?", self._state.covered)
            snapshot = self._body(next(row, None), self._state.covered, "the snapshot")
        return Loaded(snapshot, self._batches(), self._state.life)

    def _batches(self) -> Iterator[bytes]:
        state = self._state
        rows = self._read("SELECT * FROM batches WHERE number > ? ORDER BY number", state.covered)
        for number in range(state.covered + 1, state.last + 1):
            yield self._body(next(rows, None), number, f"batch {number} of {state.last}")
        if next(rows, None) is not None:
            raise DamagedLog(self.file, f"there are batches behind batch {state.last}, which was the last")

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

    def append_all(self, batches: Sequence[bytes]) -> None:
        """All of them or none, safe on disk when it returns; `StorageFull` when there is no room."""
        self._check_room(batches)
        state = self._state
        rows: list[Row] = [
            (number, checksum(number, body), body) for number, body in enumerate(batches, state.last + 1)
        ]
        with_these = State(state.life, state.covered, state.last + len(batches))
        self._commit(with_these, [("INSERT INTO batches VALUES (?, ?, ?)", rows)])

    def snapshot(self, state: bytes, behind: int = 0) -> None:
        """`state` stands from now on for all batches so far but the last `behind`; `StorageFull` when the disk has no
        room for it."""
        if len(state) > BODY_BYTES_MAX:
            raise StorageFull(f"{self.file}: a snapshot of {len(state)} bytes; at most {BODY_BYTES_MAX} are stored")
        before = self._state
        # A snapshot before any batch needs a number above 0 too, or it could not be told from none.
        last = max(before.last, 1)
        covered = last - behind
        if behind < 0 or covered < max(before.covered, 1):
            raise ValueError(f"{behind} batches behind a snapshot, of {before.last - before.covered}")
        self._commit(
            State(before.life, covered, last),
            [
                ("DELETE FROM snapshot", [()]),
                ("INSERT INTO snapshot VALUES (?, ?, ?)", [(covered, checksum(covered, state), state)]),
                ("DELETE FROM batches WHERE number <= ?", [(covered,)]),
            ],
        )
        self._give_back()

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
        self._state = state

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
        used = self.used_bytes()
        if used + wanted > self._quota.bytes_max:
            raise StorageFull(
                f"{self.file}: {used} bytes are used and {wanted} more wanted; the quota is {self._quota.bytes_max}"
            )
        if not self._quota.free_bytes_min:
            return
        disk = os.statvfs(self.file.parent)
        free = disk.f_bavail * disk.f_frsize
        if free - wanted < self._quota.free_bytes_min:
            raise StorageFull(
                f"{self.file}: {free} bytes are free on the disk and {wanted} wanted; "
                f"{self._quota.free_bytes_min} must stay free"
            )

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
        """Nothing is lost without it; it only leaves one tidy file."""
        self._database.close()
        os.close(self._lock)


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


def opened(file: Path, quota: Quota) -> tuple[sqlite3.Connection, State]:
    """The database with its settings, checked, and counted as opened once more."""
    check_wal(file.with_name(file.name + "-wal"))
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    database = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    try:
        prepare(database, quota)
        return database, next_life(database, file)
    except sqlite3.DatabaseError as problem:
        database.close()
        if primary_code(problem) in FULL:
            raise StorageFull(f"{file}: cannot be opened ({problem}); make room on the disk") from problem
        raise DamagedLog(file, f"SQLite cannot read it ({problem})") from problem
    except BaseException:
        database.close()
        raise


def prepare(database: sqlite3.Connection, quota: Quota) -> None:
    database.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    if database.execute("PRAGMA auto_vacuum").fetchone()[0] != INCREMENTAL:
        # Only for a new file, since this writes even where nothing changes.
        database.execute("PRAGMA auto_vacuum = INCREMENTAL")
    for setting in (
        "journal_mode = WAL",
        f"synchronous = {quota.sync}",
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
