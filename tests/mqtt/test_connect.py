"""L2: connecting, being refused, leaving, being silent, being taken over."""

import pytest

from roamcast.mqtt import Limits, Reason
from roamcast.mqtt.connection import EARLY_BYTES_MAX
from roamcast.mqtt.events import Disconnected
from roamcast.mqtt.packets import (
    NEVER_S,
    V5,
    V311,
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    PingResp,
    PubAck,
    Publish,
    Subscribe,
    Will,
    Wish,
)
from tests.mqtt.stage import Stage


def test_connack_tells_the_limits() -> None:
    limits = Limits(receive_max=10, packet_bytes_max=5_000, topic_alias_max=3, qos_max=1, retain_available=False)
    told = Stage(limits).client("c").connack
    assert told == ConnAck(
        receive_max=10, packet_bytes_max=5_000, topic_alias_max=3, qos_max=1, retain_available=False
    )


def test_a_client_without_a_name_is_given_one() -> None:
    stage = Stage()
    assert stage.client("").connack.assigned_client_id == "made-up-1"
    assert stage.client(Connect("", V311)).connack == ConnAck()
    assert list(stage.broker.sessions) == ["made-up-1", "made-up-2"]


def test_a_311_client_without_a_name_cannot_keep_a_session() -> None:
    peer = Stage().client(Connect("", V311, False, session_expiry_s=NEVER_S))
    assert peer.connack.reason is Reason.CLIENT_IDENTIFIER_NOT_VALID
    assert peer.cut_off


def test_a_kept_session_is_present_when_its_client_returns() -> None:
    stage = Stage()
    first = stage.client(Connect("c", clean_start=False, session_expiry_s=100))
    assert not first.connack.session_present
    first.leave()
    stage.wait(99)
    second = stage.client(Connect("c", clean_start=False, session_expiry_s=100))
    assert second.connack.session_present


def test_a_session_ends_after_its_expiry() -> None:
    stage = Stage()
    stage.client(Connect("c", session_expiry_s=100)).vanish()
    stage.wait(100)
    assert not stage.client(Connect("c", clean_start=False)).connack.session_present


def test_a_session_without_expiry_ends_with_its_connection() -> None:
    stage = Stage()
    stage.client("c").vanish()
    assert not stage.broker.sessions


def test_a_311_session_that_is_not_clean_never_ends() -> None:
    stage = Stage()
    stage.client(Connect("c", V311, False, session_expiry_s=NEVER_S)).vanish()
    stage.wait(10_000_000)
    assert stage.client(Connect("c", V311, False, session_expiry_s=NEVER_S)).connack.session_present


def test_clean_start_throws_the_old_session_away() -> None:
    stage = Stage()
    stage.client(Connect("c", session_expiry_s=100)).vanish()
    assert not stage.client(Connect("c", session_expiry_s=100)).connack.session_present


def test_the_server_shortens_session_expiry_and_says_so() -> None:
    stage = Stage(Limits(session_expiry_max_s=50))
    assert stage.client(Connect("c", session_expiry_s=NEVER_S)).connack.session_expiry_s == 50
    assert stage.client(Connect("d", session_expiry_s=50)).connack.session_expiry_s is None


def test_disconnect_changes_session_expiry() -> None:
    stage = Stage()
    stage.client(Connect("c", session_expiry_s=100)).leave(Disconnect(session_expiry_s=5))
    stage.wait(5)
    assert not stage.broker.sessions


def test_a_session_that_was_to_end_cannot_be_kept_by_disconnect() -> None:
    peer = Stage().client("c")
    peer.leave(Disconnect(session_expiry_s=5))
    assert peer.hear() == [
        Disconnect(
            Reason.PROTOCOL_ERROR, reason_text="a session that ends with its connection cannot be kept when leaving"
        )
    ]


@pytest.mark.parametrize("version", [V5, V311])
def test_a_wrong_password_is_refused(version: int) -> None:
    stage = Stage()
    stage.broker.passwords = {"u": b"right"}
    peer = stage.client(Connect("c", version, username="u", password=b"wrong"))
    assert peer.connack.reason is Reason.BAD_USER_NAME_OR_PASSWORD
    assert peer.cut_off
    assert stage.client(Connect("c", version, username="u", password=b"right")).connack.reason is Reason.SUCCESS


