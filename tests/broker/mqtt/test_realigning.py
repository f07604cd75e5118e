"""L3: what a client asks of its old broker while it is being fetched holds at the new one as it was granted."""

from roamcast.broker.messages import Relocate, Replay
from roamcast.broker.modulators.limits import Limits
from roamcast.broker.modulators.running import Modulators
from roamcast.broker.mqtt.inputs import Asked, Published, Withdrew
from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.mqtt.subscribing import expiry_timer
from roamcast.broker.session import Session
from roamcast.broker.transfer import SessionState
from roamcast.broker.window import Bounds, Window
from roamcast.model.space import Plane
from roamcast.mqtt.limits import SessionLimits
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.packets import Pairs
from roamcast.mqtt.topics import parse_filter
from tests.broker.mqtt.scene import Scene
from tests.broker.mqtt.stage import SimClient


def asked(text: str, qos: int = 1, **properties: str) -> Subscription:
    pairs: Pairs = tuple(properties.items())
    return Subscription(parse_filter(text), qos, user_properties=pairs)


def session_at(scene: Scene, broker: str) -> Session:
    return scene.stage.brokers[broker].server.core.border.sessions["c"]


def claims(scene: Scene, client: SimClient) -> None:
    """It comes to b, and b has just asked a for its session."""
    client.connect("b")
    while "c" not in scene.stage.brokers["b"].server.core.border.sessions:
        scene.rest(0.0001)
    assert "c" in scene.stage.brokers["a"].server.core.border.sessions


def meanwhile_asks(scene: Scene, *wanted: Subscription) -> None:
    """Over the connection that its old broker takes for open."""
    scene.stage.brokers["a"].server.give(Asked("c", 9, wanted))


def come(scene: Scene, client: SimClient) -> Session:
    scene.rest(2.0)
    assert client.ready
    assert "c" not in scene.stage.brokers["a"].server.core.border.sessions
    return session_at(scene, "b")


def test_l3_a_subscription_made_meanwhile_ends_when_it_was_to_end() -> None:
    scene = Scene("ab")
    client, writer = scene.client("c"), scene.client("writer", "b")
    claims(scene, client)
    meanwhile_asks(scene, asked("t", expiry="60"))
    ends_us = session_at(scene, "a").subscriptions["t"].wanted.expires_us
    session = come(scene, client)
    assert session.subscriptions["t"].wanted.expires_us == ends_us
    assert expiry_timer("c", "t") in scene.stage.brokers["b"].server.core.border.timers
    scene.publish(writer, "t", b"in time")
    scene.rest(61.0)
    scene.publish(writer, "t", b"too late")
    assert client.taken == [b"in time"]
    assert "t" not in session.subscriptions


def test_rule_58_messages_for_a_client_on_its_way_are_bounded_in_bytes() -> None:
    scene = Scene("ab", CoreParams(session=SessionLimits(queue_bytes_max=10_000)))
    client, _ = scene.client("c"), scene.client("writer", "b")
    scene.subscribe(client, "t")
    claims(scene, client)
    core, session = scene.stage.brokers["b"].server.core, session_at(scene, "b")
    for number in range(1, 31):
        core.handle(core.border.now_us, Published("writer", number, Message("t", b"x" * 1_000, 1)))
    assert session.attachment.awaits is not None
    assert 5 <= len(session.attachment.held) <= 9


def test_what_a_client_had_of_lasting_messages_goes_on_with_a_claimed_session() -> None:
    """C3: it was claimed again before its old broker had answered, and had got another one meanwhile."""
    session = Session("c", 2, Window(Bounds(10, 10)), Modulators(Plane(), Limits()))
    told = SessionState(seen=(("old", ("t",)),))
    session.unseen("new", [asked("t")])
    session.replayed(Replay("c", 2, ("b",), session=told))
    session.take_over(told)
    session.attachment.claim = Relocate("c", 3, 0, ("d",))
    assert session.state().seen == (("new", ("t",)), ("old", ("t",)))


def test_l3_a_subscription_that_ends_on_the_way_does_not_begin_anew() -> None:
    """By the clock of the new broker; that of the old one is behind, and says that it still holds."""
    scene = Scene("ab")
    scene.stage.brokers["a"].behind_us = 20_000_000
    scene.rest(20.0)
    client, writer = scene.client("c"), scene.client("writer", "b")
    scene.subscribe(client, "t", expiry="30")
    claims(scene, client)
    scene.stage.unlink("a", "b")
    scene.rest(15.0)
    assert "t" in session_at(scene, "a").subscriptions
    scene.stage.link("a", "b")
    scene.rest(2.0)
    assert client.ready
    scene.publish(writer, "t", b"too late")
    assert client.taken == []
    assert "t" not in session_at(scene, "b").subscriptions


def test_l3_a_subscription_made_meanwhile_counts_for_how_much_a_session_may_have() -> None:
    scene = Scene("ab")
    client = scene.client("c")
    claims(scene, client)
    meanwhile_asks(scene, asked("t", filter="v > 1"))
    size = session_at(scene, "a").subscriptions["t"].size_bytes
    assert come(scene, client).subscriptions["t"].size_bytes == size > 0


def test_l3_a_subscription_made_meanwhile_that_finds_no_room_is_dropped_and_counted() -> None:
    scene = Scene("ab", CoreParams(session=SessionLimits(subscriptions_max=2)))
    client, writer = scene.client("c"), scene.client("writer", "b")
    scene.subscribe(client, "one")
    scene.stage.brokers["b"].server.core.border.keep_within(CoreParams(session=SessionLimits(subscriptions_max=1)))
    claims(scene, client)
    meanwhile_asks(scene, asked("two"))
    session = come(scene, client)
    assert list(session.subscriptions) == ["one"]
    assert "subscription_dropped" in scene.remarks("b")
    for topic in ("one", "two"):
        scene.publish(writer, topic, topic.encode())
    assert client.taken == [b"one"]


def test_l3_a_subscription_that_was_changed_meanwhile_is_the_changed_one() -> None:
    scene = Scene("ab")
    client, writer = scene.client("c"), scene.client("writer", "b")
    scene.subscribe(client, "t", filter="v > 1")
    claims(scene, client)
    meanwhile_asks(scene, asked("t", filter="v < 1"))
    come(scene, client)
    for number in (0, 2):
        scene.publish(writer, "t", {"v": number})
    assert client.taken == [b'{"v": 0}']


def test_l3_a_subscription_that_was_withdrawn_meanwhile_has_no_timer_any_more() -> None:
    scene = Scene("ab")
    client, writer = scene.client("c"), scene.client("writer", "b")
    scene.subscribe(client, "t", expiry="60")
    claims(scene, client)
    scene.stage.brokers["a"].server.give(Withdrew("c", 9, ("t",)))
    come(scene, client)
    assert expiry_timer("c", "t") not in scene.stage.brokers["b"].server.core.border.timers
    scene.publish(writer, "t", b"not wanted")
    assert client.taken == []
