"""L1, S, C: the same ad hoc nodes, in the simulator and over multicast, tell the same stories."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from roamcast.cli._node_options import Options, kit_for
from roamcast.model.context import Context
from roamcast.model.event import Announcement, ContentType, Delivery, Event, EventType
from roamcast.model.filter import parse_text
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point
from roamcast.node.boundary import Announce, Publish, Subscribe, Unannounce, Unsubscribe, Withdraw
from roamcast.node.kit import Seat
from roamcast.papers.assemble import kit_of
from roamcast.sim.radio import UnitDiskParams
from tests.runtimes.airs import AirNet, LiveAir, SimAir

PROXIMITY = {"kind": "proximity", "preset": "vehicle", "announcement_period_ms": 100.0, "radio_range_m": 10_000.0}
CONTEXT = {"kind": "context", "beacon_s": 0.2, "neighbour_s": 1.0, "tick_s": 0.1, "refresh_s": 0.5}
PLACES = {"producer": 0.0, "near": 50.0, "far": 900.0}


class Story:
    def __init__(self, net: AirNet) -> None:
        self.net = net
        self.raised = 0

    def announce(self, radius_m: float = 100.0, order: Any = "none") -> None:
        kind = EventType("ice", {"depth": ContentType.INTEGER}, Delivery(order=order))
        region = Anchored(Circle(Point(0.0, 0.0), radius_m), "producer")
        self.audience = Scope(region)
        self.net.give("producer", Announce(Announcement("producer:a", kind, "producer", region, Point(0.0, 0.0))))

    def subscribe(self, host: str, filter_text: str = "depth > 0", publishers: Scope = EVERYWHERE) -> None:
        now_us = self.net.now_us()
        wanted = Subscription(
            f"{host}:s", host, "ice", now_us, FOREVER_US, parse_text(filter_text), publishers=publishers
        )
        self.net.give(host, Subscribe(wanted))

    def raise_(self, depth: int, lifetime_s: float = 0.0, audience: Scope | None = None) -> str:
        self.raised += 1
        now_us = self.net.now_us()
        event = Event(
            f"producer:e{self.raised}",
            "ice",
            Context("producer", Point(0.0, 0.0), now_us),
            now_us,
            now_us + round(lifetime_s * 1e6),
            {"depth": depth},
            audience=self.audience if audience is None else audience,
        )
        self.net.give("producer", Publish(event))
        return event.id

    def is_member(self, host: str) -> bool:
        return bool(self.net.ask(host, lambda node: node.discovery.groups))

    def wait(self, holds: Callable[[], bool]) -> None:
        assert self.net.until(holds)

    def got(self, host: str) -> list[str]:
        return self.net.got.get(f"{host}:s", [])


@pytest.fixture(params=[SimAir, LiveAir], ids=["sim", "live"])
def story_of(request: pytest.FixtureRequest) -> Iterator[Callable[[dict[str, Any]], Story]]:
    nets: list[AirNet] = []

    def make(protocol: dict[str, Any]) -> Story:
        nets.append(request.param(PLACES, kit_of(protocol)))
        return Story(nets[-1])

    yield make
    for net in nets:
        net.close()


Tells = Callable[[dict[str, Any]], Story]


def test_s4_s5_an_event_reaches_who_is_inside_and_accepts_it(story_of: Tells) -> None:
    story = story_of(PROXIMITY)
    story.subscribe("near", "depth > 2")
    story.subscribe("far")
    story.announce()
    story.wait(lambda: story.is_member("near"))
    story.raise_(1)
    wanted = story.raise_(3)
    story.wait(lambda: story.got("near") == [wanted])
    assert not story.is_member("far")
    assert story.got("far") == []


def test_s6_groups_follow_who_comes_and_goes(story_of: Tells) -> None:
    story = story_of(PROXIMITY)
    story.subscribe("far")
    story.announce()
    story.net.move("far", 90.0)
    story.wait(lambda: story.is_member("far"))
    heard = story.raise_(1)
    story.wait(lambda: story.got("far") == [heard])
    story.net.move("far", 900.0)
    story.wait(lambda: not story.is_member("far"))


def test_s3_what_was_withdrawn_is_left_at_once(story_of: Tells) -> None:
    story = story_of(PROXIMITY)
    story.subscribe("near")
    story.announce()
    story.wait(lambda: story.is_member("near"))
    story.net.give("producer", Unannounce("producer:a"))
    story.wait(lambda: not story.is_member("near"))


def test_s11_what_lasts_reaches_who_comes_later(story_of: Tells) -> None:
    story = story_of(PROXIMITY)
    story.announce()
    lasting = story.raise_(1, lifetime_s=600)
    story.subscribe("near")
    story.wait(lambda: story.got("near") == [lasting])


def test_s3_what_was_withdrawn_reaches_nobody_who_comes_later(story_of: Tells) -> None:
    story = story_of(PROXIMITY)
    story.announce()
    story.subscribe("near")
    withdrawn, lasting = story.raise_(1, lifetime_s=600), story.raise_(2, lifetime_s=600)
    story.wait(lambda: sorted(story.got("near")) == [withdrawn, lasting])
    story.net.give("producer", Withdraw(withdrawn))
    story.subscribe("far")
    story.net.move("far", 60.0)
    story.wait(lambda: story.got("far") == [lasting])


def test_s14_events_in_order_come_in_order(story_of: Tells) -> None:
    story = story_of(PROXIMITY)
    story.subscribe("near")
    story.announce(order="sender")
    story.wait(lambda: story.is_member("near"))
    said = [story.raise_(depth) for depth in range(1, 21)]
    story.wait(lambda: len(story.got("near")) == len(said))
    assert story.got("near") == said


def test_c5_c9_contexts_decide_who_gets_an_event(story_of: Tells) -> None:
    story = story_of(CONTEXT)
    around = Scope(Anchored(Circle(Point(0.0, 0.0), 100.0), "producer"))
    story.subscribe("near", publishers=Scope(Circle(Point(0.0, 0.0), 10.0)))
    story.subscribe("far")
    said = story.raise_(1, lifetime_s=600, audience=around)
    story.wait(lambda: story.got("near") == [said])
    assert story.got("far") == []
    story.net.move("far", 60.0)
    story.wait(lambda: story.got("far") == [said])
    story.net.give("near", Unsubscribe("near:s"))
    again = story.raise_(2, lifetime_s=600, audience=around)
    story.wait(lambda: story.got("far") == [said, again])
    assert story.got("near") == [said]


@pytest.mark.parametrize("protocol", ["proximity", "context"])
def test_l1_a_node_starts_from_the_parameters_of_a_simulation(protocol: str) -> None:
    """With a radio of the same range; what the paper used is asked for by name."""
    seat = Seat("ann", Random(1))
    live: Any = kit_for(Options(name="ann", protocol=protocol, range_m=200.0)).make_node(seat)
    simulated: Any = kit_of({"kind": protocol}, UnitDiskParams(range_m=200.0)).make_node(seat)
    as_published: Any = kit_of({"kind": protocol, "preset": "paper"}, UnitDiskParams(range_m=200.0)).make_node(seat)
    assert live.params == simulated.params != as_published.params
