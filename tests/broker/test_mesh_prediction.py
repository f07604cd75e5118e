"""Mobility status, and Algorithm 1 on what follows from it (M2, M5, M10)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.mesh.grid import Grid, hops
from roamcast.broker.mesh.params import MeshParams
from roamcast.broker.mesh.prediction import Status, Trip, status_of, trip_of
from roamcast.model.context import Context
from roamcast.model.movement import VERSION, Habits, MovementModel
from roamcast.model.space import Cell, Plane
from roamcast.model.values import BadValue, Point, Velocity
from tests.effort import examples

GRID = Grid(MeshParams(columns=9, rows=9), Plane())
DELAY_S = 0.005
HERE: Cell = (0, 4)


def straight(start: Point, end: Point, speed_mps: float, **more: int) -> Trip:
    length_m = Plane().distance_m(start, end) or 1.0
    velocity = Velocity((end.x - start.x) / length_m * speed_mps, (end.y - start.y) / length_m * speed_mps)
    return trip_of(Status(0, start, end, velocity, **more), GRID, None, 1_024)


EAST = straight(GRID.centre((0, 4)), GRID.centre((8, 4)), 10.0)
"""Leaves its first cell after 12.5 s, and every other one after 25 s more."""


@pytest.mark.parametrize(
    ("second", "column"), [(0, 0), (12.4, 0), (12.6, 1), (37.6, 2), (187.6, 8), (200, 8), (9_999, 8)]
)
def test_m5_the_forwarding_broker_is_that_of_the_cell_where_the_client_is_by_then(second: float, column: int) -> None:
    assert EAST.forwarding_cell(round(second * 1e6), HERE, DELAY_S) == (column, 4)


def test_m5_the_event_takes_its_time_so_it_goes_to_where_the_client_will_be() -> None:
    # At 87 s the client is in column 3 for another half second, and three hops take 1.5 s.
    assert EAST.forwarding_cell(87_000_000, HERE, 0.5) == (4, 4)
    assert EAST.forwarding_cell(87_000_000, HERE, 0.1) == (3, 4)


def test_m5_a_client_that_rests_first_leaves_later() -> None:
    trip = straight(GRID.centre((0, 4)), GRID.centre((8, 4)), 10.0, pause_left_us=60_000_000)
    assert trip.forwarding_cell(72_000_000, HERE, DELAY_S) == (0, 4)
    assert trip.forwarding_cell(73_000_000, HERE, DELAY_S) == (1, 4)


def test_m5_a_client_at_rest_stays() -> None:
    trip = trip_of(Status(0, Point(10, 10), Point(10, 10), Velocity(0, 0), 5, 5), GRID, None, 1_024)
    assert trip.forwarding_cell(10**12, HERE, DELAY_S) == (0, 0)


@examples(200)
@given(
    st.tuples(*[st.floats(0, 2_250)] * 4),
    st.floats(0.5, 40),
    st.floats(0, 1_000),
    st.tuples(st.integers(0, 8), st.integers(0, 8)),
)
def test_m5_the_client_is_in_the_cell_when_the_event_is_there_or_a_hop_later(
    ends: tuple[float, float, float, float], speed_mps: float, second: float, broker: Cell
) -> None:
    start, end = Point(*ends[:2]), Point(*ends[2:])
    cell = straight(start, end, speed_mps).forwarding_cell(round(second * 1e6), broker, DELAY_S)
    arrives_s = round(second * 1e6) / 1e6 + hops(broker, cell) * DELAY_S
    travel_s = Plane().distance_m(start, end) / speed_mps

    def there(at_s: float) -> Cell:
        share = min(1.0, at_s / travel_s) if travel_s else 1.0
        return GRID.cell_at(Point(start.x + (end.x - start.x) * share, start.y + (end.y - start.y) * share))

    # Around the moment of arrival, since a position on a border is in either cell.
    assert cell in {there(arrives_s + shift_s) for shift_s in (-1e-6, 0.0, 1e-6, DELAY_S, 2 * DELAY_S)}


# Without a destination.

LOOP = MovementModel(
    VERSION,
    {
        "0,0": Habits(10.0, {"1,0": 5, "0,1": 1}),
        "1,0": Habits(20.0, {"1,1": 3}),
        "1,1": Habits(5.0),
        "0,1": Habits(1.0, {"0,0": 1}),
    },
    250.0,
)


@pytest.mark.parametrize(
    ("second", "cell"), [(0, (0, 0)), (9, (0, 0)), (11, (1, 0)), (29, (1, 0)), (31, (1, 1)), (999, (1, 1))]
)
def test_m10_a_client_that_tells_no_destination_goes_where_most_went(second: float, cell: Cell) -> None:
    trip = trip_of(Status(0, Point(100, 100)), GRID, LOOP, 1_024)
    assert trip.forwarding_cell(round(second * 1e6), (0, 0), DELAY_S) == cell


@pytest.mark.parametrize(("stayed_s", "second", "cell"), [(8, 1, (0, 0)), (8, 3, (1, 0)), (99, 1, (1, 0))])
def test_m10_who_has_been_in_its_cell_for_a_while_leaves_sooner(stayed_s: int, second: float, cell: Cell) -> None:
    status = Status(0, Point(100, 100), stayed_us=stayed_s * 1_000_000)
    trip = trip_of(status, GRID, LOOP, 1_024)
    assert trip.forwarding_cell(round(second * 1e6), (0, 0), DELAY_S) == cell


def test_m10_the_clients_own_word_goes_before_what_was_learned() -> None:
    status = Status(0, Point(100, 100), Point(100, 1_000), Velocity(0, 100))
    assert trip_of(status, GRID, LOOP, 1_024).forwarding_cell(60_000_000, (0, 0), DELAY_S) == (0, 4)


def test_a_velocity_alone_leads_straight_on_as_far_as_the_grid_goes() -> None:
    trip = trip_of(Status(0, Point(100, 100), None, Velocity(50, 0)), GRID, None, 1_024)
    assert trip.forwarding_cell(13_000_000, (0, 0), DELAY_S) == (3, 0)
    assert trip.forwarding_cell(10**10, (0, 0), DELAY_S) == (8, 0)


def test_who_tells_nothing_and_was_never_seen_stays() -> None:
    unknown = Status(0, Point(1_000, 1_000))
    assert trip_of(unknown, GRID, LOOP, 1_024).forwarding_cell(10**9, (0, 0), DELAY_S) == (4, 4)
    assert trip_of(unknown, GRID, None, 1_024).forwarding_cell(10**9, (0, 0), DELAY_S) == (4, 4)


def test_a_model_that_goes_in_circles_is_followed_as_far_as_the_bound() -> None:
    circle = MovementModel(VERSION, {"0,0": Habits(1, {"1,0": 1}), "1,0": Habits(1, {"0,0": 1})}, 250.0)
    assert len(trip_of(Status(0, Point(1, 1)), GRID, circle, 100).stays) == 100


# Status.


def test_m2_a_status_is_the_context_carried_forward() -> None:
    context = Context("c", Point(0, 0), 1_000_000, Velocity(10, 0), Point(500, 0), 7, 0)
    assert status_of(context, 3_000_000, Plane()) == Status(
        3_000_000, Point(20, 0), Point(500, 0), Velocity(10, 0), 7, 0
    )
    assert status_of(Context("c"), 3_000_000, Plane()) is None


def test_m2_who_rests_goes_on_when_the_rest_is_over_and_who_should_have_arrived_has_arrived() -> None:
    context = Context("c", Point(0, 0), 0, Velocity(10, 0), Point(500, 0), 7, 20_000_000)
    resting, going, there = (status_of(context, second * 1_000_000, Plane()) for second in (5, 30, 99))
    assert resting == Status(5_000_000, Point(0, 0), Point(500, 0), Velocity(10, 0), 7, 15_000_000)
    assert going == Status(30_000_000, Point(100, 0), Point(500, 0), Velocity(10, 0), 7, 0)
    assert there == Status(99_000_000, Point(500, 0), Point(500, 0), Velocity(0, 0), 7, 0)


def test_m2_what_changes_a_trip_is_where_how_fast_and_for_how_long() -> None:
    status = Status(0, Point(0, 0), Point(9, 9), Velocity(1, 1), 5)
    assert status.same_trip(Status(8, Point(8, 8), Point(9, 9), Velocity(1, 1), 5))
    assert not status.same_trip(Status(0, Point(0, 0), Point(9, 8), Velocity(1, 1), 5))
    assert not status.same_trip(Status(0, Point(0, 0), Point(9, 9), Velocity(1, 0), 5))
    assert not status.same_trip(Status(0, Point(0, 0), Point(9, 9), Velocity(1, 1), 6))
    assert not status.same_trip(Status(0, Point(0, 0), Point(9, 9), Velocity(1, 1), 5, 1))


def test_a_status_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadValue):
        Status(0, Point(float("nan"), 0))
    with pytest.raises(BadValue):
        Status(0, Point(0, 0), pause_left_us=-1)
