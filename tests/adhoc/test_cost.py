"""What an event costs: 1 within radio range, 1 and the connected members beyond; whoever moves, however fast (S9)."""

import math
from random import Random

import pytest

from roamcast.adhoc.proximity.forwarding import covered
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.model.region import Box, Shape, rectangle
from roamcast.model.values import Point
from roamcast.movement.legs import Leg
from roamcast.movement.road import Road
from roamcast.sim.faults import FaultParams
from tests.adhoc.field import Field, drives

PAPER = ProximityParams.paper()
CENTRE = 700.0


def road(cars: int, seed: int, speed_mps: float = 0.0) -> dict[str, tuple[float, float] | list[Leg]]:
    """Cars at random on 1,400 m of road with two lanes; standing, or driving along and around again."""
    rng = Random(seed)
    hosts: dict[str, tuple[float, float] | list[Leg]] = {}
    for number in range(cars):
        lane_y = 1.75 if number % 2 else -1.75
        hosts[f"car-{number}"] = (rng.uniform(0, 1_400), lane_y)
    if speed_mps:
        model = Road(length_m=1_400, speed_mps=(speed_mps,))
        for number in range(cars):
            legs = model.legs(Random(f"{seed}/{number}"), number, cars)
            hosts[f"car-{number}"] = [next(legs) for _ in range(12)]
    return hosts


def members_connected(field: Field, producer: str, radius_m: float) -> int:
    """Breadth first from the producer over cars inside the proximity, by true positions now."""
    contexts = field.world.configuration().contexts
    places = {host: context.position for host, context in contexts.items() if context.position is not None}
    start = places[producer]
    inside = [host for host, at in places.items() if host != producer and distance(at, start) <= radius_m]
    reached, frontier = {producer}, [producer]
    while frontier:
        here = places[frontier.pop()]
        found = [host for host in inside if host not in reached and distance(places[host], here) <= 200]
        reached.update(found)
        frontier += found
    return len(reached) - 1


def distance(a: Point, b: Point) -> float:
    return math.hypot(a.x - b.x, a.y - b.y)


def cost_and_members(
    hosts: dict[str, tuple[float, float] | list[Leg]],
    producer: tuple[float, float] | list[Leg],
    radius_m: float,
    raise_s: float = 4.0,
) -> tuple[int, int, int]:
    """Frames of one event, deliveries of it, and members connected when it is raised."""
    field = Field({"producer": producer, **hosts}, PAPER)
    for host in hosts:
        field.subscribe(host)
    field.announce("producer", radius_m, stationary=isinstance(producer, tuple))
    field.run(raise_s)
    connected = members_connected(field, "producer", radius_m)
    event = field.raise_("producer")
    field.run(raise_s + 1)
    return field.frames("raised", event), len(field.witness.deliveries), connected


@pytest.mark.parametrize("radius_m", [100.0, 200.0])
@pytest.mark.parametrize("saturation", [60, 240])
def test_within_radio_range_an_event_costs_one_transmission(radius_m: float, saturation: int) -> None:
    """S9, equation (1)."""
    cost, delivered, connected = cost_and_members(road(saturation, 1), (CENTRE, 0.0), radius_m)
    assert cost == 1
    assert delivered == connected > 0


@pytest.mark.slow
@pytest.mark.parametrize("radius_m", [300.0, 500.0, 700.0])
@pytest.mark.parametrize("saturation", [60, 120, 180])
def test_beyond_radio_range_an_event_costs_one_and_the_connected_members(radius_m: float, saturation: int) -> None:
    """S9, equation (2)."""
    cost, delivered, connected = cost_and_members(road(saturation, 2), (CENTRE, 0.0), radius_m)
    assert cost == 1 + connected
    assert delivered == connected


@pytest.mark.slow
def test_the_mean_cost_grows_with_the_proximity_as_the_road_is_filled() -> None:
    """S9, figure 7 AA: about 1 + N·PR/700."""
    for radius_m in (300.0, 700.0):
        costs = [cost_and_members(road(120, seed), (CENTRE, 0.0), radius_m)[0] for seed in range(8)]
        assert sum(costs) / len(costs) == pytest.approx(1 + 120 * radius_m / 700, rel=0.06)


@pytest.mark.parametrize("radius_m", [150.0, 500.0])
def test_a_mobile_producer_costs_what_a_stationary_one_costs(radius_m: float) -> None:
    """S9, figures 7 AA and AB: an ambulance that is at the same place at that moment."""
    standing = cost_and_members(road(120, 3), (CENTRE, 0.0), radius_m)
    driving = cost_and_members(road(120, 3), drives(CENTRE - 4 * 25, 0.0, 25.0), radius_m)
    assert standing == driving


