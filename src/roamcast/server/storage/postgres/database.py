"""Connections to the database that `data` names, and what an operator is told when there is none.

The address may name several servers, `postgresql://one,two/roamcast`: the one that can be written to is taken.

No query is ever cancelled and no statement has a time limit. While a commit waits for a synchronous standby, either
would end the wait as if the standby had answered. A connection that takes too long is shut instead, and what became
of its commit is looked up over the next one.
"""

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from threading import Timer
from typing import TYPE_CHECKING, Any, LiteralString, TypeAlias, TypeVar

from msgspec import Struct

from roamcast.server.storage.errors import StorageError, Unreachable

if TYPE_CHECKING:
    from psycopg import Connection

Link: TypeAlias = "Connection[tuple[Any, ...]]"
Result = TypeVar("Result")

CONNECT_S = 3
"""For each of the servers."""
LINK_SETTINGS: dict[str, Any] = {
    "target_session_attrs": "read-write",
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5_000,
}
"""A server that has gone without a word is noticed within seconds. What the address itself says wins."""
IDLE_IN_TRANSACTION_S = 10
INSTALL = "data is a PostgreSQL database, which needs psycopg: pip install 'roamcast[postgres]'"
ELSEWHERE = ("25006", "57P01", "57P02", "57P03", "25P03")
"""SQLSTATEs of a server that takes no writes, stops or starts: another connection may find what this one did not."""
BUSY = ("55P03", "40001", "40P01")
"""Somebody else has the row locked."""
END_BEFORE = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND starts_with(application_name, %s)
"""
SETUP = """
SELECT set_config('synchronous_commit', %s, false), set_config('lock_timeout', %s, false),
    set_config('idle_in_transaction_session_timeout', %s, false)
"""


class Database(Struct, frozen=True):
    """Where a broker's log is, and whose it is."""

    url: str
    name: str
    """Of the broker."""
    synced: bool = True

    @property
    def place(self) -> str:
        """The address without user and password."""
        from psycopg.conninfo import conninfo_to_dict

        parts = conninfo_to_dict(self.url)
        return f"postgresql://{parts.get('host') or 'localhost'}/{parts.get('dbname') or ''}"

    @property
    def tag(self) -> str:
        """How its connections are called. The server cuts long names off, so it is a digest of the broker's name."""
        return f"roamcast {blake2b(self.name.encode(), digest_size=8).hexdigest()}"


class Session:
    """One connection after the other to the same database. States: connected, or not (yet, or any more)."""

    def __init__(
        self, database: Database, role: str, lock_s: float = 0.0, idle_s: float = IDLE_IN_TRANSACTION_S
    ) -> None:
        """`lock_s` is how long it waits for a row that somebody else has locked, and `idle_s` how long the server
        waits for the next statement of a transaction; 0: for as long as it takes."""
        self.database = database
        self.role = role
        self._lock_s = lock_s
        self._idle_s = idle_s
        self._link: Link | None = None
        self._process_id = 0

    def link(self) -> Link:
        """Raises `Unreachable`, or `StorageError` for what no waiting helps against."""
        if self._link is None or self._link.closed:
            link = connected(self.database, self.role)
            try:
                settings = ["on" if self.database.synced else "off", f"{self._lock_s}s", f"{self._idle_s}s"]
                link.execute(SETUP, settings)
                if self._process_id:
                    # Of a connection that was shut, the server's process may be there still, with its locks.
                    link.execute(END_BEFORE, [self._process_id, self.database.tag])
            except Exception as problem:
                link.close()
                raise Unreachable(f"{self.database.place}: {one_line(problem)}") from problem
            self._link, self._process_id = link, link.info.backend_pid
        return self._link

    def one(self, query: LiteralString, given: Mapping[str, object], seconds: float) -> tuple[Any, ...] | None:
        """The first row of an answer that must come within so long; raises `Unreachable` if it does not."""
        return self.within(seconds, lambda link: link.execute(query, given).fetchone())

    def within(self, seconds: float, work: Callable[[Link], Result]) -> Result:
        """The result of what must be done within so long; raises `Unreachable` if it is not."""
        link = self.link()
        try:
            with limited(link, seconds):
                return work(link)
        except StorageError:
            raise
        except Exception as problem:
            raise self.explained(problem) from problem

    def explained(self, problem: Exception) -> StorageError:
        """`Unreachable` for a connection that is of no use any more; it is closed then."""
        state = getattr(problem, "sqlstate", None)
        if self._link is None or self._link.closed or state in ELSEWHERE:
            self.close()
            return Unreachable(f"{self.database.place}: the database does not answer: {one_line(problem)}")
        if state in BUSY:
            return Unreachable(f"{self.database.place}: {one_line(problem)}")
        return StorageError(f"{self.database.place}: {one_line(problem)}")

    def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            with suppress(Exception):
                link.close()


def connected(database: Database, role: str) -> Link:
    """A connection in autocommit mode; raises `StorageError` with what to do."""
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as problem:
        raise StorageError(f"{INSTALL} ({problem})") from problem
    try:
        given = conninfo_to_dict(database.url)
        settings = {key: value for key, value in LINK_SETTINGS.items() if key not in given}
        name = f"{database.tag} {role}"
        return psycopg.connect(database.url, autocommit=True, application_name=name, **settings)
    except psycopg.ProgrammingError as problem:
        raise StorageError(f"data is not a PostgreSQL address: {one_line(problem)}") from problem
    except psycopg.OperationalError as problem:
        raise Unreachable(
            f"{database.place}: the database cannot be reached: {one_line(problem)}. Start it, or correct `data`"
        ) from problem


def one_line(problem: Exception) -> str:
    return " ".join(str(problem).split())


@contextmanager
def limited(link: Link, seconds: float) -> Iterator[None]:
    """Shuts the connection if what is done with it takes longer, as with a server that stands still."""
    timer = Timer(seconds, shut, [link])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def shut(link: Link) -> None:
    """From any thread: whoever waits for the server's answer gets an error. The server is told nothing."""
    with suppress(Exception), socket.socket(fileno=os.dup(link.fileno())) as connection:
        connection.shutdown(socket.SHUT_RDWR)
