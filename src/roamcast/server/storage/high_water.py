"""The number of the last batch that was safe, in a file beside the log.

SQLite cannot tell a write-ahead log that was removed or cut off from one that was never longer. This file can: it is
written after each commit, so the log has at least as many batches as it says, unless somebody has taken some away. It
is not synced, for that would double the price of a commit: a power cut may leave an older number, never a later one.
"""

import os
from contextlib import suppress
from pathlib import Path

from roamcast.server.storage.errors import DamagedLog, StorageError

FILE = "high-water"
DIGITS = 20


class HighWater:
    def __init__(self, directory: Path) -> None:
        self.file = directory / FILE
        try:
            self._open = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise StorageError(f"{self.file}: cannot be opened: {problem.strerror}") from problem

    def check(self, last: int, log: Path) -> None:
        """Raises `DamagedLog` if the log ends before what was safe."""
        said = os.read(self._open, DIGITS + 1).strip()
        if said.isdigit() and int(said) > last:
            gone = f"it ends with batch {last}, and {int(said)} were safe: its write-ahead log was removed or cut off"
            raise DamagedLog(log, f"{gone}. If you have put back an older copy on purpose, delete {self.file}")

    def write(self, last: int) -> None:
        """In place, so it needs no room. A disk that fails says so at the next commit."""
        with suppress(OSError):
            os.pwrite(self._open, b"%0*d\n" % (DIGITS, last), 0)

    def close(self) -> None:
        os.close(self._open)
