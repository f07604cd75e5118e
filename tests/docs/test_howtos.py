"""L6: what the how-tos show can be used as it stands: settings are accepted, filters read, certificates serve."""

import re
import shlex
import shutil
import ssl
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from roamcast.cli.main import app
from roamcast.model.filter import parse_text
from roamcast.model.filter.write import to_text
from roamcast.papers.experiment import Experiment, Findings, Row
from roamcast.server.settings import settings_from
from tests.docs.following import Reader
from tests.docs.pages import ROOT, blocks, text_of

HOWTOS = sorted((ROOT / "docs/howto").glob("*.md"))
NUMBER = re.compile(r"(?<=:)\d+\.?\d*(?=[,}])|(?<=\[)\d+\.\d+(?=,60)")
NEEDED = {"name": "north", "data": "data"}


@pytest.mark.parametrize("page", ["HTTP", "ROAMING", "SECURITY", "STANDBY"])
def test_l6_every_piece_of_settings_is_accepted(page: str) -> None:
    pieces = blocks(text_of(f"docs/howto/{page}.md"), "toml")
    assert len(pieces) >= 2
    for piece in pieces:
        settings_from(NEEDED | tomllib.loads(piece))


def test_l6_a_piece_of_settings_that_is_wrong_is_found() -> None:
    with pytest.raises(ValueError, match="unknown key"):
        settings_from(NEEDED | tomllib.loads("[links]\nprot = 7883\n"))


def test_l3_the_two_brokers_of_the_how_to_name_each_other() -> None:
    north, south = (settings_from(tomllib.loads(each)) for each in blocks(text_of("docs/howto/ROAMING.md"), "toml"))
    assert [(peer.name, peer.port) for peer in north.links.peers] == [(south.name, south.links.port)]
    assert [(peer.name, peer.port) for peer in south.links.peers] == [(north.name, north.links.port)]


def test_s4_every_filter_of_the_cookbook_is_read_and_written_again() -> None:
    found = [line for block in blocks(text_of("docs/howto/FILTERS.md"), "cql2") for line in block.splitlines()]
    assert len(found) == 21
    for text in found:
        assert parse_text(to_text(parse_text(text))) == parse_text(text)


@pytest.mark.slow
def test_l7_the_certificates_of_the_how_to_serve_a_broker(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    lines = [line for block in blocks(text_of("docs/howto/SECURITY.md"), "") for line in block.splitlines()]
    steps = [line for line in lines if line.startswith(("openssl ", "printf "))]
    assert len(steps) == 4
    for step in steps:
        subprocess.run(["sh", "-ec", step], cwd=tmp_path, check=True, capture_output=True)
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
        tmp_path / "north.pem", tmp_path / "north.key"
    )
    proof = ["openssl", "verify", "-CAfile", "ca.pem", "-verify_hostname", "localhost", "north.pem"]
    subprocess.run(proof, cwd=tmp_path, check=True, capture_output=True)


def test_p4_the_experiment_of_the_how_to_runs_and_is_judged() -> None:
    names: dict[str, Any] = {}
    (snippet,) = blocks(text_of("docs/howto/EXPERIMENTS.md"), "python")
    exec(compile(snippet.replace('"seconds": 20.0', '"seconds": 3.0'), "density.py", "exec"), names)
    (experiment,) = names["EXPERIMENTS"]
    assert isinstance(experiment, Experiment)
    rows = [
        Row(experiment.name, setting, 0, 1, experiment.measure(setting, 1))
        for setting in experiment.settings["quick"]
    ]
    assert len(rows) == 3
    assert all(row.figures["arrived"] <= row.figures["expected"] for row in rows)
    assert "%" in experiment.claims[0].judge(Findings(rows)).measured


class AtAnotherTime(Reader):
    """Two runs differ in when things happen, and a little in where."""

    def compare(self, block: str) -> None:
        for reader in self.waiting:
            self.finish(reader)
        self.waiting.clear()
        assert [NUMBER.sub("0", line) for line in self.printed] == [NUMBER.sub("0", x) for x in block.splitlines()]
        self.printed.clear()


@pytest.mark.process
def test_l6_the_how_to_of_fences_tells_that_a_van_left(tmp_path: Path) -> None:
    reader = AtAnotherTime(tmp_path)
    reader.follow(text_of("docs/howto/FENCES.md"))
    assert len(reader.ran) == 9


@pytest.mark.parametrize("page", HOWTOS, ids=lambda page: page.stem)
def test_l6_every_command_of_a_how_to_has_options_that_exist(page: Path) -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    lines = [line for block in blocks(page.read_text(encoding="utf-8"), "") for line in block.splitlines()]
    for line in lines:
        if not line.startswith("roamcast "):
            continue
        _, name, *words = shlex.split(line, comments=True)
        command = commands[name]
        if hasattr(command, "commands"):
            # A group may do something without any of its commands.
            command = command.commands.get(words[0], command)
        known = {option for each in command.params for option in each.opts}
        assert [word for word in words if re.match(r"--\w", word) and word not in known] == [], line
