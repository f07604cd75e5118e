"""Who listens on a port of this machine, as far as Linux lets one know: /proc has the sockets, and whose they are."""

import os
from pathlib import Path

LISTENING = "0A"


def owner_of(port: int) -> str | None:
    """The name and number of the process, if it is ours to see."""
    inodes = {inode for table in ("tcp", "tcp6") for inode in listeners(Path("/proc/net") / table, port)}
    if not inodes:
        return None
    sockets = {f"socket:[{inode}]" for inode in inodes}
    try:
        processes = sorted(int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())
    except OSError:
        return None
    return next(
        (f"{name_of(process)} (process {process})" for process in processes if has_one(process, sockets)), None
    )


def listeners(table: Path, port: int) -> list[str]:
    """The inodes of the sockets that listen on it: column 2 is the local address, 4 the state, 10 the inode."""
    try:
        rows = [line.split() for line in table.read_text(encoding="ascii").splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == LISTENING]


def has_one(process: int, sockets: set[str]) -> bool:
    try:
        with os.scandir(f"/proc/{process}/fd") as files:
            return any(link_of(each.path) in sockets for each in files)
    except OSError:
        return False


def link_of(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def name_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return "a program"
