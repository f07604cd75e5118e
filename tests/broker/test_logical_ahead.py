"""Brokers that subscribe ahead for a client that may come (R7): sooner, and still everything once and in order."""

import pytest

from roamcast.broker.client import Client
from roamcast.broker.logical.params import AheadParams
from roamcast.broker.messages import Early
from roamcast.broker.params import BrokerParams
from roamcast.broker.routing import Strategy
from roamcast.model.values import Value
from roamcast.node.boundary import Does
from roamcast.papers.chaos import Failure, Trial, TrialParams, try_seed
from roamcast.papers.chaos_logical import try_logical_seed
from tests.broker.lines import Line
from tests.broker.walks import Spoken

STRATEGIES: tuple[Strategy, ...] = ("flooding", "simple", "identity", "covering", "merging")
BROKERS = [f"B{index}" for index in range(7)]
ANYWHERE = AheadParams({broker: tuple(each for each in BROKERS if each != broker) for broker in BROKERS})
PRICE: dict[str, Value] = {"price": 1, "kind": "a"}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_r7_random_moves_between_brokers_that_subscribe_ahead_lose_nothing_and_leave_nothing(
    strategy: Strategy,
) -> None:
    for seed in range(2):
        try_seed(20 + seed, BrokerParams(routing=strategy, ahead=ANYWHERE), TrialParams(actions=70))


class Forgetful(Client):
    """Does not remember what came early."""

    def _take_early(self, now_us: int, early: Early, sender: str) -> list[Does]:
        before = dict(self.marks)
        effects = super()._take_early(now_us, early, sender)
        self.marks = before
        return effects


def test_r7_the_check_fails_for_clients_that_forget_what_came_early() -> None:
    params = BrokerParams(ahead=ANYWHERE)
    trial = Trial(
        20, params, TrialParams(actions=70), lambda seat: Forgetful(seat.host, params, seat.space, seat.graph)
    )
    trial.run()
    with pytest.raises(Failure, match="twice"):
        trial.check()


@pytest.mark.slow
def test_r7_clients_that_walk_too_lose_nothing_and_leave_nothing() -> None:
    try_logical_seed(5, BrokerParams(ahead=ANYWHERE), TrialParams(actions=70))


def moving(ahead: AheadParams) -> tuple[Line, str, Spoken]:
    """C1 is at the first broker of a line, C0 publishes at the last, to which C1 will come."""
    line = Line(6, 2, BrokerParams(ahead=ahead))
    spoken = Spoken()
    line.world.observers = (*line.world.observers, spoken)
    line.pass_s(1)
    line.move("C0", "B5")
    line.move("C1", "B0")
    subscription = line.subscribe("C1", "price < 5")
    line.pass_s(5)
    return line, subscription, spoken


def waits_ms(ahead: AheadParams) -> float:
    """How long after the move the client has the first event that was published while it was on its way."""
    line, subscription, _ = moving(ahead)
    line.move("C1", None)
    line.publish("C0", PRICE)
    line.pass_s(0.5)
    came_us = line.world.kernel.now_us
    line.move("C1", "B5")
    while not line.got(subscription):
        line.pass_s(0.000_1)
    return (line.world.kernel.now_us - came_us) / 1_000


def test_r7_what_was_published_during_the_move_is_there_at_once() -> None:
    plain, ahead = waits_ms(AheadParams()), waits_ms(AheadParams({"B0": ("B5",)}))
    line = Line(6, 2)
    access_ms = line.world.links.between[("C1", "B5")].params.delay_ms
    assert ahead == pytest.approx(2 * access_ms, abs=0.2)
    between_ms = sum(line.world.links.between[each].params.delay_ms for each in line.tree)
    assert plain > 2 * between_ms


def test_r7_what_came_early_is_not_delivered_again_and_what_follows_is_in_order() -> None:
    line, subscription, spoken = moving(AheadParams({"B0": ("B5",)}))
    before = [line.publish("C0", PRICE) for _ in range(5)]
    line.pass_s(1)
    line.move("C1", None)
    during = [line.publish("C0", PRICE) for _ in range(5)]
    line.pass_s(0.5)
    line.move("C1", "B5")
    line.pass_s(0.02)
    after = [line.publish("C0", PRICE) for _ in range(5)]
    line.pass_s(5)
    assert line.got(subscription) == [*before, *during, *after]
    assert len(spoken.of("early")) >= 5


def test_r7_a_shadow_that_is_too_small_sends_nothing_early_and_nothing_is_lost() -> None:
    line, subscription, spoken = moving(AheadParams({"B0": ("B5",)}, events_max=3))
    line.move("C1", None)
    during = [line.publish("C0", PRICE) for _ in range(8)]
    line.pass_s(0.5)
    line.move("C1", "B5")
    line.pass_s(5)
    assert line.got(subscription) == during
    assert spoken.of("early") == []


def test_r7_a_client_that_has_subscribed_anew_since_gets_nothing_early() -> None:
    line, _, spoken = moving(AheadParams({"B0": ("B5",)}))
    line.move("C1", None)
    line.publish("C0", PRICE)
    line.subscribe("C1", "TRUE")
    line.pass_s(0.5)
    line.move("C1", "B5")
    line.pass_s(5)
    assert spoken.of("early") == []


def test_r7_brokers_that_the_client_did_not_come_to_forget_it() -> None:
    line, _, _ = moving(AheadParams({"B0": ("B2", "B5")}))
    assert line.nodes["B2"].left()["shadows"] == line.nodes["B5"].left()["shadows"] == 1
    line.move("C1", "B5")
    line.pass_s(5)
    assert [line.nodes[each].left()["shadows"] for each in line.brokers] == [0] * 6


def test_r7_a_shadow_ends_after_its_time() -> None:
    line, _, _ = moving(AheadParams({"B0": ("B5",)}, age_s_max=20.0))
    line.pass_s(30)
    assert line.nodes["B5"].left()["shadows"] == 0
    assert line.ledger.notes["shadow_expired"] == 1


def test_r7_a_broker_that_has_crashed_prepares_anew_and_the_next_broker_keeps_events_again() -> None:
    line = Line(3, 2, BrokerParams(ahead=AheadParams(next_brokers={"B0": ("B2",)})))
    line.pass_s(1)
    line.move("C0", "B1")
    line.subscribe("C1", "price < 5")
    line.move("C1", "B0")
    line.pass_s(2)
    line.move("C1", None)
    line.world.crash("B0", keeps_disk=False)
    line.pass_s(0.1)
    line.world.restart("B0")
    line.pass_s(1)
    line.move("C1", "B0")
    line.pass_s(3)
    event = line.publish("C0", {"price": 1, "kind": "a"})
    line.pass_s(2)
    shadow = line.nodes["B2"].handover.shadows["C1"]  # type: ignore[attr-defined]
    assert [each.id for each, _ in shadow.events] == [event]
