"""L6: mistakes that everybody makes are answered with a sentence and an exit code, never with a traceback."""

import os
import socket
from pathlib import Path

import pytest

from roamcast.terminal import EXIT_BAD_INPUT
from tests.cli.test_commands import invoke

FILES = {
    "missing": "No such file or directory",
    "directory": "Is a directory",
    "binary": "not UTF-8 text at byte 0",
    "bad.toml": "not valid TOML",
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "directory").mkdir()
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "bad.toml").write_text("name = \n")
    return tmp_path


@pytest.mark.parametrize("command", ["sim", "routes", "broker --config"])
@pytest.mark.parametrize("file", FILES)
def test_l6_a_file_that_cannot_be_read_is_named_once_with_the_reason(files: Path, command: str, file: str) -> None:
    code, output = invoke(*command.split(), str(files / file))
    assert code == EXIT_BAD_INPUT
    assert FILES[file] in output
    assert "Errno" not in output
    assert output.count(str(files / file)) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_l6_a_file_of_somebody_else_is_named_with_the_reason(files: Path) -> None:
    (files / "bad.toml").chmod(0)
    code, output = invoke("sim", str(files / "bad.toml"))
    assert (code, "Permission denied" in output) == (EXIT_BAD_INPUT, True)


def test_l6_a_password_file_that_cannot_be_is_named(files: Path) -> None:
    code, output = invoke("passwd", str(files / "none" / "passwords"), "ann", "--password", "secret")
    assert code == EXIT_BAD_INPUT
    assert "No such file or directory" in output
    assert "Errno" not in output


def test_l6_a_key_where_there_can_be_no_file_is_refused(files: Path) -> None:
    code, output = invoke("key", str(files / "binary" / "group.key"))
    assert code == EXIT_BAD_INPUT
    assert "cannot be written" in output


def test_l6_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, output = invoke("broker", "--mqtt-port", port, "--data", str(tmp_path / "data"))
    assert code == EXIT_BAD_INPUT
    assert f"port {port}: Address already in use" in output


def test_l6_of_an_address_that_is_not_this_machines_it_is_said_that_the_address_is_wrong(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text('name = "n"\ndata = "data"\nlisteners = [{ host = "192.0.2.1" }]\nsecurity.anonymous = true\n')
    code, output = invoke("broker", "--config", str(config))
    assert code == EXIT_BAD_INPUT
    assert "Cannot assign requested address; give an address of this machine" in output


def test_l6_a_journal_that_cannot_be_is_named_by_a_broker(files: Path) -> None:
    where = ("--data", str(files / "data"), "--mqtt-port", "0")
    code, output = invoke("broker", *where, "--journal", str(files / "binary"))
    assert code == EXIT_BAD_INPUT
    assert "cannot be a journal's directory: Not a directory" in output


@pytest.mark.slow
@pytest.mark.parametrize("address", ["localhost:1883", "mqtt://", "mqtt://host:many"])
def test_l6_a_bad_address_of_a_broker_is_named(address: str) -> None:
    code, output = invoke("pub", "a/b", "{}", "--broker", address)
    assert code == EXIT_BAD_INPUT
    assert address in output


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--circle", "1"], "--circle is '1'"),
        (["--around", "van-7"], "--around is 'van-7'"),
        (["--circle", "24.9,60.1,20", "--on", "leaves"], "on is ['leaves']"),
        (["--circle", "24.9,60.1,20", "--hosts", "kind ="], "expected a value"),
    ],
)
def test_l6_a_fence_is_judged_before_a_broker_is_looked_for(given: list[str], said: str) -> None:
    code, output = invoke("fences", "put", "depot", *given, "--broker", "mqtt://127.0.0.1:1")
    assert (code, said in output) == (EXIT_BAD_INPUT, True)
    assert "no broker was reached" not in output


def test_l6_results_that_cannot_be_kept_are_refused_before_anything_runs(files: Path) -> None:
    code, output = invoke("experiments", "run", "steam-cost", "--out", str(files / "binary"))
    assert code == EXIT_BAD_INPUT
    assert "cannot be a directory for results" in output


def test_l6_a_journal_that_is_not_there_is_refused_before_spark_starts(tmp_path: Path) -> None:
    code, output = invoke("audit", str(tmp_path / "none"))
    assert code == EXIT_BAD_INPUT
    assert "no such directory" in output


def test_l6_what_is_not_a_terminal_gets_no_progress() -> None:
    code, output = invoke("routes", "scenarios/roaming.toml", "--at", "1", "--broker", "broker-1", "--json")
    assert code == 0
    assert output.startswith("[")
    assert output.count("\n") == 1
