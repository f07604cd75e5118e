"""The ideal system of a simulation is the definition of matching, only faster."""

from typing import Any

import pytest

from roamcast.model.context import Configuration
from roamcast.model.event import Event
from roamcast.model.match import matches
from roamcast.model.region import Anchored, Circle, rectangle
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point
from roamcast.node.observer import Observer
from roamcast.papers.assemble import kit_of
from roamcast.sim.ideal import PERIOD_US, lie_apart
from roamcast.sim.instant import Contexts
from roamcast.sim.observers import begun, issued
from roamcast.sim.run import Run
from roamcast.sim.scenario import scenario_from
from tests.effort import seeds

WALK = {"kind": "random-waypoint", "width_m": 300, "height_m": 300, "speed_min_mps": 5, "speed_max_mps": 20}
CROWD: dict[str, Any] = {
    "name": "crowd",
    "seconds": 30,
    "area_m": [300, 300],
    "protocol": {"kind": "flooding"},
    "radio": {"kind": "unit-disk", "range_m": 100},
    "hosts": [{"name": "h", "count": 12, "mobility": WALK, "attributes": {"v": {"integer": [0, 9]}}}],
    "publish": [
        {
            "by": "h",
            "share": 0.5,
            "subject": "x",
            "every_s": 5,
            "lifetime_s": [0, 8],
            "relevance": {"box_m": [150, 150], "at": "anywhere"},
            "audience": {"circle_m": 150, "at": "with-me", "filter": "v <= neighbours.max('v')", "share": 0.7},
        }
    ],
    "subscribe": [
        {
            "by": "h",
            "share": 0.5,
            "subject": "x",
            "every_s": 7,
            "lifetime_s": [0, 9],
            "filter": "near(position, 200)",
            "interest": {"circle_m": 90, "at": "anywhere", "filter": "neighbours.count() > 0"},
            "publishers": {"filter": "v >= 3"},
        }
    ],
}


class ByDefinition(Observer):
    """Looks at the same moments as the ideal system does, at all hosts, and asks `matches` for every pair."""

    def __init__(self, run: Run) -> None:
        self.world = run.world
        self.expected: dict[tuple[str, str], int] = {}
        self.events: list[Event] = []
        self.subscriptions: list[Subscription] = []
        for body in self.world.bodies:
            body.host.observers = (*body.host.observers, self)
        self.world.observers = (*self.world.observers, self)
        self.world.kernel.at(PERIOD_US, self.tick)

    def published(self, now_us: int, host: str, event: Event) -> None:
        self.events.append(begun(event, now_us))
        self.look(self.events[-1:], self.subscriptions)

    def subscribed(self, now_us: int, host: str, subscription: Subscription) -> None:
        self.subscriptions.append(issued(subscription, now_us))
        self.look(self.events, self.subscriptions[-1:])

    def gone(self, now_us: int, host: str, to: str | None = None) -> None:
        self.subscriptions = [each for each in self.subscriptions if each.subscriber != host]

    def tick(self) -> None:
        self.look(self.events, self.subscriptions)
        self.world.kernel.at(self.world.kernel.now_us + PERIOD_US, self.tick)

    def look(self, events: list[Event], subscriptions: list[Subscription]) -> None:
        now_us, up = self.world.kernel.now_us, [body for body in self.world.bodies if body.up]
        contexts = [body.resident.track.context_at(now_us, body.resident.host, body.attributes) for body in up]
        configuration = Configuration(Plane(), contexts, self.world.range_m)
        for event in events:
            for subscription in subscriptions:
                if matches(event, subscription, configuration, now_us):
                    self.expected.setdefault((event.id, subscription.id), now_us)


def ran(given: dict[str, Any], seed: int = 3) -> Run:
    scenario = scenario_from(given)
    run = Run(scenario, kit_of(scenario.protocol), seed)
    for _ in run.steps():
        pass
    return run


@pytest.mark.parametrize(
    "faults",
    [
        {},
        {"clock_offset_ms": 3_000},
        {"crash": [{"host": f"h-{n}", "at_s": 5 + n, "restart_s": 11 + n} for n in range(1, 13)]},
    ],
    ids=["no faults", "wrong clocks", "crashes"],
)
def test_the_ideal_expects_exactly_what_matches_says(faults: dict[str, Any]) -> None:
    """C12's yardstick against C6 itself: all four scopes, relational properties, movement, lifetimes."""
    scenario = scenario_from({**CROWD, "faults": faults})
    run = Run(scenario, kit_of(scenario.protocol), seed=3)
    by_definition = ByDefinition(run)
    for _ in run.steps():
        pass
    assert run.ideal.expected == by_definition.expected
    assert len(by_definition.expected) > 10


def pair_talking(**changes: Any) -> dict[str, Any]:
    line = {"kind": "line", "start": [0, 0], "end": [50, 0]}
    return {
        "name": "pair",
        "seconds": 20,
        "protocol": {"kind": "flooding", "forward_jitter_ms": 5},
        "radio": {"kind": "unit-disk", "range_m": 100},
        "hosts": [{"name": "h", "count": 2, "mobility": {"kind": "static", "placement": line}}],
        "publish": [{"by": "h", "subject": "x", "every_s": 1, "first_s": 5.5, "until_s": 13}],
        "subscribe": [{"by": "h", "subject": "x", "first_s": 0.5}],
        "checks": ["no-duplicates", "only-matching", "complete"],
        **changes,
    }


