"""L9: whatever the order, and however many gateways there are, an event crosses each once and reaches every place."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from roamcast.gateway.crossing import (
    Announce,
    Crossing,
    CrossingParams,
    Drop,
    FromArea,
    FromBrokers,
    Publish,
    Raise,
    Wake,
    Woken,
)
from roamcast.gateway.parcel import Parcel
from roamcast.model.context import Context
from roamcast.model.event import ContentType, Delivery, Event, EventType
from roamcast.model.values import Instant, Point, Value
from tests.effort import examples
from tests.gateway.regions import BROKERS, World

ICE = EventType("ice", {"depth": ContentType.INTEGER}, Delivery(priority=3))
SETTLE_US = CrossingParams().settle_us


def parcel(number: int = 1, lasts_us: int = 0, event_type: EventType | None = None, **attributes: Value) -> Parcel:
    publisher = Context("car", Point(5.0, 6.0))
    return Parcel(Event(f"car:e{number}", "ice", publisher, 0, lasts_us, dict(attributes)), b"{}", event_type)


class Regions(RuleBasedStateMachine):
    """Areas with any number of gateways around one tree of brokers."""

    world: World

    @initialize(gateways_of=st.lists(st.integers(0, 3), min_size=1, max_size=3))
    def build(self, gateways_of: list[int]) -> None:
        self.world = World(gateways_of)

    @rule(place=st.integers(BROKERS, 2))
    def begin(self, place: int) -> None:
        if place < self.world.areas:
            self.world.begin(place)

    @precondition(lambda self: self.world.under_way)
    @rule(number=st.integers(0, 1_000), twice=st.sampled_from([False, False, False, True]))
    def deliver(self, number: int, twice: bool) -> None:
        self.world.deliver(number, twice)

    @invariant()
    def nothing_multiplies(self) -> None:
        assert self.world.complaints() == []

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.settle()
            assert self.world.complaints() == []
            assert self.world.missing() == []


TestL9Regions = Regions.TestCase
TestL9Regions.settings = examples(60, stateful_step_count=30)


def test_l9_the_world_notices_a_gateway_that_forgets() -> None:
    world = World([2, 2], CrossingParams(remembered_max=1))
    for _ in range(3):
        world.begin(0)
    world.settle()
    assert any("times" in each for each in world.complaints())


def test_l9_the_world_notices_what_does_not_come() -> None:
    world = World([1, 1])
    world.begin(0)
    world.under_way.clear()
    world.settle()
    assert len(world.missing()) == 3


def test_l9_an_event_of_the_area_is_published_once_and_does_not_come_back() -> None:
    crossing = Crossing()
    assert crossing.handle(0, FromArea(parcel())) == [Publish(parcel())]
    assert crossing.handle(1, FromArea(parcel())) == []
    assert crossing.handle(2, FromBrokers(parcel())) == []


def test_l9_what_another_gateway_brought_is_not_published_again() -> None:
    crossing = Crossing()
    assert crossing.handle(0, FromArea(parcel(), brought=True)) == []
    assert crossing.handle(1, FromBrokers(parcel())) == []


def test_l9_s3_an_event_from_brokers_waits_until_its_type_is_announced_and_others_have_joined() -> None:
    crossing = Crossing(types=[ICE])
    first, second = parcel(1, depth=3), parcel(2, depth=4)
    assert crossing.begin(0) == [Announce(ICE), Wake(SETTLE_US)]
    assert crossing.handle(1, FromBrokers(first)) == []
    assert crossing.handle(2, FromBrokers(second)) == []
    # A timer that came too early: it is set again, or what waits would wait for ever.
    assert crossing.handle(SETTLE_US - 1, Woken()) == [Wake(SETTLE_US)]
    assert crossing.handle(SETTLE_US, Woken()) == [Raise(first), Raise(second)]
    assert crossing.handle(SETTLE_US, FromBrokers(parcel(3, depth=5))) == [Raise(parcel(3, depth=5))]


def test_l9_without_announcements_an_event_is_raised_at_once() -> None:
    crossing = Crossing(announces=False, types=[ICE])
    assert crossing.begin(0) == []
    assert crossing.handle(0, FromBrokers(parcel(depth=3))) == [Raise(parcel(depth=3))]


def test_l9_s1_the_type_is_the_users_then_the_areas_then_the_origins_then_what_it_looks_like() -> None:
    def announced(crossing: Crossing, given: Parcel) -> EventType:
        act = crossing.handle(0, FromBrokers(given))[0]
        assert isinstance(act, Announce)
        return act.event_type

    origin, area = replace(ICE, delivery=Delivery(priority=1)), replace(ICE, delivery=Delivery(priority=2))
    given = parcel(event_type=origin, depth=3)
    assert announced(Crossing(types=[ICE], known_type=lambda _: area), replace(given)) == ICE
    assert announced(Crossing(known_type=lambda _: area), given) == area
    assert announced(Crossing(), given) == origin
    seeming = parcel(depth=3, text="a", wet=True, since=Instant(1), where=Point(1.0, 2.0))
    assert announced(Crossing(), seeming).content == {
        "depth": ContentType.DOUBLE,
        "text": ContentType.STRING,
        "wet": ContentType.BOOLEAN,
        "since": ContentType.TIME,
        "where": ContentType.POSITION,
    }


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"text": "deep"}, "'ice': attribute 'depth' (integer) is missing"),
        ({"depth": "deep"}, "'ice': attribute 'depth' must be integer, not str"),
        ({"depth": 3, "text": "deep"}, "'ice' has no attribute 'text'; it has depth"),
    ],
)
def test_l9_s1_what_is_not_of_the_announced_type_is_dropped_and_the_attribute_is_named(
    attributes: dict[str, Any], why: str
) -> None:
    crossing = Crossing(types=[ICE])
    crossing.begin(0)
    assert crossing.handle(0, FromBrokers(parcel(**attributes))) == [Drop("type_mismatch", "car:e1", why)]


def test_l9_an_event_whose_type_has_a_position_gets_its_publishers() -> None:
    placed = EventType("ice", {"position": ContentType.POSITION})
    crossing = Crossing(types=[placed])
    crossing.begin(0)
    crossing.handle(0, FromBrokers(parcel()))
    assert crossing.handle(SETTLE_US, Woken()) == [Raise(parcel(position=Point(5.0, 6.0)))]


def test_l9_what_has_expired_does_not_enter() -> None:
    crossing = Crossing(announces=False)
    assert crossing.handle(11, FromBrokers(parcel(lasts_us=10))) == [Drop("expired", "car:e1")]


def test_l9_what_waits_and_what_is_announced_is_bounded() -> None:
    crossing = Crossing(CrossingParams(waiting_max=1, subjects_max=1))
    assert len(crossing.handle(0, FromBrokers(parcel(1)))) == 2
    assert crossing.handle(0, FromBrokers(parcel(2))) == [Drop("too_many_wait", "car:e2")]
    other = replace(parcel(3), event=replace(parcel(3).event, subject="fog"))
    assert crossing.handle(0, FromBrokers(other)) == [Drop("too_many_subjects", "car:e3")]
