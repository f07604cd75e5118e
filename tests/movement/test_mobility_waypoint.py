"""Random waypoint: bounds, pauses, and the stationary state that a warm-up reaches."""

import math
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.values import Point
from roamcast.movement.waypoint import RandomWaypoint
from tests.effort import examples
from tests.movement.mobility_checks import SECOND_US, check_legs, check_trips, first, legs_of

models = st.builds(
    RandomWaypoint,
    width_m=st.floats(1, 1e5),
    height_m=st.floats(1, 1e5),
    speed_min_mps=st.floats(0.01, 5),
    speed_max_mps=st.floats(5, 50),
    pause_s=st.one_of(st.floats(0, 100), st.tuples(st.floats(0, 1), st.floats(1, 100))),
    warm_up_s=st.sampled_from([0, 0.000001, 77]),
    candidate_half_m=st.one_of(st.none(), st.floats(1, 1000)),
)


@given(models, st.integers(0, 2**32))
@examples(150)
def test_legs_are_continuous_and_trips_end_in_their_pause(model: RandomWaypoint, seed: int) -> None:
    legs = first(legs_of(model, seed), 40)
    check_legs(legs)
    check_trips(legs)


@given(models, st.integers(0, 2**32))
@examples(100)
def test_hosts_stay_within_the_area_and_the_speeds(model: RandomWaypoint, seed: int) -> None:
    for leg in first(legs_of(model, seed), 40):
        for now_us in (leg.start_us, (leg.start_us + leg.end_us) // 2, leg.end_us):
            at = leg.position_at(now_us)
            assert -1e-6 <= at.x <= model.width_m + 1e-6
            assert -1e-6 <= at.y <= model.height_m + 1e-6
        # Over less than a second, rounding to a microsecond is no longer small against the way.
        if not leg.resting and leg.end_us - leg.start_us > SECOND_US and leg.start_us > 0:
            assert model.speed_min_mps * (1 - 1e-6) <= leg.velocity.speed <= model.speed_max_mps * (1 + 1e-6)


@given(st.integers(0, 2**32))
@examples(20)
def test_the_same_seed_gives_the_same_legs(seed: int) -> None:
    model = RandomWaypoint(1000, 1000, 1, 10, pause_s=(0, 1))
    assert first(legs_of(model, seed), 50) == first(legs_of(model, seed), 50)
    assert first(legs_of(model, seed), 50) != first(legs_of(model, seed + 1), 50)


def test_a_process_begins_with_a_pause_as_in_m() -> None:
    legs = first(legs_of(RandomWaypoint(100, 100, 1, 2, pause_s=7)), 21)
    assert [leg.resting for leg in legs] == [n % 2 == 0 for n in range(21)]
    assert all(leg.end_us - leg.start_us == 7 * SECOND_US for leg in legs if leg.resting)


def test_pauses_are_drawn_from_their_range() -> None:
    legs = first(legs_of(RandomWaypoint(100, 100, 1, 2, pause_s=(3, 5))), 400)
    pauses_us = [leg.end_us - leg.start_us for leg in legs if leg.resting]
    assert 3 * SECOND_US <= min(pauses_us) < 3.2 * SECOND_US
    assert 4.8 * SECOND_US < max(pauses_us) <= 5 * SECOND_US


def test_the_candidate_area_of_m_bounds_every_trip() -> None:
    model = RandomWaypoint(1000, 1000, 1, 10, candidate_half_m=50, start=(500, 500))
    legs = first(legs_of(model), 500)
    assert legs[0].start == Point(500, 500)
    far = [max(abs(leg.destination.x - leg.start.x), abs(leg.destination.y - leg.start.y)) for leg in legs]
    assert 45 < max(far) <= 50


def speeds_at_zero(model: RandomWaypoint, hosts: int) -> list[float]:
    return [next(legs_of(model, seed)).velocity.speed for seed in range(hosts)]


def test_after_a_warm_up_the_mean_speed_is_that_of_the_stationary_state() -> None:
    hosts = 3000
    cold = statistics.mean(speeds_at_zero(RandomWaypoint(1000, 1000, 1, 10), hosts))
    warm = statistics.mean(speeds_at_zero(RandomWaypoint(1000, 1000, 1, 10, warm_up_s=5000), hosts))
    assert cold == pytest.approx(5.5, abs=0.2)
    assert warm == pytest.approx(9 / math.log(10), abs=0.2)
    assert warm < cold - 1


def test_after_a_warm_up_hosts_are_nearer_the_centre_than_at_random() -> None:
    model = RandomWaypoint(1000, 1000, 1, 10, warm_up_s=5000)
    places = [next(legs_of(model, seed)).start for seed in range(2000)]
    inner = sum(250 <= place.x <= 750 and 250 <= place.y <= 750 for place in places) / len(places)
    assert inner > 0.35


def test_after_a_warm_up_the_share_of_resting_hosts_is_that_of_the_stationary_state() -> None:
    model = RandomWaypoint(1000, 1000, 5, 5, pause_s=100, warm_up_s=4000)
    share = sum(next(legs_of(model, seed)).resting for seed in range(2000)) / 2000
    # The mean distance of two random points of a unit square is 0.5214.
    assert share == pytest.approx(100 / (100 + 521.4 / 5), abs=0.04)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"speed_min_mps": 0}, "freezes"),
        ({"speed_min_mps": -1}, "speed_min_mps"),
        ({"speed_min_mps": 11}, "smaller first"),
        ({"speed_max_mps": math.inf}, "speed_max_mps"),
        ({"speed_max_mps": math.nan}, "speed_max_mps"),
        ({"width_m": 0}, "width_m"),
        ({"height_m": math.nan}, "height_m"),
        ({"pause_s": -1}, "pause_s is -1; give seconds"),
        ({"pause_s": (5, 4)}, "pause_s"),
        ({"pause_s": (0, math.inf)}, "pause_s"),
        ({"pause_s": math.nan}, "pause_s"),
        ({"warm_up_s": -1}, "warm_up_s"),
        ({"candidate_half_m": 0}, "candidate_half_m"),
        ({"start": (101.0, 5.0)}, "outside the area"),
    ],
)
def test_bad_parameters_are_refused_by_name(changed: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"width_m": 100, "height_m": 100, "speed_min_mps": 1, "speed_max_mps": 10}
    with pytest.raises(ValueError, match=said):
        RandomWaypoint(**(given | changed))
