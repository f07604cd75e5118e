"""QoS 1 that nobody needs after a crash is not logged (P-70), and batches of it are as their messages one by one."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.effects import Accept, Acknowledge, AnyEffect, Deliver, Hand
from roamcast.broker.mqtt.inputs import (
    Arrived,
    Asked,
    Finished,
    Left,
    Published,
    PublishedTogether,
    decode_batch,
)
from roamcast.broker.params import BrokerParams
from roamcast.broker.session import Session
from roamcast.mqtt.batches import Batch
from roamcast.mqtt.encoding import encode
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.packets import V5, Publish, Subscribe, Wish
from roamcast.mqtt.reasons import Reason
from roamcast.mqtt.topics import parse_filter
from roamcast.server.connection import ClientSocket
from tests.broker.mqtt.machines import EPOCH_US
from tests.broker.mqtt.scene import Scene, dismissal, published
from tests.broker.mqtt.stage import Remarks, SimClient
from tests.broker.mqtt.test_protocol_recovery import state_of
from tests.effort import examples

TRANSIENT = 0
FILTERS = ("t", "#", "$share/g/t")
NEAR = (("filter", "near(position, 50)"),)


def logged(scene: Scene, broker: str = "a") -> list[object]:
    """Publications and acknowledgements in the log."""
    inputs = [entry.given for batch in scene.stage.brokers[broker].disk.batches for entry in decode_batch(batch)]
    return [each for each in inputs if isinstance(each, Published | PublishedTogether | Finished)]


def payloads(client: SimClient) -> list[bytes]:
    return [each.payload for each in published(client)]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_message_to_transient_sessions_is_not_logged(scene: Scene) -> None:
    ann, bob = scene.client("ann"), scene.client("bob", expiry_s=TRANSIENT)
    scene.subscribe(bob, "t", 1)
    assert scene.publish(ann, "t", b"1") is Reason.SUCCESS
    assert payloads(bob) == [b"1"]
    scene.rest(2.0)
    assert logged(scene) == []


def test_a_message_that_nobody_wants_is_not_logged(scene: Scene) -> None:
    assert scene.publish(scene.client("ann"), "t", b"1") is Reason.SUCCESS
    assert logged(scene) == []


@pytest.mark.parametrize("pattern", ["t", "$share/g/t"])
def test_a_message_to_one_kept_session_is_logged(scene: Scene, pattern: str) -> None:
    ann, bob, cy = scene.client("ann"), scene.client("bob", expiry_s=TRANSIENT), scene.client("cy")
    scene.subscribe(bob, "t", 1)
    scene.subscribe(cy, pattern, 1)
    scene.publish(ann, "t", b"1")
    assert payloads(bob) == payloads(cy) == [b"1"]
    assert any(isinstance(each, Published | PublishedTogether) for each in logged(scene))


def test_a_kept_session_that_comes_later_has_messages_logged(scene: Scene) -> None:
    ann, bob, cy = scene.client("ann"), scene.client("bob", expiry_s=TRANSIENT), scene.client("cy")
    scene.subscribe(bob, "t", 1)
    scene.publish(ann, "t", b"1")
    assert logged(scene) == []
    scene.subscribe(cy, "t", 1)
    scene.publish(ann, "t", b"2")
    assert payloads(cy) == [b"2"]
    assert any(isinstance(each, Published | PublishedTogether) for each in logged(scene))


def test_a_message_that_a_neighbour_wants_is_logged() -> None:
    scene = Scene("ab")
    ann, bob = scene.client("ann", "a", TRANSIENT), scene.client("bob", "b", TRANSIENT)
    scene.subscribe(bob, "t", 1)
    scene.publish(ann, "t", b"1")
    assert payloads(bob) == [b"1"]
    assert len(logged(scene)) == 1


def test_logged_and_unlogged_messages_stay_in_order(scene: Scene) -> None:
    ann, bob, cy = scene.client("ann"), scene.client("bob", expiry_s=TRANSIENT), scene.client("cy")
    scene.subscribe(bob, "#", 1)
    scene.subscribe(cy, "kept", 1)
    topics = ["kept", "gone", "gone", "kept", "gone"]
    for number, topic in enumerate(topics):
        ann.publish(topic, b"%d" % number, 1)
    ann.publish("gone", b"5", 0)
    scene.rest()
    assert payloads(bob) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert payloads(cy) == [b"0", b"3"]


def test_messages_of_both_qualities_in_one_segment_stay_in_order(scene: Scene) -> None:
    bob = scene.client("bob", expiry_s=TRANSIENT)
    scene.client("ann")
    scene.subscribe(bob, "t", 1)
    said = [
        Publish("t", b"%d" % number, qos, packet_id=qos * (number + 1)) for number, qos in enumerate([1, 0, 1, 1, 0])
    ]
    scene.stage.brokers["a"].server.clients["ann"].data_received(b"".join(encode(each, V5) for each in said))
    scene.rest()
    assert [(each.payload, each.qos) for each in published(bob)] == [(each.payload, each.qos) for each in said]


def test_a_mistake_with_a_message_costs_its_publisher_its_connection_and_nothing_else(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = scene.client("ann"), scene.client("bob", expiry_s=TRANSIENT)
    scene.subscribe(bob, "t", 1)
    publishing = scene.stage.brokers["a"].server.core.border.publishing

    def mistaken(client: str, batch: object) -> None:
        raise ArithmeticError("on purpose")

    with monkeypatch.context() as patch:
        patch.setattr(Remarks, "remark", lambda self, what, detail: None)
        patch.setattr(publishing, "pass_reliably", mistaken)
        ann.publish("t", b"1", 1)
        scene.rest()
    assert not ann.ready
    assert dismissal(ann).reason is Reason.UNSPECIFIED_ERROR
    scene.move(ann, "a")
    assert ann.connacks[-1].session_present
    assert scene.publish(ann, "t", b"2") is Reason.SUCCESS
    assert payloads(bob) == [b"1", b"2"]


def test_a_kept_session_that_subscribes_in_the_same_tick_gets_nothing_unlogged(scene: Scene) -> None:
    bob, cy = scene.client("bob", expiry_s=TRANSIENT), scene.client("cy")
    scene.client("ann")
    scene.subscribe(bob, "t", 1)
    clients = scene.stage.brokers["a"].server.clients
    clients["ann"].data_received(encode(Publish("t", b"1", 1, packet_id=1), V5))
    clients["cy"].data_received(encode(Subscribe(1, (Wish("t", 1),)), V5))
    scene.rest()
    assert logged(scene) == []
    assert payloads(bob) == [b"1"]
    assert payloads(cy) == []


def test_a_broker_that_was_killed_has_no_unlogged_message(scene: Scene) -> None:
    ann, bob = scene.client("ann"), scene.client("bob", expiry_s=TRANSIENT)
    scene.subscribe(bob, "t", 1)
    scene.publish(ann, "t", b"1")
    broker = scene.stage.brokers["a"]
    broker.kill()
    broker.start()
    scene.rest()
    assert "bob" not in broker.server.core.border.sessions
    scene.move(ann, "a")
    scene.move(bob, "a")
    scene.subscribe(bob, "t", 1)
    scene.publish(ann, "t", b"2")
    assert payloads(bob) == [b"1", b"2"]


def test_a_claim_of_an_unlogged_session_leaves_the_stream_as_the_log_has_it() -> None:
    """bob came to b while the link was down, and a still holds many deliveries of which its log knows nothing."""
    scene = Scene("ab", broker_params=BrokerParams(search_patience_s=2.0))
    ann, bob = scene.client("ann"), scene.client("bob", expiry_s=TRANSIENT)
    scene.subscribe(bob, "t", 1)
    scene.stage.unlink("a", "b")
    scene.rest(5.0)
    bob.drop(noticed=False)
    for number in range(400):
        ann.publish("t", b"%d" % number, 1)
    scene.rest(5.0)
    bob.connect("b")
    scene.rest(3.0)
    broker = scene.stage.brokers["a"]
    assert len(broker.server.core.border.sessions["bob"].window) == 400
    scene.stage.link("a", "b")
    scene.rest(3.0)
    assert "bob" not in broker.server.core.border.sessions
    sent = broker.server.core.broker.neighbours.streams.of["b"].sent
    broker.kill()
    broker.start()
    assert broker.server.core.broker.neighbours.streams.of["b"].sent == sent


def core_with(subscriptions: Sequence[tuple[str, str, int, bool, bool]], away: bool) -> Core:
    core = Core("a", 1)
    core.handle(EPOCH_US, Arrived("ann", True, 1_000))
    for client, pattern, qos, kept, near in subscriptions:
        if client not in core.border.sessions:
            core.handle(EPOCH_US, Arrived(client, True, 1_000 if kept else 0))
        wanted = Subscription(parse_filter(pattern), qos, user_properties=NEAR if near else ())
        core.handle(EPOCH_US, Asked(client, 1, (wanted,)))
    if away and subscriptions:
        core.handle(EPOCH_US, Left(subscriptions[0][0], None, True))
    return core


SUBSCRIPTIONS = st.lists(
    st.tuples(
        st.sampled_from(("bob", "cy", "dan", "ann")),
        st.sampled_from(FILTERS),
        st.integers(0, 2),
        st.booleans(),
        st.sampled_from((False, False, True)),
    ),
    max_size=6,
)


@given(SUBSCRIPTIONS, st.booleans(), st.lists(st.binary(max_size=4), min_size=1, max_size=5))
@examples(60)
def test_a_batch_is_as_its_messages_one_by_one(
    subscriptions: list[tuple[str, str, int, bool, bool]], away: bool, bodies: list[bytes]
) -> None:
    together, apart = core_with(subscriptions, away), core_with(subscriptions, away)
    ids = tuple(range(1, len(bodies) + 1))
    at_once = together.handle(EPOCH_US + 1, PublishedTogether("ann", "t", ids, tuple(bodies)))
    one_by_one: list[AnyEffect] = []
    for packet_id, body in zip(ids, bodies, strict=True):
        one_by_one += apart.handle(EPOCH_US + 1, Published("ann", packet_id, Message("t", body, 1)))
    assert state_of(together) == state_of(apart)
    assert outcome(at_once) == outcome(one_by_one)


def outcome(effects: list[AnyEffect]) -> tuple[list[int], dict[str, list[object]]]:
    """What is acknowledged, and by client what it is handed and the last number that it may be sent."""
    acknowledged: list[int] = []
    handed: dict[str, list[object]] = {}
    through: dict[str, int] = {}
    for each in effects:
        match each:
            case Acknowledge(_, packet_id):
                acknowledged.append(packet_id)
            case Accept(_, packet_ids):
                acknowledged += packet_ids
            case Hand(clients, batch):
                for client in clients:
                    handed.setdefault(client, []).extend(message.payload for message in batch.messages)
            case Deliver(_, receivers):
                through |= {session.client: number for session, number in receivers}
            case _:
                raise AssertionError(each)
    return acknowledged, {**handed, **{f"{client} through": [number] for client, number in through.items()}}


def test_a_message_that_is_passed_on_while_its_receiver_is_admitted_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    server = scene.stage.brokers["a"].server
    scene.client("writer")
    reader = scene.client("reader")
    scene.subscribe(reader, "t")
    reader.drop()
    scene.rest()
    message = Message("t", b"m", 1)

    def pass_on(client: ClientSocket, session: Session, through: int) -> None:
        """Between the answer to its arrival and CONNACK, when its session ends with its connection already."""
        if not server.core.border.publishing.needs_log("writer", message):
            passing = [("writer", Batch("t", 1, [message], [77], 1))]
            server.outbound.perform(server.core.passing_reliably(server.now_us(), passing))

    monkeypatch.setattr(server.inbound, "forbid", pass_on)
    reader.expiry_s = TRANSIENT
    scene.move(reader, "a")
    assert reader.taken == [b"m"]
