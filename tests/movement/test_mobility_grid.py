"""Walks over cells and places, with exact residence times, and the movement graph that goes with them."""

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.values import Point
from roamcast.movement.grid import GridWalk, PlaceWalk
from roamcast.movement.legs import FOREVER_US, Leg
from tests.effort import examples
from tests.movement.mobility_checks import SECOND_US, check_legs, check_trips, first, legs_of

STREET = PlaceWalk(
    {"a": (0, 0), "b": (100, 0), "c": (0, 100), "d": (100, 100)},
    {"a": ("b", "c"), "b": ("d",), "c": ("d",)},
    residence_s=(30, 60),
    speed_mps=10,
)


def residences(model: GridWalk | PlaceWalk, legs: list[Leg]) -> list[tuple[str, int]]:
    """Each place visited and for how long: borders are crossed half-way along a moving leg."""
    visits = []
    since_us = 0
    for leg in legs:
        if not leg.resting:
            # A way of an odd number of microseconds has its middle between two.
            border_us = (leg.start_us + leg.end_us) // 2
            visits.append((model.place_at(leg.start), border_us - since_us))
            since_us = border_us
    return visits


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(2, 6), st.booleans(), st.floats(8, 30))
@examples(80)
def test_residence_in_every_cell_is_as_drawn(seed: int, columns: int, rows: int, corners: bool, speed: float) -> None:
    """R5: the time between two borders is the residence time."""
    model = GridWalk(columns, rows, 250, (60, 90), speed, corners=corners)
    legs = first(legs_of(model, seed), 40)
    check_legs(legs)
    check_trips(legs)
    visits = residences(model, legs)
    assert all(60 * SECOND_US - 1 <= stay_us <= 90 * SECOND_US + 1 for _, stay_us in visits)
    graph = model.graph()
    for (place, _), (following, _) in itertools.pairwise(visits):
        assert following in graph.neighbours[place]


def test_a_fixed_residence_is_met_exactly() -> None:
    model = GridWalk(4, 4, 100, 30, 10)
    assert {stay_us for _, stay_us in residences(model, first(legs_of(model), 60))} == {30 * SECOND_US}


def test_a_residence_as_long_as_the_way_means_moving_without_rest() -> None:
    model = GridWalk(4, 4, 100, 10.000001, 10)
    legs = first(legs_of(model), 40)[1:]
    assert sum(leg.end_us - leg.start_us for leg in legs if leg.resting) <= len(legs)


def test_the_graph_of_m1_links_eight_neighbours() -> None:
    walk = GridWalk(3, 3, 250, 100, 10, corners=True)
    assert len(walk.graph().neighbours["c1r1"]) == 8
    assert walk.graph().neighbours["c0r0"] == ("c0r1", "c1r0", "c1r1")
    sides = GridWalk(3, 3, 250, 100, 10)
    assert sides.graph().neighbours["c1r1"] == ("c0r1", "c1r0", "c1r2", "c2r1")


def test_names_and_start_can_be_given() -> None:
    walk = GridWalk(2, 1, 10, 20, 1, names=("hall", "room"), start="room")
    assert next(legs_of(walk)).start == Point(15, 5)
    assert walk.graph().ploc("hall", 1) == {"hall", "room"}
    assert [walk.place_at(Point(x, 3)) for x in (-5, 9.99, 10, 99)] == ["hall", "hall", "room", "room"]


def test_every_cell_is_visited_in_time() -> None:
    walk = GridWalk(3, 3, 10, 20, 1)
    assert {place for place, _ in residences(walk, first(legs_of(walk), 400))} == set(walk.graph().neighbours)


def test_a_single_cell_is_never_left() -> None:
    legs = list(legs_of(GridWalk(1, 1, 10, 20, 1)))
    assert [leg.end_us for leg in legs] == [FOREVER_US]


def test_a_walk_over_places_follows_its_graph() -> None:
    """R4: every step of the walk is an edge of the movement graph."""
    legs = first(legs_of(STREET), 200)
    check_legs(legs)
    check_trips(legs)
    visits = residences(STREET, legs)
    graph = STREET.graph()
    assert graph.ploc("a", 1) == {"a", "b", "c"}
    for (place, stay_us), (following, _) in itertools.pairwise(visits):
        assert following in graph.neighbours[place]
        assert 30 * SECOND_US <= stay_us <= 60 * SECOND_US


def test_walks_repeat_with_their_seed() -> None:
    for model in (STREET, GridWalk(5, 5, 10, (20, 30), 1)):
        assert first(legs_of(model, 4), 50) == first(legs_of(model, 4), 50)
        assert first(legs_of(model, 4), 50) != first(legs_of(model, 5), 50)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"columns": 0}, "columns"),
        ({"rows": -1}, "rows"),
        ({"columns": 2000, "rows": 2000}, "at most"),
        ({"cell_m": math.nan}, "cell_m"),
        ({"residence_s": 0}, "residence_s"),
        ({"residence_s": 9}, "longer residence or a higher speed"),
        ({"residence_s": 12, "corners": True}, "longer residence"),
        ({"speed_mps": 0}, "speed_mps"),
        ({"names": ("a", "b", "c", "c")}, "each its own"),
        ({"names": ("a", "b", "c", "")}, "not empty"),
        ({"start": "z"}, "not one of its cells"),
    ],
)
def test_a_bad_grid_is_refused(changed: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"columns": 2, "rows": 2, "cell_m": 100, "residence_s": 60, "speed_mps": 10}
    with pytest.raises(ValueError, match=said):
        GridWalk(**(given | changed))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"places": {}}, "number of places"),
        ({"ways": {"a": ("z",)}}, "'z', which is not one"),
        ({"ways": {"a": ("a",)}}, "no length"),
        ({"places": {"a": (0, 0), "b": (0, math.inf)}}, "'b'"),
        ({"start": "z"}, "start 'z'"),
        ({"residence_s": 1}, "longer residence"),
    ],
)
def test_bad_places_are_refused(changed: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {
        "places": {"a": (0, 0), "b": (9, 0)},
        "ways": {"a": ("b",)},
        "residence_s": 10,
        "speed_mps": 1,
    }
    with pytest.raises(ValueError, match=said):
        PlaceWalk(**(given | changed))
