"""What docs/reference/NODE.md and docs/howto/LAN.md say of a node is what `roamcast node` does."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from roamcast.cli._node import LINES_MAX
from roamcast.cli._node_advice import advice_on
from roamcast.cli.main import app
from roamcast.multicast import frames
from roamcast.multicast.drops import REASONS
from roamcast.multicast.keys import Identity
from roamcast.multicast.multicast import GROUPS_MAX, PORT
from roamcast.multicast.peers import PEERS_MAX
from roamcast.multicast.running import NodeSettings
from roamcast.multicast.sockets import QUEUE_DATAGRAMS_MAX, group_address
from tests.docs.pages import ROOT, blocks, text_of
from tests.ports import free_port

PAGE = text_of("docs/reference/NODE.md")
LAN = text_of("docs/howto/LAN.md")


def test_l6_every_option_of_a_node_has_a_row_in_order_and_no_other_has() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    known = [max(each.opts, key=len) for each in commands["node"].params if each.name != "name"]
    rows = re.findall(r"^\| `(--[\w-]+)` \|", PAGE, re.MULTILINE)
    assert rows == known


def test_l1_every_reason_to_drop_a_datagram_has_a_row() -> None:
    table = PAGE.partition("## What is dropped")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)`( \*)? \|", table, re.MULTILINE)
    assert [reason for reason, _ in rows] == list(REASONS)
    settings = NodeSettings(name="ann", identity=Identity.fresh())
    told = [reason for reason in REASONS if advice_on(reason, "", settings) is not None]
    assert [reason for reason, star in rows if star] == told


def test_l1_the_numbers_of_the_page_are_those_of_the_code() -> None:
    for number in (frames.FRAME_BYTES_MAX, PEERS_MAX, QUEUE_DATAGRAMS_MAX, GROUPS_MAX, LINES_MAX):
        assert f"{number:,}" in PAGE
    assert f"| `--port` | {PORT} |" in PAGE
    assert group_address(0x4A1122) in PAGE
    sizes = re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)
    assert list(map(int, sizes)) == [2, 1, 4, 1, 3, 16, 8, 64, 1, 16]
    assert sum(map(int, sizes)) == frames.FRAME_BYTES_MIN
    assert f"| {frames.TAG_BYTES} each |" in PAGE
    assert f"how many tags follow, at most {frames.TAGS_MAX}" in PAGE


def commands_of(page: str) -> list[list[str]]:
    lines = [line for block in blocks(page, "") for line in block.splitlines()]
    found = [shlex.split(line) for line in lines if re.match(r"(\.venv/bin/)?roamcast ", line)]
    return [each[1:] for each in found]


@pytest.mark.parametrize("arguments", commands_of(LAN), ids=" ".join)
def test_l1_every_command_of_the_how_to_runs(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("examples").symlink_to(ROOT / "examples")
    if "--key-file" in arguments:
        Path("group.key").write_text("ab" * 32)
    if arguments[0] == "node":
        arguments = [*arguments, "--seconds", "0.1", "--interface", "lo", "--port", str(free_port())]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output


def test_l1_the_program_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = blocks(PAGE, "python")
    assert "sleep(60)" in program
    exec(program.replace("sleep(60)", "sleep(0.1)"), {})
    assert Path("car-1.key").exists()
