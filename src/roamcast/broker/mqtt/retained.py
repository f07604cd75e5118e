"""Retained messages: the last one of each topic that was published so, for whoever subscribes later, at any broker.

Every broker keeps all of them. Of two messages of one topic the later one stays, by the clocks of the brokers that
took them; two of one microsecond are told apart by the ids of their events. That a topic was emptied is remembered
too, within a bound, or a broker that was cut off would bring back what is gone.
"""

from collections.abc import Iterator
from typing import Any

from roamcast.model.event import Event
from roamcast.model.subject import is_pattern
from roamcast.model.values import FOREVER_US
from roamcast.mqtt.messages import Message
from roamcast.mqtt.topics import TopicIndex

ENDED_MAX = 10_000


def order_of(event: Event) -> tuple[int, int, str]:
    """Of one broker the longer id is the later one."""
    return event.published_us, len(event.id), event.id


class Retained:
    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self.of: dict[str, tuple[Event, Message]] = {}
        self.ended: dict[str, Event] = {}
        """By topic, the event that emptied it; the one that did so longest ago comes first."""
        self.bytes = 0
        self._index = TopicIndex()
        self._expires_us = FOREVER_US
        """None of them expires before."""

    def __len__(self) -> int:
        return len(self.of)

    def __getstate__(self) -> dict[str, object]:
        state = {name: value for name, value in self.__dict__.items() if name not in ("_index", "_expires_us")}
        return {**state, "numbers": (self._index.numbers, self._index.last)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Before version 17 there were no numbers.
        numbers, last = state.pop("numbers", (None, 0))
        self.__dict__.update(state)
        self._index = TopicIndex(self.of, numbers)
        self._index.last = max(self._index.last, last)
        self._expires_us = self._first_to_expire_us()

    def has_room(self, message: Message, now_us: int) -> bool:
        """What has expired makes room where there is none."""
        if not message.payload or self._fits(message):
            return True
        if now_us < self._expires_us:
            return False
        for topic in [topic for topic, (_, kept) in self.of.items() if kept.expired(now_us)]:
            self._forget(topic)
        self._expires_us = self._first_to_expire_us()
        return self._fits(message)

    def _first_to_expire_us(self) -> int:
        ends_us = (message.expires_us for _, message in self.of.values() if message.expires_us is not None)
        return min(ends_us, default=FOREVER_US)

    def _fits(self, message: Message) -> bool:
        before = self.of.get(message.topic)
        count, size = (0, 0) if before is None else (1, before[1].size_bytes)
        return len(self.of) - count < self.messages_max and (self.bytes - size + message.size_bytes <= self.bytes_max)

    def keep(self, event: Event, message: Message, now_us: int) -> bool:
        """False if there is no room for it. An empty payload forgets what was kept."""
        topic = message.topic
        before = self.of[topic][0] if topic in self.of else self.ended.get(topic)
        if before is not None and order_of(before) >= order_of(event):
            return True
        if not self.has_room(message, now_us):
            return False
        self._forget(topic)
        if not message.payload:
            self._end(topic, event)
            return True
        self.ended.pop(topic, None)
        self.of[topic] = (event, message)
        self._index.add(topic)
        self.bytes += message.size_bytes
        if message.expires_us is not None:
            self._expires_us = min(self._expires_us, message.expires_us)
        return True

    def payload_of(self, topic: str) -> bytes:
        """Empty if nothing is kept of the topic."""
        found = self.of.get(topic)
        return b"" if found is None else found[1].payload

    def _forget(self, topic: str) -> None:
        before = self.of.pop(topic, None)
        if before is not None:
            self._index.remove(topic)
            self.bytes -= before[1].size_bytes

    def _end(self, topic: str, event: Event) -> None:
        self.ended.pop(topic, None)
        self.ended[topic] = event
        if len(self.ended) > ENDED_MAX:
            del self.ended[next(iter(self.ended))]

    @property
    def last(self) -> int:
        """The number of the message that came last."""
        return self._index.last

    def look(
        self, pattern: str, after: int, upto: int, now_us: int, topics_max: int
    ) -> tuple[list[tuple[int, Event, Message]], int, int]:
        """Messages on matching topics, with their numbers, in the order in which they came here, and what else
        `TopicIndex.look` says. Nothing is forgotten on the way, not even those whose time has
        passed: who looks at which topics may depend on what is not logged (`giving.py`)."""
        if is_pattern(pattern):
            topics, through, left = self._index.look(pattern, after, upto, topics_max)
        else:
            topics = [pattern] if after < self._index.numbers.get(pattern, 0) <= upto else []
            through, left = upto, topics_max - 1
        found: list[tuple[int, Event, Message]] = []
        for topic in topics:
            event, message = self.of[topic]
            if not message.expired(now_us):
                found.append((self._index.numbers[topic], event, message))
        return found, through, left

    def all(self) -> Iterator[Event]:
        """Everything that another broker must know to be like this one."""
        for event, _ in self.of.values():
            yield event
        yield from self.ended.values()
