"""Legs and tracks: exact positions at any time, M2's status, bounded memory."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.space import Plane
from roamcast.model.values import Point, Velocity
from roamcast.movement.legs import (
    AT_REST,
    FOREVER_US,
    PAST_KEPT_US,
    PAST_LEGS_MAX,
    Leg,
    Track,
    absent,
    from_zero,
    moving,
    resting,
    resting_forever,
)
from roamcast.movement.waypoint import RandomWaypoint
from tests.effort import examples
from tests.movement.mobility_checks import SECOND_US, check_legs, check_trips, legs_of, until

HERE = Point(0.0, 0.0)
THERE = Point(30.0, 40.0)
TRIP = [
    resting(0, HERE, 2 * SECOND_US),
    moving(2 * SECOND_US, HERE, THERE, 5.0, pause_us=4 * SECOND_US),
    resting(12 * SECOND_US, THERE, 4 * SECOND_US),
    absent(16 * SECOND_US, FOREVER_US, THERE),
]

coordinates = st.floats(-1e8, 1e8)
points = st.builds(Point, coordinates, coordinates)


@given(points, points, st.floats(0.001, 1e4), st.integers(0, 10**12))
@examples(300)
def test_a_moving_leg_ends_at_the_point_it_goes_to(start: Point, to: Point, speed_mps: float, start_us: int) -> None:
    leg = moving(start_us, start, to, speed_mps)
    end = leg.position_at(leg.end_us)
    assert math.hypot(end.x - to.x, end.y - to.y) <= 1e-6
    assert leg.velocity.speed <= speed_mps * (1 + 1e-6) + 1e-9 or leg.end_us - leg.start_us < 1_000_000


def test_position_is_analytic_along_a_leg() -> None:
    track = Track(TRIP)
    assert track.position_at(SECOND_US) == HERE
    assert track.position_at(2 * SECOND_US) == HERE
    assert track.position_at(7 * SECOND_US) == Point(15.0, 20.0)
    assert track.position_at(12 * SECOND_US) == THERE


def test_context_carries_the_mobility_status_of_m2() -> None:
    track = Track(TRIP)
    resting_now = track.context_at(SECOND_US // 2, "h", {"lane": 2})
    assert (resting_now.velocity, resting_now.destination) == (AT_REST, HERE)
    assert (resting_now.pause_us, resting_now.pause_left_us) == (2 * SECOND_US, 3 * SECOND_US // 2)
    assert resting_now.attributes == {"lane": 2}
    on_the_way = track.context_at(3 * SECOND_US, "h", {})
    assert (on_the_way.velocity, on_the_way.destination) == (Velocity(3.0, 4.0), THERE)
    assert (on_the_way.pause_us, on_the_way.pause_left_us) == (4 * SECOND_US, 0)
    assert on_the_way.at_us == 3 * SECOND_US


def test_an_absent_host_has_neither_position_nor_motion() -> None:
    track = Track(TRIP)
    assert track.present_at(15 * SECOND_US)
    assert not track.present_at(20 * SECOND_US)
    context = track.context_at(20 * SECOND_US, "h", {})
    assert (context.position, context.velocity, context.destination) == (None, None, None)
    assert track.position_at(20 * SECOND_US) == THERE


@given(st.integers(0, 2**32), st.lists(st.integers(0, 200 * SECOND_US), min_size=1, max_size=20))
@examples(60)
def test_a_context_carried_forward_within_its_leg_is_the_context_then(seed: int, times: list[int]) -> None:
    model = RandomWaypoint(500, 500, 1, 20, pause_s=(0, 10))
    track = Track(legs_of(model, seed))
    for now_us in sorted(times):
        leg = track.leg_at(now_us)
        at_start = track.context_at(leg.start_us, "h", {})
        assert at_start.at(now_us, Plane()) == track.context_at(now_us, "h", {})


@given(st.integers(0, 2**32), st.lists(st.integers(0, 2_000 * SECOND_US), min_size=1, max_size=50))
@examples(60)
def test_a_track_finds_the_leg_of_every_time_asked_in_order(seed: int, times: list[int]) -> None:
    model = RandomWaypoint(100, 100, 1, 20, pause_s=(0, 5))
    track = Track(legs_of(model, seed))
    all_legs = until(legs_of(model, seed), 2_001 * SECOND_US)
    for now_us in sorted(times):
        assert track.leg_at(now_us) == next(leg for leg in all_legs if leg.start_us <= now_us < leg.end_us)


def test_a_track_remembers_the_legs_of_a_short_while_and_no_more() -> None:
    legs = [resting(n * SECOND_US // 10, HERE, SECOND_US // 10) for n in range(100)]
    track = Track(legs)
    now_us = legs[-1].start_us
    assert track.leg_at(now_us) == legs[-1]
    assert track.leg_at(now_us - PAST_KEPT_US) == legs[-1 - 20]
    assert track.leg_at(now_us) == legs[-1]
    with pytest.raises(ValueError, match="before the legs"):
        track.leg_at(now_us - PAST_KEPT_US - 1)


def test_a_track_remembers_a_bounded_number_of_legs_however_short() -> None:
    legs = [resting(n, HERE, 1) for n in range(PAST_LEGS_MAX + 10)]
    track = Track(legs)
    now_us = legs[-1].start_us
    track.leg_at(now_us)
    assert track.leg_at(now_us - PAST_LEGS_MAX) == legs[9]
    with pytest.raises(ValueError, match="before the legs"):
        track.leg_at(now_us - PAST_LEGS_MAX - 1)


@pytest.mark.parametrize(
    "legs",
    [
        [],
        [resting(5, HERE, 10)],
    ],
)
def test_a_track_refuses_legs_that_do_not_start_at_zero(legs: list[Leg]) -> None:
    with pytest.raises(ValueError, match="starts at 0"):
        Track(legs)


@pytest.mark.parametrize("legs", [[resting(0, HERE, 10)], [resting(0, HERE, 10), resting(11, HERE, 10)]])
def test_a_track_refuses_time_without_a_leg(legs: list[Leg]) -> None:
    with pytest.raises(ValueError, match=r"no leg at|the next one starts"):
        Track(legs).leg_at(12)


def test_a_leg_takes_time() -> None:
    with pytest.raises(ValueError, match="takes no time"):
        resting(3, HERE, 0)


def test_cutting_at_zero_keeps_the_positions_and_the_rest_that_is_left() -> None:
    before = [
        resting(-30, HERE, 10),
        resting(-20, HERE, 25),
        moving(5, HERE, THERE, 5.0),
        resting_forever(10_000_005, THERE),
    ]
    cut = list(from_zero(before))
    assert [leg.start_us for leg in cut] == [0, 5, 10_000_005]
    assert (cut[0].pause_us, cut[0].pause_left_us) == (25, 5)
    under_way = next(from_zero([moving(-4 * SECOND_US, HERE, THERE, 5.0)]))
    assert under_way.start == Point(12.0, 16.0)
    assert under_way.end_us == 6 * SECOND_US


def test_the_check_of_legs_can_fail() -> None:
    gap_in_time = [resting(0, HERE, 10), resting(11, HERE, 10)]
    gap_in_space = [resting(0, HERE, 10), resting(10, Point(1e-5, 0.0), 10)]
    pause_on_the_way = [Leg(0, 10, HERE, Velocity(1.0, 0.0), THERE, pause_us=5, pause_left_us=5)]
    for legs in (gap_in_time, gap_in_space, pause_on_the_way):
        with pytest.raises(AssertionError):
            check_legs(legs)
    with pytest.raises(AssertionError):
        check_trips([moving(0, HERE, THERE, 5.0, pause_us=7), resting(10 * SECOND_US, THERE, 8)])


def test_models_draw_only_from_the_generator_they_are_given() -> None:
    random.seed(1)
    once = until(legs_of(RandomWaypoint(100, 100, 1, 2), seed=5), 100 * SECOND_US)
    random.seed(2)
    assert until(legs_of(RandomWaypoint(100, 100, 1, 2), seed=5), 100 * SECOND_US) == once
