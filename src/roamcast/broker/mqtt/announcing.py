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
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from roamcast.broker.messages import Notified, Pub
from roamcast.broker.mqtt.effects import Remark
from roamcast.broker.router import CLIENT
from roamcast.broker.session import Session
from roamcast.model.event import Event

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder

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
    def __init__(self, border: "MqttBorder", topics_max: int, idle_s: float) -> None:
        self.border = border
        self.topics_max = topics_max
        self.idle_us = round(idle_s * 1e6)
        self.topics: dict[str, int] = {}
        """What is advertised, and when it was last said so; the one said longest ago comes first."""
        self.clients: dict[str, None] = {}
        """Those of whom publications wait in their sessions."""
        self.held: deque[Held] = deque()
        self._passing: dict[str, list[Event]] = {}
        """By topic."""
        self._passing_count = self._passing_bytes = 0
        self.on = border.advertising is not None

    def __getstate__(self) -> dict[str, object]:
        """Without what is not logged: QoS 0 dies with its broker, whether that goes on from a snapshot or the log."""
        return {**self.__dict__, "_passing": {}, "_passing_count": 0, "_passing_bytes": 0}

    # Topics.

    def asks(self, topic: str, now_us: int) -> bool:
        """Whether an input should say that something of QoS 0 is published to a topic, which is not logged itself."""
        said_us = self.topics.get(topic)
        if not self.on or (said_us is not None and now_us - said_us < self.idle_us // 2):
            return False
        return self.border.has_neighbours() and self._may_be_advertised(topic)

    def announce(self, topic: str) -> None:
        """Something is published to a topic."""
        if not self.on:
            return
        if not self._may_be_advertised(topic):
            self.border.emit(Remark("advertisement_refused", topic))
            return
        is_new = self.topics.pop(topic, None) is None
        self.topics[topic] = self.border.now_us
        if not is_new:
            return
        self._say(topic)
        self._make_room()
        if TIMER not in self.border.timers:
            self.border.timers.set(TIMER, self.border.now_us + self.idle_us)

    def _may_be_advertised(self, topic: str) -> bool:
        """What is not, for a bound, goes to where it is wanted already."""
        if topic in self.topics:
            return True
        return not self.border.neighbours.router.full()

    def _say(self, topic: str) -> None:
        if self.border.advertising is not None:
            outgoing = self.border.advertising.advertise(CLIENT + HOUSE, topic)
            self.border.finish(self.border.neighbours.send(outgoing))

    def _make_room(self) -> None:
        """As far as the oldest have settled; the others are few, for the router has a bound of its own."""
        while len(self.topics) > self.topics_max and self.is_settled(oldest := next(iter(self.topics))):
            self._withdraw(oldest)

    def _withdraw(self, topic: str) -> None:
        del self.topics[topic]
        if self.border.advertising is not None:
            outgoing = self.border.advertising.unadvertise(CLIENT + HOUSE, topic)
            self.border.finish(self.border.neighbours.send(outgoing))

    def look_for_idle(self, _: str) -> None:
        """Nobody need be asked any more for what nobody publishes."""
        now_us = self.border.now_us
        for topic in [each for each, said_us in self.topics.items() if now_us - said_us >= self.idle_us]:
            if self.is_settled(topic):
                self._withdraw(topic)
            else:
                del self.topics[topic]
                self.topics[topic] = now_us
        oldest_us = next(iter(self.topics.values()), None)
        if oldest_us is not None:
            self.border.timers.set(TIMER, oldest_us + self.idle_us)

    def is_settled(self, topic: str) -> bool:
        """Whether everybody who wants something of a topic has been heard; of one that is not advertised, nobody is
        waited for."""
        advertising = self.border.advertising
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

    def leave_behind(self, session: Session) -> None:
        """It goes to another broker, where its client says again what was not acknowledged: not its will."""
        if not self.on:
            return
        unsaid = [pub for pub in session.publications if pub.serial not in session.unaccepted]
        self._inherit(session.client, unsaid)

    def _inherit(self, client: str, publications: Iterable[Pub]) -> None:
        for pub in publications:
            if len(self.held) >= self.border.params.publications_max:
                self.border.emit(Remark("publication_dropped", client))
            else:
                self.held.append(Held(pub.event, pub.serial))

    def keeps_back(self, event: Event) -> bool:
        """Whether a message of QoS 0 for other brokers waits here from now on, or is dropped for want of room."""
        if not self.on or self.is_settled(event.subject):
            return False
        size = len(event.body or b"")
        if self._passing_count >= PASSING_MAX or self._passing_bytes + size > PASSING_BYTES_MAX:
            self.border.emit(Remark("passing_dropped", event.subject))
            return True
        self._passing.setdefault(event.subject, []).append(event)
        self._passing_count += 1
        self._passing_bytes += size
        return True

    def let_out(self) -> None:
        """After each input: whatever need not wait any more."""
        border = self.border
        if border.settled_together:
            border.settled_together = False
            self._let_clients_publish()
            self._let_out_held()
            self._let_out_passing()
            self._make_room()

    def _let_clients_publish(self) -> None:
        for name in list(self.clients):
            session = self.border.sessions.get(name)
            if session is None or not session.publications:
                del self.clients[name]
            elif session.attachment.awaits is None and self.is_settled(session.publications[0].event.subject):
                self.border.finish(self.border.publish_held(session))
                if not session.publications:
                    del self.clients[name]

    def _let_out_held(self) -> None:
        """In their order, those of one publisher: another topic may have settled before."""
        border, blocked = self.border, dict[str, None]()
        staying: deque[Held] = deque()
        for each in self.held:
            publisher = each.event.publisher.host
            if publisher in blocked or not self.is_settled(each.event.subject):
                blocked[publisher] = None
                staying.append(each)
                continue
            event_id = None if border.ids is None else border.ids.next()
            border.finish(border.route(Notified(each.event, each.serial, event_id), CLIENT))
        self.held = staying

    def _let_out_passing(self) -> None:
        for topic in [each for each in self._passing if self.is_settled(each)]:
            for event in self._passing.pop(topic):
                self._passing_count -= 1
                self._passing_bytes -= len(event.body or b"")
                self.border.goes_ahead(event.publisher.host, topic)
                self.border.publishing.to_neighbours(event)
