"""The naive solutions lose, double and black out (R6): the checks that ours pass can fail."""

import pytest

from roamcast.broker.logical.params import LogicalParams
from roamcast.broker.resubscribing import ResubscribingParams
from roamcast.papers.chaos import SETTLES_S, Failure, Trial, TrialParams
from roamcast.papers.example import Example, NaiveExample, NaiveTrial

T_D_MS = 45
"""One way from the client to the producer's broker: 15 + 20 + 10 ms."""
DELAYS_MS = (30, 40, 20)
SHORT = TrialParams(actions=60)


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
        assert "twice" in (words := complaint_of(NaiveTrial(seed, params, SHORT))) or "never got" in words


def two_brokers(unsubscribes: bool) -> NaiveTrial:
    """C1 publishes at B0, C0 is subscribed there, and B6 is far away; everything is flooded (figure 2)."""
    trial = NaiveTrial(4, ResubscribingParams(routing="flooding", unsubscribes=unsubscribes), SHORT)
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


def test_r6_figure_3_resubscribing_for_a_new_place_blacks_out_for_twice_the_delay() -> None:
    assert NaiveExample(DELAYS_MS, ResubscribingParams(location="resubscribe")).blackout_ms() == 2 * T_D_MS


def test_r6_figure_3_flooding_with_filtering_at_the_client_blacks_out_for_the_delay_alone() -> None:
    params = ResubscribingParams(routing="flooding", location="flood")
    assert NaiveExample(DELAYS_MS, params).blackout_ms() == T_D_MS


def test_r4_logical_mobility_is_as_fast_as_flooding() -> None:
    assert Example(DELAYS_MS, LogicalParams()).blackout_ms() == T_D_MS


def test_r5_logical_mobility_without_steps_is_as_slow_as_resubscribing() -> None:
    assert Example(DELAYS_MS, LogicalParams(steps=0)).blackout_ms() == 2 * T_D_MS
