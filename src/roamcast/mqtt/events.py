"""What a connection tells the broker.

`ConnectRequested`, `Published` and `Batch` (QoS 1 and 2), `SubscribeRequested`, `UnsubscribeRequested`, `Received`
and `Released` want an answer, each by the order that its text names; the others only tell.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Literal, TypeAlias

from msgspec import Struct

from roamcast.mqtt.batches import Batch
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.packets import Connect, Pairs, Will
from roamcast.mqtt.reasons import Reason


class Event(Struct, frozen=True, gc=False):
    """Base of all."""


class ConnectRequested(Event, frozen=True, gc=False):
    """Who is it, and may it? Answer with `accept` or `refuse`. An empty client id is to be made up by the broker."""

    connect: Connect


class Published(Event, frozen=True, gc=False):
    """With QoS 1 and 2, `acknowledge(packet_id)` once the message is safe; with QoS 0 the packet id is 0."""

    message: Message
    packet_id: int = 0


def one_by_one(batch: Batch) -> Iterator[Published]:
    return map(Published, batch.messages, batch.packet_ids or repeat(0))


class Released(Event, frozen=True, gc=False):
    """The client will not send this QoS 2 message again: `complete(packet_id)` once that is safe."""

    packet_id: int


class SubscribeRequested(Event, frozen=True, gc=False):
    """Answer with `answer_subscribe(packet_id, reasons)`, one reason for each subscription here."""

    packet_id: int
    subscriptions: tuple[Subscription, ...]
    user_properties: Pairs = ()


class UnsubscribeRequested(Event, frozen=True, gc=False):
    """Answer with `answer_unsubscribe(packet_id)`. The filters are as the client wrote them."""

    packet_id: int
    filters: tuple[str, ...]
    user_properties: Pairs = ()


class Received(Event, frozen=True, gc=False):
    """The client has this QoS 2 delivery: `release(number)` once that is safe, or it could get it twice."""

    number: int


class Acknowledged(Event, frozen=True, gc=False):
    """The deliveries with these numbers are finished: PUBACK, PUBCOMP, or a refusal."""

    numbers: tuple[int, ...]


DropCause: TypeAlias = Literal["expired", "too_large", "queue_full", "unsendable"]
"""Its time has passed; the client takes no packet of that size; too much waits; it has no form on the wire."""


class Dropped(Event, frozen=True, gc=False):
    """The delivery will not happen. Its number is 0 with QoS 0."""

    number: int
    cause: DropCause


class Disconnected(Event, frozen=True, gc=False):
    """It is over; comes exactly once after `ConnectRequested`, unless the broker refused.

    `will` is there when the client did not take it back by leaving in order; publish it after its delay, or when the
    session ends if that is earlier, unless the client is back before.
    """

    reason: Reason
    detail: str
    by_client: bool = False
    will: Will | None = None
    user_properties: Pairs = ()
    """Of its DISCONNECT."""


AnyEvent: TypeAlias = (
    ConnectRequested
    | Published
    | Batch
    | Released
    | SubscribeRequested
    | UnsubscribeRequested
    | Received
    | Acknowledged
    | Dropped
    | Disconnected
)
