"""Movement graphs and ploc (R4): Rebeca's section 5.1, its Figure 7 and its Tables 1 and 2."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.places import MovementGraph, movement_graph
from roamcast.model.values import BadValue
from tests.effort import examples

# Figure 7 as Table 1 implies it: a square a-b-d-c without diagonals.
FIGURE_7 = movement_graph({"a": ["b", "c"], "b": ["d"], "c": ["d"]})
ALL = {"a", "b", "c", "d"}
TABLE_1 = {
    0: {"a": {"a"}, "b": {"b"}, "c": {"c"}, "d": {"d"}},
    1: {"a": {"a", "b", "c"}, "b": {"a", "b", "d"}, "c": {"a", "c", "d"}, "d": {"b", "c", "d"}},
    2: {"a": ALL, "b": ALL, "c": ALL, "d": ALL},
    3: {"a": ALL, "b": ALL, "c": ALL, "d": ALL},
}


@pytest.mark.parametrize("steps", TABLE_1)
def test_r4_table_1_comes_out_exactly(steps: int) -> None:
    assert {place: FIGURE_7.ploc(place, steps) for place in "abcd"} == TABLE_1[steps]


def test_r4_table_2_comes_out_exactly() -> None:
    """The client is at a, b, d; the filters F3 to F0 along the path are ploc(x, 3) to ploc(x, 0)."""
    rows = [[set(FIGURE_7.ploc(place, steps)) for steps in (3, 2, 1, 0)] for place in "abd"]
    assert rows == [
        [ALL, ALL, {"a", "b", "c"}, {"a"}],
        [ALL, ALL, {"a", "b", "d"}, {"b"}],
        [ALL, ALL, {"b", "c", "d"}, {"d"}],
    ]


edges = st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=4), max_size=6)


def walks(graph: MovementGraph, place: str, steps: int) -> set[str]:
    """Every walk of so many steps, staying allowed: the definition."""
    ends = {place}
    for choice in itertools.product(range(7), repeat=steps):
        here = place
        for step in choice:
            options = (here, *graph.neighbours.get(here, ()))
            here = options[step] if step < len(options) else here
        ends.add(here)
    return ends


@examples(60)
@given(edges, st.sampled_from("abcdef"), st.integers(0, 3), st.booleans())
def test_r4_ploc_is_where_walks_of_so_many_steps_can_end(
    given_edges: dict[str, list[str]], place: str, steps: int, both_ways: bool
) -> None:
    graph = movement_graph(given_edges, both_ways=both_ways)
    assert graph.ploc(place, steps) == walks(graph, place, steps)


@examples(200)
@given(edges, st.sampled_from("abcdef"), st.integers(0, 8))
def test_r4_equation_1_ploc_grows_with_the_steps(given_edges: dict[str, list[str]], place: str, steps: int) -> None:
    graph = movement_graph(given_edges)
    assert graph.ploc(place, steps) <= graph.ploc(place, steps + 1)


def test_r4_one_way_edges_are_walked_one_way() -> None:
    graph = movement_graph({"a": ["b"]}, both_ways=False)
    assert graph.ploc("a", 1) == {"a", "b"}
    assert graph.ploc("b", 5) == {"b"}


def test_r4_of_an_unknown_place_only_itself_is_possible_and_nothing_is_kept() -> None:
    for number in range(1_000):
        assert FIGURE_7.ploc(f"elsewhere {number}", 3) == {f"elsewhere {number}"}
    assert len(FIGURE_7._ploc) <= len(FIGURE_7.neighbours) * 9


def test_r4_many_ways_to_one_place_are_walked_once() -> None:
    """A street grid has some 10^17 shortest ways across 30 blocks by 30; they must not be tried one by one."""
    size = 31
    grid = movement_graph(
        {f"{i} {j}": [f"{i + 1} {j}", f"{i} {j + 1}"] for i in range(size - 1) for j in range(size - 1)}
    )
    assert grid.ploc("0 0", 59) == frozenset(grid.neighbours)


@pytest.mark.parametrize("edges_", [{"": ["a"]}, {"a": [""]}, {"": []}])
def test_a_place_needs_a_name(edges_: dict[str, list[str]]) -> None:
    with pytest.raises(BadValue, match="a place needs a name"):
        movement_graph(edges_)
