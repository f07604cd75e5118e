"""Messages that last: published with `persist`, for whoever comes to want them until they expire (C3).

Every broker keeps all of them, and looks once a second who has come into their reach since: by moving, by
subscribing, or because somebody else moved. Each subscription gets each of them once; which it has had goes with its
session from broker to broker.
"""

from collections.abc import Iterator

from roamcast.model.event import Event
from roamcast.mqtt.messages import Message

LOOK_EVERY_US = 1_000_000
TIMER = "lasting:"


class Lasting:
    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self.of: dict[str, tuple[Event, Message]] = {}
        """By the id of the event."""
        self.bytes = 0

    def __len__(self) -> int:
        return len(self.of)

    def __contains__(self, event_id: str) -> bool:
        return event_id in self.of

    def has_room(self, message: Message) -> bool:
        return len(self.of) < self.messages_max and self.bytes + message.size_bytes <= self.bytes_max

    def keep(self, event: Event, message: Message) -> bool:
        """False if there is no room for it."""
        if event.id in self.of:
            return True
        if not self.has_room(message):
            return False
        self.of[event.id] = (event, message)
        self.bytes += message.size_bytes
        return True

    def expire(self, now_us: int) -> list[str]:
        over = [each for each, (event, _) in self.of.items() if event.expires_us <= now_us]
        for each in over:
            self.bytes -= self.of.pop(each)[1].size_bytes
        return over

    def all(self) -> Iterator[Event]:
        for event, _ in self.of.values():
            yield event
