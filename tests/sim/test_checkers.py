"""Each checker passes a good run and fails a bad one, with the seed."""

from collections.abc import Callable
from typing import Any

import pytest

from roamcast.model.event import Event
from roamcast.node.boundary import Deliver, Does, Input, Received
from roamcast.node.codec import Codec
from roamcast.protocols.baseline.flooding import MESSAGES, AdhocFlooding, Flooded, FloodingParams
from roamcast.sim.checkers import CheckFailed
from roamcast.sim.run import ProtocolKit, run_scenario
from roamcast.sim.scenario import scenario_from

Twist = Callable[["Twisted", int, Input, list[Does]], list[Does]]


class Twisted(AdhocFlooding):
    """Flooding with one thing done wrong."""

    def __init__(self, twist: Twist) -> None:
        super().__init__(FloodingParams(forward_jitter_ms=5))
        self.twist = twist
        self.kept: list[Event] = []

    def handle(self, now_us: int, given: Input) -> list[Does]:
        return self.twist(self, now_us, given, super().handle(now_us, given))


def as_it_should_be(node: Twisted, now_us: int, given: Input, does: list[Does]) -> list[Does]:
    return does


def delivers_twice(node: Twisted, now_us: int, given: Input, does: list[Does]) -> list[Does]:
    return [each for effect in does for each in ([effect, effect] if isinstance(effect, Deliver) else [effect])]


def forgets_a_delivery(node: Twisted, now_us: int, given: Input, does: list[Does]) -> list[Does]:
    return [each for each in does if not (isinstance(each, Deliver) and each.event.id.endswith("3"))]


def ignores_the_audience(node: Twisted, now_us: int, given: Input, does: list[Does]) -> list[Does]:
    if isinstance(given, Received) and isinstance(given.message, Flooded):
        wanted = [Deliver(given.message.event, each) for each in node.subscriptions]
        return [*wanted, *[each for each in does if not isinstance(each, Deliver)]]
    return does


def swaps_neighbours(node: Twisted, now_us: int, given: Input, does: list[Does]) -> list[Does]:
    """Holds every other delivery back until the next one has gone out."""
    result: list[Does] = []
    for each in does:
        if not isinstance(each, Deliver):
            result.append(each)
        elif node.kept:
            result += [each, Deliver(node.kept.pop(), each.subscription_id)]
        else:
            node.kept.append(each.event)
    return result


def delivers_to_a_stranger(node: Twisted, now_us: int, given: Input, does: list[Does]) -> list[Does]:
    return [Deliver(each.event, "nobody") if isinstance(each, Deliver) else each for each in does]


def run_with(twist: Twist, check: str) -> None:
    line = {"kind": "line", "start": [0, 0], "end": [400, 0]}
    scenario: dict[str, Any] = {
        "name": "checked",
        "seconds": 20,
        "protocol": {"kind": "flooding"},
        "radio": {"kind": "unit-disk", "range_m": 150},
        "hosts": [{"name": "h", "count": 5, "mobility": {"kind": "static", "placement": line}}],
        "publish": [
            {
                "by": "h",
                "share": 0.2,
                "subject": "x",
                "every_s": 1,
                "lifetime_s": [1],
                "until_s": 18,
                "audience": {"circle_m": 250, "at": "with-me"},
            }
        ],
        "subscribe": [{"by": "h", "subject": "x"}],
        "checks": [check],
    }
    kit = ProtocolKit(Codec(MESSAGES), lambda _: Twisted(twist))
    run_scenario(scenario_from(scenario), kit, seed=5)


@pytest.mark.parametrize("check", ["no-duplicates", "only-matching", "sender-order", "complete"])
def test_a_correct_protocol_passes_every_check(check: str) -> None:
    run_with(as_it_should_be, check)


@pytest.mark.parametrize(
    ("check", "twist", "complaint"),
    [
        ("no-duplicates", delivers_twice, "was delivered twice"),
        ("only-matching", ignores_the_audience, "does not match"),
        ("only-matching", delivers_to_a_stranger, "never subscribed"),
        ("sender-order", swaps_neighbours, "which was published later"),
        ("complete", forgets_a_delivery, "never reached"),
    ],
)
def test_each_check_fails_the_run_that_breaks_it_and_names_the_seed(check: str, twist: Twist, complaint: str) -> None:
    with pytest.raises(CheckFailed, match=complaint) as failure:
        run_with(twist, check)
    assert failure.value.check == check
    assert "seed 5" in str(failure.value)
