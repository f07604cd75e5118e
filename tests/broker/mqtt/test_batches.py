"""L2, L8: plain messages that come together or alone reach clients in order and in each client's own form."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.effects import AnyEffect, Hand
from roamcast.broker.mqtt.inputs import Arrived, Asked
from roamcast.model.context import Context
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.values import Point, Velocity
from roamcast.mqtt.batches import batch_of
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.packets import V5, V311, PubAck, Publish
from roamcast.mqtt.topics import parse_filter
from tests.broker.mqtt.observed import Told
from tests.broker.mqtt.scene import Scene, published
from tests.broker.mqtt.stage import SimClient, Stage
from tests.effort import examples
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


def acknowledged(writer: SimClient) -> list[int]:
    return [each.packet_id for each in writer.heard if isinstance(each, PubAck)]


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


def test_l8_rule_31_rule_32_a_session_is_kept_until_its_shorter_expiry_is_on_disk() -> None:
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
    assert not acknowledged(writer)
    disk.mend()
    scene.rest()
    assert reader.taken == [b"meanwhile"]
    assert writer.settled


def test_l2_a_batch_longer_than_the_receive_maximum_arrives_in_order() -> None:
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


@pytest.mark.parametrize("qos", [0, 1])
def test_l2_plain_messages_do_not_overtake_those_with_properties(qos: int) -> None:
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t", qos)
    packets = [
        Publish("t", each, 1, packet_id=number, user_properties=(("a", "b"),) if number % 3 == 0 else ())
        for number, each in enumerate(MANY, start=1)
    ]
    writer._say(*packets)
    scene.rest(2.0)
    assert reader.taken == MANY
    assert acknowledged(writer) == list(range(1, 41))


def test_l2_messages_of_one_topic_do_not_overtake_stored_ones_of_another() -> None:
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


def test_l2_deliveries_under_way_have_different_packet_identifiers() -> None:
    scene = Scene()
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t")
    say(scene, writer, qos=1)
    ids = [each.packet_id for each in published(reader)]
    assert len(set(ids)) == len(ids) == len(MANY)


def test_l2_clients_of_each_version_and_qos_get_their_own_form() -> None:
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


@pytest.mark.parametrize("qos", [0, 1])
def test_l2_only_the_message_that_is_too_long_is_left_out(qos: int) -> None:
    scene = Scene()
    small, writer = SimClient(scene.stage, "small", 0), scene.client("writer")
    small.packet_bytes_max = 60
    small.connect("a")
    scene.rest()
    scene.subscribe(small, "t")
    said = enumerate([b"1", b"2" * 90, b"3"], 1)
    writer._say(*(Publish("t", each, qos, packet_id=number * qos) for number, each in said))
    scene.rest(2.0)
    assert small.taken == [b"1", b"3"]


def test_p2_the_journal_has_every_message_of_a_batch() -> None:
    scene = Scene()
    broker = scene.stage.brokers["a"]
    told = Told()
    broker.observe(told)
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t")
    for qos in (0, 1):
        say(scene, writer, qos=qos)
    assert len(told.of("delivered")) == 2 * len(MANY)


@pytest.mark.parametrize("noticed", [True, False])
def test_l3_a_session_that_ends_with_its_connection_is_not_fetched(noticed: bool) -> None:
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
    assert len(acknowledged(writer)) == len(MANY)
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
    assert "reader" not in stage.brokers["a"].server.core.border.sessions
    assert "reader" not in stage.brokers["a"].server.clients


# A tick's messages are judged as they would be one by one (P-4, P-6, P-7, P-20).

BEGIN_US = 1_000_000
CLIENTS = ("ann", "bob", "eve")
WISHES: list[tuple[str, dict[str, Any]]] = [
    ("t", {"filter": "near(position, 60)"}),
    ("t", {"filter": "near(position, 60) AND n > 3"}),
    ("#", {"filter": "near(position, 30)"}),
    ("t", {"filter": "near(position, 20) OR n = 1"}),
    ("t", {"filter": "near(publisher.position, 40)"}),
    ("t", {"filter": "me.n > n"}),
    ("t", {"interest": '{"circle_m": 50}'}),
    ("t", {"expiry": "1"}),
    ("$roam/more/t", {"filter": "near(position, 90)"}),
    ("$share/g/t", {"filter": "near(position, 90)"}),
    ("t", {}),
]
PAYLOADS = (
    '{"position": [%d, 10], "n": 5}',
    '{"n": 1, "position": {"type": "Point", "coordinates": [%d, 0]}}',
    '{"n": 2, "lon": %d, "lat": 1}',
    '{"n": %d}',
    '{"position": [%d, true]}',
    '{"position": [%d], "n": 9}',
    '["position", %d]',
    '{"position": [%d, 10], "bad": "\udcff"}',
    '{"position": [%d, 10], "bad": 1e999}',
    "{" + "".join(f'"a{number}": 1, ' for number in range(70)) + '"position": [%d, 10]}',
    "%d",
)
PLACES = st.integers(0, 100)
STEPS = st.one_of(
    st.tuples(st.just("want"), st.sampled_from(CLIENTS), st.sampled_from(WISHES), st.booleans(), st.booleans()),
    st.tuples(st.just("move"), st.sampled_from(CLIENTS), PLACES, st.integers(-9, 9)),
    st.tuples(
        st.just("say"),
        st.lists(
            st.tuples(st.sampled_from(CLIENTS), st.sampled_from(("t", "u/v")), st.sampled_from(PAYLOADS), PLACES),
            min_size=1,
            max_size=4,
        ),
    ),
)


def core_of(space: Space) -> Core:
    core = Core("b", 1, space=space)
    for name in CLIENTS:
        core.handle(BEGIN_US, Arrived(name, True, 0))
    return core


def handed(orders: list[AnyEffect]) -> list[tuple[bytes, list[tuple[str, tuple[int, ...]]]]]:
    """By message, who gets it and for which of its subscriptions; in the order of the messages."""
    found: dict[bytes, list[tuple[str, tuple[int, ...]]]] = {}
    for order in orders:
        if isinstance(order, Hand):
            for message in order.batch.messages:
                got = found.setdefault(message.payload, [])
                got.extend((each, order.subscription_ids) for each in order.clients)
    return [(payload, sorted(clients)) for payload, clients in found.items()]


@given(steps=st.lists(STEPS, max_size=30), space=st.sampled_from((Plane(), Earth())))
@examples(150)
def test_l2_rule_6_messages_of_a_tick_reach_whom_they_reach_one_by_one(steps: list[Any], space: Space) -> None:
    at_once, one_by_one, now_us = core_of(space), core_of(space), BEGIN_US
    metre = 1.0 if isinstance(space, Plane) else 1e-5
    for step in steps:
        now_us += 137_000
        match step:
            case ("want", name, (pattern, properties), numbered, no_local):
                asked = Subscription(
                    parse_filter(pattern),
                    no_local=no_local and not pattern.startswith("$share"),
                    subscription_id=7 if numbered else None,
                    user_properties=tuple(properties.items()),
                )
                for core in (at_once, one_by_one):
                    core.handle(now_us, Asked(name, 1, (asked,)))
            case ("move", name, x, speed):
                context = Context(name, Point(x * metre, 0.0), now_us, Velocity(speed, 0.0), attributes={"n": x})
                for core in (at_once, one_by_one):
                    assert core.reported(now_us, context)
            case ("say", said):
                batch = [
                    (name, batch_of(Message(topic, payload_of(text, at, metre) + b" " * number)))
                    for number, (name, topic, text, at) in enumerate(said)
                ]
                each_alone = [order for each in batch for order in one_by_one.passing(now_us, [each])]
                assert handed(at_once.passing(now_us, batch)) == handed(each_alone)


def payload_of(text: str, at: int, metre: float) -> bytes:
    return (text % at).replace(f"[{at}", f"[{at * metre}").encode(errors="surrogateescape")


def near(scene: Scene, name: str, x: float) -> SimClient:
    client = scene.client(name, expiry_s=0)
    client.publish("$roam/me", b'{"position": [%f, 0]}' % x, 0)
    scene.subscribe(client, "t", 0, filter="near(position, 10)")
    return client


def test_l2_rule_7_messages_of_a_batch_reach_whoever_is_near_each() -> None:
    scene = Scene()
    close, far = near(scene, "close", 5.0), near(scene, "far", 50.0)
    writer = scene.client("writer")
    for number in range(3):
        writer._say(*[Publish("t", b'{"position": [%d, 0], "n": %d}' % (at, number)) for at in (0, 45, 100)])
    scene.rest()
    assert [each.payload for each in published(close)] == [b'{"position": [0, 0], "n": %d}' % n for n in range(3)]
    assert [each.payload for each in published(far)] == [b'{"position": [45, 0], "n": %d}' % n for n in range(3)]


def test_l2_rule_7_who_reports_before_a_message_is_where_it_says() -> None:
    scene = Scene()
    reader, writer = near(scene, "reader", 0.0), scene.client("writer")
    for x in (100, 200, 100):
        reader.publish("$roam/me", b'{"position": [%d, 0]}' % x, 0)
        scene.rest(0.05)
        writer.publish("t", b'{"position": [100, 0], "after": %d}' % x, 0)
        scene.rest(0.05)
    assert [each.payload[-5:] for each in published(reader)] == [b" 100}", b" 100}"]


@pytest.mark.parametrize("unlike", ["subscription identifier", "version", "small packets", "paused"])
def test_l2_a_reader_that_differs_from_the_writer_gets_its_own_form(unlike: str) -> None:
    scene = Scene()
    reader = SimClient(scene.stage, "reader", 0, V311 if unlike == "version" else V5)
    reader.packet_bytes_max = 1_000 if unlike == "small packets" else None
    reader.connect("a")
    scene.rest()
    writer = scene.client("writer")
    scene.subscribe(reader, "t", 1, 7 if unlike == "subscription identifier" else None)
    socket = scene.stage.brokers["a"].server.clients["reader"]
    if unlike == "paused":
        socket.pause_writing()
    for number in range(3):
        writer._say(Publish("t", b"%d" % number))
        scene.rest()
    if unlike == "paused":
        assert reader.taken == []
        socket.resume_writing()
        scene.rest()
    assert reader.taken == [b"0", b"1", b"2"]


def test_l2_a_topic_that_no_neighbour_wants_makes_no_events() -> None:
    scene = Scene("ab")
    near_by, far, writer = scene.client("near"), scene.client("far", "b"), scene.client("writer")
    scene.subscribe(near_by, "t", 0)
    scene.subscribe(far, "u", 0)
    events = scene.stage.brokers["a"].server.core.events
    scene.publish(writer, "t", b"1", 0)
    assert (near_by.taken, far.taken, events.passing_made) == ([b"1"], [], 0)
    scene.publish(writer, "u", b"2", 0)
    assert (near_by.taken, far.taken, events.passing_made) == ([b"1"], [b"2"], 1)
    scene.subscribe(far, "#", 0)
    scene.publish(writer, "t", b"3", 0)
    assert (near_by.taken, far.taken, events.passing_made) == ([b"1", b"3"], [b"2", b"3"], 2)
