"""Explaining a filter to a person (S4, C2, R7)."""

import pytest
from hypothesis import given

from roamcast.model.filter.explanation import NEEDS, explain
from roamcast.model.filter.parse import parse_text
from roamcast.model.filter.tree import Filter
from tests.effort import examples
from tests.filter.strategies import filters


def test_s4_the_tree_is_shown_one_part_a_line_indented_by_depth() -> None:
    found = explain(parse_text("x = 1 AND NOT (y = 2 OR near(position, 200)) AND x = NULL"))
    assert found.tree == (
        "AND: all of",
        "  x = 1",
        "  NOT",
        "    OR: one of",
        "      y = 2",
        "      near(position, 200)",
        "  UNKNOWN: never true, nor is its opposite",
    )


def test_s4_the_text_is_what_the_system_writes() -> None:
    assert explain(parse_text("x between 1.0 and 2")).text == "x >= 1 AND x <= 2"


def test_s4_the_normal_form_lists_the_cases_in_which_it_is_true() -> None:
    assert explain(parse_text("x = 1 AND (y = 2 OR NOT z > 3)")).normal_form == (
        "x = 1 AND y = 2",
        "x = 1 AND z <= 3",
    )


@pytest.mark.parametrize(("text", "said"), [("TRUE", "always"), ("x = NULL", "never"), ("x = 1 AND FALSE", "never")])
def test_s4_a_filter_that_is_always_or_never_true_is_called_so(text: str, said: str) -> None:
    assert explain(parse_text(text)).normal_form == (said,)


def test_s4_a_normal_form_that_is_too_long_is_called_so() -> None:
    text = " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(9))
    (line,) = explain(parse_text(text)).normal_form
    assert "too many" in line


def test_c2_what_it_reads_is_said_in_words_and_only_once() -> None:
    text = "price <= me.budget AND price > 0 AND publisher.rating > 3 AND me.speed > neighbours.avg('speed')"
    assert explain(parse_text(text + " AND neighbours.count() > 2")).reads == (
        "price of the event (in a scope, of the host)",
        "budget of the reader",
        "rating of the publisher, as the event carries it",
        "speed of the reader",
        "the average speed among the reader's neighbours",
        "the number of the reader's neighbours",
    )


NEEDED = [
    ("x = 1", ()),
    ("publisher.speed = 1", ()),
    ("price < me.budget", ("attributes",)),
    ("near(position, 5)", ("position",)),
    ("me.position = position", ("position",)),
    ("near(position, 5, POINT(1 2))", ()),
    ("approaching(position)", ("position", "velocity")),
    ("receding(publisher.position)", ("position", "velocity", "publisher's velocity")),
    ("place IN myloc(1)", ("place",)),
    ("neighbours.count() > 1 OR x < me.y", ("attributes", "neighbours")),
]


@pytest.mark.parametrize(("text", "needs"), NEEDED, ids=[text for text, _ in NEEDED])
def test_r7_what_must_be_known_of_the_reader_is_said(text: str, needs: tuple[str, ...]) -> None:
    assert explain(parse_text(text)).needs == needs


def test_r2_covering_is_told_both_ways() -> None:
    found = explain(parse_text("x > 1"), parse_text("x > 5"))
    assert found.covering == ("x > 1   covers   x > 5", "x > 5   is not known to cover   x > 1")


def test_s4_sections_hold_everything_and_leave_out_what_is_not_asked() -> None:
    alone = explain(parse_text("near(position, 5)"))
    assert [heading for heading, _ in alone.sections()] == ["text", "tree", "true when", "reads", "needs to know"]
    assert ("needs to know", (NEEDS["position"],)) in alone.sections()
    both = explain(parse_text("TRUE"), parse_text("x = 1"))
    assert both.sections()[-1][0] == "covering"
    assert ("reads", ("nothing",)) in both.sections()
    assert ("needs to know", ("nothing but the event",)) in both.sections()


@examples(150)
@given(filters(), filters(max_leaves=2))
def test_s4_every_filter_can_be_explained(filter_: Filter, other: Filter) -> None:
    assert all(lines for _, lines in explain(filter_, other).sections())
