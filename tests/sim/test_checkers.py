"""Each checker passes a good run and fails a bad one, with the seed."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from roamcast.adhoc.flooding import MESSAGES, AdhocFlooding, Flooded, FloodingParams
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import Deliver, Does, Input, Received, Subscribe, Unsubscribe
from roamcast.node.codec import Codec
from roamcast.node.kit import ProtocolKit
from roamcast.sim.checkers import CheckFailed
from roamcast.sim.run import Run, run_scenario
from roamcast.sim.scenario import scenario_from

Twist = Callable[["Twisted", int, Input, list[Does]], list[Does]]


class Twisted(AdhocFlooding):
    """Flooding with one thing done wrong."""

    def __init__(self, twist: Twist) -> None:
        super().__init__(FloodingParams(forward_jitter_ms=5))
        self.twist = twist
        self.kept: list[Event] = []
        self.held: list[tuple[int, Deliver]] = []
        self.ended: dict[str, Subscription] = {}

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


def delivers_what_nobody_published(node: Twisted, now_us: int, given: Input, does: list[Does]) -> list[Does]:
    return [
        Deliver(replace(each.event, id="mine"), each.subscription_id) if isinstance(each, Deliver) else each
        for each in does
    ]


def remembers_for_ever(node: Twisted, now_us: int, given: Input, does: list[Does]) -> list[Does]:
    """Never forgets a subscription that it was told to end."""
    if isinstance(given, Unsubscribe):
        node.subscriptions[given.subscription_id] = node.ended[given.subscription_id]
    elif isinstance(given, Subscribe):
        node.ended[given.subscription.id] = given.subscription
    return does


def delivers_when_it_has_expired(node: Twisted, now_us: int, given: Input, does: list[Does]) -> list[Does]:
    """Holds everything back for more than the second that an event lives."""
    result: list[Does] = [each for each in does if not isinstance(each, Deliver)]
    node.held += [(now_us, each) for each in does if isinstance(each, Deliver)]
    while node.held and node.held[0][0] < now_us - 1_100_000:
        result.append(node.held.pop(0)[1])
    return result


def scenario_with(check: str, **changes: Any) -> dict[str, Any]:
    line = {"kind": "line", "start": [0, 0], "end": [400, 0]}
    return {
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
        **changes,
    }


def kit_with(twist: Twist) -> ProtocolKit:
    return ProtocolKit(Codec(MESSAGES), lambda _: Twisted(twist))


def run_with(twist: Twist, check: str, **changes: Any) -> None:
    run_scenario(scenario_from(scenario_with(check, **changes)), kit_with(twist), seed=5)


@pytest.mark.parametrize("check", ["no-duplicates", "only-matching", "sender-order", "complete"])
def test_a_correct_protocol_passes_every_check(check: str) -> None:
    run_with(as_it_should_be, check)


@pytest.mark.parametrize(
    ("check", "twist", "complaint"),
    [
        ("no-duplicates", delivers_twice, "was delivered twice"),
        ("only-matching", ignores_the_audience, "does not match"),
        ("only-matching", delivers_to_a_stranger, "never subscribed"),
        ("only-matching", delivers_what_nobody_published, "nobody published it"),
        ("only-matching", delivers_when_it_has_expired, "does not match"),
        ("sender-order", swaps_neighbours, "which was published later"),
        ("complete", forgets_a_delivery, "never reached"),
    ],
)
def test_each_check_fails_the_run_that_breaks_it_and_names_the_seed(check: str, twist: Twist, complaint: str) -> None:
    with pytest.raises(CheckFailed, match=complaint) as failure:
        run_with(twist, check)
    assert failure.value.check == check
    assert "seed 5" in str(failure.value)


WRONG_CLOCKS = {"clock_offset_ms": 3_000}
INSTANTANEOUS = {"by": "h", "share": 0.2, "subject": "x", "every_s": 1, "until_s": 18, "first_s": 7}
NEAR = {"circle_m": 250, "at": "with-me"}


def test_wrong_clocks_do_not_fail_what_matches_and_do_not_hide_what_does_not() -> None:
    """C6 by true time, whatever the hosts' clocks say."""
    rules = {"publish": [{**INSTANTANEOUS, "audience": NEAR}], "faults": WRONG_CLOCKS}
    run_with(as_it_should_be, "only-matching", **rules)
    with pytest.raises(CheckFailed, match="does not match"):
        run_with(ignores_the_audience, "only-matching", **rules)


@pytest.mark.parametrize("offset_us", [-3_000_000, 3_000_000])
def test_an_event_lives_from_when_it_was_really_published(offset_us: int) -> None:
    """C3: a publisher whose clock is three seconds slow or fast may deliver to itself for as long as it said."""
    scenario = scenario_from(scenario_with("only-matching"))
    run = Run(scenario, kit_with(as_it_should_be), 5)
    for body in run.world.bodies:
        body.host.clock_offset_us = offset_us
    for _ in run.steps():
        pass
    result = run.finish()
    assert (result.missed, result.unwanted) == (0, 0)
    assert result.delivered > 15
    assert result.latency_p99_ms is not None
    assert 0 <= result.latency_p99_ms < 100


def ends_at(twist: Twist, at_s: float, last_s: float) -> None:
    """Everybody ends every subscription at `at_s`; the last event comes at `last_s`."""
    rule = {"by": "h", "subject": "x", "every_s": 0.4, "first_s": 1, "until_s": last_s}
    scenario = scenario_from(scenario_with("only-matching", publish=[rule], seconds=6))
    run = Run(scenario, kit_with(twist), 5)
    for host in run.world.by_name:
        run.world.kernel.at(round(at_s * 1e6), run.world.give, host, Unsubscribe(f"{host}:s0.1"))
    for _ in run.steps():
        pass
    assert run.result().delivered > 0


def test_a_delivery_after_the_end_of_a_subscription_fails_unless_it_was_on_its_way() -> None:
    """R1: what was sent before may still come."""
    ends_at(as_it_should_be, at_s=3, last_s=5)
    ends_at(remembers_for_ever, at_s=3, last_s=3.9)
    with pytest.raises(CheckFailed, match="which had ended at 3"):
        ends_at(remembers_for_ever, at_s=3, last_s=5)
