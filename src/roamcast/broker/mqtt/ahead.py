"""What of QoS 0 has gone ahead to the disk, and must not be overtaken (L2).

A message of QoS 0 that is retained or lasts goes through the log, and what comes of it waits there until it is
stored. A plain one of the same publisher and topic goes past the log and would be there first, at clients and at
neighbours; MQTT wants both in the order in which they came (section 4.6). So of each publisher and
topic it is known here what still waits, and who comes later stays behind that. All others go as fast as ever.

The state machine marks what it has sent through the log, and the server takes the marks with the effects of the same
input. None of this is state: where a log is read again nobody looks.
"""

from typing import TypeAlias

from roamcast.broker.mqtt.effects import CaughtUp
from roamcast.model.values import BadValue
from roamcast.mqtt.messages import Message
from roamcast.mqtt.origin import origin_in

Key: TypeAlias = tuple[str, str]
"""Publisher and topic."""


class Ahead:
    def __init__(self) -> None:
        self.marked: dict[Key, None] = {}
        """Since somebody took them."""
        self.waiting: dict[Key, int] = {}
        """How much of each is not performed yet."""

    def mark(self, publisher: str, topic: str) -> None:
        self.marked[publisher, topic] = None

    def take(self) -> CaughtUp:
        """To be performed behind all that was marked."""
        keys, self.marked = tuple(self.marked), {}
        for key in keys:
            self.waiting[key] = self.waiting.get(key, 0) + 1
        return CaughtUp(keys)

    def caught_up(self, keys: tuple[Key, ...]) -> None:
        for key in keys:
            self.waiting[key] -= 1
            if not self.waiting[key]:
                del self.waiting[key]


def keys_of(client: str, message: Message) -> tuple[Key, ...]:
    """Under which a message of a client here may wait: the client's, and that of whom it speaks for (P-72), since
    events know their publisher alone."""
    try:
        origin = origin_in(message.user_properties) if message.user_properties else None
    except BadValue:
        origin = None
    own = (client, message.topic)
    return (own,) if origin is None else (own, (origin.publisher.host, message.topic))
