"""Matching is exactly the five conditions of C6, and the papers' own examples come out of it."""

import pytest
from msgspec.structs import replace

from roamcast.model.context import Configuration, Context
from roamcast.model.event import Event
from roamcast.model.filter.tree import (
    And,
    Attribute,
    Closing,
    Compare,
    Filter,
    Mine,
    Near,
)
from roamcast.model.match import (
    includes,
    matches,
)
from roamcast.model.region import Anchored, Box, Circle, Polygon, Region, rectangle
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.space import Earth
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point, Value
from tests.model.hosts import FASTER, PLANE, conditions, configuration_of, driving, host, where

# Each condition alone.

HERE = Circle(Point(0, 0), 50)
AWAY = Circle(Point(1_000, 0), 50)
HOSTS = configuration_of(host("publisher", 0, 0), host("subscriber", 10, 0), host("far", 1_000, 0))
EVENT = Event("e", "traffic/jam", host("publisher"), 100, 200, {"length": 5})
SUBSCRIPTION = Subscription("s", "subscriber", "traffic/+", 0, 1_000, Filter(where("length", ">", 3)))


def test_c6_an_event_that_meets_all_five_conditions_matches() -> None:
    assert matches(EVENT, SUBSCRIPTION, HOSTS, 150)
    assert conditions(EVENT, SUBSCRIPTION, HOSTS, 150) == [True] * 5


@pytest.mark.parametrize(
    ("decides", "event", "subscription"),
    [
        (0, EVENT, replace(SUBSCRIPTION, filter=Filter(where("length", ">", 5)))),
        (0, EVENT, replace(SUBSCRIPTION, filter=Filter(where("missing", ">", 5)))),
        (0, EVENT, replace(SUBSCRIPTION, subject="weather/+")),
        (1, replace(EVENT, expires_us=149), SUBSCRIPTION),
        (1, EVENT, replace(SUBSCRIPTION, expires_us=149)),
        (1, replace(EVENT, published_us=151), SUBSCRIPTION),
        (1, EVENT, replace(SUBSCRIPTION, issued_us=151)),
        (2, replace(EVENT, relevance=Scope(HERE)), replace(SUBSCRIPTION, interest=Scope(AWAY))),
        (3, EVENT, replace(SUBSCRIPTION, publishers=Scope(AWAY))),
        (4, replace(EVENT, audience=Scope(AWAY)), SUBSCRIPTION),
    ],
)
def test_c6_each_condition_alone_decides(decides: int, event: Event, subscription: Subscription) -> None:
    assert conditions(event, subscription, HOSTS, 150) == [index != decides for index in range(5)]
    assert not matches(event, subscription, HOSTS, 150)


# Lifetimes (C3).


def test_c3_an_instantaneous_event_matches_at_its_moment_only() -> None:
    now_or_never = replace(EVENT, expires_us=100)
    assert matches(now_or_never, SUBSCRIPTION, HOSTS, 100)
    assert not matches(now_or_never, SUBSCRIPTION, HOSTS, 99)
    assert not matches(now_or_never, SUBSCRIPTION, HOSTS, 101)


def test_c3_a_persistent_event_reaches_a_subscription_made_later() -> None:
    late = replace(SUBSCRIPTION, issued_us=180)
    assert not matches(EVENT, late, HOSTS, 179)
    assert matches(EVENT, late, HOSTS, 180)
    assert matches(EVENT, late, HOSTS, 200)
    assert not matches(EVENT, late, HOSTS, 201)


# Open scopes and absent hosts (C4, C5).


def test_open_scopes_ask_nothing_of_a_host_that_vanished() -> None:
    somebody = configuration_of(host("bystander"))
    event = replace(EVENT, attributes={"length": 5})
    assert matches(event, SUBSCRIPTION, somebody, 150)


def test_c4_where_nobody_is_nothing_is_shared() -> None:
    assert not matches(EVENT, SUBSCRIPTION, configuration_of(), 150)


@pytest.mark.parametrize("domain", [Scope(HERE), Scope(filter=Filter(where("host", "<>", "nobody")))])
def test_c5_a_host_that_vanished_is_in_no_domain_but_the_open_one(domain: Scope) -> None:
    without_publisher = configuration_of(host("subscriber"))
    without_subscriber = configuration_of(host("publisher"))
    assert not matches(EVENT, replace(SUBSCRIPTION, publishers=domain), without_publisher, 150)
    assert not matches(replace(EVENT, audience=domain), SUBSCRIPTION, without_subscriber, 150)
    assert matches(replace(EVENT, audience=domain), SUBSCRIPTION, without_publisher, 150)


def test_a_host_without_a_position_is_in_no_region() -> None:
    lost = configuration_of(Context("lost"), host("publisher"))
    assert not includes(Scope(HERE), "lost", lost)
    assert includes(Scope(filter=Filter(where("host", "=", "lost"))), "lost", lost)
    assert not includes(Scope(Anchored(Circle(Point(0, 0), 50), "lost")), "publisher", lost)
    assert not includes(Scope(Anchored(Circle(Point(0, 0), 50), "nobody")), "publisher", lost)


