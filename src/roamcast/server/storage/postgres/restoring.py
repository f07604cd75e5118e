"""A log is restored under a name that no broker can have, and gets its own in one transaction when it is whole."""

from roamcast.server.storage.postgres.database import Database, Link, Session
from roamcast.server.storage.postgres.lease import Lease

SUFFIX = "/restore"
"""A slash is in no broker's name."""
MOVE_S = 3_600.0
"""A server that has gone is noticed sooner, by keepalives; this one only has much to rename."""
HELD = "SELECT 1 FROM roamcast.leases WHERE broker = %(broker)s AND epoch = %(epoch)s FOR KEY SHARE"
DROP = (
    "DELETE FROM roamcast.logs WHERE broker = %(broker)s",
    "DELETE FROM roamcast.snapshots WHERE broker = %(broker)s",
    "DELETE FROM roamcast.batches WHERE broker = %(broker)s",
    "DELETE FROM roamcast.segments WHERE broker = %(broker)s",
)
RENAME = (
    "UPDATE roamcast.logs SET broker = %(broker)s WHERE broker = %(part)s",
    "UPDATE roamcast.snapshots SET broker = %(broker)s WHERE broker = %(part)s",
    "UPDATE roamcast.batches SET broker = %(broker)s WHERE broker = %(part)s",
    "UPDATE roamcast.segments SET broker = %(broker)s WHERE broker = %(part)s",
)


def beside(database: Database) -> Database:
    """Where the log of this broker is restored."""
    return Database(database.url, database.name + SUFFIX, database.synced)


def drop(lease: Lease) -> None:
    """Whatever there is of a log, as of a restore that was interrupted."""
    _change(lease, lease.database.name)


def move(part: Lease, lease: Lease) -> None:
    """The log of `part` takes the place of that of `lease`. Both are held."""
    _change(lease, part.database.name)


def _change(lease: Lease, part: str) -> None:
    name = lease.database.name
    given = {"broker": name, "epoch": lease.epoch, "part": part}

    def work(link: Link) -> None:
        with link.transaction():
            if link.execute(HELD, given).fetchone() is None:
                raise lease.gone("another process has taken its place")
            for statement in DROP if part == name else (*DROP, *RENAME):
                link.execute(statement, given)

    session = Session(lease.database, "active restore")
    try:
        session.within(MOVE_S, work)
    finally:
        session.close()