@seeds(4)
def test_wrong_clocks_change_neither_what_is_expected_nor_how_long_it_took(seed: int) -> None:
    """C12: instantaneous events, with clocks off by up to three seconds either way."""
    right = ran(pair_talking(), seed).finish()
    wrong = ran(pair_talking(faults={"clock_offset_ms": 3_000}), seed).finish()
    assert (wrong.expected, wrong.delivered, wrong.missed) == (right.expected, right.delivered, 0)
    assert right.expected == 2 * right.events == 2 * 16
    assert wrong.latency_p99_ms == right.latency_p99_ms


def test_a_lifetime_counts_from_when_the_event_was_really_published() -> None:
    """C3: the stamps of a wrong clock say how long, not until when."""
    for offset_ms in (0, 3_000):
        publish = {"by": "h", "subject": "x", "every_s": 100, "first_s": 5, "lifetime_s": [2]}
        later = {"by": "h", "subject": "x", "every_s": 1, "first_s": 0.25, "lifetime_s": [0]}
        faults = {"clock_offset_ms": offset_ms}
        run = ran(pair_talking(publish=[publish], subscribe=[later], faults=faults, checks=[]))
        assert sorted(run.ideal.expected.values()) == [5_250_000] * 4 + [6_250_000] * 4


def test_a_host_that_is_down_expects_nothing_and_subscribes_again_when_it_is_back() -> None:
    """Six events before the crash, two while the host is down, the rest after its restart."""
    publish = {"by": "h", "share": 0.5, "subject": "x", "every_s": 1, "first_s": 0.5, "until_s": 12}
    given = pair_talking(publish=[publish], subscribe=[{"by": "h", "subject": "x"}], seconds=13)
    publisher = next(iter(ran(given).ideal.events.values())).publisher.host
    (other,) = {"h-1", "h-2"} - {publisher}
    run = ran({**given, "faults": {"crash": [{"host": other, "at_s": 6, "restart_s": 8}]}})
    times_s: dict[str, list[float]] = {}
    for (_, subscription_id), at_us in run.ideal.expected.items():
        if subscription_id.startswith(other):
            times_s.setdefault(subscription_id, []).append(at_us / 1e6)
    assert list(times_s.values()) == [[0.5, 1.5, 2.5, 3.5, 4.5, 5.5], [8.5, 9.5, 10.5, 11.5]]
    assert run.finish().missed == 0


def test_an_encounter_of_a_quarter_second_is_not_overlooked() -> None:
    """C12: a car at 40 m/s is within the interest between two whole seconds only."""
    car = {"name": "way", "points": [[0, 0], [4_000, 0]], "speed_mps": 40, "entries_s": [0]}
    tower = {"kind": "static", "placement": {"kind": "at", "points": [[22, 0]]}}
    given = pair_talking(
        seconds=4,
        hosts=[
            {"name": "car", "mobility": {"kind": "routes", "routes": [car]}},
            {"name": "tower", "mobility": tower},
        ],
        publish=[{"by": "car", "subject": "x", "every_s": 9, "first_s": 0.1, "lifetime_s": [3]}],
        subscribe=[{"by": "tower", "subject": "x", "publishers": {"circle_m": 6, "at": "here"}}],
        checks=[],
    )
    run = ran(given)
    assert list(run.ideal.expected.values()) == [400_000]
    assert run.result().ideal_period_s == 0.1


class ContextsMade(Observer):
    """How many contexts the yardsticks had made when something was delivered."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.most = 0
        for body in run.world.bodies:
            body.host.observers = (*body.host.observers, self)

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        contexts = self.run.ideal.instant().contexts
        assert isinstance(contexts, Contexts)
        self.most = max(self.most, len(contexts.made))


@pytest.mark.parametrize("relevance", [{"box_m": [90, 90]}, {"circle_m": 70, "at": "with-me"}, None])
def test_a_delivery_costs_nothing_for_hosts_far_away(relevance: dict[str, Any] | None) -> None:
    made = []
    for count in (10, 500):
        line = {"kind": "line", "start": [10_000, 0], "end": [90_000, 0]}
        far = {"name": "far", "count": count, "mobility": {"kind": "static", "placement": line}}
        given = pair_talking()
        given["hosts"] = [*given["hosts"], far]
        scopes = {"relevance": relevance, "audience": {"circle_m": 100, "at": "with-me", "filter": "NOT v = 3"}}
        given["hosts"][0]["attributes"] = {"v": 1}
        given["publish"] = [{**given["publish"][0], "lifetime_s": [1], **scopes}]
        given["subscribe"][0]["interest"] = {"circle_m": 60, "filter": "neighbours.count() = 1"}
        scenario = scenario_from(given)
        run = Run(scenario, kit_of(scenario.protocol), 1)
        watching = ContextsMade(run)
        for _ in run.steps():
            pass
        assert run.finish().delivered > 20
        made.append(watching.most)
    assert made == [2, 2]


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        (Scope(Circle(Point(0, 0), 10)), Scope(Circle(Point(20.1, 0), 10)), True),
        (Scope(Circle(Point(0, 0), 10)), Scope(Circle(Point(20, 0), 10)), False),
        (Scope(rectangle(10, 10)), Scope(Circle(Point(0, 12), 6)), True),
        (Scope(Circle(Point(0, 0), 10)), Scope(Anchored(Circle(Point(90, 0), 10), "a")), False),
        (Scope(Circle(Point(0, 0), 10)), EVERYWHERE, False),
    ],
)
def test_only_fixed_regions_that_share_no_point_lie_apart_for_ever(one: Scope, other: Scope, apart: bool) -> None:
    assert lie_apart(one, other) is lie_apart(other, one) is apart
