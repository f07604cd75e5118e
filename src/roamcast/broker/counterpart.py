"""What a border broker keeps for one client: Rebeca's virtual counterpart (R3).

Every event for the client gets the next number of its session. While the client is attached it is sent at once and
kept until acknowledged; while it is away it waits here. `after(number)` is what a client, or its next broker, still
lacks. Bounded in number; what falls out is counted in `lost` and told to the client.
"""

from collections import deque

from roamcast.broker.messages import Numbered
from roamcast.model.event import Event


class Counterpart:
    def __init__(self, events_max: int, marks_max: int, next_number: int = 1) -> None:
        self.events_max = events_max
        self.marks_max = marks_max
        self.next_number = next_number
        self.kept: deque[Numbered] = deque()
        self.kept_bytes = 0
        """Of the bodies of what is kept."""
        self.lost = 0
        """Dropped and not yet told to the client."""
        self.marks: dict[str, int] = {}
        """By publisher, the serial of its last event numbered here; the one heard of longest ago comes first."""

    def add(self, event: Event, serial: int, subscriptions: tuple[str, ...]) -> Numbered:
        numbered = Numbered(self.next_number, event, serial, subscriptions)
        self.next_number += 1
        self.keep(numbered)
        return numbered

    def keep(self, numbered: Numbered) -> None:
        self.kept.append(numbered)
        self.kept_bytes += body_bytes(numbered)
        self.mark(numbered.event.publisher.host, numbered.serial)
        if len(self.kept) > self.events_max:
            self._drop_first()
            self.lost += 1

    def _drop_first(self) -> None:
        self.kept_bytes -= body_bytes(self.kept.popleft())

    def mark(self, publisher: str, serial: int) -> None:
        self.marks[publisher] = max(serial, self.marks.pop(publisher, serial))
        if len(self.marks) > self.marks_max:
            del self.marks[next(iter(self.marks))]

    def is_new(self, publisher: str, serial: int) -> bool:
        """Whether an event is behind all that this client has of its publisher."""
        return serial > self.marks.get(publisher, serial - 1)

    def acknowledge(self, number: int) -> None:
        while self.kept and self.kept[0].number <= number:
            self._drop_first()

    def after(self, number: int) -> list[Numbered]:
        return [each for each in self.kept if each.number > number]


def body_bytes(numbered: Numbered) -> int:
    return len(numbered.event.body or b"")
