"""Geocast (C8, C13, S12): towards a region, then inside it; around voids."""

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roamcast.adhoc.geocast import Geocast
from roamcast.adhoc.geocast_params import GeocastParams
from roamcast.adhoc.nearness import distance_to_m, farthest_m
from roamcast.adhoc.neighbours import Beacon, Here, NeighbourTable
from roamcast.adhoc.routes import Route, Routed
from roamcast.model.context import Context
from roamcast.model.region import Circle, Polygon, Shape
from roamcast.model.space import Earth, Plane
from roamcast.model.values import Point
from roamcast.movement.legs import Leg, moving, resting_forever
from roamcast.node.boundary import (
    Broadcast,
    CancelTimer,
    Does,
    Input,
    Moved,
    Note,
    Received,
    SetTimer,
    Start,
    TimerFired,
)
from roamcast.node.codec import Codec
from roamcast.node.kit import Seat
from roamcast.sim.hosts import Resident
from roamcast.sim.observers import Tally
from roamcast.sim.radio import UnitDiskParams
from roamcast.sim.world import World
from tests.adhoc.context_worlds import box
from tests.effort import examples
from tests.sim.worlds import track_of

PLANE = Plane()
PAPER = GeocastParams(walks=False, held_max=0)
SECOND_US = 1_000_000


class Parcel(Routed, frozen=True, kw_only=True, tag="parcel"):
    text: str = ""


class Carrier:
    """A node that does nothing but geocast: parcels it originates, parcels that reached it first, and beacons."""

    def __init__(self, seat: Seat, params: GeocastParams, neighbours: NeighbourTable | None = None) -> None:
        self.neighbours = neighbours or NeighbourTable(100, 10 * SECOND_US)
        self.geocast = Geocast(seat.host, params, seat.rng, PLANE, self.neighbours, seat.refuses)
        self.me = Context(seat.host)
        self.got: list[str] = []
        self.rng = seat.rng

    def handle(self, now_us: int, given: Input) -> list[Does]:
        match given:
            case Start(context) | Moved(context):
                self.me = context
                return (
                    [SetTimer("beacon", now_us + self.rng.randint(0, SECOND_US))] if isinstance(given, Start) else []
                )
            case Received(Parcel() as parcel, sender):
                self.neighbours.heard(now_us, sender, parcel.route.here)
                fresh, effects = self.geocast.heard(now_us, parcel, self.here(now_us).position)
                inside = distance_to_m(parcel.route.target, self.here(now_us).position, PLANE) == 0
                self.got += [parcel.text] if fresh and inside else []
                return effects
            case Received(Beacon(here), sender):
                self.neighbours.heard(now_us, sender, here)
                return self.geocast.carry(now_us, self.here(now_us))
            case TimerFired("beacon"):
                return [Broadcast(Beacon(self.here(now_us))), SetTimer("beacon", now_us + SECOND_US)]
            case TimerFired(name):
                return self.geocast.fired(now_us, name, self.here(now_us))
            case _:
                return []

    def here(self, now_us: int) -> Here:
        position = self.me.position_at(now_us, PLANE)
        assert position is not None
        return Here(position)


class Parcels:
    def __init__(
        self,
        hosts: dict[str, tuple[float, float] | list[Leg]],
        params: GeocastParams = PAPER,
        seed: int = 1,
        refusing: tuple[str, ...] = (),
    ) -> None:
        self.carriers: dict[str, Carrier] = {}
        self.tally = Tally()

        def make_node(seat: Seat) -> Carrier:
            seat = Seat(seat.host, seat.rng, seat.host in refusing)
            self.carriers[seat.host] = Carrier(seat, params)
            return self.carriers[seat.host]

        residents = [Resident(name, track_of(at), make_node) for name, at in hosts.items()]
        self.world = World(
            residents, Codec((Parcel, Beacon)), seed, UnitDiskParams(range_m=200), observers=(self.tally,)
        )

    def send(
        self,
        seconds: float,
        host: str,
        target: Shape,
        text: str = "hello",
        contended: bool = False,
    ) -> None:
        def now() -> None:
            carrier, now_us = self.carriers[host], self.world.kernel.now_us
            parcel = Parcel(route=Route(text, target, carrier.here(now_us)), text=text)
            for effect in carrier.geocast.send(now_us, parcel, contended):
                self.world.perform(self.world.by_name[host].host, effect)

        self.world.kernel.at(round(seconds * 1e6), now)

    def run(self, seconds: float) -> None:
        for _ in self.world.run(round(seconds * 1e6)):
            pass

    def holders(self) -> list[str]:
        return [name for name, carrier in self.carriers.items() if carrier.got]

    @property
    def cost(self) -> int:
        return self.tally.messages["parcel"]


