"""Contexts and configurations (C1, M2)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.model.context import Configuration, Context
from roamcast.model.filter import parse_text
from roamcast.model.match import includes
from roamcast.model.scope import Scope
from roamcast.model.space import Earth, Plane
from roamcast.model.values import BadValue, Point, Velocity
from tests.effort import examples

PLANE, EARTH = Plane(), Earth()
MOVING = Context("car", Point(100, 200), 1_000_000, Velocity(10, -5))


def test_m2_a_host_moves_on_with_its_velocity() -> None:
    assert MOVING.position_at(1_000_000, PLANE) == Point(100, 200)
    assert MOVING.position_at(3_500_000, PLANE) == Point(125, 187.5)
    assert MOVING.position_at(0, PLANE) == Point(90, 205)


@examples(300)
@given(st.integers(0, 10**9), st.integers(0, 10**9), st.floats(-50, 50), st.floats(-50, 50))
def test_m2_the_way_is_linear_in_time(first_us: int, second_us: int, east: float, north: float) -> None:
    host = Context("a", Point(0, 0), 0, Velocity(east, north))
    there = host.at(first_us, PLANE).position_at(first_us + second_us, PLANE)
    assert there is not None
    seconds = (first_us + second_us) / 1e6
    assert (there.x, there.y) == pytest.approx((east * seconds, north * seconds), abs=1e-6)


def test_m2_on_earth_a_host_moves_in_metres() -> None:
    host = Context("a", Point(-6.25, 53.35), 0, Velocity(0, 20))
    there = host.position_at(60_000_000, EARTH)
    assert there is not None
    assert EARTH.distance_m(Point(-6.25, 53.35), there) == pytest.approx(1_200, rel=1e-6)


def test_a_host_without_velocity_or_position_stays_as_it_is() -> None:
    assert Context("a", Point(1, 2)).position_at(10**12, PLANE) == Point(1, 2)
    assert Context("a", velocity=Velocity(1, 1)).position_at(10**12, PLANE) is None


@pytest.mark.parametrize("position", [5, 1.5, "here", True, (1.0, 2.0), Point(math.nan, 0.0), Point(1.0, "2")])  # type: ignore[arg-type]
def test_c1_what_is_no_position_is_refused_with_the_host(position: Point) -> None:
    with pytest.raises(BadValue, match=r"host 'a'.*is not a position"):
        Context("a", position)


def test_m2_carried_forward_a_context_has_paused_for_as_long() -> None:
    resting = Context("a", Point(1, 2), 0, pause_left_us=5_000_000)
    assert resting.at(2_000_000, PLANE).pause_left_us == 3_000_000
    assert resting.at(9_000_000, PLANE).pause_left_us == 0
    assert resting.at(2_000_000, PLANE).at_us == 2_000_000
    assert resting.at(0, PLANE) is resting


@examples(300)
@given(
    st.integers(-(2**63), 2**63), st.floats(-2e8, 2e8), st.builds(Point, st.floats(-1e300, 1e300), st.floats(-90, 90))
)
def test_carrying_a_context_forward_never_fails(now_us: int, speed: float, position: Point) -> None:
    """Whatever times and speeds a stranger claims, a node can ask where it is."""
    host = Context("a", position, 0, Velocity(speed, speed))
    for space in (PLANE, EARTH):
        there = host.at(now_us, space).position
        assert there is not None
        assert math.isfinite(there.x)
        assert math.isfinite(there.y)


@pytest.mark.parametrize("name", ["host", "position"])
def test_c1_an_attribute_cannot_take_the_name_of_a_field(name: str) -> None:
    with pytest.raises(BadValue, match=f"'{name}' is not an attribute but a field"):
        Context("a", attributes={name: "x"})


def test_c1_a_filter_finds_attributes_position_and_host() -> None:
    host = Context("a", Point(1, 2), attributes={"speed": 3, "loud": False})
    assert host.value("host") == "a"
    assert host.value("position") == Point(1, 2)
    assert host.value("speed") == 3
    assert host.value("loud") is False
    assert host.value("missing") is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Context(""), "needs a name"),
        (lambda: Context("a", Point(math.nan, 0)), "host 'a'.*not a position"),
        (lambda: Context("a", destination=Point(0, math.inf)), "host 'a'.*not a position"),
        (lambda: Context("a", velocity=Velocity(math.nan, 0)), "host 'a'.*not a valid velocity"),
        (lambda: Context("a", attributes={"b": math.inf}), "'b'"),
    ],
)
def test_a_context_that_cannot_be_is_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(BadValue, match=message):
        make()


def test_c2_neighbours_are_the_others_in_range_boundary_included() -> None:
    hosts = [Context("a", Point(0, 0)), Context("b", Point(30, 40)), Context("c", Point(51, 0)), Context("d")]
    configuration = Configuration(PLANE, hosts, neighbour_range_m=50)
    assert [host.host for host in configuration.neighbours("a")] == ["b"]
    assert configuration.neighbours("d") == []


def test_c1_a_configuration_is_the_same_from_a_list_or_by_name() -> None:
    hosts = [Context("a"), Context("b")]
    by_name = Configuration(PLANE, {host.host: host for host in hosts})
    assert by_name.contexts == Configuration(PLANE, hosts).contexts


def test_c1_a_mapping_may_make_a_context_when_it_is_asked_for() -> None:
    class OnDemand(dict[str, Context]):
        def __missing__(self, host: str) -> Context:
            self[host] = Context(host, Point(1, 2))
            return self[host]

    contexts = OnDemand()
    configuration = Configuration(PLANE, contexts)
    assert configuration.contexts["a"].position == Point(1, 2)
    assert list(contexts) == ["a"]


def test_c2_a_filter_over_neighbours_that_nobody_knows_is_unknown_and_never_matches() -> None:
    hosts = [Context("a", Point(0, 0)), Context("b", Point(1, 0))]
    for text in ("neighbours.count() = 0", "neighbours.count() > 0", "NOT neighbours.count() = 0"):
        scope = Scope(filter=parse_text(text))
        assert not includes(scope, "a", Configuration(PLANE, hosts, neighbour_range_m=None))
    known = Configuration(PLANE, hosts, neighbour_range_m=5)
    assert includes(Scope(filter=parse_text("neighbours.count() > 0")), "a", known)
