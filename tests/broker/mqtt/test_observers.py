"""L5, L8: an observer of a broker can make mistakes, and the broker neither notices nor differs from its log."""

import inspect

import pytest

from roamcast.broker.mqtt.inputs import Left
from roamcast.node.observer import Observer, Observers
from tests.broker.mqtt.observed import TOLD, Mistaken, Told
from tests.broker.mqtt.scene import Scene


@pytest.mark.parametrize("name", [*TOLD, "fanned_out"])
def test_l5_an_observer_that_fails_is_taken_out_and_the_others_are_told(name: str) -> None:
    problems: list[str] = []
    observers = Observers(lambda _, why: problems.append(why))
    mistaken, other = Mistaken(name), Mistaken("nothing")
    observers.add(mistaken)
    observers.add(other)
    for _ in range(2):
        getattr(observers, name)(*[None] * (len(inspect.signature(getattr(Observer, name)).parameters) - 1))
    assert problems == [f"{name}: KeyError('{name}')"]
    assert mistaken.has_failed
    assert observers.all == (other,)
    assert other.told == [name, name]


def test_l5_an_observer_that_fails_is_remarked_once() -> None:
    scene = Scene()
    broker, mistaken, other = scene.stage.brokers["a"], Mistaken("moved"), Told()
    broker.observe(mistaken)
    broker.observe(other)
    client = scene.client("c")
    scene.report(client, position=[1, 2])
    assert mistaken.told == ["moved"]
    assert len(other.of("moved")) == 2
    assert [each for each in broker.monitor.said if each[0] == "observer_failed"] == [
        ("observer_failed", "Mistaken, moved: KeyError('moved')")
    ]


@pytest.mark.parametrize("about", [*TOLD, "fanned_out"])
def test_l8_a_broker_whose_observer_fails_serves_its_clients_and_comes_back_from_its_log(about: str) -> None:
    scene = Scene("ab")
    for name in "ab":
        scene.stage.brokers[name].observe(Mistaken(about))
    reader, writer, third = scene.client("reader"), scene.client("writer"), scene.client("third", "b")
    for each in (reader, third):
        scene.subscribe(each, "t", 2)
    for qos in (0, 1, 2):
        scene.publish(writer, "t", b"%d" % qos, qos)
    scene.unsubscribe(third, "t")
    scene.move(third, "a")
    third.drop()
    scene.rest()
    assert reader.taken == [b"0", b"1", b"2"]
    assert third.taken == [b"0", b"1", b"2"]
    border = scene.stage.brokers["a"].server.core.border
    connected = {name: visitor.connected for name, visitor in border.sessions.items()}
    assert connected == {"reader": True, "writer": True, "third": False}
    scene.stage.brokers["a"].server.give(Left("third", 0, True))
    scene.rest()
    assert "third" not in border.sessions
