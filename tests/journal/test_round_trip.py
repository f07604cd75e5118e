"""P1: what was recorded comes back as it was, to the type of every number."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.journal import (
    BadJournal,
    ContextChange,
    Journal,
    Move,
    Noted,
    Published,
    Record,
    Run,
    read_entries,
    read_records,
    read_run,
)
from roamcast.journal.plain import value_of
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.places import movement_graph
from roamcast.model.space import Earth, Plane
from roamcast.model.values import Instant, Point, Value, Velocity
from tests.effort import examples
from tests.journal.strategies import contexts, events, exact, records, runs

RUN = Run("run", 0, Plane(), seed=7)


def written_and_read(directory: Path, given_records: list[Record], run: Run = RUN) -> list[Record]:
    with Journal(directory, run, durable=False) as journal:
        for record in given_records:
            journal.record(record)
    return [entry.record for entry in read_entries(directory) if not isinstance(entry.record, Run)]


@examples(60)
@given(st.lists(records, max_size=12))
def test_p1_every_kind_of_record_comes_back_exactly(recorded: list[Record]) -> None:
    with TemporaryDirectory() as directory:
        found = written_and_read(Path(directory), recorded)
    assert sorted(map(exact, found)) == sorted(map(exact, recorded))


@examples(40)
@given(events())
def test_p2_an_event_comes_back_equal_with_its_publishers_context(event: Event) -> None:
    with TemporaryDirectory() as directory:
        (found,) = written_and_read(Path(directory), [Published("a", event.published_us, event)])
    assert isinstance(found, Published)
    assert found.event == event


@examples(40)
@given(contexts)
def test_p2_a_move_and_a_context_change_give_the_context_back(context: Context) -> None:
    change = ContextChange(context.host, context.at_us, context.attributes)
    with TemporaryDirectory() as directory:
        found = written_and_read(Path(directory), [Move.of(context), change])
    moves = [record for record in found if isinstance(record, Move)]
    changes = [record for record in found if isinstance(record, ContextChange)]
    assert moves[0].context(changes[0].attributes) == context


@examples(25)
@given(runs)
def test_p1_the_run_says_what_the_journal_is_of(run: Run) -> None:
    with TemporaryDirectory() as directory:
        Journal(Path(directory), run, durable=False).close()
        assert exact(read_run(Path(directory))) == exact(run)


@pytest.mark.parametrize(
    "value", [True, False, 0, 1, -(2**53), 1.0, -0.0, 5e-324, "", "1", Instant(-1), Point(0.0, -0.0)], ids=repr
)
def test_s1_a_value_keeps_its_type(tmp_path: Path, value: Value) -> None:
    (found,) = written_and_read(tmp_path, [ContextChange("a", 0, {"it": value})])
    assert isinstance(found, ContextChange)
    assert repr(found.attributes["it"]) == repr(value)


@pytest.mark.parametrize(
    "plain",
    [{}, {"number": 1.0}, {"number": 1.0, "integer": True, "text": "1"}, {"x": 1.0}, {"flag": True, "text": "t"}],
    ids=repr,
)
def test_p1_a_value_that_is_not_exactly_one_thing_is_refused(plain: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="one of number"):
        value_of(plain)


def test_r4_the_movement_graph_can_be_walked_after_reading(tmp_path: Path) -> None:
    graph = movement_graph({"hall": ["kitchen", "stairs"], "stairs": ["attic"]})
    Journal(tmp_path, Run("run", 0, Plane(), movement_graph=graph.neighbours)).close()
    read = read_run(tmp_path).graph()
    assert read is not None
    assert read.ploc("kitchen", 2) == graph.ploc("kitchen", 2) == {"hall", "kitchen", "stairs"}


def test_p1_records_come_in_order_of_time_then_host_then_sequence(tmp_path: Path) -> None:
    with Journal(tmp_path, RUN, segment_rows_max=3) as journal:
        for at_us, host in [(9, "b"), (2, "a"), (5, "b"), (5, "a"), (1, "b"), (5, "a"), (7, "a"), (0, "b")]:
            journal.record(Noted(host, at_us, f"{host}{at_us}"))
    entries = list(read_entries(tmp_path, Noted))
    order = [(entry.record.at_us, entry.record.host, entry.sequence) for entry in entries]
    assert order == [
        (0, "b", 3),
        (1, "b", 2),
        (2, "a", 0),
        (5, "a", 1),
        (5, "a", 2),
        (5, "b", 1),
        (7, "a", 3),
        (9, "b", 0),
    ]


def test_p1_one_kind_can_be_read_alone(tmp_path: Path) -> None:
    move = Move("a", 1, Point(1.0, 2.0), Velocity(0.5, 0.0))
    written_and_read(tmp_path, [move, Noted("a", 2, "beacon_lost")])
    assert list(read_records(tmp_path, Move)) == [move]


def test_p1_a_segment_that_was_copied_gives_its_records_once(tmp_path: Path) -> None:
    written_and_read(tmp_path, [Noted("a", 1, "once")])
    original = tmp_path / "v2/notes/run-000000-00000001.parquet"
    (original.parent / "copy-000000-00000001.parquet").write_bytes(original.read_bytes())
    assert [record.what for record in read_records(tmp_path, Noted)] == ["once"]


def test_p1_two_different_records_under_one_number_are_an_error(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with Journal(tmp_path, Run(name, 0, Plane()), incarnation=None) as journal:
            journal.record(Noted("a", 1, name))
    other = tmp_path / "other"
    with Journal(other, RUN) as journal:
        journal.record(Noted("a", 1, "three"))
    found = other / "v2/notes/run-000000-00000001.parquet"
    (tmp_path / "v2/notes/run-000000-00000001.parquet").write_bytes(found.read_bytes())
    with pytest.raises(BadJournal, match=r"two records of host 'a' in incarnation 0 have sequence 0"):
        list(read_entries(tmp_path, Noted))


def test_p2_runs_that_disagree_about_the_world_are_an_error(tmp_path: Path) -> None:
    Journal(tmp_path, Run("a", 0, Plane())).close()
    Journal(tmp_path, Run("b", 0, Earth())).close()
    with pytest.raises(BadJournal, match="field 'space': 'a' and 'b' differ"):
        read_run(tmp_path)


def test_p1_what_a_file_cannot_hold_is_stored_as_the_nearest(tmp_path: Path) -> None:
    """A hostile text or time must not stop a host for its journal."""
    odd: list[Record] = [Noted("a", 2**70, "half \ud800 pair"), ContextChange("a", 1, {"t": "\udfff", "n": 1})]
    found = written_and_read(tmp_path, odd)
    assert found == [ContextChange("a", 1, {"t": "?", "n": 1}), Noted("a", 2**63 - 1, "half ? pair")]
