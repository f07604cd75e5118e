"""Hosts that stay, where each placement puts them, and models as a scenario writes them."""

import random
import tomllib
from typing import Any

import msgspec
import pytest

from roamcast.model.values import Point
from roamcast.movement.models import FOREVER_US, MobilityModel
from roamcast.movement.static import At, Lattice, Line, Static, Uniform
from tests.movement.mobility_checks import SECOND_US, check_legs, first, legs_of


def places(placement: Any, count: int) -> list[Point]:
    model = Static(placement)
    return [next(legs_of(model, seed=index, index=index, count=count)).start for index in range(count)]


def test_a_static_host_rests_for_ever_at_its_point() -> None:
    legs = list(legs_of(Static.at(Point(3.0, 4.0))))
    check_legs(legs)
    assert len(legs) == 1
    assert (legs[0].start, legs[0].end_us, legs[0].resting) == (Point(3.0, 4.0), FOREVER_US, True)
    assert legs[0].pause_left_us == FOREVER_US


def test_given_points_are_taken_in_order_and_a_single_one_by_all() -> None:
    assert places(At(((1, 2), (3, 4))), 2) == [Point(1, 2), Point(3, 4)]
    assert places(At(((1, 2),)), 3) == [Point(1, 2)] * 3
    with pytest.raises(ValueError, match="2 points for 3 hosts"):
        places(At(((1, 2), (3, 4))), 3)


def test_uniform_placement_fills_the_area_and_nothing_else() -> None:
    found = places(Uniform(100, 50, origin=(10, 20)), 500)
    assert 10 <= min(p.x for p in found) < 15
    assert 105 < max(p.x for p in found) <= 110
    assert 20 <= min(p.y for p in found) < 23
    assert 67 < max(p.y for p in found) <= 70


def test_grid_placement_is_the_centres_of_the_cells() -> None:
    assert places(Lattice(40, 20, columns=2, rows=1), 2) == [Point(10, 10), Point(30, 10)]
    assert places(Lattice(30, 30), 9)[4] == Point(15, 15)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10, 100])
def test_a_grid_without_given_size_has_a_cell_for_every_host(count: int) -> None:
    found = places(Lattice(400, 100), count)
    assert len({(p.x, p.y) for p in found}) == count
    assert all(0 < p.x < 400 and 0 < p.y < 100 for p in found)


def test_a_grid_too_small_for_the_hosts_is_refused() -> None:
    with pytest.raises(ValueError, match="too few for 5 hosts"):
        places(Lattice(10, 10, columns=2, rows=2), 5)


def test_line_placement_goes_from_end_to_end() -> None:
    assert places(Line((0, 0), (10, 20)), 3) == [Point(0, 0), Point(5, 10), Point(10, 20)]
    assert places(Line((0, 0), (10, 20)), 1) == [Point(0, 0)]


@pytest.mark.parametrize("index", [-1, 3])
def test_a_host_number_outside_the_count_is_refused(index: int) -> None:
    with pytest.raises(ValueError, match="host number"):
        legs_of(Static.at(Point(0, 0)), index=index, count=3)


SCENARIO = """
[[hosts]]
kind = "random-waypoint"
width_m = 1000
height_m = 500.0
speed_min_mps = 1
speed_max_mps = 10
pause_s = [0, 10]
[[hosts]]
kind = "static"
placement = { kind = "grid", width_m = 100, height_m = 100 }
[[hosts]]
kind = "road"
length_m = 1000
speed_mps = [10, [12, 14.5]]
at_end = "leave"
[[hosts]]
kind = "routes"
routes = [{ name = "west", points = [[-100, 0], [100, 0]], speed_mps = 11.176, entries_s = [0, 5.5] }]
[[hosts]]
kind = "streets"
columns = 4
rows = 3
speed_min_mps = 5
speed_max_mps = 15
[[hosts]]
kind = "grid"
columns = 3
rows = 3
cell_m = 250
corners = true
residence_s = 100
speed_mps = 10
[[hosts]]
kind = "places"
places = { a = [0, 0], b = [10, 0] }
ways = { a = ["b"] }
residence_s = 20
speed_mps = 1
[[hosts]]
kind = "trace"
path = "TRACE"
"""


class Hosts(msgspec.Struct):
    hosts: list[MobilityModel]


def test_every_model_is_read_from_toml_and_gives_legs(tmp_path: Any) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("host,time,x,y\na,0,0,0\na,9,3,4\n")
    read = msgspec.convert(tomllib.loads(SCENARIO.replace("TRACE", str(trace))), Hosts)
    for model in read.hosts:
        legs = first(model.legs(random.Random(3), 0, 1), 20)
        check_legs(legs)
        assert legs == first(model.legs(random.Random(3), 0, 1), 20)
        assert legs[-1].end_us > SECOND_US


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('kind = "random-waypoint"\nwidth_m=1\nheight_m=1\nspeed_min_mps=0\nspeed_max_mps=1', "freezes"),
        ('kind = "static"\nplacement = { kind = "uniform", width_m = 1, height_m = nan }', "height_m is nan"),
        ('kind = "static"\nplacement = { kind = "at", points = [] }', "at least one point"),
        ('kind = "static"\nplacement = { kind = "grid", width_m = 1, height_m = 1, columns = 3 }', "rows is 0"),
        ('kind = "static"\nplace = 1\nplacement = { kind = "at", points = [[0, 0]] }', "unknown field `place`"),
        ('kind = "teleport"', "Invalid value 'teleport'"),
        ('kind = "trace"\npath = "a.txt"', "kind of trace is not known"),
    ],
)
def test_a_bad_scenario_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.convert(tomllib.loads(text), MobilityModel)
