"""L6: the tutorial is followed as it stands, with real processes; what it says is printed is printed."""

import json
from pathlib import Path

import pytest

from tests.docs.following import Reader
from tests.docs.pages import blocks, text_of
from tests.docs.test_docs import invoke

TUTORIAL = text_of("docs/TUTORIAL.md")


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("tutorial")
def test_l6_every_command_of_the_tutorial_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    reader.follow(TUTORIAL)
    assert len(reader.ran) >= 15
    ((audit, journal),) = reader.audits
    code, output = invoke(audit, str(tmp_path / journal), "--json")
    assert code == 0, output
    total = json.loads(output)["total"]
    assert (total["expected"], total["delivered"], total["missed"], total["duplicates"]) == (1, 1, 0, 0)


def test_l6_a_page_that_promises_another_output_is_found_out(tmp_path: Path) -> None:
    page = "```python\n# say.py\nprint('hello')\n```\n\n```\npython3 say.py\n```\n\n```text\n{}\n```\n"
    Reader(tmp_path).follow(page.format("hello"))
    with pytest.raises(AssertionError):
        Reader(tmp_path).follow(page.format("goodbye"))


def test_l6_a_command_that_nobody_can_follow_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="nobody knows how"):
        Reader(tmp_path).follow("```\nfrobnicate now\n```\n")


def test_l6_the_tutorial_shows_files_commands_and_output() -> None:
    assert [len(blocks(TUTORIAL, each)) >= 2 for each in ("", "toml", "text")] == [True] * 3
