"""The wheel in clean environments: what each extra brings is enough, and what is missing is named.

An environment has the wheel and the packages of its extras, with all that these ask for, and nothing else. The
packages come from where the tests run, so nothing is downloaded.
"""

import asyncio
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from roamcast.extras import EXTRA_OF_COMMAND, EXTRAS
from tests.ports import free_port
from tests.processes.fleet import fleet

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=TIMEOUT_S)
    (built,) = folder.glob("*.whl")
    return built


class Clean:
    """A virtual environment with the wheel and these extras."""

    def __init__(self, folder: Path, wheel: Path, *extras: str) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=TIMEOUT_S)
        (packages,) = folder.glob("lib/python*/site-packages")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
        (metadata,) = packages.glob("roamcast-*.dist-info/METADATA")
        asked = [
            line.partition(": ")[2] for line in metadata.read_text().splitlines() if line.startswith("Requires-D")
        ]
        for entry in entries_of(asked, {"", *extras}):
            if not (packages / entry.name).exists():
                (packages / entry.name).symlink_to(entry)
        self.folder = folder
        self.python = folder / "bin" / "python"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Away from the checkout, and with nothing of it on the path."""
        bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            [str(self.python), *words], cwd=self.folder, env=bare, capture_output=True, text=True, timeout=TIMEOUT_S
        )

    def roamcast(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "roamcast", *words)


def entries_of(asked: list[str], extras: set[str]) -> Iterator[Path]:
    """Folders and modules of everything that is asked for with these extras, and of what that asks for."""
    waiting = [(Requirement(each), frozenset(extras)) for each in asked]
    seen = set()
    while waiting:
        wanted, given = waiting.pop()
        if wanted.marker is not None and not any(wanted.marker.evaluate({"extra": each}) for each in given | {""}):
            continue
        if wanted.name == "roamcast":
            waiting += [(Requirement(each), frozenset(wanted.extras)) for each in asked]
            continue
        if (wanted.name, given) in seen:
            continue
        seen.add((wanted.name, given))
        found = distribution(wanted.name)
        names = {file.parts[0] for file in found.files or () if file.parts[0] not in {"..", "__pycache__"}}
        yield from (Path(str(found.locate_file(name))) for name in names)
        waiting += [(Requirement(each), frozenset(wanted.extras)) for each in found.requires or ()]


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Clean:
    return Clean(tmp_path_factory.mktemp("base") / "venv", wheel)


def test_l6_the_base_publishes_and_subscribes_at_a_broker(base: Clean, tmp_path: Path) -> None:
    async def work() -> None:
        async with fleet(tmp_path, "a", ()) as brokers:
            broker = ("--broker", f"mqtt://127.0.0.1:{brokers['a'].mqtt_port}")
            near = ("--near", "500", "--at", "0,0", "--name", "me", "--json")
            said = await asyncio.to_thread(base.roamcast, "sub", "ice", *broker, *near, "--seconds", "1")
            assert said.returncode == 0, said.stderr
            said = await asyncio.to_thread(base.roamcast, "pub", "ice", '{"severity": 5}', *broker, "--at", "100,0")
            assert said.returncode == 0, said.stderr
            said = await asyncio.to_thread(
                base.roamcast, "sub", "ice", *broker, *near, "--count", "1", "--seconds", "60"
            )
            assert json.loads(said.stdout)["content"] == {"severity": 5}, said.stderr

    asyncio.run(work())


@pytest.mark.parametrize("command", sorted(EXTRA_OF_COMMAND))
def test_l6_the_base_names_the_extra_that_a_command_needs(base: Clean, command: str) -> None:
    words = {
        "broker": ("--data", "data"),
        "import": ("fixes.csv", "--journal", "out"),
        "key": ("group.key",),
        "node": ("me",),
        "passwd": ("users", "ann"),
        "pipeline": ("ingest", "journal"),
        "audit": ("journal",),
        "routes": ("town.toml",),
        "sim": ("town.toml",),
        "what-if": ("journal",),
        "experiments": ("list",),
    }
    said = base.roamcast(command, *words.get(command, ()))
    assert said.returncode == 2, said.stderr
    assert f"pip install 'roamcast[{EXTRA_OF_COMMAND[command]}]'" in said.stderr.replace("\n", "")


USES = {
    "broker": ("-c", "import roamcast.cli._broker"),
    "import": ("-c", "import roamcast.importer.running"),
    "node": ("-c", "import roamcast.cli._node"),
    "postgres": ("-c", "import psycopg, roamcast.server.running"),
    "sim": ("-m", "roamcast", "chaos", "--seeds", "1"),
    "spark": ("-c", "import roamcast.spark, roamcast.spark.page, roamcast.spark.chores"),
}


@pytest.mark.parametrize("extra", EXTRAS)
def test_l6_an_extra_is_enough_for_what_it_is_named_after(extra: str, wheel: Path, tmp_path: Path) -> None:
    said = Clean(tmp_path / "venv", wheel, extra).run(*USES[extra])
    assert said.returncode == 0, said.stderr


def test_l6_the_broker_extra_serves_clients(wheel: Path, tmp_path: Path) -> None:
    clean = Clean(tmp_path / "venv", wheel, "broker")
    port = free_port()
    words = ("-m", "roamcast", "broker", "--mqtt-port", str(port), "--data", "data")
    with subprocess.Popen([clean.python, *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        try:
            assert any("is ready" in line for line in broker.stdout)
            assert clean.roamcast("pub", "ice", "{}", "--broker", f"mqtt://127.0.0.1:{port}").returncode == 0
        finally:
            broker.terminate()
            broker.stdout.read()
    assert broker.returncode == 0
