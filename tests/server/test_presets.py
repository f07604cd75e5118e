"""L2, R7, M1: presets of brokers in one TOML file: what is written wrong is named, and the examples are accepted."""

import re
from pathlib import Path
from typing import Any

import pytest

from roamcast.model.movement import Habits, MovementModel, save_model
from roamcast.server.settings import BadSettings, load_movement, load_protocol, load_settings, settings_from
from tests.docs.pages import ROOT

EXAMPLES = sorted((ROOT / "examples/brokers").glob("*.toml"))
LEAST = {"name": "north", "data": "data"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_l2_every_example_of_a_preset_is_accepted_as_it_stands(path: Path) -> None:
    settings, usual = load_settings(path), settings_from(LEAST)
    assert (settings.protocol, settings.overlay) != (usual.protocol, usual.overlay)


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


def in_mesh(name: str, peers: list[str], **protocol: Any) -> dict[str, Any]:
    links = {"peers": [{"name": each, "host": "127.0.0.1", "port": 1} for each in peers]}
    return {"name": name, "data": "data", "links": links, "protocol": {"handover": "batch", **protocol}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (in_mesh("north", []), "they are called broker-1 to broker-9, row by row"),
        (in_mesh("broker-10", []), "name is 'broker-10', and protocol.handover 'batch' needs"),
        (in_mesh("broker-1", ["broker-5", "broker-3"]), "'broker-3' is not in a cell beside that of 'broker-1'"),
        (in_mesh("broker-1", ["broker-5", "south"]), "those are broker-2, broker-4, broker-5"),
        (in_mesh("broker-1", ["broker-2"]), "'broker-5' is missing; subscriptions of 'broker-1' go that way"),
        (
            in_mesh("broker-5", [], ahead={"next_brokers": {"broker-5": ["broker-1"]}}),
            "next_brokers and movement are for 'relocation'",
        ),
    ],
)
def test_m1_a_mesh_that_is_written_wrong_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSettings, match=re.escape(said)):
        settings_from(given)


@pytest.mark.parametrize("kind", ["broker", "overlay"])
def test_l2_an_overlay_that_is_written_in_two_places_is_refused(kind: str) -> None:
    given = {**LEAST, "overlay": {"offload": True}, "protocol": {"kind": kind}}
    with pytest.raises(BadSettings, match=f"protocol.kind is '{kind}', and there is a table 'overlay' as well"):
        settings_from(given)


def in_overlay(**overlay: Any) -> dict[str, Any]:
    return {**LEAST, "protocol": {"kind": "overlay", **overlay}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (in_overlay(update_period_s=-1), "protocol: update_period_s is -1.0; give a number above 0"),
        (in_overlay(update_period=1), "unknown key 'protocol.update_period'; did you mean 'update_period_s'?"),
        (in_overlay(clients={"sessions_max": "many"}), "protocol.clients.sessions_max: expected an integer"),
        (
            in_overlay(clients={"advertisements": True}),
            "protocol.clients.advertisements: brokers of an overlay have no",
        ),
        (
            in_overlay(clients={"handover": "probing"}),
            "protocol.clients.handover: brokers of an overlay have no such",
        ),
        (in_overlay(relays=["mast"]), "protocol.brokers and protocol.relays are groups of hosts in a scenario"),
        (in_overlay(event_cost_ms=5.0), "protocol.event_cost_ms: a model for simulations"),
        ({**LEAST, "overlay": {"place": 3}}, "overlay.place: expected true or false"),
    ],
)
def test_l2_what_is_wrong_in_an_overlay_is_named_as_it_was_written(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSettings, match=re.escape(said)):
        settings_from(given)


def test_l2_bounds_of_sessions_hold_in_an_overlay_too() -> None:
    overlay = settings_from(in_overlay(clients={"sessions_max": 5})).overlay
    assert overlay is not None
    assert overlay.clients.sessions_max == 5


def test_m1_a_mesh_without_a_handover_that_has_one_is_refused() -> None:
    given = {**LEAST, "protocol": {"mesh": {"columns": 2}}}
    with pytest.raises(BadSettings, match=r"protocol\.mesh: there is none with handover 'relocation'"):
        settings_from(given)


@pytest.mark.parametrize("key", ["advertised_topics_max", "advertised_idle_s"])
def test_r1_bounds_of_what_is_advertised_are_above_0(key: str) -> None:
    with pytest.raises(BadSettings, match=f"keeping: {key} is 0"):
        settings_from({**LEAST, "keeping": {key: 0}})


def test_m1_a_broker_of_a_mesh_is_linked_to_the_cells_around_its_own() -> None:
    settings_from(in_mesh("broker-5", [f"broker-{each}" for each in (1, 2, 3, 4, 6, 7, 8, 9)]))
    settings_from(in_mesh("mast-1", [], mesh={"broker": "mast", "columns": 1, "rows": 1}))


def test_m10_a_model_whose_cells_are_not_those_of_the_mesh_is_refused(tmp_path: Path) -> None:
    save_model(MovementModel(1, {"0,0": Habits(60.0)}, 300.0), tmp_path / "cells.json")
    given = in_mesh("broker-5", [], mesh={"movement": str(tmp_path / "cells.json")})
    with pytest.raises(BadSettings, match=r"protocol\.mesh\.movement: .*learned with 300, and the mesh has 250"):
        load_movement(settings_from(given), "mesh")