def in_line(count: int, step_m: float = 150.0) -> dict[str, tuple[float, float] | list[Leg]]:
    return {f"h{number}": (number * step_m, 0.0) for number in range(count)}


# Towards the region and inside it.


def test_a_message_reaches_the_region_hop_by_hop_and_goes_no_further() -> None:
    """C8"""
    parcels = Parcels(in_line(8))
    parcels.send(2, "h1", box(700, -50, 800, 50))
    parcels.run(4)
    assert parcels.holders() == ["h5"]
    assert parcels.cost == 5


def test_hosts_behind_the_sender_do_not_forward() -> None:
    """C8"""
    parcels = Parcels({"behind": (0, 0), "sender": (150, 0), "there": (300, 0)})
    parcels.send(2, "sender", box(280, -20, 320, 20))
    parcels.run(4)
    assert parcels.cost == 2


def test_of_many_nearer_hosts_one_forwards_the_one_that_makes_most_progress() -> None:
    """C8: forwarding is suppressed when a nearer host is overheard."""
    hosts: dict[str, tuple[float, float] | list[Leg]] = {"sender": (0.0, 0.0), "there": (340.0, 0.0)}
    hosts |= {f"m{number}": (20.0 * number, 5.0) for number in range(1, 10)}
    parcels = Parcels(hosts)
    parcels.send(2, "sender", box(330, -20, 350, 20))
    parcels.run(4)
    assert parcels.holders() == ["there"]
    assert parcels.cost == 3


def test_everybody_in_the_region_gets_it_once_and_few_repeat_it() -> None:
    """C8: duplicates dropped, repetition suppressed when overheard."""
    rng = Random(7)
    hosts: dict[str, tuple[float, float] | list[Leg]] = {
        f"m{number}": (500 + rng.uniform(0, 100), rng.uniform(0, 100)) for number in range(30)
    }
    parcels = Parcels(hosts | in_line(4))
    parcels.send(3, "h0", box(500, 0, 600, 100))
    parcels.run(5)
    assert [carrier.got for name, carrier in parcels.carriers.items() if name.startswith("m")] == [["hello"]] * 30
    assert parcels.cost < 12


def test_a_wide_region_is_covered_although_repetition_is_suppressed() -> None:
    """C8"""
    rng = Random(5)
    hosts: dict[str, tuple[float, float] | list[Leg]] = {
        f"m{number}": (rng.uniform(0, 900), rng.uniform(0, 900)) for number in range(120)
    }
    parcels = Parcels(hosts)
    parcels.send(3, "m0", box(0, 0, 900, 900))
    parcels.run(6)
    assert len(parcels.holders()) == 119
    assert parcels.cost < 120


def test_a_message_of_many_origins_is_one_message() -> None:
    """C8, C9: hosts that are about to say the same listen to each other first."""
    parcels = Parcels({"a": (0, 0), "b": (20, 0), "c": (40, 0), "there": (150, 0)})
    for origin in "abc":
        parcels.send(2, origin, box(140, -10, 160, 10), contended=True)
    parcels.run(4)
    assert parcels.holders() == ["there"]
    assert parcels.cost <= 3


def test_a_frame_that_is_not_repeated_is_sent_once_more_and_then_no_more() -> None:
    """C8: retransmission is bounded."""
    parcels = Parcels({"alone": (0, 0)})
    parcels.send(2, "alone", box(1_000, 0, 1_100, 100))
    parcels.run(30)
    assert parcels.cost == 2
    assert parcels.carriers["alone"].geocast.under_way == {}


def test_who_refuses_forwards_nothing() -> None:
    parcels = Parcels(in_line(4), refusing=("h1",))
    parcels.send(2, "h0", box(440, -10, 460, 10))
    parcels.run(5)
    assert parcels.holders() == []


