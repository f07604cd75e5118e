"""Roads, and the routes through an intersection that S13's section 5.2 needs."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.values import Point, Velocity
from roamcast.movement.legs import FOREVER_US, Track
from roamcast.movement.road import MILE_PER_HOUR_MPS, Road, Route, Routes, entries_during
from tests.effort import examples
from tests.movement.mobility_checks import SECOND_US, check_legs, first, legs_of

TOWN_MPS = 25 * MILE_PER_HOUR_MPS


@given(
    st.integers(0, 2**32),
    st.sampled_from(["wrap", "reenter", "leave"]),
    st.integers(0, 3),
    st.integers(1, 3),
    st.integers(1, 20),
)
@examples(100)
def test_vehicles_keep_their_lane_direction_and_speed(
    seed: int, at_end: str, east: int, west: int, count: int
) -> None:
    road = Road(500, ((10, 20),), east, west, at_end=at_end)  # type: ignore[arg-type]
    for index in range(count):
        lane = index % road.lanes
        begin, end = road.lane_ends(lane)
        legs = first(legs_of(road, seed, index, count), 12)
        check_legs(legs)
        for leg in legs:
            assert leg.start.y == begin.y
            assert 0 <= leg.start.x <= 500
            if leg.present:
                assert leg.destination == end
                assert (leg.velocity.east > 0) == (lane < east)
                if leg.end_us - leg.start_us > SECOND_US:
                    assert 10 * (1 - 1e-6) <= leg.velocity.speed <= 20 * (1 + 1e-6)


def test_lanes_lie_beside_each_other_and_traffic_keeps_right() -> None:
    road = Road(100, (10,), 2, 2, lane_width_m=3, origin=(5, 50))
    assert [road.lane_ends(lane)[0] for lane in range(4)] == [
        Point(5, 48.5),
        Point(5, 45.5),
        Point(105, 51.5),
        Point(105, 54.5),
    ]


def test_each_lane_can_have_its_own_speed() -> None:
    road = Road(1000, (10, 20, 30), 2, 1)
    speeds = [next(legs_of(road, index=index, count=3)).velocity.speed for index in range(3)]
    assert speeds == pytest.approx([10, 20, 30])


def test_vehicles_that_wrap_around_jump_back_and_are_spread_from_the_start() -> None:
    road = Road(1000, (10,), 1, 0)
    starts = [next(legs_of(road, index, index, 10)).start.x for index in range(10)]
    assert all(100 * index <= x <= 100 * (index + 1) for index, x in enumerate(starts))
    _, second, third = first(legs_of(road), 3)
    assert second.jumps
    assert second.start == Point(0, road.lane_ends(0)[0].y)
    assert third.start_us - second.start_us == 100 * SECOND_US


def test_vehicles_enter_one_headway_apart_in_each_lane_and_leave_for_good() -> None:
    road = Road(1000, (10,), 1, 1, at_end="leave", headway_s=3)
    entries_us = []
    for index in range(6):
        legs = list(legs_of(road, index=index, count=6))
        drive = next(leg for leg in legs if leg.present)
        entries_us.append(drive.start_us // SECOND_US)
        assert (legs[-1].present, legs[-1].end_us) == (False, FOREVER_US)
    assert entries_us == [0, 0, 3, 3, 6, 6]


def test_vehicles_that_reenter_are_away_in_between() -> None:
    road = Road(100, (10,), 1, 0, at_end="reenter", away_s=(5, 6))
    legs = first(legs_of(road), 7)
    assert [leg.present for leg in legs] == [True, False, True, False, True, False, True]
    assert all(5 * SECOND_US <= leg.end_us - leg.start_us <= 6 * SECOND_US for leg in legs if not leg.present)


def test_a_vehicle_passes_the_intersection_at_constant_speed() -> None:
    """S13: 25 mph through a bend, absent before it enters and after it leaves."""
    turn = Route("approach 1", ((-200, 0), (0, 0), (0, 150)), TOWN_MPS, (10,))
    legs = list(legs_of(Routes((turn,))))
    check_legs(legs)
    assert [leg.present for leg in legs] == [False, True, True, False]
    assert legs[1].velocity.speed == pytest.approx(11.176)
    assert legs[2].velocity.speed == pytest.approx(11.176)
    assert legs[1].destination == Point(0, 150)
    assert legs[2].start == Point(0, 0)
    assert legs[3].start_us == pytest.approx(10 * SECOND_US + turn.length_m / TOWN_MPS * 1e6, abs=2)


def test_a_vehicle_may_be_under_way_or_gone_at_time_zero() -> None:
    routes = Routes((Route("r", ((0, 0), (100, 0)), 10, (-4, -20)),))
    under_way = list(legs_of(routes, index=0, count=2))
    assert under_way[0].start == Point(40, 0)
    gone = list(legs_of(routes, index=1, count=2))
    assert [leg.present for leg in gone] == [False]
    check_legs(gone)


def test_vehicles_are_numbered_route_by_route() -> None:
    routes = Routes((Route("east", ((0, 0), (9, 0)), 1, (1, 2)), Route("north", ((0, 0), (0, 9)), 1, (3,))))
    assert [(routes.entry_of(n)[0].name, routes.entry_of(n)[1]) for n in range(3)] == [
        ("east", 1_000_000),
        ("east", 2_000_000),
        ("north", 3_000_000),
    ]
    assert first(legs_of(routes, index=2, count=3), 2)[1].velocity == Velocity(0, 1)
    with pytest.raises(ValueError, match="only 3 vehicles"):
        legs_of(routes, index=3, count=4)


@given(st.integers(1, 60), st.integers(0, 10**9), st.integers(1_000_000, 10**8))
@examples(50)
def test_entries_during_green_let_every_vehicle_pass_the_light_while_green(
    vehicles: int, green_us: int, length_us: int
) -> None:
    entries_s = entries_during(green_us / 1e6, (green_us + length_us) / 1e6, vehicles, 200, TOWN_MPS)
    assert len(entries_s) == vehicles
    routes = Routes((Route("r", ((-200, 0), (100, 0)), TOWN_MPS, entries_s),))
    for index in (0, vehicles - 1):
        track = Track(legs_of(routes, index=index, count=vehicles))
        at_green = track.position_at(green_us).x if track.present_at(green_us) else -math.inf
        at_red = track.position_at(green_us + length_us).x
        assert at_green <= 1e-3
        assert at_red >= -1e-3


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"length_m": 0}, "length_m"),
        ({"speed_mps": (0,)}, "speed_mps"),
        ({"speed_mps": (1, 2, 3)}, "3 entries for 2 lanes"),
        ({"speed_mps": ()}, "0 entries"),
        ({"eastbound_lanes": 0, "westbound_lanes": 0}, "together is 0"),
        ({"eastbound_lanes": -1}, "eastbound_lanes"),
        ({"headway_s": -1}, "headway_s"),
        ({"away_s": 0}, "away_s"),
        ({"origin": (math.nan, 0)}, "origin"),
    ],
)
def test_a_bad_road_is_refused(changed: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"length_m": 100, "speed_mps": (10,)}
    with pytest.raises(ValueError, match=said):
        Road(**(given | changed))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"points": ((0, 0),)}, "1 points"),
        ({"points": ((0, 0), (0, 0))}, "twice in a row"),
        ({"points": ((0, 0), (math.inf, 0))}, "finite"),
        ({"speed_mps": 0}, "speed_mps"),
        ({"name": ""}, "name"),
    ],
)
def test_a_bad_route_is_refused(changed: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"name": "r", "points": ((0, 0), (1, 0)), "speed_mps": 5}
    with pytest.raises(ValueError, match=said):
        Route(**(given | changed))


def test_routes_that_nobody_enters_are_refused() -> None:
    with pytest.raises(ValueError, match="together is 0"):
        Routes((Route("r", ((0, 0), (1, 0)), 5),))


def test_a_green_phase_without_length_is_refused() -> None:
    with pytest.raises(ValueError, match="lets nobody pass"):
        entries_during(5, 5, 1, 100, 10)
