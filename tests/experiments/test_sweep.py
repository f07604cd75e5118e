"""Sweeps on Spark: results depend on parameters and run alone, and a failed run takes nothing down (P4)."""

import json

import pytest
from pyspark.sql import SparkSession

from roamcast.experiments.catalogue import EXPERIMENTS
from roamcast.experiments.experiment import seed_of
from roamcast.experiments.sweep import run_all
from roamcast.pipeline import sweep as sweeping
from roamcast.pipeline.session import open_session
from roamcast.pipeline.sweep import sweep

pytestmark = pytest.mark.xdist_group("spark")


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


def test_p4_results_do_not_depend_on_the_number_of_tasks_and_equal_a_plain_loop(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = EXPERIMENTS["steam-cost"]
    many = list(run_all(spark, [experiment], "quick", runs=1))
    monkeypatch.setattr(sweeping, "TASKS_MAX", 2)
    few = list(run_all(spark, [experiment], "quick", runs=1))
    assert [(row.parameters, row.figures) for row in many] == [(row.parameters, row.figures) for row in few]
    for row in many[:3]:
        assert row.seed == seed_of(experiment.name, row.parameters, row.run)
        assert row.figures == experiment.measure(row.parameters, row.seed)
