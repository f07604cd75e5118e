"""The log of a broker in PostgreSQL: batches that were made safe one after the other, and a snapshot in pieces.

A group of batches is one statement, and so one transaction and one answer of the server: it locks the row of the
lease if the epoch is still this broker's, moves the row of the log on from where this broker believes it to be, and
inserts the batches; where the first or second finds nothing, nothing is inserted. A snapshot is one transaction too,
its statements sent together (pipeline mode).

Each batch carries a checksum over itself and the checksum before it. The row of the log has the last number and the
last link of that chain. So a batch that is missing, damaged, or of another history is noticed when the log is read,
and a database that has gone back to an earlier state (a restored copy, a replica that had not everything) as soon as
a broker that wrote to the later one writes again.

A connection that breaks leaves open whether its commit was made. The log is read over the next one: it ends either
before the group, which is written once more, or with it. What is found there may have been committed without the
answer of a synchronous standby, so one more commit must succeed before it counts as safe.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

from msgspec.structs import replace

from roamcast.server.storage.errors import DamagedLog, StorageError, StorageFull, Unreachable
from roamcast.server.storage.postgres.database import Database, Link, Session
from roamcast.server.storage.postgres.lease import Lease
from roamcast.server.storage.postgres.reading import Reader, State, link_of, piece_checksum, segment_checksum
from roamcast.server.storage.postgres.schema import prepare, version
from roamcast.server.storage.settings import StorageSettings
from roamcast.server.storage.store import Loaded, Needed, Segment

BATCH_BYTES_MAX = 256 * 1024 * 1024
"""A quarter of what PostgreSQL takes in one value, since a dump writes two characters for a byte."""
PIECE_BYTES = 4 * 1024 * 1024
"""Of a snapshot, in one row."""
ROW_BYTES = 64
"""What a batch takes besides its body, about."""
RETRY_S = 0.1
READ_S = 300.0
"""For some rows of a log that is backed up."""
NO_ROOM = ("53100", "53200", "54000")
"""SQLSTATEs of a server without room on its disk, without memory, and of a value that is too large."""
HELD = "held AS (SELECT broker FROM roamcast.leases WHERE broker = %(broker)s AND epoch = %(epoch)s FOR KEY SHARE)"
MOVED = """
moved AS (
    UPDATE roamcast.logs SET life = %(life)s, covered = %(covered)s, covered_chain = %(covered_chain)b,
        last = %(last)s, chain = %(chain)b, checksum = %(checksum)b
    FROM held WHERE logs.broker = held.broker AND logs.checksum = %(before)b RETURNING logs.broker
)
"""
APPEND = f"""
WITH {HELD}, {MOVED}
INSERT INTO roamcast.batches (broker, number, chain, body)
SELECT moved.broker, each.* FROM moved, unnest(%(numbers)b::bigint[], %(chains)b::bytea[], %(bodies)b::bytea[]) each
"""
MOVE = f"WITH {HELD}, {MOVED} SELECT broker FROM moved"
DROP_SNAPSHOT = "DELETE FROM roamcast.snapshots WHERE broker = %(broker)s"
ADD_PIECE = "INSERT INTO roamcast.snapshots VALUES (%(broker)s, %(piece)s, %(piece_checksum)b, %(body)b)"
DROP_BATCHES = "DELETE FROM roamcast.batches WHERE broker = %(broker)s AND number <= %(covered)s"
ADD_SEGMENTS = """
INSERT INTO roamcast.segments (broker, number, checksum, body)
SELECT %(broker)s, each.*
FROM unnest(%(segments)b::bigint[], %(checksums)b::bytea[], %(segment_bodies)b::bytea[]) each
ON CONFLICT (broker, number) DO UPDATE SET checksum = excluded.checksum, body = excluded.body
"""
DROP_SEGMENTS = "DELETE FROM roamcast.segments WHERE broker = %(broker)s AND number = ANY(%(dropped)b::bigint[])"
FIRST = """
INSERT INTO roamcast.logs (broker, life, covered, covered_chain, last, chain, checksum)
VALUES (%(broker)s, %(life)s, %(covered)s, %(covered_chain)b, %(last)s, %(chain)b, %(checksum)b)
ON CONFLICT DO NOTHING
"""
EPOCH = "SELECT epoch FROM roamcast.leases WHERE broker = %(broker)s"


class PostgresLog:
    """Blocking, as long as the lease is held: then `LeaseLost` ends whatever is tried."""

    synced = True

    def __init__(self, lease: Lease, settings: StorageSettings | None = None) -> None:
        """`lease` is held."""
        self._lease = lease
        self._database = lease.database
        self._settings = settings or StorageSettings()
        self._session = Session(lease.database, "active log")
        self._state = State()
        """As it is stored."""
        self._used_bytes = 0
        self._reader = Reader(self.place, self._database.name, self._ask)

    @classmethod
    def open(cls, lease: Lease, settings: StorageSettings | None = None) -> "PostgresLog":
        log = cls(lease, settings)
        try:
            log._begin()
        except BaseException:
            log.close()
            raise
        return log

    @property
    def place(self) -> str:
        return self._database.place

    @property
    def life(self) -> int:
        return self._state.life

    def _begin(self) -> None:
        """Reads where the log ends, and counts this life of its broker."""
        before = self._reader.state()
        if before is None:
            self._do(lambda link: link.execute(FIRST, self._given(State())))
            before = State()
        self._state = before
        self._move(replace(before, life=before.life + 1))

    # Reading.

    def load(self) -> Loaded:
        snapshot = self._reader.snapshot(self._state)
        self._used_bytes = len(snapshot or b"") + self._segments_bytes()
        return Loaded(snapshot, self._batches(), self._state.life, self._reader.segments())

    def _batches(self) -> Iterator[bytes]:
        for body in self._reader.batches(self._state):
            self._used_bytes += len(body) + ROW_BYTES
            yield body

    def segment(self, number: int) -> bytes:
        return self._reader.segment(number)

    def _ask(self, query: LiteralString, given: Mapping[str, object]) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._do(lambda link: link.execute(query, given, binary=True).fetchall())
        return rows

    # Writing.

    def append(self, batch: bytes) -> None:
        self.append_all([batch])

    def append_all(self, batches: Sequence[bytes], segments: Sequence[Segment] = ()) -> None:
        """All of them or none, safe in the database when it returns; `StorageFull` when there is no room."""
        wanted = sum(map(len, batches)) + ROW_BYTES * len(batches) + bytes_of(segments)
        self._check_room(batches, wanted)
        chain, chains = self._state.chain, list[bytes]()
        for number, body in enumerate(batches, self._state.last + 1):
            chain = link_of(chain, number, body)
            chains.append(chain)
        after = replace(self._state, last=self._state.last + len(batches), chain=chain)
        given = self._given(after) | {
            "numbers": list(range(self._state.last + 1, after.last + 1)),
            "chains": chains,
            "bodies": list(batches),
        }
        if segments:
            self._commit(after, lambda link: self._append_with(link, given | given_of(segments), len(batches)))
        else:
            self._commit(after, lambda link: link.execute(APPEND, given, prepare=True).rowcount == len(batches))
        self._used_bytes += wanted

    def _append_with(self, link: Link, given: dict[str, Any], count: int) -> bool:
        with link.transaction():
            if link.execute(APPEND, given).rowcount != count:
                return False
            link.execute(ADD_SEGMENTS, given)
        return True

    def _check_room(self, batches: Sequence[bytes], wanted: int) -> None:
        if max(map(len, batches), default=0) > BATCH_BYTES_MAX:
            raise StorageFull(f"{self.place}: a batch of more than {BATCH_BYTES_MAX} bytes is not stored")
        if self._used_bytes + wanted > self._settings.bytes_max:
            raise StorageFull(
                f"{self.place}: {self._used_bytes} bytes are used and {wanted} more wanted; the quota is "
                f"{self._settings.bytes_max}"
            )

    def snapshot(
        self, state: bytes, behind: int = 0, segments: Sequence[Segment] = (), needed: Needed | None = None
    ) -> None:
        """`state` stands from now on for all batches so far but the last `behind`; `StorageFull` when the database
        has no room for it."""
        before = self._state
        # A snapshot before any batch needs a number above 0 too, or it could not be told from none.
        last = max(before.last, 1)
        covered = last - behind
        if behind < 0 or covered < max(before.covered, 1):
            raise ValueError(f"{behind} batches behind a snapshot, of {before.last - before.covered}")
        chain = before.chain if behind == 0 else self._chain_at(covered)
        after = replace(before, covered=covered, covered_chain=chain, last=last)
        kept_bytes = self._bytes_behind(covered) if behind else 0
        dropped = [] if needed is None or not needed.last else list(filter(needed.drops, self._reader.numbers()))
        more = given_of(segments) | {"dropped": dropped}
        self._commit(after, lambda link: self._write_snapshot(link, after, state, more))
        self._used_bytes = len(state) + kept_bytes + self._segments_bytes()

    def _write_snapshot(self, link: Link, after: State, state: bytes, more: dict[str, Any]) -> bool:
        given = self._given(after) | more
        with link.transaction():
            # The lease first: without it nothing else may be done.
            if link.execute(MOVE, given).fetchone() is None:
                return False
            with link.pipeline():
                link.execute(DROP_SNAPSHOT, given)
                # An empty piece is the last one, so that a snapshot which was cut off is none.
                bodies = [state[at : at + PIECE_BYTES] for at in range(0, len(state), PIECE_BYTES)]
                for piece, body in enumerate([*bodies, b""]):
                    checksum = piece_checksum(after.covered, piece, body)
                    link.execute(ADD_PIECE, given | {"piece": piece, "piece_checksum": checksum, "body": body})
                link.execute(DROP_BATCHES, given)
                if given["segments"]:
                    link.execute(ADD_SEGMENTS, given)
                if given["dropped"]:
                    link.execute(DROP_SEGMENTS, given)
        return True

    def _chain_at(self, number: int) -> bytes:
        if number == self._state.covered:
            return self._state.covered_chain
        query = "SELECT chain FROM roamcast.batches WHERE broker = %s AND number = %s"
        row = self._do(lambda link: link.execute(query, (self._database.name, number)).fetchone())
        if row is None:
            raise DamagedLog(self.place, f"batch {number} of {self._state.last} is missing")
        return bytes(row[0])

    def _bytes_behind(self, number: int) -> int:
        query = """
            SELECT coalesce(sum(length(body) + %s), 0) FROM roamcast.batches WHERE broker = %s AND number > %s
        """
        row = self._do(lambda link: link.execute(query, (ROW_BYTES, self._database.name, number)).fetchone())
        return 0 if row is None else int(row[0])

    def _segments_bytes(self) -> int:
        query = "SELECT coalesce(sum(length(body) + %s), 0) FROM roamcast.segments WHERE broker = %s"
        row = self._do(lambda link: link.execute(query, (ROW_BYTES, self._database.name)).fetchone())
        return 0 if row is None else int(row[0])

    def _move(self, after: State) -> None:
        given = self._given(after)
        self._commit(after, lambda link: link.execute(MOVE, given).fetchone() is not None)

    def _commit(self, after: State, write: Callable[[Link], bool]) -> None:
        """Returns when the log ends as `after` says, safely."""
        if not self._do(write):
            self._settle(after)
        self._state = after

    def _settle(self, after: State) -> None:
        """Nothing was written: it had been already, over a connection that broke, or it may not be any more."""
        row = self._do(lambda link: link.execute(EPOCH, {"broker": self._database.name}).fetchone())
        if row is None or row[0] != self._lease.epoch:
            raise self._lease.gone("another broker has taken its place")
        if self._reader.state() != after:
            raise self._lease.gone(
                f"{self.place} has gone back to an earlier state, before batch {self._state.last}: a backup was "
                "restored under it, or a replica took over that had not everything (see synchronous_standby_names)"
            )
        # Perhaps it is in one server alone so far. What is committed behind it waits for the others, for both.
        given = self._given(after) | {"before": after.checksum}
        self._do(lambda link: link.execute(MOVE, given).fetchone())

    def _do(self, work: Callable[[Link], Any]) -> Any:
        """Over this connection or the next, as long as the lease is held. Work that is not known to be done is done
        again, so it must find out by itself that it was."""
        while True:
            try:
                return work(self._session.link())
            except Unreachable as problem:
                explained: StorageError = problem
            except StorageError:
                raise
            except Exception as problem:
                explained = self._explained(problem)
            if not isinstance(explained, Unreachable):
                raise explained
            if not self._lease.held:
                raise self._lease.gone(str(explained)) from explained
            time.sleep(RETRY_S)

    def _explained(self, problem: Exception) -> StorageError:
        import psycopg

        if not isinstance(problem, psycopg.Error):
            raise problem
        if problem.sqlstate in NO_ROOM:
            return StorageFull(f"{self.place}: not written ({problem}); make room on the database's disk")
        return self._session.explained(problem)

    def _given(self, after: State) -> dict[str, Any]:
        return after.given() | {
            "broker": self._database.name,
            "epoch": self._lease.epoch,
            "before": self._state.checksum,
        }

    def close(self) -> None:
        self._session.close()


@contextmanager
def snapshot_of(database: Database) -> Iterator[Loaded]:
    """What is stored at one moment, also while a broker writes; raises `StorageError` if there is nothing."""
    # The server waits while what was read is written to a file.
    session = Session(database, "backup", idle_s=0.0)

    def begin(link: Link) -> None:
        if version(link) is None:
            raise StorageError(f"{database.place}: contains no broker's log")
        prepare(link, database.place)
        link.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    try:
        session.within(READ_S, begin)
        link = session.link()

        def ask(query: LiteralString, given: Mapping[str, object]) -> list[tuple[Any, ...]]:
            # Over this connection alone: another one would see another moment.
            return session.within(READ_S, lambda _: link.execute(query, given, binary=True).fetchall())

        reader = Reader(database.place, database.name, ask)
        state = reader.state()
        if state is None:
            raise StorageError(f"{database.place}: no broker's log is called '{database.name}' in it")
        yield Loaded(reader.snapshot(state), reader.batches(state), state.life, reader.segments())
    finally:
        session.close()


def bytes_of(segments: Sequence[Segment]) -> int:
    return sum([len(body) + ROW_BYTES for _, body in segments])


def given_of(segments: Sequence[Segment]) -> dict[str, object]:
    return {
        "segments": [number for number, _ in segments],
        "checksums": [segment_checksum(number, body) for number, body in segments],
        "segment_bodies": [body for _, body in segments],
    }
