"""Advertisements for MQTT clients, which make none: the broker advertises what they publish (docs/PROTOCOL.md, 16).

With `protocol.advertisements` a wish goes only to where what it wants is published, and a publication waits until it
is known who wants it (R1). MQTT has no word for that, so the first publication to a topic advertises that
topic, made by the broker for all of its clients together: one that comes, says something and goes would otherwise
have its topic advertised and withdrawn each time. A topic to which nobody has published for a while is withdrawn.

    QoS 1 and 2     wait in the session, and are acknowledged when they go out (`border.py`);
    of a session    that ends meanwhile, a will among them, wait here: they are in the log, and outlive the broker; of
                    one that goes to another broker, what its client will not say again there;
    QoS 0           reaches clients here at once; what is for other brokers waits here, and dies with the broker.

Each of these is bounded, and what finds no room is refused or counted. A topic for which something may wait is not
withdrawn, or that would go out to nobody. When the topic has settled
(`broker/advertising.py`), all of it goes out in the order in which it came.
"""

from collections import deque
from collections.abc import Callable, Iterable

from msgspec import Struct

from roamcast.broker.messages import Notified, Pub
from roamcast.broker.mqtt.effects import Remark
from roamcast.broker.mqtt.station import Station
from roamcast.broker.router import CLIENT
from roamcast.broker.session import Session
from roamcast.model.event import Event

HOUSE = "\0house"
"""As whose the broker advertises: no client can be called so."""
TIMER = "advertised:"
PASSING_MAX = 10_000
PASSING_BYTES_MAX = 16 * 1024 * 1024
"""Messages of QoS 0 that wait for their topic to settle."""


class Held(Struct, frozen=True):
    """A publication of a session that has ended, or gone to another broker."""

    event: Event
    serial: int


