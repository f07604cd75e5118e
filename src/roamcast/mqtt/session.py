"""The state of one MQTT session: what outlives a connection.

It holds the subscriptions, the messages on their way to the client (QoS 1 and 2), and the identifiers of messages
that came from the client with QoS 2 and are not finished.

To the client, a delivery goes through these places:

    held --let_go--> queue --take--> sent --PUBACK--> gone                          (QoS 1)
    held --let_go--> queue --take--> sent --PUBREC--> releasing --PUBCOMP--> gone   (QoS 2)

It gets its packet identifier when it enters the queue, not when it is sent: a broker that stored the queue and then
died sends the same message under the same identifier again, and a client can tell that it has it already. For that
nothing may be sent before it is stored, or another message could get its identifier after the death: a broker that
stores lets a delivery be held until it has. What was sent and not acknowledged is sent again on the next connection,
in the order of the first time.

From the client, a QoS 2 identifier is PENDING until the broker has made its message safe, RECEIVED from then until
the client releases it, and RELEASING until the broker has made that safe too.

The queue is bounded in messages and bytes. `snapshot` gives all of it as one value, to be stored or sent to another
broker, and `Session.restored` makes a session from it.
"""

from collections import deque
from collections.abc import Iterable
from enum import IntEnum
from typing import Protocol

import msgspec
from msgspec import Struct

from roamcast.mqtt.messages import SECOND_US, Delivery, Subscription
from roamcast.mqtt.packets import NEVER_S, PACKET_ID_MAX, PubRec

STATE_VERSION = 1
QUEUE_MESSAGES_CEILING = 60_000
"""Identifiers are 16 bits wide, and everything that waits has one."""
PACKET_IDS_IN_USE_MAX = 65_000
"""A client that never finishes a QoS 2 delivery keeps its identifier; some must stay free to be found."""


class SessionLimits(Struct, frozen=True, forbid_unknown_fields=True):
    queue_messages_max: int = 10_000
    queue_bytes_max: int = 16 * 1024 * 1024
    subscriptions_max: int = 1_000

    def __post_init__(self) -> None:
        if not 1 <= self.queue_messages_max <= QUEUE_MESSAGES_CEILING:
            raise ValueError(f"queue_messages_max is from 1 to {QUEUE_MESSAGES_CEILING}")


class Phase(IntEnum):
    """Of a QoS 2 message from the client."""

    PENDING = 0
    RECEIVED = 1
    RELEASING = 2


class Waiting(Struct, frozen=True, array_like=True):
    packet_id: int
    delivery: Delivery


class Releasing(Struct, frozen=True, array_like=True):
    """A QoS 2 delivery that the client has; `safe` once the broker has stored that, so that PUBREL may go out."""

    packet_id: int
    token: int
    safe: bool


class SessionState(Struct, frozen=True):
    """A session as a value; a field added later has a default."""

    client_id: str
    expiry_s: int
    detached_us: int | None = None
    subscriptions: tuple[Subscription, ...] = ()
    queue: tuple[Waiting, ...] = ()
    sent: tuple[Waiting, ...] = ()
    releasing: tuple[Releasing, ...] = ()
    received: tuple[int, ...] = ()
    last_packet_id: int = 0
    version: int = STATE_VERSION

    def to_bytes(self) -> bytes:
        return msgspec.msgpack.encode(self)


def state_from_bytes(data: bytes) -> SessionState:
    """Raises `msgspec.ValidationError` or `msgspec.DecodeError` for bytes that are none."""
    state = msgspec.msgpack.decode(data, type=SessionState)
    if state.version != STATE_VERSION:
        raise msgspec.ValidationError(f"a session of version {state.version}, this side knows {STATE_VERSION}")
    ids = [each.packet_id for each in (*state.queue, *state.sent)] + [each.packet_id for each in state.releasing]
    if len(set(ids)) != len(ids) or any(not 1 <= each <= PACKET_ID_MAX for each in (*ids, *state.received)):
        raise msgspec.ValidationError("a session with packet identifiers that are doubled or out of range")
    return state


class Holder(Protocol):
    """The connection that a session is attached to: answers to the client leave through it."""

    def answer_received(self, now_us: int, packet: PubRec) -> None: ...
    def answer_released(self, packet_id: int) -> None: ...
    def send_release(self, packet_id: int) -> None: ...


