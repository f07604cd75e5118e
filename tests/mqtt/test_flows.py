"""L2, L8: the three qualities of service in both directions, flow control, aliases, what is refused."""

import pytest

from roamcast.mqtt import Limits, Message, Reason, SessionLimits
from roamcast.mqtt.batches import batch_of
from roamcast.mqtt.events import Acknowledged, Dropped, Published
from roamcast.mqtt.packets import (
    V311,
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
    Wish,
)
from tests.mqtt.stage import Peer, Stage

KEPT = Connect("c", clean_start=False, session_expiry_s=1_000)


def subscriber(stage: Stage, qos: int = 2, connect: Connect = KEPT, pattern: str = "t/#") -> Peer:
    peer = stage.client(connect)
    assert isinstance(peer.ask(Subscribe(9, (Wish(pattern, qos),))), SubAck)
    return peer


def push(stage: Stage, count: int = 1, qos: int = 2, first: int = 0, **fields: object) -> None:
    for number in range(first, first + count):
        message = Message("t/1", b"%d" % number, qos, **fields)  # type: ignore[arg-type]
        stage.broker.publish(stage.now_us, "publisher", message)


def ending(peer: Peer) -> Reason:
    heard = peer.hear()
    assert isinstance(heard[-1], Disconnect), heard
    assert peer.cut_off
    return heard[-1].reason


# From the client.


def test_nothing_is_acknowledged_before_the_broker_says_so() -> None:
    stage = Stage()
    stage.broker.holds_commits = True
    peer = stage.client("c")
    peer.say(Publish("t", b"1", 1, packet_id=1), Publish("t", b"2", 2, packet_id=2))
    assert peer.hear() == []
    stage.commit()
    none = Reason.NO_MATCHING_SUBSCRIBERS
    assert peer.hear() == [PubAck(1, none), PubRec(2, none)]
    peer.say(PubRel(2))
    assert peer.hear() == []
    stage.commit()
    assert peer.hear() == [PubComp(2)]


def test_acknowledgements_leave_in_the_order_of_the_messages() -> None:
    stage = Stage()
    stage.broker.holds_commits = True
    peer = stage.client("c")
    for qos in (1, 2):
        peer.say(*(Publish("t", b"", qos, packet_id=qos * 10 + number) for number in range(3)))
    for packet_id in (12, 22, 11, 21):
        peer.connection.acknowledge(stage.now_us, packet_id)
    assert peer.hear() == []
    peer.connection.acknowledge(stage.now_us, 10)
    assert peer.hear() == [PubAck(10), PubAck(11), PubAck(12)]
    peer.connection.acknowledge(stage.now_us, 20)
    assert peer.hear() == [PubRec(20), PubRec(21), PubRec(22)]


def test_a_qos_2_message_sent_again_is_told_once() -> None:
    stage = Stage()
    peer = stage.client(KEPT)
    reader = subscriber(stage, 2, Connect("reader"), "t")
    peer.say(Publish("t", b"x", 2, packet_id=5))
    peer.vanish()
    again = stage.client(KEPT)
    again.say(Publish("t", b"x", 2, dup=True, packet_id=5))
    assert again.hear() == [PubRec(5)]
    again.say(PubRel(5))
    assert again.hear() == [PubComp(5)]
    again.say(Publish("t", b"y", 2, packet_id=5))
    assert [each.payload for each in reader.hear() if isinstance(each, Publish)] == [b"x", b"y"]


def test_a_commit_that_comes_after_the_reconnect_is_answered_on_the_new_connection() -> None:
    stage = Stage()
    stage.broker.holds_commits = True
    peer = stage.client(KEPT)
    peer.say(Publish("t", b"x", 2, packet_id=5))
    peer.vanish()
    again = stage.client(KEPT)
    again.say(Publish("t", b"x", 2, dup=True, packet_id=5))
    assert again.hear() == []
    stage.commit()
    assert again.hear() == [PubRec(5, Reason.NO_MATCHING_SUBSCRIBERS)]
    again.say(PubRel(5))
    assert again.hear() == []
    stage.commit()
    assert again.hear() == [PubComp(5)]


