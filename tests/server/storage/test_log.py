"""L8: the log gives back what was appended, in order, or says what is wrong."""

import os
import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Literal

import pytest

from roamcast.server.storage import DamagedLog, Log, LogInUse, StorageError, StorageFull, StorageSettings
from roamcast.server.storage.store import Needed


def contents(directory: Path) -> tuple[bytes | None, list[bytes]]:
    log = Log.open(directory)
    try:
        loaded = log.load()
        return loaded.snapshot, list(loaded.batches)
    finally:
        log.close()


def filled(directory: Path, count: int = 5) -> Log:
    log = Log.open(directory)
    for number in range(count):
        log.append(b"batch %d" % number)
    return log


def test_a_new_log_is_empty_and_for_its_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "made" / "here"
    assert contents(directory) == (None, [])
    modes = [stat.S_IMODE(os.stat(each).st_mode) for each in (directory, *directory.iterdir())]
    assert [mode for mode in modes if mode & 0o077] == []


def test_batches_come_back_in_order_and_lives_are_counted(tmp_path: Path) -> None:
    filled(tmp_path, 3).close()
    log = Log.open(tmp_path)
    log.append_all([b"", b"more"])
    loaded = log.load()
    assert (loaded.snapshot, list(loaded.batches), loaded.life) == (
        None,
        [b"batch 0", b"batch 1", b"batch 2", b"", b"more"],
        2,
    )
    log.close()


@pytest.mark.parametrize(("sync", "level"), [("full", 2), ("off", 0)])
def test_commits_are_synced_unless_turned_off(tmp_path: Path, sync: Literal["full", "off"], level: int) -> None:
    log = Log.open(tmp_path, StorageSettings(sync=sync))
    assert log._database.execute("PRAGMA synchronous").fetchone() == (level,)
    log.append(b"kept")
    log.close()
    assert contents(tmp_path) == (None, [b"kept"])


def test_a_snapshot_takes_the_place_of_the_batches_before_it(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.snapshot(b"five")
    log.append(b"after")
    log.close()
    assert contents(tmp_path) == (b"five", [b"after"])


def test_batches_behind_a_snapshot_stay(tmp_path: Path) -> None:
    log = filled(tmp_path)
    batches = list(log.load().batches)
    log.snapshot(b"three", behind=2)
    log.append(b"six")
    for wrong in (-1, 4, 100):
        with pytest.raises(ValueError, match="behind a snapshot"):
            log.snapshot(b"wrong", behind=wrong)
    log.close()
    assert contents(tmp_path) == (b"three", [*batches[-2:], b"six"])


def test_a_snapshot_of_an_empty_log_is_kept(tmp_path: Path) -> None:
    log = Log.open(tmp_path)
    log.snapshot(b"")
    log.snapshot(b"begin")
    log.append(b"first")
    log.close()
    assert contents(tmp_path) == (b"begin", [b"first"])


def test_a_snapshot_gives_room_back_to_the_disk(tmp_path: Path) -> None:
    log = Log.open(tmp_path)
    log.append_all([b"x" * 100_000] * 20)
    log.snapshot(b"small")
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 100_000
    log.close()


def test_l8_a_commit_is_synced(tmp_path: Path) -> None:
    log = Log.open(tmp_path)
    full, wal = 2, "wal"
    assert log._database.execute("PRAGMA synchronous").fetchone()[0] == full
    assert log._database.execute("PRAGMA journal_mode").fetchone()[0] == wal
    log.close()


def test_a_second_broker_on_the_directory_is_told_who_has_it(tmp_path: Path) -> None:
    log = filled(tmp_path)
    with pytest.raises(LogInUse, match=f"in use by the broker with process id {os.getpid()}; stop it, or give"):
        Log.open(tmp_path)
    log.append(b"still works")
    log.close()
    assert len(contents(tmp_path)[1]) == 6


def test_a_file_in_the_place_of_the_directory_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StorageError, match="data: cannot be used as a data directory"):
        Log.open(tmp_path / "data")


def change(directory: Path, statement: str) -> None:
    database = sqlite3.connect(directory / "log.sqlite")
    database.execute(statement)
    database.commit()
    database.close()


@pytest.mark.parametrize(
    ("statement", "said", "before"),
    [
        ("DELETE FROM batches WHERE number = 3", "batch 3 of 5 is missing", 2),
        ("DELETE FROM batches WHERE number = 5", "batch 5 of 5 is missing", 4),
        ("UPDATE batches SET body = x'00' WHERE number = 2", "batch 2 of 5 is damaged: its checksum is wrong", 1),
        ("UPDATE batches SET number = 9 WHERE number = 1", "batch 1 of 5 is missing", 0),
        ("INSERT INTO batches SELECT 6, checksum, body FROM batches WHERE number = 1", "batch 6 is damaged", 5),
    ],
)
def test_nothing_behind_a_missing_or_changed_batch_is_given_out(
    tmp_path: Path, statement: str, said: str, before: int
) -> None:
    filled(tmp_path).close()
    change(tmp_path, statement)
    log = Log.open(tmp_path)
    given: list[bytes] = []
    with pytest.raises(DamagedLog, match=said) as problem:
        given.extend(log.load().batches)
    assert given == [b"batch %d" % number for number in range(before)]
    assert str(tmp_path / "log.sqlite") in str(problem.value)
    assert "Restore" in str(problem.value)
    log.close()


