"""docs/PROTOCOL.md, section 8: retained messages and messages that last, at every broker."""

import json

import pytest

from roamcast.broker.mqtt.lasting import Lasting
from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.mqtt.retained import ENDED_MAX, Retained
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.mqtt.messages import Message
from roamcast.mqtt.packets import Subscribe, Wish
from roamcast.mqtt.reasons import Reason
from tests.broker.mqtt.scene import Scene, published


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_retained_message_is_at_every_broker_rule_37(qos: int) -> None:
    scene = Scene("abc")
    scene.publish(scene.client("writer", "a"), "t", b"kept", qos=qos, retain=True)
    for name in "abc":
        reader = scene.client(f"reader {name}", name)
        scene.subscribe(reader, "t", qos=2)
        assert [(each.payload, each.qos, each.retain) for each in published(reader)] == [(b"kept", qos, True)]


def test_a_retained_message_goes_to_those_who_are_subscribed_as_any_other_rule_37() -> None:
    scene = Scene("abc")
    reader, writer = scene.client("reader", "c"), scene.client("writer", "a")
    scene.subscribe(reader, "t")
    scene.publish(writer, "t", b"news", retain=True)
    assert [(each.payload, each.retain) for each in published(reader)] == [(b"news", False)]


def test_the_later_message_stays_and_an_empty_one_empties_everywhere_rule_38() -> None:
    scene = Scene("abc")
    first, second = scene.client("first", "a"), scene.client("second", "c")
    for topic in ("t", "u"):
        scene.publish(first, topic, b"old", retain=True)
        scene.publish(second, topic, b"new", retain=True)
    scene.publish(first, "u", b"", retain=True)
    reader = scene.client("reader", "b")
    scene.subscribe(reader, "#")
    assert reader.taken == [b"new"]


def event_at(at_us: int, event_id: str) -> Event:
    return Event(event_id, "t", Context("c"), at_us, at_us)


def test_in_whatever_order_messages_come_the_same_one_stays_rule_38() -> None:
    said = [
        (event_at(1, "a.1.9!"), Message("t", b"first")),
        (event_at(1, "a.1.10!"), Message("t", b"second")),
        (event_at(2, "b.1.1!"), Message("t", b"")),
    ]
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        retained = Retained(10, 1_000)
        for index in order:
            assert retained.keep(*said[index], 0)
        assert len(retained) == 0
        assert retained.bytes == 0
    retained = Retained(10, 1_000)
    assert retained.keep(*said[1], 0)
    assert retained.keep(*said[0], 0)
    assert retained.of["t"][1].payload == b"second"


def test_who_looks_changes_nothing_that_is_kept_rule_38() -> None:
    """How far a client's portions come depends on what it acknowledged, and not all of that is logged."""
    retained = Retained(10, 1_000)
    assert retained.keep(event_at(100, "a.1.1!"), Message("t", b"short", expires_us=200), 100)
    assert retained.look("#", 0, retained.last, 300, 10) == ([], retained.last, 9)
    assert len(retained) == 1
    assert retained.keep(event_at(50, "b.1.1!"), Message("t", b"earlier"), 310)
    assert retained.of["t"][1].payload == b"short"


def test_of_how_many_topics_it_is_known_that_they_were_emptied_is_bounded_rule_38() -> None:
    retained = Retained(10, 1_000)
    for number in range(ENDED_MAX + 5):
        retained.keep(event_at(number, f"a.1.{number}!"), Message(f"t/{number}", b""), number)
    assert len(retained.ended) == ENDED_MAX


