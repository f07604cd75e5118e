"""A live broker: the state machine (`live/broker`) between sockets, log and journal, on one event loop.

The way of a message: bytes -> `ClientSocket` -> MQTT connection -> event -> `told` -> input -> `Core` -> orders,
which wait in the logbook until the input is on disk -> `perform` -> MQTT connections of those who get it -> bytes,
written once for each socket at the end of the tick. A message of QoS 0 takes the same way past the log.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec import Struct

from roamcast.live.broker.content import REPORT_TOPIC, BadReport, context_reported
from roamcast.live.broker.core import Core
from roamcast.live.broker.inputs import (
    AnyGiven,
    Arrived,
    Asked,
    Fired,
    Left,
    Published,
    Received,
    Released,
    Reported,
    Settled,
    Will,
    Withdrew,
)
from roamcast.live.broker.orders import AnyOrder
from roamcast.live.broker.properties import is_lasting
from roamcast.live.broker.visitor import packet_id_of
from roamcast.live.mqtt import events, packets
from roamcast.live.mqtt.limits import Limits
from roamcast.live.mqtt.messages import Message, message_of_will
from roamcast.live.mqtt.outgoing import Frames
from roamcast.live.mqtt.reasons import Reason
from roamcast.live.server.connection import ClientSocket
from roamcast.live.server.gate import Gate, OpenGate
from roamcast.live.server.logbook import Due, Logbook, Store
from roamcast.live.server.performing import Performing
from roamcast.live.server.picture import Camera, StandStill
from roamcast.live.server.tracking import LOCATION_REMARK, BadLocation, Trackers
from roamcast.live.server.watch import SilentWatch, Watch
from roamcast.model.context import Context

CLIENT_ID_BYTES_MAX = 256
"""Names of clients travel between brokers, many in one message."""
ARRIVAL_S_MAX = 120.0
"""So long may a client wait for CONNACK: longer than its session is waited for."""
SWEEP_S = 1.0
"""How often silent clients are looked for."""
WAITING_BYTES_MAX = 16 * 1024 * 1024
"""While more than this waits for the disk, publishers are not read from."""


class Redirect(Struct, frozen=True):
    """Where clients are sent instead: for now, or for good (`moved`)."""

    to: str
    moved: bool = False

    @property
    def reason(self) -> Reason:
        return Reason.SERVER_MOVED if self.moved else Reason.USE_ANOTHER_SERVER


class Handle(Protocol):
    def cancel(self) -> None: ...


class Loop(Protocol):
    """What the server needs of an event loop: a test can have time pass as it likes."""

    def call_soon(self, callback: Callable[[], None]) -> Handle: ...
    def call_later(self, delay: float, callback: Callable[[], None]) -> Handle: ...
    def time(self) -> float: ...


class BrokerServer:
    def __init__(
        self,
        core: Core,
        limits: Limits | None = None,
        store: Store | None = None,
        gate: Gate | None = None,
        watch: Watch | None = None,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1_000,
        loop: Loop | None = None,
        redirect: Redirect | None = None,
        camera: Camera | None = None,
        due: Due | None = None,
        stopwatch_s: Callable[[], float] = time.perf_counter,
        trackers: Trackers | None = None,
    ) -> None:
        """`redirect` sends everybody who comes to another broker; `camera` and `due` say how and when snapshots are
        made; `trackers` understand OwnTracks."""
        self.core = core
        self.limits = limits or Limits()
        self.frames = Frames()
        self.gate = gate or OpenGate()
        self.watch = watch or SilentWatch()
        self.redirect = redirect
        self.trackers = trackers
        self.loop: Loop = loop or asyncio.get_running_loop()
        self.sockets: dict[ClientSocket, None] = {}
        self.clients: dict[str, ClientSocket] = {}
        """By name, those who are connected."""
        self.arriving: dict[str, ClientSocket] = {}
        """By name, those who wait for CONNACK."""
        self.performing = Performing(self)
        self.logbook = Logbook(
            store,
            self._stored,
            self.loop.call_later,
            camera or StandStill(core.snapshot),
            self.watch.snapshot_done,
            due,
        )
        self._clock_us = clock_us
        self._stopwatch_s = stopwatch_s
        self._now_us = core.station.now_us
        self._arrivals = core.station.now_us
        """Numbers for those who come; no two lives of the broker have the same."""
        self._dirty: list[ClientSocket] = []
        self._passing: list[tuple[str, Message]] = []
        """Messages of QoS 0 of this tick, with their publishers."""
        self._waiting: dict[ClientSocket, None] = {}
        """Publishers that are not read from until the disk has taken what they said."""
        self._tick_is_due = False
        self._timer: Handle | None = None
        self._timer_us = 0
        self._sweeping = self.loop.call_later(SWEEP_S, self._sweep)
        self.closing = False

    def now_us(self) -> int:
        """Never goes back, whatever the machine's clock does."""
        self._now_us = max(self._now_us, self._clock_us())
        return self._now_us

    # Inputs.

    def give(self, given: AnyGiven) -> None:
        now_us, began_s = self.now_us(), self._stopwatch_s()
        orders = self.core.handle(now_us, given)
        took_s = self._stopwatch_s() - began_s
        self.watch.given(now_us, given)
        self.logbook.add(now_us, given, self.performing.recorded(orders), took_s)
        self._tick_soon()
        self._set_timer()

    def _stored(self, orders: list[AnyOrder]) -> None:
        self.performing.perform(orders)
        if self._waiting:
            self._tick_soon()

    def _tick_soon(self) -> None:
        if not self._tick_is_due:
            self._tick_is_due = True
            self.loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._tick_is_due = False
        try:
            if self._passing:
                batch, self._passing = self._passing, []
                self.performing.perform(self.core.passing(self.now_us(), batch))
        finally:
            self.logbook.commit()
            self.flush()
        if self._waiting and self.logbook.waiting_bytes <= WAITING_BYTES_MAX:
            waiting, self._waiting = self._waiting, {}
            for socket in waiting:
                socket.wait(False)

    def flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for socket in dirty:
            socket.flush()

    def _set_timer(self) -> None:
        first = self.core.next_timer()
        if first is None or (self._timer is not None and self._timer_us == first[0]):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_us = first[0]
        self._timer = self.loop.call_later(max(0.0, (first[0] - self.now_us()) / 1e6), self._fire)

    def _fire(self) -> None:
        self._timer = None
        while (first := self.core.next_timer()) is not None and first[0] <= self.now_us():
            self.give(Fired(first[1]))
        self._set_timer()

    def _sweep(self) -> None:
        now_us = self.now_us()
        for socket in list(self.sockets):
            socket.tick(now_us)
        for client, socket in list(self.arriving.items()):
            if now_us - socket.since_us > ARRIVAL_S_MAX * 1e6:
                del self.arriving[client]
                socket.mqtt.hang_up()
                socket.attend()
                self.give(Left(client, None, True))
        if not self.closing:
            self._sweeping = self.loop.call_later(SWEEP_S, self._sweep)

    # Sockets.

    def opened(self, client: ClientSocket) -> bool:
        why_not = "the broker is shutting down" if self.closing else self.gate.may_open(client, self.now_us())
        if why_not is not None:
            self.watch.remark("connection_refused", f"{client.address}: {why_not}")
            return False
        self.sockets[client] = None
        self.watch.opened(client.listener)
        return True

    def wrote(self, client: ClientSocket) -> None:
        self._dirty.append(client)
        self._tick_soon()

    def closed(self, client: ClientSocket) -> None:
        if client in self.sockets:
            del self.sockets[client]
            self.watch.closed(client.listener)
        self._waiting.pop(client, None)
        self.gate.closed(client)

    # What clients say.

    def told(self, client: ClientSocket, event: events.AnyEvent) -> None:
        match event:
            case events.Published():
                self._published(client, event)
            case events.Acknowledged(packet_id, token):
                self.give(Settled(client.name, packet_id, token))
            case events.Received(packet_id):
                self.give(Received(client.name, packet_id))
            case events.Released(packet_id):
                self.give(Released(client.name, packet_id))
            case events.Dropped(token, cause):
                self.watch.remark(f"dropped_{cause}", client.name)
                if token:
                    self.give(Settled(client.name, packet_id_of(token), token))
            case events.SubscribeRequested():
                self._asked(client, event)
            case events.UnsubscribeRequested(packet_id, filters):
                self.give(Withdrew(client.name, packet_id, filters))
            case events.ConnectRequested() if self.redirect is not None:
                to, reason = self.redirect.to, self.redirect.reason
                client.mqtt.refuse(self.now_us(), reason, "this broker takes no clients", to)
                client.mark()
            case events.ConnectRequested(connect):
                self.gate.check(client, connect, self.now_us(), partial(self._checked, client, connect))
            case events.Disconnected():
                self._disconnected(client, event)

    def _checked(self, socket: ClientSocket, connect: packets.Connect, refusal: tuple[Reason, str] | None) -> None:
        """The gate has decided, perhaps some time later."""
        now_us = self.now_us()
        # Whoever has a session here may come: taking what waits makes room.
        if refusal is None and self.logbook.full is not None and not self.core.station.knows(connect.client_id):
            refusal = (Reason.QUOTA_EXCEEDED, f"the broker cannot store anything: {self.logbook.full}")
        if refusal is not None:
            self.watch.remark("connect_refused", f"{connect.client_id}: {refusal[1]}")
            socket.mqtt.refuse(now_us, *refusal)
            socket.mark()
            return
        if len(connect.client_id.encode()) > CLIENT_ID_BYTES_MAX:
            socket.mqtt.refuse(
                now_us, Reason.CLIENT_IDENTIFIER_NOT_VALID, f"a client id has at most {CLIENT_ID_BYTES_MAX} bytes"
            )
            socket.mark()
            return
        client = connect.client_id or f"auto-{secrets.token_hex(8)}"
        for before in (self.clients.get(client), self.arriving.pop(client, None)):
            if before is not None:
                before.mqtt.disconnect(now_us, Reason.SESSION_TAKEN_OVER, "another connection uses this client id")
                before.attend()
        socket.client = client
        refusal = self._refusal_of_will(socket, connect, now_us)
        if refusal is not None:
            self.watch.remark("connect_refused", f"{client}: {refusal[1]}")
            socket.mqtt.refuse(now_us, *refusal)
            socket.mark()
            return
        self._arrivals += 1
        socket.arrival, socket.since_us = self._arrivals, now_us
        self.arriving[client] = socket
        expiry_s = min(connect.session_expiry_s, self.limits.session_expiry_max_s)
        will = None
        if connect.will is not None:
            message = message_of_will(connect.will, now_us)
            will = Will(message, connect.will.delay_s, connect.will.message_expiry_s)
        user = self.gate.user_of(socket)
        is_new = not connect.client_id
        self.give(Arrived(client, connect.clean_start, expiry_s, will, is_new, socket.arrival, user))

    def _refusal_of_will(
        self, socket: ClientSocket, connect: packets.Connect, now_us: int
    ) -> tuple[Reason, str] | None:
        """What a client leaves behind is asked about as if it published it now."""
        if connect.will is None:
            return None
        message = message_of_will(connect.will, now_us)
        if message.topic.startswith("$"):
            return Reason.TOPIC_NAME_INVALID, f"'{message.topic}': topics that begin with $ are the broker's own"
        return self.gate.may_publish(socket, message, self.context_of(socket.name), now_us)

    def _disconnected(self, client: ClientSocket, event: events.Disconnected) -> None:
        if client.client is None:
            return
        if self.clients.get(client.client) is client:
            del self.clients[client.client]
            if self.trackers is not None:
                self.trackers.forget(client.client)
            session = client.mqtt.session
            expiry_s = None if session is None else session.expiry_s
            self.give(Left(client.client, expiry_s, event.will is None))
        elif self.arriving.get(client.client) is client:
            del self.arriving[client.client]
            self.give(Left(client.client, None, True))
        self.watch.disconnected(client.client, event.reason, event.detail)

    def _published(self, client: ClientSocket, event: events.Published) -> None:
        message, packet_id, name = event.message, event.packet_id, client.name
        self._pace(client, self.gate.pace_us(client, len(message.payload), 0, self.now_us()))
        refusal = self._refusal(client, event)
        if refusal is not None:
            self.watch.remark("publish_refused", f"{name}: {refusal[1]}")
            if message.qos:
                client.mqtt.acknowledge(self.now_us(), packet_id, *refusal)
                client.mark()
            return
        if self.trackers is not None:
            self._tracked(self.trackers, name, message)
        if message.qos or message.retain or is_lasting(message):
            self.give(Published(name, packet_id, message))
            if self.logbook.waiting_bytes > WAITING_BYTES_MAX:
                self._waiting[client] = None
                client.wait(True)
        elif message.topic == REPORT_TOPIC:
            self._reported(name, message.payload)
        else:
            self.watch.passed(message)
            self._passing.append((name, message))
            self._tick_soon()

    def _pace(self, client: ClientSocket, wait_us: int) -> None:
        """Who sends too much is not read from for a while: TCP tells it to wait. All that came in one piece is taken,
        and each message of it makes the wait longer."""
        if wait_us:
            is_held = client.held_until_us is not None
            client.held_until_us = max(client.held_until_us or 0, self.now_us() + wait_us)
            if not is_held:
                client.hold(True)
                self.loop.call_later(wait_us / 1e6, partial(self._read_again, client))

    def _read_again(self, client: ClientSocket) -> None:
        left_us = (client.held_until_us or 0) - self.now_us()
        if left_us > 0:
            self.loop.call_later(left_us / 1e6, partial(self._read_again, client))
        else:
            client.held_until_us = None
            client.hold(False)

    def _refusal(self, client: ClientSocket, event: events.Published) -> tuple[Reason, str] | None:
        message = event.message
        if message.topic.startswith("$") and message.topic != REPORT_TOPIC:
            return Reason.TOPIC_NAME_INVALID, f"'{message.topic}': topics that begin with $ are the broker's own"
        if self.logbook.full is not None and (message.qos or message.retain or is_lasting(message)):
            return Reason.QUOTA_EXCEEDED, f"the broker cannot store anything: {self.logbook.full}"
        return self.gate.may_publish(client, message, self.context_of(client.name), self.now_us())

    def _reported(self, client: str, payload: bytes) -> None:
        try:
            context = context_reported(payload, self.context_of(client), self.now_us(), self.core.space)
        except BadReport as problem:
            self.watch.remark("bad_report", f"{client}: {problem}")
            return
        self._give_report(context)

    def _tracked(self, trackers: Trackers, client: str, message: Message) -> None:
        try:
            context = trackers.context(message, self.context_of(client), self.now_us())
        except BadLocation as problem:
            self.watch.remark(f"{LOCATION_REMARK}{problem}", client)
            return
        if context is not None:
            self._give_report(context)

    def _give_report(self, context: Context) -> None:
        if self.logbook.full is None:
            self.give(Reported(context))
        else:
            # The next one says the same, and nothing may pile up for a disk that takes nothing.
            self.watch.remark("report_dropped", context.host)

    def context_of(self, client: str) -> Context:
        return self.core.station.context_of(client)

    def _asked(self, client: ClientSocket, event: events.SubscribeRequested) -> None:
        if self.logbook.full is not None:
            reasons = [Reason.QUOTA_EXCEEDED] * len(event.subscriptions)
            client.mqtt.answer_subscribe(self.now_us(), event.packet_id, reasons, str(self.logbook.full))
            client.mark()
            return
        self._pace(client, self.gate.pace_us(client, None, len(event.subscriptions), self.now_us()))
        refused = {
            each.filter.text: reason
            for each in event.subscriptions
            if (reason := self.gate.may_subscribe(client, each, self.now_us())) is not None
        }
        self.give(Asked(client.name, event.packet_id, event.subscriptions, refused))

    # The end.

    def send_away(self, to: str | None) -> list[str]:
        """Takes no new clients, and tells those that are here, with the address of another broker if there is one;
        who was told."""
        self.closing = True
        self._sweeping.cancel()
        told = list(self.clients)
        reason = Reason.SERVER_SHUTTING_DOWN if to is None else Reason.USE_ANOTHER_SERVER
        for socket in list(self.sockets):
            socket.mqtt.disconnect(self.now_us(), reason, "the broker is shutting down", to)
            socket.attend()
        return told

    async def close(self, drain_s: float = 5.0, to: str | None = None) -> None:
        """Waits until what clients said is safe and performed; and, where they were told of another broker, until it
        has fetched their sessions: while this one is down nobody can."""
        told = self.send_away(to)
        deadline = self.loop.time() + drain_s
        visitors = self.core.station.visitors
        while self.loop.time() < deadline:
            if self.logbook.settled and (to is None or not any(each in visitors for each in told)):
                break
            await asyncio.sleep(0.005)
        if self._timer is not None:
            self._timer.cancel()
        self.flush()
        for socket in list(self.sockets):
            if socket.transport is not None:
                socket.transport.close()
