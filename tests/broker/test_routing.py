"""Routing strategies ask for enough, and, but for merging, for nothing else (R2)."""

from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.routing import NOTHING, Asking, Change, Strategy, asking_for
from roamcast.broker.wishes import Table, Wish
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import Filter, parse_text
from roamcast.model.filter.evaluate import accepts
from roamcast.model.filter.scene import Scene
from roamcast.model.space import Plane
from roamcast.model.subject import subject_matches
from tests.effort import examples

PLANE = Plane()
SUBJECTS = ("a/x", "a/y", "a/+", "#")
FILTERS = tuple(
    parse_text(text)
    for text in (
        "price < 5",
        "price < 3",
        "price <= 3",
        "price BETWEEN 2 AND 6",
        "price > 7",
        "price IN (1, 4)",
        "price IN (1, 4, 9) AND kind = 'a'",
        "kind = 'a'",
        "kind = 'b' OR price = 0",
        "TRUE",
    )
)
EVENTS = tuple(
    Event("e", subject, Context("p"), 0, 0, {"price": price, "kind": kind})
    for subject in ("a/x", "a/y", "b")
    for price in range(10)
    for kind in "ab"
)
STRATEGIES: tuple[Strategy, ...] = ("simple", "identity", "covering", "merging")
Step: TypeAlias = tuple[str, int, str, Filter]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["n1", "n2", "client 1"]),
        st.integers(0, 5),
        st.sampled_from(SUBJECTS),
        st.sampled_from(FILTERS),
    ),
    max_size=40,
)


def wanted_by(wishes: list[Wish], event: Event) -> bool:
    scene = Scene(event.attributes.get, None, event.publisher)
    return any(subject_matches(each.subject, event.subject) and accepts(each.filter, scene, PLANE) for each in wishes)


class Neighbour:
    """What the other side believes it is asked for, as the messages say it."""

    def __init__(self) -> None:
        self.wishes: dict[str, Wish] = {}

    def hear(self, change: Change) -> None:
        for wish in change.ask:
            self.wishes[wish.id] = wish
        for wish_id in change.withdraw:
            del self.wishes[wish_id]


def play(asking: Asking, steps: list[Step]) -> tuple[Neighbour, Table]:
    """Each step toggles one wish of one source; sources use the same names, not always for the same wish."""
    neighbour, table = Neighbour(), Table(PLANE)
    for source, number, subject, filter_ in steps:
        wish_id = f"w{number}"
        if table.remove(source, wish_id) is not None:
            neighbour.hear(asking.remove(source, wish_id))
        else:
            wish = Wish(wish_id, subject, filter_)
            table.add(source, wish)
            neighbour.hear(asking.add(source, wish))
    return neighbour, table


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(steps=STEPS)
@examples(60)
def test_r2_a_neighbour_is_asked_for_all_that_somebody_wants(strategy: Strategy, steps: list[Step]) -> None:
    neighbour, table = play(asking_for(strategy, PLANE, 2), steps)
    for event in EVENTS:
        if table.concerned(event):
            assert wanted_by(list(neighbour.wishes.values()), event)


@pytest.mark.parametrize("strategy", ["simple", "identity", "covering"])
@given(steps=STEPS)
@examples(60)
def test_r2_a_neighbour_is_asked_for_nothing_that_nobody_wants(strategy: Strategy, steps: list[Step]) -> None:
    neighbour, table = play(asking_for(strategy, PLANE, 2), steps)
    for event in EVENTS:
        if wanted_by(list(neighbour.wishes.values()), event):
            assert table.concerned(event)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(steps=STEPS)
@examples(60)
def test_r2_what_is_asked_is_what_the_messages_said_and_ends_empty(strategy: Strategy, steps: list[Step]) -> None:
    asking = asking_for(strategy, PLANE, 2)
    neighbour, table = play(asking, steps)
    assert {wish.id: wish for wish in asking.asked()} == neighbour.wishes
    for source, wishes in list(table.wishes.items()):
        for wish_id in list(wishes):
            neighbour.hear(asking.remove(source, wish_id))
    assert neighbour.wishes == {}
    assert asking.asked() == []


@given(steps=STEPS)
@examples(60)
def test_r2_the_table_finds_exactly_the_sources_with_a_wish_that_accepts(steps: list[Step]) -> None:
    _, table = play(asking_for("flooding", PLANE, 2), steps)
    for event in EVENTS:
        expected = {source for source in table.wishes if wanted_by(table.of(source), event)}
        assert set(table.concerned(event)) == expected


def asked(strategy: Strategy, *texts: str) -> list[Wish]:
    asking = asking_for(strategy, PLANE, 16)
    for index, text in enumerate(texts):
        asking.add("n1", Wish(f"w{index}", "a/x", parse_text(text)))
    return asking.asked()


def test_r2_identity_asks_once_for_equal_filters() -> None:
    assert len(asked("simple", "price < 5", "price < 5")) == 2
    assert len(asked("identity", "price < 5", "price < 5")) == 1


def test_r2_covering_asks_only_for_the_wider_filter() -> None:
    assert [wish.filter for wish in asked("covering", "price < 3", "price < 5")] == [parse_text("price < 5")]
    assert len(asked("identity", "price < 3", "price < 5")) == 2


def test_r2_merging_asks_for_one_filter_where_covering_needs_two() -> None:
    assert len(asked("merging", "price < 3", "price >= 3 AND price < 5")) == 1
    assert len(asked("covering", "price < 3", "price >= 3 AND price < 5")) == 2


@pytest.mark.parametrize("strategy", ["covering", "merging"])
def test_r2_unsubscribing_uncovers_what_was_hidden(strategy: Strategy) -> None:
    asking = asking_for(strategy, PLANE, 16)
    asking.add("n1", Wish("narrow", "a/x", parse_text("price < 3")))
    asking.add("n2", Wish("wide", "a/x", parse_text("price < 5")))
    change = asking.remove("n2", "wide")
    assert [wish.filter for wish in change.ask] == [parse_text("price < 3")]
    assert len(change.withdraw) == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_r3_a_wish_whose_equal_stays_goes_unheard(strategy: Strategy) -> None:
    """As when its client has moved to another broker on the same side."""
    asking = asking_for(strategy, PLANE, 16)
    asking.add("n1", Wish("w", "a/x", parse_text("price < 5")))
    asking.add("n1", Wish("narrow", "a/x", parse_text("price < 3")))
    before = asking.asked()
    assert asking.add("n2", Wish("w", "a/x", parse_text("price < 5"))) == NOTHING
    assert asking.remove("n1", "w") == NOTHING
    assert asking.asked() == before
    asking.remove("n1", "narrow")
    assert len(asking.remove("n2", "w").withdraw) == 1
