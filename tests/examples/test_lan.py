"""The example of a LAN does what its page says, on the loopback interface; its service is one that systemd takes."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, broken_links
from tests.multicast.terminals import Terminal
from tests.ports import free_port

pytestmark = pytest.mark.process
FOLDER = ROOT / "examples/lan"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
LINES = [line for block in blocks(PAGE, "") for line in block.splitlines()]
NODES = [shlex.split(line)[2:] for line in LINES if line.startswith("roamcast node ")]
LEVELS = [shlex.split(line) for line in LINES if line.startswith("echo ")]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Looks like the top of the repository."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def terminals(place: Path) -> Iterator[list[Terminal]]:
    """The gauge, and ann."""
    write(LEVELS[0])
    port = str(free_port())
    opened = [Terminal(place / "state", (*each, "--interface", "lo", "--port", port)) for each in NODES]
    yield opened
    for each in opened:
        each.close()


def write(echo: list[str]) -> None:
    _, level, _, file = echo
    Path(file).write_text(level + "\n")


@pytest.mark.slow
def test_l1_the_gauge_of_the_page_tells_of_high_water_and_ends_without_its_sensor(terminals: list[Terminal]) -> None:
    gauge, ann = terminals
    gauge.until("the water stands at 1.20 m")
    ann.until("heard of gauge")
    write(LEVELS[1])
    (promised,) = blocks(PAGE, "text")
    clock, said = promised.strip().split("  ")
    assert re.fullmatch(rf"\d\d:\d\d:\d\d  {re.escape(said)}", ann.until(said).strip())
    assert re.fullmatch(r"\d\d:\d\d:\d\d", clock)
    assert not [line for line in ann.said if "1.20" in line]
    Path("level.txt").unlink()
    assert "level.txt" in gauge.until("the application")
    assert gauge.process.wait(20) == 2
    assert ann.stop() == 0


def test_l1_the_service_is_the_gauge_of_the_page_and_starts_again() -> None:
    unit = ConfigParser(interpolation=None)
    unit.read(FOLDER / "water.service")
    service = unit["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert program == service["WorkingDirectory"] + "/.venv/bin/roamcast"
    assert arguments == ["node", *NODES[0]]
    assert service["Restart"] == "always"


def test_l1_systemd_understands_the_service(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    text = (FOLDER / "water.service").read_text(encoding="utf-8")
    unit = tmp_path / "water.service"
    unit.write_text(text.replace("/home/pi/roamcast/.venv/bin/roamcast", sys.executable))
    told = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert [line for line in told.stderr.splitlines() if "water.service" in line] == []


def test_l6_every_link_of_the_page_leads_somewhere() -> None:
    assert broken_links(FOLDER / "README.md") == []