class Announcing:
    def __init__(self, station: Station, topics_max: int, idle_s: float) -> None:
        self.station = station
        self.topics_max = topics_max
        self.idle_us = round(idle_s * 1e6)
        self.topics: dict[str, int] = {}
        """What is advertised, and when it was last said so; the one said longest ago comes first."""
        self.clients: dict[str, None] = {}
        """Those of whom publications wait in their sessions."""
        self.held: deque[Held] = deque()
        self.release: Callable[[Event], None] | None = None
        """What hands a message of QoS 0 on to other brokers."""
        self._passing: dict[str, list[Event]] = {}
        """By topic."""
        self._passing_count = self._passing_bytes = 0
        advertising = station.broker.border.advertising
        self.on = advertising is not None
        if advertising is not None:
            station.border.advertised = self.is_settled
            station.border.leave_behind = self._left_behind

    def __getstate__(self) -> dict[str, object]:
        """Without what is not logged: QoS 0 dies with its broker, whether that goes on from a snapshot or the log."""
        return {**self.__dict__, "_passing": {}, "_passing_count": 0, "_passing_bytes": 0}

    # Topics.

    def asks(self, topic: str, now_us: int) -> bool:
        """Whether an input should say that something of QoS 0 is published to a topic, which is not logged itself."""
        said_us = self.topics.get(topic)
        if not self.on or (said_us is not None and now_us - said_us < self.idle_us // 2):
            return False
        return self.station.has_neighbours() and self._may_be_advertised(topic)

    def announce(self, topic: str) -> None:
        """Something is published to a topic."""
        if not self.on:
            return
        if not self._may_be_advertised(topic):
            self.station.emit(Remark("advertisement_refused", topic))
            return
        is_new = self.topics.pop(topic, None) is None
        self.topics[topic] = self.station.now_us
        if not is_new:
            return
        self._say(topic)
        self._make_room()
        if TIMER not in self.station.timers:
            self.station.timers.set(TIMER, self.station.now_us + self.idle_us)

    def _may_be_advertised(self, topic: str) -> bool:
        """What is not, for a bound, goes to where it is wanted already."""
        if topic in self.topics:
            return True
        return not self.station.broker.neighbours.router.full()

    def _say(self, topic: str) -> None:
        broker = self.station.broker
        if broker.border.advertising is not None:
            outgoing = broker.border.advertising.advertise(CLIENT + HOUSE, topic)
            self.station.perform(broker.neighbours.send(outgoing))

    def _make_room(self) -> None:
        """As far as the oldest have settled; the others are few, for the router has a bound of its own."""
        while len(self.topics) > self.topics_max and self.is_settled(oldest := next(iter(self.topics))):
            self._withdraw(oldest)

    def _withdraw(self, topic: str) -> None:
        broker = self.station.broker
        del self.topics[topic]
        if broker.border.advertising is not None:
            outgoing = broker.border.advertising.unadvertise(CLIENT + HOUSE, topic)
            self.station.perform(broker.neighbours.send(outgoing))

    def look_for_idle(self, _: str) -> None:
        """Nobody need be asked any more for what nobody publishes."""
        now_us = self.station.now_us
        for topic in [each for each, said_us in self.topics.items() if now_us - said_us >= self.idle_us]:
            if self.is_settled(topic):
                self._withdraw(topic)
            else:
                del self.topics[topic]
                self.topics[topic] = now_us
        oldest_us = next(iter(self.topics.values()), None)
        if oldest_us is not None:
            self.station.timers.set(TIMER, oldest_us + self.idle_us)

    def is_settled(self, topic: str) -> bool:
        """Whether everybody who wants something of a topic has been heard; of one that is not advertised, nobody is
        waited for."""
        advertising = self.station.broker.border.advertising
        return advertising is None or topic not in self.topics or advertising.is_settled(HOUSE, topic)

    # What waits.

    def published(self, session: Session) -> None:
        """A client has published with QoS 1 or 2: it may have to wait."""
        if session.publications:
            self.clients[session.client] = None

    def inherit(self, session: Session) -> None:
        """A session ends: what it has not got rid of is the broker's."""
        if self.on:
            publications, session.publications = session.publications, []
            self._inherit(session.client, publications)

    def _left_behind(self, session: Session) -> None:
        """It goes to another broker, where its client says again what was not acknowledged: not its will."""
        unsaid = [pub for pub in session.publications if pub.serial not in session.unaccepted]
        self._inherit(session.client, unsaid)

    def _inherit(self, client: str, publications: Iterable[Pub]) -> None:
        for pub in publications:
            if len(self.held) >= self.station.broker.params.publications_max:
                self.station.emit(Remark("publication_dropped", client))
            else:
                self.held.append(Held(pub.event, pub.serial))

    def keeps_back(self, event: Event) -> bool:
        """Whether a message of QoS 0 for other brokers waits here from now on, or is dropped for want of room."""
        if not self.on or self.is_settled(event.subject):
            return False
        size = len(event.body or b"")
        if self._passing_count >= PASSING_MAX or self._passing_bytes + size > PASSING_BYTES_MAX:
            self.station.emit(Remark("passing_dropped", event.subject))
            return True
        self._passing.setdefault(event.subject, []).append(event)
        self._passing_count += 1
        self._passing_bytes += size
        return True

    def let_out(self) -> None:
        """After each input: whatever need not wait any more."""
        border = self.station.border
        if border.settled_together:
            border.settled_together = False
            self._let_clients_publish()
            self._let_out_held()
            self._let_out_passing()
            self._make_room()

    def _let_clients_publish(self) -> None:
        broker = self.station.broker
        for name in list(self.clients):
            session = broker.border.sessions.get(name)
            if session is None or not session.publications:
                del self.clients[name]
            elif session.attachment.awaits is None and self.is_settled(session.publications[0].event.subject):
                self.station.perform(broker.border.publish_held(session))
                if not session.publications:
                    del self.clients[name]

    def _let_out_held(self) -> None:
        """In their order, those of one publisher: another topic may have settled before."""
        broker, blocked = self.station.broker, dict[str, None]()
        staying: deque[Held] = deque()
        for each in self.held:
            publisher = each.event.publisher.host
            if publisher in blocked or not self.is_settled(each.event.subject):
                blocked[publisher] = None
                staying.append(each)
                continue
            event_id = None if broker.border.ids is None else broker.border.ids.next()
            routed = broker.border.route(Notified(each.event, each.serial, event_id), CLIENT)
            self.station.perform(routed)
        self.held = staying

    def _let_out_passing(self) -> None:
        for topic in [each for each in self._passing if self.is_settled(each)]:
            for event in self._passing.pop(topic):
                self._passing_count -= 1
                self._passing_bytes -= len(event.body or b"")
                if self.release is not None:
                    self.station.goes_ahead(event.publisher.host, topic)
                    self.release(event)
