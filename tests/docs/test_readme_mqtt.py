"""L2: the README's own lines for mosquitto_pub and mosquitto_sub do what it says, at the broker that it starts."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import blocks, text_of
from tests.ports import free_port

pytestmark = [pytest.mark.timeout(150), pytest.mark.process]
TRIES_MAX = 20


def lines() -> list[list[str]]:
    (block,) = [each for each in blocks(text_of("README.md"), "") if "mosquitto_sub" in each]
    return [shlex.split(line) for line in block.splitlines()]


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="mosquitto_sub is not installed")
def test_l2_mosquitto_sub_alone_gets_what_is_bad_and_near(tmp_path: Path) -> None:
    broker, report, subscribe, event = lines()
    assert broker[:2] == [".venv/bin/roamcast", "broker"]
    port = str(free_port())
    command = [sys.executable, "-c", "from roamcast.cli.main import main; main()", "broker"]
    command += ["--mqtt-port", port, "--data", str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert any("is ready" in line for line in iter(running.stdout.readline, ""))
            subprocess.run([*report, "-p", port], check=True, timeout=30)
            wanted = [*subscribe, "-p", port, "-C", "1", "-W", "60"]
            with subprocess.Popen(wanted, stdout=subprocess.PIPE, text=True) as reader:
                for _ in range(TRIES_MAX):
                    # Nobody says when it has subscribed, so the event is told again until it has.
                    subprocess.run([*event, "-p", port], check=True, timeout=30)
                    try:
                        reader.wait(1.0)
                        break
                    except subprocess.TimeoutExpired:
                        continue
                assert reader.wait(60) == 0
                assert reader.stdout is not None
                assert reader.stdout.read().startswith("alerts/fire ")
        finally:
            running.terminate()
            running.wait(30)
