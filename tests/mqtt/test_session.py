"""L3, L8: a session is a value that can be stored and moved."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.mqtt import (
    Delivery,
    Message,
    Session,
    SessionLimits,
    SessionState,
    Subscription,
    parse_filter,
    state_from_bytes,
)
from roamcast.mqtt.messages import OVERHEAD_BYTES
from roamcast.mqtt.packets import NEVER_S, PACKET_ID_MAX
from roamcast.mqtt.session import Phase, Waiting
from tests.effort import examples
from tests.mqtt.strategies import binaries, pairs, topics

messages = st.builds(
    Message,
    topics,
    binaries,
    st.integers(0, 2),
    st.booleans(),
    st.none() | st.integers(0, 1 << 60),
    st.none() | st.integers(0, 1),
    st.none() | topics,
    st.none() | topics,
    st.none() | binaries,
    pairs,
)
deliveries = st.builds(
    Delivery,
    st.integers(0, 1 << 60),
    messages,
    st.integers(1, 2),
    st.booleans(),
    st.lists(st.integers(1, 99)).map(tuple),
)


def delivery(token: int, qos: int = 1, expires_us: int | None = None, payload: bytes = b"") -> Delivery:
    return Delivery(token, Message("t", payload, qos, expires_us=expires_us), qos)


def drain(session: Session, now_us: int = 0) -> list[Waiting]:
    taken: list[Waiting] = []
    while (waiting := session.take(now_us, [])) is not None:
        taken.append(waiting)
    return taken


@examples(60)
@given(st.lists(deliveries, max_size=6), st.integers(0, 6), st.integers(0, 6))
def test_a_stored_session_goes_on_where_it_was(wanted: list[Delivery], sent: int, received: int) -> None:
    session = Session("c", 77)
    session.subscribe(Subscription(parse_filter("$share/g/$roam/n/a/+"), 2, user_properties=(("filter", "x > 1"),)))
    for each in wanted:
        session.enqueue(each)
    for waiting in [session.take(0, []) for _ in range(sent)][:received]:
        if waiting is not None and waiting.delivery.qos == 2:
            session.client_received(waiting.packet_id)
    session.incoming = {1: Phase.PENDING, 2: Phase.RECEIVED, 3: Phase.RELEASING, 4: Phase.PENDING}
    state = session.snapshot(storing=(4,))
    read = state_from_bytes(state.to_bytes())
    assert read == state
    restored = Session.restored(read)
    assert restored.incoming == {2: Phase.RECEIVED, 4: Phase.RECEIVED}
    assert restored.subscriptions == session.subscriptions
    assert restored.sent == session.sent
    assert list(restored.releasing) == list(session.releasing)
    assert all(each.safe for each in restored.releasing.values())
    assert restored.waiting_bytes == session.waiting_bytes
    assert drain(restored) == drain(session)
    assert restored.enqueue(delivery(1)) == session.enqueue(delivery(1))


@examples(200)
@given(st.binary(max_size=80))
def test_bytes_that_are_no_session_are_refused(data: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        state_from_bytes(data)


@pytest.mark.parametrize(
    "state",
    [
        SessionState("c", 0, version=99),
        SessionState("c", 0, queue=(Waiting(1, delivery(1)), Waiting(1, delivery(2)))),
        SessionState("c", 0, queue=(Waiting(0, delivery(1)),)),
        SessionState("c", 0, received=(70_000,)),
    ],
)
def test_a_session_that_cannot_be_is_refused(state: SessionState) -> None:
    with pytest.raises(msgspec.ValidationError):
        state_from_bytes(state.to_bytes())


def test_identifiers_go_round_and_skip_those_in_use() -> None:
    session = Session("c", limits=SessionLimits(queue_bytes_max=1 << 40))
    first = session.enqueue(delivery(0))
    assert first == 1
    held = session.take(0, [])
    assert held is not None
    seen = []
    for token in range(PACKET_ID_MAX + 1):
        packet_id = session.enqueue(delivery(token))
        waiting = session.take(0, [])
        assert waiting is not None
        assert waiting.packet_id == packet_id
        session.settle(waiting.packet_id)
        seen.append(packet_id)
    assert 1 not in seen
    assert seen[:2] == [2, 3]
    assert seen[-3:] == [PACKET_ID_MAX, 2, 3]


def test_the_queue_is_bounded_in_bytes_as_well_and_frees_them() -> None:
    session = Session("c", limits=SessionLimits(queue_bytes_max=2 * (101 + OVERHEAD_BYTES)))
    assert session.enqueue(delivery(1, payload=bytes(100))) is not None
    assert session.enqueue(delivery(2, payload=bytes(100), expires_us=5)) is not None
    assert session.enqueue(delivery(3)) is None
    waiting = session.take(0, [])
    assert waiting is not None
    session.settle(waiting.packet_id)
    assert session.enqueue(delivery(4, payload=bytes(100))) is not None
    assert [each.token for each in session.expire(5)] == [2]
    assert [each.delivery.token for each in drain(session)] == [4]
    assert session.waiting_bytes == 101 + OVERHEAD_BYTES


def test_a_client_that_never_completes_cannot_use_up_the_identifiers() -> None:
    session = Session("c", limits=SessionLimits(queue_bytes_max=1 << 40))
    for token in range(70_000):
        if session.enqueue(delivery(token, 2)) is None:
            break
        waiting = session.take(0, [])
        assert waiting is not None
        session.client_received(waiting.packet_id)
    assert token == 65_000


def test_a_queue_without_bound_is_not_to_be_had() -> None:
    with pytest.raises(ValueError, match="queue_messages_max"):
        SessionLimits(queue_messages_max=65_000)


def test_what_is_held_waits_for_its_store_and_keeps_its_place() -> None:
    session = Session("c")
    first = session.enqueue(delivery(1), held=True)
    session.enqueue(delivery(2), held=True)
    session.enqueue(delivery(3))
    assert drain(session) == []
    assert [each.delivery.token for each in session.snapshot().queue] == [1, 2, 3]
    assert first is not None
    session.let_go(first)
    assert [each.delivery.token for each in drain(session)] == [1]
    session.let_go(first)
    assert len(session) == 2
    session.let_go(3)
    assert [each.delivery.token for each in drain(session)] == [2, 3]


def test_when_a_session_ends() -> None:
    session = Session("c", 10)
    assert session.ends_us() is None
    session.detach(1_000_000)
    assert session.ends_us() == 11_000_000
    session.expiry_s = NEVER_S
    assert session.ends_us() is None
