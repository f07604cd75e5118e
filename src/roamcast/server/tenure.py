"""How long a broker may serve: for good with a directory of its own, with a database as long as it holds its lease.

The lease is renewed on a thread of its own (`Lease.keep`). Here the event loop looks at it too, several times in its
length and before anything is said to clients: a process that was paused must not answer anybody when it goes on.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from roamcast.server.settings import Settings
from roamcast.server.storage import LeaseLost, Log, LogStore, is_postgres
from roamcast.server.storage.postgres import Database, Lease, PostgresLog

LOOKS = 10
"""In the length of a lease."""


class Tenure:
    def __init__(self, settings: Settings, lease: Lease | None, lost: Callable[[LeaseLost], None]) -> None:
        """`lease` is that of a standby, which waited for it; `lost` may be called more than once."""
        self.lease = lease
        self._settings = settings
        self._lost = lost
        self._watch: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        """Takes the lease where one is needed and not there; raises `StorageError`."""
        loop = asyncio.get_running_loop()
        if self.lease is None and is_postgres(self._settings.data):
            lease = lease_for(self._settings)
            await loop.run_in_executor(None, lease.take)
            self.lease = lease
        if self.lease is not None:

            def lost(problem: LeaseLost) -> None:
                loop.call_soon_threadsafe(self._lost, problem)

            self.lease.keep(lost)

    def open_log(self) -> LogStore:
        if self.lease is None:
            return Log.open(Path(self._settings.data), self._settings.storage)
        return PostgresLog.open(self.lease, self._settings.storage)

    def serving(self) -> None:
        """What was stored has been read."""
        if self.lease is not None:
            self.lease.serving()
            self._look(self.lease)

    def _look(self, lease: Lease) -> None:
        self._watch = asyncio.get_running_loop().call_later(lease.length_s / LOOKS, self._look, lease)
        self.lasts()

    def lasts(self) -> bool:
        """Whether anything may be said still."""
        if self.lease is None or self.lease.held:
            return True
        self._lost(self.lease.gone("it could not be renewed in time"))
        return False

    def end(self) -> None:
        """The log is closed, so whoever waits may serve."""
        if self._watch is not None:
            self._watch.cancel()
        if self.lease is not None:
            self.lease.release()


def lease_for(settings: Settings) -> Lease:
    """That of the broker's name in the database that the settings name."""
    database = Database(settings.data, settings.name, settings.storage.sync == "full")
    return Lease(database, settings.storage.lease_s)
