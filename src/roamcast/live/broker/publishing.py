"""What clients publish, on its way to clients here and to other brokers."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from roamcast.live.broker.audience import Audience, Plan, Recipients, alike
from roamcast.live.broker.content import REPORT_TOPIC, BadReport, context_reported
from roamcast.live.broker.events import Events
from roamcast.live.broker.inputs import Published, Released, Will
from roamcast.live.broker.orders import Acknowledge, Complete, Hand, Record, Remark, Tell
from roamcast.live.broker.passing import Passing
from roamcast.live.broker.properties import BadProperty
from roamcast.live.broker.retained import Retained
from roamcast.live.broker.station import Station
from roamcast.live.broker.visitor import SOURCE, Visitor, delivery_of
from roamcast.live.mqtt.messages import SECOND_US, Message, Subscription
from roamcast.live.mqtt.reasons import Reason
from roamcast.model.event import Event
from roamcast.model.values import BadValue
from roamcast.protocols.broker.border import HOPS_MAX
from roamcast.protocols.broker.messages import Notified, Pub
from roamcast.protocols.broker.router import CLIENT


class Publishing:
    def __init__(self, station: Station, audience: Audience, events: Events, retained: Retained) -> None:
        self.station = station
        self.audience = audience
        self.events = events
        self.retained = retained
        self.station.broker.border.audience = self._audience

    def publish(self, given: Published) -> None:
        visitor = self.station.visitors.get(given.client)
        if visitor is None:
            return
        message, packet_id = given.message, given.packet_id
        if message.qos == 2:
            if packet_id in visitor.received:
                self.station.order(Acknowledge(given.client, packet_id))
                return
            visitor.received[packet_id] = None
        if message.topic == REPORT_TOPIC:
            self._report(visitor, message, packet_id)
            return
        try:
            event = self.events.event_of(visitor.context, message, self.station.now_us)
        except (BadProperty, BadValue) as problem:
            self._refuse(visitor, message, packet_id, Reason.IMPLEMENTATION_SPECIFIC_ERROR, str(problem))
            return
        if message.retain and not self.retained.keep(event, message):
            self._refuse(visitor, message, packet_id, Reason.QUOTA_EXCEEDED, "no more messages can be retained")
            return
        self._publish(visitor, event, message, packet_id)

    def _publish(self, visitor: Visitor, event: Event, message: Message, packet_id: int) -> None:
        if self.station.records:
            self.station.order(Record(event, visitor.client))
        if message.qos == 0:
            self._route_passing(event, message, CLIENT, 0)
            return
        session = self.station.broker.border.sessions.get(visitor.name)
        published = 0 if session is None else session.published
        visitor.serial = max(self.station.now_us, visitor.serial + 1, published + 1)
        visitor.awaiting[visitor.serial] = packet_id
        self.station.tell_broker(visitor, Pub(visitor.serial, event))

    def _refuse(self, visitor: Visitor, message: Message, packet_id: int, reason: Reason, text: str) -> None:
        visitor.received.pop(packet_id, None)
        if message.qos:
            self.station.order(Acknowledge(visitor.client, packet_id, reason, text))
        else:
            self.station.order(Remark("message_refused", f"{visitor.client}: {text}"))

    def _report(self, visitor: Visitor, message: Message, packet_id: int) -> None:
        try:
            context = context_reported(message.payload, visitor.context, self.station.now_us, self.station.space)
        except BadReport as problem:
            self._refuse(visitor, message, packet_id, Reason.PAYLOAD_FORMAT_INVALID, str(problem))
            return
        visitor.context = context
        self.audience.moved(context)
        self.station.order(Acknowledge(visitor.client, packet_id))

    def released(self, given: Released) -> None:
        visitor = self.station.visitors.get(given.client)
        if visitor is not None:
            visitor.received.pop(given.packet_id, None)
            self.station.order(Complete(given.client, given.packet_id))

    def publish_will(self, visitor: Visitor, will: Will) -> None:
        now_us = self.station.now_us
        expires_us = None if will.expiry_s is None else now_us + will.expiry_s * SECOND_US
        self.publish(Published(visitor.client, 0, replace(will.message, expires_us=expires_us)))

    # QoS 1 and 2: the broker asks who gets an event that has come to it.

    def _audience(self, event: Event) -> Iterable[tuple[str, tuple[str, ...]]]:
        message = self.events.message_of(event)
        if message is None:
            return []
        reliable: list[tuple[str, tuple[str, ...]]] = []
        for client, asked in self.audience.of(event, self.station.now_us):
            delivery = delivery_of(0, message, asked, False)
            if delivery.qos:
                reliable.append((SOURCE + client, tuple(f"{client}:{each.filter.text}" for each in asked)))
            else:
                self.station.order(Hand((client,), delivery))
                self._record(event, client, asked)
        return reliable

    def _record(self, event: Event, client: str, asked: list[Subscription]) -> None:
        if self.station.records:
            for each in asked:
                self.station.order(Record(event, client, f"{client}:{each.filter.text}"))

    def _hand(self, message: Message, plan: Plan) -> None:
        for asked, clients in plan:
            self.station.order(Hand(clients, delivery_of(0, message, asked, False)))

    # QoS 0.

    def pass_on(self, batch: Sequence[tuple[str, Message]]) -> None:
        """All that came in a tick: those whose recipients depend on what they say are matched in one call."""
        travels, waiting = self.station.has_neighbours(), list[tuple[Message, Event]]()
        for client, message in batch:
            visitor = self.station.visitors.get(client)
            if visitor is None:
                continue
            plan = self.audience.plain(message.topic)
            if plan is not None and not (travels or self.station.records or message.user_properties):
                if plan:
                    self._pass_waiting(waiting)
                    self._hand(message, plan)
                continue
            try:
                event = self.events.passing_event_of(visitor.context, message, self.station.now_us, travels)
            except (BadProperty, BadValue) as problem:
                self._refuse(visitor, message, 0, Reason.IMPLEMENTATION_SPECIFIC_ERROR, str(problem))
                continue
            if self.station.records:
                self.station.order(Record(event, client))
            waiting.append((message, event))
        self._pass_waiting(waiting)

    def _pass_waiting(self, waiting: list[tuple[Message, Event]]) -> None:
        if waiting:
            found = self.audience.of_passing([event for _, event in waiting], self.station.now_us)
            for (message, event), recipients in zip(waiting, found, strict=True):
                self._pass(event, message, recipients, CLIENT, 0)
            waiting.clear()

    def heard_passing(self, peer: str, passing: Passing) -> None:
        message = self.events.message_of(passing.event)
        if message is None or passing.hops > HOPS_MAX:
            self.station.order(Remark("event_looped", passing.event.id))
            return
        self._route_passing(passing.event, message, peer, passing.hops)

    def _route_passing(self, event: Event, message: Message, source: str, hops: int) -> None:
        self._pass(event, message, self.audience.of_passing((event,), self.station.now_us)[0], source, hops)

    def _pass(self, event: Event, message: Message, recipients: Recipients, source: str, hops: int) -> None:
        self._hand(message, alike(recipients))
        for client, asked in recipients:
            self._record(event, client, asked)
        if self.station.has_neighbours():
            said, _ = self.station.broker.neighbourhood.router.route(Notified(event, 0, None, hops), source)
            for peer, _ in said:
                self.station.order(Tell(peer, Passing(event, hops + 1)))
