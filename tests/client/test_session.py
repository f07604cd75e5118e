"""L3: the client's session against the broker's, byte by byte in memory, with connections that end anywhere."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from msgspec.structs import replace

from roamcast.client.session import Arrived, Confirmed, Expired, Incoming, Session, Withdrawn
from roamcast.mqtt import Connection, Decoder, Limits, ProtocolError, Reason, encode
from roamcast.mqtt.packets import (
    V5,
    ConnAck,
    Connect,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    Unsubscribe,
    Wish,
)
from tests.effort import examples
from tests.mqtt.memory_broker import MemoryBroker


class End:
    """A client without a socket: what it sends and gets passes through pipes that can be cut at any byte."""

    def __init__(self, broker: MemoryBroker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.session = Session(in_flight_max=4)
        self.connection: Connection | None = None
        self.decoder = Decoder(V5)
        self.up = b""
        self.down = b""
        self.got: list[bytes] = []
        self.waiting: list[Incoming] = []
        self.confirmed: list[int] = []

    def connect(self) -> None:
        if self.connection is not None:
            return
        self.connection = self.broker.open(0)
        self.decoder, self.up, self.down = Decoder(V5), b"", b""
        connect = Connect(self.name, clean_start=False, session_expiry_s=1_000, receive_max=4)
        self.connection.receive(0, encode(connect, V5))
        self.broker.settle(0, self.connection)
        self.hear(1_000_000)

    def cut(self) -> None:
        if self.connection is not None:
            self.connection.lost(0)
            self.broker.settle(0, self.connection)
            self.connection = None
            self.session.detached()

    def speak(self, bytes_max: int) -> None:
        self.up += b"".join(encode(packet, V5) for packet in self.session.packets())
        if self.connection is not None:
            self.connection.receive(0, self.up[:bytes_max])
            self.up = self.up[bytes_max:]
            self.broker.settle(0, self.connection)

    def hear(self, bytes_max: int) -> None:
        if self.connection is None:
            return
        self.down += self.connection.outgoing()
        self.decoder.feed(self.down[:bytes_max])
        self.down = self.down[bytes_max:]
        while (packet := self.decoder.next_packet()) is not None:
            if isinstance(packet, ConnAck):
                self.session.attached(packet)
            else:
                self.session.receive(packet)
        for result in self.session.results():
            match result:
                case Arrived(publish, delivery):
                    self.got.append(publish.payload)
                    if delivery is not None:
                        self.waiting.append(delivery)
                case Confirmed(token, reason):
                    assert reason < 0x80
                    self.confirmed.append(token)
                case Withdrawn() | Expired():
                    raise AssertionError("no subscription was to be refused")

    def take(self) -> None:
        if self.waiting:
            self.session.taken(self.waiting.pop(0))


def settle(*ends: End) -> None:
    """Faults have stopped: everything must arrive now."""
    for end in ends:
        end.connect()
    for _ in range(60):
        for end in ends:
            end.speak(1_000_000)
            end.hear(1_000_000)
            while end.waiting:
                end.take()


def first_times(got: list[bytes]) -> list[bytes]:
    return list(dict.fromkeys(got))


WITHOUT_SIZE = ["cut writer", "cut reader", "connect writer", "connect reader", "take"]
WITH_SIZE = ["speak writer", "speak reader", "hear writer", "hear reader"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.just(0)),
        st.tuples(
            st.sampled_from(["cut writer", "cut reader", "connect writer", "connect reader", "take"]), st.just(0)
        ),
        st.tuples(
            st.sampled_from(["speak writer", "speak reader", "hear writer", "hear reader"]),
            st.sampled_from([1, 7, 30, 500]),
        ),
    ),
    min_size=60,
    max_size=120,
)


@pytest.mark.parametrize("qos", [1, 2])
@given(steps=STEPS)
@examples(50, suppress_health_check=[HealthCheck.large_base_example])
def test_l3_wherever_connections_end_everything_arrives_in_order_and_with_qos_2_once(
    qos: int, steps: list[tuple[str, int]]
) -> None:
    broker = MemoryBroker(limits=Limits(receive_max=3, in_flight_max=3))
    writer, reader = End(broker, "writer"), End(broker, "reader")
    reader.session.request(Subscribe(0, (Wish("t", qos),), 1))
    settle(writer, reader)
    published: list[bytes] = []
    for what, size in steps:
        verb, _, who = what.partition(" ")
        end = reader if who == "reader" else writer
        act: dict[str, Callable[[], object]] = {
            "cut": end.cut,
            "connect": end.connect,
            "take": reader.take,
            "speak": partial(end.speak, size),
            "hear": partial(end.hear, size),
            "publish": lambda: writer.session.publish(Publish("t", published[-1], qos)),
        }
        if verb == "publish":
            published.append(b"%d" % len(published))
        act[verb]()
    settle(writer, reader)
    assert first_times(reader.got) == published
    if qos == 2:
        assert reader.got == published
    assert sorted(writer.confirmed) == writer.confirmed
    assert len(writer.confirmed) == len(published)
    assert writer.session.unfinished == 0


def attached(present: bool = False, **options: int) -> ConnAck:
    return ConnAck(session_present=present, **options)  # type: ignore[arg-type]


def test_l3_no_more_is_under_way_than_the_broker_takes_at_a_time() -> None:
    session = Session()
    session.attached(attached(receive_max=2))
    for number in range(4):
        session.publish(Publish("t", b"%d" % number, 1))
    sent = session.packets()
    assert [packet.payload for packet in sent if isinstance(packet, Publish)] == [b"0", b"1"]
    session.receive(PubAck(sent[0].packet_id))  # type: ignore[union-attr]
    assert [packet.payload for packet in session.packets() if isinstance(packet, Publish)] == [b"2"]


def test_l3_what_was_sent_goes_again_as_a_duplicate_with_its_own_packet_identifier() -> None:
    session = Session()
    session.attached(attached())
    session.publish(Publish("t", b"x", 1))
    first = session.packets()[0]
    session.detached()
    session.attached(attached(present=True))
    (again,) = session.packets()
    assert isinstance(first, Publish)
    assert isinstance(again, Publish)
    assert (again.packet_id, again.dup, first.dup) == (first.packet_id, True, False)


def test_l3_a_broker_without_the_session_is_asked_again_and_gets_unconfirmed_publications_as_new() -> None:
    session = Session()
    session.attached(attached())
    session.request(Subscribe(0, (Wish("t", 1),), 1))
    session.receive(SubAck(session.packets()[0].packet_id, (Reason.GRANTED_QOS_1,)))  # type: ignore[union-attr]
    session.publish(Publish("u", b"x", 2))
    received = session.publish(Publish("u", b"y", 2))
    _, second = session.packets()
    session.receive(PubRec(second.packet_id))  # type: ignore[union-attr]
    session.results()
    session.detached()
    session.attached(attached())
    asked, again = session.packets()
    assert isinstance(asked, Subscribe)
    assert isinstance(again, Publish)
    assert (again.payload, again.dup) == (b"x", False)
    assert session.results() == [Confirmed(received, Reason.SUCCESS)]


def test_l3_a_subscription_that_a_broker_refuses_after_it_lost_the_session_is_withdrawn() -> None:
    session = Session()
    session.attached(attached())
    session.request(Subscribe(0, (Wish("t", 1),), 1))
    session.receive(SubAck(session.packets()[0].packet_id, (Reason.GRANTED_QOS_1,)))  # type: ignore[union-attr]
    session.results()
    session.detached()
    session.attached(attached())
    session.receive(SubAck(session.packets()[0].packet_id, (Reason.NOT_AUTHORIZED,), "no"))  # type: ignore[union-attr]
    assert session.results() == [Withdrawn("t", Reason.NOT_AUTHORIZED, "no")]
    assert session.subscriptions == {}


def test_l3_deliveries_are_acknowledged_in_their_order_when_the_application_has_them() -> None:
    session = Session()
    session.attached(attached())
    for packet_id, qos in ((7, 1), (8, 2), (9, 1)):
        session.receive(Publish("t", b"", qos, packet_id=packet_id))
    first, second, third = (each.delivery for each in session.results() if isinstance(each, Arrived))
    assert first is not None
    assert second is not None
    assert third is not None
    session.taken(second)
    session.taken(third)
    assert session.packets() == []
    session.taken(first)
    assert session.packets() == [PubAck(7), PubRec(8), PubAck(9)]


def test_l3_a_delivery_that_comes_again_before_the_application_had_it_is_the_same_one() -> None:
    session = Session()
    session.attached(attached())
    session.receive(Publish("t", b"", 1, packet_id=7))
    (arrived,) = session.results()
    assert isinstance(arrived, Arrived)
    assert arrived.delivery is not None
    session.detached()
    session.taken(arrived.delivery)
    assert session.packets() == [], "the next broker has not sent it yet"
    session.attached(attached(present=True))
    session.receive(Publish("t", b"", 1, dup=True, packet_id=7))
    assert session.results() == []
    assert session.packets() == [PubAck(7)]


def test_l3_the_end_of_an_exchange_that_is_not_known_is_answered_as_the_standard_says() -> None:
    session = Session()
    session.attached(attached())
    session.receive(PubRel(5))
    session.receive(PubRec(6))
    missing = Reason.PACKET_IDENTIFIER_NOT_FOUND
    assert session.packets() == [PubComp(5, missing), PubRel(6, missing)]


def test_l3_a_refused_publication_is_confirmed_as_refused_and_makes_room() -> None:
    session = Session(in_flight_max=1)
    session.attached(attached())
    tokens = [session.publish(Publish("t", b"", qos)) for qos in (2, 1)]
    session.receive(PubRec(session.packets()[0].packet_id, Reason.QUOTA_EXCEEDED, "full"))  # type: ignore[union-attr]
    assert session.results() == [Confirmed(tokens[0], Reason.QUOTA_EXCEEDED, "full")]
    assert len(session.packets()) == 1


def test_l3_the_end_of_a_subscription_is_asked_for_again_until_it_is_answered() -> None:
    session = Session()
    token = session.request(Unsubscribe(0, ("t",)))
    session.attached(attached(present=True))
    session.detached()
    session.attached(attached(present=True))
    (asked,) = session.packets()
    assert isinstance(asked, Unsubscribe)
    session.receive(SubAck(asked.packet_id, (Reason.SUCCESS,)))
    assert session.results() == [Confirmed(token, Reason.SUCCESS)]


def test_l3_what_a_broker_does_not_say_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        Session().receive(Connect("x"))


def test_l3_a_publication_lives_on_while_it_waits_and_is_given_up_when_its_time_is_over() -> None:
    session = Session()
    brief = session.publish(Publish("t", b"brief", 1, message_expiry_s=5), ends_s=105.0)
    session.publish(Publish("t", b"long", 1, message_expiry_s=60), ends_s=160.0)
    session.attached(attached(), now_s=120.5)
    assert session.results() == [Expired(brief)]
    (sent,) = session.packets()
    assert isinstance(sent, Publish)
    assert (sent.payload, sent.message_expiry_s) == (b"long", 40)


def test_l3_what_was_sent_before_its_time_was_over_is_still_brought_to_an_end() -> None:
    session = Session()
    session.attached(attached(), now_s=100.0)
    session.publish(Publish("t", b"x", 2, message_expiry_s=5), ends_s=105.0)
    session.packets()
    session.detached()
    session.attached(attached(present=True), now_s=200.0)
    (again,) = session.packets()
    assert isinstance(again, Publish)
    assert (again.dup, again.message_expiry_s) == (True, 1)


def test_l3_a_publication_that_the_next_broker_does_not_grant_is_refused_and_holds_nobody_up() -> None:
    session = Session()
    tokens = [session.publish(Publish("t", b"kept", 1, True)), session.publish(Publish("t", b"once", 2))]
    session.publish(Publish("t", b"small", 1))
    session.attached(replace(attached(), qos_max=1, retain_available=False))
    refused = [each for each in session.results() if isinstance(each, Confirmed)]
    assert [each.token for each in refused] == tokens
    assert [each.reason for each in refused] == [Reason.RETAIN_NOT_SUPPORTED, Reason.QOS_NOT_SUPPORTED]
    assert [packet.payload for packet in session.packets() if isinstance(packet, Publish)] == [b"small"]


def test_l3_a_publication_that_the_next_broker_finds_too_large_is_refused_and_holds_nobody_up() -> None:
    session = Session()
    large = session.publish(Publish("t", bytes(5_000), 1))
    session.publish(Publish("t", b"small", 1))
    session.attached(attached(packet_bytes_max=1_000))
    (refused,) = session.results()
    assert isinstance(refused, Confirmed)
    assert (refused.token, refused.reason) == (large, Reason.PACKET_TOO_LARGE)
    assert [packet.payload for packet in session.packets() if isinstance(packet, Publish)] == [b"small"]