def test_the_age_of_a_message_is_the_time_it_was_on_its_way() -> None:
    """Receivers reckon by it when something was issued, without a common clock."""
    ages: list[tuple[int, int]] = []

    class Clocked(Carrier):
        def handle(self, now_us: int, given: Input) -> list[Does]:
            if isinstance(given, Received) and isinstance(given.message, Parcel):
                ages.append((now_us - 2 * SECOND_US, given.message.route.age_us))
            return super().handle(now_us, given)

    tracks = {name: track_of(at) for name, at in in_line(6).items()}
    carriers: dict[str, Carrier] = {}

    def make_node(seat: Seat) -> Carrier:
        carriers[seat.host] = Clocked(seat, PAPER)
        return carriers[seat.host]

    world = World(
        [Resident(name, track, make_node) for name, track in tracks.items()],
        Codec((Parcel, Beacon)),
        1,
        UnitDiskParams(range_m=200),
    )
    parcels = Parcels({"unused": (0, 0)})
    parcels.world, parcels.carriers = world, carriers
    parcels.send(2, "h0", box(740, -10, 760, 10))
    parcels.run(4)
    assert len(ages) > 5
    assert all(abs(true_us - age_us) < 2_000 for true_us, age_us in ages)


# Voids.


def around_a_corner() -> dict[str, tuple[float, float] | list[Leg]]:
    """A dead end: from `sender` the nearest host to the region is `end`, but the way leads over the back."""
    return {
        "sender": (0.0, 0.0),
        "end": (150.0, 0.0),
        "a": (0.0, 180.0),
        "b": (60.0, 350.0),
        "c": (230.0, 400.0),
        "d": (400.0, 350.0),
        "e": (520.0, 200.0),
        "there": (600.0, 30.0),
    }


def test_without_recovery_a_message_ends_in_a_void() -> None:
    """C13: what the paper leaves open."""
    parcels = Parcels(around_a_corner())
    parcels.send(3, "sender", box(580, 0, 640, 60))
    parcels.run(8)
    assert parcels.holders() == []
    assert parcels.tally.notes["geocast_void"] == 1


def test_a_walk_leads_around_the_corner() -> None:
    """C8, C13"""
    parcels = Parcels(around_a_corner(), GeocastParams())
    parcels.send(3, "sender", box(580, 0, 640, 60))
    parcels.run(8)
    assert parcels.holders() == ["there"]
    assert parcels.cost < 20


def test_a_walk_to_a_region_where_nobody_is_ends() -> None:
    """C13: a host goes on once with what comes to it over one link."""
    parcels = Parcels(around_a_corner(), GeocastParams())
    parcels.send(3, "sender", box(580, -900, 640, -840))
    parcels.run(20)
    assert parcels.holders() == []
    assert parcels.cost < 60


def test_a_message_in_a_void_is_carried_until_somebody_nearer_comes_by() -> None:
    """C13: store-carry-forward."""
    ferry = [
        moving(0, Point(150.0, 600.0), Point(150.0, 0.0), 100.0),
        moving(6 * SECOND_US, Point(150.0, 0.0), Point(360.0, 0.0), 105.0),
        resting_forever(8 * SECOND_US, Point(360.0, 0.0)),
    ]
    hosts: dict[str, tuple[float, float] | list[Leg]] = {"sender": (0.0, 0.0), "there": (500.0, 0.0), "ferry": ferry}
    parcels = Parcels(hosts, GeocastParams())
    parcels.send(1, "sender", box(480, -20, 520, 20))
    parcels.run(5)
    assert parcels.holders() == []
    parcels.run(12)
    assert parcels.holders() == ["there"]


def test_what_is_held_is_bounded_in_number_and_time() -> None:
    """C13"""
    params = GeocastParams(held_max=3, held_s=5.0)
    parcels = Parcels({"alone": (0, 0)}, params)
    for number in range(10):
        parcels.send(1 + number / 100, "alone", box(1_000, 0, 1_100, 100), f"p{number}")
    parcels.run(4)
    assert parcels.carriers["alone"].geocast.held == 3
    parcels.run(8)
    assert parcels.carriers["alone"].geocast.held == 0
    assert parcels.carriers["alone"].geocast.under_way == {}
    assert parcels.tally.notes["geocast_held_too_long"] == 3


