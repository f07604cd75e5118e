"""docs/PROTOCOL.md, section 16: advertisements, and brokers that subscribe ahead (R1, R7, L3)."""

import pytest

from roamcast.broker.logical.params import AheadParams
from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.mqtt.stored import BadState
from roamcast.broker.params import BrokerParams
from roamcast.mqtt.packets import PubAck, Publish, Will
from roamcast.mqtt.reasons import Reason
from tests.broker.mqtt.scene import Scene, last
from tests.broker.mqtt.stage import SimClient

ADVERTISING = BrokerParams(advertisements=True)
NEXT: dict[str, tuple[str, ...]] = {"a": ("d",), "d": ("a",)}
AHEAD = BrokerParams(ahead=AheadParams(next_brokers=NEXT))


def apart(
    will: Will | None = None, params: CoreParams | None = None, expiry_s: int | None = None
) -> tuple[Scene, SimClient, SimClient]:
    """A writer at a and a reader at c, and nobody at a knows of the reader: a link between them is down. With a will,
    the writer's session ends with its connection, if nothing else is said."""
    scene = Scene("abc", params, broker_params=ADVERTISING)
    lasts_s = (0 if will else 1_000) if expiry_s is None else expiry_s
    reader, writer = scene.client("reader", "c"), SimClient(scene.stage, "writer", lasts_s)
    writer.connect("a", will=will)
    scene.subscribe(reader, "t/#", qos=2)
    scene.stage.unlink("b", "c")
    scene.rest()
    return scene, writer, reader


def healed(scene: Scene) -> None:
    scene.stage.heal()
    scene.rest(3.0)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_rule_76_rule_77_the_first_message_to_a_topic_reaches_who_wants_it_at_other_brokers(qos: int) -> None:
    scene = Scene("abc", broker_params=ADVERTISING)
    writer, reader = scene.client("writer", "a"), scene.client("reader", "c")
    scene.subscribe(reader, "t/+", qos=2)
    for number in range(3):
        writer.publish("t/x", b"%d" % number, qos)
    scene.rest()
    assert reader.taken == [b"0", b"1", b"2"]


def test_r1_rule_76_wishes_go_only_to_where_something_is_published() -> None:
    scene = Scene("abc", broker_params=ADVERTISING)
    reader, writer = scene.client("reader", "b"), scene.client("writer", "a")
    scene.subscribe(reader, "t/#")
    routes = {name: scene.stage.brokers[name].server.core.broker.routes() for name in "ac"}
    assert [each.wants for name in "ac" for each in routes[name].neighbours] == [(), ()]
    scene.publish(writer, "t/x", b"1", qos=0)
    routes = {name: scene.stage.brokers[name].server.core.broker.routes() for name in "ac"}
    assert [len(each.wants) for name in "ac" for each in routes[name].neighbours] == [1, 0]
    assert reader.taken == [b"1"]


def test_rule_76_a_message_is_acknowledged_when_it_goes_out_and_not_before() -> None:
    scene, writer, reader = apart()
    writer.publish("t/x", b"1", 1)
    scene.rest(2.0)
    assert not [each for each in writer.heard if isinstance(each, PubAck)]
    healed(scene)
    assert last(writer, PubAck).reason is Reason.SUCCESS
    assert reader.taken == [b"1"]


def test_rule_76_what_waits_is_there_after_its_broker_was_killed() -> None:
    scene, writer, reader = apart()
    writer.publish("t/x", b"1", 2)
    scene.rest()
    scene.stage.brokers["a"].kill()
    scene.rest()
    scene.stage.brokers["a"].start()
    writer.connect("a")
    scene.rest()
    healed(scene)
    assert writer.settled
    assert reader.taken == [b"1"]


def test_rule_76_a_message_of_qos_2_that_is_said_again_while_it_waits_is_not_acknowledged_early() -> None:
    scene, writer, reader = apart()
    writer.publish("t/x", b"1", 2)
    scene.rest()
    writer.connect("a")
    scene.rest(2.0)
    assert [type(each) for each in writer.in_flight.values()] == [Publish]
    scene.move(writer, "b")
    healed(scene)
    assert writer.settled
    assert reader.taken == [b"1"]


def test_rule_76_a_message_of_qos_1_that_is_said_again_while_it_waits_is_acknowledged_once() -> None:
    scene, writer, reader = apart()
    writer.publish("t/x", b"1", 1)
    scene.rest()
    writer.connect("a")
    scene.rest()
    healed(scene)
    assert len([each for each in writer.heard if isinstance(each, PubAck)]) == 1
    assert reader.taken == [b"1"]


def test_rule_76_a_topic_that_nobody_publishes_to_is_withdrawn_and_advertised_again_when_somebody_does() -> None:
    scene = Scene("ab", CoreParams(advertised_idle_s=10), broker_params=ADVERTISING)
    writer, reader = scene.client("writer", "a"), scene.client("reader", "b")
    scene.subscribe(reader, "t")
    scene.publish(writer, "t", b"1", qos=0)
    scene.rest(6.0)
    scene.publish(writer, "t", b"2", qos=0)
    scene.rest(8.0)
    advertising = scene.stage.brokers["b"].server.core.broker.border.advertising
    assert advertising is not None
    assert list(advertising.heard) == ["t"]
    scene.rest(10.0)
    assert list(advertising.heard) == []
    scene.publish(writer, "t", b"3", qos=0)
    assert reader.taken == [b"1", b"2", b"3"]


