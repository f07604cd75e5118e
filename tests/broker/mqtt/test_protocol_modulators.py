"""docs/PROTOCOL.md, section 9: modulators of subscriptions, at the border (O1)."""

import json

import pytest

from roamcast.broker.modulators.spec import Aggregate, ByCount, Declarative, Every, Wasm, spec_to_text
from roamcast.broker.mqtt.effects import Hand
from roamcast.broker.mqtt.events import MESSAGES_KEPT_MAX
from roamcast.mqtt.batches import batch_of
from roamcast.mqtt.messages import Message
from roamcast.mqtt.packets import SubAck
from roamcast.mqtt.reasons import Reason
from tests.broker.modulator_samples import COUNTING, module
from tests.broker.mqtt.scene import Scene, dismissal, last
from tests.broker.mqtt.stage import SimClient
from tests.broker.mqtt.test_restarts import restart

PAIRS = spec_to_text(Declarative(window=ByCount(2), aggregates=(Aggregate("sum", "v"),)))
COUNTS = spec_to_text(Wasm(COUNTING))
TRAPS = spec_to_text(Wasm(module("unreachable")))


def sums(client: SimClient) -> list[int]:
    return [json.loads(each)["sum_v"] for each in client.taken]


def test_a_modulator_that_cannot_be_had_refuses_the_subscription_rule_46() -> None:
    scene = Scene()
    client = scene.client("c")
    for text in ("unheard of", '["declarative", "n >"]', '["wasm", "AAAA"]', "[" * 5):
        assert scene.subscribe(client, "t", modulator=text) == (Reason.IMPLEMENTATION_SPECIFIC_ERROR,)
        assert last(client, SubAck).reason_text


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_a_modulator_makes_is_delivered_as_json_rule_47(qos: int) -> None:
    scene = Scene("ab")
    reader, other, writer = scene.client("reader"), scene.client("other"), scene.client("writer", "b")
    scene.subscribe(reader, "t", qos=qos, modulator=PAIRS)
    scene.subscribe(other, "t", qos=qos)
    for number in (1, 2, 3, 4):
        scene.publish(writer, "t", {"v": number}, qos=qos)
    assert reader.taken == [b'{"sum_v":3}', b'{"sum_v":7}']
    assert len(other.taken) == 4


def test_a_payload_whose_attributes_stay_as_they_are_stays_as_it_is_rule_47() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t", modulator=spec_to_text(Declarative(sampling=Every(2))))
    payload = b'{ "n" : 1, "list": [1, 2, 3, 4] }'
    for _ in range(3):
        scene.publish(writer, "t", payload)
    assert reader.taken + reader.copies == [payload, payload]


def test_payloads_stay_in_a_tick_with_more_messages_than_are_remembered_rule_47() -> None:
    scene = Scene()
    reader, _ = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t", qos=0, modulator=spec_to_text(Declarative(sampling=Every(2))))
    core, said = scene.stage.brokers["a"].server.core, [b'{ "n": %d }' % n for n in range(MESSAGES_KEPT_MAX + 10)]
    effects = core.passing(core.border.now_us, [("writer", batch_of(Message("t", each))) for each in said])
    handed = [each.batch.messages[0].payload for each in effects if isinstance(each, Hand)]
    assert len(handed) == len(said) / 2
    assert set(handed) <= set(said)


def test_each_subscription_of_a_client_gets_what_its_own_modulator_makes_rule_47() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t", modulator=PAIRS)
    scene.subscribe(reader, "$roam/all/t")
    scene.subscribe(reader, "$roam/none/t", qos=0, modulator=COUNTS)
    scene.publish(writer, "t", {"v": 1})
    scene.publish(writer, "t", {"v": 2})
    assert sorted(reader.taken) == sorted([b'{"v": 1}', b'{"n":1}', b'{"v": 2}', b'{"n":2}', b'{"sum_v":3}'])


