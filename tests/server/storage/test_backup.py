"""L8: a backup is a whole copy of a log, of a broker that runs or one that is stopped; other files are refused."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from roamcast.cli.main import app
from roamcast.server.storage import DamagedLog, LeaseHeld, Log, StorageError, backup
from roamcast.server.storage.backup import back_up, restore
from roamcast.server.storage.postgres import Database, Lease, PostgresLog
from tests.server.storage.clusters import Cluster, cluster, needs_postgres
from tests.server.storage.test_log import contents

BATCHES = [b"one", b"", b"three" * 1_000]


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


def filled(directory: Path) -> Log:
    """Still open, as by a broker that runs: what it has is in the write-ahead log."""
    log = Log.open(directory)
    log.append(b"zero")
    log.snapshot(b"state")
    log.append_all(BATCHES)
    return log


def test_l8_a_running_log_is_copied_and_comes_back(tmp_path: Path) -> None:
    log = filled(tmp_path / "data")
    assert back_up(str(tmp_path / "data"), "a", tmp_path / "copy") == 3
    log.append(b"later")
    log.close()
    assert restore(tmp_path / "copy", str(tmp_path / "new"), "a") == 3
    assert contents(tmp_path / "new") == (b"state", BATCHES)
    assert contents(tmp_path / "data") == (b"state", [*BATCHES, b"later"])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy", "data", "new"]


def test_l8_a_stopped_log_is_copied(tmp_path: Path) -> None:
    filled(tmp_path / "data").close()
    back_up(str(tmp_path / "data"), "a", tmp_path / "copy")
    restore(tmp_path / "copy", str(tmp_path / "new"), "a")
    assert contents(tmp_path / "new") == (b"state", BATCHES)


def test_l8_a_copy_is_made_again_when_the_write_ahead_log_began_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path / "data")
    copyfile, changed = shutil.copyfile, list[str]()

    def changing(source: Path, target: Path) -> Any:
        done = copyfile(source, target)
        if not changed:
            changed.append(source.name)
            # Empties the write-ahead log, whose batches go into the database that was copied just before.
            log.snapshot(b"later")
            log.append(b"after")
        return done

    monkeypatch.setattr(shutil, "copyfile", changing)
    back_up(str(tmp_path / "data"), "a", tmp_path / "copy")
    restore(tmp_path / "copy", str(tmp_path / "new"), "a")
    assert contents(tmp_path / "new") == (b"later", [b"after"])
    log.close()


def test_l8_a_copy_is_made_again_when_a_whole_write_ahead_log_came_and_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "data").close()
    copyfile, copied = shutil.copyfile, list[str]()

    def changing(source: Path, target: Path) -> Any:
        done = copyfile(source, target)
        copied.append(source.name)
        if len(copied) == 1:
            with closing(Log.open(tmp_path / "data")) as log:
                log.append(b"x" * 10_000)
        return done

    monkeypatch.setattr(shutil, "copyfile", changing)
    assert back_up(str(tmp_path / "data"), "a", tmp_path / "copy") == 4
    assert copied == ["log.sqlite", "log.sqlite"]


def test_l8_a_copy_of_two_moments_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path / "data")
    copy, copies = backup.copy_files, list[Path]()

    def torn(directory: Path, into: Path) -> None:
        copy(directory, into)
        copies.append(into)
        if len(copies) == 1:
            (into / "log.sqlite-wal").unlink()
            log.append(b"after")

    monkeypatch.setattr(backup, "copy_files", torn)
    assert back_up(str(tmp_path / "data"), "a", tmp_path / "copy") == 4
    assert len(copies) == 2
    log.close()


def test_l8_a_damaged_log_is_not_copied(tmp_path: Path) -> None:
    filled(tmp_path / "data").close()
    file = tmp_path / "data" / "log.sqlite"
    file.write_bytes(file.read_bytes().replace(b"threethree", b"threethrex"))
    with pytest.raises(DamagedLog, match="its checksum is wrong"):
        back_up(str(tmp_path / "data"), "a", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_l8_a_copy_with_less_than_was_safe_is_refused(tmp_path: Path) -> None:
    log = filled(tmp_path / "data")
    (tmp_path / "data" / "high-water").write_bytes(b"%020d\n" % 9)
    with pytest.raises(DamagedLog, match="ends with batch 4, and 9 were safe"):
        back_up(str(tmp_path / "data"), "a", tmp_path / "copy")
    log.close()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda data: data[:-10], "cut off"),
        (lambda data: data.replace(b"three", b"thrie", 1), "its checksum is wrong"),
        (lambda data: b"something else\n" + data, "no backup of a broker of this version"),
        (lambda data: data + b"more", "its checksum is wrong"),
    ],
)
def test_l8_a_backup_that_is_not_whole_restores_nothing(tmp_path: Path, change: Any, complaint: str) -> None:
    filled(tmp_path / "data").close()
    copy = tmp_path / "copy"
    back_up(str(tmp_path / "data"), "a", copy)
    copy.write_bytes(change(copy.read_bytes()))
    with pytest.raises(StorageError, match=complaint):
        restore(copy, str(tmp_path / "new"), "a")
    assert not (tmp_path / "new").exists()


class Killed(BaseException):
    """Ends a restore where it stands."""


def interrupt(patched: pytest.MonkeyPatch) -> None:
    """Behind the snapshot; nothing is tidied up."""

    def killed(*_: object) -> None:
        raise Killed

    for log in (Log, PostgresLog):
        patched.setattr(log, "append_all", killed)
    patched.setattr(shutil, "rmtree", lambda *_, **__: None)


def test_l8_a_restore_that_was_interrupted_leaves_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path / "data").close()
    copy, new = tmp_path / "copy", tmp_path / "new"
    back_up(str(tmp_path / "data"), "a", copy)
    with monkeypatch.context() as patched:
        interrupt(patched)
        with pytest.raises(Killed):
            restore(copy, str(new), "a")
    assert (new / "restore.part" / "log.sqlite").exists()
    assert not (new / "log.sqlite").exists()
    restore(copy, str(new), "a")
    assert contents(new) == (b"state", BATCHES)
    assert not (new / "restore.part").exists()


def test_l8_nothing_is_restored_over_a_log(tmp_path: Path) -> None:
    filled(tmp_path / "data").close()
    back_up(str(tmp_path / "data"), "a", tmp_path / "copy")
    with pytest.raises(StorageError, match="there is a log already"):
        restore(tmp_path / "copy", str(tmp_path / "data"), "a")


def test_l8_the_commands_say_what_they_did_and_what_is_wrong(tmp_path: Path) -> None:
    filled(tmp_path / "data").close()
    data, copy, new = (str(tmp_path / name) for name in ("data", "copy", "new"))

    def said(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["broker", *arguments], env={"COLUMNS": "400"})
        return result.exit_code, result.output

    assert said("backup", data, copy) == (
        0,
        f"{copy}: {Path(copy).stat().st_size:,} bytes, a snapshot and 3 batches behind it\n",
    )
    assert said("restore", copy, new) == (0, "restored a snapshot and 3 batches; start the broker\n")
    code, words = said("restore", copy, new)
    assert (code, "there is a log already" in words) == (2, True)
    code, words = said("backup", str(tmp_path / "nowhere"), copy)
    assert (code, "contains no broker's log" in words) == (2, True)


@needs_postgres
def test_l8_a_log_moves_into_a_database_and_back(tmp_path: Path, server: Cluster) -> None:
    filled(tmp_path / "data").close()
    back_up(str(tmp_path / "data"), "a", tmp_path / "copy")
    assert restore(tmp_path / "copy", server.url, "a") == 3
    lease = Lease(Database(server.url, "a"), 600.0)
    lease.take()
    log = PostgresLog.open(lease)
    log.append(b"in the database")
    assert back_up(server.url, "a", tmp_path / "again") == 4
    with pytest.raises(LeaseHeld):
        restore(tmp_path / "copy", server.url, "a")
    log.close()
    lease.release()
    with pytest.raises(StorageError, match="there is a log already"):
        restore(tmp_path / "copy", server.url, "a")
    with pytest.raises(StorageError, match="no broker's log is called 'b'"):
        back_up(server.url, "b", tmp_path / "other")
    restore(tmp_path / "again", str(tmp_path / "new"), "a")
    assert contents(tmp_path / "new") == (b"state", [*BATCHES, b"in the database"])


@needs_postgres
def test_l8_a_restore_into_a_database_that_was_interrupted_leaves_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Cluster
) -> None:
    filled(tmp_path / "data").close()
    copy = tmp_path / "copy"
    back_up(str(tmp_path / "data"), "c", copy)
    with monkeypatch.context() as patched:
        interrupt(patched)
        with pytest.raises(Killed):
            restore(copy, server.url, "c")
    assert server.sql("SELECT last FROM roamcast.logs WHERE broker = 'c'") == [(0,)]
    restore(copy, server.url, "c")
    assert server.sql("SELECT broker FROM roamcast.logs WHERE broker LIKE 'c%'") == [("c",)]
    back_up(server.url, "c", tmp_path / "again")
    restore(tmp_path / "again", str(tmp_path / "new"), "c")
    assert contents(tmp_path / "new") == (b"state", BATCHES)


def test_l8_segments_are_in_a_copy(tmp_path: Path) -> None:
    log = filled(tmp_path / "data")
    log.append_all([b"more"], [(7, b"seven"), (9, b"nine")])
    log.close()
    back_up(str(tmp_path / "data"), "a", tmp_path / "copy")
    assert restore(tmp_path / "copy", str(tmp_path / "new"), "a") == 4
    assert contents(tmp_path / "new") == (b"state", [*BATCHES, b"more"])
    with closing(Log.open(tmp_path / "new")) as restored:
        assert list(restored.load().segments) == [(7, b"seven"), (9, b"nine")]
