"""What MQTT clients of an overlay publish and want: the same border as of all brokers, with guests behind it.

What an overlay does not keep is refused in MQTT's own words (docs/PROTOCOL.md, section 16).
"""

from collections.abc import Sequence

from msgspec.structs import replace

from roamcast.broker.broker import Broker
from roamcast.broker.mqtt.content import REPORT_TOPIC
from roamcast.broker.mqtt.effects import Acknowledge, Grant
from roamcast.broker.mqtt.events import Events
from roamcast.broker.mqtt.inputs import Published, PublishedTogether
from roamcast.broker.mqtt.mqtt_border import MqttBorder
from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.mqtt.passing import Passing
from roamcast.broker.mqtt.properties import PERSIST, BadProperty, is_lasting, subscription_of
from roamcast.broker.mqtt.publishing import Mistaken, Publishing
from roamcast.broker.mqtt.subscribing import NoRoom, Subscribing
from roamcast.broker.overlay.gauge import LiveGauge
from roamcast.broker.overlay.mqtt.guests import Guests
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.overlay.posts import refused_by
from roamcast.broker.session import Session
from roamcast.broker.transfer import Interest
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.places import MovementGraph
from roamcast.model.subscription import Subscription as Wanted
from roamcast.model.values import BadValue
from roamcast.mqtt.batches import Batch
from roamcast.mqtt.messages import Message, Subscription
from roamcast.mqtt.origin import ORIGIN_PROPERTY
from roamcast.mqtt.reasons import Reason


class OverlayPublishing(Publishing):
    border: "OverlayBorder"

    def needs_log(self, client: str, message: Message) -> bool:
        return True

    def _same_route(self, publisher: Session, topic: str) -> None:
        return None

    def publish(self, given: Published) -> None:
        session = self.border.sessions.get(given.client)
        if session is None or self._came_before(session, given.message, given.packet_id):
            return
        if given.message.topic == REPORT_TOPIC:
            self._report(session, given.message, given.packet_id)
            self.border.guests.moved(session)
            return
        self._say(session, given.message, given.packet_id)

    def _came_before(self, session: Session, message: Message, packet_id: int) -> bool:
        """One that its client sends again: it is acknowledged once, when it is accepted."""
        if packet_id and packet_id in session.unaccepted.values():
            return True
        if message.qos != 2 or not packet_id:
            return False
        if packet_id in session.received:
            self.border.emit(Acknowledge(session.client, packet_id))
            return True
        session.received[packet_id] = None
        return False

    def publish_together(self, rows: Sequence[PublishedTogether], mistaken: Mistaken) -> None:
        for row in rows:
            try:
                for packet_id, payload in zip(row.packet_ids, row.payloads, strict=True):
                    self.publish(Published(row.client, packet_id, Message(row.topic, payload, 1)))
            except Exception as problem:
                mistaken(row.client, problem)

    def pass_on(self, passing: Sequence[tuple[str, Batch]]) -> None:
        for client, batch in passing:
            session = self.border.sessions.get(client)
            if session is not None:
                for message in batch.messages:
                    self._say(session, message, 0)

    def heard_passing(self, peer: str, passing: Sequence[Passing], mistaken: Mistaken) -> None:
        """Nobody in an overlay says so."""

    def _say(self, session: Session, message: Message, packet_id: int) -> None:
        try:
            event = self._event(session, message)
        except (BadProperty, BadValue) as problem:
            self._refuse(session, message, packet_id, Reason.IMPLEMENTATION_SPECIFIC_ERROR, str(problem))
            return
        if not self.border.guests.publish(session, event, packet_id if message.qos else 0):
            text = "too many messages wait for a broker to accept them"
            self._refuse(session, message, packet_id, Reason.QUOTA_EXCEEDED, text)

    def _event(self, session: Session, message: Message) -> Event:
        if is_lasting(message):
            raise BadProperty(f"{PERSIST}: nothing lasts in an overlay")
        if any(name == ORIGIN_PROPERTY for name, _ in message.user_properties):
            raise BadProperty(f"{ORIGIN_PROPERTY}: messages of an overlay are their publishers' own")
        publisher = replace(session.context, host=self.border.guests.name_of(session))
        return self.events.event_of(publisher, message, self.border.now_us)


class OverlaySubscribing(Subscribing):
    border: "OverlayBorder"

    def _wanted(self, session: Session, asked: Subscription) -> Wanted:
        """As the session has it. What the overlay is asked for is made in `add`."""
        wanted = subscription_of(session.client, asked, self.border.now_us, self.border.space)
        why_not = refused_by(wanted, self.border.space, self.border.guests.params) if wanted.modulator else None
        if why_not is not None:
            raise BadProperty(f"modulator: {why_not}")
        return replace(wanted, modulator="")

    def _check_room(self, session: Session, interest: Interest) -> None:
        super()._check_room(session, interest)
        if len(self.border.guests.broker.brokers.directory.entries) >= self.border.guests.params.clients.wishes_max:
            raise NoRoom("this broker knows of as many subscriptions as it may")

    def answer(self, session: Session, grant: Grant) -> None:
        self.border.guests.grant(session, grant)

    def add(self, session: Session, interest: Interest) -> bool:
        replaced = super().add(session, interest)
        name = self.border.guests.name_of(session)
        if interest.asked is not None:
            wanted = subscription_of(name, interest.asked, self.border.now_us, self.border.space)
            self.border.guests.subscribe(session, wanted)
        return replaced

    def _withdraw(self, session: Session, name: str) -> None:
        super()._withdraw(session, name)
        self.border.guests.unsubscribe(session, name)

    def moved(self, context: Context, judged: bool = False) -> None:
        super().moved(context, judged)
        session = self.border.sessions.get(context.host)
        if session is not None:
            self.border.guests.moved(session)

    def forget(self, session: Session) -> None:
        super().forget(session)
        self.border.guests.leaves(session)


class OverlayBorder(MqttBorder):
    tells_positions = False
    publishing_kind = OverlayPublishing
    subscribing_kind = OverlaySubscribing

    def __init__(
        self,
        overlay: OverlayParams,
        gauge: LiveGauge,
        broker: Broker,
        events: Events,
        params: CoreParams,
        graph: MovementGraph | None = None,
    ) -> None:
        super().__init__(broker, events, params, graph)
        self.guests = Guests(self, events, overlay, events.life, gauge)

    def has_neighbours(self) -> bool:
        """It is for others to find who gets what, here and elsewhere."""
        return True