def test_pubrel_for_nothing_is_answered_so() -> None:
    assert Stage().client("c").ask(PubRel(7)) == PubComp(7, Reason.PACKET_IDENTIFIER_NOT_FOUND)


def test_a_refused_message_frees_its_identifier() -> None:
    stage = Stage()
    stage.broker.forbidden = ("secret",)
    peer = stage.client("c")
    assert peer.ask(Publish("secret/1", b"", 2, packet_id=1)) == PubRec(1, Reason.NOT_AUTHORIZED)
    assert peer.ask(Publish("secret/1", b"", 1, packet_id=1)) == PubAck(1, Reason.NOT_AUTHORIZED)
    assert peer.ask(PubRel(1)) == PubComp(1, Reason.PACKET_IDENTIFIER_NOT_FOUND)


def test_in_311_what_is_not_authorized_is_acknowledged_and_other_failures_close() -> None:
    stage = Stage()
    stage.broker.forbidden = ("secret",)
    peer = stage.client(Connect("c", V311))
    assert peer.ask(Publish("secret/1", b"", 2, packet_id=1)) == PubRec(1)
    assert peer.ask(PubRel(1)) == PubComp(1)
    stage.broker.holds_commits = True
    peer.say(Publish("t", b"", 1, packet_id=2))
    peer.connection.acknowledge(stage.now_us, 2, Reason.QUOTA_EXCEEDED)
    assert peer.cut_off
    assert peer.hear() == []


def test_more_than_the_receive_maximum_ends_the_connection() -> None:
    stage = Stage(Limits(receive_max=2))
    stage.broker.holds_commits = True
    peer = stage.client("c")
    peer.say(Publish("t", b"", 1, packet_id=1), Publish("t", b"", 2, packet_id=2), Publish("t", b""))
    assert not peer.cut_off
    peer.say(Publish("t", b"", 1, packet_id=3))
    assert ending(peer) is Reason.RECEIVE_MAXIMUM_EXCEEDED


def test_a_release_before_the_broker_has_received_is_a_protocol_error() -> None:
    stage = Stage()
    stage.broker.holds_commits = True
    peer = stage.client("c")
    peer.say(Publish("t", b"", 2, packet_id=1), PubRel(1))
    assert ending(peer) is Reason.PROTOCOL_ERROR


def test_a_qos_2_message_counts_until_it_is_complete() -> None:
    stage = Stage(Limits(receive_max=1))
    peer = stage.client("c")
    for _ in range(3):
        peer.say(Publish("t", b"", 2, packet_id=1))
        peer.say(PubRel(1))
    assert not peer.cut_off
    peer.say(Publish("t", b"", 2, packet_id=1), Publish("t", b"", 2, packet_id=2))
    assert ending(peer) is Reason.RECEIVE_MAXIMUM_EXCEEDED


def test_a_311_client_is_slowed_down_instead() -> None:
    stage = Stage(Limits(receive_max=2))
    stage.broker.holds_commits = True
    peer = stage.client(Connect("c", V311))
    peer.say(*(Publish("t", b"", 1, packet_id=number) for number in range(1, 6)))
    assert not peer.connection.wants_bytes
    assert sum(isinstance(event, Published) for event in stage.broker.log) == 2
    for _ in range(5):
        stage.commit()
    assert peer.hear() == [PubAck(number) for number in range(1, 6)]
    assert peer.connection.wants_bytes


def test_an_identifier_in_use_is_a_protocol_error() -> None:
    stage = Stage()
    stage.broker.holds_commits = True
    for packet in (Publish("t", b"2", 1, packet_id=1), Publish("t", b"2", 2, packet_id=1)):
        peer = stage.client("c")
        peer.say(Publish("t", b"1", 1, packet_id=1))
        peer.say(packet)
        assert ending(peer) is Reason.PROTOCOL_ERROR


def test_a_client_that_forgot_a_qos_2_message_is_told() -> None:
    stage = Stage()
    stage.client(KEPT).say(Publish("t", b"", 2, packet_id=1))
    again = stage.client(KEPT)
    assert again.ask(Publish("t", b"", 1, packet_id=1)) == PubAck(1, Reason.PACKET_IDENTIFIER_IN_USE)


