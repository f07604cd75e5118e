"""L6: the command line accepts every `roamcast` command on every page, also those that no test runs."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from roamcast.cli.main import application
from tests.docs.pages import FENCED, PAGES, ROOT

COMMAND_LINE = get_command(application())
START = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\.venv/bin/|/opt/roamcast/bin/)?roamcast (.*)$")
ENDS = {"|", "||", "&&", ";", ">", ">>", "2>", "&"}


def commands_of(text: str) -> list[list[str]]:
    """The arguments of each, up to a pipe or a redirection. A page writes `…` where a reader puts his own."""
    found = []
    for language, block in FENCED.findall(text):
        if language not in ("", "sh", "console"):
            continue
        for line in block.replace("\\\n", " ").splitlines():
            asked = START.match(line.strip())
            if asked is not None:
                words = shlex.split(asked[1], comments=True)
                end = next((at for at, word in enumerate(words) if word in ENDS), len(words))
                found.append(words[:end])
    return found


def problem_of(arguments: list[str]) -> str | None:
    """What is wrong with them, in the command line's own words."""
    command: Any = COMMAND_LINE
    rest = list(arguments)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    if command is COMMAND_LINE and rest and not rest[0].startswith("-"):
        return f"there is no command {rest[0]}"
    try:
        command.make_context("roamcast", rest)
    except SystemExit:
        pass
    except Exception as problem:
        if type(problem).__name__ not in ("Exit", "NoArgsIsHelpError"):
            return str(problem) or type(problem).__name__
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_l6_commands_of_a_page_are_accepted(page: Path) -> None:
    commands = commands_of(page.read_text(encoding="utf-8"))
    problems = {" ".join(each): problem_of(each) for each in commands}
    assert {command: problem for command, problem in problems.items() if problem is not None} == {}


def test_l6_a_command_that_is_wrong_is_found() -> None:
    text = "```\nroamcast subscribe x\n$ roamcast sub x --nearby 5 | tee y\nroamcast sub x --near 5 > y\n```\n"
    problems = [problem_of(each) for each in commands_of(text)]
    assert problems[0] == "there is no command subscribe"
    assert "--nearby" in str(problems[1])
    assert problems[2] is None


def test_l6_pages_have_commands() -> None:
    assert sum(len(commands_of(page.read_text(encoding="utf-8"))) for page in PAGES) > 100