def test_a_neighbour_that_is_met_later_is_given_everything_rule_39() -> None:
    scene = Scene("abc")
    scene.stage.unlink("a", "b")
    scene.rest(70.0)
    writer, other = scene.client("writer", "a"), scene.client("other", "c")
    for number in range(200):
        writer.publish(f"t/{number}", bytes(3_000), 1, retain=True)
    other.publish("t/0", b"later", 1, retain=True)
    scene.rest(3.0)
    writer.publish("t/last", b"lasts", 1, False, 600, persist="true")
    scene.rest(3.0)
    assert len(scene.stage.brokers["c"].server.core.border.retained) == 1
    scene.stage.heal()
    scene.rest(5.0)
    stores = [broker.server.core.border.retained for broker in scene.stage.brokers.values()]
    assert [{topic: event.id for topic, (event, _) in store.of.items()} for store in stores[1:]] == [
        {topic: event.id for topic, (event, _) in stores[0].of.items()}
    ] * 2
    assert [len(broker.server.core.border.lasting) for broker in scene.stage.brokers.values()] == [1, 1, 1]


def test_a_retained_message_is_matched_as_if_it_were_published_now_rule_40() -> None:
    scene = Scene("ab")
    writer, reader = scene.client("writer", "a"), scene.client("reader", "b")
    scene.publish(writer, "t/1", {"n": 1, "position": [0, 0]}, retain=True)
    scene.publish(writer, "t/2", {"n": 2, "position": [900, 0]}, retain=True)
    scene.report(reader, position=[10, 0])
    scene.subscribe(reader, "t/+", filter="near(position, 50)")
    assert [json.loads(each)["n"] for each in reader.taken] == [1]


def test_retain_handling_says_when_a_subscription_gets_what_was_retained_rule_40() -> None:
    scene = Scene()
    scene.publish(scene.client("writer"), "t", b"kept", retain=True)
    counts = []
    for handling in (0, 1, 2):
        reader = scene.client(f"r{handling}")
        for packet_id in (1, 2):
            reader._say(Subscribe(packet_id, (Wish("t", 1, retain_handling=handling),)))
            scene.rest()
        counts.append(len(published(reader)))
    assert counts == [2, 1, 0]


def test_a_message_that_is_to_last_needs_an_expiry_rule_41() -> None:
    scene = Scene()
    writer = scene.client("writer")
    assert scene.publish(writer, "t", b"x", persist="true") is Reason.IMPLEMENTATION_SPECIFIC_ERROR
    assert scene.publish(writer, "t", b"x", persist="true", expiry_s=9) is Reason.SUCCESS
    assert scene.publish(writer, "t", b"x", persist="false") is Reason.SUCCESS
    assert len(scene.stage.brokers["a"].server.core.border.lasting) == 1


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_who_comes_into_the_audience_or_subscribes_later_gets_it_once_rule_42(qos: int) -> None:
    scene = Scene("ab")
    writer, comer, later = scene.client("writer", "a"), scene.client("comer", "b"), scene.client("later", "b")
    scene.report(writer, position=[0, 0])
    scene.report(comer, position=[900, 0])
    scene.subscribe(comer, "t", qos=2)
    where = '{"circle": [0, 0, 50]}'
    scene.publish(writer, "t", b"jam", qos=qos, expiry_s=600, persist="true", audience=where)
    scene.rest(3.0)
    assert comer.taken == []
    scene.report(comer, position=[20, 0])
    scene.report(later, position=[20, 0])
    scene.subscribe(later, "t", qos=2)
    scene.rest(3.0)
    scene.report(comer, position=[900, 0])
    scene.rest(3.0)
    scene.report(comer, position=[20, 0])
    scene.rest(3.0)
    assert (comer.taken, later.taken) == ([b"jam"], [b"jam"])


def test_a_client_that_was_away_gets_it_when_it_is_back_rule_42() -> None:
    scene = Scene("ab")
    writer, reader = scene.client("writer", "a"), scene.client("reader", "b")
    scene.subscribe(reader, "t", qos=0)
    reader.drop()
    scene.rest()
    scene.publish(writer, "t", b"jam", expiry_s=600, persist="true")
    scene.rest(3.0)
    scene.move(reader, "b")
    scene.rest(3.0)
    assert reader.taken == [b"jam"]


