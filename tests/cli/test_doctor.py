"""L6: `roamcast doctor` finds what is there and what is not, and says what to do."""

import json
import resource
import socket
from pathlib import Path

import pytest

from roamcast.cli import _doctor as doctor
from roamcast.cli._doctor import Finding
from roamcast.ports import owner_of
from roamcast.terminal import EXIT_INTERRUPTED
from tests.cli.test_commands import invoke


def test_l6_the_doctor_looks_at_everything_and_says_so_in_json(tmp_path: Path) -> None:
    code, output = invoke("doctor", "--json", "--data", str(tmp_path))
    found = [Finding(**each) for each in json.loads(output)]
    assert code == int(any(each.state == "fail" for each in found))
    names = [each.name for each in found]
    assert names[:6] == ["python", "packages", "extras", "java", "MQTT port", "HTTP port"]
    assert {"multicast on loopback", "disk", "clock", "open files", "uvloop", "numba", "wasmtime", "browser"} <= {
        *names
    }
    assert all(each.advice for each in found if each.state != "ok")


def test_l6_something_that_is_needed_and_missing_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [
        lambda: Finding("legs", "fail", "both are broken", "see somebody"),
        lambda: Finding("arms", "ok", "two"),
    ]
    monkeypatch.setattr(doctor, "checks", lambda data: broken)
    code, output = invoke("doctor")
    assert code == 1
    assert "both are broken" in output
    assert "see somebody" in output
    assert "needed and missing: legs" in output


def test_l6_advice_that_is_longer_than_a_line_is_printed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    advice = "x" * 300
    monkeypatch.setattr(doctor, "checks", lambda data: [lambda: Finding("legs", "warn", "short", advice)])
    _, output = invoke("doctor")
    assert "".join(output.split()).count("x") == 300


def test_l6_ctrl_c_ends_a_command_with_130_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> Finding:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "checks", lambda data: [interrupted])
    code, output = invoke("doctor")
    assert (code, "Traceback" in output) == (EXIT_INTERRUPTED, False)


def test_l6_a_port_that_is_taken_is_told_with_who_has_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = doctor.port_check("MQTT port", port, "--mqtt-port")()
        assert found.state == "warn"
        assert f"port {port} is taken by {owner_of(port)}" in found.said
    assert doctor.port_check("MQTT port", port, "--mqtt-port")().state == "ok"
    assert owner_of(port) is None


def test_l6_multicast_by_an_address_that_is_not_ours_does_not_work() -> None:
    found = doctor.multicast("multicast", "192.0.2.77", "read LAN.md")
    assert (found.state, found.advice) == ("warn", "read LAN.md")


def test_l6_a_disk_is_judged_where_the_data_will_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = doctor.disk_check(tmp_path / "not" / "yet")()
    assert str(tmp_path) in found.said
    monkeypatch.setattr(doctor, "FREE_BYTES_MIN", 1 << 62)
    assert doctor.disk_check(tmp_path)().state == "fail"
    monkeypatch.setattr(doctor, "FREE_BYTES_MIN", 0)
    monkeypatch.setattr(doctor, "FREE_BYTES_LITTLE", 0)
    monkeypatch.setattr(doctor, "SYNC_SLOW_S", -1.0)
    assert doctor.disk_check(tmp_path)().state == "warn"


def test_l6_a_java_that_is_not_there_is_told_with_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = doctor.java_check()
    assert found.state == "warn"
    assert "JAVA_HOME has none" in found.said
    assert "apt-get install" in found.advice


def test_l6_few_open_files_are_a_warning_and_very_few_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    states = []
    for soft in (100, 1_024, 65_536):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        states.append(doctor.files_check().state)
    assert states == ["fail", "warn", "ok"]


def test_l6_a_package_that_is_not_there_is_told_with_what_happens_without_it() -> None:
    found = doctor.module_check("no_such_package", "nothing moves")()
    assert (found.state, found.said, found.advice) == (
        "warn",
        "missing: nothing moves",
        "pip install no_such_package",
    )


def test_l6_a_clock_that_was_never_set_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "YEAR_MIN", 9_999)
    assert doctor.clock_check().state == "fail"