def test_a_filter_over_me_is_unknown_for_a_subscriber_that_vanished() -> None:
    near_me = replace(SUBSCRIPTION, filter=Filter(Compare("<", Attribute("length"), Mine("budget"))))
    rich = configuration_of(host("publisher"), host("subscriber", budget=6))
    assert matches(EVENT, near_me, rich, 150)
    assert not matches(EVENT, near_me, configuration_of(host("publisher")), 150)


def test_c5_domains_look_at_where_hosts_are_now_not_where_they_published() -> None:
    at_home = replace(SUBSCRIPTION, publishers=Scope(HERE))
    assert matches(EVENT, at_home, HOSTS, 150)
    gone = configuration_of(host("publisher", 500, 0), host("subscriber"))
    assert EVENT.publisher.position == Point(0, 0)
    assert not matches(EVENT, at_home, gone, 160)


# Figure 1a of the context paper: the accident on the freeway.

MILE_M = 1_609.344


def on_freeway(name: str, mile: float, heading: str, occupants: int = 2, **more: Value) -> Context:
    lane_m = -10 if heading == "east" else 10
    return host(name, mile * MILE_M, lane_m, heading=heading, occupants=occupants, **more)


def miles(first: float, last: float) -> Box:
    return Box(Point(first * MILE_M, -50), Point(last * MILE_M, 50))


CRASHED = on_freeway("crashed", 32, "east", involved=True)
CAR_X = host("x", 22 * MILE_M, 2 * MILE_M)
STATION_25, STATION_30 = host("station 25", 25 * MILE_M, 100), host("station 30", 30 * MILE_M, 100)
FREEWAY = configuration_of(
    CRASHED,
    on_freeway("approaching", 24, "east"),
    on_freeway("alone", 26, "east", occupants=1),
    on_freeway("past", 33, "east"),
    on_freeway("opposite", 24.5, "west"),
    CAR_X,
    STATION_25,
    STATION_30,
)
HOUR_US = 3_600_000_000
ACCIDENT = Event(
    "accident",
    "freeway/accident",
    CRASHED,
    0,
    HOUR_US,
    relevance=Scope(miles(20, 32), Filter(where("heading", "=", "east"))),
)
ROUTE_OF_X = Scope(Box(Point(23 * MILE_M, -50), Point(27 * MILE_M, 3 * MILE_M)))
"""The dashed contour: the stretch that car X is about to take."""


def wants_freeway(name: str, interest: Scope = EVERYWHERE, publishers: Scope = EVERYWHERE) -> Subscription:
    return Subscription(f"of {name}", name, "freeway/#", 0, HOUR_US, interest=interest, publishers=publishers)


def own_surroundings(name: str) -> Scope:
    return Scope(Anchored(Circle(Point(0, 0), 10), name))


@pytest.mark.parametrize(
    ("name", "warned"), [("approaching", True), ("alone", True), ("past", False), ("opposite", False)]
)
def test_figure_1a_the_accident_concerns_who_drives_east_between_miles_20_and_32(name: str, warned: bool) -> None:
    """C4: each car's context of interest is itself."""
    assert matches(ACCIDENT, wants_freeway(name, own_surroundings(name)), FREEWAY, 1) is warned


