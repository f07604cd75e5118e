"""Looks on at a broker and keeps the last of everything, for pages that are open and for those that open later (L5).

What is kept is bounded: events with their ways (`ways.py`), where clients were (`past.py`), and rings of deliveries
(while a page is open) and handovers. A ring is read by number: whoever looks says how far it has read, so a slow page
costs nothing here.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.fencing import TRANSITIONS
from roamcast.journal.records import FENCE_PUT, FENCE_REMOVED
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.node.observer import Observer, SubscriptionIds
from roamcast.server.studio.latencies import Latencies
from roamcast.server.studio.past import Known, Past
from roamcast.server.studio.ways import Way, Ways

DELIVERIES_MAX = 5_000
HANDOVERS_MAX = 200
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


class Attendant:
    """Told of what is new while it is there; what it does not care for it leaves as it is."""

    def moved(self, client: str) -> None:
        return

    def gone(self, client: str) -> None:
        return

    def wanted(self, wanted: Subscription) -> None:
        return

    def unwanted(self, host: str, subscription_id: str) -> None:
        return

    def seen(self, way: Way) -> None:
        return

    def fenced(self, name: str) -> None:
        return


class Watcher(Observer):
    def __init__(self, core: Core) -> None:
        self.core = core
        self.space = core.space
        self.attendant: Attendant | None = None
        """The feed, while any page is open."""
        self.when_failed: Callable[[], None] | None = None
        self.begin()

    def begin(self) -> None:
        """With who is here, and without a past."""
        now_us = self.core.border.now_us
        self.ways = Ways()
        self.published_here = 0
        """Events of clients of this broker: each is counted at one broker alone."""
        self.latencies = Latencies()
        self.past = Past()
        self.deliveries: Ring[Delivered] = Ring(DELIVERIES_MAX)
        self.handovers: Ring[Handover] = Ring(HANDOVERS_MAX)
        for session in self.core.border.sessions.values():
            self.past.put(now_us, session.client, Known(session.context, session.connected))
        self.past.since_us = now_us

    def failed(self) -> None:
        if self.when_failed is not None:
            self.when_failed()

    # Clients.

    def moved(self, now_us: int, context: Context) -> None:
        session = self.core.border.sessions.get(context.host)
        connected = session is not None and session.connected
        self.past.put(now_us, context.host, Known(context, connected))
        if self.attendant is not None:
            self.attendant.moved(context.host)

    def disconnected(self, now_us: int, host: str) -> None:
        known = self.past.now.get(host)
        if known is not None and known.connected:
            self.past.put(now_us, host, Known(known.context, False))
            if self.attendant is not None:
                self.attendant.moved(host)

    def gone(self, now_us: int, host: str, to: str | None = None) -> None:
        if host in self.past.now:
            self.past.put(now_us, host, None)
            if self.attendant is not None:
                self.attendant.gone(host)
            if to:
                self.handovers.add(Handover(host, to, now_us))

    def subscribed(self, now_us: int, host: str, subscription: Subscription) -> None:
        if self.attendant is not None:
            self.attendant.wanted(subscription)

    def unsubscribed(self, now_us: int, host: str, subscription_id: str) -> None:
        if self.attendant is not None:
            self.attendant.unwanted(host, subscription_id)

    subscribed_unmodelled = subscribed
    unsubscribed_unmodelled = unsubscribed

    def noted(self, now_us: int, host: str, what: str, detail: str) -> None:
        if what in (FENCE_PUT, FENCE_REMOVED) and self.attendant is not None:
            self.attendant.fenced(detail.partition("\n")[0])

    # Events.

    def published(self, now_us: int, host: str, event: Event) -> None:
        if is_shown(event):
            self.published_here += 1
            self._seen(now_us, event).from_client = host

    def heard(self, now_us: int, peer: str, event: Event) -> None:
        if is_shown(event) and self.ways.get(event.id) is None:
            self._seen(now_us, event).from_broker = peer

    def forwarded(self, now_us: int, peer: str, event: Event) -> None:
        way = self.ways.get(event.id)
        if way is not None:
            way.passed_to.setdefault(peer, now_us)

    def fanned_out(self, now_us: int, event: Event, hosts: Sequence[str], subscription_ids: SubscriptionIds) -> None:
        if not is_shown(event):
            return
        sessions = self.core.border.sessions
        got = [
            host
            for host in dict.fromkeys(hosts)
            if host in sessions and (sessions[host].connected or sessions[host].coming)
        ]
        way = self.ways.get(event.id) or self._seen(now_us, event)
        self.ways.deliver(way, got, now_us)
        if self.attendant is None:
            # A page begins with what comes next, so nobody will ask for these.
            self.deliveries.seen += len(got)
            return
        if got:
            self.latencies.add(now_us - event.published_us, len(got))
        for host in got:
            self.deliveries.add(Delivered(event.id, host, now_us))

    def _seen(self, now_us: int, event: Event) -> Way:
        message = self.core.events.message_of(event)
        if message is not None and message.expires_us is not None and event.instantaneous:
            # Until then it may be delivered, though it holds at its publication alone.
            event = replace(event, expires_us=max(event.published_us, message.expires_us))
        way = self.ways.add(event, b"" if message is None else message.payload, now_us)
        if self.attendant is not None:
            self.attendant.seen(way)
        return way

    # Counting.

    def counted(self) -> tuple[int, int, int]:
        """How many events were published here, how many were seen, and how many deliveries there were."""
        return self.published_here, self.ways.seen, self.deliveries.seen


def is_shown(event: Event) -> bool:
    """Of what brokers say themselves, only that somebody has passed a fence."""
    return not event.subject.startswith(OWN) or event.subject.startswith(TRANSITIONS)
