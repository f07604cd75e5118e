"""The right to serve a broker's name: a row with an epoch and a deadline.

    WAITING   another process holds it; the row is looked at several times a second
    HELD      the deadline is put off every third of the lease's length, by the database's clock
    LOST      another epoch is in the row, or the lease was over before it could be renewed
    RELEASED  given back: whoever waits may have it at once

Whoever takes the lease counts up the epoch, and every commit checks it (`log.py`): a process that was paused may
believe in its lease as long as it likes, and writes nothing. Whether a lease is over is judged by the database's
clock alone. The holder stops earlier, by a clock of its own that it reads before it asks: it is silent when another
begins.

A deadline that is much further away than its holder set it was written before the clock of the database was set back,
or by another server. It counts as passed.

Whoever takes over ends the connections of the one before. A broker that was paused in the middle of a commit would
otherwise keep its locks.
"""

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from threading import Event, Thread
from typing import Any, LiteralString

from roamcast.clock import since_boot_ns
from roamcast.server.storage.errors import LeaseHeld, LeaseLost, StorageError, Unreachable
from roamcast.server.storage.postgres.database import Database, Session
from roamcast.server.storage.postgres.schema import prepare

RENEWALS = 3
"""In the length of a lease."""
LOOKS = 12
"""In the same time, by one that waits."""
PATIENCE = 1.5
"""For so many lengths one looks that is not to wait: the holder may be its own life before, which was killed."""
STARTING_S = 10.0
"""What is granted beyond a lease's length while what was stored is read: renewals may have to wait for that."""
PREPARE_S = 30.0
"""For the tables to be looked at or made, however short the lease is."""
RETRY_S = 0.2

