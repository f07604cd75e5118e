"""L5, L6, P2: `roamcast demo` as a whole, in a process; nothing is missed or comes twice, and its complaints help."""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from roamcast.demo.fleet import COMMAND, HOST
from roamcast.terminal import EXIT_BAD_INPUT

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(900)]
SOURCE = Path(__file__).parents[2] / "src"
WHOLE_S = 800.0
KINDS = ("ambulance", "light", "parking", "traffic", "bus", "market")


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200", **more}


def roamcast(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WHOLE_S,
        check=False,
    )


def by_kind(subjects: list[dict[str, Any]]) -> dict[str, int]:
    found = dict.fromkeys(KINDS, 0)
    for each in subjects:
        kind = each["value"].partition("/")[0]
        if kind in found:
            found[kind] += each["delivered"]
    return found


@pytest.mark.spark
def test_p2_l3_l9_the_demo_delivers_something_of_everything_and_misses_and_doubles_nothing() -> None:
    done = roamcast("demo", "--seconds", "8", "--no-browser", "--clients", "20", "--json", "--port", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["drained"]
    assert found["market"] is None
    total = found["audit"]["total"]
    assert (total["missed"], total["duplicates"]) == (0, 0)
    fences = {each["fence"]: each for each in found["audit"]["fences"]["lines"]}
    assert {"school", "harbour", "ring"} <= fences.keys()
    for each in fences.values():
        assert (each["missing"], each["extra"], each["duplicates"], each["told"]) == (0, 0, 0, each["expected"])
    assert total["delivered"] >= total["expected"] > 20
    delivered = by_kind(found["audit"]["subjects"])
    assert all(delivered.values()), delivered
    assert "© OpenStreetMap contributors" in done.stderr


def test_l6_without_java_the_demo_runs_and_says_what_the_audit_needs(tmp_path: Path) -> None:
    few = ("--seconds", "1", "--clients", "3", "--no-browser", "--port", "0")
    done = roamcast("demo", *few, "--json", "--data", str(tmp_path / "demo"), JAVA_HOME=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the audit is skipped. Spark needs a Java runtime" in done.stderr
    assert "apt-get install" in done.stderr
    found = json.loads(done.stdout)
    assert found["audit"] is None
    assert "Java" in found["audit_skipped"]
    assert (tmp_path / "demo" / "journal" / "v2").is_dir()


def test_l6_ctrl_c_ends_it_in_order_and_nothing_is_left(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [*COMMAND, "demo", "--clients", "3", "--no-browser", "--no-audit", "--json", "--port", "0"],
        env=environment(TMPDIR=str(tmp_path)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    for line in running.stderr:
        if "clients connect" in line:
            break
    running.send_signal(signal.SIGINT)
    printed, complained = running.communicate(timeout=WHOLE_S)
    assert running.returncode == 0, complained
    found = json.loads(printed)
    assert found["drained"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, urlsplit(found["map"]).port)).close()
    assert list(tmp_path.glob("roamcast-demo-*")) == []


def test_l6_a_port_that_is_taken_is_named_with_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = roamcast("demo", "--port", str(port), "--no-browser")
    assert done.returncode == EXIT_BAD_INPUT
    assert f"port {port} is in use" in done.stderr
    assert "--port" in done.stderr


def test_l6_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    done = roamcast("demo", "--data", str(tmp_path), "--no-browser")
    assert done.returncode == EXIT_BAD_INPUT
    assert "is not empty" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