def test_rule_76_topics_that_are_advertised_are_bounded() -> None:
    scene = Scene("ab", CoreParams(advertised_topics_max=2), broker_params=ADVERTISING)
    writer, reader = scene.client("writer", "a"), scene.client("reader", "b")
    scene.subscribe(reader, "t/#")
    for number in range(5):
        scene.publish(writer, f"t/{number}", b"%d" % number, qos=number % 2)
    assert list(scene.stage.brokers["a"].server.core.border.announcing.topics) == ["t/3", "t/4"]
    assert reader.taken == [b"0", b"1", b"2", b"3", b"4"]


def test_rule_76_a_topic_for_which_there_is_no_room_goes_to_where_it_is_wanted_already_and_is_counted() -> None:
    scene = Scene("ab", broker_params=BrokerParams(advertisements=True, wishes_max=1))
    writer, reader = scene.client("writer", "a"), scene.client("reader", "a")
    scene.subscribe(reader, "t")
    scene.publish(writer, "t", b"1")
    assert reader.taken == [b"1"]
    assert scene.remarks("a").count("advertisement_refused") == 1


def test_rule_76_a_topic_for_which_messages_wait_is_not_withdrawn_however_long_nobody_publishes_to_it() -> None:
    scene, writer, reader = apart(params=CoreParams(advertised_idle_s=5))
    writer.publish("t/x", b"1", 1)
    scene.rest(20.0)
    assert not [each for each in writer.heard if isinstance(each, PubAck)]
    healed(scene)
    assert reader.taken == [b"1"]
    scene.rest(10.0)
    assert scene.stage.brokers["a"].server.core.border.announcing.topics == {}


def test_rule_76_topics_for_which_messages_wait_are_withdrawn_for_the_bound_when_they_have_gone_out() -> None:
    scene, writer, reader = apart(params=CoreParams(advertised_topics_max=2))
    for number in range(4):
        writer.publish(f"t/{number}", b"%d" % number, 1)
    scene.rest(2.0)
    healed(scene)
    assert reader.taken == [b"0", b"1", b"2", b"3"]
    assert list(scene.stage.brokers["a"].server.core.border.announcing.topics) == ["t/2", "t/3"]


def test_rule_77_qos_0_reaches_clients_of_the_same_broker_at_once_and_others_when_they_are_known() -> None:
    scene, writer, reader = apart()
    scene.subscribe(writer, "t/#", qos=0)
    for number in range(3):
        scene.publish(writer, "t/x", b"%d" % number, qos=0)
    assert writer.taken == [b"0", b"1", b"2"]
    assert reader.taken == []
    healed(scene)
    assert reader.taken == [b"0", b"1", b"2"]


def test_rule_77_qos_0_of_a_client_that_has_gone_is_kept_too() -> None:
    scene, writer, reader = apart(Will("elsewhere", b"", 0))
    scene.publish(writer, "t/x", b"1", qos=0)
    writer.drop()
    scene.rest()
    assert "writer" not in scene.stage.brokers["a"].server.core.border.sessions
    healed(scene)
    assert reader.taken == [b"1"]