class Session:
    __slots__ = (
        "_held",
        "_last_packet_id",
        "_queue",
        "_queued_ids",
        "client_id",
        "detached_us",
        "expiry_s",
        "holder",
        "incoming",
        "limits",
        "releasing",
        "sent",
        "subscriptions",
        "waiting_bytes",
    )

    def __init__(self, client_id: str, expiry_s: int = 0, limits: SessionLimits | None = None) -> None:
        self.client_id = client_id
        self.expiry_s = expiry_s
        self.limits = limits or SessionLimits()
        self.detached_us: int | None = None
        """Since when no connection holds it; None while one does."""
        self.subscriptions: dict[str, Subscription] = {}
        self.sent: dict[int, Delivery] = {}
        self.releasing: dict[int, Releasing] = {}
        self.incoming: dict[int, Phase] = {}
        self.waiting_bytes = 0
        self.holder: Holder | None = None
        self._queue: deque[Waiting] = deque()
        self._held: deque[Waiting] = deque()
        self._queued_ids: set[int] = set()
        self._last_packet_id = 0

    def __reduce__(self) -> tuple[object, ...]:
        """A copy has what a snapshot has, and no connection."""
        return (Session.restored, (self.snapshot(), self.limits))

    def __len__(self) -> int:
        """How many deliveries wait to be sent for the first time."""
        return len(self._queue) + len(self._held)

    def subscribe(self, subscription: Subscription) -> bool:
        """Whether it took the place of an earlier one on the same filter."""
        replaced = subscription.filter.text in self.subscriptions
        self.subscriptions[subscription.filter.text] = subscription
        return replaced

    def unsubscribe(self, text: str) -> bool:
        return self.subscriptions.pop(text, None) is not None

    def enqueue(self, delivery: Delivery, held: bool = False, packet_id: int | None = None) -> int | None:
        """Its packet identifier, or None when the queue is full and it is not taken.

        What is `held` is not sent before `let_go`, and neither is what comes after it. A broker that names deliveries
        by itself gives the identifier, takes care that it is free, and keeps the bounds.
        """
        size = delivery.message.size_bytes
        if packet_id is None:
            if not self.has_room(size):
                return None
            packet_id = self._next_packet_id()
        (self._held if held or self._held else self._queue).append(Waiting(packet_id, delivery))
        self._queued_ids.add(packet_id)
        self.waiting_bytes += size
        return packet_id

    def has_room(self, size: int) -> bool:
        if len(self) >= self.limits.queue_messages_max or self.waiting_bytes + size > self.limits.queue_bytes_max:
            return False
        return len(self) + len(self.sent) + len(self.releasing) < PACKET_IDS_IN_USE_MAX

    def let_go(self, through: int) -> list[Delivery]:
        """The delivery with this packet identifier is stored, and with it all that were put in before: these may be
        sent now."""
        free: list[Waiting] = []
        if any(each.packet_id == through for each in self._held):
            while not free or free[-1].packet_id != through:
                free.append(self._held.popleft())
            self._queue.extend(free)
        return [each.delivery for each in free]

    def take(self, now_us: int, expired: list[Delivery]) -> Waiting | None:
        """The next to be sent for the first time; those whose time has passed are put into `expired` instead."""
        while self._queue:
            waiting = self._queue.popleft()
            self._queued_ids.discard(waiting.packet_id)
            if waiting.delivery.message.expired(now_us):
                self.waiting_bytes -= waiting.delivery.message.size_bytes
                expired.append(waiting.delivery)
                continue
            self.sent[waiting.packet_id] = waiting.delivery
            return waiting
        return None

    def expire(self, now_us: int) -> list[Delivery]:
        """Drops what waits past its time and is not held; worth calling at times while nobody is attached."""
        expired = [each for each in self._queue if each.delivery.message.expired(now_us)]
        if expired:
            self._queue = deque(each for each in self._queue if not each.delivery.message.expired(now_us))
            for each in expired:
                self._queued_ids.discard(each.packet_id)
                self.waiting_bytes -= each.delivery.message.size_bytes
        return [each.delivery for each in expired]

    def settle(self, packet_id: int) -> Delivery | None:
        """The client has it, refused it, or can never get it: forgotten."""
        delivery = self.sent.pop(packet_id, None)
        if delivery is not None:
            self.waiting_bytes -= delivery.message.size_bytes
        return delivery

    def client_received(self, packet_id: int) -> Releasing | None:
        """PUBREC: the message itself need not be held any longer."""
        delivery = self.settle(packet_id)
        if delivery is None:
            return None
        releasing = Releasing(packet_id, delivery.token, safe=False)
        self.releasing[packet_id] = releasing
        return releasing

    def forget(self, packet_id: int) -> None:
        """A delivery is over, wherever it was: for a broker that reads again what happened."""
        self.settle(packet_id)
        self.releasing.pop(packet_id, None)
        self._unqueue(packet_id)

    def sent_before(self, packet_id: int, delivery: Delivery) -> None:
        """The client may have got it from another broker: it goes to it once more, as sent before."""
        self.sent[packet_id] = delivery
        self.waiting_bytes += delivery.message.size_bytes

    def was_received(self, packet_id: int) -> None:
        """PUBREC, for a broker that reads again what happened: nothing was taken from the queue then."""
        waiting = self._unqueue(packet_id)
        if waiting is not None:
            self.releasing[packet_id] = Releasing(packet_id, waiting.delivery.token, safe=False)
        else:
            self.client_received(packet_id)

    def _unqueue(self, packet_id: int) -> Waiting | None:
        if packet_id not in self._queued_ids:
            return None
        self._queued_ids.discard(packet_id)
        for queue in (self._queue, self._held):
            for waiting in queue:
                if waiting.packet_id == packet_id:
                    queue.remove(waiting)
                    self.waiting_bytes -= waiting.delivery.message.size_bytes
                    return waiting
        return None

    def take_over_incoming(self, received: Iterable[int]) -> None:
        """QoS 2 messages from the client that are safe and not released, as another broker or a log has it."""
        self.incoming = dict.fromkeys(received, Phase.RECEIVED)

    def recovered(self, now_us: int, received: Iterable[int]) -> None:
        """The broker was killed. Nobody knows what it had sent, so everything counts as sent; what it had stored is
        safe."""
        for waiting in (*self._queue, *self._held):
            self.sent[waiting.packet_id] = waiting.delivery
        self._queue.clear()
        self._held.clear()
        self._queued_ids.clear()
        self.releasing = {each: Releasing(each, kept.token, safe=True) for each, kept in self.releasing.items()}
        self.take_over_incoming(received)
        self.detach(now_us)

    def settle_incoming(self, packet_id: int, taken: bool) -> None:
        """The broker has made a PENDING message safe, or refused it."""
        if self.incoming.get(packet_id) is Phase.PENDING:
            if taken:
                self.incoming[packet_id] = Phase.RECEIVED
            else:
                del self.incoming[packet_id]

    def attach(self, holder: Holder, expiry_s: int) -> None:
        self.holder = holder
        self.detached_us = None
        self.expiry_s = expiry_s

    def detach(self, now_us: int) -> None:
        self.holder = None
        self.detached_us = now_us

    def ends_us(self) -> int | None:
        """When it is over if nobody comes back; None while it is attached, or if it never ends."""
        if self.detached_us is None or self.expiry_s == NEVER_S:
            return None
        return self.detached_us + self.expiry_s * SECOND_US

    def snapshot(self, storing: tuple[int, ...] = ()) -> SessionState:
        """`storing`: PENDING identifiers whose messages become safe together with this very snapshot.

        The other PENDING ones are left out: their client sends them again. What is held goes into it as queued, and a
        PUBREC that has come as safe, for so they are once this is stored.
        """
        received = [each for each, phase in self.incoming.items() if phase is Phase.RECEIVED or each in storing]
        return SessionState(
            self.client_id,
            self.expiry_s,
            self.detached_us,
            tuple(self.subscriptions.values()),
            (*self._queue, *self._held),
            tuple(Waiting(packet_id, delivery) for packet_id, delivery in self.sent.items()),
            tuple(Releasing(each.packet_id, each.token, safe=True) for each in self.releasing.values()),
            tuple(received),
            self._last_packet_id,
        )

    @classmethod
    def restored(cls, state: SessionState, limits: SessionLimits | None = None) -> "Session":
        """What a stored queue holds is kept even where the limits have become smaller since."""
        session = cls(state.client_id, state.expiry_s, limits)
        session.detached_us = state.detached_us
        session.subscriptions = {each.filter.text: each for each in state.subscriptions}
        session._queue = deque(state.queue)
        session._queued_ids = {each.packet_id for each in state.queue}
        session.sent = {each.packet_id: each.delivery for each in state.sent}
        session.releasing = {each.packet_id: each for each in state.releasing}
        session.incoming = dict.fromkeys(state.received, Phase.RECEIVED)
        session.waiting_bytes = sum(each.delivery.message.size_bytes for each in (*state.queue, *state.sent))
        session._last_packet_id = state.last_packet_id
        return session

    def _next_packet_id(self) -> int:
        packet_id = self._last_packet_id
        while True:
            packet_id = packet_id % PACKET_ID_MAX + 1
            if packet_id not in self.sent and packet_id not in self.releasing and packet_id not in self._queued_ids:
                self._last_packet_id = packet_id
                return packet_id
