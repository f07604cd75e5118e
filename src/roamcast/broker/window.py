"""The deliveries to one client that are not finished: Rebeca's virtual counterpart, and MQTT's queue (R3, P-32).

A delivery is a number and what stands behind it. Numbers belong to the session: they go on from broker to broker, and
MQTT's packet identifiers are made of them (P-36). States of a number:

    not yet (from `next_number` on)
      --add--> waiting, sent or not       in `entries`
      --receive--> received (QoS 2)       in `received`: the client has it, and PUBCOMP has not come
      --finish, acknowledge--> done       nowhere: below `first`, or a hole between others

Clients of the papers acknowledge a number and all before it, those of MQTT each by itself: a cumulative
acknowledgement is many single ones, so there is one window for both. What was sent is not in it. A connection counts
that by itself (a cursor), and after a crash or a move everything up to `sent_through` counts as sent.

Bounded in count, in bytes, and in the span from the first unfinished number to the last: with more than that, two
deliveries could have one packet identifier. A window that `evicts` drops its oldest for a new one and counts that in
`lost`; of any other the border asks first whether there is room.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from roamcast.model.event import Event
from roamcast.mqtt.messages import Form

NUMBER_MAX = 2**53
"""Beyond it a number does not travel safely."""
SPAN_MAX = 60_000
"""How far apart the numbers of unfinished deliveries may be: packet identifiers have 16 bits."""


class Delivery(Struct, frozen=True, array_like=True, gc=False):
    """An event for a client. Clients that get it for subscriptions of the same names, in the same form, share it."""

    event: Event
    serial: int
    """Of its publisher: it grows with each of its publications."""
    subscriptions: tuple[str, ...]
    """The names of those of the client's subscriptions that it is for."""
    form: Form | None = None
    """How a client of MQTT sees it."""

    @property
    def size_bytes(self) -> int:
        return len(self.event.body or b"")


class Bounds(Struct, frozen=True):
    entries_max: int
    marks_max: int
    bytes_max: int = NUMBER_MAX
    span_max: int = SPAN_MAX
    evicts: bool = True


class WindowState(Struct, frozen=True, array_like=True):
    """What travels of a window beside its entries."""

    next_number: int = 1
    sent_through: int = 0
    received: tuple[int, ...] = ()
    marks: tuple[tuple[str, int], ...] = ()
    lost: int = 0


