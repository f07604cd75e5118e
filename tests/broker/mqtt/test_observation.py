"""P2: what a live broker tells its observers is what the oracle must know, and nothing twice."""

from collections.abc import Sequence

import pytest

from roamcast.journal.live import opening_of
from roamcast.journal.records import Run
from roamcast.model.event import Event
from roamcast.model.space import Plane
from roamcast.model.values import Point
from roamcast.mqtt.reasons import Reason
from roamcast.node.observer import Observer, SubscriptionIds
from tests.broker.mqtt.observed import Told
from tests.broker.mqtt.scene import Scene
from tests.broker.mqtt.stage import SimClient

YARD = b'{"type": "Feature", "geometry": {"type": "Point", "coordinates": [500, 0]}, "properties": {"radius_m": 9}}'


def watched(brokers: str = "a") -> Scene:
    scene = Scene(brokers)
    for broker in scene.stage.brokers.values():
        broker.observe(Told())
    return scene


def told(scene: Scene, broker: str = "a") -> Told:
    observer = scene.stage.brokers[broker].observer
    assert isinstance(observer, Told)
    return observer


def deliveries(scene: Scene, broker: str = "a") -> list[tuple[str, str]]:
    return [(client, name.partition("\0")[2]) for client, _, name in told(scene, broker).of("delivered")]


def read_but_silent(scene: Scene) -> SimClient:
    """A reader that has a message and has not acknowledged it."""
    reader = scene.client("reader")
    scene.subscribe(reader, "t")
    reader.drop()
    scene.rest()
    scene.publish(scene.client("writer"), "t", b"1")
    return reader


def test_p2_a_report_of_any_qos_is_a_move() -> None:
    scene = watched()
    client = scene.client("c")
    for qos in (0, 1, 2):
        scene.publish(client, "$roam/me", {"position": [qos, 5]}, qos=qos)
    assert [context.position for (context,) in told(scene).of("moved")] == [
        None,
        Point(0, 5),
        Point(1, 5),
        Point(2, 5),
    ]


def test_p2_a_client_is_gone_with_its_session_and_not_with_its_connection() -> None:
    scene = watched()
    client = scene.client("c", expiry_s=30)
    client.drop()
    scene.rest(20)
    assert told(scene).of("gone") == []
    scene.rest(20)
    assert told(scene).of("gone") == [("c", None)]


def test_p2_a_client_that_roams_is_not_gone_and_its_new_broker_knows_where_it_is() -> None:
    scene = watched("ab")
    client = scene.client("c")
    scene.report(client, position=[3, 4], attributes={"kind": "truck"})
    scene.move(client, "b")
    assert told(scene).of("gone") == [("c", "b")]
    contexts = [context for (context,) in told(scene, "b").of("moved")]
    assert [(each.position, each.attributes) for each in contexts] == [(Point(3, 4), {"kind": "truck"})]


def test_p2_a_client_that_starts_clean_elsewhere_was_gone() -> None:
    scene = watched("ab")
    client = scene.client("c")
    scene.subscribe(client, "t")
    client.connect("b", clean=True)
    scene.rest(2)
    assert [name for name, _ in told(scene, "b").all if name in ("gone", "moved")] == ["gone", "moved"]


def test_p2_a_delivery_that_waits_while_its_client_roams_is_written_once() -> None:
    scene = watched("ab")
    reader = read_but_silent(scene)
    scene.move(reader, "b")
    scene.move(reader, "a")
    assert sorted(deliveries(scene) + deliveries(scene, "b")) == [("reader", "t")]


def test_p2_a_message_holds_at_its_publication_unless_it_lasts() -> None:
    scene = watched()
    writer = scene.client("w")
    scene.publish(writer, "t", b"1", expiry_s=60)
    scene.publish(writer, "t", b"2", expiry_s=60, persist="true")
    scene.publish(writer, "t", b"3", qos=0, expiry_s=60)
    assert [event.instantaneous for _, event in told(scene).of("published")] == [True, False, True]


