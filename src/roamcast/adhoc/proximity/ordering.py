"""Delivery in the order of the sender (S14): a hold-back buffer for each stream, bounded in number and in time.

An event whose predecessor is missing waits. When the predecessor comes, from a slower path or by recovery, both go on
in order; when it has not come after `order_wait_ms`, or the buffer is full, it is given up, and what waited goes on.
An event that comes after it was given up is dropped: order was promised.

An event that lasts can be owed once more after its turn: to a subscription made later, or because this host was not
in the proximity when it first came. The buffer then takes a step back (`owe`), and `reached` keeps a subscription
that is further on from seeing what lies behind it.
"""

from collections.abc import Iterable

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
    sequence: int = 0
    reached: dict[str, int] | None = None
    """For an event in order, how far each subscription has come in its stream."""
    inside_us: int | None = None
    """When this host was found to be in the event's audience; None if that was not asked yet."""


class Order:
    """The next number to be delivered, and what waits for it. A number without an arrival is one to pass over."""

    __slots__ = ("following", "held", "held_max", "owed", "reached", "since_us")

    def __init__(self, following: int, held_max: int) -> None:
        self.following = following
        self.held_max = held_max
        self.held: dict[int, Arrival | None] = {}
        self.owed: dict[int, None] = {}
        """Numbers before `following` that are to come once more, and first."""
        self.reached: dict[str, int] = {}
        """The latest number that each subscription was given."""
        self.since_us: int | None = None
        """Since when the gap in front of `held` has been waited for."""

    def owe(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number < self.following:
                self.owed[number] = None

    def expect_only(self, missing: Iterable[int]) -> None:
        """Nothing waits for what nobody will ask for any more."""
        wanted = dict.fromkeys(missing)
        self.owed = {number: None for number in self.owed if number in wanted or number in self.held}
        ahead = [number for number in (*wanted, *self.held) if number >= self.following]
        if ahead:
            self.following = min(ahead)

    def take(self, now_us: int, sequence: int, arrival: Arrival | None) -> list[Arrival] | None:
        """What can be delivered now that this came, in order; None when it came too late."""
        if sequence < self.following and sequence not in self.owed:
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
        first = min(self.held)
        self.owed = {number: None for number in self.owed if number >= first}
        if not self.owed:
            self.following = max(self.following, first)
        return self._run()

    def _run(self) -> list[Arrival]:
        released: list[Arrival] = []
        while True:
            number = min(self.owed) if self.owed else self.following
            if number not in self.held:
                return released
            arrival = self.held.pop(number)
            if self.owed:
                del self.owed[number]
            else:
                self.following += 1
            if arrival is not None:
                released.append(arrival)
