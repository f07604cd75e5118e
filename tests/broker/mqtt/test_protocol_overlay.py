"""docs/PROTOCOL.md, section 16: MQTT clients of brokers that reshape their network (O1 to O7, L2)."""

import itertools
import json

import pytest
from msgspec.structs import replace

from roamcast.broker.modulators.spec import Declarative, Every, spec_to_text
from roamcast.broker.overlay.mqtt.core import OverlayCore
from roamcast.broker.overlay.params import OverlayParams
from roamcast.mqtt.packets import Disconnect, PubAck, Will
from roamcast.mqtt.reasons import Reason
from tests.broker.mqtt.scene import Scene, last, published
from tests.broker.mqtt.stage import SimClient, Stage

PARAMS = OverlayParams(update_period_s=1.0, discovery_period_s=1.0)
THIRD = spec_to_text(Declarative(sampling=Every(3)))
LINE = tuple(itertools.pairwise("abcd"))


class OverlayScene(Scene):
    def __init__(self, edges: tuple[tuple[str, str], ...] = LINE, params: OverlayParams = PARAMS) -> None:
        self.stage = Stage(1, edges, overlay=params)
        # Brokers find each other.
        self.rest(5.0)

    def client(self, name: str, broker: str = "a", expiry_s: int = 0) -> SimClient:
        return super().client(name, broker, expiry_s)

    def core(self, broker: str) -> OverlayCore:
        core = self.stage.brokers[broker].server.core
        assert isinstance(core, OverlayCore)
        return core

    def put(self, subscription: str, at: str, to: str) -> None:
        """Has the modulator of a subscription relocated."""
        guests = self.core(at).border.guests
        guests.border.now_us = self.stage.loop.now_us
        for effect in guests.broker.relocation.departing.place(self.stage.loop.now_us, subscription, to):
            guests.perform(at, effect)
        self.stage.brokers[at].server.outbound.perform(guests.border.take_effects())

    def home_of(self, client: str, broker: str) -> str | None:
        return self.core(broker).border.guests.guests[f"@{client}"].node.home


def test_o1_rule_86_messages_reach_clients_at_all_brokers_once_in_order() -> None:
    scene = OverlayScene()
    readers = [scene.client(f"r{name}", name) for name in "abcd"]
    writers = [scene.client(f"w{name}", name) for name in "ad"]
    for reader in readers:
        scene.subscribe(reader, "t/+", qos=1, filter="n >= 0")
    scene.rest(2.0)
    said: list[bytes] = []
    for number in range(10):
        for writer in writers:
            body = {"n": number - 1, "by": writer.name}
            scene.publish(writer, "t/x", body, qos=number % 2)
            said += [json.dumps(body).encode()] if number else []
    scene.rest(2.0)
    for reader in readers:
        assert sorted(reader.taken) == sorted(said)
        for writer in writers:
            mine = [each for each in said if writer.name.encode() in each]
            assert [each for each in reader.taken if each in mine] == mine
        assert not reader.copies


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("broker", ["a", "b", "d"])
def test_l3_rule_92_a_client_that_comes_back_anywhere_has_its_session(broker: str, qos: int) -> None:
    scene = OverlayScene()
    reader, writer = scene.client("reader", "a", expiry_s=1_000), scene.client("writer", "c")
    scene.subscribe(reader, "t", qos=qos)
    scene.rest(2.0)
    said = [b"%d" % number for number in range(30)]
    for each in said[:10]:
        writer.publish("t", each, qos)
    scene.rest(1.0)
    reader.drop()
    for each in said[10:20]:
        writer.publish("t", each, qos)
    scene.rest(1.0)
    reader.connect(broker)
    for each in said[20:]:
        writer.publish("t", each, qos)
    scene.rest(5.0)
    assert reader.connacks[-1].session_present
    assert (reader.taken, reader.copies) == (said, [])


def test_o4_rule_92_its_home_broker_and_its_modulator_follow_it_with_their_state() -> None:
    scene = OverlayScene()
    reader, writer = scene.client("reader", "a", expiry_s=1_000), scene.client("writer", "d")
    scene.subscribe(reader, "t", qos=1, modulator=THIRD)
    scene.rest(2.0)
    for number in range(4):
        scene.publish(writer, "t", {"n": number})
    scene.move(reader, "d")
    for number in range(4, 9):
        scene.publish(writer, "t", {"n": number})
    scene.rest(3.0)
    assert [json.loads(each)["n"] for each in reader.taken] == [0, 3, 6]
    assert scene.home_of("reader", "d") == "d"
    assert list(scene.core("d").border.guests.broker.clients.posts) == ["@reader\0t"]
    assert "relocated" in scene.remarks("a")
    assert scene.core("a").border.sessions == {}


