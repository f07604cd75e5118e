"""The files of deploy/: brokers start and link with their settings, and everything that they name is there.

Docker is not asked for: its image is the wheel with two extras, which tests/cli/test_package.py installs.
"""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from roamcast.cli.main import app
from roamcast.server.settings import Settings, load_settings
from tests.ports import free_ports

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BROKERS = ("north", "south")
UP_S_MAX = 60


def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return read


def settings(name: str) -> Settings:
    return load_settings(DEPLOY / f"{name}.toml")


def test_l6_services_of_compose_are_named_as_settings_name_them() -> None:
    services = compose()["services"]
    assert settings("north").data == "postgresql://roamcast@database/roamcast"
    assert services["database"]["environment"]["POSTGRES_USER"] == "roamcast"
    for name in BROKERS:
        assert settings(name).name == name
        assert all(peer.host in services for peer in settings(name).links.peers)
        targets = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))
        http = settings(name).http
        assert http is not None
        assert f"{name}:{http.port}" in targets["scrape_configs"][0]["static_configs"][0]["targets"]


def test_l6_files_that_compose_mounts_are_there() -> None:
    services = compose()["services"]
    mounted = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", ())]
    files = [DEPLOY / name for name in mounted if name.startswith("./")]
    assert len(files) >= 6
    assert [file for file in files if not file.exists()] == []


def test_l6_the_image_copies_what_is_there_and_starts_a_command() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [
        name for line in lines if line.startswith("COPY") and "--from" not in line for name in line.split()[1:-1]
    ]
    assert "pyproject.toml" in copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert 'ENTRYPOINT ["roamcast"]' in lines
    (words,) = [json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD ")]
    check_command(words)


def test_l6_the_unit_starts_a_command() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.read(DEPLOY / "roamcast-broker@.service", encoding="utf-8")
    words = shlex.split(unit["Service"]["ExecStart"])
    assert Path(words[0]).name == "roamcast"
    check_command(words[1:])


def test_l6_commands_of_compose_are_commands() -> None:
    for name in BROKERS:
        check_command(compose()["services"][name]["command"])


def check_command(words: list[str]) -> None:
    command, *rest = words
    options = {name for option in get_command(app).commands[command].params for name in option.opts}  # type: ignore[attr-defined]
    assert {word for word in rest if word.startswith("--")} <= options


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(180)
def test_l6_brokers_link_with_these_settings_and_show_what_the_dashboard_asks_for(tmp_path: Path) -> None:
    subprocess.run(["sh", DEPLOY / "certificates.sh", tmp_path / "tls", *BROKERS], check=True, capture_output=True)
    ports = dict(zip(BROKERS, zip(*[iter(free_ports(6))] * 3, strict=True), strict=True))
    started = []
    try:
        for name, other in (BROKERS, BROKERS[::-1]):
            config = tmp_path / f"{name}.toml"
            config.write_text(on_this_machine(name, other, ports), encoding="utf-8")
            command = [sys.executable, "-m", "roamcast", "broker", "--config", str(config)]
            started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        shown = until_linked(ports["north"][2])
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(timeout=60)
    dashboard = json.loads((DEPLOY / "grafana/dashboards/roamcast.json").read_text(encoding="utf-8"))
    asked = {name for panel in dashboard["panels"] for target in panel["targets"] for name in metrics(target["expr"])}
    told = {line.split()[2] for line in shown.splitlines() if line.startswith("# TYPE ")}
    assert len(asked) >= 8
    assert {name.removesuffix("_bucket") for name in asked} <= told | {f"{name}_total" for name in told}


def on_this_machine(name: str, other: str, ports: dict[str, tuple[int, ...]]) -> str:
    """The settings as they are, but for a database, hosts and ports."""
    mqtt, link, http = ports[name]
    text = (DEPLOY / f"{name}.toml").read_text(encoding="utf-8").replace('"0.0.0.0"', '"127.0.0.1"')
    text = re.sub(r'data = ".*"', f'data = "data-{name}"', text)
    text = text.replace('kind = "tcp"', f'kind = "tcp"\nport = {mqtt}')
    text = text.replace("8080", str(http)).replace("port = 7883\nca", f"port = {link}\nca")
    return text.replace(f'host = "{other}", port = 7883', f'host = "127.0.0.1", port = {ports[other][1]}')


def until_linked(http_port: int) -> str:
    deadline_s = time.monotonic() + UP_S_MAX
    shown = ""
    while time.monotonic() < deadline_s:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics", timeout=5) as answer:
                shown = answer.read().decode()
        except OSError:
            shown = ""
        if re.search(r'^roamcast_link_state\{.*state="up".*\} 1', shown, re.MULTILINE):
            return shown
        time.sleep(0.1)
    raise AssertionError(f"north and south did not link: {shown[-2_000:]}")


def metrics(expression: str) -> list[str]:
    return re.findall(r"roamcast_\w+", expression)
