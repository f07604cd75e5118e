"""P1: whatever is wrong with a journal, the error names the file and the field."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roamcast.journal import (
    BadJournal,
    ContextChange,
    Journal,
    Move,
    Noted,
    Run,
    journal_hash,
    read_entries,
    read_run,
)
from roamcast.model.space import Plane
from roamcast.model.values import Point

MOVES = "run-000000-00000001.parquet"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    with Journal(tmp_path, Run("run", 0, Plane())) as journal:
        journal.record(Move("a", 1, Point(1.0, 2.0)))
        journal.record(ContextChange("a", 1, {"speed": 3}))
        journal.record(Noted("a", 2, "x"))
    return tmp_path


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def refusal(directory: Path) -> str:
    with pytest.raises(BadJournal) as caught:
        list(read_entries(directory))
    return str(caught.value)


def test_p1_no_such_directory(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere") == f"{tmp_path}/nowhere: no such directory"
    with pytest.raises(BadJournal, match="no such directory"):
        journal_hash(tmp_path / "nowhere")


def test_p1_an_empty_directory(tmp_path: Path) -> None:
    assert "holds no journal" in refusal(tmp_path)


def test_p1_a_missing_table(journal: Path) -> None:
    shutil.rmtree(journal / "v2/moves")
    assert refusal(journal) == f"{journal}/v2/moves: table 'moves' is missing"


def test_p1_a_table_without_segments(journal: Path) -> None:
    for path in (journal / "v2/moves").iterdir():
        path.unlink()
    assert "table 'moves' is missing; there is no segment" in refusal(journal)


def test_p1_a_directory_of_another_version(journal: Path) -> None:
    (journal / "v2").rename(journal / "v7")
    assert refusal(journal) == f"{journal}: a journal of version 7; this program reads 2"


def test_p1_a_file_of_another_version(journal: Path) -> None:
    path = journal / "v2/moves" / MOVES
    rewritten(path, lambda table: table.replace_schema_metadata({"roamcast.journal.version": "1"}))
    assert refusal(journal) == f"{path}: of schema version 1; this program reads 2"


def test_p1_a_corrupt_footer(journal: Path) -> None:
    path = journal / "v2/moves" / MOVES
    path.write_bytes(path.read_bytes()[:-20])
    assert refusal(journal).startswith(f"{path}: damaged")


def test_p1_corrupt_rows(journal: Path) -> None:
    path = journal / "v2/notes" / MOVES
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)
    path.write_bytes(content)
    assert refusal(journal).startswith(f"{path}: damaged")


def test_p1_an_empty_file(journal: Path) -> None:
    path = journal / "v2/moves" / MOVES
    path.write_bytes(b"")
    assert refusal(journal).startswith(f"{path}: damaged")


def test_p1_a_foreign_file_name(journal: Path) -> None:
    (journal / "v2/moves/readme.txt").write_text("hello")
    assert "readme.txt: is not named as a segment" in refusal(journal)


def test_p1_a_foreign_parquet_file(journal: Path) -> None:
    path = journal / "v2/moves" / MOVES
    pq.write_table(pa.table({"a": [1]}), path)
    assert refusal(journal).startswith(f"{path}: not written as a journal")


def test_p1_a_segment_of_another_table(journal: Path) -> None:
    shutil.copy(journal / "v2/notes" / MOVES, journal / "v2/moves" / MOVES)
    assert refusal(journal).endswith("holds table 'notes', not 'moves'")


def test_p1_a_missing_field(journal: Path) -> None:
    path = journal / "v2/moves" / MOVES
    rewritten(path, lambda table: table.drop_columns(["velocity_east"]))
    assert refusal(journal) == f"{path}: field 'velocity_east' is missing"


def test_p1_a_field_of_another_type(journal: Path) -> None:
    path = journal / "v2/moves" / MOVES
    rewritten(path, lambda table: table.set_column(table.schema.get_field_index("x"), "x", pa.array(["1"])))
    assert refusal(journal) == f"{path}: field 'x' is string, and must be double"


def test_p1_a_field_too_many(journal: Path) -> None:
    path = journal / "v2/moves" / MOVES
    rewritten(path, lambda table: table.append_column("mood", pa.array(["good"])))
    assert refusal(journal) == f"{path}: field 'mood' is not one of table 'moves'"


def test_p1_a_null_where_none_may_be(journal: Path) -> None:
    path = journal / "v2/moves" / MOVES
    nulls = pa.array([None], pa.int64())
    rewritten(path, lambda table: table.set_column(table.schema.get_field_index("pause_us"), "pause_us", nulls))
    assert refusal(journal) == f"{path}: field 'pause_us' is null in row 0, and must not be"


def test_p1_a_host_that_is_down_and_somewhere(journal: Path) -> None:
    path = journal / "v2/moves" / MOVES
    down = pa.array([False])
    rewritten(path, lambda table: table.set_column(table.schema.get_field_index("up"), "up", down))
    assert refusal(journal).endswith("'a' is down, and so has no position, velocity or destination")


def test_p1_an_attribute_that_is_nothing(journal: Path) -> None:
    path = journal / "v2/contexts" / MOVES
    type_ = pq.read_schema(path).field("attributes").type
    nothing = pa.array([[("speed", {"number": None})]], type_)
    rewritten(path, lambda table: table.set_column(4, "attributes", nothing))
    assert refusal(journal).startswith(f"{path}: field 'attributes' in row 0: a value must be one of")


def test_p1_values_that_the_model_refuses(journal: Path) -> None:
    path = journal / "v2/runs/run-000000-00000000.parquet"
    index = pq.read_schema(path).get_field_index("space")
    rewritten(path, lambda table: table.set_column(index, "space", pa.array(["disc"])))
    assert refusal(journal) == f"{path}: field 'space' in row 0: 'disc' is not a space; give plane or earth"


def test_p2_a_journal_without_a_run(journal: Path) -> None:
    path = journal / "v2/runs/run-000000-00000000.parquet"
    rewritten(path, lambda table: table.slice(0, 0))
    with pytest.raises(BadJournal, match="table 'runs' has no rows"):
        read_run(journal)
