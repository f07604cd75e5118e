"""Single experiments: those that are exact hold every claim, and what others are given is what the papers say."""

import tomllib
from pathlib import Path
from random import Random

import pytest

from roamcast.broker.resubscribing import ResubscribingParams
from roamcast.model.movement import load_model
from roamcast.model.values import Velocity
from roamcast.papers import steam_intersection as crossing
from roamcast.papers import steam_queues as queueing
from roamcast.papers.catalogue import EXPERIMENTS
from roamcast.papers.chaos import TrialParams
from roamcast.papers.example import NaiveTrial
from roamcast.papers.experiment import Findings, Row
from roamcast.papers.mesh import Setting, closed_form, measure
from roamcast.papers.mesh_figures import follows_interval, half_a_trip_s, published
from roamcast.papers.mesh_learned import MODEL
from roamcast.papers.overlay_figures import peak_gain
from roamcast.papers.rebeca import as_flooding
from roamcast.papers.rebeca_mobility import account_of
from roamcast.papers.report import section_of
from roamcast.papers.steam import only_sparse_and_far
from roamcast.papers.steam_latency import DELIVERING_FILTERS, EVENTS_A_TURN, RAISING_FILTERS, Pair
from roamcast.papers.varied import folder

EXACT = (
    "rebeca-blackout",
    "rebeca-tables",
    "rebeca-relocation",
    "rebeca-catch-up",
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


def test_r6_deliveries_other_than_those_of_flooding_are_found() -> None:
    def row(kind: str, run: int, deliveries: float) -> Row:
        return Row("rebeca-logical", {"kind": kind, "seconds": 50}, run, 1, {"deliveries": deliveries})

    rows = [row("flooding", 0, 3.0), row("flooding", 1, 4.0), row("1s", 0, 3.0), row("1s", 1, 4.0)]
    judge = as_flooding("1s", "flooding")
    assert judge(Findings(rows)).holds
    assert not judge(Findings([*rows[:3], row("1s", 1, 5.0)])).holds
    assert not judge(Findings(rows[:3])).holds
    assert not judge(Findings([])).holds


def test_m9_savings_that_follow_the_interval_are_not_those_published() -> None:
    """A third and a half for k = 10 and 20 are held against what comes out for both intervals."""

    def rows(probing: dict[tuple[int, float], float]) -> Findings:
        given = [{"k": k, "interval_s": interval_s} for k, interval_s in probing]
        ours = [Row("mesh", {"kind": "predictive", **each}, 0, 1, {"overhead": 1.0}) for each in given]
        theirs = [
            Row("mesh", {"kind": "probing", **each}, 0, 1, {"overhead": overhead})
            for each, overhead in zip(given, probing.values(), strict=True)
        ]
        return Findings([*ours, *theirs])

    published_both = [published(10, "1/3", 100 / 3), published(20, "1/2", 50.0)]
    following = [follows_interval(k, interval_s) for k in (10, 20) for interval_s in (4.0, 8.0)]
    by_k = rows({(10, 4.0): 1.5, (10, 8.0): 1.5, (20, 4.0): 2.0, (20, 8.0): 2.0})
    by_interval = rows({(10, 4.0): 1.42, (10, 8.0): 1.84, (20, 4.0): 1.42, (20, 8.0): 1.84})
    assert all(claim.judge(by_k).holds for claim in published_both)
    assert not all(claim.judge(by_interval).holds for claim in published_both)
    assert all(claim.judge(by_interval).holds for claim in following)
    assert not any(claim.judge(by_k).holds for claim in following[1:])


def test_m9_a_batch_waits_for_half_a_trip() -> None:
    assert half_a_trip_s(10, 3.0) == pytest.approx(334.8, abs=0.1)


def test_m10_a_client_that_tells_its_velocity_alone_gets_everything() -> None:
    by_velocity = measure(Setting("predictive", k=3, runs=20, tells="velocity"))
    assert by_velocity.missing == 0
    assert by_velocity.overhead < 1.2 * closed_form(3)


def test_m10_a_client_that_makes_a_detour_gets_everything_later() -> None:
    straight, around = (measure(Setting("predictive", k=3, runs=20, detour_m=each)) for each in (0.0, 500.0))
    assert (straight.missing, around.missing) == (0, 0)
    assert around.delay_s > straight.delay_s + 1


@pytest.mark.slow
def test_m10_by_a_learned_model_a_client_that_tells_nothing_gets_its_events_as_if_it_told() -> None:
    model = load_model(folder() / MODEL)
    setting = Setting("predictive", k=10, runs=30, tells="nothing", astray=0.0)
    by_model, by_nothing = measure(setting, model), measure(setting)
    assert (by_model.missing, by_nothing.missing) == (0, 0)
    assert by_model.delay_s < 1.0
    assert by_nothing.delay_s > 5.0


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
    assert len(pair.handled) == 2 * EVENTS_A_TURN
    assert all(us > 0 for us in pair.taken_us.values())


def test_s13_raising_includes_sending() -> None:
    sent: list[bytes] = []
    pair = Pair(send=sent.append)
    pair.turn()
    assert len(sent) == EVENTS_A_TURN


def test_s13_parts_of_latencies_are_filters_that_the_event_passes() -> None:
    """Figures 11 and 12."""
    pair = Pair(announcements=3, subscriptions=4)
    parts = pair.raising_parts() | pair.delivering_parts()
    assert set(parts) == {*RAISING_FILTERS, *DELIVERING_FILTERS}
    assert all(part() for part in parts.values())


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