class Window:
    __slots__ = ("bounds", "bytes", "entries", "first", "lost", "marks", "next_number", "received", "sent_through")

    def __init__(self, bounds: Bounds, next_number: int = 1) -> None:
        self.bounds = bounds
        self.next_number = self.first = next_number
        """`first` is the first that is not done, or the next."""
        self.entries: dict[int, Delivery] = {}
        self.bytes = 0
        """Of the bodies of the entries."""
        self.received: dict[int, None] = {}
        self.marks: dict[str, int] = {}
        """By publisher, the serial of its last event numbered here; the one heard of longest ago comes first."""
        self.lost = 0
        """Dropped and not yet told to the client."""
        self.sent_through = 0

    def __len__(self) -> int:
        """How many are not done."""
        return len(self.entries) + len(self.received)

    # Deliveries come in.

    def has_room(self, size_bytes: int, held: int = 0) -> bool:
        """Whether `held` others and another one may wait, of so many bytes together."""
        bounds = self.bounds
        return (
            len(self.entries) + len(self.received) + held < bounds.entries_max
            and self.bytes + size_bytes <= bounds.bytes_max
            and self.next_number + held - self.first < bounds.span_max
        )

    def add(self, delivery: Delivery) -> int:
        """Its number."""
        number, event = self.next_number, delivery.event
        self.next_number = number + 1
        self.entries[number] = delivery
        if event.body is not None:
            self.bytes += len(event.body)
        self.mark(event.publisher.host, delivery.serial)
        if self.bounds.evicts:
            self._evict()
        return number

    def add_run(self, run: Sequence[Delivery], size_bytes: int, body_bytes: int) -> int:
        """Several of one publisher, with so many bytes of messages and of bodies; the number of the last, or 0 if
        there is no room for all of them."""
        entries, number, bounds, count = self.entries, self.next_number, self.bounds, len(run)
        end = number + count
        if (
            len(entries) + len(self.received) + count > bounds.entries_max
            or self.bytes + size_bytes > bounds.bytes_max
            or end - self.first > bounds.span_max
        ):
            return 0
        for delivery in run:
            entries[number] = delivery
            number += 1
        self.next_number = end
        self.bytes += body_bytes
        self.mark(delivery.event.publisher.host, delivery.serial)
        return end - 1

    def keep(self, number: int, delivery: Delivery) -> bool:
        """What was numbered elsewhere. False if it was here before: a piece of a replay may come twice."""
        if number < self.next_number:
            return False
        if self.first == self.next_number:
            self.first = number
        self.next_number = number
        self.add(delivery)
        return True

    def _evict(self) -> None:
        if len(self.entries) > self.bounds.entries_max:
            self.finish(self.first)
            self.lost += 1

    def mark(self, publisher: str, serial: int) -> None:
        marks = self.marks
        before = marks.pop(publisher, serial)
        marks[publisher] = serial if serial > before else before
        if len(marks) > self.bounds.marks_max:
            del marks[next(iter(marks))]

    def is_new(self, publisher: str, serial: int) -> bool:
        """Whether an event is behind all that this client has of its publisher."""
        return serial > self.marks.get(publisher, serial - 1)

    # The client has them.

    def finish(self, number: int) -> bool:
        """The client has this one, or can never get it. False if it was done before."""
        delivery = self.entries.pop(number, None)
        if delivery is not None:
            body = delivery.event.body
            if body is not None:
                self.bytes -= len(body)
        elif number in self.received:
            del self.received[number]
        else:
            return False
        if number == self.first:
            self._advance()
        return True

    def finish_all(self, numbers: Iterable[int]) -> None:
        entries, first = self.entries, self.first
        for number in numbers:
            delivery = entries.pop(number, None)
            if delivery is None:
                self.received.pop(number, None)
            elif delivery.event.body is not None:
                self.bytes -= len(delivery.event.body)
            if number == first:
                self._advance()
                first = self.first

    def _advance(self) -> None:
        if not self.entries and not self.received:
            self.first = self.next_number
            return
        for number in range(self.first, self.first + SPAN_MAX):
            if number in self.entries or number in self.received:
                self.first = number
                return
        # A broker that is mistaken sent numbers farther apart than any can be.
        self.first = min((*self.entries, *self.received))

    def acknowledge(self, number: int) -> None:
        """The client has this one and all before it."""
        while self.first <= number and self.first < self.next_number:
            self.finish(self.first)

    def skip(self) -> None:
        """Number on where no broker can have come to: the last one kept numbering, and its replay never came."""
        if not len(self):
            self.first += SPAN_MAX
        self.next_number += SPAN_MAX

    def receive(self, number: int) -> bool:
        """The client has this one (PUBREC), and says so once more (PUBCOMP) before it is done."""
        delivery = self.entries.pop(number, None)
        if delivery is None:
            return False
        self.bytes -= delivery.size_bytes
        self.received[number] = None
        return True

    def after(self, number: int) -> list[tuple[int, Delivery]]:
        """What a client that has everything up to a number, or its next broker, still lacks."""
        return [each for each in self.entries.items() if each[0] > number]

    # It goes to another broker.

    def state(self, through: int = 0) -> WindowState:
        """`through` is the last that may have been sent, where somebody knows of later ones."""
        return WindowState(
            self.next_number,
            max(self.sent_through, through),
            tuple(self.received),
            tuple(self.marks.items()),
            self.lost,
        )

    def take_over(self, state: WindowState) -> None:
        """The entries are here already. Another broker may be mistaken: what it says must be possible."""
        for publisher, serial in state.marks:
            self.mark(publisher, serial)
        self.lost += state.lost
        self.sent_through = max(self.sent_through, state.sent_through)
        self.next_number = max(self.next_number, state.next_number)
        self._receive_elsewhere(state.received)

    def _receive_elsewhere(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number < self.next_number and number not in self.entries:
                self.received[number] = None
        self.first = min((*self.received, next(iter(self.entries), self.next_number)))
