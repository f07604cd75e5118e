"""L2, L3, L7: clients that come: twice at once, under names of others, with wills, past the bounds."""

from collections.abc import Callable

import pytest

from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.effects import Deliver
from roamcast.broker.mqtt.inputs import Arrived, Asked, Left, Published
from roamcast.broker.params import BrokerParams
from roamcast.broker.window import Delivery
from roamcast.model.context import Context
from roamcast.mqtt.messages import Form, Message, Subscription, WillMessage
from roamcast.mqtt.packets import AnyPacket, Publish
from roamcast.mqtt.packets import Will as LastWords
from roamcast.mqtt.reasons import Reason
from roamcast.mqtt.topics import parse_filter
from roamcast.server.access import OpenAccess, Refusal
from roamcast.server.connection import ClientSocket
from roamcast.server.inbound import CLIENT_ID_BYTES_MAX
from tests.broker.mqtt.machines import EPOCH_US
from tests.broker.mqtt.scene import Scene, dismissal
from tests.broker.mqtt.stage import SimClient


class Doorman(OpenAccess):
    """Knows a user by the client's first letter, and lets nobody publish to `secret`."""

    def user_of(self, client: ClientSocket) -> str | None:
        return client.name[:1]

    def may_publish(self, client: ClientSocket, message: Message, context: Context, now_us: int) -> Refusal:
        return (Reason.NOT_AUTHORIZED, "secret") if message.topic.startswith("secret") else None


class Ledger(OpenAccess):
    """Whoever comes is the user that stands here."""

    def __init__(self) -> None:
        self.user = "alice"

    def user_of(self, client: ClientSocket) -> str | None:
        return self.user


def test_every_will_of_qos_2_is_published_though_all_have_no_packet_identifier_rule_28() -> None:
    core = Core("a", 1)
    core.handle(EPOCH_US, Arrived("reader", True, 100))
    core.handle(EPOCH_US, Asked("reader", 1, (Subscription(parse_filter("will"), 2),)))
    for number in range(3):
        core.handle(EPOCH_US + number, Arrived("c", False, 100, WillMessage(Message("will", b"gone", 2))))
        effects = core.handle(EPOCH_US + number, Left("c", None, False))
        assert [type(each) for each in effects] == [Deliver]


@pytest.mark.parametrize("had_session", [False, True])
def test_of_two_arrivals_in_one_commit_the_later_has_the_session_rule_27(had_session: bool) -> None:
    scene = Scene()
    writer, client = scene.client("writer"), SimClient(scene.stage, "c")
    if had_session:
        client.connect("a")
        scene.rest()
        client.drop()
        scene.rest()
    broker = scene.stage.brokers["a"]
    slow_disk(scene)
    client.connect("a", clean=not had_session)
    scene.rest(0.02)
    client.connect("a", clean=True)
    scene.rest(1.0)
    assert client.ready
    assert broker.server.clients["c"].mqtt.session is broker.server.core.border.sessions["c"]
    scene.subscribe(client, "t")
    scene.publish(writer, "t", b"hello")
    assert client.taken == [b"hello"]


def slow_disk(scene: Scene, wait_us: int = 50_000) -> None:
    head, loop = scene.stage.brokers["a"].head, scene.stage.loop

    def submit(batch: bytes, done: Callable[[Exception | None], None], segments: object = ()) -> None:
        loop.after(wait_us, lambda: head._write(lambda: head.disk.batches.append(batch), done))

    head.submit = submit  # type: ignore[method-assign]


def test_what_is_stored_of_a_session_lets_nothing_go_of_the_next_one_l8() -> None:
    scene = Scene()
    client, server = scene.client("c"), scene.stage.brokers["a"].server
    writer = scene.client("writer")
    scene.subscribe(client, "t")
    before = server.core.border.sessions["c"]
    slow_disk(scene)
    client.connect("a", clean=True)
    scene.rest(0.2)
    now = server.core.border.sessions["c"]
    assert now is not before
    scene.subscribe(client, "t")
    writer.publish("t", b"x", 1)
    scene.rest(0.02)
    [number] = now.window.entries
    old = Delivery(now.window.entries[number].event, 1, ("t",), Form(1))
    server.outbound.perform([Deliver([old], [(before, number)])])
    assert server.clients["c"].mqtt.sent_through == 0
    scene.rest()
    assert client.taken == [b"x"]


def test_a_broker_with_as_many_sessions_as_it_may_refuses_the_next_and_serves_the_others_l2() -> None:
    scene = Scene("ab", broker_params=BrokerParams(sessions_max=2))
    reader, writer = scene.client("reader"), scene.client("writer")
    refused = SimClient(scene.stage, "c")
    refused.connect("a")
    scene.rest()
    assert [each.reason for each in refused.connacks] == [Reason.QUOTA_EXCEEDED]
    scene.subscribe(reader, "t")
    assert scene.publish(writer, "t", b"x") is Reason.SUCCESS
    assert reader.taken == [b"x"]
    assert "c" not in scene.stage.brokers["a"].server.core.border.sessions


@pytest.mark.parametrize("topic", ["secret/door", "$SYS/x"])
def test_a_will_may_say_what_its_client_may_l7(topic: str) -> None:
    scene = Scene()
    scene.stage.brokers["a"].server.access = Doorman()
    client = SimClient(scene.stage, "c")
    client.connect("a", will=LastWords(topic, b"x", 1))
    scene.rest()
    assert not client.ready
    assert client.connacks[0].reason in (Reason.NOT_AUTHORIZED, Reason.TOPIC_NAME_INVALID)
    client.connect("a", will=LastWords("other", b"x", 1))
    scene.rest()
    assert client.ready


