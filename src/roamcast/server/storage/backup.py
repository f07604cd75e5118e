"""A whole copy of a broker's log in one file, of one that runs or one that is stopped, in a directory or a database.

    roamcast backup 1          the first line
    S length body              the snapshot, if there is one
    B length body              each batch behind it, in order
    E length checksum          over everything before; without it the file is not whole

Lengths have eight bytes. What is read is checked as when a broker starts, so a copy is made of a log that is whole,
or not at all. The file does not say where the log was: it can be restored into a directory or a database.

A broker that runs holds its SQLite file alone, so that is copied as it is, first the database and then its
write-ahead log. A checkpoint may write to the first meanwhile, but only what is in the second too, as long as that
has not begun anew: then another copy is made. SQLite puts the two together as after a crash.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path

from roamcast.server.storage.errors import DamagedLog, StorageError
from roamcast.server.storage.high_water import FILE as HIGH_WATER
from roamcast.server.storage.log import FILE, Log
from roamcast.server.storage.postgres.database import Database
from roamcast.server.storage.postgres.lease import Lease
from roamcast.server.storage.postgres.log import PostgresLog, snapshot_of
from roamcast.server.storage.settings import StorageSettings
from roamcast.server.storage.store import Loaded, LogStore, is_postgres

FIRST_LINE = b"roamcast backup 1\n"
LENGTH_BYTES = 8
TRIES = 20
"""A copy is made anew when the write-ahead log began anew meanwhile, which takes some megabytes of messages."""
WAL_HEADER_BYTES = 32
GROUP_BYTES = 8 * 1024 * 1024
LEASE_S = 2.0
UNBOUNDED = StorageSettings(bytes_max=2**60, free_bytes_min=0)


def back_up(data: str, name: str, file: Path) -> int:
    """How many batches there are behind the snapshot; raises `StorageError`. `name` is that of the broker, which a
    database needs."""
    with of_database(data, name) if is_postgres(data) else of_directory(Path(data), file.parent) as loaded:
        part = file.with_name(file.name + ".part")
        try:
            count = write(part, loaded)
            part.replace(file)
        except OSError as problem:
            raise StorageError(f"{file}: cannot be written: {problem.strerror}") from problem
        finally:
            part.unlink(missing_ok=True)
        return count


def restore(file: Path, data: str, name: str) -> int:
    """Into a directory or database that has no log yet; how many batches there were. Raises `StorageError`."""
    # Read once before anything is made, so that a file which is not whole leaves nothing behind.
    for _ in read(file):
        pass
    if not is_postgres(data):
        with closing(Log.open(Path(data), UNBOUNDED)) as log:
            return fill(log, read(file))
    lease = Lease(Database(data, name), LEASE_S)
    lease.take()
    # Whatever takes it away makes the next write fail.
    lease.keep(lambda _: None)
    try:
        with closing(PostgresLog.open(lease, UNBOUNDED)) as in_database:
            return fill(in_database, read(file))
    finally:
        lease.release()


def fill(log: LogStore, records: Iterator[tuple[bytes, bytes]]) -> int:
    loaded = log.load()
    if loaded.snapshot is not None or next(loaded.batches, None) is not None:
        raise StorageError(f"{log.place}: there is a log already; restore into another place, or move it away")
    count, group = 0, list[bytes]()
    for kind, body in records:
        if kind == b"S":
            log.snapshot(body)
        else:
            count += 1
            group.append(body)
            if sum(map(len, group)) > GROUP_BYTES:
                log.append_all(group)
                group = []
    if group:
        log.append_all(group)
    return count


# The file.


def write(file: Path, loaded: Loaded) -> int:
    count, checksum = 0, blake2b()
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as output:

        def put(data: bytes) -> None:
            checksum.update(data)
            output.write(data)

        put(FIRST_LINE)
        if loaded.snapshot is not None:
            put(b"S" + len(loaded.snapshot).to_bytes(LENGTH_BYTES) + loaded.snapshot)
        for body in loaded.batches:
            count += 1
            put(b"B" + len(body).to_bytes(LENGTH_BYTES) + body)
        end = checksum.digest()
        output.write(b"E" + len(end).to_bytes(LENGTH_BYTES) + end)
        output.flush()
        os.fsync(output.fileno())
    return count


def read(file: Path) -> Iterator[tuple[bytes, bytes]]:
    """Kinds and bodies; raises `StorageError` where the file is not as it was written."""
    try:
        size_bytes = file.stat().st_size
        with file.open("rb") as given:
            checksum = blake2b(first := given.readline(len(FIRST_LINE)))
            if first != FIRST_LINE:
                raise StorageError(f"{file}: no backup of a broker of this version")
            while True:
                head = given.read(1 + LENGTH_BYTES)
                length = int.from_bytes(head[1:])
                if len(head) <= LENGTH_BYTES or length > size_bytes or len(body := given.read(length)) < length:
                    raise StorageError(f"{file}: the backup is cut off")
                if head[:1] == b"E":
                    if body != checksum.digest() or given.read(1):
                        raise StorageError(f"{file}: the backup is damaged: its checksum is wrong")
                    return
                checksum.update(head)
                checksum.update(body)
                yield head[:1], body
    except OSError as problem:
        raise StorageError(f"{file}: cannot be read: {problem.strerror}") from problem


# What is copied.


@contextmanager
def of_database(url: str, name: str) -> Iterator[Loaded]:
    with snapshot_of(Database(url, name)) as loaded:
        yield loaded


@contextmanager
def of_directory(directory: Path, beside: Path) -> Iterator[Loaded]:
    """The copy is made in a directory of its own `beside` where the backup will be, since it is about as large."""
    if not (directory / FILE).exists():
        raise StorageError(f"{directory}: there is no log of a broker in it")
    try:
        with tempfile.TemporaryDirectory(prefix=".roamcast-backup-", dir=beside) as name:
            safe = safe_batches(directory)
            copy_files(directory, Path(name))
            with closing(Log.open(Path(name), UNBOUNDED)) as log:
                if log.last < safe:
                    raise DamagedLog(directory / FILE, f"it ends with batch {log.last}, and {safe} were safe")
                yield log.load()
    except OSError as problem:
        raise StorageError(f"{directory}: cannot be copied: {problem.strerror}") from problem


def safe_batches(directory: Path) -> int:
    """As many as the copy must have at least."""
    try:
        said = (directory / HIGH_WATER).read_bytes().strip()
    except FileNotFoundError:
        return 0
    return int(said) if said.isdigit() else 0


def copy_files(directory: Path, into: Path) -> None:
    database, wal = directory / FILE, directory / f"{FILE}-wal"
    for _ in range(TRIES):
        before = wal_header(wal)
        shutil.copyfile(database, into / FILE)
        if before:
            shutil.copyfile(wal, into / wal.name)
        if wal_header(wal) == before:
            return
        (into / wal.name).unlink(missing_ok=True)
    raise StorageError(f"{directory}: it changes too fast to be copied; try again when there is less to store")


def wal_header(wal: Path) -> bytes:
    """It has another salt whenever the file begins anew."""
    try:
        with wal.open("rb") as given:
            return given.read(WAL_HEADER_BYTES)
    except FileNotFoundError:
        return b""