def test_topic_aliases_of_the_client() -> None:
    stage = Stage(Limits(topic_alias_max=2))
    peer = stage.client("c")
    peer.say(Publish("a", b"", topic_alias=1), Publish("b", b"", topic_alias=2), Publish("", b"", topic_alias=1))
    peer.say(Publish("c", b"", topic_alias=1), Publish("", b"", topic_alias=1))
    topics = [event.message.topic for event in stage.broker.log if isinstance(event, Published)]
    assert topics == ["a", "b", "a", "c", "c"]


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (Publish("a", b"", topic_alias=3), Reason.TOPIC_ALIAS_INVALID),
        (Publish("", b"", topic_alias=2), Reason.PROTOCOL_ERROR),
        (Publish("a", b"", subscription_ids=(1,)), Reason.PROTOCOL_ERROR),
        (Publish("a", b"", 2, packet_id=1), Reason.QOS_NOT_SUPPORTED),
        (Publish("a", b"", 0, True), Reason.RETAIN_NOT_SUPPORTED),
        (SubAck(1, (Reason.SUCCESS,)), Reason.PROTOCOL_ERROR),
        (ConnAck(), Reason.PROTOCOL_ERROR),
        (PingResp(), Reason.PROTOCOL_ERROR),
    ],
)
def test_what_a_client_may_not_say(packet: Publish, reason: Reason) -> None:
    peer = Stage(Limits(topic_alias_max=2, qos_max=1, retain_available=False)).client("c")
    peer.say(packet)
    assert ending(peer) is reason


# To the client.


def test_the_receive_maximum_of_the_client_is_kept() -> None:
    stage = Stage()
    peer = subscriber(stage, 1, Connect("c", receive_max=2))
    push(stage, 4, qos=1)
    heard = peer.hear()
    assert [each.payload for each in heard if isinstance(each, Publish)] == [b"0", b"1"]
    peer.say(PubAck(heard[0].packet_id))  # type: ignore[union-attr]
    assert [each.payload for each in peer.hear() if isinstance(each, Publish)] == [b"2"]


def test_a_qos_2_delivery_takes_room_until_pubcomp_and_pubrel_waits_for_the_commit() -> None:
    stage = Stage()
    peer = subscriber(stage, 2, Connect("c", receive_max=1))
    stage.broker.holds_commits = True
    push(stage, 2)
    (first,) = peer.hear()
    assert isinstance(first, Publish)
    peer.say(PubRec(first.packet_id))
    assert peer.hear() == []
    stage.commit()
    assert peer.hear() == [PubRel(first.packet_id)]
    peer.say(PubComp(first.packet_id))
    (second,) = peer.hear()
    assert isinstance(second, Publish)
    assert second.payload == b"1"


def test_a_delivery_that_the_client_refuses_is_finished() -> None:
    stage = Stage()
    peer = subscriber(stage, 2, Connect("c", receive_max=1))
    push(stage, 2)
    (first,) = peer.hear()
    assert isinstance(first, Publish)
    peer.say(PubRec(first.packet_id, Reason.QUOTA_EXCEEDED))
    assert Acknowledged((1,)) in stage.broker.log
    assert [type(each) for each in peer.hear()] == [Publish]


def test_after_a_reconnect_what_was_sent_comes_again_in_order_with_dup_before_what_waits() -> None:
    stage = Stage()
    peer = subscriber(stage)
    push(stage, 3)
    sent = [each for each in peer.hear() if isinstance(each, Publish)]
    peer.say(PubRec(sent[1].packet_id))
    peer.vanish()
    push(stage, 2, first=3)
    again = stage.client(KEPT)
    heard = again.hear()
    assert heard[0] == PubRel(sent[1].packet_id)
    told = [(each.payload, each.dup, each.packet_id) for each in heard[1:] if isinstance(each, Publish)]
    assert told[:2] == [(b"0", True, sent[0].packet_id), (b"2", True, sent[2].packet_id)]
    assert [each[:2] for each in told[2:]] == [(b"3", False), (b"4", False)]


