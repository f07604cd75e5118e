"""What clients say to a broker: each event of their MQTT connections becomes an input, or is refused.

Access control is asked who may come in, and what may be published and subscribed to. While nothing can be stored,
whatever would have to be is refused with 0x97 (docs/PROTOCOL.md, P-57).
"""

import secrets
from functools import partial
from typing import TYPE_CHECKING

from roamcast.broker.mqtt.admission import OTHERS
from roamcast.broker.mqtt.content import REPORT_TOPIC, BadReport, context_reported
from roamcast.broker.mqtt.fencing import DEFINITIONS
from roamcast.broker.mqtt.inputs import (
    Announced,
    Arrived,
    Asked,
    Forbidden,
    Left,
    Published,
    PublishedTogether,
    Received,
    Released,
    Reported,
    Withdrew,
)
from roamcast.broker.mqtt.properties import must_reach_all
from roamcast.broker.mqtt.travelling import SAID_NAMES
from roamcast.broker.session import Session
from roamcast.model.context import Context
from roamcast.mqtt import events, packets
from roamcast.mqtt.batches import Batch, batch_of
from roamcast.mqtt.messages import Message, Subscription, WillMessage, message_of_will
from roamcast.mqtt.reasons import Reason
from roamcast.server.access import Refusal
from roamcast.server.connection import ClientSocket
from roamcast.server.security import Identity
from roamcast.server.tracking import LOCATION_REMARK, BadLocation, Trackers

if TYPE_CHECKING:
    from roamcast.server.server import BrokerServer, Redirect

CLIENT_ID_BYTES_MAX = 256
"""Names of clients travel between brokers, many in one message."""
UNREACHABLE = "unreachable"
"""The user property of CONNECT with which a client says what it wants when its session cannot be reached."""
LOGGED_CHARS_MAX = 256
"""Of a name that nobody has looked at yet, in the log."""


