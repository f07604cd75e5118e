"""P1: compaction changes how many files there are and nothing else."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from roamcast.spark.compact import compact
from roamcast.spark.ledger import Ledger, journal_table, read_rows
from roamcast.spark.published import Tables
from roamcast.spark.tables import JOURNAL, TRANSMISSIONS
from tests.spark.test_commands import invoke
from tests.spark.test_ingest import ROWS, records, segment, taken, written

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]


def named(tables: Tables, table: str = TRANSMISSIONS.name) -> list[str]:
    return Ledger.of(tables).files(table)


def twice(spark: SparkSession, directory: Path) -> Path:
    """A journal that came in two batches, so that its tables have two files."""
    version = written(directory)
    taken(spark, directory)
    for path in sorted(written(directory / "other", "later").rglob("*.parquet")):
        shutil.copy(path, version / path.parent.name)
    taken(spark, directory)
    return version


def test_p1_small_files_become_one_with_the_same_records(spark: SparkSession, tmp_path: Path) -> None:
    twice(spark, tmp_path)
    tables = Tables(spark, str(tmp_path))
    before = records(spark, tmp_path)
    assert len(named(tables)) == 2
    assert (compact(tables).files, compact(tables).files) == (8, 0)
    assert [len(named(tables, table)) for table in ("moves", "transmissions", "publications", "runs")] == [1] * 4
    assert records(spark, tmp_path) == before
    assert journal_table(tables, Ledger.of(tables), TRANSMISSIONS).count() == 4 * ROWS


def test_p1_files_of_a_size_are_left_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    twice(spark, tmp_path)
    assert compact(Tables(spark, str(tmp_path)), file_bytes=1_000).files == 0


def test_p1_each_segment_is_still_found_within_compacted_files(spark: SparkSession, tmp_path: Path) -> None:
    version = twice(spark, tmp_path)
    tables = Tables(spark, str(tmp_path))
    compact(tables)
    rows = {Path(row["path"]).name: row for row in Ledger.of(tables).of_table(TRANSMISSIONS.name).to_pylist()}
    for name in ("run", "later"):
        for number in range(1, 7):
            path = segment(version, TRANSMISSIONS.name, number, name)
            row = rows[path.name]
            found = read_rows(tables.place(TRANSMISSIONS.name), row["file"], row["first_row"], row["rows"])
            assert found.to_pylist() == pq.read_table(path, partitioning=None).to_pylist()


def test_p1_copies_of_segments_that_were_compacted_are_still_noticed(spark: SparkSession, tmp_path: Path) -> None:
    version = twice(spark, tmp_path)
    before = sum(records(spark, tmp_path).values())
    compact(Tables(spark, str(tmp_path)))
    shutil.copy(segment(version, "moves", 2), segment(version, "moves", 2, "copy"))
    after = taken(spark, tmp_path)
    assert (after.rows, after.duplicates) == (before, ROWS // 3)
    assert set(records(spark, tmp_path).values()) == {1}


def test_p1_a_compaction_that_never_published_its_ledger_has_changed_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kill leaves: merged files that no ledger names. They go when they are old."""
    twice(spark, tmp_path)
    tables = Tables(spark, str(tmp_path))
    before, files = records(spark, tmp_path), named(tables)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            compact(tables)
    place = tmp_path / "tables" / TRANSMISSIONS.name
    assert (named(tables), records(spark, tmp_path)) == (files, before)
    assert len(list(place.glob("*.parquet"))) == 3
    compact(tables, file_bytes=1_000, keep_s=0)
    assert sorted(path.name for path in place.glob("*.parquet")) == files


def test_p1_replaced_files_stay_for_readers_until_the_next_compaction(spark: SparkSession, tmp_path: Path) -> None:
    twice(spark, tmp_path)
    tables = Tables(spark, str(tmp_path))
    reading = journal_table(tables, Ledger.of(tables), TRANSMISSIONS)
    compact(tables, keep_s=0)
    assert reading.count() == 4 * ROWS
    compact(tables, keep_s=0)
    assert len(list((tmp_path / "tables" / TRANSMISSIONS.name).glob("*.parquet"))) == 1


def test_p1_the_command_says_how_many_files_became_how_many(spark: SparkSession, tmp_path: Path) -> None:
    code, _, complaints = invoke("pipeline", "compact", str(tmp_path))
    assert (code, "not ingested yet" in complaints) == (2, True)
    twice(spark, tmp_path)
    code, output, _ = invoke("pipeline", "compact", str(tmp_path))
    assert (code, output) == (0, "8 files became 4\n")
    assert set(JOURNAL) >= {"moves"}
    code, output, _ = invoke("pipeline", "compact", str(tmp_path), "--json")
    assert (code, output) == (0, '{"files":0,"into":0}\n')
