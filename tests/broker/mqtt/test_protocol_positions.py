"""docs/PROTOCOL.md, section 19: positions of clients come out, for whoever subscribes."""

import json
from typing import Any

import pytest

from roamcast.mqtt.packets import PubAck
from roamcast.mqtt.reasons import Reason
from tests.broker.mqtt.scene import Scene, last, published
from tests.broker.mqtt.stage import SimClient


def told(client: SimClient) -> list[tuple[str, Any]]:
    return [(each.topic.removeprefix("$roam/position/"), json.loads(each.payload)) for each in published(client)]


def places(client: SimClient) -> list[Any]:
    return [said["position"] for _, said in told(client)]


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("brokers", ["a", "abc"])
def test_a_move_is_told_to_who_subscribed_at_any_broker_rule_103(brokers: str, qos: int) -> None:
    scene = Scene(brokers)
    reader, van = scene.client("reader", brokers[-1]), scene.client("fleet/van 7", brokers[0])
    assert scene.subscribe(reader, "$roam/position/+") == (Reason.GRANTED_QOS_1,)
    scene.publish(van, "$roam/me", {"position": [3, 4], "velocity": [1, 0], "attributes": {"type": "van"}}, qos=qos)
    ((name, said),) = told(reader)
    assert name == "fleet%2Fvan 7"
    assert said.pop("time") > 0
    assert said == {"client": "fleet/van 7", "position": [3.0, 4.0], "velocity": [1.0, 0.0], "type": "van"}
    scene.publish(van, "$roam/me", {"position": None}, qos=qos)
    assert places(reader)[1] is None
    scene.unsubscribe(reader, "$roam/position/+")
    scene.publish(van, "$roam/me", {"position": [5, 5]}, qos=qos)
    assert len(told(reader)) == 2


def test_positions_are_chosen_by_a_filter_and_a_place_rule_103() -> None:
    scene = Scene()
    reader, van, bus = scene.client("reader"), scene.client("van"), scene.client("bus")
    scene.report(reader, position=[0, 0])
    scene.subscribe(reader, "$roam/position/#", filter="type = 'bus' AND near(position, 100)")
    for client in (van, bus):
        for x in (50, 500):
            scene.report(client, position=[x, 0], attributes={"type": client.name})
    assert told(reader) == [("bus", told(reader)[0][1])]
    assert places(reader) == [[50.0, 0.0]]


def test_while_nobody_subscribes_no_position_is_made_rule_103() -> None:
    scene = Scene("ab")
    van, events = scene.client("van"), scene.stage.brokers["a"].server.core.events
    before = events.passing_made
    scene.report(van, position=[1, 1])
    assert events.passing_made == before


def test_the_last_known_position_is_given_to_who_subscribes_rule_104() -> None:
    scene = Scene()
    reader, van, bus = scene.client("reader"), scene.client("van"), scene.client("bus")
    scene.report(van, position=[1, 1])
    scene.report(bus, position=[2, 2])
    bus.drop()
    scene.rest()
    scene.subscribe(reader, "$roam/position/van")
    assert (places(reader), last_retained(reader)) == ([[1.0, 1.0]], True)
    scene.subscribe(reader, "$roam/position/+")
    assert sorted(places(reader)[1:]) == [[1.0, 1.0], [2.0, 2.0]]
    scene.report(van, position=[3, 3])
    assert last_retained(reader) is False


def last_retained(client: SimClient) -> bool:
    return published(client)[-1].retain


def test_a_client_that_hides_is_not_told_of_rule_105() -> None:
    scene = Scene()
    reader, van = scene.client("reader"), scene.client("van")
    scene.subscribe(reader, "$roam/position/+")
    scene.report(van, position=[1, 1], attributes={"position_hidden": True})
    scene.subscribe(reader, "$roam/position/van")
    assert told(reader) == []
    scene.report(van, position=[2, 2], attributes={"position_hidden": False})
    assert set(map(tuple, places(reader))) == {(2.0, 2.0)}


def test_a_client_is_shown_in_the_middle_of_its_cell_and_told_when_that_changes_rule_105() -> None:
    scene = Scene()
    reader, van = scene.client("reader"), scene.client("van")
    scene.subscribe(reader, "$roam/position/+", origin="true")
    for x in (120, 180, 199, 201):
        scene.report(van, position=[x, 40], velocity=[3, 0], attributes={"position_grid_m": 100, "type": "van"})
    assert places(reader) == [[150.0, 50.0], [250.0, 50.0]]
    assert all("velocity" not in said and "position_grid_m" not in said for _, said in told(reader))
    for each in published(reader):
        assert "120" not in str(each.user_properties)
        assert "40" not in str([value for name, value in each.user_properties if name == "origin"])


def test_nobody_publishes_positions_of_others_rule_106() -> None:
    scene = Scene()
    van = scene.client("van")
    scene.publish(van, "$roam/position/bus", {"position": [1, 1]})
    assert last(van, PubAck).reason is Reason.TOPIC_NAME_INVALID


@pytest.mark.parametrize("grid_m", [1e-320, 1e308, 1e300])
def test_a_grid_that_is_too_fine_or_too_wide_harms_nobody_rule_105(grid_m: float) -> None:
    scene = Scene()
    van, early, late = scene.client("van"), scene.client("early"), scene.client("late")
    scene.subscribe(early, "$roam/position/#")
    for x in (5, -5):
        scene.report(van, position=[x, 5], attributes={"position_grid_m": grid_m})
    assert scene.subscribe(late, "$roam/position/#") == (Reason.GRANTED_QOS_1,)
    assert [name for name, _ in told(late)] == ["van"]
    assert early.ready
