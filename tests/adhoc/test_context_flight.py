"""Context-aware publish/subscribe while everybody moves: what differs from `model.match` is under way meanwhile (C6).

A message takes time, and those whom it concerns move on. So what was true a moment ago may be delivered now, and what
is true only for a moment may be over before anybody can act on it. Here every pair of an event and a subscription is
asked about ten times a second, by the definition and with everybody's true place; what is instantaneous as if it
lived for its flight. A delivery must have been right at some moment of its flight, and whatever stays right for as
long as a flight takes must be delivered.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from roamcast.model.event import Event
from roamcast.model.match import matches
from roamcast.model.subscription import Subscription
from roamcast.node.observer import Observer
from roamcast.papers.assemble import kit_of
from roamcast.sim.observers import begun, issued
from roamcast.sim.run import Run
from roamcast.sim.scenario import scenario_from
from tests.adhoc.context_worlds import scenario

LOOK_US = 100_000
FLIGHT_US = 1_000_000
"""Some hops of some tens of milliseconds to the publisher, and from there to the subscriber."""
TICK_US = 1_000_000
"""`tick_s`: so much later may a host see that what it holds matches since it moved."""

Pair = tuple[str, str]


class Truth(Observer):
    """When each pair matches, and when it was delivered."""

    def __init__(self) -> None:
        self.events: dict[str, Event] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.held_us: dict[Pair, list[int]] = {}
        self.delivered_us: dict[Pair, int] = {}

    def published(self, now_us: int, host: str, event: Event) -> None:
        event = begun(event, now_us)
        self.events[event.id] = replace(event, expires_us=now_us + FLIGHT_US) if event.instantaneous else event

    def subscribed(self, now_us: int, host: str, subscription: Subscription) -> None:
        self.subscriptions[subscription.id] = issued(subscription, now_us)

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        self.delivered_us[event.id, subscription_id] = now_us

    def look(self, run: Run) -> None:
        """Asks the definition about all pairs that may match now."""
        now_us, known = run.now_us, run.world.configuration()
        for event in self.events.values():
            if now_us > event.expires_us:
                continue
            for subscription in self.subscriptions.values():
                if now_us <= subscription.expires_us and matches(event, subscription, known, now_us):
                    self.held_us.setdefault((event.id, subscription.id), []).append(now_us)

    def stays_right(self, pair: Pair, from_us: int, for_us: int) -> bool:
        """Whether it held at every look for so long, from one of them on."""
        held = set(self.held_us[pair])
        return all(at_us in held for at_us in range(from_us, from_us + for_us, LOOK_US))

    def wrong(self) -> list[Pair]:
        """Delivered, and at no moment of the flight did it match."""
        return [
            pair
            for pair, delivered_us in self.delivered_us.items()
            if not any(
                delivered_us - FLIGHT_US - LOOK_US <= at_us <= delivered_us + LOOK_US
                for at_us in self.held_us.get(pair, ())
            )
        ]

    def lost(self, end_us: int) -> list[Pair]:
        """Never delivered, although it went on matching for as long as a flight takes; what is instantaneous from
        its own moment on, and the rest from any."""
        return [
            pair
            for pair, held_us in self.held_us.items()
            if pair not in self.delivered_us and any(self._had_to_come(pair, at_us, end_us) for at_us in held_us)
        ]

    def _had_to_come(self, pair: Pair, at_us: int, end_us: int) -> bool:
        event = self.events[pair[0]]
        if event.expires_us == event.published_us + FLIGHT_US:
            return at_us == event.published_us and self.stays_right(pair, at_us, FLIGHT_US)
        for_us = FLIGHT_US + TICK_US
        return at_us + for_us <= end_us and self.stays_right(pair, at_us, for_us)


def moving(speed_mps: float, **changes: Any) -> dict[str, Any]:
    """Forty hosts on a quarter of a square kilometre, a perfect radio, and regions that people go in and out of."""
    way = {
        "kind": "random-waypoint",
        "width_m": 500,
        "height_m": 500,
        "speed_min_mps": speed_mps / 2,
        "speed_max_mps": speed_mps,
    }
    scope = {"box_m": [120, 120], "at": "anywhere"}
    return scenario(
        [{"name": "h", "count": 40, "mobility": way, "attributes": {"value": {"integer": [0, 9]}}}],
        seconds=30,
        area_m=[500, 500],
        subscribe=[
            {
                "by": "h",
                "share": 0.4,
                "subject": "x",
                "every_s": 12,
                "first_s": 6,
                "lifetime_s": [12],
                "interest": scope,
                "publishers": {"filter": "value < 8", "share": 0.5},
            }
        ],
        publish=[
            {
                "by": "h",
                "share": 0.3,
                "subject": "x",
                "every_s": 4,
                "first_s": 8,
                "until_s": 26,
                "lifetime_s": [0, 4],
                "relevance": scope,
                "audience": {"filter": "value > 1"},
            }
        ],
        checks=["no-duplicates"],
        **changes,
    )


def watched(world: dict[str, Any], seed: int) -> tuple[Run, Truth]:
    loaded, truth = scenario_from(world), Truth()
    run = Run(loaded, kit_of(loaded.protocol, loaded.radio), seed, watching=(truth,))
    for _ in run.world.run(loaded.end_us, LOOK_US):
        truth.look(run)
    run.check()
    return run, truth


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "speed_mps"), [(2, 15.0), (4, 30.0)])
def test_while_all_move_every_difference_from_the_definition_is_a_time_of_flight(seed: int, speed_mps: float) -> None:
    """C4, C6, C9: some things differ from what the ideal system delivers at once, and each of them is explained."""
    run, truth = watched(moving(speed_mps), seed)
    result = run.result()
    assert result.delivered > 50
    assert result.missed > 0
    assert result.unwanted > 0
    assert (truth.wrong(), truth.lost(run.now_us)) == ([], [])


@pytest.mark.slow
def test_what_loss_takes_is_not_explained_by_flight() -> None:
    """The proof that a match that is not delivered is found."""
    run, truth = watched(moving(15.0, faults={"loss": 0.85}) | {"seconds": 18}, 2)
    assert truth.lost(run.now_us) != []


def test_what_comes_after_its_flight_is_not_explained_by_it() -> None:
    """The proof that a wrong delivery is found: a right one, told to have happened later."""
    _, truth = watched(moving(15.0) | {"seconds": 12}, 2)
    pair = next(iter(truth.delivered_us))
    truth.delivered_us[pair] = truth.held_us[pair][-1] + FLIGHT_US + 2 * LOOK_US
    assert truth.wrong() == [pair]
