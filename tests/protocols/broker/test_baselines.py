"""The naive solutions lose, double and black out (R6): the checks that ours pass can fail."""

import pytest

from roamcast.experiments.chaos import SETTLES_S, Failure, Trial, TrialParams
from roamcast.node.boundary import Node
from roamcast.node.codec import Codec
from roamcast.node.kit import Seat
from roamcast.protocols.baseline.resubscribing import (
    MESSAGES,
    ResubscribingBroker,
    ResubscribingClient,
    ResubscribingParams,
)
from roamcast.protocols.broker.logical.params import LogicalParams
from roamcast.protocols.broker.params import BrokerParams
from tests.protocols.broker.walks import Example

T_D_MS = 45
"""One way from the client to the producer's broker: 15 + 20 + 10 ms."""
DELAYS_MS = (30, 40, 20)


class Naive:
    """In the place of our brokers and clients; everything else of a trial stays."""

    naive: ResubscribingParams

    def _node(self, seat: Seat) -> Node:
        if seat.host in self.brokers:  # type: ignore[attr-defined]
            return ResubscribingBroker(self.naive, seat.rng.getrandbits(32))
        return ResubscribingClient(seat.host, self.naive, seat.space, getattr(self, "graph", None))


class NaiveTrial(Naive, Trial):
    def __init__(self, seed: int, params: ResubscribingParams) -> None:
        self.naive = params
        super().__init__(seed, BrokerParams(), TrialParams(actions=60))
        self.world.codec = Codec(MESSAGES)


class NaiveExample(Naive, Example):
    def __init__(self, params: ResubscribingParams) -> None:
        self.naive = params
        super().__init__(DELAYS_MS, LogicalParams())
        self.world.codec = Codec(MESSAGES)


def complaint_of(trial: Trial) -> str:
    trial.run()
    with pytest.raises(Failure) as failure:
        trial.check()
    return str(failure.value)


@pytest.mark.parametrize("unsubscribes", [True, False])
@pytest.mark.parametrize("routing", ["flooding", "simple"])
def test_r6_resubscribing_fails_every_random_trial(unsubscribes: bool, routing: str) -> None:
    params = ResubscribingParams(routing=routing, unsubscribes=unsubscribes)  # type: ignore[arg-type]
    for seed in range(2):
        assert "twice" in (words := complaint_of(NaiveTrial(seed, params))) or "never got" in words


def two_brokers(unsubscribes: bool) -> NaiveTrial:
    """C1 publishes at B0, C0 is subscribed there, and B6 is far away; everything is flooded (figure 2)."""
    trial = NaiveTrial(4, ResubscribingParams(routing="flooding", unsubscribes=unsubscribes))
    trial.pass_s(1)
    trial.move("C1", "B0")
    trial.move("C0", "B0")
    trial.subscribe("C0", "TRUE")
    trial.pass_s(SETTLES_S)
    return trial


def test_r6_figure_2_what_reaches_the_old_broker_and_the_new_one_arrives_twice() -> None:
    trial = two_brokers(unsubscribes=False)
    trial.hang_on_two("C0", "B6")
    trial.pass_s(0.011)
    trial.publish("C1")
    trial.pass_s(SETTLES_S)
    with pytest.raises(Failure, match="twice"):
        trial.check()


def test_r6_figure_2_what_has_passed_the_new_broker_before_the_client_came_is_lost() -> None:
    trial = two_brokers(unsubscribes=True)
    trial.move("C0", None)
    trial.publish("C1")
    trial.pass_s(1)
    trial.move("C0", "B6")
    trial.pass_s(SETTLES_S)
    with pytest.raises(Failure, match="never got"):
        trial.check()


def blackout_ms(example: Example) -> float:
    """C0 moves to b. How long after that does it get the first event for b that has left the producer's broker since?

    C1 publishes for b every millisecond, and is as far away from its broker: what it publishes now leaves there when
    C0 has moved.
    """
    subscription = example.begin("a")
    example.publish("C1", {"place": "b"})
    example.pass_s(0.001)
    moved_us = example.world.kernel.now_us
    example.stand("C0", "b")
    for _ in range(200):
        example.publish("C1", {"place": "b"})
        example.pass_s(0.001)
    first = example.ledger.got[subscription][0]
    return (example.arrivals.at_us[subscription, first] - moved_us) / 1_000


def test_r6_figure_3_resubscribing_for_a_new_place_blacks_out_for_twice_the_delay() -> None:
    assert blackout_ms(NaiveExample(ResubscribingParams(location="resubscribe"))) == 2 * T_D_MS


def test_r6_figure_3_flooding_with_filtering_at_the_client_blacks_out_for_the_delay_alone() -> None:
    params = ResubscribingParams(routing="flooding", location="flood")
    assert blackout_ms(NaiveExample(params)) == T_D_MS


def test_r4_logical_mobility_is_as_fast_as_flooding() -> None:
    assert blackout_ms(Example(DELAYS_MS, LogicalParams())) == T_D_MS


def test_r5_logical_mobility_without_steps_is_as_slow_as_resubscribing() -> None:
    assert blackout_ms(Example(DELAYS_MS, LogicalParams(steps=0))) == 2 * T_D_MS