def test_l2_what_is_still_to_be_completed_from_an_earlier_connection_counts_for_the_receive_maximum() -> None:
    """mosquitto_sub ends for good when it gets more than it allows."""
    stage = Stage()
    peer = subscriber(stage)
    push(stage, 3)
    sent = [each for each in peer.hear() if isinstance(each, Publish)]
    for each in sent[:2]:
        peer.say(PubRec(each.packet_id))
    peer.vanish()
    push(stage, 2, first=3)
    again = stage.client(Connect("c", clean_start=False, session_expiry_s=1_000, receive_max=2))
    assert again.hear() == [PubRel(each.packet_id) for each in sent[:2]]
    for each in sent[:2]:
        again.say(PubComp(each.packet_id))
    assert [each.payload for each in again.hear() if isinstance(each, Publish)] == [b"2", b"3"]


def test_sending_again_keeps_to_the_new_receive_maximum() -> None:
    stage = Stage()
    peer = subscriber(stage, 1)
    push(stage, 3, qos=1)
    peer.vanish()
    again = stage.client(Connect("c", clean_start=False, session_expiry_s=1_000, receive_max=1))
    heard: list[bytes] = []
    for _ in range(3):
        (packet,) = again.hear()
        assert isinstance(packet, Publish)
        heard.append(packet.payload)
        again.say(PubAck(packet.packet_id))
    assert heard == [b"0", b"1", b"2"]


def test_late_and_unknown_acknowledgements() -> None:
    peer = Stage().client("c")
    peer.say(PubAck(1), PubComp(1))
    assert peer.hear() == []
    assert peer.ask(PubRec(1)) == PubRel(1, Reason.PACKET_IDENTIFIER_NOT_FOUND)


@pytest.mark.parametrize(("qos", "wrong"), [(1, PubRec), (2, PubAck)])
def test_the_wrong_acknowledgement_is_a_protocol_error(qos: int, wrong: type[PubRec] | type[PubAck]) -> None:
    stage = Stage()
    peer = subscriber(stage)
    push(stage, 1, qos)
    (packet,) = peer.hear()
    assert isinstance(packet, Publish)
    peer.say(wrong(packet.packet_id))
    assert ending(peer) is Reason.PROTOCOL_ERROR


def test_a_message_that_expires_while_it_waits_is_not_sent() -> None:
    stage = Stage()
    subscriber(stage).vanish()
    push(stage, 1, expires_us=stage.now_us + 10_000_000)
    push(stage, 1, first=1, expires_us=stage.now_us + 20_500_000)
    stage.wait(10)
    again = stage.client(KEPT)
    (packet,) = again.hear()
    assert isinstance(packet, Publish)
    assert (packet.payload, packet.message_expiry_s) == (b"1", 11)
    assert Dropped(1, "expired") in stage.broker.log


def test_a_message_whose_sending_has_begun_is_finished_past_its_time() -> None:
    stage = Stage()
    peer = subscriber(stage)
    push(stage, 1, expires_us=stage.now_us + 1_000_000)
    peer.hear()
    peer.vanish()
    stage.wait(5)
    (packet,) = stage.client(KEPT).hear()
    assert isinstance(packet, Publish)
    assert packet.message_expiry_s == 1


def test_a_message_larger_than_the_client_takes_is_passed_over() -> None:
    stage = Stage()
    peer = subscriber(stage, 2, Connect("c", packet_bytes_max=50))
    stage.broker.publish(stage.now_us, "p", Message("t/1", bytes(60), 2))
    stage.broker.publish(stage.now_us, "p", Message("t/1", bytes(60), 0))
    push(stage)
    assert [each.payload for each in peer.hear() if isinstance(each, Publish)] == [b"0"]
    stage.broker.settle(stage.now_us, peer.connection)
    assert [event for event in stage.broker.log if isinstance(event, Dropped)] == [
        Dropped(1, "too_large"),
        Dropped(0, "too_large"),
    ]


