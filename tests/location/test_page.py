"""docs/reference/LOCATION.md says what the sources are, what can be asked of them and what is counted."""

import asyncio
import re
from pathlib import Path

import pytest

from roamcast.location import Limits, Reason, source
from roamcast.location.choosing import MAKERS
from roamcast.location.gpsd import Heard
from roamcast.sim.mobility.trace_formats import CSV_NAMES, KIND_OF_SUFFIX
from tests.docs.pages import ROOT, blocks, text_of
from tests.location.clocks import TestClock, first

PAGE = text_of("docs/reference/LOCATION.md")


def rows(heading: str) -> set[str]:
    """The words in backticks in the first cells of the tables below a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| ([^|]*) \|", section, re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([^`]*)`", cell)}


@pytest.mark.parametrize("text", blocks(PAGE, "")[0].splitlines())
def test_every_source_that_the_page_shows_can_be_had(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    made = source(text, clock=TestClock())
    if not text.startswith("gpsd:"):
        assert asyncio.run(first(made, 2))


def test_every_kind_of_source_and_every_format_is_on_the_page() -> None:
    assert {each.partition(":")[0] for each in rows("Sources") if ":" in each} == set(MAKERS)
    assert {*KIND_OF_SUFFIX.values(), "fcd-geo"} <= rows("Recorded traces")
    for name in (name for names in CSV_NAMES.values() for name in names):
        assert f"`{name}`" in PAGE


def test_every_option_is_on_the_page() -> None:
    code = (Path(ROOT) / "src/roamcast/location/choosing.py").read_text(encoding="utf-8")
    known = set(re.findall(r'options\.(?:number|integer|flag|text|point)\("(\w+)"', code))
    assert len(known) == 7
    assert known <= rows("Sources")


def test_everything_that_is_counted_is_on_the_page_and_nothing_else() -> None:
    assert rows("gpsd") == {each.value for each in Heard}
    assert rows("What is made of fixes") == {*(each.value for each in Reason), *Limits.__struct_fields__}


def test_the_limits_of_the_page_are_the_defaults() -> None:
    for name in Limits.__struct_fields__:
        found = re.search(rf"^\| `{name}` \| `([\d_.]+)` \|", PAGE, re.MULTILINE)
        assert found is not None
        assert float(found[1]) == getattr(Limits(), name)


def test_the_program_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(blocks(PAGE, "python")[0], "LOCATION.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == "(24.94, 60.17)\n"
    compile(blocks(PAGE, "python")[1], "LOCATION.md", "exec")
