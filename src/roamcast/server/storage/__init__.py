"""What a live broker keeps: one append-only log of opaque batches, and a snapshot that stands for older ones.

`store.py` says what a log is asked for. `Log` is one in a file, `postgres` has one in a database. `GroupCommit` puts
either on an asyncio loop, where all batches that come while one transaction is written share the next.
"""

from roamcast.server.storage.errors import (
    DamagedLog,
    LeaseHeld,
    LeaseLost,
    LogInUse,
    StorageError,
    StorageFull,
    Unreachable,
)
from roamcast.server.storage.group_commit import GroupCommit
from roamcast.server.storage.log import Log
from roamcast.server.storage.settings import StorageSettings
from roamcast.server.storage.store import Loaded, LogStore, is_postgres

__all__ = [
    "DamagedLog",
    "GroupCommit",
    "LeaseHeld",
    "LeaseLost",
    "Loaded",
    "Log",
    "LogInUse",
    "LogStore",
    "StorageError",
    "StorageFull",
    "StorageSettings",
    "Unreachable",
    "is_postgres",
]
