"""Single experiments: those that are exact hold every claim, and what others are given is what the papers say."""

import tomllib
from pathlib import Path
from random import Random

import pytest

from roamcast.experiments import steam_intersection as crossing
from roamcast.experiments import steam_queues as queueing
from roamcast.experiments.catalogue import EXPERIMENTS
from roamcast.experiments.chaos import TrialParams
from roamcast.experiments.example import NaiveTrial
from roamcast.experiments.experiment import Findings, Row
from roamcast.experiments.overlay_figures import peak_gain
from roamcast.experiments.rebeca_mobility import account_of
from roamcast.experiments.report import section_of
from roamcast.experiments.steam import only_sparse_and_far
from roamcast.experiments.steam_latency import Pair
from roamcast.model.values import Velocity
from roamcast.protocols.baseline.resubscribing import ResubscribingParams

EXACT = (
    "rebeca-blackout",
    "rebeca-tables",
    "rebeca-relocation",
    "rebeca-responsiveness",
    "rebeca-producers",
    "rebeca-naive",
    "overlay-hosts",
    "steam-groups",
)


def rows_of(name: str, runs: int = 1) -> list[Row]:
    experiment = EXPERIMENTS[name]
    return [
        Row(name, parameters, run, seed, experiment.measure(parameters, seed))
        for parameters in experiment.settings["quick"]
        for run in range(runs)
        for seed in [experiment.seed(parameters, run)]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_every_claim_of_an_exact_experiment_holds(name: str) -> None:
    """R3, R5, R6, O8, S7."""
    section = section_of(EXPERIMENTS[name], rows_of(name))
    assert [claim for claim in section.claims if not claim.holds] == []


def test_r6_the_account_of_a_trial_finds_what_a_naive_client_loses_and_doubles() -> None:
    trial = NaiveTrial(1, ResubscribingParams(unsubscribes=False), TrialParams(actions=60))
    trial.run()
    account = account_of(trial)
    assert account["wanted"] > 50
    assert account["lost"] > 0
    assert account["doubled"] > 0


def test_s13_vehicles_pass_the_light_in_the_green_phase_of_their_approach() -> None:
    entries = crossing.drawn_entries(3)
    given = tomllib.loads(Path("scenarios/steam-intersection-24h.toml").read_text(encoding="utf-8"))
    count = 0
    for key, entries_s in entries.items():
        _, approach, _, _, lane, _ = key.split(".")
        assert len(entries_s) == len(given["hosts"][int(approach)]["mobility"]["routes"][int(lane)]["entries_s"])
        count += len(entries_s)
        for entry_s in entries_s:
            assert entry_s > 0
            in_cycle_s = (entry_s + crossing.WAY_M / crossing.SPEED_MPS - crossing.BEGINS_S) % crossing.CYCLE_S
            assert (in_cycle_s <= 45.0) == (approach == "1")
    assert count == 72 + 102


@pytest.mark.slow
def test_s13_ten_minutes_of_the_intersection_save_95_percent_and_warn_in_time() -> None:
    section = section_of(EXPERIMENTS["steam-intersection"], rows_of("steam-intersection"))
    assert [claim for claim in section.claims if not claim.holds] == []


def test_s13_a_pattern_of_partitions_that_differs_from_the_papers_is_found() -> None:
    def row(scenario: str, saturation: int, radius_m: int, missed: float) -> Row:
        given = {"scenario": scenario, "saturation": saturation, "radius_m": radius_m}
        return Row("steam-placement", given, 0, 1, {"missed": missed})

    as_published = [row(name, 60, 400, 1.0) for name in "CDE"] + [row("A", 60, 700, 0.0)]
    assert only_sparse_and_far(Findings(as_published)).holds
    for other in (row("A", 60, 700, 1.0), row("C", 120, 700, 1.0), row("C", 60, 300, 1.0)):
        assert not only_sparse_and_far(Findings([*as_published, other])).holds


def test_s13_latencies_are_taken_of_events_that_arrive() -> None:
    pair = Pair(announcements=3, subscribers=2, subscriptions=4)
    pair.turn()
    assert len(pair.raising_ns) == len(pair.delivering_ns) > 0


def test_o8_the_largest_gain_compares_times_of_one_run_and_averages_runs() -> None:
    found = [
        Row("overlay-clients", {"approach": approach}, run, 1, {f"{approach}@0": 5.0, f"{approach}@10": hops})
        for run, gain in ((0, 4.0), (1, 6.0))
        for approach, hops in (("static", 9.0), ("both", 9.0 - gain))
    ]
    assert peak_gain(Findings(found)) == 5.0


@pytest.mark.skipif(bool(queueing.missing()), reason=queueing.missing())
def test_s13_sumo_drives_vehicles_that_wait_at_red_and_pass_at_green(tmp_path: Path) -> None:
    queueing.build(tmp_path)
    queueing.draw_vehicles(tmp_path, 300, Random(1))
    seen = list(queueing.driven(tmp_path, 300, 1))
    through = {each.vehicle for each in seen if not each.inbound}
    stopped = {each.vehicle for each in seen if each.inbound and each.context.velocity == Velocity(0, 0)}
    assert len(through) > 20
    assert stopped & through