def test_aliases_towards_the_client() -> None:
    stage = Stage()
    peer = subscriber(stage, 0, Connect("c", topic_alias_max=2), "#")
    for topic in ("long/a", "long/b", "long/a", "long/c", "long/b", "s"):
        stage.broker.publish(stage.now_us, "p", Message(topic, b""))
    heard = [(each.topic, each.topic_alias) for each in peer.hear() if isinstance(each, Publish)]
    # The one that was not used for longest gives its number away.
    assert heard == [("long/a", 1), ("long/b", 2), ("", 1), ("long/c", 2), ("long/b", 1), ("s", None)]


def test_a_full_queue_takes_no_more() -> None:
    stage = Stage(session_limits=SessionLimits(queue_messages_max=3))
    peer = subscriber(stage, 1, Connect("c", receive_max=1))
    push(stage, 6, qos=1)
    heard = 0
    while peer.hear():
        heard += 1
        peer.say(PubAck(heard))
    assert heard == 3


def test_a_client_that_does_not_read_gets_what_fits_and_no_more() -> None:
    stage = Stage(Limits(plain_queue_max=2))
    peer = subscriber(stage)
    peer.connection.pause_writing()
    push(stage, 3, qos=0)
    push(stage, 1, qos=1, first=3)
    assert peer.hear() == []
    peer.connection.resume_writing(stage.now_us)
    assert [each.payload for each in peer.hear() if isinstance(each, Publish)] == [b"0", b"1", b"3"]


def test_l7_what_waits_for_a_client_that_does_not_read_is_bounded_in_bytes_too() -> None:
    stage = Stage(Limits(plain_queue_bytes_max=500))
    peer = subscriber(stage)
    peer.connection.pause_writing()
    push(stage, 30, qos=0)
    peer.connection.resume_writing(stage.now_us)
    heard = [each for each in peer.hear() if isinstance(each, Publish)]
    assert 0 < len(heard) < 30
    push(stage, 1, qos=0)
    assert [each.payload for each in peer.hear() if isinstance(each, Publish)] == [b"0"]


def test_a_client_that_sends_and_does_not_read_is_cut_off() -> None:
    stage = Stage(Limits(output_bytes_max=100))
    peer = stage.client("c")
    peer.connection.pause_writing()
    peer.say(*[PingReq()] * 60)
    assert ending(peer) is Reason.QUOTA_EXCEEDED


# Subscribing.


def test_each_line_of_a_subscribe_has_its_reason() -> None:
    stage = Stage()
    stage.broker.forbidden = ("secret",)
    lines = (Wish("a", 2), Wish("$share/g", 1), Wish("secret/x", 1), Wish("$roam/near/a", 1))
    assert stage.client("c").ask(Subscribe(1, lines)) == SubAck(
        1, (Reason.GRANTED_QOS_2, Reason.TOPIC_FILTER_INVALID, Reason.NOT_AUTHORIZED, Reason.GRANTED_QOS_1)
    )
    old = stage.client(Connect("d", V311))
    assert old.ask(Subscribe(1, lines)) == SubAck(
        1, (Reason.GRANTED_QOS_2, Reason.UNSPECIFIED_ERROR, Reason.UNSPECIFIED_ERROR, Reason.GRANTED_QOS_1)
    )


def test_a_subscribe_of_only_bad_lines_is_answered_without_the_broker() -> None:
    peer = Stage().client("c")
    for _ in range(3):
        assert peer.ask(Subscribe(1, (Wish("$share/g"),))) == SubAck(1, (Reason.TOPIC_FILTER_INVALID,))


def test_very_many_bad_subscribes_in_one_piece_are_answered() -> None:
    peer = Stage().client("c")
    peer.say(*[Subscribe(1, (Wish("$share/g"),))] * 3_000)
    assert len(peer.hear()) == 3_000


def test_unsubscribing_says_what_there_was() -> None:
    stage = Stage()
    peer = subscriber(stage, pattern="a")
    assert peer.ask(Unsubscribe(2, ("a", "b"))) == UnsubAck(2, (Reason.SUCCESS, Reason.NO_SUBSCRIPTION_EXISTED))
    assert len(stage.broker.tree) == 0


