"""P1, P2: the commands as a person meets them, on a journal of `roamcast sim`."""

import io
import json
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from typer.testing import CliRunner

from roamcast.cli.main import app
from roamcast.spark.chores import Chores
from roamcast.spark.progress import Bar
from roamcast.spark.watch import watch
from roamcast.terminal import EXIT_BAD_INPUT

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SCENARIO = Path("scenarios/brokers-flooding.toml")


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def simulated(directory: Path) -> tuple[Path, dict[str, Any]]:
    """A journal of five seconds, and what its simulation counted."""
    journal = directory / "journal"
    scenario = directory / SCENARIO.name
    scenario.write_text(SCENARIO.read_text().replace("seconds = 30\n", "seconds = 5\n"))
    code, output, _ = invoke("sim", str(scenario), "--journal", str(journal), "--json")
    assert code == 0
    counted: dict[str, Any] = json.loads(output)
    return journal, counted


def test_p2_audit_of_a_simulation_agrees_with_it_and_leaves_a_page(spark: SparkSession, tmp_path: Path) -> None:
    """In at most twelve Spark jobs."""
    journal, counted = simulated(tmp_path)
    tracker = spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup(None))
    code, output, complaints = invoke("audit", str(journal), "--json")
    assert (code, complaints) == (0, "")
    assert 5 < len(tracker.getJobIdsForGroup(None)) - before <= 12
    audited = json.loads(output)
    for name in ("expected", "delivered", "missed", "unwanted", "duplicates"):
        assert audited["total"][name] == counted[name]
    assert counted["expected"] > 0
    assert "<svg" in (journal / "audit" / "index.html").read_text()
    assert json.loads((journal / "audit" / "audit.json").read_text()) == audited
    code, output, _ = invoke("pipeline", "oracle", str(journal), "--json")
    assert (code, json.loads(output)) == (0, {"expected": counted["expected"]})
    code, output, _ = invoke("pipeline", "stream", str(journal), "--json")
    assert (code, json.loads(output)["streamed"]) == (0, counted["expected"])


def test_p7_a_table_is_exported_and_a_format_that_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    journal, _ = simulated(tmp_path)
    assert invoke("pipeline", "ingest", str(journal))[0] == 0
    command = ("pipeline", "export", str(journal), "runs")
    code, _, _ = invoke(*command, str(tmp_path / "runs"), "--format", "json")
    assert code == 0
    (file,) = (tmp_path / "runs").glob("*.json")
    assert json.loads(file.read_text())["space"] == "plane"
    for kind, to, package in (
        ("delta", "/d", "io.delta:delta-spark"),
        ("kafka", "topic", "spark-sql-kafka-0-10"),
    ):
        code, _, complaints = invoke(*command, to, "--format", kind)
        assert code == EXIT_BAD_INPUT
        assert package in complaints
    code, _, complaints = invoke(*command, "nowhere")
    assert "'nowhere': give a path" in complaints


@pytest.mark.slow
def test_p10_a_live_audit_counts_what_is_judged_and_not_under_way(spark: SparkSession, tmp_path: Path) -> None:
    """With a port of its own, on which Prometheus reads the same."""
    journal, counted = simulated(tmp_path)
    chores = Chores(str(journal), None, None, None, {})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = chores.watch(100.0, bucket_s=1.0, late_s=10.0, follow_s=None, port=port)
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    assert f"roamcast_audit_expected {float(found.expected)}" in page
    assert f"roamcast_audit_missed {float(found.missed)}" in page
    assert (found.lag_s, found.late_segments, found.duplicates) == (0.0, 0, counted["duplicates"])
    assert found.expected <= counted["expected"]
    everything = watch(chores.tables, period_us=100_000, bucket_us=1_000_000, late_us=0, grace_us=-1)
    assert (everything.expected, everything.missed) == (counted["expected"], counted["missed"])


def test_l6_progress_is_a_bar_on_a_terminal_and_a_line_in_a_file(spark: SparkSession) -> None:
    shown: dict[bool, str] = {}
    for terminal in (False, True):
        file = io.StringIO()
        with Bar(spark, Console(file=file, force_terminal=terminal)).watching("count", 1, 1):
            spark.range(3).count()
        shown[terminal] = file.getvalue()
    assert shown[False] == "1 of 1: count\n"
    assert "1 of 1: count" in shown[True]
    assert shown[True] != shown[False]


def test_p1_jobs_lists_what_each_reads_and_writes() -> None:
    code, output, _ = invoke("pipeline", "jobs")
    assert code == 0
    # Word by word: how wide the table is depends on the terminal.
    for word in ("tracks", "states", "events", "lives", "expected", "ideal"):
        assert word in output


def test_p1_jobs_as_json_have_the_columns_that_each_writes() -> None:
    code, output, _ = invoke("pipeline", "jobs", "--json")
    jobs = {job["name"]: job for job in json.loads(output)}
    assert code == 0
    assert jobs["verdicts"]["reads"] == ["expected", "deliveries", "publications"]
    assert list(jobs["expected"]["columns"]) == ["event_id", "subscription_id", "subscriber", "at_us"]


@pytest.mark.parametrize(
    "command", [("audit",), ("pipeline", "ingest"), ("pipeline", "oracle"), ("pipeline", "audit")]
)
def test_p1_a_directory_that_is_not_there_is_named_with_exit_code_2(command: tuple[str, ...], tmp_path: Path) -> None:
    code, _, complaints = invoke(*command, str(tmp_path / "gone"))
    assert code == EXIT_BAD_INPUT
    assert "gone: no such directory" in complaints


def test_p2_what_was_not_ingested_cannot_be_judged(spark: SparkSession, tmp_path: Path) -> None:
    code, _, complaints = invoke("pipeline", "oracle", str(tmp_path))
    assert code == EXIT_BAD_INPUT
    assert "not ingested yet; run `roamcast pipeline ingest" in complaints


@pytest.mark.slow
def test_l6_p4_an_experiment_tells_programs_what_was_claimed_and_measured(
    spark: SparkSession, tmp_path: Path
) -> None:
    code, output, _ = invoke("experiments", "run", "steam-placement", "--runs", "1", "--out", str(tmp_path), "--json")
    (section,) = json.loads(output)
    assert section["name"] == "steam-placement"
    assert code == int(not all(claim["holds"] for claim in section["claims"]))
    assert all(claim["measured"] for claim in section["claims"])
