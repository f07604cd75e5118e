"""P1: segments appear whole or not at all, are bounded, and are the same bytes for the same records."""

import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from roamcast.journal import (
    BadJournal,
    ContextChange,
    Journal,
    Move,
    Noted,
    Record,
    Run,
    Subscribed,
    Transmitted,
    journal_hash,
    read_entries,
)
from roamcast.journal.columns import Columns
from roamcast.journal.schema import TABLES
from roamcast.model.filter.tree import Attribute, Compare, Filter, IsNull, Literal
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point

RUN = Run("run", 0, Plane(), seed=7)

RECORD_MUCH = """
import sys
from pathlib import Path
from roamcast.journal import *
from roamcast.model.space import Plane
from roamcast.model.values import Point

with Journal(Path(sys.argv[1]), Run("run", 0, Plane(), seed=7), incarnation=0, segment_rows_max=40) as journal:
    for number in range(400):
        host = f"host-{number % 7}"
        event_id = f"e{number}" if number % 3 else None
        journal.record(Transmitted(host, number, "beacon", 60 + number % 9, None, event_id))
        if number % 5 == 0:
            journal.record(Move(host, number, Point(number / 3, 0.0)))
            journal.record(ContextChange(host, number, {name: number for name in {"speed", "fuel", "load", "lane"}}))
"""

DIE_AT_CALL = """
import os, signal, sys

name, count = sys.argv[2], int(sys.argv[3])
real = getattr(os, name)

def deadly(*args):
    global count
    count -= 1
    if count == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args)

setattr(os, name, deadly)
"""


def run_python(source: str, *arguments: str, hash_seed: str = "0") -> int:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run([sys.executable, "-c", source, *arguments], env=environment, check=False).returncode


def visible(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*.parquet") if not path.name.startswith("."))


def sequences_by_host(directory: Path) -> dict[tuple[str, int], list[int]]:
    found: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for entry in read_entries(directory):
        found[entry.record.host, entry.incarnation].append(entry.sequence)
    return dict(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "count"), [("fsync", 3), ("fsync", 27), ("fsync", 60), ("replace", 5), ("replace", 13), ("replace", 30)]
)
def test_p1_a_killed_writer_leaves_only_whole_segments(tmp_path: Path, call: str, count: int) -> None:
    """Killed before the given fsync or rename, whichever segment that is in."""
    ended = run_python(DIE_AT_CALL + RECORD_MUCH, str(tmp_path), call, str(count))
    assert ended == -signal.SIGKILL
    for path in visible(tmp_path):
        pq.read_table(path)
    tables_of_opening = [path.parent.name for path in visible(tmp_path) if path.name.endswith("-00000000.parquet")]
    if "runs" in tables_of_opening:
        assert sorted(tables_of_opening) == sorted(table.name for table in TABLES)
        assert all(len(numbers) == len({*numbers}) for numbers in sequences_by_host(tmp_path).values())


def test_p1_a_host_that_was_killed_while_it_wrote_can_start_again(tmp_path: Path) -> None:
    assert run_python(DIE_AT_CALL + RECORD_MUCH, str(tmp_path), "replace", "13") == -signal.SIGKILL
    other = tmp_path / "v2/notes/.run-x-000000-00000000.parquet.partial"
    other.touch()
    assert len(list(tmp_path.rglob(".*"))) > 1
    with Journal(tmp_path, RUN) as journal:
        journal.record(Noted("a", 1, "up again"))
    assert [entry.incarnation for entry in read_entries(tmp_path, Noted)] == [1]
    assert list(tmp_path.rglob(".*")) == [other]