def test_a_session_holds_so_many_subscriptions() -> None:
    peer = Stage(session_limits=SessionLimits(subscriptions_max=1)).client("c")
    peer.ask(Subscribe(1, (Wish("a"),)))
    assert peer.ask(Subscribe(2, (Wish("a", 1), Wish("b")))) == SubAck(
        2, (Reason.GRANTED_QOS_1, Reason.QUOTA_EXCEEDED)
    )


def test_reading_stops_while_too_many_requests_wait() -> None:
    stage = Stage(Limits(requests_max=2))
    peer = stage.client(Connect("c", keep_alive_s=10))
    data = b"".join(bytes([0xA2, 6, 0, number, 0, 0, 1, 97]) for number in range(1, 4)) + b"\xc0\x00"
    peer.connection.receive(stage.now_us, data)
    assert not peer.connection.wants_bytes
    assert peer.connection.deadline_us() is None
    stage.now_us += 100_000_000
    stage.broker.settle(stage.now_us, peer.connection)
    # The first answer lets reading go on, so that the ping is answered before the requests that were read with it.
    heard = [type(each) for each in peer.hear()]
    assert (heard.count(UnsubAck), heard.count(PingResp)) == (3, 1)
    stage.wait(1)
    assert not peer.cut_off


def test_retained_messages_and_their_three_handlings() -> None:
    stage = Stage()
    stage.client("p").say(Publish("t/1", b"kept", retain=True), Publish("t/2", b"kept", retain=True))
    stage.client("q").say(Publish("t/2", b"", retain=True))
    peer = stage.client("c")
    for handling, expected in ((2, []), (1, []), (0, [b"kept"])):
        peer.say(Subscribe(1, (Wish("t/#", retain_handling=handling),)))
        heard = peer.hear()
        assert [each.payload for each in heard if isinstance(each, Publish) and each.retain] == expected
    fresh = stage.client("d")
    fresh.say(Subscribe(1, (Wish("t/#", retain_handling=1),)))
    assert [type(each) for each in fresh.hear()] == [SubAck, Publish]


def test_no_local_retain_as_published_and_subscription_identifiers() -> None:
    stage = Stage()
    peer = stage.client("c")
    peer.ask(Subscribe(1, (Wish("a/#", no_local=True),), subscription_id=7))
    peer.ask(Subscribe(2, (Wish("a/+", retain_as_published=True),), subscription_id=300))
    other = stage.client("d")
    other.say(Publish("a/b", b"", retain=True))
    peer.say(Publish("a/b", b""))
    heard = [(each.subscription_ids, each.retain) for each in peer.hear() if isinstance(each, Publish)]
    assert heard == [((7, 300), True), ((300,), False)]


def test_a_shared_subscription_gives_each_message_to_one() -> None:
    stage = Stage()
    peers = [stage.client(name) for name in "abc"]
    for peer in peers:
        peer.ask(Subscribe(1, (Wish("$share/g/t/#"),)))
    push(stage, 6, qos=0)
    assert [len(peer.hear()) for peer in peers] == [2, 2, 2]


def test_a_message_to_both_versions_loses_only_what_311_cannot_say() -> None:
    stage = Stage()
    new, old = subscriber(stage, 1), subscriber(stage, 1, Connect("d", V311))
    pairs = (("a", "1"), ("a", "2"))
    stage.broker.publish(stage.now_us, "p", Message("t/1", b"x", 1, user_properties=pairs, content_type="text/plain"))
    assert new.hear() == [Publish("t/1", b"x", 1, packet_id=1, user_properties=pairs, content_type="text/plain")]
    assert old.hear() == [Publish("t/1", b"x", 1, packet_id=1)]


def test_deliveries_to_a_closed_connection_are_the_brokers_to_keep() -> None:
    stage = Stage()
    peer = stage.client("c")
    peer.vanish()
    peer.connection.deliver(stage.now_us, 1)
    peer.connection.deliver_batch(stage.now_us, batch_of(Message("t", b"")), False, ())
    assert not peer.connection.output
