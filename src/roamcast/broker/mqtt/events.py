"""Messages as events and back: what an MQTT client publishes, in the model's words (docs/PROTOCOL.md, section 2)."""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from roamcast.broker.modulators.running import MADE_OF
from roamcast.broker.mqtt.payloads import Payloads
from roamcast.broker.mqtt.properties import BadProperty, check_lasting, must_reach_all, scopes_of
from roamcast.broker.window import Delivery
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.scope import EVERYWHERE
from roamcast.model.space import Space
from roamcast.model.values import BadValue, Instant, Point, Value
from roamcast.mqtt.cache import GenerationalCache
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.origin import ORIGIN_PROPERTY, check_origin, origin_in, origin_of, origin_text
from roamcast.mqtt.reasons import BadPacket
from roamcast.mqtt.topics import check_topic_name

MESSAGES_KEPT_MAX = 4_096
MESSAGES_KEPT_BYTES_MAX = 8 * 1024 * 1024
TO_ALL = "!"
"""At the end of the id of an event that every broker must get."""
EVENT_BYTES_MAX = 3_500_000
"""As it goes from broker to broker; with what stands around it, it must fit into a frame of a link."""
LARGE_BYTES = 1_000_000
"""Of a payload that may make an event too long; one below cannot."""
BROUGHT_MAX = 20_000
"""Events that gateways brought, of which it is known that they were there."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


class Events:
    """Makes events of messages, and remembers the messages of late ones: one object for all who get it."""

    payloads = Payloads()
    """How attributes are read, as the settings say."""

    def __init__(self, host: str, life: int, space: Space) -> None:
        self.host = host
        self.life = life
        self.space = space
        self.made = 0
        """How many events that are logged; those of QoS 0 have ids of their own."""
        self.passing_made = 0
        self.started_us: int | None = None
        self.brought: dict[str, str] = {}
        """By the id that an event had where it began, the id that it has here: what gateways brought, the latest."""
        self._messages: GenerationalCache[str, Message] = GenerationalCache(
            MESSAGES_KEPT_MAX, MESSAGES_KEPT_BYTES_MAX
        )

    def next_id(self, to_all: bool) -> str:
        self.made += 1
        return f"{self.host}.{self.life:x}.{self.made}{TO_ALL if to_all else ''}"

    def event_of(self, publisher: Context, message: Message, now_us: int) -> Event:
        """Raises `BadProperty`."""
        check_lasting(message)
        event_id = self.next_id(must_reach_all(message))
        event = self._event(event_id, publisher, message, now_us, True)
        if len(message.payload) > LARGE_BYTES and len(_encoder.encode(event)) > EVENT_BYTES_MAX:
            raise BadProperty(f"{len(message.payload)} bytes of payload are too many to be passed on")
        return event

    def event_for(self, publisher: Context, message: Message, now_us: int, attributes: dict[str, Value]) -> Event:
        """Of a message that the broker itself publishes on behalf of a client, with attributes that are known."""
        event_id = self.next_id(False)
        self._messages.put(event_id, message, len(message.payload))
        body = _encoder.encode(message)
        return Event(event_id, message.topic, publisher, now_us, now_us, attributes, body=body)

    def passing_event_of(self, publisher: Context, message: Message, now_us: int, travels: bool) -> Event:
        """The same of a message of QoS 0. Its id has the time of the first: nothing of it outlives the process.

        `travels` says that it may leave this broker, and must carry the message with it.
        """
        if self.started_us is None:
            self.started_us = now_us
        self.passing_made += 1
        event_id = f"{self.host}~{self.started_us:x}.{self.passing_made}"
        return self._event(event_id, publisher, message, now_us, travels)

    def _event(self, event_id: str, publisher: Context, message: Message, now_us: int, travels: bool) -> Event:
        body = _encoder.encode(message) if travels else None
        event = event_made_of(event_id, publisher, message, now_us, self.space, body, self.payloads)
        self._messages.put(event_id, message, len(message.payload))
        return event

    def is_copy(self, event: Event | None, message: Message) -> bool:
        """Whether another gateway brought the same before (L9). `event` is what the message has become here, if it
        has yet; from then on it is known."""
        try:
            origin = origin_in(message.user_properties) if message.user_properties else None
        except BadValue:
            return False
        if origin is None:
            return False
        if event is None or origin.id in self.brought:
            return origin.id in self.brought and (event is None or self.brought[origin.id] != event.id)
        if len(self.brought) >= BROUGHT_MAX:
            del self.brought[next(iter(self.brought))]
        self.brought[origin.id] = event.id
        return False

    def __getstate__(self) -> dict[str, object]:
        """Without what belongs to one life of the process: ids of QoS 0 must not come again, and messages are in
        their events."""
        return {**self.__dict__, "passing_made": 0, "started_us": None, "_messages": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._messages = GenerationalCache(MESSAGES_KEPT_MAX, MESSAGES_KEPT_BYTES_MAX)

    def carried_by(self, event: Event) -> Message | None:
        """The message that an event of another broker brings along, looked for nowhere else."""
        return None if event.body is None else message_in(event.body)

    def message_of(self, event: Event) -> Message | None:
        """The message that an event was made of; None if it was never one, or came without."""
        message = self._messages.get(event.id)
        if message is None and event.body is not None:
            message = message_in(event.body)
            if message is None:
                return None
            if message.expires_us is not None and not event.instantaneous:
                # It has come from a broker with another clock.
                message = replace(message, expires_us=event.expires_us)
            self._messages.put(event.id, message, len(message.payload))
        return message

    def seen(self, delivery: Delivery) -> Message | None:
        """What a client sees of a delivery."""
        message = self.message_of(delivery.event)
        if message is None or delivery.form is None or not delivery.form.origin:
            return message
        return told_origin(delivery.event, message)

    def modulated(self, event: Event, message: Message, made: Event, subscription_id: str) -> Event:
        """What a modulator made of an event and its message, with a message that says so: its attributes are the
        payload, unless they are what they were."""
        if made.attributes != event.attributes:
            payload = msgspec.json.encode({name: plain(value) for name, value in made.attributes.items()})
            message = replace(message, payload=payload)
        event_id = f"{made.id}{MADE_OF}{subscription_id}"
        self._messages.put(event_id, message, len(message.payload))
        return replace(made, id=event_id, body=_encoder.encode(message))


def message_in(body: bytes) -> Message | None:
    """None for bytes that are no message, or one that no client could be sent: another broker may be mistaken."""
    try:
        message = _decoder.decode(body)
        check_topic_name(message.topic)
    except (msgspec.MsgspecError, ValueError, RecursionError, BadPacket):
        return None
    return None if "\0" in message.topic else message


def event_made_of(
    event_id: str,
    publisher: Context,
    message: Message,
    now_us: int,
    space: Space,
    body: bytes | None,
    payloads: Payloads,
) -> Event:
    """What a message says in the model's words; raises `BadProperty` or `BadValue`."""
    relevance = audience = EVERYWHERE
    if message.user_properties:
        origin = origin_in(message.user_properties)
        if origin is not None:
            check_origin(origin, space)
            publisher = origin.publisher
        relevance, audience = scopes_of(publisher.host, message.user_properties, space)
        if origin is not None:
            relevance, audience = origin.relevance, origin.audience
    attributes = said_by(message, publisher, now_us, space, payloads)
    expires_us = now_us if message.expires_us is None else max(now_us, message.expires_us)
    return Event(event_id, message.topic, publisher, now_us, expires_us, attributes, relevance, audience, body)


def said_by(message: Message, publisher: Context, now_us: int, space: Space, payloads: Payloads) -> dict[str, Value]:
    """The attributes of what a publisher says now, among them where it is if it says no other place."""
    attributes = payloads.attributes_of(message.topic, message.payload, space)
    if "position" not in attributes and publisher.position is not None:
        here = publisher.position_at(now_us, space)
        if here is not None:
            attributes["position"] = here
    return attributes


def asks_origin(asked: Iterable[Subscription]) -> bool:
    return any((ORIGIN_PROPERTY, "true") in each.user_properties for each in asked)


def with_origin(event: Event, message: Message, asked: Iterable[Subscription]) -> Message:
    """As those see it who asked for origins: with the one that a gateway told, or else with what this event is."""
    return told_origin(event, message) if asks_origin(asked) else message


def told_origin(event: Event, message: Message) -> Message:
    if any(name == ORIGIN_PROPERTY for name, _ in message.user_properties):
        return message
    told = (ORIGIN_PROPERTY, origin_text(origin_of(event)))
    return replace(message, user_properties=(*message.user_properties, told))


def plain(value: Value) -> object:
    """As JSON says it."""
    match value:
        case Point(x, y):
            return [x, y]
        case Instant(us):
            return us
        case _:
            return value
