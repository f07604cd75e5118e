"""Experiments, their seeds, their claims and their report (P4)."""

from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from roamcast.papers.catalogue import EXPERIMENTS
from roamcast.papers.experiment import Claim, Experiment, Findings, Plot, Row, about, between, seed_of
from roamcast.papers.report import MARKS, page, section_of
from roamcast.papers.report_plots import drawn, spreads_of
from roamcast.papers.rows import keep, kept
from roamcast.papers.varied import changed, scenario_file
from tests.cli.test_commands import invoke


def rows(*values: float) -> list[Row]:
    return [Row("e", {"x": index}, 0, 1, {"y": value}) for index, value in enumerate(values)]


def mean_y(findings: Findings) -> float:
    return findings.mean("y")


EXPERIMENT = Experiment(
    name="e",
    requirement="S13",
    title="An experiment",
    section="1",
    measure=lambda parameters, seed: {"y": 1.0},
    settings={"quick": ({"x": 0},), "full": ({"x": 0},)},
    runs={"quick": 1, "full": 1},
    claims=(Claim("y", "2", about(mean_y, 2.0, relative=0.1), "a known reason"),),
    plots=(Plot("x", "x", "y", mean_y),),
)


def test_p4_seeds_follow_from_experiment_setting_and_run_alone() -> None:
    assert seed_of("e", {"a": 1, "b": 2}, 0) == seed_of("e", {"b": 2, "a": 1}, 0)
    seeds = {seed_of(name, {"a": a}, run, root) for name in "ef" for a in (1, 2) for run in (0, 1) for root in (0, 1)}
    assert len(seeds) == 16


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_p4_every_experiment_has_settings_claims_and_a_section(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert experiment.claims
    assert experiment.section
    for preset in ("quick", "full"):
        settings = experiment.settings[preset]
        assert settings
        assert len({msgspec.json.encode(each, order="sorted") for each in settings}) == len(settings)
        assert experiment.runs[preset] >= 1


def test_p4_settings_that_are_compared_on_the_same_world_have_the_same_seeds() -> None:
    apart, paired = EXPERIMENT, replace(EXPERIMENT, paired=True)
    assert paired.seed({"x": 0}, 1) == paired.seed({"x": 1}, 1) != paired.seed({"x": 0}, 2)
    assert apart.seed({"x": 0}, 1) != apart.seed({"x": 1}, 1)


def test_p4_figures_of_a_timeline_are_averaged_by_time() -> None:
    found = Findings([Row("e", {}, run, 1, {"hops@10": 2.0 + run, "hops@0": 1.0, "hop": 9.0}) for run in (0, 2)])
    assert found.along("hops") == [(0.0, 1.0), (10.0, 3.0)]
    assert found.along("nothing") == []


def test_p4_words_on_the_axis_become_bars_and_the_papers_numbers_squares() -> None:
    findings = Findings(Row("e", {"way": way}, 0, 1, {"y": 2.0}) for way in ("ours", "<theirs>"))
    shown = drawn(Plot("way", "", "y", mean_y, paper=(("ours", 3.0),)), findings)
    assert shown.count('id="paper"') == 1
    assert "&lt;theirs&gt;" in shown
    assert shown.count("fill: #3b82c4") == 2


def test_p4_error_bars_go_from_the_lowest_run_to_the_highest_and_need_two() -> None:
    plot = Plot("x", "x", "y", mean_y)
    several = [Row("e", {"x": 1}, run, 1, {"y": y}) for run, y in enumerate((2.0, 7.0, 3.0))]
    one = Row("e", {"x": 2}, 0, 1, {"y": 5.0})
    assert spreads_of(plot, Findings([*several, one])) == [(1.0, 2.0, 7.0)]
    assert drawn(plot, Findings([*several, one])).count('id="spread"') == 1


def test_p4_the_page_counts_claims_by_how_they_stand_to_the_paper() -> None:
    hold, differ = (about(mean_y, wanted, absolute=0.1) for wanted in (2.0, 3.0))
    claims = (
        Claim("a", "as published: 2", hold),
        Claim("b", "as published: 3", differ),
        Claim("c", "shape: 2", hold),
    )
    shown = page([(replace(EXPERIMENT, claims=claims), rows(2.0))], "quick")
    assert "as published: 1 of 2; shape: 1 of 1" in shown


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_p4_claims_say_how_they_stand_to_the_paper(name: str) -> None:
    for claim in EXPERIMENTS[name].claims:
        assert claim.paper.startswith(MARKS), claim.what


def test_p4_a_plot_of_nothing_says_so() -> None:
    assert "nothing to plot" in drawn(EXPERIMENT.plots[0], Findings([]))


def test_p4_a_logarithmic_axis_has_powers_of_ten() -> None:
    shown = drawn(Plot("x", "x", "y", mean_y, logarithmic=True), Findings(rows(3.0, 5_000.0)))
    assert all(f">{tick}<" in shown for tick in ("1", "10", "100", "1,000", "10,000"))


def test_p4_a_claim_holds_or_differs_and_gives_its_reason_only_then() -> None:
    (holding,) = section_of(EXPERIMENT, rows(1.9, 2.1)).claims
    (differing,) = section_of(EXPERIMENT, rows(3.0)).claims
    assert (holding.holds, holding.reason) == (True, "")
    assert (differing.holds, differing.reason) == (False, "a known reason")


def test_p4_a_claim_without_any_run_does_not_hold() -> None:
    assert not section_of(EXPERIMENT, []).claims[0].holds
    assert not between(mean_y, 0.0)(Findings([])).holds


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_p4_no_claim_of_any_experiment_holds_when_every_run_has_failed(name: str) -> None:
    experiment = EXPERIMENTS[name]
    failed = [Row(name, parameters, 0, 1, error="x") for parameters in experiment.settings["quick"]]
    assert [claim.what for claim in section_of(experiment, failed).claims if claim.holds] == []


def test_p4_runs_that_failed_are_counted_shown_and_left_out_of_the_figures() -> None:
    failed = Row("e", {"x": 9}, 0, 77, error="it broke")
    section = section_of(EXPERIMENT, [*rows(2.0), failed])
    assert (section.runs, section.failed) == (2, 1)
    assert section.claims[0].holds
    shown = page([(EXPERIMENT, [*rows(2.0), failed])], "quick")
    assert "seed 77" in shown
    assert "it broke" in shown


def test_p4_the_page_has_claims_and_a_plot_and_nothing_from_elsewhere() -> None:
    shown = page([(EXPERIMENT, rows(1.0, 2.0, 3.0))], "quick")
    assert "1 of 1 claims hold" in shown
    assert "<svg" in shown
    assert "http" not in shown


def test_p4_text_from_a_run_cannot_become_markup() -> None:
    evil = Row("e", {"x": "<script>"}, 0, 1, error="<script>")
    assert "<script>" not in page([(EXPERIMENT, [evil])], "quick")


def test_p4_changes_reach_into_lists_and_tables_and_leave_the_original() -> None:
    given = {"hosts": [{"count": 1}], "protocol": {}}
    assert changed(given, {"hosts.0.count": 5, "protocol.preset": "paper", "faults.loss": 0.1}) == {
        "hosts": [{"count": 5}],
        "protocol": {"preset": "paper"},
        "faults": {"loss": 0.1},
    }
    assert given == {"hosts": [{"count": 1}], "protocol": {}}


def test_p4_an_unknown_scenario_is_named_with_those_there_are() -> None:
    with pytest.raises(FileNotFoundError, match="context-base"):
        scenario_file("nonsense")


def test_p4_the_list_names_every_experiment() -> None:
    code, output = invoke("experiments", "list")
    assert code == 0
    assert all(name in output for name in EXPERIMENTS)


def test_p4_running_nothing_or_the_unknown_says_what_there_is() -> None:
    for arguments in ([], ["nonsense"]):
        code, output = invoke("experiments", "run", *arguments)
        assert code == 2
        assert "steam-cost" in output


def test_p4_what_cannot_be_run_here_is_skipped_and_the_reason_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(
        EXPERIMENTS, "steam-cost", replace(EXPERIMENTS["steam-cost"], absent=lambda: "no wheels here")
    )
    code, output = invoke("experiments", "run", "steam-cost", "--out", str(tmp_path))
    assert code == 1
    assert "steam-cost is skipped: no wheels here" in output
    assert not list(tmp_path.iterdir())
    shown = page([(EXPERIMENT, rows(2.0))], "quick", [EXPERIMENTS["steam-cost"]])
    assert "no wheels here" in shown


def test_p4_a_report_of_nothing_says_what_to_run(tmp_path: Path) -> None:
    code, output = invoke("experiments", "report", "--out", str(tmp_path))
    assert code == 2
    assert "experiments run --all" in output


@pytest.mark.parametrize("content", [b'[{"experiment": "steam-c', b'[{"experiment": 5}]', b""])
def test_p4_rows_that_cannot_be_read_are_named_with_what_to_run(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "steam-cost.quick.json").write_bytes(content)
    code, output = invoke("experiments", "report", "--out", str(tmp_path))
    assert code == 2
    assert "steam-cost.quick.json: not the rows of an experiment" in output
    assert "experiments run steam-cost" in output


def test_p4_the_report_is_written_from_the_rows_that_are_kept(tmp_path: Path) -> None:
    row = Row("steam-cost", {"scenario": "A", "saturation": 60, "radius_m": 100}, 0, 1, {"frames": 1.0})
    (tmp_path / "steam-cost.quick.json").write_bytes(msgspec.json.encode([row]))
    code, output = invoke("experiments", "report", "--out", str(tmp_path))
    assert code == 0
    assert f"1 of {len(EXPERIMENTS['steam-cost'].claims)} claims hold" in output
    assert "What one event costs" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "report.json").exists()


def test_p4_rows_are_kept_as_columns_too_whatever_the_settings_have_in_common(tmp_path: Path) -> None:
    runs = [
        Row("e", {"speed": 5, "shape": [1, 2]}, 0, 11, {"rate": 1.0, "speed": 4.9}, cpu_s=0.5),
        Row("e", {"speed": 2.5, "shape": "round"}, 1, 12, error="it failed"),
    ]
    keep(runs, tmp_path / "e.quick.json")
    assert kept(tmp_path / "e.quick.json") == runs
    table = pq.read_table(tmp_path / "e.quick.parquet").to_pydict()
    assert table == {
        "experiment": ["e", "e"],
        "run": [0, 1],
        "seed": [11, 12],
        "speed": [5.0, 2.5],
        "shape": ["[1,2]", '"round"'],
        "cpu_s": [0.5, 0.0],
        "error": ["", "it failed"],
        "rate": [1.0, None],
        "measured_speed": [4.9, None],
    }
