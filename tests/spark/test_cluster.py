"""P6: the same commands on a standalone cluster and through Spark Connect, where nobody has installed roamcast."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from roamcast.cli.main import app
from roamcast.papers.catalogue import EXPERIMENTS
from roamcast.papers.experiment import Row
from roamcast.papers.sweep import measured, payloads_of
from roamcast.spark.session import package_archive
from tests.spark.cluster import Cluster, NotStarted, Part, connect_server, standalone, without_roamcast

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.xdist_group("oracle"),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark's master, workers and server need Java"),
]

SCENARIO = Path("scenarios/brokers-flooding.toml")
EXPERIMENT = EXPERIMENTS["steam-cost"]


class Simulated(msgspec.Struct, frozen=True):
    expected: int
    delivered: int


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Simulated]:
    """A journal of five seconds, and what its simulation counted."""
    directory = tmp_path_factory.mktemp("run")
    scenario = directory / SCENARIO.name
    scenario.write_text(SCENARIO.read_text().replace("seconds = 30\n", "seconds = 5\n"))
    done = CliRunner().invoke(app, ["sim", str(scenario), "--journal", str(directory / "journal"), "--json"])
    return directory / "journal", msgspec.json.decode(done.stdout, type=Simulated)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with connect_server(tmp_path_factory.mktemp("connect")) as cluster:
        yield cluster


def test_p6_a_journal_is_audited_on_two_workers(
    workers: Cluster, journal: tuple[Path, Simulated], tmp_path: Path
) -> None:
    """Ingest, oracle and audit: the counts are those of the simulation, and both workers had executors."""
    directory, simulated = copied(journal, tmp_path)
    total = json.loads(workers.run("audit", str(directory), "--json"))["total"]
    assert (total["expected"], total["delivered"]) == (simulated.expected, simulated.delivered)
    assert simulated.expected > 0
    for part in workers.parts[1:]:
        part.said("Asked to launch executor")


@pytest.mark.parametrize("command", ["audit", "stream"])
def test_p6_executors_that_are_killed_in_every_step_change_nothing(
    workers: Cluster, journal: tuple[Path, Simulated], tmp_path: Path, command: str
) -> None:
    directory, simulated = copied(journal, tmp_path)
    steps = {
        "audit": ("tables/*/*.parquet", "tables/prepared/*/tracks", "tables/expected/0*"),
        "stream": ("tables/*/*.parquet", "tables/streaming/*/tracks", "tables/streamed/0*"),
    }[command]
    when = [lambda pattern=pattern: any(directory.glob(pattern)) for pattern in steps]
    if command == "audit":
        total = json.loads(workers.run_losing_executors("audit", str(directory), "--json", when=when))["total"]
        assert (total["expected"], total["delivered"]) == (simulated.expected, simulated.delivered)
    else:
        said = workers.run_losing_executors("pipeline", "stream", str(directory), "--json", when=when)
        assert json.loads(said)["streamed"] == simulated.expected


def test_p6_a_sweep_on_two_workers_has_the_rows_of_a_plain_loop(workers: Cluster, tmp_path: Path) -> None:
    workers.run("experiments", "run", EXPERIMENT.name, "--runs", "1", "--out", str(tmp_path))
    rows = msgspec.json.decode((tmp_path / f"{EXPERIMENT.name}.quick.json").read_bytes(), type=list[Row])
    assert [row.error for row in rows] == [""] * len(EXPERIMENT.settings["quick"])
    for payload in payloads_of([EXPERIMENT], "quick", 0, 1)[-3:]:
        row = next(row for row in rows if row.parameters == payload.parameters)
        assert row.figures == json.loads(measured(payload))


def test_p6_a_journal_is_ingested_and_judged_through_spark_connect(
    server: Cluster, journal: tuple[Path, Simulated], tmp_path: Path
) -> None:
    """From a client without Java, on a server without roamcast."""
    directory, simulated = copied(journal, tmp_path)
    taken = json.loads(server.run("pipeline", "ingest", str(directory), "--json"))
    assert (taken["quarantined"], taken["missing"], taken["duplicates"]) == (0, 0, 0)
    # Without --json, so that the bar is there, which the server tells how far it is.
    said = server.run("pipeline", "oracle", str(directory))
    assert said.startswith(f"{simulated.expected} deliveries expected")


def test_p6_a_part_that_does_not_start_is_shown_with_its_log(tmp_path: Path) -> None:
    """The checks above wait for what Java says; this is what they do when it says something else."""
    part = Part("none", ["org.example.Nothing"], without_roamcast(tmp_path), tmp_path / "log")
    try:
        with pytest.raises(NotStarted, match=r"(?s)none never said 'ready to serve'.*org\.example\.Nothing"):
            part.said("ready to serve")
    finally:
        part.stop()


def test_p6_what_runs_on_the_cluster_has_no_roamcast_but_one_that_was_sent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import roamcast; print(roamcast.__file__)"]
    environment = without_roamcast(tmp_path)
    alone = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "roamcast was not sent here" in alone.stderr
    sent = {**environment, "PYTHONPATH": f"{environment['PYTHONPATH']}:{package_archive()}"}
    assert "roamcast.zip" in subprocess.run(command, env=sent, capture_output=True, text=True, check=True).stdout


def copied(journal: tuple[Path, Simulated], place: Path) -> tuple[Path, Simulated]:
    directory, simulated = journal
    return Path(shutil.copytree(directory, place / "journal")), simulated