def test_what_a_subscription_has_had_goes_with_the_session_rule_43() -> None:
    scene = Scene("abc")
    writer, reader = scene.client("writer", "a"), scene.client("reader", "a")
    scene.subscribe(reader, "t")
    scene.publish(writer, "t", b"jam", expiry_s=600, persist="true")
    for broker in "bcab":
        scene.move(reader, broker)
        scene.rest(2.0)
    assert (reader.taken, reader.copies) == ([b"jam"], [])
    scene.unsubscribe(reader, "t")
    scene.subscribe(reader, "t")
    scene.rest(2.0)
    assert reader.copies == [b"jam"]


def test_after_its_expiry_nobody_gets_it_and_nothing_is_kept_rule_44() -> None:
    scene = Scene("ab")
    writer, reader = scene.client("writer", "a"), scene.client("reader", "b")
    scene.publish(writer, "t", b"jam", expiry_s=5, persist="true")
    scene.rest(8.0)
    scene.subscribe(reader, "t")
    scene.rest(3.0)
    assert reader.taken == []
    for broker in scene.stage.brokers.values():
        core = broker.server.core
        assert (len(core.border.lasting), core.border.lasting.bytes, len(core.border.timers)) == (0, 0, 0)


def lasting_at(scene: Scene) -> list[int]:
    return [len(broker.server.core.border.lasting) for broker in scene.stage.brokers.values()]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_its_publisher_withdraws_nobody_gets_any_more_at_any_broker_rule_44(qos: int) -> None:
    scene = Scene("abc")
    writer, early, late = scene.client("writer", "a"), scene.client("early", "c"), scene.client("late", "c")
    scene.subscribe(early, "t", qos=2)
    scene.publish(writer, "t", b"jam", expiry_s=600, persist="true", id="7")
    scene.publish(writer, "t", b"ice", expiry_s=600, persist="true", id="8")
    scene.rest(3.0)
    scene.publish(writer, "t", b"", qos=qos, withdraw="7")
    scene.rest(3.0)
    assert lasting_at(scene) == [1, 1, 1]
    scene.subscribe(late, "t", qos=2)
    scene.rest(3.0)
    assert (early.taken, late.taken) == ([b"jam", b"ice"], [b"ice"])
    assert early.copies == []


@pytest.mark.parametrize("emptied", [False, True])
def test_a_publisher_withdraws_a_message_at_a_broker_whose_clock_is_behind_rule_44(emptied: bool) -> None:
    scene = Scene("ab")
    scene.stage.brokers["b"].behind_us = 20_000_000
    writer = scene.client("writer", "a")
    scene.publish(writer, "t", b"jam", expiry_s=600, persist="true", retain=emptied, id="7")
    scene.move(writer, "b")
    if emptied:
        scene.publish(writer, "t", b"", retain=True)
    else:
        scene.publish(writer, "t", b"", withdraw="7")
    scene.rest(3.0)
    assert lasting_at(scene) == [0, 0]


def test_only_the_publisher_of_a_message_withdraws_it_by_its_topic_and_id_rule_44() -> None:
    scene = Scene("ab")
    writer, other = scene.client("writer", "a"), scene.client("other", "b")
    scene.publish(writer, "t", b"jam", expiry_s=600, persist="true", id="7")
    scene.publish(other, "t", b"", withdraw="7")
    scene.publish(writer, "u", b"", withdraw="7")
    scene.publish(writer, "t", b"", withdraw="8")
    scene.rest(3.0)
    assert lasting_at(scene) == [1, 1]