def test_enhanced_authentication_is_refused_by_name() -> None:
    peer = Stage().client(Connect("c", authentication_method="SCRAM"))
    assert peer.connack.reason is Reason.BAD_AUTHENTICATION_METHOD
    assert peer.cut_off


def test_auth_out_of_the_blue_is_a_protocol_error() -> None:
    peer = Stage().client("c")
    answer = peer.ask(Auth(Reason.REAUTHENTICATE, "SCRAM"))
    assert isinstance(answer, Disconnect)
    assert answer.reason is Reason.PROTOCOL_ERROR


def test_a_first_packet_that_is_not_connect_gets_no_word() -> None:
    peer = Stage().peer()
    peer.say(PingReq())
    assert peer.cut_off
    assert peer.hear() == []


def test_a_second_connect_is_a_protocol_error() -> None:
    answer = Stage().client("c").ask(Connect("c"))
    assert isinstance(answer, Disconnect)
    assert answer.reason is Reason.PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x10\x0d\x00\x04MQTT\x06\x02\x00\x3c\x00\x01c", b"\x20\x03\x00\x84\x00"),
        (b"\x10\x0d\x00\x04MQTT\x03\x02\x00\x3c\x00\x01c", b"\x20\x02\x00\x01"),
        (b"\x10\x0f\x00\x06MQIsdp\x03\x02\x00\x3c\x00\x01c", b"\x20\x02\x00\x01"),
        (b"\x10\x0d\x00\x04MQTT\x05\x03\x00\x3c\x00\x01c", b"\x20\x03\x00\x81\x00"),
        (b"\x10\x0d\x00\x04MQTT\x04\x03\x00\x3c\x00\x01c", b""),
        (b"GET / HTTP/1.1\r\n\r\n", b""),
    ],
)
def test_a_connect_that_cannot_be_read_is_answered_in_its_own_version(data: bytes, expected: bytes) -> None:
    peer = Stage().peer()
    peer.say_bytes(data)
    assert peer.cut_off
    assert peer.connection.outgoing() == expected


@pytest.mark.parametrize(
    ("limits", "will", "reason"),
    [
        (Limits(qos_max=1), Will("t", b"", 2), Reason.QOS_NOT_SUPPORTED),
        (Limits(retain_available=False), Will("t", b"", 0, True), Reason.RETAIN_NOT_SUPPORTED),
    ],
)
def test_a_will_beyond_the_limits_is_refused(limits: Limits, will: Will, reason: Reason) -> None:
    assert Stage(limits).client(Connect("c", will=will)).connack.reason is reason


def test_what_is_said_before_connack_is_heard_after_it() -> None:
    peer = Stage().peer()
    peer.say(Connect("c"), PingReq())
    assert [type(each) for each in peer.hear()] == [ConnAck, PingResp]