def test_rule_92_a_client_at_a_broker_that_is_not_its_home_changes_what_it_wants_and_publishes() -> None:
    scene = OverlayScene(params=replace(PARAMS, home="given"))
    roamer, other = scene.client("roamer", "a", expiry_s=1_000), scene.client("other", "b")
    scene.subscribe(roamer, "t/1")
    scene.subscribe(other, "u")
    scene.move(roamer, "d")
    assert scene.home_of("roamer", "d") == "a"
    scene.subscribe(roamer, "t/2")
    scene.unsubscribe(roamer, "t/1")
    assert scene.publish(roamer, "u", b"here", qos=2) is Reason.SUCCESS
    scene.rest(2.0)
    for number in (1, 2):
        scene.publish(other, f"t/{number}", b"%d" % number)
    scene.rest(2.0)
    assert (roamer.taken, other.taken) == ([b"2"], [b"here"])


def test_rule_92_one_that_goes_on_before_its_session_was_there_has_it_at_the_next_broker() -> None:
    scene = OverlayScene()
    reader, writer = scene.client("reader", "a", expiry_s=1_000), scene.client("writer", "b")
    scene.subscribe(reader, "t", qos=1)
    scene.rest(2.0)
    said = [b"%d" % number for number in range(20)]
    for number, each in enumerate(said):
        writer.publish("t", each, 1)
        if number % 4 == 0:
            reader.connect("abcd"[number // 4 % 4])
        scene.rest(0.01)
    reader.connect("d")
    scene.rest(8.0)
    assert reader.connacks[-1].session_present
    assert (reader.taken, reader.copies) == (said, [])


def test_rule_92_one_that_starts_clean_elsewhere_ends_its_session() -> None:
    scene = OverlayScene()
    reader, writer = scene.client("reader", "a", expiry_s=1_000), scene.client("writer", "c")
    scene.subscribe(reader, "t")
    scene.rest(2.0)
    reader.connect("d", clean=True)
    scene.rest(3.0)
    assert not reader.connacks[-1].session_present
    scene.publish(writer, "t", b"x")
    assert reader.taken == []
    assert scene.core("a").border.sessions == {}
    assert [scene.core(name).border.guests.broker.clients.posts for name in "abcd"] == [{}] * 4


def test_rule_92_one_whose_session_may_be_at_a_broker_that_is_not_reached_is_to_try_again() -> None:
    scene = OverlayScene()
    reader = scene.client("reader", "a", expiry_s=1_000)
    scene.subscribe(reader, "t")
    scene.rest(2.0)
    scene.stage.unlink("a", "b")
    reader.connect("d")
    scene.rest(15.0)
    assert not reader.ready
    scene.stage.heal()
    scene.rest(5.0)
    reader.connect("d")
    scene.rest(2.0)
    assert reader.connacks[-1].session_present


def test_rule_92_a_session_that_was_lost_with_its_broker_begins_anew() -> None:
    scene = OverlayScene(params=replace(PARAMS, give_up_s=5.0))
    reader = scene.client("reader", "a", expiry_s=1_000)
    scene.subscribe(reader, "t")
    scene.rest(2.0)
    scene.stage.brokers["a"].kill()
    reader.connect("d")
    scene.rest(9.0)
    assert reader.ready, "as soon as that broker is given up"
    assert not reader.connacks[-1].session_present


def test_rule_93_a_client_whose_home_broker_is_gone_has_another_one() -> None:
    scene = OverlayScene(params=replace(PARAMS, home="given", give_up_s=5.0))
    reader, writer = scene.client("reader", "a", expiry_s=1_000), scene.client("writer", "c")
    scene.subscribe(reader, "t")
    scene.rest(2.0)
    scene.move(reader, "d")
    scene.stage.brokers["a"].kill()
    scene.rest(15.0)
    assert scene.home_of("reader", "d") == "d"
    scene.publish(writer, "t", b"x")
    scene.rest(2.0)
    assert reader.taken == [b"x"]


def test_l2_rule_87_connack_says_what_is_not_kept() -> None:
    client = OverlayScene().client("c", expiry_s=1_000)
    connack = client.connacks[0]
    assert (connack.qos_max, connack.retain_available, connack.shared_available) == (2, False, False)
    assert connack.session_expiry_s is None, "as long as it asked for"


def test_rule_87_what_is_not_kept_is_refused_in_words_of_mqtt() -> None:
    scene = OverlayScene()
    client = scene.client("c")
    assert scene.subscribe(client, "$share/g/t") == (Reason.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,)
    lasting = scene.publish(client, "t", b"", expiry_s=60, persist="true")
    assert lasting is Reason.IMPLEMENTATION_SPECIFIC_ERROR
    assert "nothing lasts in an overlay" in (last(client, PubAck).reason_text or "")
    assert scene.publish(client, "t", b"", origin="{}") is Reason.IMPLEMENTATION_SPECIFIC_ERROR


def test_rule_87_a_publication_beyond_what_connack_granted_ends_the_connection() -> None:
    scene = OverlayScene()
    client = scene.client("c")
    client.publish("t", b"x", 1, retain=True)
    scene.rest()
    assert not client.ready


def test_o4_rule_88_modulators_work_where_their_posts_are_and_their_state_goes_along() -> None:
    scene = OverlayScene()
    reader, writer = scene.client("reader", "a"), scene.client("writer", "d")
    reasons = scene.subscribe(reader, "t", qos=1, modulator=THIRD)
    assert reasons == (Reason.GRANTED_QOS_1,)
    scene.rest(2.0)
    for number in range(4):
        scene.publish(writer, "t", {"n": number})
    posts = {name: list(scene.core(name).border.guests.broker.clients.posts) for name in "abcd"}
    assert posts == {"a": ["@reader\0t"], "b": [], "c": [], "d": []}
    scene.put("@reader\0t", "a", "c")
    scene.rest(3.0)
    assert list(scene.core("c").border.guests.broker.clients.posts) == ["@reader\0t"]
    for number in range(4, 9):
        scene.publish(writer, "t", {"n": number})
    scene.rest(2.0)
    assert [json.loads(each)["n"] for each in reader.taken] == [0, 3, 6]


def test_rule_88_what_a_modulator_changed_is_what_is_delivered() -> None:
    scene = OverlayScene()
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    scene.subscribe(reader, "t", qos=1, modulator=spec_to_text(Declarative(keep=("n",))))
    scene.rest(2.0)
    scene.publish(writer, "t", {"n": 1, "m": 2})
    scene.rest()
    assert [json.loads(each) for each in reader.taken] == [{"n": 1}]


def test_rule_88_a_modulator_that_nobody_takes_refuses_the_subscription() -> None:
    scene = OverlayScene()
    assert scene.subscribe(scene.client("c"), "t", modulator="nothing") == (Reason.IMPLEMENTATION_SPECIFIC_ERROR,)


def test_o3_rule_89_the_home_broker_of_a_client_is_the_one_that_it_is_connected_to() -> None:
    scene = OverlayScene()
    for broker in "ac":
        scene.subscribe(scene.client(f"reader-{broker}", broker), "t")
        assert scene.home_of(f"reader-{broker}", broker) == broker


def test_o6_rule_89_a_broker_that_is_overloaded_sends_a_modulator_elsewhere_and_nothing_is_lost() -> None:
    params = replace(PARAMS, load_period_s=1.0, event_cost_ms=150.0, load_max=0.5, offload=True)
    scene = OverlayScene(params=params)
    writer, readers = scene.client("writer", "c"), [scene.client(f"reader-{number}", "a") for number in range(2)]
    for reader in readers:
        scene.subscribe(reader, "t", qos=1, modulator=THIRD)
    scene.rest(2.0)
    for number in range(30):
        scene.publish(writer, "t", {"n": number})
    scene.rest(5.0)
    assert sorted(len(scene.core(name).border.guests.broker.clients.posts) for name in "abcd") == [0, 0, 1, 1]
    for reader in readers:
        assert [json.loads(each)["n"] for each in reader.taken] == list(range(0, 30, 3))


def test_rule_90_a_message_is_acknowledged_when_the_home_broker_has_accepted_it() -> None:
    scene = OverlayScene()
    writer = SimClient(scene.stage, "writer", 0)
    writer.connect("a")
    scene.rest(0.01)
    while not writer.ready:
        scene.rest(0.001)
    writer.publish("t", b"x", 1)
    scene.rest(0.02)
    assert not [each for each in writer.heard if isinstance(each, PubAck)], "it has no home broker yet"
    scene.rest()
    assert last(writer, PubAck).reason is Reason.SUCCESS


def test_rule_90_what_is_more_than_may_wait_is_refused_and_not_acknowledged_as_well() -> None:
    scene = OverlayScene(params=replace(PARAMS, clients=replace(PARAMS.clients, publications_max=2)))
    writer = SimClient(scene.stage, "writer", 0)
    writer.connect("a")
    while not writer.ready:
        scene.rest(0.001)
    for number in range(4):
        writer.publish("t", b"%d" % number, 1)
    scene.rest()
    answers = [(each.packet_id, each.reason) for each in writer.heard if isinstance(each, PubAck)]
    assert sorted(each for each, _ in answers) == sorted({each for each, _ in answers}), "one answer for each"
    assert sorted(reason for _, reason in answers) == [Reason.SUCCESS] * 2 + [Reason.QUOTA_EXCEEDED] * 2


@pytest.mark.parametrize("qos", [0, 1])
def test_rule_90_what_a_client_said_before_it_left_and_its_will_go_out(qos: int) -> None:
    scene = OverlayScene()
    reader = scene.client("reader", "d")
    scene.subscribe(reader, "t")
    scene.rest(2.0)
    brief = SimClient(scene.stage, "brief", 0)
    brief.connect("a", will=Will("t", b"will", qos))
    while not brief.ready:
        scene.rest(0.001)
    brief.publish("t", b"word", qos)
    brief.drop()
    scene.rest(3.0)
    assert reader.taken == [b"word", b"will"]
    assert scene.core("a").border.guests.guests == {}


def test_rule_90_nothing_is_left_of_clients_that_have_gone() -> None:
    scene = OverlayScene()
    reader, writer = scene.client("reader", "a"), scene.client("writer", "c")
    scene.subscribe(reader, "t")
    scene.publish(writer, "t", b"x")
    reader.drop()
    writer.drop()
    scene.rest(5.0)
    for name in "abcd":
        left = scene.core(name).border.guests.broker.left()
        assert {what: count for what, count in left.items() if what in ("sessions", "posts", "entries")} == {
            "sessions": 0,
            "posts": 0,
            "entries": 0,
        }
        assert scene.core(name).border.guests.guests == {}


def test_o7_rule_91_messages_find_another_way_when_a_link_is_cut_and_wait_where_there_is_none() -> None:
    ring = (*LINE, ("a", "d"))
    scene = OverlayScene(ring)
    reader, writer = scene.client("reader", "a"), scene.client("writer", "c")
    scene.subscribe(reader, "t", qos=1)
    scene.rest(3.0)
    for number in range(10):
        writer.publish("t", b"%d" % number, 1)
    scene.rest(1.0)
    scene.stage.unlink("a", "b")
    for number in range(10, 20):
        writer.publish("t", b"%d" % number, 1)
    scene.rest(10.0)
    assert [int(each) for each in reader.taken] == list(range(20)), "there is another way"
    scene.stage.unlink("a", "d")
    for number in range(20, 30):
        writer.publish("t", b"%d" % number, 1)
    scene.rest(10.0)
    assert len(reader.taken) == 20
    scene.stage.heal()
    scene.rest(30.0)
    assert [int(each) for each in reader.taken] == list(range(30))


def test_rule_92_a_client_id_that_connects_elsewhere_ends_the_connection_that_it_had() -> None:
    scene = OverlayScene()
    one, other = scene.client("c", "a"), SimClient(scene.stage, "c", 0)
    other.connect("d")
    scene.rest()
    assert (one.ready, other.ready) == (False, True)
    assert last(one, Disconnect).reason is Reason.SESSION_TAKEN_OVER


def test_rule_86_places_and_no_local_are_judged_where_the_client_is() -> None:
    scene = OverlayScene()
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    scene.report(reader, position=[0, 0])
    scene.subscribe(reader, "t", qos=1, subscription_id=7, filter="near(position, 50)")
    scene.rest(2.0)
    for x in (10, 100):
        scene.publish(writer, "t", {"position": [x, 0]})
    scene.report(reader, position=[100, 0])
    for x in (10, 100):
        scene.publish(writer, "t", {"position": [x, 0], "then": True})
    scene.rest()
    assert [json.loads(each) for each in reader.taken] == [
        {"position": [10, 0]},
        {"position": [100, 0], "then": True},
    ]
    assert {each.subscription_ids for each in published(reader)} == {(7,)}


def test_rule_93_a_broker_that_has_just_begun_answers_when_it_has_looked_for_the_others() -> None:
    scene = OverlayScene(params=replace(PARAMS, update_period_s=10.0))
    reader = scene.client("reader", "a", expiry_s=1_000)
    scene.subscribe(reader, "t")
    scene.stage.brokers["d"].kill()
    scene.rest(1.0)
    scene.stage.heal()
    reader.connect("d")
    scene.rest(0.1)
    assert not reader.connacks[1:], "it cannot know yet that there are others"
    scene.rest(8.0)
    assert reader.connacks[-1].session_present
    scene.publish(scene.client("writer", "b"), "t", b"x")
    scene.rest(1.0)
    assert reader.taken == [b"x"]


def test_rule_93_a_broker_that_was_killed_begins_anew_and_is_found_again() -> None:
    scene = OverlayScene(params=replace(PARAMS, give_up_s=5.0))
    reader, writer = scene.client("reader", "a"), scene.client("writer", "c")
    scene.subscribe(reader, "t")
    scene.rest(2.0)
    scene.stage.brokers["a"].kill()
    scene.rest(1.0)
    scene.stage.heal()
    scene.rest(5.0)
    again = scene.client("reader", "a")
    assert not again.connacks[0].session_present
    scene.subscribe(again, "t")
    scene.rest(3.0)
    scene.publish(writer, "t", b"x")
    scene.rest(3.0)
    assert again.taken == [b"x"]