FREE = "(deadline < clock_timestamp() OR deadline > clock_timestamp() + 2 * granted)"
LOOK = f"SELECT epoch, holder, {FREE} FROM roamcast.leases WHERE broker = %(broker)s"
FIRST = """
INSERT INTO roamcast.leases (broker, epoch, holder, deadline, granted)
VALUES (%(broker)s, 1, %(holder)s, clock_timestamp() + %(length)s, %(length)s)
ON CONFLICT DO NOTHING RETURNING epoch
"""
END_OTHERS = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE starts_with(application_name, %(tag)s || ' active') AND usename = current_user AND datname = current_database()
"""
TAKE = f"""
UPDATE roamcast.leases
SET epoch = epoch + 1, holder = %(holder)s, deadline = clock_timestamp() + %(length)s, granted = %(length)s
WHERE broker = %(broker)s AND epoch = %(epoch)s AND {FREE} RETURNING epoch
"""
RENEW = """
UPDATE roamcast.leases SET deadline = clock_timestamp() + %(length)s, granted = %(length)s
WHERE broker = %(broker)s AND epoch = %(epoch)s RETURNING epoch
"""
RELEASE = """
UPDATE roamcast.leases SET deadline = '-infinity' WHERE broker = %(broker)s AND epoch = %(epoch)s RETURNING epoch
"""
RENAME = "SELECT set_config('application_name', %(tag)s || ' active lease', false)"


def steady_s() -> float:
    return since_boot_ns() / 1e9


class Lease:
    """`take` or `wait`, then `keep`, and `serving` once what was stored has been read."""

    def __init__(
        self, database: Database, length_s: float, clock_s: Callable[[], float] = steady_s, holder: str = ""
    ) -> None:
        self.database = database
        self.length_s = length_s
        self.epoch = 0
        self.holder = holder or f"{socket.gethostname()}, process {os.getpid()}"
        """How people find the process."""
        self._clock_s = clock_s
        self._session = Session(database, "standby", lock_s=length_s)
        self._prepared = False
        self._beyond_s = STARTING_S
        self._until_s = float("-inf")
        self._wake = Event()
        self._ended = False
        self._keeper: Thread | None = None

    @property
    def held(self) -> bool:
        """Whether this process may still speak for the broker."""
        return self._clock_s() < self._until_s

    # Getting it.

    def take(self) -> None:
        """At once, or as soon as one is over that nobody renews; raises `LeaseHeld` if somebody does."""
        give_up_s = self._clock_s() + PATIENCE * self.length_s
        while holder := self.try_take():
            if self._clock_s() > give_up_s:
                self._session.close()
                raise LeaseHeld(self.database.place, self.database.name, holder)
            self._wake.wait(self.length_s / LOOKS)

    def wait(self, told: Callable[[str], None]) -> bool:
        """For as long as it takes, for the database too; False if `end` was called meanwhile. `told` hears what is
        waited for, whenever that changes."""
        before = ""
        while not self._ended:
            try:
                holder = self.try_take()
                if not holder:
                    return True
                what = f"'{self.database.name}' is served by {holder}; this one waits for its place"
            except Unreachable as problem:
                what = str(problem)
            if what != before:
                told(what)
                before = what
            self._wake.wait(self.length_s / LOOKS)
        return False

    def try_take(self) -> str:
        """Empty if it is ours now, otherwise who holds it."""
        if not self._prepared:
            self._session.within(PREPARE_S, lambda link: prepare(link, self.database.place))
            self._prepared = True
        row = self._one(LOOK)
        if row is None:
            return "" if self._took(FIRST) else "another broker"
        self.epoch, holder, free = row
        if not free:
            return str(holder)
        self._one(END_OTHERS)
        return "" if self._took(TAKE) else str(holder)

    def _took(self, query: LiteralString) -> bool:
        asked_s = self._clock_s()
        row = self._one(query)
        if row is None:
            return False
        self.epoch = row[0]
        self._until_s = asked_s + self.length_s + self._beyond_s
        self._one(RENAME)
        self._session.role = "active lease"
        # A commit that had to wait for a standby of the database may have taken longer than the lease is.
        return self.held or self.renew()

    # Keeping it.

    def keep(self, lost: Callable[[LeaseLost], None]) -> None:
        """Renews it from now on, on a thread of its own, on which `lost` is called if that ends."""
        self._keeper = Thread(target=self._keep, args=(lost,), name="lease", daemon=True)
        self._keeper.start()

    def serving(self) -> None:
        """What was stored has been read: from now on the lease is as short as it is called."""
        self._beyond_s = 0.0
        self._wake.set()

    def _keep(self, lost: Callable[[LeaseLost], None]) -> None:
        pause_s = 0.0
        while True:
            self._wake.wait(pause_s)
            self._wake.clear()
            if self._ended:
                return
            why = "its process stood still"
            try:
                if not self.renew():
                    lost(self.gone("another broker has taken its place"))
                    return
                pause_s = self.length_s / RENEWALS
            except StorageError as problem:
                pause_s, why = RETRY_S, str(problem)
            if not self.held:
                lost(self.gone(why))
                return

    def renew(self) -> bool:
        """False if it is another's; raises `StorageError` if nobody knows."""
        asked_s, length_s = self._clock_s(), self.length_s + self._beyond_s
        # The new deadline may be in the database though its answer is lost, and it may be the earlier one.
        self._until_s = min(self._until_s, asked_s + length_s)
        if self._one(RENEW) is None:
            self._until_s = float("-inf")
            return False
        self._until_s = asked_s + length_s
        return True

    def gone(self, why: str) -> LeaseLost:
        return LeaseLost(
            f"'{self.database.name}' has lost its lease ({why}). It has closed its connections and writes nothing "
            "more; start it again with --standby"
        )

    # The end.

    def end(self) -> None:
        """Stops waiting, and renewing."""
        self._ended = True
        self._wake.set()

    def release(self) -> None:
        """Gives it back, if it is ours still."""
        self.end()
        if self._keeper is not None:
            self._keeper.join()
        if self.held:
            with suppress(StorageError):
                self._one(RELEASE)
        self._until_s = float("-inf")
        self._session.close()

    def _one(self, query: LiteralString) -> tuple[Any, ...] | None:
        return self._session.one(query, self._given(), self.length_s)

    def _given(self) -> Mapping[str, object]:
        return {
            "broker": self.database.name,
            "tag": self.database.tag,
            "epoch": self.epoch,
            "holder": self.holder,
            "length": timedelta(seconds=self.length_s + self._beyond_s),
        }
