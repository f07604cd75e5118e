"""Small values that a node keeps across crashes; each is synced before the next effect is performed."""

import os
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote


class Disk(Protocol):
    def read(self) -> dict[str, bytes]: ...
    def write(self, key: str, value: bytes | None) -> None:
        """None forgets."""
        ...


class MemoryDisk:
    """For a node that is not meant to outlive its process."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def read(self) -> dict[str, bytes]:
        return dict(self.kept)

    def write(self, key: str, value: bytes | None) -> None:
        if value is None:
            self.kept.pop(key, None)
        else:
            self.kept[key] = value


class FolderDisk:
    """A file for each key, replaced as a whole and synced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def read(self) -> dict[str, bytes]:
        return {
            unquote(each.name): each.read_bytes() for each in sorted(self.folder.iterdir()) if each.suffix != ".new"
        }

    def write(self, key: str, value: bytes | None) -> None:
        path = self.folder / quote(key, safe="")
        if value is None:
            path.unlink(missing_ok=True)
        else:
            new = path.with_name(path.name + ".new")
            with new.open("wb") as file:
                file.write(value)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
