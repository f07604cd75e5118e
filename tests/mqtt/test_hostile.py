"""L7: whatever a client says, nothing escapes, everything stays bounded, and others are served."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.mqtt import Limits, Message, SessionLimits, encode
from roamcast.mqtt.events import AnyEvent
from roamcast.mqtt.packets import V5, V311, AnyPacket, Connect, PingReq, PingResp, Publish, Subscribe, Wish
from tests.effort import examples
from tests.mqtt.memory_broker import MemoryBroker
from tests.mqtt.stage import Stage
from tests.mqtt.strategies import packets_5, packets_311

SMALL = Limits(receive_max=3, in_flight_max=3, requests_max=2, topic_alias_max=2, packet_bytes_max=2_000)
QUEUE = SessionLimits(queue_messages_max=5, subscriptions_max=3)


def steps(packets: st.SearchStrategy[AnyPacket]) -> st.SearchStrategy[list[AnyPacket | bytes | int]]:
    return st.lists(st.one_of(packets, packets, packets, st.binary(max_size=8), st.integers(0, 20)), max_size=12)


def play(version: int, said: list[AnyPacket | bytes | int], broker: type[MemoryBroker] = MemoryBroker) -> None:
    stage = Stage()
    stage.broker = broker(SMALL, QUEUE)
    bystander = stage.client("bystander")
    bystander.say(Subscribe(1, (Wish("quiet"),)))
    bystander.hear()
    expiry_s = 10 if version == V5 else 0
    peer = stage.client(Connect("hostile", version, True, 5, session_expiry_s=expiry_s, topic_alias_max=2))
    for each in said:
        match each:
            case int():
                stage.wait(each)
            case bytes():
                peer.say_bytes(each)
            case _:
                peer.say_bytes(encode(each, version))
        if peer.cut_off:
            peer.vanish()
            peer.hear()
            peer = stage.client(Connect("hostile", version, False, 5, session_expiry_s=expiry_s))
        peer.hear()
        for session in stage.broker.sessions.values():
            assert len(session.window) <= QUEUE.queue_messages_max
        for subscriptions in stage.broker.subscriptions.values():
            assert len(subscriptions) <= QUEUE.subscriptions_max
    bystander.hear()
    stage.broker.publish(stage.now_us, "p", Message("quiet", b"still here"))
    assert [type(packet) for packet in bystander.hear()] == [Publish]
    assert bystander.ask(PingReq()) == PingResp()


@examples(120)
@given(steps(packets_5))
def test_nothing_that_a_client_says_escapes(said: list[AnyPacket | bytes | int]) -> None:
    play(V5, said)


@examples(60)
@given(steps(packets_311))
def test_nothing_that_a_client_of_311_says_escapes(said: list[AnyPacket | bytes | int]) -> None:
    play(V311, said)


def test_the_target_lets_errors_of_the_broker_through() -> None:
    class Broken(MemoryBroker):
        def _on(self, now_us: int, connection: object, event: AnyEvent) -> None:
            if type(event).__name__ == "Published":
                raise RuntimeError
            super()._on(now_us, connection, event)  # type: ignore[arg-type]

    with pytest.raises(RuntimeError):
        play(V5, [Publish("t", b"")], Broken)
