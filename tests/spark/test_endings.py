"""P1, P2: a journal is judged until its run ended; where the run was cut, that is said."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from roamcast.journal import Journal, Run, Transmitted
from roamcast.model.space import Plane
from roamcast.spark.settings import Settings
from tests.spark.chain import surveyed
from tests.spark.test_commands import SCENARIO, invoke

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

SECOND_US = 1_000_000


def opened(directory: Path, host: str = "run", *, last_us: int) -> Journal:
    journal = Journal(directory, Run(host, 0, Plane()), durable=False)
    journal.record(Transmitted(host, last_us, "beacon", 1))
    return journal


def settings_found(spark: SparkSession, directory: Path) -> Settings:
    return surveyed(spark, directory)[1]


def test_p2_a_run_that_ended_is_judged_until_then_and_not_until_its_last_record(
    spark: SparkSession, tmp_path: Path
) -> None:
    opened(tmp_path, last_us=3 * SECOND_US).end(7 * SECOND_US)
    settings = settings_found(spark, tmp_path)
    assert (settings.until_us, settings.cut) == (7 * SECOND_US, ())


def test_p2_a_run_that_was_cut_is_judged_until_its_last_record_and_named(spark: SparkSession, tmp_path: Path) -> None:
    opened(tmp_path, last_us=3 * SECOND_US).close()
    settings = settings_found(spark, tmp_path)
    assert (settings.until_us, settings.cut) == (3 * SECOND_US, ("run, opening 0",))


def test_p2_a_journal_whose_notes_were_removed_is_one_that_was_cut(spark: SparkSession, tmp_path: Path) -> None:
    opened(tmp_path, last_us=3 * SECOND_US).end(7 * SECOND_US)
    for path in (tmp_path / "v2" / "notes").iterdir():
        path.unlink()
    assert settings_found(spark, tmp_path).cut == ("run, opening 0",)


def test_p2_of_several_openings_each_that_was_cut_is_named_and_the_last_end_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    opened(tmp_path, "a", last_us=1 * SECOND_US).close()
    opened(tmp_path, "a", last_us=2 * SECOND_US).end(9 * SECOND_US)
    opened(tmp_path, "b", last_us=3 * SECOND_US).end(8 * SECOND_US)
    settings = settings_found(spark, tmp_path)
    assert (settings.until_us, settings.cut) == (9 * SECOND_US, ("a, opening 0",))


def test_p2_an_audit_of_a_journal_without_its_end_says_so_in_words_page_and_json(
    spark: SparkSession, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    scenario = tmp_path / SCENARIO.name
    scenario.write_text(SCENARIO.read_text().replace("seconds = 30\n", "seconds = 2\n"))
    assert invoke("sim", str(scenario), "--journal", str(journal), "--json")[0] == 0
    *_, last = sorted((journal / "v2" / "notes").glob("*.parquet"))
    last.unlink()
    code, output, complaints = invoke("audit", str(journal), "--json")
    assert code == 0
    assert "journal not closed: the run was interrupted" in complaints
    assert json.loads(output)["cut"] == ["brokers-flooding, opening 0"]
    assert "journal not closed" in (journal / "audit" / "index.html").read_text()
