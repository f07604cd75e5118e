"""The commands about brokers (R2, R3)."""

import pytest

from roamcast.experiments.chaos import Failure
from roamcast.experiments.trials import TRIALS
from tests.cli.test_commands import invoke


def test_r2_routes_shows_what_neighbours_want_and_are_asked_for() -> None:
    code, output = invoke("routes", "scenarios/roaming.toml", "--at", "20", "--broker", "broker-2")
    assert code == 0
    assert "neighbour broker-" in output
    assert "offers/#: price < 30" in output


def test_routes_of_a_protocol_without_brokers_says_so() -> None:
    code, output = invoke("routes", "scenarios/town.toml", "--at", "1")
    assert code == 2
    assert "no brokers" in output


def test_r3_chaos_runs_trials_and_counts_them() -> None:
    code, output = invoke("chaos", "--seeds", "2", "--jobs", "1")
    assert code == 0
    assert "2 of 2 trials held" in output


def test_chaos_says_which_trials_there_are() -> None:
    code, output = invoke("chaos", "nonsense")
    assert code == 2
    assert "roaming" in output


def test_chaos_names_the_seeds_that_fail_and_how_to_repeat_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(seed: int) -> None:
        raise Failure("it did not hold")

    monkeypatch.setitem(TRIALS, "roaming", fails)
    code, output = invoke("chaos", "--seeds", "1", "--first", "7", "--jobs", "1")
    assert code == 1
    assert "seed 7: it did not hold" in output
    assert "--first 7" in output
