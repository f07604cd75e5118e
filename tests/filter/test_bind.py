"""A bound filter says for everybody what the filter says for its reader (R4, R7)."""

import pytest
from hypothesis import assume, given

from roamcast.model.context import Context
from roamcast.model.filter.bound import bind, is_bound
from roamcast.model.filter.cover import covers
from roamcast.model.filter.evaluate import accepts, compile_filter
from roamcast.model.filter.scene import Scene
from roamcast.model.filter.tree import (
    FALSE,
    NODES_MAX,
    TRUE,
    UNKNOWN,
    AtMyLoc,
    Attribute,
    Closing,
    Compare,
    Filter,
    Inside,
    IsNull,
    Literal,
    Mine,
    Near,
    Neighbours,
    Not,
    OneOf,
    Predicate,
)
from roamcast.model.places import MovementGraph, movement_graph
from roamcast.model.region import Circle
from roamcast.model.values import Point, Value, Velocity
from tests.effort import examples
from tests.filter.conjunctions import (
    EARTH,
    GRAPH,
    PLANE,
    contexts,
    event_attributes,
    graphs,
    neighbourhoods,
    reader_atoms,
    trees,
)

PRICE = Attribute("price")
WHERE = Attribute("where")


@examples(250)
@given(
    trees(reader_atoms(closing=False), 4),
    contexts("me"),
    contexts("publisher"),
    event_attributes(),
    neighbourhoods(),
    graphs(),
)
def test_a_bound_filter_needs_no_reader_and_has_the_same_truth_r7(
    root: Predicate,
    me: Context,
    publisher: Context,
    attributes: dict[str, Value],
    neighbours: list[Context] | None,
    graph: MovementGraph | None,
) -> None:
    around = None if neighbours is None else lambda: neighbours
    wanted_scene = Scene(attributes.get, me, publisher, around)
    for space in (PLANE, EARTH):
        bound = bind(Filter(root), me, space, graph, neighbours)
        wanted = compile_filter(Filter(root), space, graph)(wanted_scene)
        assert is_bound(bound)
        assert compile_filter(bound, space, None)(Scene(attributes.get, None, publisher)) is wanted
        assert compile_filter(bound, space, graph)(wanted_scene) is wanted


@examples(150)
@given(trees(reader_atoms(), 4), contexts("me"), contexts("publisher"), event_attributes(), neighbourhoods())
def test_atoms_left_in_place_still_read_the_reader_r7(
    root: Predicate,
    me: Context,
    publisher: Context,
    attributes: dict[str, Value],
    neighbours: list[Context] | None,
) -> None:
    bound = bind(Filter(root), me, PLANE, GRAPH, neighbours)
    scene = Scene(attributes.get, me, publisher, None if neighbours is None else lambda: neighbours)
    without_neighbours = Scene(attributes.get, me, publisher)
    wanted = compile_filter(Filter(root), PLANE, GRAPH)(scene)
    assert compile_filter(bound, PLANE, GRAPH)(without_neighbours) is wanted


@examples(100)
@given(trees(reader_atoms(closing=False), 4), contexts("me"))
def test_binding_twice_changes_nothing_r7(root: Predicate, me: Context) -> None:
    once = bind(Filter(root), me, PLANE, GRAPH)
    assume(once.root not in (TRUE, FALSE, UNKNOWN))
    assert bind(once, Context("someone else"), PLANE, None) == once


ME = Context("me", Point(3, 4), velocity=Velocity(1, 0), attributes={"budget": 20, "place": "q"})


@pytest.mark.parametrize(
    ("given_", "wanted"),
    [
        (Compare("<=", PRICE, Mine("budget")), Compare("<=", PRICE, Literal(20))),
        (Compare(">=", Mine("budget"), PRICE), Compare("<=", PRICE, Literal(20))),
        (Compare("<=", PRICE, Mine("debt")), UNKNOWN),
        (Not(Compare("<=", PRICE, Mine("debt"))), UNKNOWN),
        (IsNull(Mine("debt")), TRUE),
        (IsNull(Mine("budget")), FALSE),
        (Near(WHERE, 200), Inside(WHERE, Circle(Point(3, 4), 200))),
        (AtMyLoc(PRICE, 1), OneOf(PRICE, ("p", "q", "r"))),
        (Compare(">", PRICE, Neighbours("avg", "budget")), Compare(">", PRICE, Literal(15.0))),
        (Compare(">", PRICE, Neighbours("avg", "debt")), UNKNOWN),
        (Closing(WHERE, "approaching"), Closing(WHERE, "approaching")),
        (Closing(Literal(Point(9, 4)), "approaching"), TRUE),
    ],
)
def test_what_is_known_of_the_reader_is_put_in_r7(given_: Predicate, wanted: Predicate) -> None:
    neighbours = [Context("n", attributes={"budget": 10}), Context("m", attributes={"budget": 20})]
    assert bind(Filter(given_), ME, PLANE, GRAPH, neighbours) == Filter(wanted)


@pytest.mark.parametrize("root", [Near(WHERE, 200), AtMyLoc(PRICE, 1), Closing(WHERE, "receding")])
def test_a_reader_without_position_or_place_makes_it_unknown_r7(root: Predicate) -> None:
    assert bind(Filter(root), Context("me"), PLANE, GRAPH) == Filter(UNKNOWN)


def test_nearness_of_zero_metres_is_the_reader_s_own_position_r7() -> None:
    bound = bind(Filter(Near(WHERE, 0)), ME, PLANE)
    assert accepts(bound, Scene({"where": Point(3, 4)}.get), PLANE)
    assert not accepts(bound, Scene({"where": Point(3, 4.0000001)}.get), PLANE)


def test_myloc_over_more_places_than_a_filter_holds_stays_r4() -> None:
    hub = movement_graph({"q": [f"place {index}" for index in range(NODES_MAX + 1)]})
    stays = Filter(AtMyLoc(PRICE, 1))
    assert bind(stays, ME, PLANE, hub) == stays
    assert not is_bound(stays)
    assert is_bound(bind(stays, ME, PLANE, GRAPH))


def test_bound_filters_of_two_readers_can_be_compared_r7() -> None:
    affordable = Filter(Compare("<=", PRICE, Mine("budget")))
    rich = bind(affordable, Context("rich", attributes={"budget": 100}), PLANE)
    poor = bind(affordable, Context("poor", attributes={"budget": 10}), PLANE)
    assert covers(rich, poor, PLANE)
    assert not covers(poor, rich, PLANE)