def test_a_session_is_its_users_and_nobody_else_gets_what_waits_in_it_l7() -> None:
    scene = Scene("ab")
    ledger = Ledger()
    for broker in scene.stage.brokers.values():
        broker.server.access = ledger
    client, writer = scene.client("c"), scene.client("writer")
    scene.subscribe(client, "private")
    client.drop()
    scene.rest()
    scene.publish(writer, "private", b"for alice")
    ledger.user = "mallory"
    for where, clean in (("a", False), ("b", False), ("a", True), ("b", True)):
        other = SimClient(scene.stage, "c")
        other.connect(where, clean=clean)
        scene.rest(2.0)
        assert [each.reason for each in other.connacks] == [Reason.CLIENT_IDENTIFIER_NOT_VALID]
        assert other.taken == []
    ledger.user = "alice"
    scene.move(client, "b")
    assert client.taken == [b"for alice"]


def test_another_user_with_a_client_id_that_is_in_use_is_refused_and_pushes_nobody_out_l7() -> None:
    scene = Scene()
    ledger = scene.stage.brokers["a"].server.access = Ledger()
    client = scene.client("c", expiry_s=0)
    ledger.user = "mallory"
    for clean in (False, True):
        other = SimClient(scene.stage, "c")
        other.connect("a", clean=clean)
        scene.rest(2.0)
        assert [each.reason for each in other.connacks] == [Reason.CLIENT_IDENTIFIER_NOT_VALID]
        assert client.ready


def test_a_session_that_ends_with_its_connection_is_not_ended_by_another_user_elsewhere_l7() -> None:
    scene = Scene("ab")
    client = scene.client("c", expiry_s=0)
    server = scene.stage.brokers["b"].server
    server.access.user_of = lambda client: "mallory"  # type: ignore[method-assign]
    other = SimClient(scene.stage, "c")
    other.connect("b")
    scene.rest(2.0)
    assert [each.reason for each in other.connacks] == [Reason.CLIENT_IDENTIFIER_NOT_VALID]
    assert client.ready
    assert scene.stage.brokers["a"].server.core.border.sessions["c"].connected


def test_the_will_of_a_client_that_takes_no_connack_is_not_published_rule_28() -> None:
    scene = Scene()
    reader = scene.client("reader")
    scene.subscribe(reader, "wills")
    client = SimClient(scene.stage, "c")
    client.packet_bytes_max = 8
    client.connect("a", will=LastWords("wills", b"never accepted"))
    scene.rest(2.0)
    assert (client.connacks, reader.taken) == ([], [])


def test_a_client_id_that_is_too_long_to_travel_between_brokers_is_refused_l2() -> None:
    scene = Scene()
    cases = ((CLIENT_ID_BYTES_MAX, Reason.SUCCESS), (CLIENT_ID_BYTES_MAX + 1, Reason.CLIENT_IDENTIFIER_NOT_VALID))
    for length, reason in cases:
        client = SimClient(scene.stage, "x" * length)
        client.connect("a")
        scene.rest()
        assert client.connacks[0].reason is reason


def test_a_mistake_of_the_broker_costs_a_client_its_connection_and_nothing_else_l8() -> None:
    scene = Scene()
    reader, client = scene.client("reader"), SimClient(scene.stage, "c", expiry_s=5)
    client.connect("a", will=LastWords("will", b"gone", 1))
    scene.rest()
    scene.subscribe(reader, "#")
    broker = scene.stage.brokers["a"]
    said = broker.monitor.said
    broker.monitor.remark = lambda what, detail: said.append((what, detail))  # type: ignore[method-assign]
    publishing = broker.server.core.border.publishing
    right, publishing.publish = publishing.publish, mistaken  # type: ignore[method-assign]
    client.publish("t", b"x", 2)
    scene.rest(0.01)
    publishing.publish = right  # type: ignore[method-assign]
    scene.rest()
    assert dismissal(client).reason is Reason.UNSPECIFIED_ERROR
    assert "internal_error" in [what for what, _ in said]
    scene.rest(10.0)
    assert "c" not in broker.server.core.border.sessions
    scene.move(client, "a")
    scene.rest(1.0)
    assert client.settled
    assert reader.taken.count(b"x") == 1


def mistaken(given: Published) -> None:
    if given.packet_id:
        raise ZeroDivisionError


def test_rule_33_what_a_client_finished_out_of_turn_does_not_come_again_at_the_next_broker() -> None:
    """Two of QoS 2; the first is never received, the second is completed."""
    scene = Scene("ab")
    reader, writer = scene.client("reader", "a"), scene.client("writer", "a")
    scene.subscribe(reader, "t", qos=2)
    answers = reader._on

    def deaf_to_the_first(packet: AnyPacket) -> list[AnyPacket]:
        return [] if isinstance(packet, Publish) and packet.payload == b"1" else answers(packet)

    reader._on = deaf_to_the_first  # type: ignore[method-assign]
    scene.publish(writer, "t", b"1", qos=2)
    scene.publish(writer, "t", b"2", qos=2)
    reader._on = answers  # type: ignore[method-assign]
    scene.move(reader, "b")
    assert reader.taken == [b"2", b"1"]