def test_p2_a_withdrawn_message_is_told_as_that_and_its_withdrawal_is_no_event() -> None:
    scene = watched()
    writer = scene.client("w")
    scene.publish(writer, "t", b"2", expiry_s=60, persist="true", id="7")
    scene.publish(writer, "t", b"", withdraw="7")
    ((_, event),) = told(scene).of("published")
    assert told(scene).of("withdrawn") == [("w", event.id)]


def test_p2_shared_subscriptions_are_not_in_the_journal() -> None:
    scene = watched()
    member, plain = scene.client("m"), scene.client("p")
    scene.subscribe(member, "$share/g/t")
    scene.subscribe(plain, "t")
    for qos in (0, 1):
        scene.publish(plain, "t", b"1", qos=qos)
    assert deliveries(scene) == [("p", "t"), ("p", "t")]
    assert [client for client, _ in told(scene).of("subscribed")] == ["p"]
    assert [client for client, _ in told(scene).of("subscribed_unmodelled")] == ["m"]


def test_p2_a_retained_message_that_a_new_subscription_is_given_is_a_note() -> None:
    scene = watched()
    client = scene.client("c")
    scene.publish(client, "t", b"1", retain=True)
    scene.subscribe(client, "t")
    assert deliveries(scene) == []
    assert [what for _, what, _ in told(scene).of("noted")] == ["retained_given"]


def test_p2_where_fences_are_a_move_that_is_no_report_of_a_place_is_noted() -> None:
    scene = watched()
    client = scene.client("c")
    scene.publish(client, "$roam/fences/yard", YARD, retain=True)
    scene.report(client, position=[1, 2])
    assert [what for _, what, _ in told(scene).of("noted")] == ["fence_put"]
    scene.report(client, attributes={"kind": "van"})
    scene.move(client, "a")
    assert [what for _, what, _ in told(scene).of("noted")] == ["fence_put", "place_kept", "place_kept"]


def test_p2_a_journal_that_begins_later_is_told_who_is_there_and_what_they_want() -> None:
    scene = Scene()
    client = scene.client("c")
    scene.subscribe(client, "t")
    broker = scene.stage.brokers["a"]
    observer = broker.observer = Told()
    broker.server.write_ahead.snapshot()
    scene.rest()
    broker.kill()
    broker.start()
    assert [name for name, _ in observer.all] == ["moved", "subscribed", "disconnected"]


def test_p2_brokers_that_open_a_journal_at_once_do_not_share_a_number() -> None:
    openings = [opening_of(Run(name, 1_700_000_000_000_000, Plane())) for name in ("a", "b", "c")]
    assert len(set(openings)) == 3
    assert opening_of(Run("a", 1_700_000_000_001_000, Plane())) > max(openings)


@pytest.mark.parametrize("asked", [{}, {"modulator": '["declarative"]'}, {"origin": "true"}])
def test_p2_what_a_client_that_is_away_does_not_get_is_no_delivery(asked: dict[str, str]) -> None:
    scene = watched()
    reader, writer = scene.client("reader"), scene.client("writer")
    assert scene.subscribe(reader, "t", 0, None, **asked) == (Reason.SUCCESS,)
    reader.drop()
    scene.rest()
    scene.publish(writer, "t", b"gone", qos=0)
    assert deliveries(scene) == []


def test_p2_deliveries_of_one_event_are_told_together() -> None:
    class Fans(Observer):
        def __init__(self) -> None:
            self.told: list[list[str]] = []

        def fanned_out(
            self, now_us: int, event: Event, hosts: Sequence[str], subscription_ids: SubscriptionIds
        ) -> None:
            self.told.append(list(hosts))

    scene, fans = Scene(), Fans()
    for name in "xyz":
        scene.subscribe(scene.client(name), "t")
    scene.stage.brokers["a"].observe(fans)
    writer = scene.client("w")
    for qos in (0, 1):
        scene.publish(writer, "t", b"1", qos=qos)
    assert fans.told == [["x", "y", "z"]] * 2
