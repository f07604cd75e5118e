"""P1: every record is in the tables once, whatever is copied, damaged, late, or killed; and nothing goes unsaid."""

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from roamcast.journal import Journal, Move, Published, Run, Transmitted
from roamcast.journal.schema import VERSION_DIRECTORY, VERSION_KEY
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Plane
from roamcast.model.values import Point
from roamcast.spark.ingest import Found, Summary, grouped, ingest, judgement, overlapping
from roamcast.spark.ledger import Ledger, Output, journal_table
from roamcast.spark.published import Tables
from roamcast.spark.tables import JOURNAL, MOVES, PUBLICATIONS, SEGMENTS, TRANSMISSIONS, BadPipeline
from tests.effort import examples
from tests.spark.chain import surveyed

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROWS = 60
"""Records in each segment; a journal here has six full ones."""


def written(directory: Path, name: str = "run", segments: int = 6, first: int = 0) -> Path:
    """A journal of transmissions, moves and publications; `first` numbers what it says, so that journals differ."""
    with Journal(directory, Run(name, 0, Plane(), 1), segment_rows_max=ROWS, durable=False) as journal:
        for number in range(segments * ROWS // 3):
            host, at_us = f"{name}-{number % 4}", number * 1_000
            journal.record(Transmitted(host, at_us, "beacon", first + number))
            journal.record(Move(host, at_us, Point(float(number), 0.0)))
            event = Event(f"{name}{first + number}", "x", Context(host, Point(1.0, 2.0)), at_us, at_us, {"n": number})
            journal.record(Published(host, at_us, event))
    return directory / VERSION_DIRECTORY


def segment(version: Path, table: str, number: int, name: str = "run") -> Path:
    return version / table / f"{name}-000000-{number:08d}.parquet"


def taken(spark: SparkSession, directory: Path) -> Summary:
    return ingest(spark, str(directory))


def records(spark: SparkSession, directory: Path) -> Counter[tuple[str, str, int, int]]:
    """How often each record is in the tables, as the oracle and the audit read them."""
    tables = Tables(spark, str(directory))
    ledger = Ledger.of(tables)
    found: Counter[tuple[str, str, int, int]] = Counter()
    for table in JOURNAL.values():
        rows = journal_table(tables, ledger, table).select("host", "incarnation", "sequence").collect()
        found.update((table.name, *row) for row in rows)
    return found


@pytest.mark.slow
def test_p1_a_batch_takes_every_record_once_and_a_second_one_only_what_is_new(
    spark: SparkSession, tmp_path: Path
) -> None:
    written(tmp_path)
    first = taken(spark, tmp_path)
    assert (first.rows, first.duplicates, first.quarantined, first.missing) == (6 * ROWS + 1, 0, 0, 0)
    assert set(records(spark, tmp_path).values()) == {1}
    other = tmp_path / "other"
    version = written(other, "later")
    for path in sorted(version.rglob("*.parquet")):
        shutil.copy(path, tmp_path / VERSION_DIRECTORY / path.parent.name)
    second = taken(spark, tmp_path)
    assert second.rows == 2 * first.rows
    assert set(records(spark, tmp_path).values()) == {1}
    ledger = Ledger.of(Tables(spark, str(tmp_path)))
    assert len(ledger.rows["batch"].unique()) == 2


@pytest.mark.slow
def test_p1_what_is_wrong_is_quarantined_with_a_reason_and_the_rest_is_taken(
    spark: SparkSession, tmp_path: Path
) -> None:
    version = written(tmp_path)
    half = segment(version, "transmissions", 1)
    half.write_bytes(half.read_bytes()[: half.stat().st_size // 2])
    segment(version, "transmissions", 2).write_bytes(b"not Parquet at all")
    (version / "moves" / "stray.parquet").write_bytes(b"PAR1")
    segment(version, "transmissions", 3).write_bytes(b"")
    changed(segment(version, "moves", 1), lambda rows: rows.replace_schema_metadata({VERSION_KEY: b"99"}))
    changed(
        segment(version, "moves", 2), lambda rows: put(rows, "at_us", [9_000_000, *rows["at_us"].to_pylist()[1:]])
    )
    changed(segment(version, "moves", 3), lambda rows: put(rows, "x", [float("nan"), *rows["x"].to_pylist()[1:]]))
    changed(segment(version, "publications", 1), lambda rows: rows.drop_columns(["audience"]))
    changed(segment(version, "publications", 2), lambda rows: put(rows, "event_id", ["", *["e"] * (len(rows) - 1)]))
    found = taken(spark, tmp_path)
    rows = Ledger.of(Tables(spark, str(tmp_path))).rows.to_pylist()
    ledger = [row for row in rows if row["status"] == "quarantined"]
    reasons = {f"{row['table']} {Path(row['path']).name[-9]}": row["reason"] for row in ledger}
    assert found.quarantined == len(reasons) + 1 == 9
    assert any("was empty when it was first seen" in reason for reason in found.reasons)
    assert "not a whole Parquet file" in reasons["transmissions 1"]
    assert "not a whole Parquet file" in reasons["transmissions 2"]
    assert "is not named as a segment" in reasons["moves y"]
    assert "of schema version 99" in reasons["moves 1"]
    assert "field 'at_us' goes backwards for host 'run-" in reasons["moves 2"]
    assert "field 'x' is not a finite number" in reasons["moves 3"]
    assert "field 'audience' is missing" in reasons["publications 1"]
    assert "an event needs an id" in reasons["publications 2"]
    assert all(row["path"] in row["reason"] for row in ledger)
    assert found.rows == 6 * ROWS + 1 - 8 * ROWS // 3
    assert found.missing == 8 * ROWS // 3
    assert set(records(spark, tmp_path).values()) == {1}


def changed(path: Path, change: object) -> None:
    rows = pq.read_table(path, partitioning=None)
    assert callable(change)
    pq.write_table(change(rows), path)


def put(rows: object, name: str, values: list[object]) -> object:
    assert isinstance(rows, pa.Table)
    index = rows.schema.get_field_index(name)
    return rows.set_column(index, rows.schema.field(index), pa.array(values, rows.schema.field(index).type))


@pytest.mark.slow
def test_p1_copies_within_a_batch_and_after_it_are_dropped_and_counted_and_late_segments_taken(
    spark: SparkSession, tmp_path: Path
) -> None:
    version = written(tmp_path)
    # Under another writer's name, as when journals of several hosts are copied together.
    shutil.copy(segment(version, "transmissions", 1), segment(version, "transmissions", 1, "copy"))
    late = segment(version, "moves", 2)
    shutil.move(late, tmp_path / "late.parquet")
    first = taken(spark, tmp_path)
    assert (first.duplicates, first.late, first.missing) == (ROWS // 3, 0, ROWS // 3)
    shutil.move(tmp_path / "late.parquet", late)
    os.utime(late, (1, 1))
    shutil.copy(segment(version, "transmissions", 2), segment(version, "transmissions", 2, "copy"))
    second = taken(spark, tmp_path)
    assert (second.duplicates, second.late, second.missing, second.quarantined) == (2 * ROWS // 3, 1, 0, 0)
    assert second.rows == 6 * ROWS + 1
    assert set(records(spark, tmp_path).values()) == {1}


def test_p1_two_records_under_one_number_are_a_reason_to_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    version = written(tmp_path)
    written(tmp_path / "other", first=500)
    wrong = segment(tmp_path / "other" / VERSION_DIRECTORY, "transmissions", 1)
    shutil.copy(wrong, segment(version, "transmissions", 1, "wrong"))
    found = taken(spark, tmp_path)
    assert found.quarantined == 1
    assert "two records of host 'run-" in found.reasons[0]
    assert found.rows == 6 * ROWS + 1


def test_p1_a_file_that_is_refused_drops_no_rows_of_those_after_it(spark: SparkSession, tmp_path: Path) -> None:
    """A file contradicts the one before it and repeats the one after it: what it repeats is not there already."""
    version = written(tmp_path)
    first, second = (segment(version, "transmissions", number) for number in (1, 2))
    both = pa.concat_tables([pq.read_table(path, partitioning=None) for path in (first, second)])
    wrong = put(both, "size_bytes", [9_999, *both["size_bytes"].to_pylist()[1:]])
    pq.write_table(wrong, segment(version, "transmissions", 1, "b"))
    first.rename(segment(version, "transmissions", 1, "a"))
    second.rename(segment(version, "transmissions", 2, "c"))
    found = taken(spark, tmp_path)
    assert (found.rows, found.duplicates, found.quarantined, found.missing) == (6 * ROWS + 1, 0, 1, 0)


@pytest.mark.parametrize("folder", ["backup/moves", f"backup/{VERSION_DIRECTORY}/moves", "moves/moves", "."])
def test_p1_a_file_in_a_folder_that_is_no_table_of_the_journal_is_refused(folder: str) -> None:
    path = f"/journal/{VERSION_DIRECTORY}/{folder}/run-000000-00000001.parquet"
    found = judgement(Found(path, 1, 0), f"/journal/{VERSION_DIRECTORY}", Output("/journal/tables"))
    assert found["status"] == "quarantined"
    assert "does not lie in a table's directory" in found["reason"]


@pytest.mark.slow
def test_p1_a_backup_within_the_journal_changes_nothing_in_the_tables(spark: SparkSession, tmp_path: Path) -> None:
    version = written(tmp_path)
    (tmp_path / "x").mkdir()
    round_about = tmp_path / "x" / ".."
    before = taken(spark, round_about)
    shutil.copytree(version / "moves", version / "backup" / "moves")
    found = taken(spark, round_about)
    assert (before.quarantined, found.quarantined) == (0, len(list((version / "moves").iterdir())))
    assert found.rows == before.rows == sum(records(spark, tmp_path).values()) == 6 * ROWS + 1


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=15))
def test_p1_files_that_are_linked_are_settled_together_and_others_are_not(pairs: list[tuple[int, int]]) -> None:
    found = dict(grouped([(f"{one:02d}", f"{other:02d}") for one, other in pairs]))
    together = {f"{each:02d}": {f"{each:02d}"} for pair in pairs for each in pair}
    for one, other in pairs:
        joined = together[f"{one:02d}"] | together[f"{other:02d}"]
        together.update(dict.fromkeys(joined, joined))
    assert found == {path: min(joined) for path, joined in together.items()}


def test_p1_the_groups_are_exactly_what_overlaps() -> None:
    """Chains, a range within another, one that only touches, hosts apart; an earlier file far away is not near."""
    ours = [
        ("a", "moves", [("h", 0, 9), ("k", 0, 0)]),
        ("b", "moves", [("h", 2, 3)]),
        ("c", "moves", [("h", 9, 12)]),
        ("d", "moves", [("h", 13, 20)]),
        ("e", "moves", [("k", 1, 5)]),
        ("f", "contexts", [("h", 0, 9)]),
    ]
    known = [("x", "moves", [("h", 15, 15)]), ("y", "moves", [("h", 30, 40)]), ("z", "moves", [("h", 35, 50)])]
    ledger = Ledger(None, pa.Table.from_pylist([ledger_row(*each) for each in known], schema=SEGMENTS.schema))
    groups = overlapping([ledger_row(*each) for each in ours], ledger)
    assert [sorted(row["path"] for row in group) for group in groups] == [["a", "b", "c"], ["d", "x"]]


def ledger_row(path: str, table: str, ranges: list[tuple[str, int, int]]) -> dict[str, object]:
    numbers = [
        {"host": host, "incarnation": 0, "first": first, "last": last, "rows": 1} for host, first, last in ranges
    ]
    return {"path": path, "table": table, "status": "taken", "rows": 1, "ranges": numbers}


@pytest.mark.slow
def test_p1_records_and_files_with_times_that_cannot_be_meant_are_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One record dated 2099 among others, and a file that is of 2099 as a whole."""
    far_us = 4_070_908_800_000_000
    version = written(tmp_path)
    changed(segment(version, "moves", 2), lambda rows: put(rows, "at_us", [far_us, *rows["at_us"].to_pylist()[1:]]))
    changed(segment(version, "transmissions", 3), lambda rows: put(rows, "at_us", [far_us] * len(rows)))
    found = taken(spark, tmp_path)
    assert (found.implausible, found.quarantined, found.rows) == (1, 1, 6 * ROWS - ROWS // 3)
    assert all("years away" in reason for reason in found.reasons)
    assert surveyed(spark, tmp_path)[1].until_us < far_us


def test_p1_columns_that_come_or_go_with_versions_are_no_reason_to_quarantine(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A column that may be null is not there, and one that this version does not know is."""
    version = written(tmp_path)
    changed(segment(version, "moves", 1), lambda rows: rows.drop_columns(["velocity_east"]))
    changed(
        segment(version, "transmissions", 1),
        lambda rows: rows.append_column("colour", pa.nulls(len(rows), pa.string())),
    )
    found = taken(spark, tmp_path)
    assert (found.quarantined, found.rows) == (0, 6 * ROWS + 1)


@pytest.mark.slow
def test_p1_a_batch_that_fails_has_taken_nothing_and_can_be_done_again(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path)
    obstacle = tmp_path / "tables" / PUBLICATIONS.name
    obstacle.parent.mkdir()
    obstacle.write_text("where a directory must be")
    with pytest.raises(PySparkException):
        ingest(spark, str(tmp_path))
    assert Ledger.of(Tables(spark, str(tmp_path))).version is None
    obstacle.unlink()
    found = taken(spark, tmp_path)
    assert (found.rows, found.duplicates, found.quarantined) == (6 * ROWS + 1, 0, 0)
    assert set(records(spark, tmp_path).values()) == {1}


@pytest.mark.slow
def test_p1_two_that_ingest_at_the_same_time_take_each_record_once(spark: SparkSession, tmp_path: Path) -> None:
    written(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: ingest(spark, str(tmp_path)), range(2)))
    assert [found.rows for found in done] == [6 * ROWS + 1] * 2
    assert set(records(spark, tmp_path).values()) == {1}


@pytest.mark.slow
def test_p1_a_following_query_that_is_killed_and_started_again_has_each_record_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    written(tmp_path, segments=12)
    command = [sys.executable, "-m", "roamcast", "pipeline", "ingest", str(tmp_path), "--follow", "1"]
    process = subprocess.Popen(
        [*command, "--master", "local[1]"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        # Until the first file is in a table: then the batch is in the middle of its work.
        while not list((tmp_path / "tables").glob("transmissions/*.parquet")):
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    found = taken(spark, tmp_path)
    assert (found.rows, found.duplicates, found.quarantined, found.missing) == (12 * ROWS + 1, 0, 0, 0)
    assert set(records(spark, tmp_path).values()) == {1}
    count = Counter(table for table, *_ in records(spark, tmp_path).elements())
    assert count[TRANSMISSIONS.name] == count[MOVES.name] == count[PUBLICATIONS.name]


def test_p1_a_directory_that_is_no_journal_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BadPipeline, match="holds no journal"):
        ingest(spark, str(tmp_path))
    (tmp_path / "v1").mkdir()
    with pytest.raises(BadPipeline, match="a journal of version 1; this program reads"):
        ingest(spark, str(tmp_path))
    version = written(tmp_path / "journal")
    shutil.rmtree(version / "contexts")
    with pytest.raises(BadPipeline, match="table 'contexts' is missing"):
        ingest(spark, str(tmp_path / "journal"))


@pytest.mark.slow
def test_p1_runs_that_disagree_about_the_world_are_named_with_the_field(spark: SparkSession, tmp_path: Path) -> None:
    Journal(tmp_path, Run("one", 0, Plane(), None, "", 100.0), durable=False).close()
    Journal(tmp_path, Run("two", 0, Plane(), None, "", 200.0), durable=False).close()
    ingest(spark, str(tmp_path))
    with pytest.raises(BadPipeline, match="table 'runs', field 'neighbour_range_m': 'one' and 'two' differ"):
        surveyed(spark, tmp_path)
