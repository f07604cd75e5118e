"""Delivery in the order of the sender (S14): a hold-back buffer for each stream, bounded in number and in time.

An event whose predecessor is missing waits. When the predecessor comes, from a slower path or by recovery, both go on
in order; when it has not come after `order_wait_ms`, or the buffer is full, it is given up, and what waited goes on.
An event that comes after it was given up is dropped: order was promised.
"""

from msgspec import Struct

from roamcast.model.context import Context
from roamcast.model.event import Delivery, Event


class Arrival(Struct, frozen=True):
    """An event at a consumer, with the time of its publication by the consumer's own clock."""

    event: Event
    delivery: Delivery
    published_us: int
    seen: Context | None = None
    """The producer as a beacon told of it since the event was raised: it says better where a mobile proximity is."""


class Order:
    """The next number to be delivered, and what waits for it. A number without an arrival is one to pass over."""

    __slots__ = ("following", "held", "held_max", "since_us")

    def __init__(self, following: int, held_max: int) -> None:
        self.following = following
        self.held_max = held_max
        self.held: dict[int, Arrival | None] = {}
        self.since_us: int | None = None
        """Since when the gap in front of `held` has been waited for."""

    def take(self, now_us: int, sequence: int, arrival: Arrival | None) -> list[Arrival] | None:
        """What can be delivered now that this came, in order; None when it came too late."""
        if sequence < self.following:
            return None
        self.held[sequence] = arrival
        released = self._run()
        while len(self.held) > self.held_max:
            released += self._skip_gap()
        if not self.held:
            self.since_us = None
        elif released or self.since_us is None:
            self.since_us = now_us
        return released

    def give_up(self, now_us: int) -> list[Arrival]:
        """The gap in front is given up: what waited behind it, up to the next gap."""
        released = self._skip_gap() if self.held else []
        self.since_us = now_us if self.held else None
        return released

    def _skip_gap(self) -> list[Arrival]:
        self.following = min(self.held)
        return self._run()

    def _run(self) -> list[Arrival]:
        released = []
        while self.following in self.held:
            arrival = self.held.pop(self.following)
            self.following += 1
            if arrival is not None:
                released.append(arrival)
        return released