def test_l8_batches_that_nobody_has_counted_are_given_out_and_counted_on(tmp_path: Path) -> None:
    """A broker that was killed has not written how many there are."""
    log = filled(tmp_path / "running")
    shutil.copytree(tmp_path / "running", tmp_path / "killed")
    log.close()
    again = Log.open(tmp_path / "killed")
    again.append(b"batch 5")
    assert list(again.load().batches) == [b"batch %d" % number for number in range(6)]
    again.close()


def test_without_sync_batches_survive_a_killed_broker(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "running", StorageSettings(sync="off"))
    assert log._database.execute("PRAGMA synchronous").fetchone() == (0,)
    log.append(b"one")
    shutil.copytree(tmp_path / "running", tmp_path / "killed")
    log.close()
    assert contents(tmp_path / "killed") == (None, [b"one"])


@pytest.mark.parametrize("group_ms", [-1.0, 1e6, float("nan")])
def test_group_ms_is_checked(group_ms: float) -> None:
    with pytest.raises(ValueError, match="group_ms"):
        StorageSettings(group_ms=group_ms)


@pytest.mark.parametrize("statement", ["DELETE FROM snapshot", "UPDATE snapshot SET body = x'00'"])
def test_a_missing_or_changed_snapshot_is_an_error(tmp_path: Path, statement: str) -> None:
    log = filled(tmp_path)
    log.snapshot(b"five")
    log.close()
    change(tmp_path, statement)
    log = Log.open(tmp_path)
    with pytest.raises(DamagedLog, match="the snapshot is"):
        log.load()
    log.close()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE state SET last = 4", "the row that says what is stored is damaged"),
        ("DELETE FROM state", "the row that says what is stored is damaged"),
        ("UPDATE state SET format = 2", "written by a newer roamcast"),
        ("DROP TABLE state", "SQLite cannot read it"),
    ],
)
def test_a_state_that_is_not_as_written_is_not_opened(tmp_path: Path, statement: str, said: str) -> None:
    filled(tmp_path).close()
    change(tmp_path, statement)
    with pytest.raises(StorageError, match=said):
        Log.open(tmp_path)


def test_a_file_that_is_no_database_is_not_opened_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "log.sqlite").write_bytes(b"no database" * 1_000)
    with pytest.raises(DamagedLog, match="file is not a database"):
        Log.open(tmp_path)
    assert (tmp_path / "log.sqlite").read_bytes() == b"no database" * 1_000


def test_the_quota_holds_for_batches_and_a_snapshot_makes_room(tmp_path: Path) -> None:
    log = Log.open(tmp_path, StorageSettings(bytes_max=200_000, free_bytes_min=0))
    log.append_all([b"x" * 10_000] * 14)
    with pytest.raises(StorageFull, match="the quota is 200000"):
        log.append_all([b"x" * 10_000] * 4)
    log.append(b"a small one still fits")
    log.snapshot(b"state")
    log.append(b"x" * 100_000)
    log.close()
    assert contents(tmp_path) == (b"state", [b"x" * 100_000])


def test_free_space_is_left_on_the_disk(tmp_path: Path) -> None:
    log = Log.open(tmp_path, StorageSettings(free_bytes_min=1 << 60))
    with pytest.raises(StorageFull, match=f"{1 << 60} must stay free"):
        log.append(b"x")
    log.close()


def test_segments_are_stored_with_batches_and_go_when_no_snapshot_needs_them(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.append_all([b"more"], [(1, b"one"), (2, b"two"), (3, b"three")])
    assert (log.segment(1), log.segment(3)) == (b"one", b"three")
    log.snapshot(b"state", 0, [(4, b"four")], Needed(3, frozenset({2})))
    log.close()
    log = Log.open(tmp_path)
    assert list(log.load().segments) == [(2, b"two"), (4, b"four")]
    with pytest.raises(DamagedLog, match="segment 1 is missing"):
        log.segment(1)
    log.close()


def test_a_segment_that_was_changed_is_noticed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.append_all([b"more"], [(1, b"one")])
    log._database.execute("UPDATE segments SET body = x'00'")
    with pytest.raises(DamagedLog, match="segment 1 is damaged"):
        log.segment(1)
    log.close()
