"""L8: batches share transactions, are told in order, and fail together with what they were built on."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from roamcast.server.storage import GroupCommit, LeaseLost, Log, StorageError, StorageFull, StorageSettings
from roamcast.server.storage.group_commit import Done
from roamcast.server.storage.store import Segment

Told = list[tuple[str, Exception | None]]


class Gated(Log):
    """A log whose transactions wait at a gate, and are written down."""

    gate: threading.Event
    groups: list[list[bytes]]

    def append_all(self, batches: Sequence[bytes], segments: Sequence[Segment] = ()) -> None:
        self.gate.wait(10)
        self.groups.append(list(batches))
        super().append_all(batches, segments)


def gated(directory: Path, quota: StorageSettings | None = None) -> Gated:
    log = Gated.open(directory, quota)
    log.gate, log.groups = threading.Event(), []
    return log


def noting(told: Told, name: str) -> Done:
    return lambda failure: told.append((name, failure))


def stored(directory: Path) -> list[bytes]:
    log = Log.open(directory)
    try:
        loaded = log.load()
        return [*([loaded.snapshot] if loaded.snapshot is not None else []), *loaded.batches]
    finally:
        log.close()


def test_l8_what_comes_while_a_transaction_is_written_shares_the_next(tmp_path: Path) -> None:
    log = gated(tmp_path)
    told: Told = []

    async def run() -> None:
        commit = GroupCommit(log, asyncio.get_running_loop())
        for name in "abcde":
            commit.submit(name.encode(), noting(told, name))
        assert told == []
        assert commit.waiting_bytes == 5
        log.gate.set()
        await commit.close()
        assert commit.waiting_bytes == 0

    asyncio.run(run())
    assert log.groups == [[b"a"], [b"b", b"c", b"d", b"e"]]
    assert told == [(name, None) for name in "abcde"]
    assert stored(tmp_path) == [b"a", b"b", b"c", b"d", b"e"]


def test_a_snapshot_covers_what_was_submitted_before_it_and_nothing_else(tmp_path: Path) -> None:
    log = gated(tmp_path)
    told: Told = []

    async def run() -> None:
        commit = GroupCommit(log, asyncio.get_running_loop())
        commit.submit(b"a", noting(told, "a"))
        commit.submit(b"b", noting(told, "b"))
        commit.snapshot(b"ab", 0, noting(told, "snapshot"))
        commit.submit(b"c", noting(told, "c"))
        log.gate.set()
        await commit.close()

    asyncio.run(run())
    assert [name for name, _ in told] == ["a", "b", "snapshot", "c"]
    assert stored(tmp_path) == [b"ab", b"c"]


def test_l8_what_waited_behind_a_failure_fails_with_it_and_what_comes_later_is_tried(tmp_path: Path) -> None:
    log = gated(tmp_path, StorageSettings(bytes_max=100_000, free_bytes_min=0))
    told: Told = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        commit = GroupCommit(log, loop)
        failed = loop.create_future()
        commit.submit(b"a", noting(told, "a"))
        commit.submit(b"x" * 200_000, noting(told, "too large"))
        commit.snapshot(b"state", 0, noting(told, "snapshot"))
        commit.submit(b"b", lambda failure: failed.set_result(failure))
        log.gate.set()
        assert isinstance(await failed, StorageFull)
        commit.submit(b"c", noting(told, "c"))
        await commit.close()

    asyncio.run(run())
    assert [(name, type(failure)) for name, failure in told] == [
        ("a", type(None)),
        ("too large", StorageFull),
        ("snapshot", StorageFull),
        ("c", type(None)),
    ]
    assert stored(tmp_path) == [b"a", b"c"]


def test_more_than_may_wait_is_refused_in_its_turn(tmp_path: Path) -> None:
    log = gated(tmp_path)
    told: Told = []

    async def run() -> None:
        commit = GroupCommit(log, asyncio.get_running_loop(), waiting_bytes_max=100)
        for name in ("a", "b", "c"):
            commit.submit(name.encode() * 40, noting(told, name))
        assert commit.waiting_bytes == 80
        log.gate.set()
        await commit.close()

    asyncio.run(run())
    assert [(name, failure is None) for name, failure in told] == [("a", True), ("b", True), ("c", False)]
    assert "slower" in str(told[-1][1])


def test_a_snapshot_is_not_refused_for_being_larger_than_what_may_wait(tmp_path: Path) -> None:
    log = gated(tmp_path)
    told: Told = []

    async def run() -> None:
        commit = GroupCommit(log, asyncio.get_running_loop(), waiting_bytes_max=100)
        commit.submit(b"a" * 40, noting(told, "a"))
        commit.snapshot(b"s" * 500, 0, noting(told, "snapshot"))
        log.gate.set()
        await commit.close()

    asyncio.run(run())
    assert told == [("a", None), ("snapshot", None)]
    assert stored(tmp_path) == [b"s" * 500]


def test_a_callback_that_fails_keeps_nobody_else_from_being_told(tmp_path: Path) -> None:
    told: Told = []
    complaints: list[str] = []

    def fail(failure: Exception | None) -> None:
        raise ValueError("mine")

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(str(context["exception"])))
        commit = GroupCommit(Log.open(tmp_path), loop)
        commit.submit(b"a", fail)
        commit.submit(b"b", noting(told, "b"))
        await commit.close()

    asyncio.run(run())
    assert told == [("b", None)]
    assert complaints == ["mine"]


def test_nothing_can_be_submitted_to_a_closed_log(tmp_path: Path) -> None:
    async def run() -> None:
        commit = GroupCommit(Log.open(tmp_path), asyncio.get_running_loop())
        await commit.close()
        with pytest.raises(RuntimeError, match="closed"):
            commit.submit(b"a", noting([], "a"))

    asyncio.run(run())


def test_l8_without_its_lease_nobody_is_told_anything(tmp_path: Path) -> None:
    class Fenced(Gated):
        def append_all(self, batches: Sequence[bytes], segments: Sequence[Segment] = ()) -> None:
            self.gate.wait(10)
            raise LeaseLost("another broker has taken its place")

    log = Fenced.open(tmp_path)
    log.gate = threading.Event()
    told: Told = []

    async def run() -> None:
        lost: asyncio.Future[LeaseLost] = asyncio.get_running_loop().create_future()
        commit = GroupCommit(log, asyncio.get_running_loop(), lost=lost.set_result)
        commit.submit(b"in flight", noting(told, "in flight"))
        commit.submit(b"waiting", noting(told, "waiting"))
        log.gate.set()
        assert isinstance(await lost, LeaseLost)
        commit.submit(b"late", noting(told, "late"))
        await commit.close()

    asyncio.run(run())
    log.close()
    assert told == []


class Forgetful(Log):
    """A log that cannot be read once."""

    failed = False

    def segment(self, number: int) -> bytes:
        if not self.failed:
            self.failed = True
            raise StorageError("the database is busy")
        return super().segment(number)


def test_l8_a_segment_that_cannot_be_read_now_is_not_taken_for_missing(tmp_path: Path) -> None:
    log = Forgetful.open(tmp_path)
    log.append_all([b"batch"], [(7, b"waits")])
    found: list[bytes | None] = []

    async def run() -> None:
        commit = GroupCommit(log, asyncio.get_running_loop())
        for number in (7, 7, 8):
            commit.fetch(number, found.append)
        await commit.close()

    asyncio.run(run())
    assert found == [None, b"waits", b""]
