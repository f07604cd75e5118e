"""Looks on at a broker and keeps the last of everything, for pages that are open and for those that open later (L5).

What is kept is bounded: events with their ways (`ways.py`), where clients were (`past.py`), and rings of deliveries
(while a page is open) and handovers. A ring is read by number: whoever looks says how far it has read, so a slow page
costs nothing here.

A message whose subscribers are all plain and here may have no event: making one for each would slow the broker down.
It is noted as it came, and events are made of the last of them when somebody looks.
"""

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from roamcast.live.broker.core import Core
from roamcast.live.broker.events import event_made_of
from roamcast.live.broker.modulating import MADE_OF
from roamcast.live.broker.onlooker import Onlooker, PlainPlan
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.model.values import BadValue
from roamcast.mqtt.messages import Message
from roamcast.server.studio.past import Flips, Known, Past
from roamcast.server.studio.ways import DELIVERED_MAX, EVENTS_BYTES_MAX, EVENTS_MAX, Way, Ways

DELIVERIES_MAX = 5_000
HANDOVERS_MAX = 200
CLIENT_BYTES = 8
"""What a client takes among those that got a message."""
OWN = "$"
"""Topics that begin so are the brokers' own."""

Each = TypeVar("Each")


class Ring(Generic[Each]):
    """The last of something, and how many there were in all."""

    def __init__(self, most: int) -> None:
        self.seen = 0
        """Also those that nobody kept."""
        self._last: deque[Each] = deque(maxlen=most)

    def add(self, each: Each) -> None:
        self.seen += 1
        self._last.append(each)

    def after(self, number: int, most: int) -> list[Each]:
        """The newest of those after the so-manieth, in their order."""
        count = max(0, min(most, self.seen - number, len(self._last)))
        return [self._last[index] for index in range(len(self._last) - count, len(self._last))]


class Delivered(Struct, frozen=True, gc=False):
    event: str
    to: str
    at_us: int


class Handover(Struct, frozen=True, gc=False):
    client: str
    to: str
    at_us: int


class Plain(Struct, frozen=True, gc=False):
    """A message that no event was made of, and the clients that got it."""

    at_us: int
    publisher: Context
    message: Message
    clients: Sequence[tuple[str, ...]]

    @property
    def size_bytes(self) -> int:
        return len(self.message.payload) + CLIENT_BYTES * self.deliveries

    @property
    def deliveries(self) -> int:
        return sum(map(len, self.clients))


class Attendant:
    """Told of what is new while it is there; what it does not care for it leaves as it is."""

    def moved(self, client: str) -> None:
        return

    def gone(self, client: str) -> None:
        return

    def wanted(self, wanted: Subscription) -> None:
        return

    def unwanted(self, wanted: Subscription) -> None:
        return

    def seen(self, way: Way) -> None:
        return


