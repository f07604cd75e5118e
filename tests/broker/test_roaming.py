"""Roaming clients get everything, once, in sender order, under every routing strategy (R3)."""

from typing import Any

import pytest
from msgspec.structs import replace

from roamcast.broker.broker import Broker
from roamcast.broker.client import Client
from roamcast.broker.messages import Attach, Numbered, Sub
from roamcast.broker.params import BrokerParams
from roamcast.broker.routing import Strategy
from roamcast.model.subscription import Subscription
from roamcast.node.boundary import Does, Input, Node, Send, Subscribe
from roamcast.node.kit import Seat
from roamcast.papers import trials
from roamcast.papers.chaos import Failure, Trial, TrialParams, try_seed
from tests.effort import seeds

STRATEGIES: tuple[Strategy, ...] = ("flooding", "simple", "identity", "covering", "merging")
SHORT = TrialParams(actions=90)
CRASHES = TrialParams(actions=90, crashes=True)


@pytest.mark.parametrize("strategy", STRATEGIES)
@seeds(10)
def test_r3_random_moves_lose_and_double_nothing_keep_order_and_leave_nothing(seed: int, strategy: Strategy) -> None:
    try_seed(seed, BrokerParams(routing=strategy), SHORT)


@pytest.mark.parametrize("strategy", ["simple", "covering"])
@pytest.mark.parametrize("seed", [2, 44, 50, 51])
def test_r3_a_replay_in_many_pieces_is_not_given_up_when_others_have_nothing(seed: int, strategy: Strategy) -> None:
    """Whoever was asked and found nothing may answer between the first piece and the last."""
    try_seed(seed, BrokerParams(routing=strategy, replay_events_max=2), SHORT)


@pytest.mark.slow
def test_r3_who_leaves_and_returns_in_the_middle_of_a_replay_gets_the_piece_that_came_meanwhile() -> None:
    trials.logical(9_100_336)


class Forgetful(Client):
    """Never says what it has got: whatever is replayed it gets twice."""

    def _take(self, now_us: int, numbered: Numbered, sender: str) -> list[Does]:
        effects = super()._take(now_us, numbered, sender)
        self.last = 0
        self.marks.clear()
        return [each for each in effects if not isinstance(each, Send)]


class Careless(Client):
    """Acknowledges what it never got."""

    def _take(self, now_us: int, numbered: Numbered, sender: str) -> list[Does]:
        effects = super()._take(now_us, numbered, sender)
        self.last = numbered.number + 3
        return effects


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Forgetful, Careless])
def test_the_trial_fails_for_clients_that_do_not_follow_the_protocol(kind: type[Client]) -> None:
    def make(seat: Seat) -> Client:
        return kind(seat.host, BrokerParams(), seat.space, seat.graph)

    failed = 0
    for seed in range(3):
        trial = Trial(seed, BrokerParams(), SHORT, make)
        trial.run()
        try:
            trial.check()
        except Failure:
            failed += 1
    assert failed == 3


class Doubtful(Client):
    """Does not remember which events it has of whom: what is published again after a crash it gets twice."""

    def _is_new(self, publisher: str, serial: int) -> bool:
        return True


class Silent(Broker):
    """Does not tell a neighbour that has crashed where it saw clients last."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.handover.met = lambda peer: []  # type: ignore[method-assign]


class SilentTrial(Trial):
    def _node(self, seat: Seat) -> Node:
        node = super()._node(seat)
        if isinstance(node, Broker):
            self.nodes[seat.host] = node = Silent(seat.host, self.broker_params, seat.rng.getrandbits(32))
        return node


@pytest.mark.parametrize("strategy", STRATEGIES)
@seeds(4)
def test_r3_crashing_brokers_lose_only_what_they_had_and_double_nothing(seed: int, strategy: Strategy) -> None:
    trial = Trial(100 + seed, BrokerParams(routing=strategy), CRASHES)
    trial.run()
    trial.check()
    assert trial.crashes_us
    assert trial.required > 200
    trial.leave()


def complaints(kind: type[Trial], client: type[Client], seeds: range, given: TrialParams = CRASHES) -> list[str]:
    params = BrokerParams()
    found = []
    for seed in seeds:
        trial = kind(seed, params, given, lambda seat: client(seat.host, params, seat.space, seat.graph))
        trial.run()
        try:
            trial.check()
            trial.leave()
        except Failure as failure:
            found.append(str(failure))
    return found


def test_the_trial_fails_for_clients_that_take_an_event_again_after_a_crash() -> None:
    assert any("twice" in words for words in complaints(Trial, Doubtful, range(46, 47)))


@pytest.mark.slow
def test_the_trial_fails_for_brokers_that_leave_a_crashed_neighbour_without_arrows() -> None:
    found = complaints(SilentTrial, Client, range(20))
    assert any("never got" in words or "replay_missing" in words for words in found)


class Stubborn(Client):
    """Tells brokers the first filter of a subscription only, whatever comes in its place."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.first: dict[str, Subscription] = {}

    def handle(self, now_us: int, given: Input) -> list[Does]:
        if isinstance(given, Subscribe):
            self.first.setdefault(given.subscription.id, given.subscription)
        told = super().handle(now_us, given)
        return [
            Send(each.to, Sub(self.first[each.message.subscription.id]))
            if isinstance(each, Send) and isinstance(each.message, Sub)
            else each
            for each in told
        ]

    def _told(self, now_us: int, attach: Attach) -> Attach:
        return replace(attach, subscriptions=tuple(self.first[each.id] for each in (attach.subscriptions or ())))


def test_the_trial_fails_for_clients_that_do_not_tell_that_a_filter_has_changed() -> None:
    assert any("never got" in words for words in complaints(Trial, Stubborn, range(2), SHORT))


def test_a_buffer_that_is_too_small_loses_events_and_says_so() -> None:
    trial = Trial(5, BrokerParams(counterpart_events_max=2), SHORT)
    trial.run()
    with pytest.raises(Failure):
        trial.check()
    assert trial.ledger.notes["events_lost"] > 0
