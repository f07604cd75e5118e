"""L6: `roamcast --help` is a map of the product."""

from typer.main import get_command

from roamcast.cli.main import app
from roamcast.cli.panels import MAP, PANELS, PURPOSES
from tests.cli.test_commands import invoke

LINE_CHARS = 62
"""What a terminal of 80 columns has beside the names of commands."""


def test_l6_every_command_has_a_place_on_the_map() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert [name for name in commands if name not in PANELS] == []


def test_l6_every_purpose_fits_on_a_line() -> None:
    assert [name for name, purpose in PURPOSES.items() if len(purpose) > LINE_CHARS] == []


def test_l6_help_shows_the_panels_and_the_commands_in_the_order_of_the_map() -> None:
    code, output = invoke("--help")
    assert code == 0
    titles = [output.index(f"─ {panel} ─") for panel in MAP]
    assert titles == sorted(titles)
    places = [output.index(f"│ {name} ") for name in PANELS if f"│ {name} " in output]
    assert len(places) >= 14
    assert places == sorted(places)
