"""docs/PROTOCOL.md, sections 3 and 4: what SUBSCRIBE and PUBLISH say in user properties."""

import json
import pickle
from typing import Any

import pytest

from roamcast.model.places import movement_graph
from roamcast.mqtt.packets import SubAck, Subscribe, Wish
from roamcast.mqtt.reasons import Reason
from tests.broker.mqtt.scene import Scene, last, published

BAD_SUBSCRIBE = [
    ("filter", "n > 1 AND neighbours.count() > 3"),
    ("interest", "neighbours.any(busy)"),
    ("filter", "n >"),
    ("filter", '{"op": "nothing"}'),
    ("interest", '{"circle_m": -1}'),
    ("interest", '{"circle_m": 5, "box": [0, 0, 1, 1]}'),
    ("publishers", '{"circel_m": 5}'),
    ("expiry", "soon"),
    ("expiry", "-1"),
    ("modulator", "unheard of"),
    ("origin", "perhaps"),
]


def test_only_what_the_filter_accepts_is_delivered_rule_6() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    scene.subscribe(reader, "t", filter="n > 2")
    scene.subscribe(reader, "j", filter='{"op": "<", "args": [{"property": "n"}, 2]}')
    for number in range(5):
        scene.publish(writer, "t", {"t": number, "n": number})
        scene.publish(writer, "j", {"j": number, "n": number})
    assert [json.loads(each) for each in reader.taken] == [
        {"j": 0, "n": 0}, {"j": 1, "n": 1}, {"t": 3, "n": 3}, {"t": 4, "n": 4},
    ]  # fmt: skip


def test_near_and_approaching_go_by_the_clients_last_report_rule_7() -> None:
    scene = Scene("ab")
    near, meeting, writer = scene.client("near"), scene.client("meeting"), scene.client("writer", "b")
    scene.subscribe(near, "t", filter="near(position, 100)")
    scene.subscribe(meeting, "t", filter="approaching(position)")
    scene.report(near, position=[0, 0])
    scene.report(meeting, position=[0, 0], velocity=[1, 0])
    scene.publish(writer, "t", {"position": [50, 0], "n": 1})
    scene.publish(writer, "t", {"position": [-5000, 0], "n": 2})
    scene.publish(writer, "t", {"position": [5000, 0], "n": 3})
    assert [json.loads(each)["n"] for each in near.taken] == [1]
    assert [json.loads(each)["n"] for each in meeting.taken] == [1, 3]


@pytest.mark.parametrize("snapshot", [False, True], ids=["at once", "after a snapshot"])
def test_a_message_that_comes_late_is_for_who_was_near_when_it_was_published_rule_7(snapshot: bool) -> None:
    scene = Scene("ab")
    comes, goes, writer = scene.client("comes"), scene.client("goes"), scene.client("writer", "b")
    for client, x in ((comes, 5_000), (goes, 0)):
        scene.subscribe(client, "t", filter="near(position, 100)")
        scene.report(client, position=[x, 0])
    scene.stage.unlink("a", "b")
    scene.publish(writer, "t", {"position": [0, 0], "n": 1})
    scene.report(comes, position=[0, 0])
    scene.report(goes, position=[5_000, 0])
    if snapshot:
        audience = scene.stage.brokers["a"].server.core.border.publishing.audience
        made, given = audience.__reduce__()
        assert callable(made)
        audience.__dict__ = made(*pickle.loads(pickle.dumps(given))).__dict__
    scene.stage.link("a", "b")
    scene.rest(3.0)
    scene.publish(writer, "t", {"position": [0, 0], "n": 2})
    assert [json.loads(each)["n"] for each in goes.taken] == [1]
    assert [json.loads(each)["n"] for each in comes.taken] == [2]


