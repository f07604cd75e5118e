"""The last events of a broker with the way that each took here: from whom it came, to whom it went.

Bounded three ways: events, bytes of what they say, deliveries of all of them; beyond any the oldest event goes.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from roamcast.model.event import Event

EVENTS_MAX = 1_000
EVENTS_BYTES_MAX = 32 * 1024 * 1024
DELIVERIES_MAX = 100_000
"""Of all events."""
DELIVERED_MAX = 10_000
"""Of one event; more are counted."""
EVENT_BYTES = 1_000
"""About what an event takes without its content."""


class Way(Struct):
    number: int
    """It is the so-manieth event that was seen here."""
    event: Event
    seen_us: int
    payload: bytes
    from_client: str | None = None
    from_broker: str | None = None
    passed_to: dict[str, int] = field(default_factory=dict)
    """By neighbour, when."""
    delivered: dict[str, int] = field(default_factory=dict)
    """By client, when."""
    delivered_more: int = 0

    @property
    def size_bytes(self) -> int:
        # Attributes are made of the payload, and what goes to other brokers holds it once more.
        return EVENT_BYTES + 2 * len(self.payload) + len(self.event.body or b"")


class Ways:
    def __init__(self) -> None:
        self.seen = 0
        """How many events there were."""
        self._of: dict[str, Way] = {}
        self._bytes = 0
        self.deliveries = 0
        """Of those that are kept; there is room made for them when the next event comes."""

    def __len__(self) -> int:
        return len(self._of)

    def get(self, event_id: str) -> Way | None:
        return self._of.get(event_id)

    def add(self, event: Event, payload: bytes, seen_us: int) -> Way:
        self.seen += 1
        way = self._of[event.id] = Way(self.seen, event, seen_us, payload)
        self._bytes += way.size_bytes
        self._make_room()
        return way

    def deliver(self, way: Way, clients: Iterable[str], at_us: int) -> None:
        for client in clients:
            if client in way.delivered:
                continue
            if len(way.delivered) >= DELIVERED_MAX:
                way.delivered_more += 1
            else:
                way.delivered[client] = at_us
                self.deliveries += 1

    def newest(self) -> Iterator[Way]:
        return reversed(self._of.values())

    def after(self, number: int, most: int) -> list[Way]:
        """The newest of those after the so-manieth, in the order in which they were seen."""
        found: list[Way] = []
        for way in self.newest():
            if way.number <= number or len(found) >= most:
                break
            found.append(way)
        return found[::-1]

    def _make_room(self) -> None:
        while len(self._of) > 1 and self._overfull():
            way = self._of.pop(next(iter(self._of)))
            self._bytes -= way.size_bytes
            self.deliveries -= len(way.delivered)

    def _overfull(self) -> bool:
        return len(self._of) > EVENTS_MAX or self._bytes > EVENTS_BYTES_MAX or self.deliveries > DELIVERIES_MAX
