"""What applications do in a scenario, and when: at which starts of their hosts, and how many of them."""

from typing import Any

import pytest

from roamcast.model.event import Announcement
from roamcast.model.subscription import Subscription
from roamcast.model.values import BadValue
from roamcast.node.observer import Observer
from roamcast.node.port import Port
from roamcast.papers.assemble import kit_of
from roamcast.sim.amounts import share_of
from roamcast.sim.run import Run
from roamcast.sim.scenario import scenario_from
from tests.sim.worlds import SmallWorld

STATIC = {"kind": "static", "placement": {"kind": "at", "points": [[0, 0]]}}
RETURNING = {
    "kind": "road",
    "length_m": 50,
    "speed_mps": [10],
    "westbound_lanes": 0,
    "at_end": "reenter",
    "away_s": 3,
}
LATE = {"kind": "routes", "routes": [{"name": "r", "points": [[0, 0], [400, 0]], "speed_mps": 9, "entries_s": [4]}]}


class Said(Observer):
    def __init__(self) -> None:
        self.subscribed_s: list[float] = []
        self.lives_until_s: list[float] = []
        self.announced_s: list[float] = []

    def subscribed(self, now_us: int, host: str, subscription: Subscription) -> None:
        self.subscribed_s.append(now_us / 1e6)
        self.lives_until_s.append((now_us + subscription.expires_us - subscription.issued_us) / 1e6)

    def announced(self, now_us: int, host: str, announcement: Announcement) -> None:
        self.announced_s.append(now_us / 1e6)


def said_by(mobility: dict[str, Any], rule: dict[str, Any], faults: dict[str, Any] | None = None) -> Said:
    given = {
        "name": "starts",
        "seconds": 20,
        "protocol": {"kind": "flooding"},
        "radio": {"kind": "unit-disk", "range_m": 100},
        "hosts": [{"name": "a", "mobility": mobility}],
        "publish": [{"by": "a", "subject": "y", "every_s": 50, "first_s": 19, "announce": rule.pop("announce", {})}],
        "subscribe": [{"by": "a", "subject": "x", **rule}],
        "faults": faults or {},
    }
    scenario = scenario_from(given)
    run, said = Run(scenario, kit_of(scenario.protocol), 1), Said()
    run.world.bodies[0].host.observers = (*run.world.bodies[0].host.observers, said)
    run.world.observers = (*run.world.observers, said)
    for _ in run.steps():
        pass
    return said


CRASH = {"crash": [{"host": "a", "at_s": 6, "restart_s": 8}]}


@pytest.mark.parametrize(
    ("mobility", "rule", "faults", "expected_s"),
    [
        (STATIC, {}, {}, [0]),
        (STATIC, {"first_s": 3}, {}, [3]),
        (STATIC, {}, CRASH, [0, 8]),
        (STATIC, {"first_s": 3}, CRASH, [3, 8]),
        (STATIC, {"first_s": 7}, CRASH, [8]),
        (STATIC, {"first_s": 9}, CRASH, [9]),
        (LATE, {}, {}, [4]),
        (LATE, {"first_s": 6}, {}, [6]),
        (RETURNING, {}, {}, [0, 8, 16]),
        (RETURNING, {"first_s": 6}, {}, [8, 16]),
        (STATIC, {"every_s": 5, "first_s": 2}, CRASH, [2, 12, 17]),
    ],
)
def test_a_rule_that_subscribes_once_does_so_at_each_start_of_its_host(
    mobility: dict[str, Any], rule: dict[str, Any], faults: dict[str, Any], expected_s: list[float]
) -> None:
    """A host that comes late, returns or restarts wants what it wanted; with a period it waits for its next turn."""
    assert said_by(mobility, dict(rule), faults).subscribed_s == expected_s


def test_an_announcement_is_made_again_at_each_start() -> None:
    """S3: whoever restarts has forgotten it."""
    assert said_by(STATIC, {"announce": {"first_s": 2}}, CRASH).announced_s == [2, 8]
    assert said_by(RETURNING, {"announce": {"first_s": 2}}).announced_s == [2, 8, 16]


def test_a_subscription_for_the_whole_run_lasts_to_its_end_whatever_the_clock_says() -> None:
    assert said_by(STATIC, {"first_s": 3}, {"clock_offset_ms": 3_000}).lives_until_s == [20]


@pytest.mark.parametrize(
    ("share", "count", "expected"),
    [(0, 10, 0), (0.01, 10, 1), (0.2, 2, 1), (0.5, 100, 50), (1, 3, 3), (0.999, 3, 3), (0.3, 0, 0)],
)
def test_a_share_above_zero_is_somebody(share: float, count: int, expected: int) -> None:
    assert share_of(share, count) == expected


@pytest.mark.parametrize("seconds", [0, -1, 0.0009, float("inf"), float("nan")])
def test_an_application_cannot_do_something_without_pause(seconds: float) -> None:
    """A period of 0 would never let time go on."""
    refused: list[str] = []

    class Restless:
        def start(self, port: Port) -> None:
            with pytest.raises(BadValue, match="give a period of at least"):
                port.every(seconds, lambda: None)
            refused.append(port.host)

    SmallWorld({"a": (0, 0)}, applications={"a": Restless}).run(1)
    assert refused == ["a"]