class Watcher(Onlooker):
    def __init__(self, core: Core) -> None:
        self.core = core
        self.space = core.space
        self.past = Past()
        self.deliveries: Ring[Delivered] = Ring(DELIVERIES_MAX)
        self.handovers: Ring[Handover] = Ring(HANDOVERS_MAX)
        self.attendant: Attendant | None = None
        """The feed, while any page is open."""
        self._ways = Ways()
        self._plain: deque[Plain] = deque()
        """How many messages that is."""
        self._plain_bytes = 0
        self._plain_made = 0
        self._latest: Event | None = None
        """The event that was delivered last, with its way."""
        self._latest_way: Way | None = None
        self._began_us = core.station.now_us
        now_us = core.station.now_us
        for visitor in core.station.visitors.values():
            if visitor.epoch:
                self.past.put(now_us, visitor.client, Known(visitor.context, visitor.connected))

    @property
    def ways(self) -> Ways:
        """With all that has happened until now."""
        if self._plain:
            self._make_events()
        return self._ways

    # Clients.

    def here(self, context: Context) -> None:
        visitor = self.core.station.visitors.get(context.host)
        connected = visitor is not None and visitor.connected
        self.past.put(self.core.station.now_us, context.host, Known(context, connected))
        if self.attendant is not None:
            self.attendant.moved(context.host)

    def away(self, client: str) -> None:
        known = self.past.now.get(client)
        if known is not None and known.connected:
            self.past.put(self.core.station.now_us, client, Known(known.context, False))
            if self.attendant is not None:
                self.attendant.moved(client)

    def gone(self, client: str, to: str | None) -> None:
        if client in self.past.now:
            self.past.put(self.core.station.now_us, client, None)
            if self.attendant is not None:
                self.attendant.gone(client)
            if to:
                self.handovers.add(Handover(client, to, self.core.station.now_us))

    def subscribed(self, wanted: Subscription) -> None:
        if self.attendant is not None:
            self.attendant.wanted(wanted)

    def withdrawn(self, wanted: Subscription) -> None:
        if self.attendant is not None:
            self.attendant.unwanted(wanted)

    # Events.

    def published(self, client: str, event: Event) -> None:
        if not event.subject.startswith(OWN):
            self._seen(event).from_client = client

    def published_plainly(self, publisher: Context, message: Message, plan: PlainPlan) -> None:
        clients = [each for _, each in plan]
        plain = Plain(self.core.station.now_us, publisher, message, clients)
        self._plain.append(plain)
        self._plain_bytes += plain.size_bytes
        while len(self._plain) > 1 and self._is_overfull():
            dropped = self._plain.popleft()
            self._plain_bytes -= dropped.size_bytes
            self._ways.seen += 1
            self.deliveries.seen += dropped.deliveries

    def _is_overfull(self) -> bool:
        return len(self._plain) > EVENTS_MAX or self._plain_bytes > EVENTS_BYTES_MAX

    def heard(self, peer: str, event: Event) -> None:
        if not event.subject.startswith(OWN) and self._ways.get(event.id) is None:
            self._seen(event).from_broker = peer

    def passed_on(self, peer: str, event: Event) -> None:
        way = self._ways.get(event.id)
        if way is not None:
            way.passed_to.setdefault(peer, self.core.station.now_us)

    def delivered(self, client: str, event: Event) -> None:
        # Most come in a row for one event, and there are more of them than of anything else.
        if event is not self._latest:
            self._latest, self._latest_way = event, self._way_of(event)
        station, way = self.core.station, self._latest_way
        visitor = station.visitors.get(client)
        if way is None or visitor is None or not (visitor.connected or visitor.coming):
            return
        if self.attendant is not None or len(way.delivered) >= DELIVERED_MAX:
            self._deliver(way, (client,), station.now_us)
        else:
            if client not in way.delivered:
                way.delivered[client] = station.now_us
                self._ways.deliveries += 1
            self.deliveries.seen += 1

    def _way_of(self, event: Event) -> Way | None:
        name = event.id.partition(MADE_OF)[0]
        way = self._ways.get(name)
        if way is not None or event.subject.startswith(OWN) or name != event.id:
            return way
        return self._seen(event)

    def _seen(self, event: Event) -> Way:
        if self._plain:
            # In the order in which they came.
            self._make_events()
        message = self.core.events.message_of(event)
        return self._add(event, b"" if message is None else message.payload, self.core.station.now_us)

    def _add(self, event: Event, payload: bytes, at_us: int) -> Way:
        # The one that was delivered last may have had to go.
        self._latest = None
        way = self._ways.add(event, payload, at_us)
        if self.attendant is not None:
            self.attendant.seen(way)
        return way

    def _deliver(self, way: Way, clients: Sequence[str], at_us: int) -> None:
        self._ways.deliver(way, clients, at_us)
        if self.attendant is None:
            # A page begins with what comes next, so nobody will ask for these.
            self.deliveries.seen += len(clients)
            return
        for client in clients:
            self.deliveries.add(Delivered(way.event.id, client, at_us))

    # Messages without events.

    def _make_events(self) -> None:
        plain, self._plain = self._plain, deque()
        self._plain_bytes = 0
        flips = self.past.flips(plain[0].at_us)
        for each in plain:
            self._make_event(each, each.message, flips)

    def _make_event(self, plain: Plain, message: Message, flips: Flips) -> None:
        self._plain_made += 1
        event_id = f"{self.core.host}~{self._began_us:x}p{self._plain_made}"
        try:
            event = event_made_of(event_id, plain.publisher, message, plain.at_us, self.space)
        except BadValue:
            # No broker would make one of it either.
            self._ways.seen += 1
            return
        way = self._add(event, message.payload, plain.at_us)
        way.from_client = plain.publisher.host
        for clients in plain.clients:
            got = [client for client in clients if self.past.was_connected(client, plain.at_us, flips)]
            self._deliver(way, got, plain.at_us)

    # Counting.

    def counted(self) -> tuple[int, int]:
        """How many events and deliveries there were."""
        waiting = sum(each.deliveries for each in self._plain)
        return self._ways.seen + len(self._plain), self.deliveries.seen + waiting