@pytest.mark.slow
def test_p1_a_kill_between_segments_loses_only_what_was_not_flushed(tmp_path: Path) -> None:
    die_at_the_end = RECORD_MUCH.replace(
        "journal.record(Move", "number == 200 and os.kill(os.getpid(), 9)\n            journal.record(Move"
    )
    assert run_python("import os\n" + die_at_the_end, str(tmp_path)) == -signal.SIGKILL
    found = sequences_by_host(tmp_path)
    assert sum(map(len, found.values())) == 1 + 40 * ((200 + 1 + 2 * 40) // 40)
    assert all(sorted(numbers) == list(range(len(numbers))) for numbers in found.values())


def test_p1_hidden_files_of_a_killed_writer_are_not_looked_at(tmp_path: Path) -> None:
    with Journal(tmp_path, RUN) as journal:
        journal.record(Noted("a", 1, "x"))
    before = journal_hash(tmp_path)
    (tmp_path / "v2/notes/.run-000000-00000002.parquet.partial").write_bytes(b"PAR1 half of a")
    assert len(list(read_entries(tmp_path, Noted))) == 1
    assert journal_hash(tmp_path) == before


@pytest.mark.slow
def test_p4_same_records_give_the_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    hashes = []
    for seed in ("0", "1", "4711"):
        assert run_python(RECORD_MUCH, str(tmp_path / seed), hash_seed=seed) == 0
        hashes.append(journal_hash(tmp_path / seed))
    assert hashes[0] == hashes[1] == hashes[2]


def test_p4_the_hash_differs_when_a_record_differs(tmp_path: Path) -> None:
    for number in (1, 2):
        with Journal(tmp_path / str(number), RUN) as journal:
            journal.record(Noted("a", number, "x"))
    assert journal_hash(tmp_path / "1") != journal_hash(tmp_path / "2")


def test_p4_the_hash_differs_when_a_file_has_another_name(tmp_path: Path) -> None:
    Journal(tmp_path, RUN).close()
    before = journal_hash(tmp_path)
    path = tmp_path / "v2/notes/run-000000-00000000.parquet"
    path.rename(path.with_name("ran-000000-00000000.parquet"))
    assert journal_hash(tmp_path) != before


def test_p1_sequence_numbers_have_no_gap_over_all_tables_of_a_host(tmp_path: Path) -> None:
    choice = random.Random(5)
    with Journal(tmp_path, RUN, segment_rows_max=17) as journal:
        for at_us in range(300):
            host = choice.choice("abc")
            kinds: list[Record] = [
                Noted(host, at_us, "n"),
                Transmitted(host, at_us, "m", 1),
                ContextChange(host, at_us, {}),
            ]
            journal.record(choice.choice(kinds))
    found = sequences_by_host(tmp_path)
    assert sorted(found) == [("a", 0), ("b", 0), ("c", 0), ("run", 0)]
    assert all(numbers == list(range(len(numbers))) for numbers in found.values())


def test_p1_a_restarted_host_counts_anew_in_the_next_incarnation(tmp_path: Path) -> None:
    for _ in range(3):
        with Journal(tmp_path, Run("a", 0, Plane())) as journal:
            journal.record(Noted("a", 1, "up"))
    assert sequences_by_host(tmp_path) == {("a", 0): [0, 1], ("a", 1): [0, 1], ("a", 2): [0, 1]}


def test_p1_an_incarnation_stays_taken_when_old_segments_are_removed(tmp_path: Path) -> None:
    for _ in range(2):
        with Journal(tmp_path, Run("a", 0, Plane())) as journal:
            journal.record(Noted("a", 1, "up"))
    for path in (tmp_path / "v2/notes").iterdir():
        path.unlink()
    assert Journal(tmp_path, Run("a", 0, Plane())).incarnation == 2


def test_p4_a_simulation_does_not_write_over_another(tmp_path: Path) -> None:
    Journal(tmp_path, RUN, incarnation=0).close()
    with pytest.raises(BadJournal, match="holds a journal already"):
        Journal(tmp_path, RUN, incarnation=0)


def test_p1_a_second_process_with_the_same_name_is_noticed(tmp_path: Path) -> None:
    journal = Journal(tmp_path, RUN)
    foreign = tmp_path / "v2/notes/run-000000-00000001.parquet"
    foreign.write_bytes(b"theirs")
    journal.record(Noted("a", 1, "x"))
    with pytest.raises(BadJournal, match="another process"):
        journal.flush()
    assert foreign.read_bytes() == b"theirs"


def test_p1_a_segment_holds_at_most_its_rows(tmp_path: Path) -> None:
    with Journal(tmp_path, RUN, segment_rows_max=10) as journal:
        for at_us in range(25):
            journal.record(Noted("a", at_us, "x"))
            journal.record(Transmitted("a", at_us, "m", 1))
    rows: defaultdict[str, int] = defaultdict(int)
    for path in visible(tmp_path):
        rows[path.name] += pq.read_metadata(path).num_rows
    assert list(rows.values()) == [1, 10, 10, 10, 10, 10]


def test_p1_heavy_records_end_a_segment_early(tmp_path: Path) -> None:
    with Journal(tmp_path, RUN, segment_bytes_max=10_000) as journal:
        for at_us in range(10):
            journal.record(ContextChange("a", at_us, {"text": "x" * 4_000}))
    rows = [pq.read_metadata(path).num_rows for path in visible(tmp_path / "v2/contexts")]
    assert rows == [0, 3, 3, 3, 1]


def test_p1_opening_makes_every_table_readable(tmp_path: Path) -> None:
    journal = Journal(tmp_path, RUN)
    for table in TABLES:
        (path,) = visible(tmp_path / "v2" / table.name)
        found = pq.read_schema(path)
        assert found.equals(table.schema)
        assert found.metadata == table.schema.metadata
    journal.close()


def test_p1_flush_makes_records_visible_and_an_empty_flush_writes_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path, RUN) as journal:
        journal.record(Noted("a", 1, "x"))
        journal.flush()
        assert len(list(read_entries(tmp_path, Noted))) == 1
        before = visible(tmp_path)
        journal.flush()
        assert visible(tmp_path) == before


