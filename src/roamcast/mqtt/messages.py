"""Messages and subscriptions as a broker holds them between incoming and outgoing PUBLISH.

A `Message` says when it ends as a time, not as an interval, so that it can wait; times are microseconds since 1970,
so that a session means the same on the broker it moves to. A `Form` is how a client sees it.
"""

from msgspec import Struct

from roamcast.mqtt.packets import PACKET_ID_MAX, Pairs, Publish, Will, Wish
from roamcast.mqtt.topics import TopicFilter

SECOND_US = 1_000_000


class Choice(Struct, frozen=True, array_like=True, gc=False):
    """Which member of a group gets a message."""

    group: str
    pattern: str
    client: str


class Message(Struct, frozen=True, gc=False, array_like=True):
    """`qos` and `retain` are what the publisher said. It goes to other brokers and into the log as an array."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    expires_us: int | None = None
    payload_format: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    user_properties: Pairs = ()
    chosen: tuple[Choice, ...] = ()
    """Of groups with members at several brokers; the broker that took the message says so."""

    def expired(self, now_us: int) -> bool:
        return self.expires_us is not None and self.expires_us <= now_us

    def remaining_s(self, now_us: int) -> int | None:
        """What is left to live, rounded up: a message whose sending has begun is finished even past its time."""
        if self.expires_us is None:
            return None
        return max(1, -((now_us - self.expires_us) // SECOND_US))

    @property
    def size_bytes(self) -> int:
        """About what it takes to hold it."""
        size = len(self.payload) + len(self.topic) + len(self.correlation_data or b"") + OVERHEAD_BYTES
        if self.user_properties:
            size += sum(len(name) + len(value) + 4 for name, value in self.user_properties)
        return size


class Form(Struct, frozen=True, array_like=True, gc=False):
    """How a client sees a message: as its subscriptions ask for it."""

    qos: int
    retain: bool = False
    subscription_ids: tuple[int, ...] = ()
    origin: bool = False
    """With who published it, and where."""


OVERHEAD_BYTES = 64


class Subscription(Struct, frozen=True, gc=False):
    """`user_properties` are those of the SUBSCRIBE: filter, interest and so on."""

    filter: TopicFilter
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    subscription_id: int | None = None
    user_properties: Pairs = ()


class WillMessage(Struct, frozen=True, array_like=True, gc=False):
    """What a client left behind, until it is published."""

    message: Message
    delay_s: int = 0
    expiry_s: int | None = None
    """Its life begins when it is published."""


def message_of(packet: Publish, topic: str, now_us: int) -> Message:
    """`topic` is given besides, since an alias may stand for it in the packet."""
    expiry_s = packet.message_expiry_s
    return Message(
        topic,
        packet.payload,
        packet.qos,
        packet.retain,
        None if expiry_s is None else now_us + expiry_s * SECOND_US,
        packet.payload_format,
        packet.content_type,
        packet.response_topic,
        packet.correlation_data,
        packet.user_properties,
    )


def message_of_will(will: Will, now_us: int) -> Message:
    """Its life begins when it is published, not when it was left behind."""
    expiry_s = will.message_expiry_s
    return Message(
        will.topic,
        will.payload,
        will.qos,
        will.retain,
        None if expiry_s is None else now_us + expiry_s * SECOND_US,
        will.payload_format,
        will.content_type,
        will.response_topic,
        will.correlation_data,
        will.user_properties,
    )


def subscription_of(wish: Wish, parsed: TopicFilter, subscription_id: int | None, pairs: Pairs) -> Subscription:
    return Subscription(
        parsed, wish.qos, wish.no_local, wish.retain_as_published, wish.retain_handling, subscription_id, pairs
    )


def publish_of(message: Message, form: Form, now_us: int) -> Publish:
    return Publish(
        message.topic,
        message.payload,
        form.qos,
        form.retain,
        False,
        0,
        message.payload_format,
        message.remaining_s(now_us),
        None,
        message.response_topic,
        message.correlation_data,
        message.user_properties,
        form.subscription_ids,
        message.content_type,
    )


def has_properties(message: Message) -> bool:
    """Whether a client of MQTT 5 sees more of it than topic and payload."""
    return bool(
        message.user_properties
        or message.expires_us is not None
        or message.payload_format is not None
        or message.content_type is not None
        or message.response_topic is not None
        or message.correlation_data is not None
    )


def packet_id_of(number: int) -> int:
    """Of the delivery with this number in its session (P-36)."""
    return (number - 1) % PACKET_ID_MAX + 1


def number_of(packet_id: int, last: int) -> int:
    """The latest number up to the last one that has this packet identifier: unfinished ones are nearer than that."""
    return last - (last - packet_id) % PACKET_ID_MAX
