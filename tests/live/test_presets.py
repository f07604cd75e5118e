"""L2, R7, M1: presets of brokers in one TOML file: what is written wrong is named, and the examples are accepted."""

from pathlib import Path
from typing import Any

import pytest

from roamcast.live.settings import BadSettings, load_protocol, load_settings, settings_from
from roamcast.model.movement import Habits, MovementModel, save_model
from tests.docs.pages import ROOT

EXAMPLES = sorted((ROOT / "examples/brokers").glob("*.toml"))
LEAST = {"name": "north", "data": "data"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_l2_every_example_of_a_preset_is_accepted_as_it_stands(path: Path) -> None:
    settings = load_settings(path)
    assert settings.protocol != settings_from(LEAST).protocol


def learned(tmp_path: Path, cell_m: float = 0.0) -> dict[str, Any]:
    """Settings that name a model in which most go on to the south."""
    following = {"south": 9, "west": 4, "east": 2, "far": 1}
    places = {name: Habits(60.0) for name in following} | {"north": Habits(60.0, following)}
    if cell_m:
        places = {"0,0": Habits(60.0)}
    save_model(MovementModel(1, places, cell_m), tmp_path / "ways.json")
    ahead = {"movement": str(tmp_path / "ways.json"), "brokers_max": 2}
    return {**LEAST, "protocol": {"ahead": ahead}}


def test_r7_the_brokers_that_come_next_are_those_to_which_most_went(tmp_path: Path) -> None:
    protocol = load_protocol(settings_from(learned(tmp_path)))
    assert protocol.ahead.next_brokers == {"north": ("south", "west")}


def test_r7_a_model_of_cells_says_nothing_of_brokers(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"protocol\.ahead\.movement: .* its places are cells, not brokers"):
        load_protocol(settings_from(learned(tmp_path, cell_m=250)))


def test_r7_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    given = {**LEAST, "protocol": {"ahead": {"movement": str(tmp_path / "gone.json")}}}
    with pytest.raises(BadSettings, match=r"protocol\.ahead\.movement: .*gone\.json: cannot be read"):
        load_protocol(settings_from(given))
