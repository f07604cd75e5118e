"""Bounded tables whose rows expire (C7)."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from roamcast.adhoc.tables import SubjectTable, Table
from roamcast.model.subject import subject_matches
from tests.effort import examples


class Row(Struct, frozen=True):
    name: str
    ends_us: int


def test_rows_end_after_their_time_and_not_at_it() -> None:
    """C3, C7: at its expiry an event is still there."""
    table: Table[Row] = Table(10)
    table.put("a", Row("a", 10))
    table.put("b", Row("b", 20))
    table.expire(10)
    assert len(table) == 2
    table.expire(11)
    assert [row.name for row in table.rows()] == ["b"]


def test_a_full_table_gives_up_the_row_that_ends_first_and_says_which() -> None:
    """C7"""
    table: Table[Row] = Table(2)
    assert table.put("a", Row("a", 30)) is None
    assert table.put("b", Row("b", 10)) is None
    assert table.put("c", Row("c", 20)) == "b"
    assert [row.name for row in table.rows()] == ["a", "c"]
    assert table.dropped == 1


def test_a_full_table_refuses_a_row_that_would_end_first_of_all() -> None:
    table: Table[Row] = Table(1)
    table.put("a", Row("a", 30))
    assert table.put("b", Row("b", 5)) == "b"
    assert "a" in table
    assert "b" not in table


def test_a_row_is_replaced_without_dropping_another() -> None:
    table: Table[Row] = Table(1)
    table.put("a", Row("a", 30))
    assert table.put("a", Row("a", 40)) is None
    row = table.get("a")
    assert row is not None
    assert row.ends_us == 40


@examples(100)
@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 50), st.integers(0, 50)), max_size=40))
def test_whatever_is_put_the_table_stays_within_its_bound_and_holds_nothing_that_ended(
    steps: list[tuple[str, int, int]],
) -> None:
    """C7"""
    table: Table[Row] = Table(4)
    now_us = 0
    for key, ends_us, passed_us in steps:
        table.put(key, Row(key, ends_us))
        now_us = max(now_us, passed_us)
        table.expire(now_us)
        assert len(table) <= 4
        assert all(row.ends_us >= now_us for row in table.rows())


# By subject.


class About(Struct, frozen=True):
    subject: str
    ends_us: int


SUBJECTS = ("a", "a/b", "a/c", "b", "$a")
PATTERNS = (*SUBJECTS, "+", "a/+", "#", "a/#", "+/b")
changes = st.lists(st.tuples(st.sampled_from("klmnop"), st.sampled_from(PATTERNS), st.integers(0, 9)), max_size=25)


@examples(150)
@given(changes, st.integers(1, 6), st.integers(0, 9))
def test_rows_are_found_by_subject_as_a_look_at_all_of_them_would_find_them(
    puts: list[tuple[str, str, int]], rows_max: int, now_us: int
) -> None:
    """C7: whatever was replaced, pushed out, removed or has ended."""
    events: SubjectTable[About] = SubjectTable(rows_max)
    subscriptions: SubjectTable[About] = SubjectTable(rows_max)
    for key, subject, ends_us in puts:
        if subject in SUBJECTS:
            events.put(key, About(subject, ends_us))
        subscriptions.put(key, About(subject, ends_us))
    for table in (events, subscriptions):
        table.remove("k")
        table.expire(now_us)
        assert len(table) <= rows_max
    for each in PATTERNS:
        found = [row for row in events.rows() if subject_matches(each, row.subject)]
        assert sorted(events.with_subject(each), key=repr) == sorted(found, key=repr)
    for each in SUBJECTS:
        found = [row for row in subscriptions.rows() if subject_matches(row.subject, each)]
        assert sorted(subscriptions.with_pattern_of(each), key=repr) == sorted(found, key=repr)


def test_rows_of_one_subject_are_found_oldest_first() -> None:
    table: SubjectTable[About] = SubjectTable(9)
    for key, ends_us in (("x", 3), ("y", 2), ("z", 1), ("x", 9)):
        table.put(key, About("a", ends_us))
    assert [row.ends_us for row in table.with_subject("a")] == [9, 2, 1]
