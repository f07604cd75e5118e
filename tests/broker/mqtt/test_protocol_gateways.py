"""docs/PROTOCOL.md, section 15: messages that are not their client's, and who is told whose they are (L9)."""

import asyncio
from pathlib import Path

import pytest

from roamcast.client import Client, PublicationRefused
from roamcast.model.context import Context
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import EVERYWHERE, Scope
from roamcast.model.values import Point
from roamcast.mqtt.encoding import encode
from roamcast.mqtt.origin import Origin, origin_in, origin_text
from roamcast.mqtt.packets import V5, Publish
from roamcast.mqtt.reasons import Reason
from roamcast.server.running import RunningBroker
from roamcast.server.security.rules import Rule
from roamcast.server.settings import Listener, SecuritySettings, Settings
from tests.broker.mqtt.scene import Scene, published
from tests.broker.mqtt.test_protocol_presets import apart
from tests.effort import seeds

CAR = Context("car", Point(1_000.0, 0.0), attributes={"kind": "car"})
AROUND = Scope(Anchored(Circle(Point(0.0, 0.0), 100.0), "car"))


def origin(number: int = 1, audience: Scope = EVERYWHERE, publisher: Context = CAR) -> str:
    return origin_text(Origin(f"car:e{number}", publisher, 5, 5, audience=audience))


def test_a_message_with_an_origin_is_its_publishers_rule_72() -> None:
    scene = Scene("ab")
    gate, car, bus, far = (scene.client(name, at) for name, at in (("gate", "a"), ("c", "b"), ("b", "b"), ("f", "b")))
    scene.subscribe(car, "t", publishers="kind = 'car'")
    scene.subscribe(bus, "t", publishers="kind = 'bus'")
    scene.subscribe(far, "t", filter="near(position, 50)")
    for client, x in ((gate, 0), (car, 1_050), (bus, 1_050), (far, 1_200)):
        scene.report(client, position=[x, 0])
    assert scene.publish(gate, "t", b"1", origin=origin(1, AROUND)) is Reason.SUCCESS
    scene.report(far, position=[1_010, 0])
    scene.publish(gate, "t", b"2", origin=origin(2, AROUND))
    assert car.taken == [b"1", b"2"]
    assert far.taken == [b"2"]
    assert bus.taken == []


@pytest.mark.parametrize("text", ["", "{}", '{"id": 3}', origin(publisher=Context("x"))[:-1]])
def test_an_origin_that_cannot_be_understood_refuses_the_message_rule_72(text: str) -> None:
    scene = Scene()
    gate, reader = scene.client("gate"), scene.client("reader")
    scene.subscribe(reader, "t")
    assert scene.publish(gate, "t", b"1", origin=text) is Reason.IMPLEMENTATION_SPECIFIC_ERROR
    assert reader.taken == []


@pytest.mark.parametrize("second", ["a", "b", "c"])
def test_what_two_gateways_bring_is_delivered_once_rule_73(second: str) -> None:
    scene = Scene("abc")
    gates = [scene.client("gate", "a"), scene.client("door", second)]
    readers = [scene.client(f"reader-{broker}", broker) for broker in "abc"]
    for reader in readers:
        scene.subscribe(reader, "t")
    for number in (1, 2):
        for gate in gates:
            assert scene.publish(gate, "t", f"{number}".encode(), origin=origin(number)) is Reason.SUCCESS
    assert [reader.taken for reader in readers] == [[b"1", b"2"]] * 3


@seeds(5)
def test_also_when_they_bring_it_at_the_same_time_rule_73(seed: int) -> None:
    scene = Scene("abc", seed=seed)
    gates = [scene.client("gate", "a"), scene.client("door", "c")]
    readers = [scene.client(f"reader-{broker}", broker) for broker in "abc"]
    for reader in readers:
        scene.subscribe(reader, "t")
    for gate in gates:
        gate.publish("t", b"1", 1, origin=origin(1))
    scene.rest(2.0)
    assert [reader.taken for reader in readers] == [[b"1"]] * 3


def test_a_broker_that_was_killed_remembers_what_gateways_brought_rule_73() -> None:
    scene = Scene()
    gate, reader = scene.client("gate"), scene.client("reader")
    scene.subscribe(reader, "t")
    scene.publish(gate, "t", b"1", origin=origin(1))
    core = scene.stage.brokers["a"].server.core
    assert type(core).restored(core.snapshot()).events.brought == core.events.brought != {}


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_who_asks_for_origins_is_told_by_all_brokers_alike_rule_74(qos: int) -> None:
    scene = Scene("ab")
    writer, plain = scene.client("writer", "a"), scene.client("plain", "b")
    readers = [scene.client("one", "a"), scene.client("two", "b")]
    for reader in readers:
        scene.subscribe(reader, "t", 1, origin="true")
    scene.subscribe(plain, "t", 1)
    scene.report(writer, position=[7, 8], attributes={"kind": "van"})
    scene.publish(writer, "t", b"1", qos, trace="x")
    scene.publish(writer, "t", b"2", qos, origin=origin(9))
    told = [[origin_in(each.user_properties) for each in published(reader)] for reader in readers]
    assert told[0] == told[1]
    first, second = told[0]
    assert first is not None
    assert second is not None
    assert (first.publisher.host, first.publisher.position) == ("writer", Point(7.0, 8.0))
    assert first.publisher.attributes == {"kind": "van"}
    assert second.id == "car:e9"
    assert [each.user_properties for each in published(plain)] == [(("trace", "x"),), (("origin", origin(9)),)]


def test_who_may_speak_for_others_is_a_matter_of_rules_rule_75(tmp_path: Path) -> None:
    async def story() -> None:
        rules = (
            Rule(clients=("gate",), publish=("ice", "$roam/origin")),
            Rule(publish=("ice",)),
        )
        security = SecuritySettings(rules=rules, anonymous=True)
        settings = Settings(
            "a", str(tmp_path), "plane", listeners=(Listener(port=0, host="127.0.0.1"),), security=security
        )
        broker = RunningBroker(settings)
        await broker.start()
        address = f"mqtt://127.0.0.1:{broker.addresses[0].port}"
        try:
            async with Client("gate", [address]) as gate, Client("other", [address]) as other:
                await gate.publish("ice", properties=[("origin", origin())])
                await other.publish("ice")
                with pytest.raises(PublicationRefused) as refused:
                    await other.publish("ice", properties=[("origin", origin())])
                assert refused.value.reason is Reason.NOT_AUTHORIZED
        finally:
            await broker.stop()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_rule_34_rule_72_rule_77_waiting_messages_keep_their_publishers_order() -> None:
    scene, gate, reader = apart()
    gate._say(Publish("t/x", b"1", user_properties=(("origin", origin(1)),)))
    scene.rest()
    server = scene.stage.brokers["a"].server
    assert server.core.border.announcing._passing
    scene.stage.heal()
    while server.core.border.announcing._passing:
        scene.rest(0.000_1)
    # What waited is in the effects of an input now, and not on disk yet.
    again = Publish("t/x", b"2", user_properties=(("origin", origin(2)),))
    server.clients["writer"].data_received(encode(again, V5))
    scene.rest(3.0)
    assert reader.taken == [b"1", b"2"]
