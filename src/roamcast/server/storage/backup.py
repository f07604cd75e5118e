"""A whole copy of a broker's log in one file, of one that runs or one that is stopped, in a directory or a database.

    roamcast backup 2          the first line
    S length body              the snapshot, if there is one
    B length body              each batch behind it, in order
    G length number body       each segment that either refers to; its number has eight bytes
    E length checksum          over everything before; without it the file is not whole

Lengths have eight bytes. What is read is checked as when a broker starts, so a copy is made of a log that is whole,
or not at all. The file does not say where the log was: it can be restored into a directory or a database.

A broker that runs holds its SQLite file alone, so that is copied as it is, first the database and then its
write-ahead log. A checkpoint may write to the first meanwhile, but only what is in the second too, as long as that
has not begun anew: then another copy is made, as when the copy is damaged and the files have changed meanwhile.
SQLite puts the two together as after a crash.

What is restored is first written where no broker looks for it, and takes its place in one step.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from roamcast.server.storage.errors import DamagedLog, StorageError
from roamcast.server.storage.high_water import FILE as HIGH_WATER
from roamcast.server.storage.log import FILE, Log, locked
from roamcast.server.storage.postgres import restoring
from roamcast.server.storage.postgres.database import Database
from roamcast.server.storage.postgres.lease import Lease
from roamcast.server.storage.postgres.log import PostgresLog, snapshot_of
from roamcast.server.storage.settings import StorageSettings
from roamcast.server.storage.store import Loaded, LogStore, is_postgres

FIRST_LINE = b"roamcast backup 2\n"
BEFORE = b"roamcast backup 1\n"
"""Without segments."""
LENGTH_BYTES = 8
PART = "restore.part"
"""In a data directory: what has not been restored as a whole yet."""
TRIES = 20
"""A copy is made anew when the write-ahead log began anew meanwhile, which takes some megabytes of messages."""
WAL_HEADER_BYTES = 32
GROUP_BYTES = 8 * 1024 * 1024
LEASE_S = 2.0
ANOTHER_PLACE = "there is a log already; restore into another place, or move it away"
UNBOUNDED = StorageSettings(bytes_max=2**60, free_bytes_min=0)


def back_up(data: str, name: str, file: Path) -> int:
    """How many batches there are behind the snapshot; raises `StorageError`. `name` is that of the broker, which a
    database needs."""
    if is_postgres(data):
        with snapshot_of(Database(data, name)) as loaded:
            return put_down(loaded, file)
    for tries_left in reversed(range(TRIES)):
        before = stamps(Path(data))
        try:
            with of_directory(Path(data), file.parent) as loaded:
                return put_down(loaded, file)
        except DamagedLog:
            # What was copied of files that changed may be of different moments.
            if not tries_left or stamps(Path(data)) == before:
                raise
    raise AssertionError("the last try returns or raises")


def put_down(loaded: Loaded, file: Path) -> int:
    """As `file`, whole or not at all."""
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
        return restore_directory(file, Path(data))
    return restore_database(file, Database(data, name))


def restore_directory(file: Path, directory: Path) -> int:
    part = directory / PART
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = locked(directory)
    except OSError as problem:
        raise StorageError(f"{directory}: cannot be used as a data directory: {problem.strerror}") from problem
    try:
        if (directory / FILE).exists():
            raise StorageError(f"{directory / FILE}: {ANOTHER_PLACE}")
        if part.exists():
            shutil.rmtree(part)
        with closing(Log.open(part, UNBOUNDED)) as log:
            count = fill(log, read(file))
        if (part / f"{FILE}-wal").exists():
            raise StorageError(f"{part}: SQLite could not finish its file; make room on the disk and try again")
        (part / FILE).replace(directory / FILE)
        # One that is left from a log before may ask for more batches than there are now.
        (part / HIGH_WATER).replace(directory / HIGH_WATER)
        sync_directory(directory)
        return count
    except OSError as problem:
        raise StorageError(f"{directory}: cannot be restored into: {problem.strerror}") from problem
    finally:
        shutil.rmtree(part, ignore_errors=True)
        os.close(lock)


def restore_database(file: Path, database: Database) -> int:
    with held(database) as lease:
        with closing(PostgresLog.open(lease, UNBOUNDED)) as before:
            loaded = before.load()
            if loaded.snapshot is not None or next(loaded.batches, None) is not None:
                raise StorageError(f"{before.place}: {ANOTHER_PLACE}")
        with held(restoring.beside(database)) as part:
            restoring.drop(part)
            with closing(PostgresLog.open(part, UNBOUNDED)) as log:
                count = fill(log, read(file))
            restoring.move(part, lease)
        return count


@contextmanager
def held(database: Database) -> Iterator[Lease]:
    lease = Lease(database, LEASE_S)
    lease.take()
    # Whatever takes it away makes the next write fail.
    lease.keep(lambda _: None)
    try:
        yield lease
    finally:
        lease.release()


def sync_directory(directory: Path) -> None:
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def fill(log: LogStore, records: Iterator[tuple[bytes, bytes]]) -> int:
    """An empty one."""
    count, group = 0, list[bytes]()
    for kind, body in records:
        if kind == b"S":
            log.snapshot(body)
        elif kind == b"G":
            log.append_all(group, [(int.from_bytes(body[:LENGTH_BYTES]), body[LENGTH_BYTES:])])
            group = []
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
        for number, body in loaded.segments:
            put(b"G" + (LENGTH_BYTES + len(body)).to_bytes(LENGTH_BYTES) + number.to_bytes(LENGTH_BYTES) + body)
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
            if first not in (FIRST_LINE, BEFORE):
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
def of_directory(directory: Path, beside: Path) -> Iterator[Loaded]:
    """The copy is made in a directory of its own `beside` where the backup will be, since it is about as large."""
    if not (directory / FILE).exists():
        raise StorageError(f"{directory}: contains no broker's log")
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
        before = moment(database, wal)
        shutil.copyfile(database, into / FILE)
        if wal_header(wal):
            with suppress(FileNotFoundError):
                shutil.copyfile(wal, into / wal.name)
        if moment(database, wal) == before:
            return
        (into / wal.name).unlink(missing_ok=True)
    raise StorageError(f"{directory}: it changes too fast to be copied; try again when there is less to store")


def moment(database: Path, wal: Path) -> object:
    """It is another one when the copies of the two files may not fit together."""
    # A write-ahead log that is empty before and after may have been filled, and put into the database, meanwhile.
    return wal_header(wal) or stamp(database)


def stamps(directory: Path) -> object:
    return stamp(directory / FILE), stamp(directory / f"{FILE}-wal")


def stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def wal_header(wal: Path) -> bytes:
    """It has another salt whenever the file begins anew."""
    try:
        with wal.open("rb") as given:
            return given.read(WAL_HEADER_BYTES)
    except FileNotFoundError:
        return b""
