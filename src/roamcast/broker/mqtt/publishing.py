"""What clients publish, on its way to clients here and to other brokers."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from roamcast.broker.border import HOPS_MAX
from roamcast.broker.messages import Notified, Pub
from roamcast.broker.mqtt.announcing import Announcing
from roamcast.broker.mqtt.audience import PLANS_MAX, Audience
from roamcast.broker.mqtt.content import REPORT_TOPIC, BadReport, context_reported
from roamcast.broker.mqtt.effects import Accept, Acknowledge, Complete, Remark, Tell
from roamcast.broker.mqtt.events import LARGE_BYTES, asks_origin
from roamcast.broker.mqtt.fencing import DEFINITIONS
from roamcast.broker.mqtt.inputs import Published, PublishedTogether, Released
from roamcast.broker.mqtt.keeping import Keeping, goes_to_all
from roamcast.broker.mqtt.local_delivery import LocalDelivery
from roamcast.broker.mqtt.passing import Passing
from roamcast.broker.mqtt.properties import BadProperty, is_lasting, withdrawn_by
from roamcast.broker.mqtt.wishes import AskedBy, Entry, Plan, Recipients, Route, alike, asked_of
from roamcast.broker.router import CLIENT
from roamcast.broker.session import Session
from roamcast.model.event import Event
from roamcast.model.fence_text import BadFence
from roamcast.model.values import BadValue, Value
from roamcast.mqtt.batches import Batch, batch_of, merged
from roamcast.mqtt.messages import SECOND_US, Message, WillMessage
from roamcast.mqtt.reasons import Reason
from roamcast.node.boundary import Does

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder


Made: TypeAlias = tuple[Session, Event, Message, int]
"""A plain message with its packet identifier, and what it has become."""
Mistaken: TypeAlias = Callable[[str, Exception], None]
"""Told whose message a mistake of ours concerns: it costs no other."""


class Publishing:
    def __init__(
        self,
        border: "MqttBorder",
        audience: Audience,
        local: LocalDelivery,
        keeping: Keeping,
        announcing: Announcing,
    ) -> None:
        self.border = border
        self.audience = audience
        self.local = local
        self.events = border.events
        self.keeping = keeping
        self.announcing = announcing

    def publish(self, given: Published) -> None:
        session = self.border.sessions.get(given.client)
        if session is None:
            return
        message, packet_id = given.message, given.packet_id
        if message.qos == 2 and packet_id:
            if packet_id in session.received:
                if packet_id not in session.unaccepted.values():
                    self.border.emit(Acknowledge(given.client, packet_id))
                return
            session.received[packet_id] = None
        if message.topic == REPORT_TOPIC:
            self._report(session, message, packet_id)
            return
        if message.topic.startswith(DEFINITIONS) and not self._defines(session, message, packet_id):
            return
        if message.user_properties and message.qos and self.events.is_copy(None, message):
            self.border.emit(Acknowledge(given.client, packet_id))
            return
        # By the turns that are logged, for this is logged too, and a choice may be kept with its message.
        if self.keeping.groups.members:
            message = self._with_choice(message, False)
        event = self._made(session, message, packet_id)
        if event is None:
            return
        if message.retain and not self.keeping.retained.has_room(message, self.border.now_us):
            self._refuse(session, message, packet_id, Reason.QUOTA_EXCEEDED, "no more messages can be retained")
            return
        if is_lasting(message) and not self.keeping.lasting.has_room(message):
            self._refuse(session, message, packet_id, Reason.QUOTA_EXCEEDED, "no more messages can persist")
            return
        self._publish(session, event, message, packet_id)

    def _made(self, session: Session, message: Message, packet_id: int) -> Event | None:
        """None for a message that is refused."""
        try:
            return self.events.event_of(session.context, message, self.border.now_us)
        except (BadProperty, BadValue) as problem:
            self._refuse(session, message, packet_id, Reason.IMPLEMENTATION_SPECIFIC_ERROR, str(problem))
            return None

    def _publish(self, session: Session, event: Event, message: Message, packet_id: int) -> None:
        if self._is_refused(session, event, message, packet_id):
            return
        ended = self.keeping.ended_by(event, message)
        for each in ended:
            self.border.observation.withdrawn(each)
        after_us = max((each.published_us + 1 for each in ended), default=0)
        if after_us > event.published_us:
            # The clock of the broker that took what it ends may be ahead of this one's.
            event = replace(event, published_us=after_us, expires_us=max(after_us, event.expires_us))
        if not withdrawn_by(message):
            self.border.observation.published(session.client, event, message)
        if message.qos:
            self._send_out(session, event, message, packet_id)
        elif goes_to_all(event):
            # Its event may have another publisher, for whom this client speaks.
            self.border.goes_ahead(session.client, message.topic)
            self._send_out(session, event, message, packet_id)
        else:
            if self.announcing.on:
                self.announcing.announce(event.subject)
            self._route_passing(event, message, CLIENT, 0)

    def _is_refused(self, session: Session, event: Event, message: Message, packet_id: int) -> bool:
        # A will is kept all the same: nobody could send it again.
        if not packet_id or not (full := self._full(event)):
            return False
        text = f"too much waits for the broker '{full}', which is not there; try again later"
        self._refuse(session, message, packet_id, Reason.QUOTA_EXCEEDED, text)
        return True

    def _send_out(self, session: Session, event: Event, message: Message, packet_id: int) -> None:
        """Into the log's order, behind what its client published before."""
        if self.announcing.on:
            self.announcing.announce(event.subject)
        session.serial = max(self.border.now_us, session.serial + 1, session.published + 1)
        if message.qos and packet_id:
            if session.unaccepted:
                # A resent packet id replaces its pending entry.
                others = {each: known for each, known in session.unaccepted.items() if known != packet_id}
                session.unaccepted = others
            session.unaccepted[session.serial] = packet_id
        self.border.finish(self.border.publish(session, Pub(session.serial, event)))
        if not session.publications and not session.refused:
            return
        self.announcing.published(session)
        if was_refused(session, session.serial):
            # The client of the protocols would say it again; one of MQTT is told, and does as it likes.
            session.unaccepted.pop(session.serial, None)
            text = "too many publications wait until it is known who wants them"
            self._refuse(session, message, packet_id, Reason.QUOTA_EXCEEDED, text)

    def _full(self, event: Event) -> str | None:
        """Which neighbour that should get it can have no more waiting for it."""
        neighbours = self.border.neighbours
        if not neighbours.full:
            return None
        wanting = neighbours.router.to_neighbours(Notified(event, 0), CLIENT)
        return next((peer for peer, _ in wanting if neighbours.streams.of[peer].full), None)

    # QoS 1 to sessions that end with their connections.

    def needs_log(self, client: str, message: Message) -> bool:
        """Whether anything that a message brings about must survive a crash. Nothing must where it is of QoS 1, stays
        at this broker, and all who get it with QoS 1 have sessions that end with their connections."""
        border, topic = self.border, message.topic
        if message.qos != 1 or message.retain or message.user_properties or topic == REPORT_TOPIC:
            return True
        if len(message.payload) > LARGE_BYTES:
            return True
        if self.announcing.on or border.ids is not None or border.passing is not None:
            return True
        if border.has_neighbours() and border.neighbours.router.may_leave(topic):
            return True
        publisher = border.sessions.get(client)
        if publisher is None or publisher.attachment.awaits is not None or publisher.publications:
            return True
        found = self.audience.needs_log
        if topic not in found:
            if len(found) >= PLANS_MAX:
                found.clear()
            found[topic] = any(self._entry_lasts(entry) for entry in self.audience.fitting(topic))
        return found[topic]

    def _entry_lasts(self, entry: Entry) -> bool:
        """Whether what it gets of QoS 1 is to survive a crash, or changes what does."""
        if entry.asked.filter.group is not None or entry.wanted.modulator:
            return True
        session = self.border.sessions.get(entry.client)
        if session is None or not entry.asked.qos:
            return False
        return not session.ends_with_connection or session.attachment.awaits is not None

    def pass_reliably(self, client: str, batch: Batch) -> None:
        """Messages for which `needs_log` says no: their ids are those of QoS 0, and so nothing that lasts changes."""
        session = self.border.sessions.get(client)
        if session is None:
            return
        route = self._same_route(session, batch.topic)
        if route is not None:
            self._publish_run(session, batch.packet_ids, batch.messages, route, False)
            return
        for packet_id, message in zip(batch.packet_ids, batch.messages, strict=True):
            event = self._passing_event(session, message, True, packet_id)
            if event is not None:
                found = self.audience.of(event, self.border.now_us)
                self.border.finish(self.local.give([Pub(self.border.now_us, event)], [message], found))
                self.border.emit(Acknowledge(client, packet_id))

    # Many messages of QoS 1 to one topic.

    def publish_together(self, rows: Sequence[PublishedTogether], mistaken: Mistaken) -> None:
        """As each message by itself. Where a topic alone says who gets its messages that is found out once; all
        others are matched in one call."""
        waiting: list[Made] = []
        for row in rows:
            session = self.border.sessions.get(row.client)
            if session is not None:
                try:
                    self._publish_row(session, row, waiting, mistaken)
                except Exception as problem:
                    mistaken(row.client, problem)
        self._publish_waiting(waiting, mistaken)

    def _publish_row(self, session: Session, row: PublishedTogether, waiting: list[Made], mistaken: Mistaken) -> None:
        messages = [Message(row.topic, payload, 1) for payload in row.payloads]
        route = self._same_route(session, row.topic)
        if route is not None:
            if waiting:
                self._publish_waiting(waiting, mistaken)
                route = self._same_route(session, row.topic)
            if route is not None:
                self._publish_run(session, row.packet_ids, messages, route, True)
                return
        told = zip(row.packet_ids, messages, strict=True)
        if self.keeping.groups.members or max(map(len, row.payloads)) > LARGE_BYTES:
            # Each choice is made by itself, and one that is refused is answered in its turn.
            self._publish_waiting(waiting, mistaken)
            for packet_id, message in told:
                self.publish(Published(row.client, packet_id, message))
            return
        for packet_id, message in told:
            event = self._made(session, message, packet_id)
            if event is not None:
                waiting.append((session, event, message, packet_id))

    def _publish_waiting(self, waiting: list[Made], mistaken: Mistaken) -> None:
        """Plain messages, which neither end others nor go to all."""
        if len(waiting) > 1:
            self.audience.expect([event for _, event, _, _ in waiting], self.border.now_us)
        for session, event, message, packet_id in waiting:
            try:
                if not self._is_refused(session, event, message, packet_id):
                    self.border.observation.published(session.client, event, message)
                    self._send_out(session, event, message, packet_id)
            except Exception as problem:
                mistaken(session.client, problem)
        waiting.clear()

    def _same_route(self, publisher: Session, topic: str) -> Route | None:
        """Who gets all messages of a topic; None if that depends on each, or something may hold them back."""
        if self.announcing.on or self.border.ids is not None or self.border.neighbours.full:
            return None
        if self.keeping.groups.members or publisher.attachment.awaits is not None or publisher.publications:
            return None
        route, sessions = self.audience.route(topic), self.border.sessions
        if route is None:
            return None
        for client, _ in route.reliable:
            if client in sessions and sessions[client].attachment.awaits is not None:
                return None
        return route

    def _publish_run(
        self, session: Session, packet_ids: Sequence[int], messages: Sequence[Message], route: Route, logged: bool
    ) -> None:
        run: list[Pub] = []
        accepted: list[int] = []
        said: list[Message] = []
        for packet_id, message in zip(packet_ids, messages, strict=True):
            if logged:
                pub = self._logged_event(session, message, packet_id)
            else:
                event = self._passing_event(session, message, True, packet_id)
                pub = None if event is None else Pub(self.border.now_us, event)
            if pub is not None:
                run.append(pub)
                accepted.append(packet_id)
                said.append(message)
        if run:
            if logged:
                self.border.finish([each for pub in run for each in self._forwarded(session, pub)])
            self._give_run(run, said, route)
            self.border.emit(Accept(session.client, tuple(accepted)))

    def _logged_event(self, session: Session, message: Message, packet_id: int) -> Pub | None:
        event = self._made(session, message, packet_id)
        if event is None:
            return None
        self.border.observation.published(session.client, event, message)
        session.serial = max(self.border.now_us, session.serial + 1, session.published + 1)
        session.published = session.serial
        return Pub(session.serial, event)

    def _forwarded(self, session: Session, pub: Pub) -> list[Does]:
        return self.border.forward(Notified(pub.event, pub.serial), CLIENT + session.client)

    def _give_run(self, run: list[Pub], said: list[Message], route: Route) -> None:
        sessions = self.border.sessions
        effects = self.local.give(run, said, route.reliable)
        if effects:
            self.border.finish(effects)
        if not route.others:
            return
        batch = Batch(said[0].topic, 0, said, [], sum([len(each.payload) for each in said]))
        self.local.hand(batch, route.plan)
        for pub in run:
            for client, asked in route.others:
                if client in sessions and sessions[client].connected:
                    self.border.observation.delivered(client, pub.event, asked)

    def _with_choice(self, message: Message, passing: bool) -> Message:
        chosen = self.keeping.groups.choose(message.topic, passing)
        return replace(message, chosen=chosen) if chosen else message

    def _refuse(self, session: Session, message: Message, packet_id: int, reason: Reason, text: str) -> None:
        session.received.pop(packet_id, None)
        if message.qos:
            self.border.emit(Acknowledge(session.client, packet_id, reason, text))
        else:
            self.border.emit(Remark("message_refused", f"{session.client}: {text}"))

    def _report(self, session: Session, message: Message, packet_id: int) -> None:
        try:
            context = context_reported(message.payload, session.context, self.border.now_us, self.border.space)
        except BadReport as problem:
            self._refuse(session, message, packet_id, Reason.PAYLOAD_FORMAT_INVALID, str(problem))
            return
        self.border.subscribing.moved(context)
        self.border.emit(Acknowledge(session.client, packet_id))

    def _defines(self, session: Session, message: Message, packet_id: int) -> bool:
        """Whether it can be a fence, and says something new."""
        try:
            self.border.fencing.check(message)
        except BadFence as problem:
            self._refuse(session, message, packet_id, Reason.PAYLOAD_FORMAT_INVALID, str(problem))
            return False
        # One that is resent must not begin anew: whoever is inside would enter a second time.
        if message.payload and message.payload == self.keeping.retained.payload_of(message.topic):
            if message.qos:
                self.border.emit(Acknowledge(session.client, packet_id))
            return False
        return True

    def publish_for(self, session: Session, message: Message, attributes: dict[str, Value]) -> None:
        """What the broker says on behalf of a client: in the order of what that publishes itself."""
        message = self._with_choice(message, False)
        event = self.events.event_for(session.context, message, self.border.now_us, attributes)
        self.border.observation.published(session.client, event, message)
        if self.announcing.on:
            self.announcing.announce(event.subject)
        session.serial = max(self.border.now_us, session.serial + 1, session.published + 1)
        self.border.finish(self.border.publish(session, Pub(session.serial, event)))
        if session.publications or session.refused:
            self.announcing.published(session)
            if was_refused(session, session.serial):
                self.border.emit(Remark("publication_dropped", f"{session.client}: {message.topic}"))

    def released(self, given: Released) -> None:
        session = self.border.sessions.get(given.client)
        if session is not None:
            session.received.pop(given.packet_id, None)
            self.border.emit(Complete(given.client, given.packet_id))

    def publish_will(self, session: Session, will: WillMessage) -> None:
        now_us = self.border.now_us
        expires_us = None if will.expiry_s is None else now_us + will.expiry_s * SECOND_US
        self.publish(Published(session.client, 0, replace(will.message, expires_us=expires_us)))

    # QoS 0.

    def pass_on(self, passing: Sequence[tuple[str, Batch]]) -> None:
        """All that came in a tick: those whose recipients depend on what they say are matched in one call."""
        waiting: list[tuple[Message, Event]] = []
        alike_sent: list[Batch] = []
        border, sent_plan = self.border, None
        sessions, router, observed = border.sessions, border.neighbours.router, border.observation.on
        linked, announces = border.has_neighbours(), self.announcing.on
        for client, batch in passing:
            session = sessions.get(client)
            if session is None:
                continue
            plan, travels = self.audience.plain(batch.topic), linked and (announces or router.may_leave(batch.topic))
            differs = plan is None or bool(batch.messages[0].user_properties)
            if alike_sent and (differs or not alike_sent[-1].goes_with(batch)):
                self._hand_merged(alike_sent, sent_plan)
            if differs:
                for said in batch.messages:
                    message = self._with_choice(said, True)
                    event = self._passing_event(session, message, travels)
                    if event is not None:
                        waiting.append((message, event))
                continue
            if waiting:
                self._pass_waiting(waiting)
            if travels or observed:
                self._tell_of(session, batch, travels)
            sent_plan = plan
            alike_sent.append(batch)
        if alike_sent:
            self._hand_merged(alike_sent, sent_plan)
        if waiting:
            self._pass_waiting(waiting)

    def _hand_merged(self, batches: list[Batch], plan: Plan | None) -> None:
        """Of one topic, to all of its subscribers."""
        self.local.hand(merged(batches), plan or [])
        batches.clear()

    def _tell_of(self, session: Session, batch: Batch, travels: bool) -> None:
        """Observers and neighbours hear of messages whose topic alone says who gets them here."""
        receivers = [
            entry
            for client, entries in self.audience.everybody(batch.topic)
            if client in self.border.sessions and self.border.sessions[client].connected
            for entry in entries
        ]
        hosts = [entry.client for entry in receivers]
        names = [entry.observed for entry in receivers]
        for message in batch.messages:
            event = self._passing_event(session, self._with_choice(message, True), travels)
            if event is None:
                continue
            if hosts:
                self.border.observation.fanned_out(event, hosts, names)
            if travels and not self.announcing.keeps_back(event):
                self.to_neighbours(event)

    def _passing_event(self, session: Session, message: Message, travels: bool, packet_id: int = 0) -> Event | None:
        """None for a message that is refused."""
        try:
            event = self.events.passing_event_of(session.context, message, self.border.now_us, travels)
        except (BadProperty, BadValue) as problem:
            self._refuse(session, message, packet_id, Reason.IMPLEMENTATION_SPECIFIC_ERROR, str(problem))
            return None
        self.border.observation.published(session.client, event, message)
        return event

    def _pass_waiting(self, waiting: list[tuple[Message, Event]]) -> None:
        events, chosen = [event for _, event in waiting], [message.chosen for message, _ in waiting]
        found = self.audience.of_passing(events, self.border.now_us, chosen)
        for (message, event), recipients in zip(waiting, found, strict=True):
            self._pass(event, message, recipients, CLIENT, 0)
        waiting.clear()

    def heard_passing(self, peer: str, passing: Sequence[Passing], mistaken: Mistaken) -> None:
        """Each as if it had come alone."""
        if len(passing) > 1:
            self.audience.expect([each.event for each in passing], self.border.now_us)
        for each in passing:
            try:
                self._heard_passing(peer, each)
            except Exception as problem:
                mistaken(each.event.publisher.host, problem)

    def _heard_passing(self, peer: str, passing: Passing) -> None:
        message = self.events.carried_by(passing.event)
        if message is None or passing.hops > HOPS_MAX:
            self.border.emit(Remark("event_looped", passing.event.id))
        else:
            self.border.observation.heard(peer, passing.event)
            self._route_passing(passing.event, message, peer, passing.hops)

    def pass_for(self, session: Session, event: Event, message: Message) -> None:
        """What the broker says with QoS 0 on behalf of a client."""
        message = self._with_choice(message, True)
        self.border.observation.published(session.client, event, message)
        self._pass(event, message, self.audience.of(event, self.border.now_us, message.chosen, True), CLIENT, 0)

    def _route_passing(self, event: Event, message: Message, source: str, hops: int) -> None:
        self._pass(event, message, self.audience.of(event, self.border.now_us, message.chosen, True), source, hops)

    def _pass(self, event: Event, message: Message, recipients: Recipients, source: str, hops: int) -> None:
        unchanged: AskedBy = []
        for client, entries in recipients:
            session, asked = self.border.sessions.get(client), asked_of(entries)
            if session is None:
                continue
            if len(session.modulators) or asks_origin(asked):
                self.local.hand_one(session, event, message, asked, True)
            else:
                unchanged.append((client, asked))
                if session.connected:
                    self.border.observation.delivered(client, event, asked)
        self.local.hand(batch_of(message), alike(unchanged))
        if self.border.has_neighbours() and not (source == CLIENT and self.announcing.keeps_back(event)):
            self.to_neighbours(event, source, hops)

    def to_neighbours(self, event: Event, source: str = CLIENT, hops: int = 0) -> None:
        router, passing = self.border.neighbours.router, Passing(event, hops + 1)
        for peer, _ in router.to_neighbours(Notified(event, 0, None, hops), source):
            if not self.border.linking.in_step_with(peer):
                # A link that is back is not in step yet: this would be there before what waits in the stream.
                continue
            self.border.emit(Tell(peer, passing))
            self.border.observation.forwarded(peer, event)


def was_refused(session: Session, serial: int) -> bool:
    """Whether a publication found no room among those that wait for their advertisement."""
    return session.refused and not any(each.serial == serial for each in session.publications[-1:])