def test_myloc_walks_on_the_movement_graph_of_the_settings_rule_8() -> None:
    graph = movement_graph({"hall": ["stairs"], "stairs": ["roof"]})
    scene = Scene("ab", graph=graph)
    reader, writer = scene.client("reader"), scene.client("writer", "b")
    scene.subscribe(reader, "t", filter="room IN myloc(1)")
    scene.report(reader, attributes={"place": "hall"})
    for room in ("hall", "stairs", "roof"):
        scene.publish(writer, "t", {"room": room})
    scene.report(reader, attributes={"place": "roof"})
    scene.publish(writer, "t", {"room": "hall", "n": 2})
    assert [json.loads(each)["room"] for each in reader.taken] == ["hall", "stairs"]


def test_another_movement_graph_holds_for_subscriptions_that_are_there_rule_8() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t", filter="room IN myloc(1) AND near(position, 50)")
    scene.report(reader, position=[-10, 0], velocity=[1, 0], attributes={"place": "hall"})
    scene.publish(writer, "t", {"room": "roof", "position": [0, 0], "n": 1})
    scene.stage.brokers["a"].server.core.border.audience.walk_on(movement_graph({"hall": ["roof"]}))
    scene.publish(writer, "t", {"room": "roof", "position": [0, 0], "n": 2})
    scene.publish(writer, "t", {"room": "roof", "position": [900, 0], "n": 3})
    assert [json.loads(each)["n"] for each in reader.taken] == [2]


def test_interest_asks_for_events_that_are_relevant_where_it_says_rule_9() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader"), scene.client("writer", "b")
    scene.report(writer, position=[0, 0])
    scene.report(reader, position=[0, 10])
    scene.subscribe(reader, "t", interest='{"circle_m": 50}')
    scene.publish(writer, "t", b"around the writer", relevance='{"circle_m": 20}')
    scene.publish(writer, "t", b"elsewhere", relevance='{"box": [1000, 1000, 2000, 2000]}')
    assert reader.taken == [b"around the writer"]


def test_publishers_asks_for_events_of_those_it_describes_rule_9() -> None:
    scene = Scene("ab")
    reader, bus, car = scene.client("reader"), scene.client("bus", "b"), scene.client("car", "b")
    scene.report(bus, position=[0, 0], attributes={"kind": "bus"})
    scene.report(car, position=[0, 0], attributes={"kind": "car"})
    scene.subscribe(reader, "t", publishers="kind = 'bus'")
    scene.subscribe(reader, "u", publishers='{"circle": [100, 0, 10], "filter": "kind = \'bus\'"}')
    scene.publish(bus, "t", b"bus")
    scene.publish(car, "t", b"car")
    scene.publish(bus, "u", b"too far")
    scene.report(bus, position=[100, 0])
    scene.publish(bus, "u", b"there")
    assert reader.taken == [b"bus", b"there"]


def test_a_subscription_that_has_expired_is_gone_rule_10() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader"), scene.client("writer", "b")
    scene.subscribe(reader, "t", expiry="5")
    scene.publish(writer, "t", b"in time")
    scene.move(reader, "b")
    scene.rest(5.0)
    scene.publish(writer, "t", b"late")
    assert reader.taken == [b"in time"]
    for broker in scene.stage.brokers.values():
        left = broker.server.core.broker.left()
        assert (left["wishes"], left["asked wishes"]) == (0, 0)


def test_a_named_subscription_stands_beside_another_on_the_same_topic_rule_11() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t", subscription_id=1, filter="n < 5")
    scene.subscribe(reader, "$roam/high/t", subscription_id=2, filter="n > 3")
    for number in (2, 4, 6):
        scene.publish(writer, "t", {"n": number})
    assert [each.subscription_ids for each in published(reader)] == [(1,), (1, 2), (2,)]
    scene.unsubscribe(reader, "$roam/high/t")
    scene.publish(writer, "t", {"n": 7})
    assert len(reader.taken) == 3


