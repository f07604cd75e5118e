"""Roaming clients get everything, once, in sender order, under every routing strategy (R3)."""

import pytest

from roamcast.experiments.chaos import Failure, Trial, TrialParams, try_seed
from roamcast.node.boundary import Does, Send
from roamcast.node.kit import Seat
from roamcast.protocols.broker.client import Client
from roamcast.protocols.broker.messages import Numbered
from roamcast.protocols.broker.params import BrokerParams
from roamcast.protocols.broker.routing import Strategy

STRATEGIES: tuple[Strategy, ...] = ("flooding", "simple", "identity", "covering", "merging")
SHORT = TrialParams(actions=90)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(10))
def test_r3_random_moves_lose_and_double_nothing_keep_order_and_leave_nothing(seed: int, strategy: Strategy) -> None:
    try_seed(seed, BrokerParams(routing=strategy), SHORT)


class Forgetful(Client):
    """Never says what it has got: whatever is replayed it gets twice."""

    def _take(self, now_us: int, numbered: Numbered, sender: str) -> list[Does]:
        effects = super()._take(now_us, numbered, sender)
        self.last = 0
        return [each for each in effects if not isinstance(each, Send)]


class Careless(Client):
    """Acknowledges what it never got."""

    def _take(self, now_us: int, numbered: Numbered, sender: str) -> list[Does]:
        effects = super()._take(now_us, numbered, sender)
        self.last = numbered.number + 3
        return effects


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


def test_a_buffer_that_is_too_small_loses_events_and_says_so() -> None:
    trial = Trial(5, BrokerParams(counterpart_events_max=2), SHORT)
    trial.run()
    with pytest.raises(Failure):
        trial.check()
    assert trial.ledger.notes["events_lost"] > 0
