"""Who is in range is exact at every microsecond, and costs nothing for those who are far away."""

import math
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.region import Box
from roamcast.model.values import Point
from roamcast.movement.legs import FOREVER_US, Track, absent, moving, resting, resting_forever
from roamcast.movement.waypoint import RandomWaypoint
from roamcast.sim.whereabouts import FEW, Whereabouts, close_pairs
from tests.effort import examples


def tracks(seed: int, count: int, speed_mps: float) -> list[Track]:
    model = RandomWaypoint(500, 500, speed_mps / 2, speed_mps)
    return [Track(model.legs(Random(f"{seed}/{index}"), index, count)) for index in range(count)]


@examples(25)
@given(
    seed=st.integers(0, 10_000),
    speed_mps=st.sampled_from([1.0, 20.0, 300.0]),
    times_us=st.lists(st.integers(0, 60_000_000), min_size=1, max_size=40),
)
def test_in_range_equals_brute_force_at_any_time(seed: int, speed_mps: float, times_us: list[int]) -> None:
    count, range_m = 12, 120.0
    whereabouts = Whereabouts(tracks(seed, count, speed_mps), range_m)
    reference = tracks(seed, count, speed_mps)
    for now_us in sorted(times_us):
        points = [track.position_at(now_us) for track in reference]
        for index in range(count):
            expected = [
                other
                for other in range(count)
                if other != index
                and math.dist((points[index].x, points[index].y), (points[other].x, points[other].y)) <= range_m
            ]
            assert whereabouts.in_range(index, now_us) == expected


@examples(20)
@given(seed=st.integers(0, 10_000), count=st.sampled_from([0, 1, 2, 40, FEW, FEW + 1, FEW + 60]))
def test_close_pairs_are_the_same_for_few_hosts_and_for_many(seed: int, count: int) -> None:
    """Few are held against each other, more are found by a tree: both against the definition."""
    points = np.random.default_rng(seed).uniform(0, 1_000, (count, 2))
    one, other = close_pairs(points, 100.0)
    expected = [
        (a, b) for a in range(count) for b in range(count) if a != b and math.dist(points[a], points[b]) <= 100.0
    ]
    assert list(zip(one.tolist(), other.tolist(), strict=True)) == expected


@examples(25)
@given(
    seed=st.integers(0, 10_000),
    speed_mps=st.sampled_from([1.0, 20.0, 300.0]),
    times_us=st.lists(st.integers(0, 60_000_000), min_size=1, max_size=40),
    west=st.floats(-100, 500),
    south=st.floats(-100, 500),
    width_m=st.floats(1, 400),
    height_m=st.floats(1, 400),
)
def test_within_a_box_equals_brute_force_at_any_time(
    seed: int, speed_mps: float, times_us: list[int], west: float, south: float, width_m: float, height_m: float
) -> None:
    whereabouts = Whereabouts(tracks(seed, 12, speed_mps), 120.0)
    reference = tracks(seed, 12, speed_mps)
    box = Box(Point(west, south), Point(west + width_m, south + height_m))
    for now_us in sorted(times_us):
        points = [track.position_at(now_us) for track in reference]
        assert whereabouts.within(box, now_us) == [
            index
            for index, point in enumerate(points)
            if box.low.x <= point.x <= box.high.x and box.low.y <= point.y <= box.high.y
        ]


def test_within_a_box_are_its_borders_and_nobody_who_is_away() -> None:
    here = [Track([resting_forever(0, Point(x, 5))]) for x in (0.0, 10.0, 10.001)]
    gone = Track([absent(0, 1_000_000, Point(5, 5)), resting_forever(1_000_000, Point(5, 5))])
    whereabouts = Whereabouts([*here, gone], 100)
    box = Box(Point(0, 5), Point(10, 6))
    assert whereabouts.within(box, 999_999) == [0, 1]
    assert whereabouts.within(box, 1_000_000) == [0, 1, 3]


def test_a_host_that_comes_and_goes_between_two_renewals_is_in_range_only_while_it_is_there() -> None:
    visits = [
        absent(0, 300_000, Point(5, 0)),
        resting(300_000, Point(5, 0), 200_000),
        absent(500_000, FOREVER_US, Point(5, 0)),
    ]
    leaves = [resting(0, Point(6, 0), 400_000), absent(400_000, FOREVER_US, Point(6, 0))]
    whereabouts = Whereabouts([Track(legs) for legs in ([resting_forever(0, Point(0, 0))], visits, leaves)], 100)
    seen = {now_us: whereabouts.in_range(0, now_us) for now_us in (0, 299_999, 300_000, 399_999, 400_000, 500_000)}
    assert seen == {0: [2], 299_999: [2], 300_000: [1, 2], 399_999: [1, 2], 400_000: [1], 500_000: []}


def test_hosts_that_fly_apart_farther_than_the_range_within_a_renewal_are_in_range_only_at_first() -> None:
    away = [moving(0, Point(0, 0), Point(1_000, 0), 50), resting_forever(20_000_000, Point(1_000, 0))]
    whereabouts = Whereabouts([Track([resting_forever(0, Point(0, 0))]), Track(away)], 10)
    assert [whereabouts.in_range(0, now_us) for now_us in (0, 200_000, 200_001)] == [[1], [1], []]


def test_a_host_exactly_at_the_range_is_in_it() -> None:
    whereabouts = Whereabouts([Track([resting_forever(0, Point(x, 0))]) for x in (0, 200, 200.001)], 200)
    assert whereabouts.in_range(0, 5_000_000) == [1]


def test_hops_are_the_shortest_way_over_the_air_and_none_where_there_is_no_way() -> None:
    places = [(0, 0), (150, 0), (300, 0), (150, 100), (1_000, 0)]
    whereabouts = Whereabouts([Track([resting_forever(0, Point(x, y))]) for x, y in places], 200)
    assert whereabouts.hops(0, 0) == [0, 1, 2, 1, None]


def test_the_work_of_a_query_does_not_grow_with_hosts_out_of_range() -> None:
    near = [(0.0, 0.0), (50.0, 0.0)]
    for far_count in (0, 500):
        far = [(10_000.0 + 300 * index, 0.0) for index in range(far_count)]
        whereabouts = Whereabouts([Track([resting_forever(0, Point(x, y))]) for x, y in near + far], 100)
        whereabouts.in_range(0, 0)
        assert len(whereabouts.candidates_of(0)) == 1
