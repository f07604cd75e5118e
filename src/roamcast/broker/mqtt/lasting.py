"""Messages that last: published with `persist`, for whoever comes to want them until they expire (C3).

Every broker keeps all of them, and looks once a second who has come into their reach since: by moving, by
subscribing, or because somebody else moved. Each subscription gets each of them once; which it has had goes with its
session from broker to broker.

Its publisher can withdraw one. Every broker remembers that, within a bound: the message may be on its way still, and
a broker that was cut off would bring it back.
"""

from collections.abc import Iterator
from typing import TypeAlias

from roamcast.broker.mqtt.properties import own_id_of
from roamcast.broker.mqtt.retained import ENDED_MAX, order_of
from roamcast.model.event import Event
from roamcast.mqtt.messages import Message

Named: TypeAlias = tuple[str, str, str]
"""What a publisher calls a message: by its own name, the topic, and the `id` that it gave."""
LOOK_EVERY_US = 1_000_000
TIMER = "lasting:"


class Lasting:
    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self.of: dict[str, tuple[Event, Message]] = {}
        """By the id of the event."""
        self.bytes = 0
        self.ended: dict[Named, Event] = {}
        """The events that withdrew them; the one that did so longest ago comes first."""

    def __setstate__(self, state: dict[str, object]) -> None:
        # Before messages could be withdrawn none was.
        self.__dict__.update({"ended": {}} | state)

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

    # Before their time.

    def is_withdrawn(self, event: Event, message: Message) -> bool:
        by = self.ended.get(name_of(event, message))
        return by is not None and order_of(event) < order_of(by)

    def named(self, by: Event, own_id: str) -> list[Event]:
        """What a publisher means with the `id` that it gave, on the topic on which it says so."""
        named = (by.publisher.host, by.subject, own_id)
        return [event for event, message in self.of.values() if name_of(event, message) == named]

    def retained_on(self, topic: str) -> list[Event]:
        return [event for event, message in self.of.values() if message.retain and message.topic == topic]

    def withdraw(self, by: Event, own_id: str) -> list[str]:
        """The ids of the events that end. It holds for what was published before and comes later, too."""
        name = (by.publisher.host, by.subject, own_id)
        before = self.ended.pop(name, None)
        self.ended[name] = by if before is None or order_of(before) < order_of(by) else before
        if len(self.ended) > ENDED_MAX:
            del self.ended[next(iter(self.ended))]
        return self._end(by, self.named(by, own_id))

    def empty(self, by: Event) -> list[str]:
        """A retained topic was emptied: so much of it as lasts ends with it."""
        return self._end(by, self.retained_on(by.subject))

    def _end(self, by: Event, meant: list[Event]) -> list[str]:
        return self._forget([event.id for event in meant if order_of(event) < order_of(by)])

    def expire(self, now_us: int) -> list[str]:
        return self._forget([each for each, (event, _) in self.of.items() if event.expires_us <= now_us])

    def _forget(self, event_ids: list[str]) -> list[str]:
        for each in event_ids:
            self.bytes -= self.of.pop(each)[1].size_bytes
        return event_ids

    def all(self) -> Iterator[Event]:
        """Everything that another broker must know to be like this one."""
        for event, _ in self.of.values():
            yield event
        yield from self.ended.values()

    def events(self) -> list[Event]:
        return [event for event, _ in self.of.values()]


def name_of(event: Event, message: Message) -> Named:
    return event.publisher.host, message.topic, own_id_of(message)
