"""Brokers walk on a movement model that was learned from traces (R4, R5, P3)."""

from pathlib import Path
from random import Random

import pytest

from roamcast.experiments.assemble import kit_of
from roamcast.model.movement import VERSION, Habits, MovementModel, save_model
from roamcast.node.kit import Seat
from roamcast.protocols.broker.broker import Broker
from roamcast.sim.scenario import BadScenario

HOUSE = MovementModel(VERSION, {"hall": Habits(20.0, {"kitchen": 3}), "kitchen": Habits(5.0, {"hall": 2})})


def test_r5_logical_mobility_takes_graph_and_residence_time_from_the_model(tmp_path: Path) -> None:
    save_model(HOUSE, tmp_path / "house.json")
    kit = kit_of({"kind": "broker", "logical": {"movement": str(tmp_path / "house.json")}})
    node = kit.make_node(Seat("broker-1", Random(1)))
    assert isinstance(node, Broker)
    assert node.params.logical.residence_s == 5.0
    assert node.logical.following.graph is not None
    assert node.logical.following.graph.ploc("hall", 1) == {"hall", "kitchen"}


def test_r5_a_model_that_is_not_there_is_named_with_its_key() -> None:
    with pytest.raises(BadScenario, match=r"protocol\.logical\.movement"):
        kit_of({"kind": "broker", "logical": {"movement": "nowhere.json"}})
