"""The tables, which the first broker makes in a schema of their own, and their version.

`leases` is apart from `logs`: a lease is renewed every second, also while a commit that takes long has its row of
`logs` locked. A commit locks the row of its lease FOR KEY SHARE. That lets renewals pass, since they leave the key
alone, and holds up whoever wants to count up the epoch, which is in the key, until the commit is over.
"""

from roamcast.server.storage.errors import StorageError
from roamcast.server.storage.postgres.database import Link, one_line

FORMAT = 1
MAKING_LOCK = 0x726F616D
"""Of two brokers that start on an empty database, one makes the tables."""

TABLES = """
CREATE SCHEMA IF NOT EXISTS roamcast;
CREATE TABLE roamcast.format (one boolean PRIMARY KEY DEFAULT true CHECK (one), version integer NOT NULL);
CREATE TABLE roamcast.leases (
    broker text PRIMARY KEY,
    epoch bigint NOT NULL,
    holder text NOT NULL,
    deadline timestamptz NOT NULL,
    granted interval NOT NULL,
    UNIQUE (broker, epoch)
) WITH (fillfactor = 20);
CREATE TABLE roamcast.logs (
    broker text PRIMARY KEY,
    life bigint NOT NULL,
    covered bigint NOT NULL,
    covered_chain bytea NOT NULL,
    last bigint NOT NULL,
    chain bytea NOT NULL,
    checksum bytea NOT NULL
) WITH (fillfactor = 20);
CREATE TABLE roamcast.batches (
    broker text, number bigint, chain bytea NOT NULL, body bytea NOT NULL, PRIMARY KEY (broker, number)
);
CREATE TABLE roamcast.snapshots (
    broker text, piece integer, checksum bytea NOT NULL, body bytea NOT NULL, PRIMARY KEY (broker, piece)
);
ALTER TABLE roamcast.batches ALTER body SET STORAGE EXTERNAL;
ALTER TABLE roamcast.snapshots ALTER body SET STORAGE EXTERNAL;
"""

SEGMENTS = """
CREATE TABLE IF NOT EXISTS roamcast.segments (
    broker text, number bigint, checksum bytea NOT NULL, body bytea NOT NULL, PRIMARY KEY (broker, number)
);
ALTER TABLE roamcast.segments ALTER body SET STORAGE EXTERNAL;
"""
"""Added since; a broker that does not know it is not disturbed."""


def prepare(link: Link, place: str) -> None:
    """Makes the tables if there are none; raises `StorageError` for those of another version."""
    import psycopg

    if version(link) is None or not has_segments(link):
        try:
            with link.transaction():
                link.execute("SELECT pg_advisory_xact_lock(%s)", [MAKING_LOCK])
                if version(link) is None:
                    link.execute(TABLES)
                    link.execute("INSERT INTO roamcast.format (version) VALUES (%s)", [FORMAT])
                if version(link) == FORMAT and not has_segments(link):
                    link.execute(SEGMENTS)
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.DuplicateTable) as problem:
            raise StorageError(
                f"{place}: the tables cannot be made: {one_line(problem)}. Give the broker's role a database of its "
                "own (CREATE DATABASE … OWNER …), or GRANT CREATE ON DATABASE"
            ) from problem
    found = version(link)
    if found != FORMAT:
        raise StorageError(
            f"{place}: its tables are of version {found}, and this roamcast knows {FORMAT}. Nothing was changed: "
            "start the roamcast that made them, or give this one another database"
        )


def has_segments(link: Link) -> bool:
    row = link.execute("SELECT to_regclass('roamcast.segments') IS NOT NULL").fetchone()
    return row is not None and bool(row[0])


def version(link: Link) -> int | None:
    row = link.execute("SELECT to_regclass('roamcast.format') IS NOT NULL").fetchone()
    if row is None or not row[0]:
        return None
    row = link.execute("SELECT version FROM roamcast.format").fetchone()
    return None if row is None else int(row[0])
