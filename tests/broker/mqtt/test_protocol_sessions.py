"""docs/PROTOCOL.md, sections 6, 7 and 10: sessions, roaming, what is promised of deliveries, shared subscriptions."""

import pytest

from roamcast.broker.mqtt.params import CoreParams
from roamcast.mqtt.limits import SessionLimits
from roamcast.mqtt.messages import packet_id_of
from roamcast.mqtt.packets import Disconnect, PubAck, Publish, PubRec, SubAck, Will
from roamcast.mqtt.reasons import Reason
from tests.broker.mqtt.scene import Scene, dismissal, last, published
from tests.broker.mqtt.stage import SimClient


def left_behind(scene: Scene) -> dict[str, int]:
    """What any broker has of clients."""
    left: dict[str, int] = {}
    for broker in scene.stage.brokers.values():
        core = broker.server.core
        counts = core.broker.left() | {
            "sought": len(core.border.admission.sought),
            "timers": len(core.border.timers),
            "audience": len(core.border.audience)
            + len(core.border.audience.contexts)
            + len(core.border.audience.away),
        }
        left |= {f"{broker.name} {what}": count for what, count in counts.items() if count}
    return left


def test_a_session_ends_its_expiry_after_its_client_left_and_nothing_of_it_stays_anywhere_rule_23() -> None:
    scene = Scene("abc")
    client, writer = scene.client("c", "a", expiry_s=10), scene.client("writer", "c", expiry_s=0)
    scene.subscribe(client, "t/#", filter="n > 1", expiry="500", modulator='["declarative"]')
    scene.report(client, position=[1, 1], velocity=[1, 0])
    scene.move(client, "b")
    scene.move(client, "c")
    client.drop()
    scene.publish(writer, "t/x", {"n": 2})
    scene.rest(5.0)
    assert "c" in scene.stage.brokers["c"].server.core.border.sessions
    writer.drop()
    scene.rest(20.0)
    assert left_behind(scene) == {}


def test_the_look_for_what_is_left_can_find_something_rule_23() -> None:
    scene = Scene("ab")
    scene.subscribe(scene.client("c"), "t", filter="n > 1")
    assert {"a sessions", "a wishes", "b wishes"} <= left_behind(scene).keys()


def test_connack_comes_when_the_whole_session_is_at_the_new_broker_rule_24() -> None:
    scene = Scene("abc")
    client, writer = scene.client("c", "a"), scene.client("writer", "b")
    scene.subscribe(client, "t", qos=2)
    scene.report(client, position=[7, 8])
    client.drop()
    scene.rest()
    for number in range(100):
        writer.publish("t", b"%d" % number, 2)
    scene.rest(5.0)
    scene.move(client, "c")
    assert client.connacks[-1].session_present
    core = scene.stage.brokers["c"].server.core
    assert core.border.context_of("c").position is not None
    scene.rest(5.0)
    assert client.taken == [b"%d" % number for number in range(100)]
    assert "c" not in scene.stage.brokers["a"].server.core.border.sessions


def test_a_client_whose_session_cannot_be_looked_for_is_to_try_again_and_loses_nothing_rule_25() -> None:
    scene = Scene("abc", CoreParams(reminder_wait_s=3.0))
    client, writer = scene.client("c", "a"), scene.client("writer", "a")
    scene.subscribe(client, "t")
    scene.stage.unlink("a", "b")
    scene.rest()
    client.connect("c")
    scene.publish(writer, "t", b"meanwhile")
    there = scene.stage.brokers["c"].server
    before = len(client.connacks)
    assert "c" in there.arriving
    scene.rest(5.0)
    assert "c" not in there.arriving
    assert len(client.connacks) == before
    scene.stage.heal()
    scene.rest()
    scene.move(client, "c")
    assert client.connacks[-1].session_present
    assert client.taken == [b"meanwhile"]


