"""L2, L8: the short way of plain messages gives clients what the long way gives them, and leaves the disk alone."""

import pytest

from roamcast.live.broker.core import Core
from roamcast.live.broker.effects import RecordDelivery
from roamcast.live.broker.inputs import decode_batch
from roamcast.mqtt.packets import PACKET_ID_MAX, V311, PubAck, Publish
from tests.live.broker.scene import Scene, published
from tests.live.broker.stage import SimBroker, SimClient, Stage
from tests.server.test_backpressure import Stuck

MANY = [b"%d" % number for number in range(40)]


def say(scene: Scene, writer: SimClient, *, qos: int, together: bool = True) -> None:
    """All at once, in one piece or one by one."""
    packets = [Publish("t", each, qos, packet_id=number * bool(qos)) for number, each in enumerate(MANY, start=100)]
    if together:
        writer._say(*packets)
    else:
        for each in packets:
            writer._say(each)
    scene.rest(2.0)


def batches(scene: Scene) -> int:
    return len(scene.stage.brokers["a"].disk.batches)


def test_l8_what_only_fleeting_sessions_get_is_acknowledged_without_the_disk() -> None:
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t")
    before = batches(scene)
    say(scene, writer, qos=1)
    assert reader.taken == MANY
    assert [each.packet_id for each in writer.heard if isinstance(each, PubAck)] == list(range(100, 140))
    assert batches(scene) == before


def test_l8_what_a_kept_session_gets_is_on_disk_before_it_is_acknowledged() -> None:
    scene = Scene()
    fleeting, kept = scene.client("fleeting", expiry_s=0), scene.client("kept")
    writer = scene.client("writer")
    scene.subscribe(fleeting, "t")
    scene.subscribe(kept, "t")
    kept.drop()
    scene.rest()
    say(scene, writer, qos=1)
    assert fleeting.taken == MANY
    broker = scene.stage.brokers["a"]
    broker.kill()
    broker.start()
    scene.move(kept, "a")
    assert kept.taken == MANY


def test_l8_p31_p32_a_session_that_will_end_with_its_connection_is_a_kept_one_until_that_is_on_disk() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t")
    reader.drop()
    scene.rest()
    disk = Stuck(scene, None)
    reader.expiry_s = 0
    reader.connect("a")
    scene.rest()
    writer.publish("t", b"meanwhile", 1)
    scene.rest()
    assert not [each for each in writer.heard if isinstance(each, PubAck)]
    disk.mend()
    scene.rest()
    assert reader.taken == [b"meanwhile"]
    assert writer.settled


def test_l2_a_run_longer_than_a_client_takes_at_once_waits_and_arrives_in_order() -> None:
    """The clients of the stage take five at once."""
    scene = Scene()
    readers = [scene.client(f"reader{number}", expiry_s=0) for number in range(3)]
    writer = scene.client("writer")
    for each in readers:
        scene.subscribe(each, "t")
    say(scene, writer, qos=1)
    say(scene, writer, qos=1, together=False)
    assert [each.taken for each in readers] == [MANY] * 3
    assert [each.copies for each in readers] == [MANY] * 3


def test_l2_the_short_way_does_not_overtake_the_long_way() -> None:
    """What has properties goes the long way, and waits for the disk."""
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t")
    packets = [
        Publish("t", each, 1, packet_id=number, user_properties=(("a", "b"),) if number % 3 == 0 else ())
        for number, each in enumerate(MANY, start=1)
    ]
    writer._say(*packets)
    scene.rest(2.0)
    assert reader.taken == MANY
    assert [each.packet_id for each in writer.heard if isinstance(each, PubAck)] == list(range(1, 41))


def test_l2_the_short_way_of_one_topic_does_not_overtake_the_long_way_of_another() -> None:
    """What a kept session gets waits for the disk."""
    scene = Scene()
    reader, kept = scene.client("reader", expiry_s=0), scene.client("kept")
    writer = scene.client("writer")
    scene.subscribe(reader, "#")
    scene.subscribe(kept, "stored")
    packets = [
        Publish("stored" if number % 3 == 0 else "t", each, 1, packet_id=number)
        for number, each in enumerate(MANY, start=1)
    ]
    writer._say(*packets)
    scene.rest(2.0)
    assert reader.taken == MANY


def test_l2_the_short_way_does_not_overtake_the_long_way_for_who_wants_qos_0() -> None:
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t", 0)
    packets = [
        Publish("t", each, 1, packet_id=number, user_properties=(("a", "b"),) if number % 3 == 0 else ())
        for number, each in enumerate(MANY, start=1)
    ]
    writer._say(*packets)
    scene.rest(2.0)
    assert reader.taken == MANY


def test_l8_what_needs_no_disk_does_not_wait_for_it() -> None:
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t")
    waiting = scene.stage.brokers["a"].server.write_ahead
    scene.stage.brokers["a"].head.submit = lambda *_: None  # type: ignore[method-assign]
    writer.publish("other", b"x", 1, True)
    scene.rest()
    assert waiting.busy
    say(scene, writer, qos=1)
    assert reader.taken == MANY


def test_l2_deliveries_of_both_ways_have_packet_identifiers_of_their_own() -> None:
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t")
    for number, each in enumerate(MANY, start=1):
        pairs = (("a", "b"),) if number % 2 else ()
        writer._say(Publish("t", each, 1, packet_id=number, user_properties=pairs))
    scene.rest(2.0)
    ids = [each.packet_id for each in published(reader)]
    assert len(set(ids)) == len(ids) == len(MANY)