def test_p1_a_closed_journal_refuses_records(tmp_path: Path) -> None:
    journal = Journal(tmp_path, RUN)
    journal.close()
    journal.close()
    with pytest.raises(BadJournal, match="closed"):
        journal.record(Noted("a", 1, "x"))


def test_p1_a_run_that_ends_says_when_in_the_last_record_of_its_writer(tmp_path: Path) -> None:
    journal = Journal(tmp_path, RUN)
    journal.record(Transmitted("a", 5, "beacon", 1))
    journal.end(9)
    *_, last = read_entries(tmp_path)
    assert (last.record, last.incarnation, last.sequence) == (Noted("run", 9, "run_ended"), 0, 1)
    with pytest.raises(BadJournal, match="closed"):
        journal.record(Transmitted("a", 10, "beacon", 1))


def test_p1_a_journal_that_is_left_by_an_error_has_no_end(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Journal(tmp_path, RUN) as journal:
        journal.record(Transmitted("a", 5, "beacon", 1 // 0))
    assert not list(read_entries(tmp_path, Noted))


def test_p1_a_second_run_record_is_refused(tmp_path: Path) -> None:
    with Journal(tmp_path, RUN) as journal, pytest.raises(BadJournal, match="Run cannot be recorded"):
        journal.record(RUN)


def test_p1_a_failed_write_closes_the_journal_and_leaves_nothing_hidden(tmp_path: Path) -> None:
    journal = Journal(tmp_path, RUN)
    journal.record(Noted("a", 1, "x"))
    journal.record(Transmitted("a", "soon", "m", 1))  # type: ignore[arg-type]
    with pytest.raises(BadJournal, match="table 'transmissions', field 'at_us'"):
        journal.flush()
    with pytest.raises(BadJournal, match="closed"):
        journal.record(Noted("a", 1, "x"))
    assert [path.name for path in tmp_path.rglob(".*")] == []


def unsayable_filters() -> list[Filter]:
    too_long = Literal("x" * 65_536)
    return [Filter(IsNull(Attribute("me.x"))), Filter(Compare("=", Attribute("a"), too_long))]


@pytest.mark.parametrize("filter_", unsayable_filters(), ids=["a name with a meaning of its own", "too long"])
def test_p1_a_filter_that_cannot_be_written_is_refused_at_once_and_nothing_else_is_lost(
    tmp_path: Path, filter_: Filter
) -> None:
    with Journal(tmp_path, RUN) as journal:
        journal.record(Noted("a", 1, "before"))
        with pytest.raises(BadJournal, match="table 'subscriptions': a filter of this record cannot be written"):
            journal.record(Subscribed("a", 2, Subscription("s", "a", "#", 2, 9, filter_)))
        journal.record(Noted("a", 3, "after"))
    assert [entry.sequence for entry in read_entries(tmp_path, Noted)] == [0, 1]


def test_p1_a_host_with_any_name_can_write(tmp_path: Path) -> None:
    for host in (".hidden", "_skipped", "a/b", "ü ~", "car-000001-00000002"):
        with Journal(tmp_path, Run(host, 0, Plane())) as journal:
            journal.record(Noted(host, 1, "x"))
    assert len(list(read_entries(tmp_path, Noted))) == 5


@pytest.mark.parametrize("host", ["", "x" * 201])
def test_p1_a_name_that_no_file_can_have_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(BadJournal, match="cannot name the files"):
        Journal(tmp_path, Run(host, 0, Plane()))


def test_p1_a_segment_needs_room(tmp_path: Path) -> None:
    with pytest.raises(BadJournal, match="at least 1 row"):
        Journal(tmp_path, RUN, segment_rows_max=0)


def test_records_by_columns_are_those_recorded_one_by_one(tmp_path: Path) -> None:
    moves = [Move(f"host-{number % 3}", number, Point(number, 1.0)) for number in range(100)]
    noted = Noted("host-1", 0, "before")
    with Journal(tmp_path / "rows", RUN) as journal:
        records: list[Record] = [noted, *moves, noted]
        for record in records:
            journal.record(record)
    with Journal(tmp_path / "columns", RUN, segment_rows_max=30) as journal:
        journal.record(noted)
        journal.record_columns(Move, columns_of(moves))
        journal.record(noted)
    assert list(read_entries(tmp_path / "columns")) == list(read_entries(tmp_path / "rows"))
    assert max(pq.read_metadata(path).num_rows for path in (tmp_path / "columns/v2/moves").iterdir()) == 30


def columns_of(moves: list[Move]) -> Any:
    table = next(table for table in TABLES if table.record is Move)
    columns = Columns(table)
    for number, move in enumerate(moves):
        columns.append(move.host, number, move.at_us, table.row(move))
    plain = columns.arrow(0)
    hosts = plain["host"].dictionary_encode()
    return plain.drop_columns(["incarnation", "sequence"]).set_column(0, "host", hosts)
