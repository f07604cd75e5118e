"""docs/PROTOCOL.md, section 17: rights that were withdrawn."""

from roamcast.broker.mqtt.inputs import Forbidden
from roamcast.mqtt.messages import Subscription
from roamcast.mqtt.reasons import Reason
from roamcast.server.access import AccessControl
from roamcast.server.connection import ClientSocket
from tests.broker.mqtt.scene import Scene


class Rules(AccessControl):
    def __init__(self) -> None:
        self.forbidden: set[str] = set()

    def may_subscribe(self, client: ClientSocket, asked: Subscription, now_us: int) -> Reason | None:
        return Reason.NOT_AUTHORIZED if asked.filter.text in self.forbidden else None


def test_what_waits_for_a_forbidden_subscription_alone_ends_with_it_p95() -> None:
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


def test_what_was_sent_of_a_forbidden_subscription_is_sent_again_p95() -> None:
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


def test_rules_are_checked_when_a_session_comes_from_another_broker_p95() -> None:
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