@pytest.mark.parametrize(("name", "value"), BAD_SUBSCRIBE)
def test_a_property_that_cannot_be_understood_refuses_its_subscription_rule_12(name: str, value: str) -> None:
    scene = Scene()
    client = scene.client("c")
    said: dict[str, Any] = {name: value}
    assert scene.subscribe(client, "t", **said) == (Reason.IMPLEMENTATION_SPECIFIC_ERROR,)
    text = last(client, SubAck).reason_text or ""
    assert name in text
    assert text.isprintable()  # mosquitto_sub drops a packet with a line break in it, and tells nobody why
    assert "t" not in scene.stage.brokers["a"].server.core.border.sessions["c"].subscriptions
    # mosquitto_sub does not show the text of SUBACK: whoever looks into the log finds it there.
    assert ("subscription_refused", f"c: {text}") in scene.stage.brokers["a"].monitor.said


def test_a_property_that_is_there_twice_is_an_error_and_unknown_ones_mean_nothing_rule_12() -> None:
    scene = Scene()
    client = scene.client("c")
    client._say(Subscribe(7, (Wish("t", 1),), None, (("filter", "n = 1"), ("filter", "n = 2"))))
    scene.rest()
    assert last(client, SubAck).reasons == (Reason.IMPLEMENTATION_SPECIFIC_ERROR,)
    assert scene.subscribe(client, "t", colour="red") == (Reason.GRANTED_QOS_1,)


def test_subscribing_again_puts_the_new_properties_in_place_of_the_old_rule_13() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader"), scene.client("writer", "b")
    scene.subscribe(reader, "t", filter="n = 1")
    scene.subscribe(reader, "t", filter="n = 2")
    for number in (1, 2):
        scene.publish(writer, "t", {"n": number})
    assert [json.loads(each)["n"] for each in reader.taken] == [2]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_only_clients_in_the_audience_get_an_event_rule_14(qos: int) -> None:
    scene = Scene("ab")
    close, far, writer = scene.client("close"), scene.client("far"), scene.client("writer", "b")
    for reader in (close, far):
        scene.subscribe(reader, "t", qos=2)
    scene.report(writer, position=[0, 0])
    scene.report(close, position=[30, 0])
    scene.report(far, position=[300, 0])
    scene.publish(writer, "t", b"warning", qos=qos, audience='{"circle_m": 50}')
    assert (close.taken, far.taken) == ([b"warning"], [])


def test_user_properties_reach_subscribers_as_they_came_rule_15() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader"), scene.client("writer", "b")
    scene.subscribe(reader, "t")
    scene.publish(writer, "t", b"x", colour="red", audience="name IS NULL OR TRUE")
    assert published(reader)[0].user_properties == (("colour", "red"), ("audience", "name IS NULL OR TRUE"))


def test_a_property_of_a_publication_that_cannot_be_understood_refuses_it_rule_16() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t")
    for name in ("relevance", "audience", "persist"):
        said: dict[str, Any] = {name: "<<"}
        assert scene.publish(writer, "t", b"x", **said) is Reason.IMPLEMENTATION_SPECIFIC_ERROR
        assert scene.publish(writer, "t", b"x", qos=2, **said) is Reason.IMPLEMENTATION_SPECIFIC_ERROR
    scene.publish(writer, "t", b"x", qos=0, audience="<<")
    assert reader.taken == []
    assert "message_refused" in scene.remarks()


def test_a_message_past_its_expiry_is_not_delivered_rule_17() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t")
    reader.drop()
    scene.rest()
    scene.publish(writer, "t", b"short", expiry_s=5)
    scene.publish(writer, "t", b"long", expiry_s=60)
    scene.rest(20.0)
    scene.move(reader, "a")
    assert reader.taken == [b"long"]
    assert published(reader)[0].message_expiry_s in range(36, 41)


def test_who_asks_what_is_near_and_has_no_position_is_told_rule_7() -> None:
    scene = Scene()
    ann, bob = scene.client("ann"), scene.client("bob")
    assert scene.subscribe(ann, "t", filter="near(position, 50)") == (Reason.GRANTED_QOS_1,)
    assert "say where you are" in (last(ann, SubAck).reason_text or "")
    assert "no_position" in scene.remarks()
    scene.report(bob, position=[1, 2])
    scene.subscribe(bob, "t", filter="near(position, 50)")
    scene.subscribe(ann, "u", filter="n > 3")
    assert last(bob, SubAck).reason_text is last(ann, SubAck).reason_text is None
