"""docs/PROTOCOL.md, section 17: rights that were withdrawn."""

import pytest

from roamcast.broker.mqtt.inputs import Forbidden
from roamcast.model.context import Context
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.packets import Will
from roamcast.mqtt.reasons import Reason
from roamcast.server.access import AccessControl, Refusal
from roamcast.server.connection import ClientSocket
from roamcast.server.security import Identity
from tests.broker.mqtt.scene import Scene, dismissal
from tests.broker.mqtt.stage import SimClient


class Rules(AccessControl):
    def __init__(self) -> None:
        self.forbidden: set[str] = set()
        """Topic filters, and topics."""
        self.gone: set[str] = set()
        """Clients that may come no longer."""

    def may_stay(self, client: ClientSocket) -> bool:
        return client.name not in self.gone

    def may_leave_behind(self, who: Identity, message: Message, context: Context, now_us: int) -> bool:
        return message.topic not in self.forbidden

    def may_publish(self, client: ClientSocket, message: Message, context: Context, now_us: int) -> Refusal:
        return (Reason.NOT_AUTHORIZED, "forbidden") if message.topic in self.forbidden else None

    def may_subscribe(self, client: ClientSocket, asked: Subscription, now_us: int) -> Reason | None:
        return Reason.NOT_AUTHORIZED if asked.filter.text in self.forbidden else None


def test_what_waits_for_a_forbidden_subscription_alone_ends_with_it_rule_95() -> None:
    scene = Scene()
    writer, reader = scene.client("writer"), scene.client("reader")
    for pattern in ("secret/#", "+/shared"):
        scene.subscribe(reader, pattern)
    reader.drop()
    scene.rest()
    for topic in ("secret/1", "secret/shared", "open/shared"):
        scene.publish(writer, topic, topic.encode())
    scene.stage.brokers["a"].server.give(Forbidden("reader", ("secret/#",), 0))
    scene.publish(writer, "secret/2", b"secret/2")
    scene.move(reader, "a")
    assert reader.taken == [b"secret/shared", b"open/shared"]


def test_what_was_sent_of_a_forbidden_subscription_is_sent_again_rule_95() -> None:
    scene = Scene()
    writer, reader = scene.client("writer"), scene.client("reader")
    scene.subscribe(reader, "secret/#")
    reader.drop()
    scene.rest()
    for number in (1, 2):
        scene.publish(writer, "secret/x", b"%d" % number)
    session = scene.stage.brokers["a"].server.core.border.sessions["reader"]
    first = next(iter(session.window.entries))
    scene.stage.brokers["a"].server.give(Forbidden("reader", ("secret/#",), first))
    scene.move(reader, "a")
    assert reader.taken == [b"1"]


def test_rules_are_checked_when_a_session_comes_from_another_broker_rule_95() -> None:
    scene = Scene("ab")
    rules = Rules()
    scene.stage.brokers["b"].server.access = rules
    writer, reader = scene.client("writer"), scene.client("reader")
    for pattern in ("secret", "open"):
        scene.subscribe(reader, pattern)
    rules.forbidden.add("secret")
    scene.move(reader, "b")
    for topic in ("secret", "open"):
        scene.publish(writer, topic, topic.encode())
    assert reader.taken == [b"open"]


def test_what_waits_for_a_subscription_that_has_expired_stays_when_another_is_forbidden_rule_95() -> None:
    scene = Scene()
    rules = scene.stage.brokers["a"].server.access = Rules()
    writer, reader = scene.client("writer"), scene.client("reader")
    scene.subscribe(reader, "sale", expiry="3")
    scene.subscribe(reader, "secret")
    reader.drop()
    scene.publish(writer, "sale", b"kept")
    scene.rest(10)
    rules.forbidden.add("secret")
    scene.move(reader, "a")
    assert reader.taken == [b"kept"]


@pytest.mark.parametrize("stays", [True, False])
def test_a_will_that_the_rules_forbid_since_is_not_published_rule_95(stays: bool) -> None:
    scene = Scene()
    server = scene.stage.brokers["a"].server
    rules = server.access = Rules()
    reader = scene.client("reader")
    scene.subscribe(reader, "door")
    client = SimClient(scene.stage, "client", 1_000)
    client.connect("a", will=Will("door", b"open", 1, False))
    scene.rest()
    rules.forbidden.add("door")
    if not stays:
        rules.gone.add("client")
    server.check_rights()
    client.drop()
    scene.rest(2)
    assert reader.taken == []


def test_a_client_that_arrives_while_rules_change_is_judged_by_the_new_ones_rule_95() -> None:
    scene = Scene("ab")
    server = scene.stage.brokers["a"].server
    rules = server.access = Rules()
    scene.stage.unlink("a", "b")
    client = SimClient(scene.stage, "client", 1_000)
    client.connect("a")
    scene.rest(0.1)
    assert "client" in server.arriving
    rules.gone.add("client")
    server.check_rights()
    scene.stage.link("a", "b")
    scene.rest(5)
    assert not client.ready
    assert client.connacks[0].reason is Reason.NOT_AUTHORIZED


def test_a_client_that_may_come_no_longer_is_disconnected_rule_95() -> None:
    scene = Scene()
    server = scene.stage.brokers["a"].server
    rules = server.access = Rules()
    client, other = scene.client("client"), scene.client("other")
    rules.gone.add("client")
    server.check_rights()
    scene.rest()
    assert dismissal(client).reason is Reason.NOT_AUTHORIZED
    assert other.ready


@pytest.mark.parametrize("forbidden", [False, True])
def test_the_will_of_a_client_that_is_away_is_checked_when_rules_change_rule_95(forbidden: bool) -> None:
    scene = Scene()
    rules = scene.stage.brokers["a"].server.access = Rules()
    reader, client = scene.client("reader"), SimClient(scene.stage, "c")
    scene.subscribe(reader, "wills")
    client.connect("a", will=Will("wills", b"gone", delay_s=60))
    scene.rest()
    client.drop()
    scene.rest()
    rules.forbidden.update(["wills"] if forbidden else [])
    scene.stage.brokers["a"].server.check_rights()
    scene.rest(100.0)
    assert reader.taken == ([] if forbidden else [b"gone"])