def test_what_is_withdrawn_does_not_wait_for_a_client_that_is_away_rule_44() -> None:
    scene = Scene("ab")
    writer, reader = scene.client("writer", "a"), scene.client("reader", "b")
    scene.subscribe(reader, "t", qos=1)
    reader.drop()
    scene.rest()
    scene.publish(writer, "t", b"jam", expiry_s=600, persist="true", id="7")
    scene.publish(writer, "t", b"ice", expiry_s=600, persist="true", id="8")
    scene.rest(3.0)
    scene.publish(writer, "t", b"", withdraw="7")
    scene.rest(3.0)
    scene.move(reader, "b")
    scene.rest(3.0)
    assert reader.taken == [b"ice"]


def test_a_broker_that_was_cut_off_does_not_bring_back_what_was_withdrawn_rule_44() -> None:
    scene = Scene("abc")
    writer, late = scene.client("writer", "a"), scene.client("late", "a")
    scene.publish(writer, "t", b"jam", expiry_s=600, persist="true", id="7")
    scene.rest(3.0)
    scene.stage.unlink("a", "b")
    scene.rest(70.0)
    scene.publish(writer, "t", b"", withdraw="7")
    scene.rest(3.0)
    assert lasting_at(scene) == [0, 1, 1]
    scene.stage.heal()
    scene.rest(5.0)
    assert lasting_at(scene) == [0, 0, 0]
    scene.subscribe(late, "t", qos=1)
    scene.rest(3.0)
    assert late.taken == []


def test_what_was_withdrawn_stays_so_after_a_restart_rule_44() -> None:
    scene = Scene()
    writer = scene.client("writer")
    scene.publish(writer, "t", b"jam", expiry_s=600, persist="true", id="7")
    scene.publish(writer, "t", b"", withdraw="7")
    broker = scene.stage.brokers["a"]
    broker.server.write_ahead.snapshot()
    scene.rest()
    broker.kill()
    scene.stage.heal()
    scene.rest()
    lasting = scene.stage.brokers["a"].server.core.border.lasting
    assert (len(lasting), [own_id for _, _, own_id in lasting.ended]) == (0, ["7"])


def test_a_withdrawal_holds_for_what_was_published_before_it_in_whatever_order_they_come_rule_44() -> None:
    before = (event_at(1, "a.1.1!"), Message("t", b"jam", user_properties=(("id", "7"),)))
    after = (event_at(3, "a.1.3!"), Message("t", b"jam", user_properties=(("id", "7"),)))
    lasting = Lasting(10, 1_000)
    assert lasting.keep(*before)
    assert lasting.withdraw(event_at(2, "b.1.1!"), "7") == ["a.1.1!"]
    assert lasting.bytes == 0
    assert lasting.is_withdrawn(*before)
    assert not lasting.is_withdrawn(*after)
    for number in range(ENDED_MAX + 5):
        lasting.withdraw(event_at(2, "b.1.1!"), f"{number}")
    assert len(lasting.ended) == ENDED_MAX


def test_a_retained_topic_that_is_emptied_ends_what_of_it_lasts_rule_38() -> None:
    scene = Scene("ab")
    writer, other, reader = scene.client("writer", "a"), scene.client("other", "b"), scene.client("reader", "b")
    scene.publish(writer, "t", b"jam", retain=True, expiry_s=600, persist="true")
    scene.publish(writer, "t", b"ice", expiry_s=600, persist="true")
    scene.rest(3.0)
    scene.publish(other, "t", b"", retain=True)
    scene.rest(3.0)
    assert lasting_at(scene) == [1, 1]
    scene.subscribe(reader, "t")
    scene.rest(3.0)
    assert reader.taken == [b"ice"]


def test_a_withdrawal_that_makes_no_sense_is_refused_rule_16_rule_44() -> None:
    scene = Scene()
    writer = scene.client("writer")
    assert scene.publish(writer, "t", b"", withdraw="") is Reason.IMPLEMENTATION_SPECIFIC_ERROR
    assert scene.publish(writer, "t", b"", withdraw="7", retain=True) is Reason.IMPLEMENTATION_SPECIFIC_ERROR
    refused = scene.publish(writer, "t", b"", withdraw="7", persist="true", expiry_s=60)
    assert refused is Reason.IMPLEMENTATION_SPECIFIC_ERROR
    assert scene.publish(writer, "t", b"", withdraw="7") is Reason.SUCCESS


