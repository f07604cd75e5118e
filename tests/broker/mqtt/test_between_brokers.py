"""L3: brokers whose clocks differ, that say what cannot be, or have no room for what a client brings along."""

import json

import msgspec
import pytest
from msgspec.structs import replace

from roamcast.broker.messages import Remember, Replay, Sequenced, Wanted
from roamcast.broker.modulators.limits import Limits
from roamcast.broker.modulators.running import Modulators
from roamcast.broker.mqtt.events import message_in
from roamcast.broker.params import BrokerParams
from roamcast.broker.session import Session
from roamcast.broker.transfer import BadTransfer, Interest, SessionState, check
from roamcast.broker.window import Bounds, Window, WindowState
from roamcast.broker.wishes import Wish
from roamcast.model import subscription as model
from roamcast.model.context import Context
from roamcast.model.filter import EVERYTHING
from roamcast.model.space import Plane
from roamcast.model.values import FOREVER_US
from roamcast.mqtt import encode
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.packets import V5, PubAck, PubRec, SubAck, Unsubscribe
from roamcast.mqtt.reasons import Reason
from roamcast.mqtt.topics import parse_filter
from roamcast.node import boundary
from tests.broker.mqtt.scene import Scene, last, published
from tests.broker.mqtt.stage import SimClient


@pytest.mark.parametrize("behind_s", [0.1, 10.0])
def test_a_neighbour_whose_clock_is_behind_delivers_everything_rule_32(behind_s: float) -> None:
    scene = Scene("ab")
    server = scene.stage.brokers["b"].server
    server._clock_us = lambda: scene.stage.loop.now_us - round(behind_s * 1e6)
    server.heard_us = 0
    writer, reader, roamer = scene.client("writer"), scene.client("reader", "b"), scene.client("roamer")
    for client in (reader, roamer):
        scene.subscribe(client, "t")
    scene.move(roamer, "b")
    for number in range(4):
        scene.publish(writer, "t", b"%d" % number, expiry_s=3600 if number % 2 else None)
    assert reader.taken == roamer.taken == [b"0", b"1", b"2", b"3"]


def test_names_of_clients_and_topics_never_run_into_each_other_l2() -> None:
    scene = Scene()
    one, other, writer = scene.client("c"), scene.client("c:home/a"), scene.client("writer")
    scene.subscribe(one, "home/a:b")
    scene.subscribe(other, "b")
    scene.publish(writer, "home/a:b", b"1")
    scene.publish(writer, "b", b"2")
    assert (one.taken, other.taken) == ([b"1"], [b"2"])


def test_after_a_message_that_no_link_takes_the_stream_goes_on_rule_61() -> None:
    scene = Scene("ab")
    writer, reader = scene.client("writer", "a"), scene.client("reader", "b")
    scene.subscribe(reader, "t")
    broker = scene.stage.brokers["a"]
    border = broker.server.core.border
    large = Wish("x" * 5_000_000, "t", EVERYTHING)
    neighbours = border.neighbours
    effects = neighbours.numbered(neighbours.send([("b", Wanted(large))]))
    border.finish(effects)
    broker.server.outbound.perform(border.take_effects())
    scene.rest()
    assert "unsendable" in scene.remarks("a")
    for payload in (b"behind it", json.dumps({f"k{number}": "v" * 40_000 for number in range(14)}).encode()):
        assert scene.publish(writer, "t", payload) is Reason.SUCCESS
        assert reader.taken[-1] == payload


def test_what_is_withdrawn_at_the_old_broker_while_a_client_moves_is_gone_at_the_new_one_rule_24() -> None:
    scene = Scene("ab")
    client, reader, writer = scene.client("c", "a", expiry_s=5), scene.client("reader", "b"), scene.client("w", "b")
    for pattern in ("x", "y"):
        scene.subscribe(client, pattern)
    old, b = scene.stage.brokers["a"], scene.stage.brokers["b"]
    socket, heard = old.server.clients["c"], old.server.core.border.linking.heard

    def hear(peer: str, message: boundary.Message) -> None:
        heard(peer, message)
        if isinstance(message, Sequenced) and isinstance(message.message, Remember):
            withdrawal = encode(Unsubscribe(9, ("x",)), V5)
            scene.stage.loop.after(10, lambda: socket.data_received(withdrawal))

    old.server.core.border.linking.heard = hear  # type: ignore[method-assign]
    client.stage.rng.random = lambda: 0.9  # type: ignore[method-assign]
    scene.move(client, "b")
    assert list(b.server.core.border.sessions["c"].subscriptions) == ["y"]
    client.drop()
    scene.rest(10.0)
    assert len(b.server.core.border.audience) == 0
    scene.subscribe(reader, "x")
    scene.publish(writer, "x", b"m")
    assert reader.taken == [b"m"]


WANTED = model.Subscription("c\0t", "c", "t", 0, FOREVER_US)
INTEREST = Interest(WANTED, Subscription(parse_filter("t"), 1))


@pytest.mark.parametrize(
    "state",
    [
        SessionState(context=Context("victim")),
        SessionState(interests=(Interest(replace(WANTED, subscriber="victim"), INTEREST.asked),)),
        SessionState(received=(0,)),
        SessionState(received=(70_000,)),
        SessionState(window=WindowState(received=(-1,))),
        SessionState(window=WindowState(sent_through=2**60)),
    ],
)
def test_a_session_that_cannot_be_this_clients_is_not_taken_over_rule_24(state: SessionState) -> None:
    with pytest.raises(BadTransfer):
        check(state, "c")


