"""Retained messages: the last one of each topic that was published so, for whoever subscribes later."""

from collections.abc import Iterator

from roamcast.live.mqtt.messages import Message
from roamcast.live.mqtt.topics import matches
from roamcast.model.event import Event
from roamcast.model.subject import is_pattern


class Retained:
    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self.of: dict[str, tuple[Event, Message]] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self.of)

    def keep(self, event: Event, message: Message) -> bool:
        """False if there is no room for it. An empty payload forgets what was kept."""
        before = self.of.pop(message.topic, None)
        if before is not None:
            self.bytes -= before[1].size_bytes
        if not message.payload:
            return True
        if len(self.of) >= self.messages_max or self.bytes + message.size_bytes > self.bytes_max:
            return False
        self.of[message.topic] = (event, message)
        self.bytes += message.size_bytes
        return True

    def matching(self, pattern: str, now_us: int) -> Iterator[tuple[Event, Message]]:
        """In the order in which they were published; those whose time has passed are forgotten on the way."""
        topics = [topic for topic in self.of if matches(pattern, topic)] if is_pattern(pattern) else [pattern]
        for topic in topics:
            found = self.of.get(topic)
            if found is None:
                continue
            if found[1].expired(now_us):
                del self.of[topic]
                self.bytes -= found[1].size_bytes
                continue
            yield found