@pytest.mark.parametrize("clean", [False, True])
def test_a_claim_for_a_client_that_has_left_again_pushes_nobody_out_rule_27(clean: bool) -> None:
    """It has gone on to b and back, and b does not know yet; the answer to b's question was on its way meanwhile."""
    tried = 0
    for seed in range(20):
        scene = Scene("ab", seed=seed)
        client = scene.client("c")
        scene.subscribe(client, "t")
        client.drop(noticed=False)
        client.connect("b", clean=clean)
        scene.rest(0.022)
        client.drop(noticed=False)
        here, there = (scene.stage.brokers[each].server.core.border.sessions.get("c") for each in "ab")
        if here is None or there is not None or not here.attachment.asked_us:
            # With this seed the claim is under way already, or the question still.
            continue
        tried += 1
        client.connect("a")
        scene.rest(2.0)
        assert client.ready, f"seed {seed}"
        assert client.connacks[-1].session_present
        assert not [each for each in client.heard if isinstance(each, Disconnect)]
    assert tried


def test_a_clean_start_elsewhere_ends_the_session_rule_26() -> None:
    scene = Scene("ab")
    client, writer = scene.client("c", "a"), scene.client("writer", "b")
    scene.subscribe(client, "t")
    client.drop()
    scene.publish(writer, "t", b"for nobody")
    client.connect("b", clean=True)
    scene.rest(2.0)
    assert not client.connacks[-1].session_present
    scene.publish(writer, "t", b"for nobody either")
    assert client.taken == []
    assert "c" not in scene.stage.brokers["a"].server.core.border.sessions


def test_a_clean_start_counts_as_later_where_the_clock_is_behind_rule_26() -> None:
    scene = Scene("ab")
    scene.stage.brokers["b"].behind_us = 5_000_000
    client, writer = scene.client("c", "a"), scene.client("writer", "a")
    scene.subscribe(client, "t")
    client.connect("b", clean=True)
    scene.rest(2.0)
    assert client.ready
    assert not client.connacks[-1].session_present
    assert "c" not in scene.stage.brokers["a"].server.core.border.sessions
    scene.subscribe(client, "t")
    scene.publish(writer, "t", b"hello")
    assert client.taken == [b"hello"]


def test_a_clean_start_does_not_wait_long_for_a_broker_that_is_cut_off_rule_26() -> None:
    scene = Scene("ab", CoreParams(reminder_wait_s=60.0))
    scene.stage.unlink("a", "b")
    scene.rest()
    client = SimClient(scene.stage, "c")
    client.connect("b", clean=True)
    scene.rest(3.0)
    assert client.ready


@pytest.mark.parametrize("waited_s", [0.001, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07])
def test_a_client_that_waits_for_its_session_may_start_clean_instead_rule_26(waited_s: float) -> None:
    scene = Scene("abc")
    client, writer = scene.client("c", "a"), scene.client("writer", "b")
    scene.subscribe(client, "t")
    client.connect("c")
    while "c" not in scene.stage.brokers["c"].server.arriving:
        scene.rest(0.001)
    scene.rest(waited_s)
    client.connect("c", clean=True)
    scene.rest(3.0)
    if client.connacks[-1].reason is Reason.SERVER_UNAVAILABLE:
        # Its first CONNECT was longer under way than the second, and took over: it tries again.
        client.connect("c", clean=True)
        scene.rest(3.0)
    assert client.ready
    assert not client.connacks[-1].session_present
    scene.publish(writer, "t", b"for nobody")
    assert client.taken == []


def test_a_client_that_connects_elsewhere_is_told_so_on_its_old_connection_rule_27() -> None:
    scene = Scene("ab")
    old = scene.client("c", "a")
    new = SimClient(scene.stage, "c")
    new.connect("b")
    scene.rest(2.0)
    assert new.ready
    assert dismissal(old).reason is Reason.SESSION_TAKEN_OVER


def test_a_will_is_published_after_its_delay_unless_its_client_is_back_anywhere_rule_28() -> None:
    scene = Scene("ab")
    reader = scene.client("reader", "b")
    scene.subscribe(reader, "will/#")
    gone, back = SimClient(scene.stage, "gone"), SimClient(scene.stage, "back")
    for client in (gone, back):
        client.connect("a", will=Will(f"will/{client.name}", client.name.encode(), 1, delay_s=10))
    scene.rest()
    gone.drop()
    back.drop()
    scene.rest(5.0)
    assert reader.taken == []
    scene.move(back, "b")
    scene.rest(10.0)
    assert reader.taken == [b"gone"]


