"""What a live broker keeps on disk: one append-only log of opaque batches, and a snapshot that stands for older ones.

`Log` is the file, blocking and synced; `GroupCommit` puts it on an asyncio loop, where all batches that come while
one transaction is written share the next.
"""

from roamcast.server.storage.errors import DamagedLog, LogInUse, StorageError, StorageFull
from roamcast.server.storage.group_commit import GroupCommit
from roamcast.server.storage.log import Loaded, Log
from roamcast.server.storage.settings import StorageSettings

__all__ = ["DamagedLog", "GroupCommit", "Loaded", "Log", "LogInUse", "StorageError", "StorageFull", "StorageSettings"]