def test_a_shared_subscription_has_its_turn_when_the_message_is_published_rule_45() -> None:
    scene = Scene()
    writer, early, late = scene.client("writer"), scene.client("early"), scene.client("late")
    scene.subscribe(early, "$share/g/t")
    scene.publish(writer, "t", b"jam", expiry_s=600, persist="true")
    scene.subscribe(late, "$share/g/t")
    scene.rest(3.0)
    assert (early.taken, late.taken) == ([b"jam"], [])


def test_a_wildcard_finds_what_is_retained_in_the_order_of_its_publication_also_after_a_restart_rule_40() -> None:
    scene = Scene()
    writer = scene.client("writer")
    for topic in ("t/1/x", "u", "t/2/x", "t/1/y", "t/1/x"):
        scene.publish(writer, topic, topic.encode(), retain=True)
    for _ in range(2):
        reader = scene.client("reader", expiry_s=0)
        scene.subscribe(reader, "t/+/#")
        assert reader.taken == [b"t/2/x", b"t/1/y", b"t/1/x"]
        broker = scene.stage.brokers["a"]
        broker.server.write_ahead.snapshot()
        scene.rest()
        broker.kill()
        scene.stage.heal()
        scene.rest()


def test_a_retained_message_stays_when_a_larger_one_finds_no_room_rule_56() -> None:
    scene = Scene(params=CoreParams(retained_bytes_max=200))
    writer, reader = scene.client("writer"), scene.client("reader")
    assert scene.publish(writer, "t", b"small", retain=True) is Reason.SUCCESS
    assert scene.publish(writer, "t", bytes(500), retain=True) is Reason.QUOTA_EXCEEDED
    scene.subscribe(reader, "t")
    assert reader.taken == [b"small"]


def test_past_their_bounds_messages_are_not_retained_and_do_not_last_rule_56() -> None:
    scene = Scene(params=CoreParams(retained_messages_max=2, lasting_messages_max=1, retained_bytes_max=100_000))
    writer = scene.client("writer")
    assert scene.publish(writer, "t/1", b"x", retain=True) is Reason.SUCCESS
    assert scene.publish(writer, "t/2", bytes(100_000), retain=True) is Reason.QUOTA_EXCEEDED
    assert scene.publish(writer, "t/2", b"x", retain=True) is Reason.SUCCESS
    assert scene.publish(writer, "t/3", b"x", retain=True) is Reason.QUOTA_EXCEEDED
    assert scene.publish(writer, "t/2", b"y", retain=True) is Reason.SUCCESS
    assert scene.publish(writer, "t", b"x", persist="true", expiry_s=60) is Reason.SUCCESS
    assert scene.publish(writer, "t", b"x", persist="true", expiry_s=60) is Reason.QUOTA_EXCEEDED


def test_retained_messages_that_have_expired_make_room_rule_44_rule_56() -> None:
    scene = Scene(params=CoreParams(retained_messages_max=2))
    client = scene.client("c")
    assert scene.publish(client, "t/1", b"x", retain=True, expiry_s=3) is Reason.SUCCESS
    assert scene.publish(client, "t/2", b"x", retain=True) is Reason.SUCCESS
    assert scene.publish(client, "t/3", b"x", retain=True) is Reason.QUOTA_EXCEEDED
    scene.rest(4.0)
    assert scene.publish(client, "t/3", b"x", retain=True) is Reason.SUCCESS
    assert list(scene.stage.brokers["a"].server.core.border.retained.of) == ["t/2", "t/3"]
    assert scene.publish(client, "t/4", b"x", retain=True) is Reason.QUOTA_EXCEEDED
