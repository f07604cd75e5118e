"""L8: snapshots of a broker's state are made by a copy of its process, while the broker goes on."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roamcast.server.snapshot import ForkingSnapshotter, Snapshot, SnapshotFailed
from roamcast.server.storage import Log, StorageSettings

pytestmark = pytest.mark.timeout(30)


class Scenery:
    """A state that changes."""

    def __init__(self) -> None:
        self.words = ["before"]

    def state(self) -> bytes:
        return " ".join(self.words).encode()


def taken(scenery: Scenery, state: Callable[[], Any] | None = None) -> tuple[Snapshot | SnapshotFailed, list[str]]:
    """A snapshot, and what the broker did meanwhile."""
    meanwhile: list[str] = []

    async def work() -> Snapshot | SnapshotFailed:
        loop = asyncio.get_running_loop()
        there: asyncio.Future[Snapshot | SnapshotFailed] = loop.create_future()
        snapshotter = ForkingSnapshotter(state or scenery.state, loop)
        snapshotter.take(there.set_result)
        scenery.words.append("after")
        loop.call_soon(lambda: meanwhile.append("a tick"))
        return await there

    return asyncio.run(work()), meanwhile


def test_l8_a_snapshot_shows_the_state_of_the_moment_it_was_taken_and_the_broker_goes_on() -> None:
    snapshot, meanwhile = taken(Scenery())
    assert isinstance(snapshot, Snapshot)
    assert (snapshot.state, meanwhile) == (b"before", ["a tick"])


def test_l8_a_large_state_comes_whole() -> None:
    snapshot, _ = taken(Scenery(), lambda: b"0123456789" * 500_000)
    assert isinstance(snapshot, Snapshot)
    assert snapshot.state == b"0123456789" * 500_000


def test_l8_a_copy_that_fails_or_is_killed_gives_no_snapshot() -> None:
    failed, _ = taken(Scenery(), lambda: 1 // 0)
    killed, _ = taken(Scenery(), lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert isinstance(failed, SnapshotFailed)
    assert isinstance(killed, SnapshotFailed)
    assert "-9" in str(killed)


def test_l8_the_copy_holds_no_file_of_the_broker(tmp_path: Path) -> None:
    log = Log.open(tmp_path, StorageSettings())
    try:
        snapshot, _ = taken(Scenery(), lambda: ",".join(sorted(os.listdir("/proc/self/fd"), key=int)).encode())
    finally:
        log.close()
    assert isinstance(snapshot, Snapshot)
    # Its three, the pipe, and the directory that it looks into.
    assert len(snapshot.state.split(b",")) <= 5


def test_l8_where_no_copy_can_be_made_the_broker_pickles_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise OSError("too many processes")

    monkeypatch.setattr(os, "fork", refused)
    files = len(os.listdir("/proc/self/fd"))
    snapshot, _ = taken(Scenery())
    assert isinstance(snapshot, Snapshot)
    assert snapshot.state == b"before"
    assert len(os.listdir("/proc/self/fd")) <= files + 2


def test_l8_where_no_more_files_can_be_opened_the_broker_pickles_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> tuple[int, int]:
        raise OSError("too many open files")

    monkeypatch.setattr(os, "pipe", refused)
    snapshot, _ = taken(Scenery())
    assert isinstance(snapshot, Snapshot)
    assert snapshot.state == b"before"


def test_l8_where_no_more_threads_can_be_started_the_broker_waits_for_its_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    snapshot, _ = taken(Scenery())
    assert isinstance(snapshot, Snapshot)
    assert snapshot.state == b"before"


def test_l8_a_broker_that_was_started_to_ignore_its_children_takes_pictures_too() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        snapshot, _ = taken(Scenery())
        killed, _ = taken(Scenery(), lambda: os.kill(os.getpid(), signal.SIGKILL))
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert isinstance(snapshot, Snapshot)
    assert snapshot.state == b"before"
    assert isinstance(killed, SnapshotFailed)
