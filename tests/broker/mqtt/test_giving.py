"""L2, P-40: many retained messages come in portions, with others between them, and each of them once."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from roamcast.broker.mqtt.effects import AnyEffect
from roamcast.broker.mqtt.giving import Giving
from roamcast.broker.mqtt.inputs import AnyGiven, GoOn
from roamcast.broker.mqtt.params import CoreParams
from roamcast.mqtt.limits import SessionLimits
from roamcast.mqtt.packets import AnyPacket, Publish, Subscribe, Wish
from roamcast.mqtt.topics import matches
from tests.broker.mqtt.scene import Scene, published
from tests.broker.mqtt.stage import SimClient

COUNT = 100
ALL = [b"%d" % number for number in range(COUNT)]
STEP_S, STEPS_MAX = 0.000_002, 100_000


@pytest.fixture(autouse=True)
def small_portions() -> Iterator[None]:
    with patch("roamcast.broker.mqtt.giving.PORTION", 10), patch("roamcast.broker.mqtt.subscribing.PORTION", 10):
        yield


def filled(brokers: str = "a", queue_messages_max: int = 10_000) -> tuple[Scene, SimClient]:
    """With a writer that has said numbers on as many topics, all of them retained."""
    scene = Scene(brokers, CoreParams(session=SessionLimits(queue_messages_max=queue_messages_max)))
    writer = scene.client("writer")
    for number, said in enumerate(ALL):
        writer.publish(f"t/{number}", said, 1, True)
    scene.rest(5.0)
    return scene, writer


def giving(scene: Scene, broker: str = "a") -> Giving:
    return scene.stage.brokers[broker].server.core.border.giving


def until_under_way(scene: Scene, broker: str = "a") -> None:
    """The first portions are on their way, and others are not."""
    for _ in range(STEPS_MAX):
        if giving(scene, broker).walks:
            return
        scene.rest(STEP_S)
    raise AssertionError("everything is given at once")


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("expiry_s", [0, 1_000])
def test_all_that_is_retained_comes_in_order_rule_40(qos: int, expiry_s: int) -> None:
    scene, _ = filled()
    reader = scene.client("reader", expiry_s=expiry_s)
    reader.subscribe("t/#", qos)
    until_under_way(scene)
    scene.rest(5.0)
    assert reader.taken == ALL
    assert all(each.retain for each in published(reader))
    assert not giving(scene).walks


def test_no_input_gives_more_than_a_portion_l13() -> None:
    scene, _ = filled()
    core = scene.stage.brokers["a"].server.core
    handle, given_by = core.handle, list[int]()

    def counted(now_us: int, given: AnyGiven) -> list[AnyEffect]:
        before = window.next_number
        effects = handle(now_us, given)
        given_by.append(window.next_number - before)
        return effects

    reader = scene.client("reader")
    window = core.border.sessions["reader"].window
    with patch.object(core, "handle", counted):
        reader.subscribe("t/#", 1)
        scene.rest(5.0)
    assert max(given_by) == 10
    assert reader.taken == ALL


def test_a_portion_waits_until_the_one_before_is_sent_l13() -> None:
    scene, _ = filled()
    server = scene.stage.brokers["a"].server
    under_way, at_once = list[str](), list[int]()
    give, gave = server.give, server.gave

    def counted(given: AnyGiven) -> None:
        if isinstance(given, GoOn):
            under_way.append(given.client)
            at_once.append(len(under_way))
        give(given)

    def sent(client: str, more: bool) -> None:
        if client in under_way:
            under_way.remove(client)
        gave(client, more)

    readers = [scene.client(f"reader {number}") for number in range(3)]
    with patch.object(server, "give", counted), patch.object(server, "gave", sent):
        for each in readers:
            each.subscribe("t/#", 0)
        scene.rest(5.0)
    assert set(at_once) == {1}
    assert len(at_once) == 3 * (COUNT // 10 - 1)
    assert [each.taken for each in readers] == [ALL] * 3


def test_what_is_replaced_meanwhile_comes_once_as_it_is_now_rule_40() -> None:
    scene, writer = filled()
    reader = scene.client("reader")
    reader.subscribe("t/#", 1)
    until_under_way(scene)
    with patch("roamcast.broker.mqtt.giving.has_room", return_value=False):
        scene.rest()
        scene.publish(writer, f"t/{COUNT - 1}", b"new", retain=True)
        scene.publish(writer, f"t/{COUNT - 2}", b"", retain=True)
    scene.stage.brokers["a"].server.finished("reader", ())
    scene.rest(5.0)
    assert sorted(reader.taken) == sorted([*ALL[:-2], b"new", b""])
    assert len(reader.taken) == len(set(reader.taken))


def test_a_subscription_that_is_withdrawn_meanwhile_gets_no_more_rule_40() -> None:
    scene, _ = filled()
    reader = scene.client("reader")
    reader.subscribe("t/#", 1)
    until_under_way(scene)
    with patch("roamcast.broker.mqtt.giving.has_room", return_value=False):
        scene.rest()
        scene.unsubscribe(reader, "t/#")
    scene.rest(5.0)
    assert len(reader.taken) < COUNT
    assert not giving(scene).walks
    assert not giving(scene).waiting


def test_what_a_killed_broker_was_giving_comes_once_and_in_order_l8() -> None:
    for delay_s in (0.0, 0.000_01, 0.002, 0.005, 0.01, 0.02):
        scene, _ = filled()
        reader = scene.client("reader")
        reader.subscribe("t/#", 1)
        until_under_way(scene)
        scene.rest(delay_s)
        scene.stage.brokers["a"].kill()
        scene.stage.heal()
        scene.rest()
        scene.move(reader, "a")
        scene.rest(5.0)
        if reader.taken:
            assert list(dict.fromkeys(reader.taken)) == ALL, delay_s


@pytest.mark.parametrize("expiry_s", [0, 1_000])
def test_a_queue_that_is_smaller_than_what_is_retained_loses_nothing_rule_40(expiry_s: int) -> None:
    scene, _ = filled(queue_messages_max=20)
    reader = scene.client("reader", expiry_s=expiry_s)
    reader.subscribe("t/#", 1)
    scene.rest(20.0)
    assert reader.taken == ALL
    assert "delivery_dropped" not in scene.remarks()


def test_a_queue_that_is_full_of_retained_messages_has_room_for_others_rule_56() -> None:
    scene, writer = filled(queue_messages_max=20)
    reader = scene.client("reader")
    answer = reader._on

    def silent(packet: AnyPacket) -> list[AnyPacket]:
        return [] if isinstance(packet, Publish) else answer(packet)

    with patch.object(reader, "_on", silent):
        scene.subscribe(reader, "t/#")
        for number in range(5):
            scene.publish(writer, "t/new", b"new %d" % number)
    scene.stage.brokers["a"].kill()
    scene.stage.heal()
    scene.rest()
    scene.move(reader, "a")
    scene.rest(10.0)
    assert [each for each in reader.taken if each.startswith(b"new")] == [b"new %d" % number for number in range(5)]
    assert [each for each in reader.taken if not each.startswith(b"new")] == ALL


def test_a_client_that_goes_elsewhere_meanwhile_takes_the_rest_along_rule_24() -> None:
    scene, _ = filled("ab")
    reader = scene.client("reader")
    with patch("roamcast.broker.mqtt.giving.has_room", return_value=False):
        scene.subscribe(reader, "t/#")
    assert giving(scene).walks
    scene.move(reader, "b")
    scene.rest(5.0)
    assert reader.taken == ALL
    assert not giving(scene).walks


def test_many_filters_of_one_subscribe_share_a_portion_l13() -> None:
    scene, _ = filled()
    reader = scene.client("reader")
    wishes = tuple(Wish(f"$roam/{number}/t/#", 1) for number in range(4))
    reader._say(Subscribe(9, wishes))
    until_under_way(scene)
    assert len(giving(scene).walks["reader"]) == 4
    scene.rest(10.0)
    assert sorted(each.payload for each in published(reader)) == sorted(ALL * 4)


def test_filters_that_match_nothing_share_a_portion_too_l13() -> None:
    scene, writer = filled()
    for topic in [f"{first}/{number}/{last}" for number in range(COUNT) for first, last in ("ax", "by")]:
        writer.publish(topic, b"1", 1, True)
    scene.rest(5.0)
    reader, compared = scene.client("reader"), [0]
    core = scene.stage.brokers["a"].server.core
    handle = core.handle

    def counted(now_us: int, given: AnyGiven) -> list[AnyEffect]:
        compared.append(0)
        return handle(now_us, given)

    def counting(pattern: str, topic: str) -> bool:
        compared[-1] += 1
        return matches(pattern, topic)

    wishes = tuple(Wish(f"$roam/{number}/a/+/y", 1) for number in range(40))
    with patch.object(core, "handle", counted), patch("roamcast.mqtt.topics.matches", counting):
        reader._say(Subscribe(9, wishes))
        scene.rest(10.0)
    assert max(compared) == 10
    assert sum(compared) == 40 * COUNT
    assert not giving(scene).walks


def test_a_mistake_with_one_client_leaves_others_their_turn_l13() -> None:
    scene, _ = filled()
    one, other = scene.client("one"), scene.client("other")
    with patch("roamcast.broker.mqtt.giving.has_room", return_value=False):
        one.subscribe("t/#", 1)
        scene.rest()
    walks = giving(scene).walks["one"]
    walks["gone"] = walks.pop("t/#")
    with patch.object(scene.stage.brokers["a"].monitor, "remark") as remark:
        scene.stage.brokers["a"].server.finished("one", ())
        scene.rest(5.0)
    assert [each.args[0] for each in remark.call_args_list] == ["internal_error"]
    scene.subscribe(other, "t/#")
    scene.rest(5.0)
    assert other.taken == ALL
