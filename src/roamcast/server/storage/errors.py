"""What can go wrong with storage, in words for whoever runs the broker."""

from pathlib import Path


class StorageError(Exception):
    """Base of all."""


class LogInUse(StorageError):
    """Another broker works on the directory."""

    def __init__(self, directory: Path, pid: str) -> None:
        who = f"the broker with process id {pid}" if pid else "another broker"
        super().__init__(f"{directory}: in use by {who}; stop it, or give this one a data directory of its own")


class DamagedLog(StorageError):
    """What was stored cannot be read as it was written; nothing behind the damage is given out."""

    def __init__(self, file: Path, what: str) -> None:
        super().__init__(
            f"{file}: {what}. Restore {file.parent} from a backup, or move it away to start empty; the sessions and "
            "messages in it are not served until then"
        )


class StorageFull(StorageError):
    """The batch is not known to be safe. What was safe before still is, and a later batch may find room again."""