def test_figure_1a_car_x_hears_of_the_accident_from_the_road_it_is_about_to_take() -> None:
    """C4: X itself is not where the event matters, but hosts on its route are; later there are none."""
    assert not includes(ACCIDENT.relevance, "x", FREEWAY)
    assert matches(ACCIDENT, wants_freeway("x", ROUTE_OF_X), FREEWAY, HOUR_US // 2)
    empty_road = configuration_of(
        CRASHED, CAR_X, on_freeway("past", 33, "east"), on_freeway("opposite", 24.5, "west")
    )
    assert not matches(ACCIDENT, wants_freeway("x", ROUTE_OF_X), empty_road, HOUR_US // 2)


def test_figure_1a_the_accident_is_for_the_station_in_charge_of_its_section() -> None:
    """C5: publication domains by section, miles 28 to 33 and 23 to 28, of cars that are involved."""
    involved = Filter(where("involved", "=", True))
    mine = wants_freeway("station 30", publishers=Scope(miles(28, 33), involved))
    other = wants_freeway("station 25", publishers=Scope(miles(23, 28), involved))
    assert matches(ACCIDENT, mine, FREEWAY, 1)
    assert not matches(ACCIDENT, other, FREEWAY, 1)
    call = replace(ACCIDENT, id="witness", publisher=on_freeway("past", 33, "east"))
    assert not matches(call, mine, FREEWAY, 1)


def test_figure_1a_the_patrol_sends_only_single_occupants_off_the_freeway() -> None:
    """C5: the subscription domain."""
    exit_order = Event(
        "exit",
        "freeway/exit",
        STATION_30,
        0,
        HOUR_US,
        relevance=ACCIDENT.relevance,
        audience=Scope(filter=Filter(where("occupants", "<", 2))),
    )
    assert matches(exit_order, wants_freeway("alone"), FREEWAY, 1)
    assert not matches(exit_order, wants_freeway("approaching"), FREEWAY, 1)
    assert not matches(exit_order, wants_freeway("station 25"), FREEWAY, 1)


# STEAM's location-dependent delivery (S5).


def ambulance_warning(proximity: Region) -> Event:
    return Event("w", "ambulance", host("ambulance"), 0, HOUR_US, audience=Scope(proximity))


WARNED = Subscription("s", "car", "ambulance", 0, HOUR_US)


@pytest.mark.parametrize(
    ("car_x", "delivered"), [(-201.0, False), (-200.0, True), (0.0, True), (200.0, True), (200.001, False)]
)
def test_s5_a_consumer_gets_events_while_it_is_inside_a_fixed_proximity(car_x: float, delivered: bool) -> None:
    at_car = configuration_of(host("ambulance", 5_000, 0), host("car", car_x, 0))
    assert matches(ambulance_warning(Circle(Point(0, 0), 200)), WARNED, at_car, 1) is delivered


def test_s5_a_proximity_moves_with_its_producer_while_both_move() -> None:
    """The ambulance at 20 m/s overtakes a car at 10 m/s, 500 m ahead: inside from 30 s to 70 s, ends included."""
    ambulance = driving("ambulance", 0, 20)
    car = driving("car", 500, 10)
    warning = ambulance_warning(Anchored(Circle(Point(0, 0), 200), "ambulance"))
    delivered = [
        second
        for second in range(100)
        if matches(
            warning,
            WARNED,
            configuration_of(*(each.at(second * 1_000_000, PLANE) for each in (ambulance, car))),
            second * 1_000_000,
        )
    ]
    assert delivered == list(range(30, 71))


def test_s2_a_proximity_may_lie_ahead_of_its_producer() -> None:
    """The reference point of the area is at its rear edge."""
    ahead = Anchored(rectangle(300, 40), "ambulance", reference=Point(-150, 0))
    for car_x, delivered in ((-1, False), (0, True), (300, True), (301, False)):
        at_car = configuration_of(host("ambulance", 1_000, 0), host("car", 1_000 + car_x, 20))
        assert matches(ambulance_warning(ahead), WARNED, at_car, 1) is delivered


def test_s5_on_earth_across_the_date_line() -> None:
    corners = (Point(-200, -200), Point(200, -200), Point(200, 200), Point(-200, 200))
    earth = Earth()
    naval = Point(179.9995, -17.0)
    for shape in (Circle(Point(0, 0), 200), rectangle(400, 400), Polygon(corners)):
        warning = ambulance_warning(Anchored(shape, "ambulance"))
        for east_m, delivered in ((-199, True), (-201, False), (199, True), (201, False)):
            hosts = [Context("ambulance", naval), Context("car", earth.moved(naval, east_m, 0))]
            assert matches(warning, WARNED, Configuration(earth, hosts), 1) is delivered


def test_s4_only_cars_that_the_ambulance_approaches_are_warned() -> None:
    """A content filter over the consumer's own position: "the distance decreases"."""
    approached = replace(
        WARNED,
        filter=Filter(And((Near(Attribute("at"), 500), Closing(Attribute("at"), "approaching")))),
    )
    warning = Event("w", "ambulance", host("ambulance"), 0, HOUR_US, {"at": Point(0, 0)})
    for east, x, delivered in ((-5, 300, True), (5, 300, False), (0, 300, False), (-5, 501, False)):
        assert matches(warning, approached, configuration_of(driving("car", x, east)), 1) is delivered


# Relational properties (C2).


def test_c2_the_hosts_that_are_faster_than_the_hosts_around_them() -> None:
    hosts = configuration_of(
        host("racer", 0, 0, speed=80),
        host("slow", 50, 0, speed=40),
        host("slower", 100, 0, speed=30),
        host("hermit", 5_000, 0, speed=200),
        host("parked", 5_050, 0),
    )
    # Around "slow" the mean is 55, around "slower" 60; the hermit's only neighbour tells no speed.
    assert [name for name in hosts.contexts if includes(FASTER, name, hosts)] == ["racer"]


def test_c2_a_relational_property_changes_with_the_others() -> None:
    racer, slow = host("racer", 0, 0, speed=80), host("slow", 50, 0, speed=40)
    assert includes(FASTER, "racer", configuration_of(racer, slow))
    assert not includes(FASTER, "racer", configuration_of(racer, slow, host("faster", 20, 0, speed=200)))
