"""docs/reference/LOCATION.md says what the sources are, what can be asked of them and what is counted."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from roamcast import Client, Point
from roamcast.movement import Limits, Reason, source
from roamcast.movement.choosing import MAKERS
from roamcast.movement.gpsd import Heard
from roamcast.movement.trace_formats import CSV_NAMES, KIND_OF_SUFFIX
from tests.client.brokers import Town
from tests.client.test_with_brokers import in_town
from tests.docs.pages import ROOT, blocks, text_of
from tests.movement.clocks import TestClock, first
from tests.movement.test_gpsd import TPV, VERSION, Daemons, line

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
    code = (Path(ROOT) / "src/roamcast/movement/choosing.py").read_text(encoding="utf-8")
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


def test_the_client_of_the_page_hears_what_is_near_where_its_receiver_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work(made: Town) -> None:
        daemons = Daemons(line(VERSION, TPV))
        server = await asyncio.start_server(daemons.serve, "127.0.0.1", 0)
        program = blocks(PAGE, "python")[1].replace("mqtt://127.0.0.1:1883", made.address("a"))
        program = program.replace("gpsd:", f"gpsd:127.0.0.1:{server.sockets[0].getsockname()[1]}")
        names: dict[str, Any] = {}
        exec(compile(program, "LOCATION.md", "exec"), names)
        driving = asyncio.create_task(names["drive"]())
        async with Client("sensor", [made.address("a")]) as sensor:
            told = list[str]()
            while not told:
                for depth, x in ((1, 24.99), (2, 24.941)):
                    await sensor.publish("road/ice", {"depth": depth, "position": Point(x, 60.17)})
                await asyncio.sleep(0.05)
                # The broker's log, where nobody has silenced it, is printed too.
                told = [each for each in capsys.readouterr().out.splitlines() if each.startswith("{")]
        assert set(told) == {"{'depth': 2, 'position': Point(x=24.941, y=60.17)}"}
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        daemons.stay.set()
        server.close()

    in_town(tmp_path, "a", work, "earth")
