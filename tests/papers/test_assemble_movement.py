"""Brokers walk on a movement model learned from traces, if it is of their own cells (R4, R5, R7, M10, P3)."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from roamcast.broker.broker import Broker
from roamcast.broker.logical.ahead import Ahead
from roamcast.model.movement import VERSION, Habits, MovementModel, save_model
from roamcast.node.kit import ProtocolKit, Seat
from roamcast.papers.assemble import kit_of
from roamcast.sim.scenario import BadScenario

HOUSE = MovementModel(VERSION, {"hall": Habits(20.0, {"kitchen": 3}), "kitchen": Habits(5.0, {"hall": 2})})
STREET = MovementModel(VERSION, {"0,0": Habits(20.0, {"1,0": 3}), "1,0": Habits(5.0)}, cell_m=250.0)


def test_r5_logical_mobility_takes_graph_and_residence_time_from_the_model(tmp_path: Path) -> None:
    save_model(HOUSE, tmp_path / "house.json")
    kit = kit_of({"kind": "broker", "logical": {"movement": str(tmp_path / "house.json")}})
    node = kit.make_node(Seat("broker-1", Random(1)))
    assert isinstance(node, Broker)
    assert node.params.logical.residence_s == 5.0
    assert node.logical.following.graph is not None
    assert node.logical.following.graph.ploc("hall", 1) == {"hall", "kitchen"}


@pytest.mark.parametrize(
    ("learned", "said"),
    [
        ({"cell_m": 300.0}, r"field 'cell_m': the model was learned with 300, and the mesh has 250"),
        ({"origin": (0.0, 10.0)}, r"field 'origin': the model was learned with 10, and the mesh has 0"),
        ({"cell_m": 0.0}, r"field 'cell_m' is 0: its places are not cells"),
    ],
    ids=["other cells", "another corner", "no cells"],
)
def test_m10_a_model_of_other_cells_than_the_mesh_has_is_refused_with_file_and_field(
    tmp_path: Path, learned: dict[str, Any], said: str
) -> None:
    file = tmp_path / "street.json"
    save_model(replace(STREET, **learned), file)
    with pytest.raises(BadScenario, match=rf"protocol\.mesh\.movement: {file}: {said}"):
        mesh_kit(file)


def test_m10_a_model_of_the_cells_of_the_mesh_is_taken(tmp_path: Path) -> None:
    save_model(STREET, tmp_path / "street.json")
    assert mesh_kit(tmp_path / "street.json").make_node(Seat("broker-1", Random(1)))


def mesh_kit(file: Path) -> ProtocolKit:
    return kit_of({"kind": "broker", "handover": "predictive", "mesh": {"movement": str(file)}})


def test_r7_brokers_subscribe_ahead_where_most_went_by_the_model(tmp_path: Path) -> None:
    north = Habits(9.0, {"east": 1, "south": 4, "west": 2})
    others = {name: Habits(9.0) for name in ("east", "south", "west")}
    ways = MovementModel(VERSION, {"north": north, **others})
    save_model(ways, tmp_path / "ways.json")
    kit = kit_of({"kind": "broker", "ahead": {"movement": str(tmp_path / "ways.json"), "brokers_max": 2}})
    node = kit.make_node(Seat("broker", Random(1)))
    assert isinstance(node, Broker)
    assert node.params.ahead.next_brokers == {"north": ("south", "west")}
    assert isinstance(node.handover, Ahead)


def test_r7_a_model_whose_places_are_no_brokers_is_refused_with_its_key(tmp_path: Path) -> None:
    save_model(STREET, tmp_path / "street.json")
    with pytest.raises(BadScenario, match=r"protocol\.ahead\.movement: .*its places are cells, not brokers"):
        kit_of({"kind": "broker", "ahead": {"movement": str(tmp_path / "street.json")}})


def test_r5_a_model_that_is_not_there_is_named_with_its_key() -> None:
    with pytest.raises(BadScenario, match=r"protocol\.logical\.movement"):
        kit_of({"kind": "broker", "logical": {"movement": "nowhere.json"}})
