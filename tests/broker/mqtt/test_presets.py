"""L2, L3: every routing that the settings of a broker accept serves MQTT clients that roam."""

import json
from typing import get_args

import pytest

from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.params import BrokerParams
from roamcast.broker.routing import Strategy
from roamcast.mqtt.limits import SessionLimits
from tests.broker.mqtt.scene import Scene


@pytest.mark.parametrize("routing", get_args(Strategy))
def test_l3_a_client_that_moves_gets_everything_under_every_routing(routing: Strategy) -> None:
    scene = Scene("abc", broker_params=BrokerParams(routing=routing))
    reader, other, writer = scene.client("r", "a"), scene.client("o", "b"), scene.client("w", "c")
    scene.subscribe(reader, "t/#", qos=2, filter="near(position, 200) AND level > 3")
    scene.subscribe(other, "t/+", qos=1, filter="level > 4")
    scene.report(reader, position=[0, 0])
    sent = []
    for number, broker in enumerate("abcba"):
        for level in (2, 5):
            body: dict[str, object] = {"number": number, "level": level, "position": [100, 0]}
            scene.publish(writer, "t/x", body, qos=1 + number % 2)
            sent += [body] if level > 3 else []
        reader.drop()
        scene.publish(writer, "t/x", {"level": 9, "number": -number, "position": [999, 0]})
        scene.move(reader, broker)
    assert [json.loads(each) for each in reader.taken] == sent
    assert len(other.taken) == 10


def test_routes_name_the_wishes_of_each_mqtt_client() -> None:
    scene = Scene()
    for name in ("one", "two"):
        scene.subscribe(scene.client(name), f"of/{name}")
    clients = scene.stage.brokers["a"].server.core.broker.routes().clients
    assert {each.client: [wish.subject for wish in each.wants] for each in clients} == {
        "one": ["of/one"],
        "two": ["of/two"],
    }


def waiting(messages_max: int, bytes_max: int, size: int) -> tuple[int, list[str]]:
    """How many of 30 messages of a size come to a client that was away, and what the broker remarks."""
    limits = SessionLimits(queue_messages_max=messages_max, queue_bytes_max=bytes_max)
    scene = Scene("a", CoreParams(session=limits))
    reader, writer = scene.client("r"), scene.client("w")
    scene.subscribe(reader, "t")
    reader.drop()
    scene.rest()
    for number in range(30):
        scene.publish(writer, "t", b"%d" % number + b"x" * size)
    scene.move(reader, "a")
    return len(reader.taken), scene.remarks()


def test_rule_58_messages_for_a_client_that_is_away_are_bounded_in_number() -> None:
    came, remarks = waiting(messages_max=20, bytes_max=1_000_000, size=10)
    assert came == 20
    assert remarks.count("delivery_dropped") == 10


def test_rule_58_messages_for_a_client_that_is_away_are_bounded_in_bytes() -> None:
    came, remarks = waiting(messages_max=1_000, bytes_max=10_000, size=1_000)
    assert 5 <= came <= 10
    assert remarks.count("delivery_dropped") == 30 - came


def test_rule_58_a_client_that_is_away_loses_nothing_within_its_limits() -> None:
    scene = Scene("a")
    reader, writer = scene.client("r"), scene.client("w")
    scene.subscribe(reader, "t")
    reader.drop()
    scene.rest()
    for number in range(1_100):
        writer.publish("t", str(number).encode(), 1)
    scene.rest(20)
    scene.move(reader, "a")
    scene.rest(20)
    assert [int(each) for each in reader.taken] == list(range(1_100))


def test_rule_58_what_waits_for_a_client_that_is_away_is_not_cut_when_its_broker_starts_again() -> None:
    core = Core("a", 1)
    assert not core.adopt(BrokerParams(), CoreParams(), None)
    assert core.adopt(BrokerParams(marks_max=7), CoreParams(), None)
    assert not core.border.bounds.evicts
    assert core.border.bounds.entries_max == SessionLimits().queue_messages_max
