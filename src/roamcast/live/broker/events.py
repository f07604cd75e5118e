"""Messages as events and back: what an MQTT client publishes, in the model's words (docs/PROTOCOL.md, section 2)."""

import msgspec

from roamcast.live.broker.content import attributes_of
from roamcast.live.broker.properties import scopes_of
from roamcast.live.mqtt.messages import Message
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.space import Space

MESSAGES_KEPT_MAX = 4_096

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


class Events:
    """Makes events of messages, and remembers the messages of late ones: one object for all who get it."""

    def __init__(self, host: str, life: int, space: Space) -> None:
        self.host = host
        self.life = life
        self.space = space
        self.made = 0
        """How many events that are logged; those of QoS 0 have ids of their own."""
        self.passing_made = 0
        self.started_us: int | None = None
        self._messages: dict[str, Message] = {}

    def event_of(self, publisher: Context, message: Message, now_us: int) -> Event:
        """Raises `BadProperty`."""
        self.made += 1
        return self._event(f"{self.host}.{self.life:x}.{self.made}", publisher, message, now_us, True)

    def passing_event_of(self, publisher: Context, message: Message, now_us: int, travels: bool) -> Event:
        """The same of a message of QoS 0. Its id has the time of the first: nothing of it outlives the process.

        `travels` says that it may leave this broker, and must carry the message with it.
        """
        if self.started_us is None:
            self.started_us = now_us
        self.passing_made += 1
        return self._event(
            f"{self.host}~{self.started_us:x}.{self.passing_made}", publisher, message, now_us, travels
        )

    def _event(self, event_id: str, publisher: Context, message: Message, now_us: int, travels: bool) -> Event:
        attributes = attributes_of(message.payload, self.space)
        if "position" not in attributes and publisher.position is not None:
            here = publisher.position_at(now_us, self.space)
            if here is not None:
                attributes["position"] = here
        relevance, audience = scopes_of(publisher.host, message.user_properties, self.space)
        expires_us = now_us if message.expires_us is None else max(now_us, message.expires_us)
        body = _encoder.encode(message) if travels else None
        self._remember(event_id, message)
        return Event(event_id, message.topic, publisher, now_us, expires_us, attributes, relevance, audience, body)

    def message_of(self, event: Event) -> Message | None:
        """The message that an event was made of; None if it was never one, or came without."""
        message = self._messages.get(event.id)
        if message is None and event.body is not None:
            try:
                message = _decoder.decode(event.body)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                return None
            self._remember(event.id, message)
        return message

    def _remember(self, event_id: str, message: Message) -> None:
        if len(self._messages) >= MESSAGES_KEPT_MAX:
            del self._messages[next(iter(self._messages))]
        self._messages[event_id] = message