@pytest.mark.parametrize("speed_mps", [5.0, 20.0, 50.0])
def test_cost_is_one_and_the_members_at_every_speed_of_the_producer(speed_mps: float) -> None:
    """S9, figure 7 BB."""
    start = drives(CENTRE - 4 * speed_mps, 0.0, speed_mps)
    cost, delivered, connected = cost_and_members(road(120, 4), start, 400.0)
    assert abs(cost - 1 - connected) <= 1
    assert abs(delivered - connected) <= 1


@pytest.mark.parametrize("speed_mps", [5.0, 20.0, 50.0])
def test_cost_is_one_and_the_members_at_every_speed_of_the_consumers(speed_mps: float) -> None:
    """S9, figure 7 BA: what differs crossed the edge while the event was under way."""
    cost, delivered, connected = cost_and_members(road(120, 5, speed_mps), (CENTRE, 0.0), 400.0)
    assert abs(cost - 1 - connected) <= 2
    assert abs(delivered - connected) <= 2


def test_who_is_not_a_member_never_forwards() -> None:
    """S9 and 4.3: a chain through a host that did not subscribe is broken, though it lies in the proximity."""
    field = Field({"p": (0, 0), "between": (150, 0), "far": (300, 0)}, PAPER)
    field.subscribe("far")
    field.announce("p", 500)
    field.run(3)
    event = field.raise_("p")
    field.run(4)
    assert field.frames("raised", event) == 1
    assert field.got("far") == []
    # Announcements are helped on by everybody inside, so the far host knows of the proximity all the same.
    assert field.groups("far")


def test_who_refuses_never_forwards() -> None:
    """S9: neither events nor announcements."""
    field = Field({"p": (0, 0), "between": (150, 0), "far": (300, 0)}, PAPER, faults=FaultParams(refuse_share=1.0))
    for host in ("between", "far"):
        field.subscribe(host)
    field.announce("p", 500)
    field.run(3)
    field.raise_("p")
    field.run(4)
    assert len(field.got("between")) == 1
    assert {host for _, host, _, _ in field.witness.sent} == {"p"}
    assert field.groups("far") == set()


def test_forwarding_ends_at_the_edge_of_the_proximity() -> None:
    """S9: hops are bounded by the proximity; a host beyond the edge gets nothing and repeats nothing."""
    field = Field({"p": (0, 0), "a": (180, 0), "edge": (300, 0), "beyond": (310, 0)}, PAPER)
    for host in ("a", "edge", "beyond"):
        field.subscribe(host)
    field.announce("p", 305)
    field.run(3)
    event = field.raise_("p")
    field.run(4)
    assert field.frames("raised", event) == 3
    assert [len(field.got(host)) for host in ("a", "edge", "beyond")] == [1, 1, 0]


def test_an_announcement_costs_what_an_event_costs() -> None:
    """S9, section 5.1: one and the three nodes inside, whether they subscribe or not."""
    field = Field({"p": (0, 0), "a": (150, 0), "b": (300, 0), "c": (400, 0), "out": (590, 0)}, PAPER)
    field.announce("p", 450)
    field.run(3.5)
    rounds = sum(host == "p" for _, host, _, _ in field.witness.sent)
    assert rounds >= 4
    assert field.frames("announced") == 4 * rounds


@pytest.mark.parametrize(
    ("shape", "is_covered"),
    [
        (rectangle(280, 280), True),
        (rectangle(284, 284), False),
        (Box(Point(0, 0), Point(199, 0.5)), True),
        (Box(Point(10, 0), Point(201, 1)), False),
    ],
)
def test_all_corners_of_an_area_must_be_in_range_for_a_single_hop(shape: Shape, is_covered: bool) -> None:
    """S9."""
    field = Field({"p": (0, 0)})
    assert covered(shape, Point(0, 0), Point(0, 0), 200.0, field.nodes["p"].space) is is_covered


def test_a_stationary_proximity_needs_several_hops_once_its_producer_has_moved_to_its_edge() -> None:
    """S9: single hop is decided anew for every event, by where the producer is."""
    field = Field({"p": drives(0, 0, 20.0), "a": (-100, 0), "b": (-50, 50)}, PAPER)
    for host in ("a", "b"):
        field.subscribe(host)
    field.announce("p", 150, stationary=True)
    first = field.raise_("p")
    field.run(4)
    second = field.raise_("p")
    field.run(5)
    assert (field.frames("raised", first), field.frames("raised", second)) == (1, 3)
