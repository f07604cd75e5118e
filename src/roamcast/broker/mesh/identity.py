"""System-wide event ids in a mesh: the broker at which an event came in, and a number that grows there (M3).

On a tree the events of one broker arrive everywhere in the order of their numbers. So a broker that keeps the last
number of each knows an event that comes again, as it does where a mesh is not wired as its parameters say and what
should be a tree has a loop: there the id ends what would otherwise go round for ever.
"""

from msgspec import Struct


class EventId(Struct, frozen=True, array_like=True):
    broker: str
    life: int
    """Which life of the broker: after a crash its numbers begin anew."""
    number: int


class EventIds:
    def __init__(self, broker: str, life: int, brokers_max: int) -> None:
        self.broker = broker
        self.life = life
        self.brokers_max = brokers_max
        self.number = 0
        self.last: dict[tuple[str, int], int] = {}
        """By broker and life; the one heard of longest ago comes first."""

    def next(self) -> EventId:
        self.number += 1
        return EventId(self.broker, self.life, self.number)

    def is_new(self, given: EventId) -> bool:
        if given.broker == self.broker and given.life == self.life:
            return False
        origin = (given.broker, given.life)
        before = self.last.pop(origin, 0)
        self.last[origin] = max(before, given.number)
        if len(self.last) > self.brokers_max:
            del self.last[next(iter(self.last))]
        return given.number > before
