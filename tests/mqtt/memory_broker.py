"""A plain broker in memory, to join connections with: retained messages, wills, shared subscriptions, expiry.

It matches by topic alone, stores nothing, and so acknowledges at once, unless `commit` is held back to see that
nothing is acknowledged before it.
"""

from collections.abc import Callable

from roamcast.broker.session import Session
from roamcast.model.topics import TopicTrie
from roamcast.mqtt import (
    Connection,
    Form,
    Frames,
    Limits,
    Message,
    Reason,
    SessionLimits,
    Subscription,
    message_of_will,
)
from roamcast.mqtt.batches import batch_of
from roamcast.mqtt.events import (
    Acknowledged,
    AnyEvent,
    ConnectRequested,
    Disconnected,
    Dropped,
    Published,
    Received,
    Released,
    SubscribeRequested,
    UnsubscribeRequested,
)
from roamcast.mqtt.messages import SECOND_US
from roamcast.mqtt.packets import NEVER_S, Connect, Will
from roamcast.mqtt.reasons import FAILURE_FROM
from roamcast.mqtt.topics import parse_filter
from tests.mqtt.sessions import delivery_of, message_in, new_session, published
from tests.mqtt.unbatched import unbatched


class MemoryBroker:
    def __init__(self, limits: Limits | None = None, session_limits: SessionLimits | None = None) -> None:
        self.limits = limits or Limits()
        self.session_limits = session_limits or SessionLimits()
        self.frames = Frames(message_in)
        self.connections: dict[Connection, None] = {}
        self.sessions: dict[str, Session] = {}
        self.subscriptions: dict[str, dict[str, Subscription]] = {}
        """By client and filter."""
        self.ends_us: dict[str, int] = {}
        """By client that is away, when its session ends."""
        self.attached: dict[str, Connection] = {}
        self.retained: dict[str, Message] = {}
        self.wills: dict[str, tuple[int, Will]] = {}
        self.tree: TopicTrie[tuple[str, Subscription]] = TopicTrie()
        self.turns: dict[str, int] = {}
        self.passwords: dict[str, bytes] | None = None
        self.forbidden: tuple[str, ...] = ()
        self.holds_commits = False
        self.uncommitted: list[Callable[[int], None]] = []
        self.log: list[AnyEvent] = []
        self._deliveries = 0
        self._names = 0

    def open(self, now_us: int) -> Connection:
        connection = Connection(now_us, self.limits, self.frames)
        self.connections[connection] = None
        return connection

    def settle(self, now_us: int, connection: Connection) -> None:
        while events := connection.events():
            for event in unbatched(events):
                self.log.append(event)
                self._on(now_us, connection, event)
        if connection.closed:
            self.connections.pop(connection, None)

    def tick(self, now_us: int) -> None:
        for connection in list(self.connections):
            connection.tick(now_us)
            self.settle(now_us, connection)
        for client_id, (due_us, will) in list(self.wills.items()):
            if due_us <= now_us:
                del self.wills[client_id]
                self.publish(now_us, client_id, message_of_will(will, now_us))
        for client_id in [each for each, ends_us in self.ends_us.items() if ends_us <= now_us]:
            self._forget(self.sessions[client_id])

    def commit(self, now_us: int) -> None:
        """What was promised after a commit is said now."""
        waiting, self.uncommitted = self.uncommitted, []
        for promise in waiting:
            promise(now_us)

    def _promise(self, now_us: int, promise: Callable[[int], None]) -> None:
        self.uncommitted.append(promise)
        if not self.holds_commits:
            self.commit(now_us)

    def _on(self, now_us: int, connection: Connection, event: AnyEvent) -> None:
        session = connection.session
        client_id = "" if session is None else session.client
        match event:
            case ConnectRequested(connect):
                self._connect(now_us, connection, connect)
            case Published(message, packet_id):
                self._published(now_us, connection, client_id, message, packet_id)
            case Released(packet_id) if session is not None:
                session.received.pop(packet_id, None)
                self._promise(now_us, lambda at_us: self._now(client_id, connection).complete(at_us, packet_id))
            case Received(number) if session is not None:
                session.window.receive(number)
                self._promise(now_us, lambda at_us: self._now(client_id, connection).release(at_us, number))
            case Acknowledged(numbers) if session is not None:
                for number in numbers:
                    session.window.finish(number)
            case Dropped(number) if session is not None:
                session.window.finish(number)
            case SubscribeRequested(packet_id, subscriptions):
                self._subscribe(now_us, connection, client_id, packet_id, subscriptions)
            case UnsubscribeRequested(packet_id, filters):
                reasons = [self._unsubscribe(client_id, text) for text in filters]
                connection.answer_unsubscribe(now_us, packet_id, reasons)
            case Disconnected(_, _, _, will):
                self._disconnected(now_us, connection, will)

    def _now(self, client_id: str, connection: Connection) -> Connection:
        """The connection that a client has by now."""
        return self.attached.get(client_id, connection)

    def _unsubscribe(self, client_id: str, text: str) -> Reason:
        held = self.subscriptions.get(client_id, {}).pop(text, None)
        if held is None:
            return Reason.NO_SUBSCRIPTION_EXISTED
        self.tree.remove(held.filter.pattern, f"{client_id} {text}")
        return Reason.SUCCESS

    def _connect(self, now_us: int, connection: Connection, connect: Connect) -> None:
        if self.passwords is not None and self.passwords.get(connect.username or "") != connect.password:
            connection.refuse(now_us, Reason.BAD_USER_NAME_OR_PASSWORD, "who are you?")
            return
        self._names += 1
        client_id = connect.client_id or f"made-up-{self._names}"
        other = self.attached.get(client_id)
        if other is not None:
            other.disconnect(now_us, Reason.SESSION_TAKEN_OVER)
            self.settle(now_us, other)
        session = self.sessions.get(client_id)
        if connect.clean_start and session is not None:
            left = self.wills.pop(client_id, None)
            if left is not None:
                self.publish(now_us, client_id, message_of_will(left[1], now_us))
            self._forget(session)
            session = None
        self.wills.pop(client_id, None)
        present = session is not None
        if session is None:
            session = self.sessions[client_id] = new_session(client_id, self.session_limits)
        if connection.accept(now_us, session, present, session.window.next_number - 1):
            self.attached[client_id] = connection
            self.ends_us.pop(client_id, None)
        elif not present:
            del self.sessions[client_id]

    def _disconnected(self, now_us: int, connection: Connection, will: Will | None) -> None:
        session = connection.session
        if session is None or self.attached.get(session.client) is not connection:
            return
        del self.attached[session.client]
        session.window.sent_through = connection.sent_through
        expiry_s = connection.expiry_s or 0
        wait_s = 0 if will is None else min(will.delay_s, expiry_s)
        if will is not None and wait_s == 0:
            self.publish(now_us, session.client, message_of_will(will, now_us))
        elif will is not None:
            self.wills[session.client] = (now_us + wait_s * SECOND_US, will)
        if expiry_s == 0:
            self._forget(session)
        elif expiry_s != NEVER_S:
            self.ends_us[session.client] = now_us + expiry_s * SECOND_US

    def _forget(self, session: Session) -> None:
        for text in list(self.subscriptions.pop(session.client, {})):
            pattern = parse_filter(text).pattern
            self.tree.remove(pattern, f"{session.client} {text}")
        self.ends_us.pop(session.client, None)
        self.sessions.pop(session.client, None)

    def _published(
        self, now_us: int, connection: Connection, client_id: str, message: Message, packet_id: int
    ) -> None:
        reason, session = Reason.NOT_AUTHORIZED, connection.session
        if message.qos == 2 and session is not None and not published(session, packet_id):
            reason = Reason.SUCCESS
        elif not message.topic.startswith(self.forbidden or ("\0",)):
            found = self.publish(now_us, client_id, message)
            reason = Reason.SUCCESS if found else Reason.NO_MATCHING_SUBSCRIBERS
        if reason is Reason.NOT_AUTHORIZED and session is not None:
            session.received.pop(packet_id, None)
        if packet_id:
            self._promise(
                now_us, lambda at_us: self._now(client_id, connection).acknowledge(at_us, packet_id, reason)
            )

    def publish(self, now_us: int, publisher: str, message: Message) -> bool:
        if message.retain:
            self.retained.pop(message.topic, None)
            if message.payload:
                self.retained[message.topic] = message
        mine: dict[str, list[Subscription]] = {}
        groups: dict[str, list[tuple[str, Subscription]]] = {}
        for client_id, subscription in self.tree.matching(message.topic):
            if subscription.filter.group is not None:
                groups.setdefault(subscription.filter.text, []).append((client_id, subscription))
            elif not (subscription.no_local and client_id == publisher):
                mine.setdefault(client_id, []).append(subscription)
        for client_id, subscriptions in mine.items():
            self._deliver(now_us, client_id, message, subscriptions)
        for text, members in groups.items():
            client_id, chosen = self._member(text, members)
            self._deliver(now_us, client_id, message, [chosen])
        return bool(mine or groups)

    def _member(self, text: str, members: list[tuple[str, Subscription]]) -> tuple[str, Subscription]:
        """In turn; those who are there before those who are not."""
        present = sorted((each for each in members if each[0] in self.attached), key=lambda each: each[0]) or members
        turn = self.turns[text] = self.turns.get(text, -1) + 1
        return present[turn % len(present)]

    def _deliver(self, now_us: int, client_id: str, message: Message, subscriptions: list[Subscription]) -> None:
        ids = tuple(sorted(each.subscription_id for each in subscriptions if each.subscription_id is not None))
        qos = min(message.qos, max(each.qos for each in subscriptions))
        retain = message.retain and any(each.retain_as_published for each in subscriptions)
        self._send(now_us, client_id, message, qos, retain, ids)

    def _send(
        self, now_us: int, client_id: str, message: Message, qos: int, retain: bool, ids: tuple[int, ...]
    ) -> None:
        form, connection, window = (
            Form(qos, retain, ids),
            self.attached.get(client_id),
            self.sessions[client_id].window,
        )
        if not qos:
            if connection is not None:
                connection.deliver_batch(now_us, batch_of(message), retain, ids)
        elif window.has_room(message.size_bytes):
            self._deliveries += 1
            number = window.add(delivery_of(message, form, self._deliveries))
            if connection is not None:
                connection.deliver(now_us, number)

    def _subscribe(
        self,
        now_us: int,
        connection: Connection,
        client_id: str,
        packet_id: int,
        subscriptions: tuple[Subscription, ...],
    ) -> None:
        reasons = [
            Reason.NOT_AUTHORIZED if each.filter.pattern.startswith(self.forbidden or ("\0",)) else Reason(each.qos)
            for each in subscriptions
        ]
        mine, new = self.subscriptions.setdefault(client_id, {}), list[tuple[Subscription, bool]]()
        for index, subscription in enumerate(subscriptions):
            text = subscription.filter.text
            if text not in mine and len(mine) >= self.session_limits.subscriptions_max:
                reasons[index] = Reason.QUOTA_EXCEEDED
            if reasons[index] < FAILURE_FROM:
                new.append((subscription, text in mine))
                mine[text] = subscription
                self.tree.add(subscription.filter.pattern, f"{client_id} {text}", (client_id, subscription))
        connection.answer_subscribe(now_us, packet_id, reasons)
        for subscription, replaced in new:
            handling = subscription.retain_handling
            if subscription.filter.group is None and (handling == 0 or (handling == 1 and not replaced)):
                self._send_retained(now_us, client_id, subscription)

    def _send_retained(self, now_us: int, client_id: str, subscription: Subscription) -> None:
        ids = () if subscription.subscription_id is None else (subscription.subscription_id,)
        for message in list(self.retained.values()):
            if message.expired(now_us):
                del self.retained[message.topic]
            elif subscription.filter.matches(message.topic):
                self._send(now_us, client_id, message, min(message.qos, subscription.qos), True, ids)
