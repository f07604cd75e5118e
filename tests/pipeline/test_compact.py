"""P1: compaction changes how many files there are and nothing else, wherever it is killed."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from roamcast.pipeline.clean import COMPACTED, read_taken
from roamcast.pipeline.compact import FILE_BYTES, MARK, compact, finish, merge_all, planned
from roamcast.pipeline.store import Store
from roamcast.pipeline.tables import JOURNAL, TRANSMISSIONS
from tests.pipeline.test_commands import invoke
from tests.pipeline.test_ingest import ROWS, records, segment, taken, written

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

DIE_AT_CALL = """
import os, signal, sys
import msgspec
from roamcast.pipeline import compact

root, merges, name, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
real = getattr(compact, name)

def deadly(*given):
    global count
    count -= 1
    if count == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*given)

setattr(compact, name, deadly)
compact.settle(root, msgspec.json.decode(merges, type=list[compact.Merge]))
"""


def files(directory: Path, table: str = TRANSMISSIONS.name) -> list[str]:
    return sorted(path.name for path in (directory / "tables" / table).glob("[!.]*.parquet"))


def add_journal(directory: Path, version: Path) -> None:
    for path in sorted(written(directory, "later").rglob("*.parquet")):
        shutil.copy(path, version / path.parent.name)


def test_p1_small_files_become_one_with_the_same_records(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path)
    taken(spark, tmp_path)
    before, store = records(tmp_path), Store(spark, str(tmp_path))
    assert len(files(tmp_path)) == 7
    found = compact(store)
    assert (found.files, found.into) == (21, 3)
    assert [len(files(tmp_path, table)) for table in JOURNAL] == [1] * len(JOURNAL)
    assert records(tmp_path) == before
    assert store.read(TRANSMISSIONS).count() == 2 * ROWS
    assert compact(store).files == 0


def test_p1_files_of_a_size_are_left_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path)
    taken(spark, tmp_path)
    assert compact(Store(spark, str(tmp_path)), file_bytes=1_000).files == 0


def test_p1_each_segment_is_still_found_within_compacted_files(spark: SparkSession, tmp_path: Path) -> None:
    """Also when a compacted file was compacted again, with what came later."""
    version = written(tmp_path)
    taken(spark, tmp_path)
    store = Store(spark, str(tmp_path))
    compact(store)
    add_journal(tmp_path / "other", version)
    taken(spark, tmp_path)
    compact(store)
    assert len(files(tmp_path)) == 1
    for name in ("run", "later"):
        for number in range(7):
            path = segment(version, TRANSMISSIONS.name, number, name)
            found = read_taken(store.place(TRANSMISSIONS), path.name)
            assert found.to_pylist() == pq.read_table(path, partitioning=None).to_pylist()
    with pytest.raises(FileNotFoundError, match="no file holds the rows of segment gone"):
        read_taken(store.place(TRANSMISSIONS), "gone-000000-00000000.parquet")


def test_p1_copies_of_segments_that_were_compacted_are_still_noticed(spark: SparkSession, tmp_path: Path) -> None:
    version = written(tmp_path)
    before = taken(spark, tmp_path)
    compact(Store(spark, str(tmp_path)))
    shutil.copy(segment(version, "moves", 2), segment(version, "moves", 2, "copy"))
    after = taken(spark, tmp_path)
    assert (after.rows, after.duplicates) == (before.rows, ROWS // 3)
    assert set(records(tmp_path).values()) == {1}


def test_p1_a_batch_that_ingest_will_do_again_is_not_compacted(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path)
    whole = taken(spark, tmp_path)
    for path in (tmp_path / "tables" / "checkpoint" / "commits").iterdir():
        path.unlink()
    assert compact(Store(spark, str(tmp_path))).files == 0
    assert taken(spark, tmp_path) == whole
    assert set(records(tmp_path).values()) == {1}


@pytest.fixture(scope="module")
def merged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A journal that was compacted once, and is again: merged files are written, not shown yet. And the plan."""
    directory = tmp_path_factory.mktemp("merged")
    version = written(directory)
    taken(spark, directory)
    store = Store(spark, str(directory))
    compact(store)
    add_journal(directory / "other", version)
    taken(spark, directory)
    merges = planned(store, FILE_BYTES)
    merge_all(store, merges)
    return directory, msgspec.json.encode(merges).decode()


@pytest.mark.parametrize(
    ("call", "count"), [("show", 1), ("remove", 1), ("remove", 4), ("show", 2), ("remove", 20), ("remove", 41)]
)
def test_p1_a_compaction_that_is_killed_at_any_step_is_finished_by_the_next_command(
    merged: tuple[Path, str], tmp_path: Path, call: str, count: int
) -> None:
    """Before the first file is shown, among those it replaces, between two tables, and before the mark goes."""
    directory, merges = merged
    root = Path(shutil.copytree(directory, tmp_path / "journal")) / "tables"
    before = records(root.parent)
    command = [sys.executable, "-c", DIE_AT_CALL, str(root), merges, call, str(count)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert (root / MARK).exists()
    finish(str(root))
    assert records(root.parent) == before
    assert not (root / MARK).exists()


def test_p1_before_it_is_finished_a_killed_compaction_does_show(merged: tuple[Path, str], tmp_path: Path) -> None:
    """The check above can fail: what it finishes is there to be seen."""
    directory, merges = merged
    root = Path(shutil.copytree(directory, tmp_path / "journal")) / "tables"
    subprocess.run([sys.executable, "-c", DIE_AT_CALL, str(root), merges, "remove", "2"], check=False)
    assert set(records(root.parent).values()) == {1, 2}


def test_p1_the_command_says_how_many_files_became_how_many(spark: SparkSession, tmp_path: Path) -> None:
    code, _, complaints = invoke("pipeline", "compact", str(tmp_path))
    assert (code, "not ingested yet" in complaints) == (2, True)
    written(tmp_path)
    taken(spark, tmp_path)
    code, output, _ = invoke("pipeline", "compact", str(tmp_path))
    assert (code, output) == (0, "21 files became 3\n")
    assert all(name.startswith(COMPACTED) for name in files(tmp_path))
    code, output, _ = invoke("pipeline", "compact", str(tmp_path), "--json")
    assert (code, output) == (0, '{"files":0,"into":0}\n')
