"""What can go wrong with storage, in words for whoever runs the broker."""

from pathlib import Path


class StorageError(Exception):
    """Base of all."""


class LogInUse(StorageError):
    """Another broker works on the directory."""

    def __init__(self, directory: Path, pid: str) -> None:
        who = f"the broker with process id {pid}" if pid else "another broker"
        super().__init__(f"{directory}: in use by {who}; stop it, or give this one a data directory of its own")


class LeaseHeld(StorageError):
    """Another broker of this name works on the database."""

    def __init__(self, place: str, name: str, holder: str) -> None:
        super().__init__(
            f"{place}: '{name}' is served by {holder}; start this one with --standby to wait for its place, stop the "
            "other, or give this one a name of its own"
        )


class LeaseLost(StorageError):
    """This broker may not write any more, and nothing that it has not written yet is safe. It must stop."""


class Unreachable(StorageError):
    """A database does not answer, or cannot be written to; it may later."""


class DamagedLog(StorageError):
    """What was stored cannot be read as it was written; nothing behind the damage is given out."""

    def __init__(self, file: Path | str, what: str) -> None:
        remedy = (
            f"Restore {file.parent} from a backup, or move it away to start empty"
            if isinstance(file, Path)
            else "Restore the database from a backup, or give the broker another one to start empty"
        )
        super().__init__(f"{file}: {what}. {remedy}; the sessions and messages in it are not served until then")


class StorageFull(StorageError):
    """The batch is not known to be safe. What was safe before still is, and a later batch may find room again."""