def test_rule_77_how_much_of_qos_0_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roamcast.broker.mqtt.announcing.PASSING_MAX", 2)
    scene, writer, reader = apart()
    for number in range(5):
        scene.publish(writer, "t/x", b"%d" % number, qos=0)
    healed(scene)
    assert reader.taken == [b"0", b"1"]
    assert scene.remarks("a").count("passing_dropped") == 3


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_rule_78_the_will_of_a_session_that_ends_goes_out_when_its_topic_is_known(qos: int) -> None:
    scene, writer, reader = apart(Will("t/will", b"bye", qos))
    writer.drop()
    scene.rest()
    assert "writer" not in scene.stage.brokers["a"].server.core.border.sessions
    healed(scene)
    assert reader.taken == [b"bye"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_rule_78_a_will_that_waits_goes_out_also_if_its_client_has_gone_to_another_broker(qos: int) -> None:
    scene, writer, reader = apart(Will("t/will", b"bye", qos, retain=True), expiry_s=1_000)
    writer.publish("t/x", b"said again", 2)
    scene.rest()
    writer.drop()
    scene.rest()
    scene.move(writer, "b")
    assert [each.session_present for each in writer.connacks] == [False, True]
    healed(scene)
    assert sorted(reader.taken) == [b"bye", b"said again"]


def test_rule_78_a_will_that_waits_outlives_its_broker() -> None:
    scene, writer, reader = apart(Will("t/will", b"bye", 1))
    writer.drop()
    scene.rest()
    scene.stage.brokers["a"].kill()
    scene.rest()
    healed(scene)
    assert reader.taken == [b"bye"]


def until_ready(params: BrokerParams) -> tuple[int, SimClient]:
    """How long a client that roams from a to d waits for CONNACK, in microseconds, and the client."""
    scene = Scene("abcd", broker_params=params, seed=5)
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    scene.subscribe(reader, "t", qos=2, filter="level > 3")
    scene.publish(writer, "t", {"level": 4})
    reader.drop()
    scene.rest()
    scene.publish(writer, "t", {"level": 5})
    scene.publish(writer, "t", {"level": 1})
    began_us = scene.stage.loop.now_us
    reader.connect("d")
    while not reader.ready:
        scene.rest(0.001)
    took_us = scene.stage.loop.now_us - began_us
    scene.publish(writer, "t", {"level": 6})
    assert [each.session_present for each in reader.connacks] == [False, True]
    assert reader.taken == [b'{"level": 4}', b'{"level": 5}', b'{"level": 6}']
    return took_us, reader


def test_r7_rule_79_a_client_that_was_expected_is_let_in_without_asking_where_its_session_is() -> None:
    foretold_us, _ = until_ready(AHEAD)
    asked_us, _ = until_ready(BrokerParams())
    assert foretold_us < 0.75 * asked_us


def test_rule_79_an_expected_client_that_came_elsewhere_is_not_expected_any_more() -> None:
    scene = Scene("abcd", broker_params=AHEAD)
    reader = scene.client("reader", "a")
    scene.subscribe(reader, "t")
    ahead = scene.stage.brokers["d"].server.core.broker.handover
    assert ahead.foretold("reader") is not None
    scene.move(reader, "b")
    assert ahead.foretold("reader") is None
    assert ahead.left()["shadows' wishes"] == 0


def test_rule_79_an_expected_client_of_another_user_is_refused() -> None:
    scene = Scene("abcd", broker_params=AHEAD)
    reader = scene.client("reader", "a")
    scene.subscribe(reader, "t")
    scene.stage.brokers["a"].server.core.border.sessions["reader"].user = "ann"
    scene.subscribe(reader, "u")
    reader.connect("d")
    scene.rest(2.0)
    assert reader.connacks[-1].reason is Reason.CLIENT_IDENTIFIER_NOT_VALID


def test_rule_79_what_changed_since_a_client_was_foretold_holds() -> None:
    scene = Scene("abcd", broker_params=AHEAD)
    reader, writer = scene.client("reader", "a"), scene.client("writer", "b")
    scene.subscribe(reader, "t", qos=2)
    scene.report(reader, position=[5, 6])
    reader.drop()
    scene.move(reader, "d")
    assert scene.stage.brokers["d"].server.core.border.context_of("reader").position is not None
    scene.unsubscribe(reader, "t")
    scene.subscribe(reader, "u", qos=1)
    scene.move(reader, "a")
    scene.publish(writer, "t", b"old")
    scene.publish(writer, "u", b"new")
    assert reader.taken == [b"new"]


def test_rule_79_while_the_way_to_its_broker_is_cut_an_expected_client_is_not_let_in() -> None:
    scene = Scene("abcd", CoreParams(reminder_wait_s=3), broker_params=AHEAD)
    reader, writer = scene.client("reader", "a"), scene.client("writer", "a")
    scene.subscribe(reader, "t")
    reader.drop()
    scene.stage.unlink("c", "d")
    scene.rest()
    scene.publish(writer, "t", b"1")
    reader.connect("d")
    scene.rest(5.0)
    assert not reader.ready
    scene.stage.heal()
    scene.rest()
    scene.move(reader, "d")
    assert reader.connacks[-1].session_present
    assert reader.taken == [b"1"]


def test_rule_71_other_next_brokers_hold_from_the_next_start_and_none_at_all_is_another_kind() -> None:
    core = Core("a", 1, AHEAD)
    other = BrokerParams(ahead=AheadParams(next_brokers={"a": ("c",)}))
    assert core.adopt(other, CoreParams(), None)
    assert core.broker.params.ahead.next_brokers == {"a": ("c",)}
    with pytest.raises(BadState, match=r"protocol\.ahead\.next_brokers"):
        core.adopt(BrokerParams(), CoreParams(), None)


def test_rule_77_what_waited_is_not_overtaken_by_what_is_published_when_it_goes_out() -> None:
    scene, writer, reader = apart()
    scene.publish(writer, "t/x", b"0", qos=0)
    scene.stage.heal()
    for number in range(1, 400):
        writer.publish("t/x", b"%d" % number, 0)
        scene.rest(0.0005)
    scene.rest(2.0)
    assert [int(each) for each in reader.taken] == list(range(400))


@pytest.mark.parametrize("subscribes", [True, False])
def test_rule_79_a_session_that_ends_with_its_connection_is_not_fetched_also_where_it_was_expected(
    subscribes: bool,
) -> None:
    scene = Scene("abcd", broker_params=AHEAD)
    client = scene.client("c", "a", expiry_s=0)
    if subscribes:
        scene.subscribe(client, "t")
    client.drop(noticed=False)
    scene.rest()
    assert scene.stage.brokers["d"].server.core.broker.handover.foretold("c") is not None
    client.connect("d")
    scene.rest(2.0)
    assert [each.session_present for each in client.connacks] == [False, False]