def test_l2_clients_of_each_version_and_qos_get_a_run_in_their_own_words() -> None:
    scene = Scene()
    old = SimClient(scene.stage, "old", 0, V311)
    old.connect("a", clean=True)
    scene.rest()
    plain, named = scene.client("plain", expiry_s=0), scene.client("named", expiry_s=0)
    writer = scene.client("writer")
    scene.subscribe(old, "t", 1)
    scene.subscribe(plain, "t", 0)
    scene.subscribe(named, "+", 1, 7)
    for qos in (0, 1):
        say(scene, writer, qos=qos)
    half = len(MANY)
    assert [each.payload for each in published(old)] == MANY * 2
    assert [each.qos for each in published(old)] == [0] * half + [1] * half
    assert [each.qos for each in published(plain)] == [0] * 2 * half
    assert {each.subscription_ids for each in published(named)} == {(7,)}


def test_l2_a_message_is_not_too_long_for_who_gets_it_together_with_others() -> None:
    scene = Scene()
    small, writer = SimClient(scene.stage, "small", 0), scene.client("writer")
    small.packet_bytes_max = 60
    small.connect("a")
    scene.rest()
    scene.subscribe(small, "t")
    writer._say(*(Publish("t", each, 1, packet_id=number) for number, each in enumerate([b"1", b"2" * 90, b"3"], 1)))
    scene.rest(2.0)
    assert small.taken == [b"1", b"3"]


def test_p2_a_journal_is_told_of_every_message_that_came_together() -> None:
    scene = Scene()
    broker = scene.stage.brokers["a"]
    broker.server.core.station.chronicle.on = True
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t")
    for qos in (0, 1):
        say(scene, writer, qos=qos)
    recorded = [each for each in broker.watch.recorded if isinstance(each, RecordDelivery)]
    assert len(recorded) == 2 * len(MANY)


def test_l2_what_took_the_short_way_and_is_not_acknowledged_keeps_its_packet_identifier() -> None:
    """All identifiers have been used once since, by a client that never answers the first delivery."""
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t", 1, 7)
    visitor = scene.stage.brokers["a"].server.core.station.visitors["reader"]
    writer._say(Publish("t", b"first", 1, packet_id=1))
    reader.drop(noticed=False)
    scene.rest()
    (first,) = visitor.session.sent
    scene.stage.brokers["a"].server.swift._take_numbers(visitor, PACKET_ID_MAX - 1)
    writer._say(Publish("t", b"second", 1, packet_id=2, user_properties=(("a", "b"),)))
    scene.rest()
    assert visitor.session.sent[first].message.payload == b"first"
    assert "delivery_dropped" in scene.remarks()


def read_again(broker: SimBroker) -> Core:
    snapshot = broker.disk.snapshot
    core = Core("a", 1) if snapshot is None else Core.restored(snapshot)
    for batch in broker.disk.batches:
        for entry in decode_batch(batch):
            core.handle(entry.now_us, entry.given)
    return core


def test_l8_when_a_broker_meets_another_its_log_knows_what_the_short_way_has_numbered() -> None:
    """What it says to that one of a session that goes there must be the same when it is said again."""
    stage = Stage(1, (("a", "b"),))
    stage.unlink("a", "b")
    reader, writer = SimClient(stage, "reader", 0), SimClient(stage, "writer", 0)
    for each in (reader, writer):
        each.connect("a")
        stage.run(0.5)
    reader.subscribe("t", 1)
    stage.run(0.5)
    broker = stage.brokers["a"]
    for number, payload in enumerate(MANY, start=1):
        pairs = (("a", "b"),) if number % 5 == 0 else ()
        writer._say(Publish("t", payload, 1, packet_id=number, user_properties=pairs))
    stage.run(1.0)
    assert reader.taken == MANY
    stage.link("a", "b")
    stage.run(1.0)
    seen = [
        (visitor.last, visitor.acknowledged, len(core.station.broker.border.sessions[visitor.name].counterpart.kept))
        for core in (broker.server.core, read_again(broker))
        for visitor in (core.station.visitors["reader"],)
    ]
    assert seen[0] == seen[1]


@pytest.mark.parametrize("noticed", [True, False])
def test_l3_a_session_that_ends_with_its_connection_is_not_fetched_by_a_broker_that_is_met(noticed: bool) -> None:
    """What took the short way to it could not go along, and a client that is told of its session relies on it."""
    stage = Stage(1, (("a", "b"),))
    stage.unlink("a", "b")
    reader, writer = SimClient(stage, "reader", 0), SimClient(stage, "writer", 0)
    for each in (reader, writer):
        each.connect("a")
        stage.run(0.5)
    reader.subscribe("t", 1)
    stage.run(0.5)
    reader.drop(noticed=False)
    writer._say(*(Publish("t", each, 1, packet_id=number) for number, each in enumerate(MANY, start=1)))
    stage.run(0.5)
    assert reader.taken == []
    assert sum(isinstance(each, PubAck) for each in writer.heard) == len(MANY)
    if noticed:
        stage.brokers["a"].server.clients["reader"].connection_lost(None)
    stage.link("a", "b")
    stage.run(1.0)
    reader.connect("b")
    stage.run(1.0)
    assert [each.session_present for each in reader.connacks] == [False, False]
    reader.subscribe("t", 1)
    stage.run(0.5)
    writer.publish("t", b"anew", 1)
    stage.run(1.0)
    assert reader.taken == [b"anew"]
    assert "reader" not in stage.brokers["a"].server.core.station.visitors
    assert "reader" not in stage.brokers["a"].server.clients
