"""The commands about brokers (R2, R3)."""

import json

import pytest

from roamcast.cli import brokers
from roamcast.papers.chaos import Failure
from roamcast.papers.trials import TRIALS
from tests.cli.test_commands import invoke


def test_r2_routes_shows_what_neighbours_want_and_are_asked_for() -> None:
    code, output = invoke("routes", "scenarios/roaming.toml", "--at", "20", "--broker", "broker-2")
    assert code == 0
    assert "neighbour broker-" in output
    assert "offers/#: price < 30" in output


def test_routes_of_a_protocol_without_brokers_says_so() -> None:
    code, output = invoke("routes", "scenarios/town.toml", "--at", "1")
    assert code == 2
    assert "scenarios/town.toml has no brokers" in output


def test_routes_of_a_broker_that_is_not_there_names_those_that_are() -> None:
    code, output = invoke("routes", "scenarios/roaming.toml", "--broker", "[bold]nobody")
    assert code == 2
    assert "no broker [bold]nobody in" in output
    assert "broker-1, broker-2" in output


@pytest.mark.parametrize("at", ["121", "-1", "nan"])
def test_routes_at_a_moment_that_the_run_does_not_have_says_how_long_it_takes(at: str) -> None:
    code, output = invoke("routes", "scenarios/roaming.toml", f"--at={at}")
    assert code == 2
    assert "the run takes 120 s" in output


def test_r2_routes_as_json_has_names_and_filters_as_text() -> None:
    code, output = invoke("routes", "scenarios/roaming.toml", "--at", "5", "--broker", "broker-2", "--json")
    assert code == 0
    (found,) = json.loads(output)
    wishes = [wish for neighbour in found["neighbours"] for wish in neighbour["asked"]]
    assert {wish["filter"] for wish in wishes} == {"price < 30"}


def test_o2_routes_of_an_overlay_as_json_has_its_rows_by_name() -> None:
    code, output = invoke("routes", "scenarios/overlay-clients.toml", "--at", "3", "--broker", "broker-1", "--json")
    assert code == 0
    (found,) = json.loads(output)
    assert found["broker"] == "broker-1"
    assert {"broker", "neighbours"} <= found["rows"][0].keys()


def test_r3_chaos_runs_trials_and_counts_them() -> None:
    code, output = invoke("chaos", "--seeds", "2", "--jobs", "1")
    assert code == 0
    assert "2 of 2 trials held" in output


def test_chaos_says_which_trials_there_are() -> None:
    code, output = invoke("chaos", "[red]nonsense")
    assert code == 2
    assert "unknown trials: '[red]nonsense'" in output
    assert "roaming" in output


def test_chaos_names_the_seeds_that_fail_and_how_to_repeat_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(seed: int) -> None:
        raise Failure("it did not hold")

    monkeypatch.setitem(TRIALS, "roaming", fails)
    code, output = invoke("chaos", "--seeds", "1", "--first", "7", "--jobs", "1", "--json")
    told = json.loads(output.splitlines()[-1])
    assert (code, told["held"], told["failed"]) == (1, 0, {"7": "it did not hold"})
    code, output = invoke("chaos", "--seeds", "1", "--first", "7", "--jobs", "1")
    assert code == 1
    assert "seed 7: it did not hold" in output
    assert "--first 7" in output


def test_the_help_of_chaos_names_all_trials() -> None:
    assert ", ".join(TRIALS) == brokers.TRIALS