class Inbound:
    def __init__(self, server: "BrokerServer") -> None:
        self.server = server

    def told(self, client: ClientSocket, event: events.AnyEvent) -> None:
        match event:
            case Batch():
                self._published_batch(client, event)
            case events.Acknowledged():
                self.server.finished(client.name, event.numbers)
            case events.Published():
                self._published(client, event)
            case events.Received(number):
                self.server.give(Received(client.name, number))
            case events.Released(packet_id):
                self.server.give(Released(client.name, packet_id))
            case events.Dropped(number, cause):
                self.server.monitor.remark(f"dropped_{cause}", client.name)
                if number:
                    self.server.finished(client.name, (number,))
            case events.SubscribeRequested():
                self._asked(client, event)
            case events.UnsubscribeRequested(packet_id, filters):
                self.server.give(Withdrew(client.name, packet_id, filters))
                self.server.backpressure.said(client)
            case events.ConnectRequested(connect) if self.server.sends_to is not None:
                self._send_on(client, connect, self.server.sends_to)
            case events.ConnectRequested(connect):
                self.server.access.check(
                    client, connect, self.server.now_us(), partial(self._checked, client, connect)
                )
            case events.Disconnected():
                self._disconnected(client, event)

    def _send_on(self, client: ClientSocket, connect: packets.Connect, elsewhere: "Redirect") -> None:
        if self.server.draining and connect.version != packets.V5:
            # It could not be told where to go, and many give up for good when they are refused.
            client.mqtt.hang_up()
        else:
            client.mqtt.refuse(self.server.now_us(), elsewhere.reason, elsewhere.why, elsewhere.to)
        client.mark()

    def _checked(self, socket: ClientSocket, connect: packets.Connect, refusal: Refusal) -> None:
        """Access control has decided, perhaps some time later."""
        now_us = self.server.now_us()
        refusal = refusal or self._refusal_of_client(connect.client_id)
        if refusal is not None:
            self._turn_away(socket, connect, refusal)
            return
        client = socket.name = connect.client_id or f"auto-{secrets.token_hex(8)}"
        user = self.server.access.user_of(socket)
        # Authorize before taking over an existing session.
        refusal = self._refusal_of_user(client, user) or self._refusal_of_will(socket, connect, now_us)
        if refusal is not None:
            self._turn_away(socket, connect, refusal)
            return
        for before in (self.server.clients.get(client), self.server.arriving.pop(client, None)):
            if before is not None:
                before.mqtt.disconnect(now_us, Reason.SESSION_TAKEN_OVER, "another connection uses this client id")
                before.attend()
        socket.arrival, socket.since_us = self.server.next_arrival(), now_us
        self.server.arriving[client] = socket
        expiry_s = min(connect.session_expiry_s, self.server.limits.session_expiry_max_s)
        will = None
        if connect.will is not None:
            message = message_of_will(connect.will, now_us)
            will = WillMessage(message, connect.will.delay_s, connect.will.message_expiry_s)
        is_new = not connect.client_id
        said = dict(connect.user_properties).get(UNREACHABLE, "")
        unreachable = (
            said if said in ("wait", "anew") else ("anew" if self.server.core.params.unreachable == "anew" else "")
        )
        self.server.give(
            Arrived(client, connect.clean_start, expiry_s, will, is_new, socket.arrival, user, unreachable)
        )

    def _turn_away(self, socket: ClientSocket, connect: packets.Connect, refusal: tuple[Reason, str]) -> None:
        client = connect.client_id[:LOGGED_CHARS_MAX] or "no client id"
        user = "no user" if connect.username is None else f"user '{connect.username[:LOGGED_CHARS_MAX]}'"
        self.server.monitor.remark("connect_refused", f"{client}, {user}, from {socket.address}: {refusal[1]}")
        socket.mqtt.refuse(self.server.now_us(), *refusal)
        socket.mark()

    def _refusal_of_client(self, client: str) -> Refusal:
        full = self.server.write_ahead.full
        # Whoever has a session here may come: taking what waits makes room.
        if full is not None and client not in self.server.core.border.sessions:
            return Reason.QUOTA_EXCEEDED, f"the broker cannot store anything: {full}"
        if self.server.backpressure.crowded:
            return Reason.QUOTA_EXCEEDED, "too much waits for the disk of the broker; try again"
        if len(client.encode()) > CLIENT_ID_BYTES_MAX:
            return Reason.CLIENT_IDENTIFIER_NOT_VALID, f"a client id has at most {CLIENT_ID_BYTES_MAX} bytes"
        return None

    def _refusal_of_user(self, client: str, user: str | None) -> Refusal:
        session = self.server.core.border.sessions.get(client)
        if session is not None and session.user != user:
            return Reason.CLIENT_IDENTIFIER_NOT_VALID, OTHERS
        return None

    def _refusal_of_will(self, socket: ClientSocket, connect: packets.Connect, now_us: int) -> Refusal:
        """What a client leaves behind is asked about as if it published it now."""
        if connect.will is None:
            return None
        message = message_of_will(connect.will, now_us)
        if message.topic.startswith("$"):
            return Reason.TOPIC_NAME_INVALID, f"'{message.topic}': topics that begin with $ are the broker's own"
        return self.server.access.may_publish(socket, message, self.context_of(socket.name), now_us)

    def _disconnected(self, client: ClientSocket, event: events.Disconnected) -> None:
        if not client.name:
            return
        if self.server.clients.get(client.name) is client:
            del self.server.clients[client.name]
            if self.server.trackers is not None:
                self.server.trackers.forget(client.name)
            mqtt, in_order = client.mqtt, event.will is None
            said = tuple(pair for pair in event.user_properties if pair[0] in SAID_NAMES)
            self.server.give(Left(client.name, mqtt.expiry_s, in_order, said, mqtt.sent_through))
        elif self.server.arriving.get(client.name) is client:
            del self.server.arriving[client.name]
            self.server.give(Left(client.name, None, True))
        self.server.monitor.disconnected(client.name, event.reason, event.detail)

    def _published(self, client: ClientSocket, event: events.Published) -> None:
        message, packet_id, name = event.message, event.packet_id, client.name
        self.pace(client, self.server.access.pace_us(client, len(message.payload), 0, self.server.now_us()))
        refusal = self._refusal(client, event)
        if refusal is not None:
            self.server.monitor.remark("publish_refused", f"{name}: {refusal[1]}")
            if message.qos:
                client.mqtt.acknowledge(self.server.now_us(), packet_id, *refusal)
                client.mark()
            return
        if self.server.trackers is not None:
            self._tracked(self.server.trackers, client, message)
        if message.qos or must_reach_all(message):
            if self.server.core.border.publishing.needs_log(name, message):
                self.server.give(Published(name, packet_id, message))
                self.server.backpressure.said(client)
            else:
                self.server.pass_on(name, Batch(message.topic, 1, [message], [packet_id], len(message.payload)))
        elif message.topic == REPORT_TOPIC:
            self.reported(client, message.payload)
        else:
            self._pass_on(client, batch_of(message))

    def _published_batch(self, client: ClientSocket, batch: Batch) -> None:
        server, topic, access = self.server, batch.topic, self.server.access
        asked_apart = topic[0] == "$" or server.trackers is not None or (batch.qos and server.write_ahead.full)
        if asked_apart or not access.may_publish_anywhere(client, topic):
            for each in events.one_by_one(batch):
                self._published(client, each)
            return
        wait_us = access.pace_us(client, batch.payload_bytes, 0, server.heard_us, len(batch.messages))
        if wait_us:
            self.pace(client, wait_us)
        if not batch.qos:
            self._pass_on(client, batch)
        elif server.core.border.publishing.needs_log(client.name, batch.messages[0]):
            payloads = tuple([each.payload for each in batch.messages])
            server.publish(PublishedTogether(client.name, topic, tuple(batch.packet_ids), payloads))
            server.backpressure.said(client)
        else:
            server.pass_on(client.name, batch)

    def _pass_on(self, client: ClientSocket, batch: Batch) -> None:
        server = self.server
        if server.core.border.announcing.on and server.core.border.announcing.asks(batch.topic, server.heard_us):
            self._announce(client, batch.topic)
        server.pass_on(client.name, batch)

    def _announce(self, client: ClientSocket, topic: str) -> None:
        if self.server.write_ahead.full is None:
            self.server.give(Announced(topic))
            self.server.backpressure.said(client)

    def pace(self, client: ClientSocket, wait_us: int) -> None:
        """Who sends too much is not read from for a while: TCP tells it to wait. All that came in one piece is taken,
        and each message of it makes the wait longer."""
        if wait_us:
            is_held = client.held_until_us is not None
            client.held_until_us = max(client.held_until_us or 0, self.server.now_us() + wait_us)
            if not is_held:
                client.hold(True)
                self.server.loop.call_later(wait_us / 1e6, partial(self._read_again, client))

    def _read_again(self, client: ClientSocket) -> None:
        left_us = (client.held_until_us or 0) - self.server.now_us()
        if left_us > 0:
            self.server.loop.call_later(left_us / 1e6, partial(self._read_again, client))
        else:
            client.held_until_us = None
            client.hold(False)

    def _refusal(self, client: ClientSocket, event: events.Published) -> Refusal:
        message = event.message
        if message.topic.startswith(DEFINITIONS) and not message.retain:
            return Reason.TOPIC_NAME_INVALID, f"'{message.topic}': a fence is a retained message"
        if message.topic.startswith("$") and not is_open(message.topic):
            return Reason.TOPIC_NAME_INVALID, f"'{message.topic}': topics that begin with $ are the broker's own"
        if self.server.write_ahead.full is not None and (message.qos or must_reach_all(message)):
            return Reason.QUOTA_EXCEEDED, f"the broker cannot store anything: {self.server.write_ahead.full}"
        return self.server.access.may_publish(client, message, self.context_of(client.name), self.server.now_us())

    def reported(self, client: ClientSocket, payload: bytes) -> None:
        try:
            context = context_reported(
                payload, self.context_of(client.name), self.server.heard_us, self.server.core.space
            )
        except BadReport as problem:
            self.server.monitor.remark("bad_report", f"{client.name}: {problem}")
            return
        self._give_report(client, context)

    def _tracked(self, trackers: Trackers, client: ClientSocket, message: Message) -> None:
        try:
            context = trackers.context(message, self.context_of(client.name), self.server.now_us())
        except BadLocation as problem:
            self.server.monitor.remark(f"{LOCATION_REMARK}{problem}", client.name)
            return
        if context is not None:
            self._give_report(client, context)

    def _give_report(self, client: ClientSocket, context: Context) -> None:
        server = self.server
        server.give_published_by(context.host)
        if server.write_ahead.full is None:
            if server.core.reported(server.heard_us, context):
                server.write_ahead.reported(server.heard_us, context, self._lasts(context.host))
                if server.positions.waiting:
                    server.tick_soon()
            else:
                server.give(Reported(context))
                server.backpressure.said(client)
        else:
            # The next one says the same, and nothing may pile up for a disk that takes nothing.
            self.server.monitor.remark("report_dropped", context.host)

    def _lasts(self, client: str) -> bool:
        """Whether its session outlives its connection."""
        session = self.server.core.border.sessions.get(client)
        return session is not None and session.expiry_s > 0

    def context_of(self, client: str) -> Context:
        return self.server.core.border.context_of(client)

    def _asked(self, client: ClientSocket, event: events.SubscribeRequested) -> None:
        if self.server.write_ahead.full is not None:
            reasons = [Reason.QUOTA_EXCEEDED] * len(event.subscriptions)
            client.mqtt.answer_subscribe(
                self.server.now_us(), event.packet_id, reasons, str(self.server.write_ahead.full)
            )
            client.mark()
            return
        self.pace(client, self.server.access.pace_us(client, None, len(event.subscriptions), self.server.now_us()))
        refused = {
            each.filter.text: reason
            for each in event.subscriptions
            if (reason := self._may_subscribe(client, each)) is not None
        }
        self.server.give(Asked(client.name, event.packet_id, event.subscriptions, refused))
        self.server.backpressure.said(client)

    def forbid(self, client: ClientSocket, session: Session, sent_through: int) -> None:
        """Ends those subscriptions of a session that the rules allow no longer, and a will."""
        filters = tuple([each.filter.text for each in session.asked if self._may_subscribe(client, each) is not None])
        will, now_us = session.will, self.server.now_us()
        is_bad_will = will is not None and (
            not self.server.access.may_stay(client)
            or self.server.access.may_publish(client, will.message, session.context, now_us) is not None
        )
        if filters or is_bad_will:
            self.server.give(Forbidden(session.client, filters, sent_through, is_bad_will))

    def forbid_will(self, session: Session) -> None:
        """That of a client that is away; its subscriptions are looked at when it comes."""
        will, who = session.will, Identity(session.client, session.user)
        if will is not None and not self.server.access.may_leave_behind(
            who, will.message, session.context, self.server.now_us()
        ):
            self.server.give(Forbidden(session.client, (), session.window.sent_through, True))

    def _may_subscribe(self, client: ClientSocket, asked: Subscription) -> Reason | None:
        if asked.filter.group is not None and not self.server.limits.shared_available:
            return Reason.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
        return self.server.access.may_subscribe(client, asked, self.server.now_us())


def is_open(topic: str) -> bool:
    """Whether clients may publish to a topic of the broker's own."""
    return topic == REPORT_TOPIC or topic.startswith(DEFINITIONS)
