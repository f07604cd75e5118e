"""The ideal system of a simulation is the definition of matching, only faster."""

from typing import Any

from roamcast.experiments.assemble import kit_of
from roamcast.model.event import Event
from roamcast.model.match import matches
from roamcast.model.subscription import Subscription
from roamcast.sim.ideal import Ideal
from roamcast.sim.run import Run
from roamcast.sim.scenario import scenario_from

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


class ByDefinition(Ideal):
    """Looks at the same moments, and asks `matches` for every pair."""

    def _look(self, events: list[Event], subscriptions: list[Subscription]) -> None:
        assert self.world is not None
        now_us, configuration = self.world.kernel.now_us, self.world.configuration()
        for event in events:
            for subscription in subscriptions:
                pair = (event.id, subscription.id)
                if pair not in self.expected and matches(event, subscription, configuration, now_us):
                    self.expected[pair] = now_us


def test_the_ideal_expects_exactly_what_matches_says() -> None:
    """C12's yardstick against C6 itself: all four scopes, relational properties, movement, lifetimes."""
    scenario = scenario_from(CROWD)
    run = Run(scenario, kit_of(scenario.protocol), seed=3)
    by_definition = ByDefinition()
    by_definition.watch(run.world)
    for body in run.world.bodies:
        body.host.observers = (*body.host.observers, by_definition)
    for _ in run.steps():
        pass
    assert run.ideal.expected == by_definition.expected
    assert len(by_definition.expected) > 10
