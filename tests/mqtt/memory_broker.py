"""A plain broker in memory, to join connections with: retained messages, wills, shared subscriptions, expiry.

It matches by topic alone, stores nothing, and so acknowledges at once, unless `commit` is held back to see that
nothing is acknowledged before it.
"""

from collections.abc import Callable

from roamcast.mqtt import (
    Connection,
    Delivery,
    FilterTree,
    Frames,
    Limits,
    Message,
    Reason,
    Session,
    SessionLimits,
    Subscription,
    message_of_will,
)
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
from roamcast.mqtt.packets import Connect, Will
from tests.mqtt.unbatched import unbatched


class MemoryBroker:
    def __init__(self, limits: Limits | None = None, session_limits: SessionLimits | None = None) -> None:
        self.limits = limits or Limits()
        self.session_limits = session_limits or SessionLimits()
        self.frames = Frames()
        self.connections: dict[Connection, None] = {}
        self.sessions: dict[str, Session] = {}
        self.attached: dict[str, Connection] = {}
        self.retained: dict[str, Message] = {}
        self.wills: dict[str, tuple[int, Will]] = {}
        self.tree: FilterTree[tuple[str, Subscription]] = FilterTree()
        self.turns: dict[str, int] = {}
        self.passwords: dict[str, bytes] | None = None
        self.forbidden: tuple[str, ...] = ()
        self.holds_commits = False
        self.uncommitted: list[Callable[[int], None]] = []
        self.log: list[AnyEvent] = []
        self._tokens = 0
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
        for session in list(self.sessions.values()):
            ends_us = session.ends_us()
            if ends_us is not None and ends_us <= now_us:
                self._forget(session)

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
        client_id = connection.session.client_id if connection.session is not None else ""
        match event:
            case ConnectRequested(connect):
                self._connect(now_us, connection, connect)
            case Published(message, packet_id):
                self._published(now_us, connection, client_id, message, packet_id)
            case Released(packet_id):
                self._promise(now_us, lambda at_us: connection.complete(at_us, packet_id))
            case Received(packet_id, _):
                self._promise(now_us, lambda at_us: connection.release(at_us, packet_id))
            case SubscribeRequested(packet_id, subscriptions):
                self._subscribe(now_us, connection, client_id, packet_id, subscriptions)
            case UnsubscribeRequested(packet_id, filters):
                for text in filters:
                    held = connection.session.subscriptions.get(text) if connection.session is not None else None
                    if held is not None:
                        self.tree.remove(held.filter.pattern, f"{client_id} {text}")
                connection.answer_unsubscribe(now_us, packet_id)
            case Disconnected(_, _, _, will):
                self._disconnected(now_us, connection, will)
            case Acknowledged() | Dropped():
                pass

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
            session = self.sessions[client_id] = Session(client_id, limits=self.session_limits)
        if connection.accept(now_us, session, present):
            self.attached[client_id] = connection
        elif not present:
            del self.sessions[client_id]

    def _disconnected(self, now_us: int, connection: Connection, will: Will | None) -> None:
        session = connection.session
        if session is None or self.attached.get(session.client_id) is not connection:
            return
        del self.attached[session.client_id]
        wait_s = 0 if will is None else min(will.delay_s, session.expiry_s)
        if will is not None and wait_s == 0:
            self.publish(now_us, session.client_id, message_of_will(will, now_us))
        elif will is not None:
            self.wills[session.client_id] = (now_us + wait_s * SECOND_US, will)
        if session.expiry_s == 0:
            self._forget(session)

    def _forget(self, session: Session) -> None:
        for text, subscription in session.subscriptions.items():
            self.tree.remove(subscription.filter.pattern, f"{session.client_id} {text}")
        self.sessions.pop(session.client_id, None)

    def _published(
        self, now_us: int, connection: Connection, client_id: str, message: Message, packet_id: int
    ) -> None:
        reason = Reason.NOT_AUTHORIZED
        if not message.topic.startswith(self.forbidden or ("\0",)):
            found = self.publish(now_us, client_id, message)
            reason = Reason.SUCCESS if found else Reason.NO_MATCHING_SUBSCRIBERS
        if packet_id:
            self._promise(now_us, lambda at_us: connection.acknowledge(at_us, packet_id, reason))

    def publish(self, now_us: int, publisher: str, message: Message) -> bool:
        if message.retain:
            self.retained.pop(message.topic, None)
            if message.payload:
                self.retained[message.topic] = message
        mine: dict[str, list[Subscription]] = {}
        groups: dict[str, list[tuple[str, Subscription]]] = {}
        for client_id, subscription in self.tree.match(message.topic):
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
        self._tokens += 1
        delivery = Delivery(self._tokens, message, qos, retain, ids)
        connection = self.attached.get(client_id)
        if (connection is None or not connection.deliver(now_us, delivery)) and qos:
            self.sessions[client_id].enqueue(delivery)

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
        for granted in connection.answer_subscribe(now_us, packet_id, reasons):
            subscription = granted.subscription
            key = f"{client_id} {subscription.filter.text}"
            self.tree.add(subscription.filter.pattern, key, (client_id, subscription))
            handling = subscription.retain_handling
            if subscription.filter.group is None and (handling == 0 or (handling == 1 and not granted.replaced)):
                self._send_retained(now_us, client_id, subscription)

    def _send_retained(self, now_us: int, client_id: str, subscription: Subscription) -> None:
        ids = () if subscription.subscription_id is None else (subscription.subscription_id,)
        for message in list(self.retained.values()):
            if message.expired(now_us):
                del self.retained[message.topic]
            elif subscription.filter.matches(message.topic):
                self._send(now_us, client_id, message, min(message.qos, subscription.qos), True, ids)
