"""L2, L6, F4: the README's lines for a broker, mosquitto, fences and HTTP do what it says, at one broker."""

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, text_of
from tests.ports import free_port

pytestmark = [pytest.mark.timeout(150), pytest.mark.process]
TRIES_MAX = 20
ROAMCAST = [sys.executable, "-c", "from roamcast.cli.main import main; main()"]


def broker_lines() -> list[list[str]]:
    (block,) = [each for each in blocks(text_of("README.md"), "") if "mosquitto_sub" in each]
    return [shlex.split(line) for line in block.splitlines()]


class Broker:
    """The broker of the README, on ports that are free."""

    def __init__(self, data: Path) -> None:
        self.mqtt_port, self.http_port = str(free_port()), str(free_port())
        self.data = data

    def here(self, arguments: list[str]) -> list[str]:
        ports = {"1883": self.mqtt_port, "8080": self.http_port, "out/broker": str(self.data)}
        given = [ports.get(each, each.replace(":8080", f":{self.http_port}")) for each in arguments]
        if given[0] == ".venv/bin/roamcast":
            return [*ROAMCAST, *given[1:]]
        return given


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    started = Broker(tmp_path / "data")
    with subprocess.Popen(started.here(broker_lines()[0]), stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert any("is ready" in line for line in iter(running.stdout.readline, ""))
            yield started
        finally:
            running.terminate()
            running.wait(30)


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="mosquitto_sub is not installed")
def test_l2_mosquitto_sub_alone_gets_what_is_bad_and_near(broker: Broker) -> None:
    _, report, subscribe, event = broker_lines()
    port = broker.mqtt_port
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


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_l6_f4_fences_and_http_of_the_readme_answer(broker: Broker) -> None:
    (block,) = blocks(text_of("README.md"), "sh")
    fence, publish, positions = [broker.here(shlex.split(line)) for line in block.splitlines()]
    subprocess.run([*fence, "--broker", f"mqtt://127.0.0.1:{broker.mqtt_port}"], check=True, timeout=60, cwd=ROOT)
    for command in (publish, positions):
        asked = [*command, "--silent", "--show-error", "--fail"]
        answer = subprocess.run(asked, check=True, timeout=30, capture_output=True, text=True)
        assert isinstance(json.loads(answer.stdout), dict), answer.stdout
