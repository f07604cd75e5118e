"""A broker's log in PostgreSQL: several brokers may share a database, and two may wait for the place of one.

`Lease` says which process serves a broker's name, `PostgresLog` is its log. Each has a connection of its own, so
that a large commit does not keep a lease from being renewed.
"""

from roamcast.server.storage.postgres.database import Database, connected
from roamcast.server.storage.postgres.lease import Lease
from roamcast.server.storage.postgres.log import PostgresLog

__all__ = ["Database", "Lease", "PostgresLog", "connected"]
