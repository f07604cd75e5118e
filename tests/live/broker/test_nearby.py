"""L2: the short way of messages to who is near gives clients what the long way gives them (P-4, P-6, P-7, P-20)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from roamcast.live.broker.core import Core
from roamcast.live.broker.effects import AnyEffect, Hand, HandTogether
from roamcast.live.broker.inputs import Arrived, Asked
from roamcast.model.context import Context
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.values import Point, Velocity
from roamcast.mqtt import encode
from roamcast.mqtt.messages import Subscription
from roamcast.mqtt.packets import V5, V311, Publish
from roamcast.mqtt.runs import Run, read_run
from roamcast.mqtt.topics import parse_filter
from tests.effort import examples
from tests.live.broker.scene import Scene, published
from tests.live.broker.test_lanes import Counted, client_of

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
        st.sampled_from(CLIENTS),
        st.lists(st.tuples(st.sampled_from(PAYLOADS), PLACES), min_size=1, max_size=3),
        st.sampled_from(("t", "u/v")),
    ),
)


def core_of(space: Space) -> Core:
    core = Core("b", 1, space=space)
    for name in CLIENTS:
        core.handle(BEGIN_US, Arrived(name, True, 0))
    return core


def run_of(topic: str, payloads: list[bytes]) -> Run:
    data = b"".join(encode(Publish(topic, each), V5) for each in payloads)
    found = read_run(data, 0, V5, {}, len(payloads))
    assert found is not None
    assert found[0].count == len(payloads)
    return found[0]


def handed(effects: list[AnyEffect]) -> list[tuple[bytes, list[tuple[str, tuple[int, ...]]]]]:
    """By message, who gets it and for which of its subscriptions; in the effect of the messages."""
    found: dict[bytes, list[tuple[str, tuple[int, ...]]]] = {}
    for effect in effects:
        if isinstance(effect, HandTogether):
            for payload in effect.run.payloads():
                found.setdefault(payload, []).extend((each, effect.subscription_ids) for each in effect.clients)
        elif isinstance(effect, Hand):
            ids = effect.delivery.subscription_ids
            found.setdefault(effect.delivery.message.payload, []).extend((each, ids) for each in effect.clients)
    return [(payload, sorted(clients)) for payload, clients in found.items()]


@given(steps=st.lists(STEPS, max_size=30), space=st.sampled_from((Plane(), Earth())))
@examples(150)
def test_l2_p6_a_run_reaches_whom_its_messages_reach_one_by_one(steps: list[Any], space: Space) -> None:
    swift, slow, now_us = core_of(space), core_of(space), BEGIN_US
    metre = 1.0 if isinstance(space, Plane) else 1e-5
    for number, step in enumerate(steps):
        now_us += 137_000
        match step:
            case ("want", name, (pattern, properties), numbered, no_local):
                asked = Subscription(
                    parse_filter(pattern),
                    no_local=no_local and not pattern.startswith("$share"),
                    subscription_id=7 if numbered else None,
                    user_properties=tuple(properties.items()),
                )
                for core in (swift, slow):
                    core.handle(now_us, Asked(name, 1, (asked,)))
            case ("move", name, x, speed):
                context = Context(name, Point(x * metre, 0.0), now_us, Velocity(speed, 0.0), attributes={"n": x})
                for core in (swift, slow):
                    assert core.reported(now_us, context)
            case ("say", name, said, topic):
                texts = [(text % at).replace(f"[{at}", f"[{at * metre}") for text, at in said]
                payloads = [each.encode(errors="surrogateescape") + b" " * number for each in texts]
                payloads = [each + b" " * 40 * index for index, each in enumerate(payloads)]
                run = run_of(topic, payloads)
                quick = swift.passing(now_us, [(name, run)])
                assert handed(quick) == handed(slow.passing(now_us, [(name, each) for each in run.messages()]))


def near(scene: Scene, name: str, x: float) -> Any:
    client = scene.client(name, expiry_s=0)
    client.publish("$roam/me", b'{"position": [%f, 0]}' % x, 0)
    scene.subscribe(client, "t", 0, filter="near(position, 10)")
    return client


def test_l2_p7_a_message_to_who_is_near_takes_the_short_way_as_the_bytes_that_it_was() -> None:
    scene = Scene()
    close, far = near(scene, "close", 5.0), near(scene, "far", 50.0)
    writer = scene.client("writer")
    nearby = scene.stage.brokers["a"].server.core.publishing.nearby
    assert nearby.takes("writer", run_of("t", [b"{}"]))
    for number in range(3):
        writer._say(*[Publish("t", b'{"position": [%d, 0], "n": %d}' % (at, number)) for at in (0, 45, 100)])
    scene.rest()
    assert [each.payload for each in published(close)] == [b'{"position": [0, 0], "n": %d}' % n for n in range(3)]
    assert [each.payload for each in published(far)] == [b'{"position": [45, 0], "n": %d}' % n for n in range(3)]


def test_l2_p7_who_reports_before_a_message_is_where_it_says() -> None:
    scene = Scene()
    reader, writer = near(scene, "reader", 0.0), scene.client("writer")
    for x in (100, 200, 100):
        reader.publish("$roam/me", b'{"position": [%d, 0]}' % x, 0)
        scene.rest(0.05)
        writer.publish("t", b'{"position": [100, 0], "after": %d}' % x, 0)
        scene.rest(0.05)
    assert [each.payload[-5:] for each in published(reader)] == [b" 100}", b" 100}"]


def test_l2_a_topic_that_takes_more_to_decide_is_not_tried_again_until_a_subscription_changes() -> None:
    scene = Scene()
    reader, writer = near(scene, "reader", 0.0), scene.client("writer")
    scene.subscribe(reader, "$roam/other/t", 0, filter="near(position, 10) OR me.n = 1")
    nearby, run = scene.stage.brokers["a"].server.core.publishing.nearby, run_of("t", [b"{}"])
    assert nearby.takes("writer", run)
    writer.publish("t", b'{"position": [1, 0]}', 0)
    scene.rest()
    assert len(published(reader)) == 1
    assert not nearby.takes("writer", run)
    scene.unsubscribe(reader, "$roam/other/t")
    assert nearby.takes("writer", run)


def test_l2_what_others_must_know_of_goes_the_long_way() -> None:
    alone, linked = Scene(), Scene("ab")
    for scene, short in ((alone, True), (linked, False)):
        near(scene, "reader", 0.0)
        scene.client("writer")
        nearby = scene.stage.brokers["a"].server.core.publishing.nearby
        assert nearby.takes("writer", run_of("t", [b"{}"])) is short
        scene.stage.brokers["a"].server.core.station.chronicle.on = True
        assert not nearby.takes("writer", run_of("t", [b"{}"]))


def test_l2_a_report_and_a_message_to_who_is_near_take_the_lane_of_the_one_before() -> None:
    scene = Scene()
    reader, writer = near(scene, "reader", 0.0), scene.client("writer")
    reader.publish("$roam/me", b'{"position": [0, 0]}', 0)
    writer.publish("t", b'{"position": [500, 0]}', 0)
    scene.rest()
    counted = Counted(scene)
    reader.publish("$roam/me", b'{"position": [100, 0]}', 0)
    writer.publish("t", b'{"position": [100, 0], "n": 1}', 0)
    reader.publish("$roam/me", b'{"position": "nowhere"}', 0)
    writer.publish("t", b'{"position": [105, 0], "n": 2}', 0)
    scene.rest()
    assert counted.count == 4
    assert [each.payload[-2:-1] for each in published(reader)] == [b"1", b"2"]
    assert "bad_report" in scene.remarks()


def test_l2_a_client_that_wants_it_otherwise_is_not_handed_the_bytes_of_a_lane() -> None:
    """One that speaks 3.1.1 among those of MQTT 5."""
    scene = Scene()
    reader, old = near(scene, "reader", 0.0), client_of(scene, "old", V311)
    writer = scene.client("writer")
    scene.subscribe(old, "t", 0)
    for number in range(3):
        writer.publish("t", b'{"position": [1, 0], "n": %d}' % number, 0)
        scene.rest()
    expected = [b'{"position": [1, 0], "n": %d}' % number for number in range(3)]
    assert [each.payload for each in published(reader)] == [each.payload for each in published(old)] == expected