def test_what_a_modulator_remembers_goes_with_the_session_and_survives_the_broker_rule_48() -> None:
    scene = Scene("abc")
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    scene.subscribe(reader, "t", modulator=PAIRS)
    for number, broker in enumerate(("b", "c", "a", "c")):
        scene.publish(writer, "t", {"v": 1})
        scene.move(reader, broker)
        scene.publish(writer, "t", {"v": number})
    scene.publish(writer, "t", {"v": 50})
    reader.drop()
    scene.stage.brokers["c"].kill()
    scene.rest()
    scene.stage.heal()
    scene.rest()
    scene.move(reader, "c")
    scene.publish(writer, "t", {"v": 50})
    assert sums(reader) == [1, 2, 3, 4, 100]


def test_no_event_is_modulated_twice_while_a_client_roams_under_load_rule_48() -> None:
    scene = Scene("abc")
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    scene.subscribe(reader, "t", modulator=PAIRS)
    for number in range(80):
        writer.publish("t", json.dumps({"v": number}).encode(), 1)
        scene.rest(0.02)
        if number % 10 == 5:
            reader.connect("bcab"[number // 10 % 4])
        if number % 20 == 6:
            reader.connect("abc"[number // 20 % 3])
    scene.rest(10.0)
    assert sums(reader) == [number + number + 1 for number in range(0, 80, 2)]


def test_an_event_whose_modulator_fails_is_dropped_and_counted_until_it_is_switched_off_rule_49() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t", modulator=TRAPS)
    for number in range(10):
        scene.publish(writer, "t", {"v": number})
    assert reader.taken == []
    assert (scene.remarks().count("modulator_failed"), scene.remarks().count("modulator_off")) == (8, 1)
    scene.subscribe(reader, "t")
    scene.publish(writer, "t", b"plain again")
    assert reader.taken == [b"plain again"]


@pytest.mark.parametrize("qos", [0, 1])
def test_a_modulator_that_takes_too_much_is_switched_off_and_its_client_told_rule_49(qos: int) -> None:
    scene = Scene()
    reader, other, writer = scene.client("reader"), scene.client("other"), scene.client("writer")
    for pattern in ("dear", "cheap"):
        scene.subscribe(reader, pattern, qos=qos, modulator=PAIRS)
    scene.subscribe(other, "dear", qos=qos)
    scene.publish(writer, "dear", {"v": 1}, qos=qos)
    server = scene.stage.brokers["a"].server
    server.cpu_budget.overspent["reader", "dear"] = None
    scene.publish(writer, "dear", {"v": 2}, qos=qos)
    dismissed = dismissal(reader)
    assert dismissed.reason is Reason.QUOTA_EXCEEDED
    assert "'dear'" in str(dismissed.reason_text)
    scene.move(reader, "a")
    for number in (10, 20):
        scene.publish(writer, "dear", {"v": number}, qos=qos)
        scene.publish(writer, "cheap", {"v": 10 * number}, qos=qos)
    restart(scene)
    for client in (writer, other, reader):
        scene.move(client, "a")
    for number in (30, 40):
        scene.publish(writer, "dear", {"v": number}, qos=qos)
        scene.publish(writer, "cheap", {"v": 10 * number}, qos=qos)
    assert [each for each in sums(reader) if each > 3] == [300, 700]
    assert len(other.taken) == 6


def test_messages_of_qos_0_have_an_instance_of_their_own_rule_50() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader"), scene.client("writer", "b")
    scene.subscribe(reader, "t", qos=1, modulator=PAIRS)
    for number, qos in enumerate((0, 1, 0, 1)):
        scene.publish(writer, "t", {"v": number}, qos=qos)
    assert sums(reader) == [2, 4]


def test_webassembly_stands_in_the_property_and_a_session_has_so_many_modulators_rule_51() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    reasons = [scene.subscribe(reader, f"t/{number}", modulator=COUNTS)[0] for number in range(17)]
    assert reasons == [Reason.GRANTED_QOS_1] * 16 + [Reason.QUOTA_EXCEEDED]
    scene.publish(writer, "t/3", {"v": 1})
    assert reader.taken == [b'{"n":1}']
    scene.unsubscribe(reader, "t/3")
    assert scene.subscribe(reader, "t/16", modulator=COUNTS) == (Reason.GRANTED_QOS_1,)