def test_a_will_is_not_published_when_its_client_leaves_in_order_rule_28() -> None:
    scene = Scene()
    reader = scene.client("reader")
    scene.subscribe(reader, "will")
    client = SimClient(scene.stage, "c")
    client.connect("a", will=Will("will", b"gone", 1))
    scene.rest()
    client._say(Disconnect())
    scene.rest(2.0)
    assert reader.taken == []


def test_user_properties_of_connect_mean_nothing_rule_29() -> None:
    scene = Scene("ab")
    client, writer = scene.client("c", "a"), scene.client("writer", "b")
    scene.subscribe(client, "t")
    client.drop()
    scene.publish(writer, "t", b"1")
    client.connect_properties = (("last", "1000"), ("filter", "<<"))
    scene.move(client, "b")
    assert client.taken == [b"1"]


def test_qos_of_a_delivery_is_the_smaller_of_what_was_published_and_granted_rule_30() -> None:
    scene = Scene("ab")
    writer = scene.client("writer", "b")
    readers = [scene.client(f"r{qos}") for qos in (0, 1, 2)]
    for qos, reader in enumerate(readers):
        scene.subscribe(reader, "t", qos=qos)
    for qos in (0, 1, 2):
        scene.publish(writer, "t", b"%d" % qos, qos=qos)
    assert [[each.qos for each in published(reader)] for reader in readers] == [[0, 0, 0], [0, 1, 1], [0, 1, 2]]


def test_what_was_acknowledged_survives_the_brokers_that_had_it_rule_31() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    scene.subscribe(reader, "t", qos=2)
    reader.drop()
    scene.rest()
    acknowledged = 0
    for number in range(20):
        writer.publish("t", b"%d" % number, 1)
    while acknowledged == 0:
        scene.rest(0.001)
        acknowledged = sum(isinstance(each, PubAck) for each in writer.heard)
    for broker in scene.stage.brokers.values():
        broker.kill()
    scene.rest()
    scene.stage.heal()
    scene.rest(2.0)
    scene.move(reader, "a")
    scene.rest(2.0)
    assert reader.taken[:acknowledged] == [b"%d" % number for number in range(acknowledged)]