@examples(50)
@given(st.integers(0, 10**6))
@example(168_622).via("two voids whose walks meet")
def test_geocast_reaches_every_reachable_host_in_the_region(seed: int) -> None:
    """C8, C13: with recovery, and nothing lost on the air, everybody in the region gets it.

    The region is one that its own hosts cover: flooding inside it uses nobody outside."""
    rng = Random(seed)
    hosts: dict[str, tuple[float, float] | list[Leg]] = {
        f"m{number}": (rng.uniform(0, 1_000), rng.uniform(0, 1_000)) for number in range(60)
    }
    parcels = Parcels(hosts, GeocastParams(), seed)
    x, y = rng.uniform(0, 900), rng.uniform(0, 900)
    target = box(x, y, x + 100, y + 100)
    members = [number for number, at in enumerate(hosts.values()) if distance_to_m(target, Point(*at), PLANE) == 0]
    hops = parcels.world.whereabouts.hops(0, 0)
    parcels.send(3, "m0", target)
    parcels.run(8)
    reachable = [f"m{number}" for number in members if hops[number] is not None and number != 0]
    assert parcels.holders() == reachable
    for carrier in parcels.carriers.values():
        assert carrier.geocast.held == sum(each.state == "held" for each in carrier.geocast.under_way.values())


# Bounds.


def test_messages_under_way_are_bounded_and_the_oldest_goes_first() -> None:
    params = GeocastParams(under_way_max=5, held_max=0)
    geocast = Geocast("me", params, Random(1), PLANE, NeighbourTable(10, SECOND_US))
    effects: list[Does] = []
    for number in range(8):
        route = Route(f"p{number}", box(300, -10, 320, 10), Here(Point(0, 0)))
        effects += geocast.heard(number, Parcel(route=route), Point(100, 0))[1]
    assert list(geocast.under_way) == [f"p{number}" for number in range(3, 8)]
    assert [effect.detail for effect in effects if isinstance(effect, Note)] == ["p0", "p1", "p2"]
    assert CancelTimer("geocast:p0") in effects


def test_a_message_does_not_travel_for_ever() -> None:
    geocast = Geocast("me", GeocastParams(hops_max=3), Random(1), PLANE, NeighbourTable(10, SECOND_US))
    route = Route("p", box(300, -10, 320, 10), Here(Point(0, 0)), hops=3)
    _, effects = geocast.heard(0, Parcel(route=route), Point(100, 0))
    assert effects == [Note("geocast_hops_exceeded", "p")]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"range_m": 0.0}, "range_m"),
        ({"coverage": 1.5}, "coverage"),
        ({"suppress_copies": 0}, "suppress_copies"),
        ({"retry_ms": 10.0}, "retry_ms"),
        ({"held_max": -1}, "held_max"),
    ],
)
def test_parameters_that_make_no_sense_are_refused_by_name(given: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        GeocastParams(**given)  # type: ignore[arg-type]


# How far a region is.

TRIANGLE = Polygon((Point(0, 0), Point(100, 0), Point(0, 100)))


@pytest.mark.parametrize(
    ("shape", "point", "metres"),
    [
        (box(0, 0, 10, 10), Point(5, 5), 0.0),
        (box(0, 0, 10, 10), Point(13, 14), 5.0),
        (box(0, 0, 10, 10), Point(-3, 5), 3.0),
        (Circle(Point(0, 0), 10.0), Point(30, 40), 40.0),
        (Circle(Point(0, 0), 10.0), Point(3, 4), 0.0),
        (TRIANGLE, Point(10, 10), 0.0),
        (TRIANGLE, Point(-30, 50), 30.0),
        (TRIANGLE, Point(100, 100), 50 * 2**0.5),
    ],
)
def test_the_distance_to_a_region_is_that_to_its_nearest_point(shape: Shape, point: Point, metres: float) -> None:
    """C8"""
    assert distance_to_m(shape, point, PLANE) == pytest.approx(metres)


def test_distances_hold_on_earth_too() -> None:
    """C8"""
    town = box(13.40, 52.50, 13.42, 52.52)
    assert distance_to_m(town, Point(13.41, 52.51), Earth()) == 0
    assert distance_to_m(town, Point(13.41, 52.53), Earth()) == pytest.approx(1_113, rel=0.01)
    assert farthest_m(town, Point(13.40, 52.50), Earth()) == pytest.approx(2_610, rel=0.02)


def test_a_route_survives_the_wire() -> None:
    codec = Codec((Parcel, Beacon))
    route = Route("p", TRIANGLE, Here(Point(1, 2), Point(0, 0), {"speed": 3}), 4, 5, 1, 77.5, True)
    parcel = Parcel(route=route, text="x")
    assert codec.decode(codec.encode(parcel)) == parcel
