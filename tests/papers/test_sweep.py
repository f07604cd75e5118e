"""Sweeps on Spark: results depend on parameters and run alone, and a failed run takes nothing down (P4)."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from roamcast.papers.catalogue import EXPERIMENTS
from roamcast.papers.experiment import seed_of
from roamcast.papers.sweep import Payload, measured, run_all
from roamcast.spark import workers
from roamcast.spark.session import open_session
from roamcast.spark.sweep import sweep

pytestmark = pytest.mark.xdist_group("oracle")


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return open_session("local[2]")


def doubled(payload: str) -> str:
    value = json.loads(payload)
    if value == 3:
        raise ValueError("three is not allowed")
    return json.dumps(2 * value)


def test_p4_every_payload_gets_its_answer_and_a_failure_its_error(spark: SparkSession) -> None:
    answers = dict(sweep(spark, doubled, [json.dumps(number) for number in range(6)]))
    assert {number: each.answer for number, each in answers.items() if not each.error} == {
        number: str(2 * number) for number in (0, 1, 2, 4, 5)
    }
    assert "three is not allowed" in answers[3].error


class FailsOnce:
    """By a file, because two tries may be in two processes."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, payload: str) -> str:
        tried = Path(self.folder) / payload
        if not tried.exists():
            tried.touch()
            raise ValueError("the first try")
        return payload


def test_p4_a_run_that_fails_once_is_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    answers = dict(sweep(spark, FailsOnce(str(tmp_path)), ["a", "b"]))
    assert {number: (each.answer, each.error) for number, each in answers.items()} == {0: ("a", ""), 1: ("b", "")}


def test_p4_a_run_that_fails_twice_is_a_row_with_its_seed_and_error_and_takes_no_other_down(
    spark: SparkSession,
) -> None:
    good = {"scenario": "A", "saturation": 60, "radius_m": 100}
    bad = {**good, "scenario": "nowhere"}
    experiment = replace(EXPERIMENTS["steam-cost"], settings={"quick": (bad, good), "full": (good,)})
    failed, done = run_all(spark, [experiment], "quick", root=5, runs=1)
    assert (failed.parameters, failed.seed, failed.figures) == (bad, experiment.seed(bad, 0, 5), {})
    assert "KeyError: 'nowhere'" in failed.error
    assert (done.error, done.figures["frames"]) == ("", 1.0)


def test_p4_a_figure_that_is_not_a_number_makes_the_run_a_failed_one() -> None:
    experiment = EXPERIMENTS["steam-cost"]
    payload = Payload(experiment.name, {**experiment.settings["quick"][0]}, 0, 0)
    assert "frames" in measured(payload)
    with pytest.MonkeyPatch.context() as patch:
        broken = replace(experiment, measure=lambda parameters, seed: {"frames": float("nan")})
        patch.setitem(EXPERIMENTS, experiment.name, broken)
        with pytest.raises(ValueError, match="frames"):
            measured(payload)


@pytest.mark.slow
def test_p4_results_do_not_depend_on_the_number_of_tasks_and_equal_a_plain_loop(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = EXPERIMENTS["steam-cost"]
    many = list(run_all(spark, [experiment], "quick", runs=1))
    monkeypatch.setattr(workers, "TASKS_MAX", 2)
    few = list(run_all(spark, [experiment], "quick", runs=1))
    assert [(row.parameters, row.figures) for row in many] == [(row.parameters, row.figures) for row in few]
    for row in many[:3]:
        assert row.seed == seed_of(experiment.name, row.parameters, row.run)
        assert row.figures == experiment.measure(row.parameters, row.seed)