def test_messages_of_a_publisher_come_in_order_wherever_both_go_rule_32() -> None:
    scene = Scene("abc")
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    scene.subscribe(reader, "t", qos=2)
    for number in range(60):
        writer.publish("t", b"%d" % number, 1 + number % 2)
        scene.rest(0.02)
        if number % 20 == 10:
            reader.connect("bca"[number // 20])
        if number % 20 == 15:
            writer.connect("cab"[number // 20])
    scene.rest(10.0)
    assert reader.taken == [b"%d" % number for number in range(60)]


def test_a_message_of_qos_2_that_a_client_has_received_does_not_come_again_from_another_broker_rule_33() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader", "a"), scene.client("writer", "a")
    scene.subscribe(reader, "t", qos=2)
    writer.publish("t", b"once", 2)
    while not any(isinstance(each, Publish) for each in reader.heard):
        scene.rest(0.001)
    reader.connect("b")
    scene.rest(3.0)
    assert reader.taken == [b"once"]
    assert {each.packet_id for each in published(reader)} == {1}


def test_messages_of_qos_0_come_to_those_who_are_there_rule_34() -> None:
    scene = Scene("ab")
    here, away, writer = scene.client("here"), scene.client("away"), scene.client("writer", "b")
    for reader in (here, away):
        scene.subscribe(reader, "t", qos=2, filter="n = 1")
    away.drop()
    scene.rest()
    scene.publish(writer, "t", {"n": 1}, qos=0)
    scene.move(away, "a")
    assert (here.taken, away.taken) == ([b'{"n": 1}'], [])


def test_a_message_that_several_subscriptions_want_comes_once_rule_35() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t/#", qos=0, subscription_id=1)
    scene.subscribe(reader, "t/+", qos=2, subscription_id=2)
    scene.publish(writer, "t/x", b"x", qos=1)
    assert [(each.qos, each.subscription_ids) for each in published(reader)] == [(1, (1, 2))]


def test_a_packet_identifier_follows_from_the_number_of_the_delivery_rule_36() -> None:
    assert [packet_id_of(number) for number in (1, 2, 65_535, 65_536)] == [1, 2, 65_535, 1]
    scene = Scene("ab")
    reader, writer = scene.client("reader", "a"), scene.client("writer", "a")
    scene.subscribe(reader, "t")
    scene.publish(writer, "t", b"1")
    scene.move(reader, "b")
    scene.publish(writer, "t", b"2")
    assert [each.packet_id for each in published(reader)] == [1, 2]


def test_one_member_of_a_group_gets_each_message_in_turn_rule_52() -> None:
    scene = Scene()
    members = [scene.client(f"m{number}") for number in range(3)]
    writer = scene.client("writer")
    for member in members:
        scene.subscribe(member, "$share/g/t")
    for number in range(6):
        scene.publish(writer, "t", b"%d" % number)
        scene.publish(writer, "t", b"%d of 0" % number, qos=0)
    taken = sorted(each for member in members for each in member.taken)
    assert taken == sorted(b"%d%s" % (number, end) for number in range(6) for end in (b"", b" of 0"))
    assert [len(member.taken) for member in members] == [4, 4, 4]


def test_members_that_are_away_are_passed_over_where_others_are_connected_rule_53() -> None:
    scene = Scene()
    here, away, writer = scene.client("here"), scene.client("away"), scene.client("writer")
    for member in (here, away):
        scene.subscribe(member, "$share/g/t")
    away.drop()
    scene.rest()
    for number in range(4):
        scene.publish(writer, "t", b"%d" % number)
    assert here.taken == [b"0", b"1", b"2", b"3"]
    here.drop()
    scene.rest()
    scene.publish(writer, "t", b"4")
    scene.publish(writer, "t", b"5")
    scene.move(here, "a")
    scene.move(away, "a")
    assert sorted(here.taken[4:] + away.taken) == [b"4", b"5"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_of_a_group_over_several_brokers_one_member_in_all_gets_each_message_rule_54(qos: int) -> None:
    scene = Scene("abc")
    members = [scene.client(f"{broker}{number}", broker) for broker in "abc" for number in range(2)]
    for member in members:
        scene.subscribe(member, "$share/g/t/#", qos=qos)
    said = []
    for broker in "abc":
        writer = scene.client(f"writer-{broker}", broker)
        for number in range(6):
            said.append(f"{broker} {number}".encode())
            scene.publish(writer, "t/x", said[-1], qos=qos)
    assert sorted(each for member in members for each in member.taken) == said
    assert [len(member.taken) for member in members] == [3] * 6


def test_a_member_that_roams_gets_what_fell_to_it_on_the_way_rule_54() -> None:
    scene = Scene("abc")
    one, other, writer = scene.client("one", "a"), scene.client("other", "b"), scene.client("writer", "b")
    for member in (one, other):
        scene.subscribe(member, "$share/g/t")
    said = []
    for number in range(30):
        said.append(b"%d" % number)
        writer.publish("t", said[-1], 1)
        if number % 10 == 5:
            one.connect("cab"[number // 10])
        scene.rest(0.05)
    scene.rest(3)
    assert sorted(one.taken + other.taken, key=int) == said
    assert min(len(one.taken), len(other.taken)) > 0


def test_members_at_other_brokers_that_are_away_or_gone_are_passed_over_rule_53() -> None:
    scene = Scene("ab")
    here, away, gone = scene.client("here", "a"), scene.client("away", "b"), scene.client("gone", "b")
    for member in (here, away, gone):
        scene.subscribe(member, "$share/g/t")
    scene.unsubscribe(gone, "$share/g/t")
    away.drop()
    scene.rest()
    writer = scene.client("writer", "a")
    for number in range(4):
        scene.publish(writer, "t", b"%d" % number)
    assert here.taken == [b"0", b"1", b"2", b"3"]


def test_a_member_that_begins_anew_at_another_broker_is_passed_over_rule_54() -> None:
    scene = Scene("ab")
    stays, goes, writer = scene.client("stays", "a"), scene.client("goes", "a"), scene.client("writer", "a")
    for member in (stays, goes):
        scene.subscribe(member, "$share/g/t")
    goes.drop(noticed=False)
    goes.connect("b", clean=True)
    scene.rest(2.0)
    assert goes.ready
    for number in range(4):
        scene.publish(writer, "t", b"%d" % number)
    assert stays.taken == [b"0", b"1", b"2", b"3"]


def test_a_member_that_leaves_at_a_broker_whose_clock_is_behind_is_passed_over_rule_54() -> None:
    scene = Scene("ab")
    loop, server = scene.stage.loop, scene.stage.brokers["a"].server
    server._clock_us = lambda: loop.now_us + 60_000_000
    stays, goes, writer = scene.client("stays", "a"), scene.client("goes", "a"), scene.client("writer", "a")
    for member in (stays, goes):
        scene.subscribe(member, "$share/g/t")
    goes.drop(noticed=False)
    scene.move(goes, "b")
    scene.unsubscribe(goes, "$share/g/t")
    for number in range(4):
        scene.publish(writer, "t", b"%d" % number)
    assert stays.taken == [b"0", b"1", b"2", b"3"]


def test_a_group_is_known_to_a_broker_that_is_met_later_and_after_a_restart_rule_54() -> None:
    scene = Scene("ab")
    one, other = scene.client("one", "a"), scene.client("other", "b")
    scene.stage.unlink("a", "b")
    for member in (one, other):
        scene.subscribe(member, "$share/g/t")
    scene.stage.heal()
    scene.rest()
    broker = scene.stage.brokers["a"]
    broker.server.write_ahead.snapshot()
    scene.rest()
    broker.kill()
    scene.stage.heal()
    scene.rest()
    scene.move(one, "a")
    writer = scene.client("writer", "a")
    for number in range(4):
        scene.publish(writer, "t", b"%d" % number)
    assert sorted(one.taken + other.taken) == [b"0", b"1", b"2", b"3"]
    assert len(one.taken) == 2


def test_a_group_of_members_with_filters_is_one_at_each_broker_rule_54() -> None:
    scene = Scene("ab")
    members = [scene.client(name, name) for name in "ab"]
    for member in members:
        scene.subscribe(member, "$share/g/t", filter="n > 1")
    scene.publish(scene.client("writer"), "t", {"n": 2})
    assert [len(each.taken) for each in members] == [1, 1]


def test_a_session_has_so_many_subscriptions_of_so_many_bytes_rule_55() -> None:
    scene = Scene()
    client = scene.client("c")
    text = f"name = '{'x' * 4_000}'"
    reasons = [scene.subscribe(client, f"t/{number}", filter=text)[0] for number in range(150)]
    refused = reasons.index(Reason.QUOTA_EXCEEDED)
    assert set(reasons[:refused]) == {Reason.GRANTED_QOS_1}
    assert set(reasons[refused:]) == {Reason.QUOTA_EXCEEDED}
    assert "bytes" in (last(client, SubAck).reason_text or "")
    assert scene.subscribe(client, "t/0", filter="n = 1") == (Reason.GRANTED_QOS_1,)


def test_what_finds_no_room_in_a_queue_is_dropped_and_counted_rule_58() -> None:
    scene = Scene(params=CoreParams(session=SessionLimits(queue_messages_max=3)))
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t")
    reader.drop()
    scene.rest()
    reasons = [scene.publish(writer, "t", b"%d" % number) for number in range(5)]
    assert set(reasons) == {Reason.SUCCESS}
    scene.move(reader, "a")
    assert reader.taken == [b"0", b"1", b"2"]
    assert scene.remarks().count("delivery_dropped") == 2


def test_qos_2_from_a_client_is_taken_once_though_sent_again_elsewhere_rule_33() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader", "a"), scene.client("writer", "a")
    scene.subscribe(reader, "t", qos=1)
    writer.publish("t", b"once", 2)
    while not any(isinstance(each, PubRec) for each in writer.heard):
        scene.rest(0.001)
    writer.in_flight = {1: Publish("t", b"once", 2, packet_id=1)}
    writer.connect("b")
    scene.rest(3.0)
    assert reader.taken == [b"once"]
    assert reader.copies == []