def test_a_session_is_at_the_next_broker_what_it_was_rule_24() -> None:
    told = SessionState(
        5, 6, False, WindowState(8, 7, (3,)), "ann", Context("c"), (INTEREST,), (5,), (), (("e", ("t",)),), False, 4
    )
    there = msgspec.msgpack.decode(msgspec.msgpack.encode(told), type=SessionState)
    assert there == told
    check(there, "c")
    session = Session("c", 5, Window(Bounds(10, 10)), Modulators(Plane(), Limits()))
    session.user, session.subscriptions = "ann", {"t": INTEREST}
    session.replayed(Replay("c", 5, ("b",), last=True, session=there))
    session.take_over(there)
    assert session.state() == told


def test_a_subscription_that_the_broker_has_no_room_for_is_refused_rule_55() -> None:
    scene = Scene(broker_params=BrokerParams(wishes_max=2))
    client, writer = scene.client("c"), scene.client("writer")
    reasons = [scene.subscribe(client, f"t/{number}")[0] for number in range(3)]
    assert reasons == [Reason.GRANTED_QOS_1, Reason.GRANTED_QOS_1, Reason.QUOTA_EXCEEDED]
    assert "as many subscriptions as it may" in (last(client, SubAck).reason_text or "")
    assert "wish_refused" not in scene.remarks()
    scene.publish(writer, "t/2", b"x")
    assert client.taken == []
    scene.unsubscribe(client, "t/0")
    assert scene.subscribe(client, "t/2") == (Reason.GRANTED_QOS_1,)


def test_a_client_whose_subscriptions_the_new_broker_has_no_room_for_keeps_its_session_where_it_is_rule_24() -> None:
    scene = Scene("ab")
    client, writer = scene.client("c", "a"), scene.client("writer", "a")
    scene.subscribe(client, "t")
    scene.stage.brokers["b"].server.core.broker.neighbours.router.wishes_max = 1
    client.connect("b")
    scene.rest(2.0)
    assert client.connacks[-1].reason is Reason.QUOTA_EXCEEDED
    scene.publish(writer, "t", b"x")
    scene.move(client, "a")
    assert client.connacks[-1].session_present
    assert client.taken == [b"x"]


def unsettled(publications_max: int) -> tuple[Scene, SimClient, SimClient]:
    """A publisher at a, and a reader at b whom nobody at a knows of: their link is down."""
    params = BrokerParams(advertisements=True, publications_max=publications_max, search_patience_s=50)
    scene = Scene("ab", broker_params=params)
    writer, reader = scene.client("writer", "a"), scene.client("reader", "b")
    scene.subscribe(reader, "t")
    scene.stage.unlink("a", "b")
    scene.rest()
    return scene, writer, reader


def test_with_advertisements_what_finds_no_room_to_wait_is_refused_and_the_rest_goes_out_rule_57() -> None:
    scene, writer, reader = unsettled(publications_max=2)
    for number in range(4):
        writer.publish("t", b"%d" % number, 1 + number % 2)
    scene.rest()
    scene.stage.heal()
    scene.rest(3.0)
    for kind in (PubAck, PubRec):
        reasons = [each.reason for each in writer.heard if isinstance(each, kind)]
        assert reasons == [Reason.SUCCESS, Reason.QUOTA_EXCEEDED]
    assert reader.taken == [b"0", b"1"]
    assert scene.publish(writer, "t", b"4") is Reason.SUCCESS
    assert reader.taken == [b"0", b"1", b"4"]


def test_with_advertisements_a_publisher_that_moves_on_is_heard_at_the_next_broker_rule_33() -> None:
    params = BrokerParams(advertisements=True)
    scene = Scene("abc", broker_params=params)
    writer, reader = scene.client("writer", "a"), scene.client("reader", "c")
    scene.subscribe(reader, "t", qos=2)
    scene.stage.unlink("b", "c")
    scene.rest()
    writer.publish("t", b"once", 2)
    scene.rest()
    assert not [each for each in writer.heard if isinstance(each, PubRec)]
    scene.move(writer, "b")
    scene.stage.heal()
    scene.rest(3.0)
    assert writer.settled
    assert reader.taken == [b"once"]


def test_rule_30_a_delivery_held_on_the_way_keeps_the_form_that_was_asked_for() -> None:
    """The client passes through b, whose link to the session's broker is down, and goes on to c."""
    scene = Scene("abc")
    roamer, writer = scene.client("roamer"), scene.client("writer", "b")
    scene.subscribe(roamer, "t", qos=1, subscription_id=7)
    roamer.connect("b")
    sessions = scene.stage.brokers["b"].server.core.border.sessions
    for _ in range(200):
        if "roamer" in sessions and sessions["roamer"].attachment.awaits is not None:
            break
        scene.rest(0.001)
    scene.stage.unlink("a", "b")
    scene.rest(0.1)
    scene.publish(writer, "t", b"held", qos=2)
    roamer.connect("c")
    scene.rest(1.0)
    scene.stage.link("a", "b")
    scene.rest(5.0)
    assert [(each.payload, each.qos, each.subscription_ids) for each in published(roamer)] == [(b"held", 1, (7,))]


@pytest.mark.parametrize("topic", ["", "t/+", "t/#", "t\0"])
def test_l7_a_topic_of_a_neighbour_that_no_client_could_be_sent_is_no_message(topic: str) -> None:
    assert message_in(msgspec.msgpack.encode(Message("t", b"x"))) == Message("t", b"x")
    assert message_in(msgspec.msgpack.encode(Message(topic, b"x"))) is None