def test_while_the_broker_decides_a_socket_is_read_within_a_bound() -> None:
    stage = Stage()
    connection = stage.broker.open(stage.now_us)
    connection.receive(stage.now_us, b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x01c")
    assert connection.reads_on
    connection.receive(stage.now_us, b"\xc0\x00" * (EARLY_BYTES_MAX // 2))
    assert not connection.reads_on


def test_nothing_that_comes_while_the_broker_decides_is_acted_on() -> None:
    stage = Stage()
    connection = stage.broker.open(stage.now_us)
    peer = stage.peer()
    peer.connection = connection
    connection.receive(stage.now_us, b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x01c")
    assert not connection.wants_bytes
    connection.refuse(stage.now_us, Reason.USE_ANOTHER_SERVER, server_reference="b2.example")
    assert peer.hear() == [ConnAck(Reason.USE_ANOTHER_SERVER, server_reference="b2.example")]


def test_a_client_that_leaves_before_it_is_accepted_is_not() -> None:
    stage = Stage()
    connection = stage.broker.open(stage.now_us)
    connection.receive(stage.now_us, b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x01c")
    connection.events()
    connection.lost(stage.now_us)
    assert [type(each) for each in connection.events()] == [Disconnected]
    assert not connection.accept(stage.now_us, stage.broker.sessions.get("c"), False)  # type: ignore[arg-type]


def test_silence_ends_a_connection_after_one_and_a_half_keep_alives() -> None:
    stage = Stage()
    peer = stage.client(Connect("c", keep_alive_s=10))
    stage.wait(14.9)
    assert not peer.cut_off
    assert isinstance(peer.ask(PingReq()), PingResp)
    stage.wait(14.9)
    assert not peer.cut_off
    stage.wait(0.1)
    assert peer.hear() == [Disconnect(Reason.KEEP_ALIVE_TIMEOUT, reason_text="nothing was heard of the client")]
    assert peer.cut_off


def test_half_a_packet_does_not_keep_a_connection_alive() -> None:
    stage = Stage()
    peer = stage.client(Connect("c", keep_alive_s=10))
    peer.say_bytes(b"\x30\x7f")
    for _ in range(15):
        stage.wait(1)
        peer.say_bytes(b"x")
    assert peer.cut_off


def test_keep_alive_of_the_server_takes_the_place_of_a_longer_one_or_none() -> None:
    stage = Stage(Limits(keep_alive_max_s=20))
    assert stage.client(Connect("a", keep_alive_s=0)).connack.server_keep_alive_s == 20
    assert stage.client(Connect("b", keep_alive_s=21)).connack.server_keep_alive_s == 20
    assert stage.client(Connect("c", keep_alive_s=20)).connack.server_keep_alive_s is None
    stage.wait(30)
    assert not stage.broker.attached


def test_without_keep_alive_silence_is_no_fault() -> None:
    stage = Stage()
    peer = stage.client(Connect("c", V311))
    stage.wait(1_000_000)
    assert not peer.cut_off


def test_a_connection_that_never_says_connect_is_closed() -> None:
    stage = Stage()
    peer = stage.peer()
    stage.wait(10)
    assert peer.cut_off
    assert peer.connection.outgoing() == b""


def test_a_second_connection_takes_over() -> None:
    stage = Stage()
    first = stage.client(Connect("c", session_expiry_s=100))
    second = stage.client(Connect("c", clean_start=False, session_expiry_s=100))
    assert first.hear() == [Disconnect(Reason.SESSION_TAKEN_OVER)]
    assert first.cut_off
    assert second.connack.session_present
    assert stage.broker.attached["c"] is second.connection


def test_a_client_is_sent_to_another_server() -> None:
    stage = Stage()
    peer = stage.client("c")
    peer.connection.disconnect(stage.now_us, Reason.SERVER_MOVED, server_reference="b2.example:1883")
    assert peer.hear() == [Disconnect(Reason.SERVER_MOVED, server_reference="b2.example:1883")]
    old = stage.client(Connect("d", V311))
    old.connection.disconnect(stage.now_us, Reason.SERVER_MOVED, server_reference="b2.example:1883")
    assert old.cut_off
    assert old.hear() == []


def test_a_client_cannot_say_what_only_a_server_can() -> None:
    peer = Stage().client("c")
    peer.leave(Disconnect(Reason.SERVER_MOVED))
    assert [type(each) for each in peer.hear()] == [Disconnect]


def test_a_packet_larger_than_granted_ends_the_connection() -> None:
    peer = Stage(Limits(packet_bytes_max=100)).client("c")
    answer = peer.ask(Publish("t", bytes(100)))
    assert isinstance(answer, Disconnect)
    assert answer.reason is Reason.PACKET_TOO_LARGE


def test_reason_texts_are_kept_from_a_client_that_wants_none() -> None:
    stage = Stage()
    peer = stage.client(Connect("c", request_problem_information=False))
    stage.broker.holds_commits = True
    peer.say(Publish("t", b"", 1, packet_id=1))
    peer.connection.acknowledge(stage.now_us, 1, Reason.QUOTA_EXCEEDED, "full", (("a", "b"),))
    assert peer.hear() == [PubAck(1, Reason.QUOTA_EXCEEDED)]


def test_an_answer_is_cut_down_to_the_clients_maximum() -> None:
    stage = Stage()
    peer = stage.client(Connect("c", packet_bytes_max=40))
    stage.broker.holds_commits = True
    peer.say(Publish("t", b"", 1, packet_id=1), Publish("t", b"", 1, packet_id=2))
    peer.connection.acknowledge(stage.now_us, 1, Reason.QUOTA_EXCEEDED, "full", (("a", "b" * 40),))
    peer.connection.acknowledge(stage.now_us, 2, Reason.QUOTA_EXCEEDED, "f" * 40)
    assert peer.hear() == [PubAck(1, Reason.QUOTA_EXCEEDED, "full"), PubAck(2, Reason.QUOTA_EXCEEDED)]


@pytest.mark.parametrize(
    ("last_word", "published"),
    [(Disconnect(), False), (Disconnect(Reason.DISCONNECT_WITH_WILL), True), (None, True)],
)
def test_a_will_is_published_unless_the_client_leaves_in_order(last_word: Disconnect | None, published: bool) -> None:
    stage = Stage()
    watcher = stage.client("w")
    watcher.ask(Subscribe(1, (Wish("t"),)))
    peer = stage.client(Connect("c", will=Will("t", b"gone")))
    if last_word is None:
        peer.vanish()
    else:
        peer.leave(last_word)
    assert watcher.hear() == ([Publish("t", b"gone")] if published else [])


def test_a_delayed_will_waits_and_is_dropped_when_its_client_returns() -> None:
    stage = Stage()
    watcher = stage.client("w")
    watcher.ask(Subscribe(1, (Wish("t"),)))
    connect = Connect("c", clean_start=False, session_expiry_s=100, will=Will("t", b"gone", delay_s=10))
    stage.client(connect).vanish()
    stage.wait(9)
    peer = stage.client(connect)
    stage.wait(20)
    assert watcher.hear() == []
    peer.vanish()
    stage.wait(10)
    assert watcher.hear() == [Publish("t", b"gone")]


def test_a_delayed_will_does_not_outlive_its_session() -> None:
    stage = Stage()
    watcher = stage.client("w")
    watcher.ask(Subscribe(1, (Wish("t"),)))
    stage.client(Connect("c", session_expiry_s=5, will=Will("t", b"gone", delay_s=10))).vanish()
    stage.wait(5)
    assert watcher.hear() == [Publish("t", b"gone")]


def test_a_client_that_takes_no_connack_is_not_sent_one() -> None:
    stage = Stage()
    peer = stage.peer()
    peer.say(Connect("c", packet_bytes_max=4))
    assert peer.cut_off
    assert peer.connection.outgoing() == b""
    assert (stage.broker.attached, stage.broker.sessions) == ({}, {})


def test_a_client_that_takes_no_answer_is_closed_without_one() -> None:
    peer = Stage().client(Connect("c", packet_bytes_max=30))
    peer.say(Subscribe(1, tuple(Wish("a") for _ in range(40))))
    assert peer.cut_off
    assert peer.hear() == []


def test_a_reason_text_that_cannot_be_sent_is_left_out() -> None:
    stage = Stage()
    stage.broker.holds_commits = True
    peer = stage.client("c")
    peer.say(Publish("t", b"", 1, packet_id=1))
    peer.connection.acknowledge(stage.now_us, 1, Reason.QUOTA_EXCEEDED, "\0")
    assert peer.hear() == [PubAck(1, Reason.QUOTA_EXCEEDED)]


@pytest.mark.parametrize(
    "wrong", [{"receive_max": 0}, {"keep_alive_max_s": 70_000}, {"packet_bytes_max": 3}, {"qos_max": 3}]
)
def test_limits_that_cannot_be_told_are_not_to_be_had(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"at (most|least)"):
        Limits(**wrong)  # type: ignore[arg-type]
