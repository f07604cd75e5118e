"""A live broker: the state machine (`broker/mqtt`) between sockets, log and journal, on one event loop.

The way of a message: bytes -> `ClientSocket` -> MQTT connection -> event -> `told` -> input -> `Core` -> effects,
which wait in the write-ahead log until the input is on disk -> `perform` -> MQTT connections of receivers -> bytes,
written once for each socket at the end of the tick. A message of QoS 0, and one of QoS 1 that nobody can miss after a
crash, takes the same way past the log.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct

from roamcast.broker.modulators.budget import CpuBudget
from roamcast.broker.mqtt.ahead import Ahead, Key, keys_of
from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.effects import AnyEffect
from roamcast.broker.mqtt.inputs import (
    AnyGiven,
    Fetched,
    Finished,
    Fired,
    GoOn,
    Left,
    Overspent,
    PublishedByMany,
    PublishedTogether,
    Reported,
)
from roamcast.broker.mqtt.passing import Passing
from roamcast.broker.mqtt.positions import Positions
from roamcast.clock import SteadyClock
from roamcast.mqtt.batches import Batch
from roamcast.mqtt.limits import Limits
from roamcast.mqtt.outgoing import Frames
from roamcast.mqtt.reasons import Reason
from roamcast.server.access import AccessControl, OpenAccess
from roamcast.server.backpressure import Backpressure
from roamcast.server.connection import ClientSocket
from roamcast.server.inbound import Inbound
from roamcast.server.monitor import Monitor
from roamcast.server.outbound import Outbound
from roamcast.server.snapshot import BlockingSnapshotter, Snapshotter
from roamcast.server.storage.store import Needed
from roamcast.server.tracking import Trackers
from roamcast.server.write_ahead import RETRY_S, Due, Store, WriteAhead

ARRIVAL_S_MAX = 120.0
"""So long may a client wait for CONNACK: longer than its session is waited for."""
SWEEP_S = 1.0
"""How often silent clients are looked for."""

MEASURED_EVERY = 16
"""Of so many inputs one is timed, for all of them: the clock of a thread costs as much as a small input."""


DRAINED = "the broker is being drained"


class Redirect(Struct, frozen=True):
    """Where clients are sent instead: for now, or for good (`moved`)."""

    to: str
    moved: bool = False
    why: str = "this broker takes no clients"

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
        monitor: Monitor,
        limits: Limits | None = None,
        store: Store | None = None,
        access: AccessControl | None = None,
        clock_us: Callable[[], int] | None = None,
        loop: Loop | None = None,
        redirect: Redirect | None = None,
        snapshotter: Snapshotter | None = None,
        due: Due | None = None,
        group_s: float = 0.0,
        stopwatch_s: Callable[[], float] = time.perf_counter,
        trackers: Trackers | None = None,
        may_speak: Callable[[], bool] = lambda: True,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        """`redirect` sends everybody who comes to another broker; `snapshotter` and `due` say how and when snapshots
        are made, `group_s` how far apart commits are, and `stopwatch_s` about how much work an input was: the
        thread's own clock would be more exact, but takes as long as some inputs. `trackers` understand OwnTracks.
        `may_speak` is asked before anything is said to clients; `cpu_s` measures modulators."""
        self.core = core
        self.limits = limits or Limits()
        self.frames = Frames(core.events.seen)
        self.access = access or OpenAccess()
        self.monitor, self.metrics = monitor, monitor.metrics
        self.redirect = redirect
        self.trackers = trackers
        self.loop: Loop = loop or asyncio.get_running_loop()
        self.sockets: dict[ClientSocket, None] = {}
        self.clients: dict[str, ClientSocket] = {}
        """By name, those who are connected."""
        self.arriving: dict[str, ClientSocket] = {}
        """By name, those who wait for CONNACK."""
        self.outbound = Outbound(self)
        self.write_ahead = WriteAhead(
            store,
            self._stored,
            self.loop.call_later,
            snapshotter or BlockingSnapshotter(core.snapshot),
            self.monitor.snapshot_done,
            due,
            group_s,
            self.loop.time,
            self._give_finished,
            self.outbound.refuse_waiting,
            self._needed,
        )
        self._store = store
        self._fetched: dict[int, bytes] = {}
        """Segments that are at hand."""
        core.border.read_aside = lambda number: self._fetched.get(number, b"")
        if store is None:
            core.broker.neighbours.disk = None
        self.backpressure = Backpressure(self.write_ahead)
        self.ahead = core.border.ahead = Ahead()
        self.cpu_budget = core.border.cpu_budget = CpuBudget(core.border.modulator_limits, cpu_s)
        self.positions = core.border.positions = Positions(core.border)
        self.inbound = Inbound(self)
        self.told = self.inbound.told
        self._clock_us = clock_us or SteadyClock().now_us
        self._stopwatch_s = stopwatch_s
        self._may_speak = may_speak
        self._inputs = 0
        self.heard_us = core.border.now_us
        """When `now_us` was asked last, which is whenever bytes come."""
        self._arrivals = core.border.now_us
        """Numbers for those who come; no two lives of the broker have the same."""
        self._dirty: list[ClientSocket] = []
        self._finished: list[tuple[str, tuple[int, ...]]] = []
        """By client, the numbers of deliveries that were finished in this tick."""
        self._published: list[PublishedTogether] = []
        """Messages of this tick that are logged together."""
        self._publishers: set[str] = set()
        """Whose they are."""
        self.passing: list[tuple[str, Batch]] = []
        """Messages of this tick that need no log, with their publishers; all of one QoS."""
        self._passing_qos = 0
        self._getting: dict[str, None] = {}
        """Clients that wait for portions of retained messages, in turn."""
        self._giving: str | None = None
        """Whose portion is on its way to the disk."""
        self._tick_is_due = False
        self._timer: Handle | None = None
        self._timer_us = 0
        self._sweeping = self.loop.call_later(SWEEP_S, self._sweep)
        self.closing = False
        self.draining = False
        """It takes no clients for now; links go on, so that sessions can be fetched."""
        self._drained_to: Redirect | None = None

    def now_us(self) -> int:
        """Never goes back, whatever the machine's clock does."""
        now_us = self._clock_us()
        if now_us > self.heard_us:
            self.heard_us = now_us
        return self.heard_us

    # Inputs.

    def finished(self, client: str, numbers: tuple[int, ...]) -> None:
        """Deliveries that are over: those that are logged are one input with all others of this tick."""
        if not self.core.finish_unlogged(client, numbers):
            self._finished.append((client, numbers))
            self.tick_soon()
        elif self.core.border.giving.walks:
            self.outbound.perform(self.core.border.take_effects())

    def _give_finished(self) -> None:
        if self._finished:
            finished, self._finished = self._finished, []
            self._give(Finished(tuple(finished)))

    def publish(self, given: PublishedTogether) -> None:
        """With all others of this tick, before whatever else is given but reports of other clients: connections that
        are read in one tick might as well have been read in another order."""
        self._published.append(given)
        self._publishers.add(given.client)
        self.tick_soon()

    def give_published_by(self, client: str) -> None:
        """What a client says next comes behind what it has published."""
        if client in self._publishers:
            self._give_published()

    def _give_published(self) -> None:
        rows, self._published = self._published, []
        self._publishers.clear()
        self.give(rows[0] if len(rows) == 1 else PublishedByMany(tuple(rows)))

    def give(self, given: AnyGiven) -> None:
        if self._published and not isinstance(given, Reported):
            self._give_published()
        if self._finished and not isinstance(given, Reported):
            # What makes room in sessions comes before what may need it.
            self._give_finished()
        self._give(given)

    def _give(self, given: AnyGiven) -> None:
        while self.passing and (self._passing_qos or isinstance(given, Left)):
            # Who leaves has said so before, and when its session ends nobody knows it any more. And whether messages
            # of QoS 1 need the log may be another matter after an input.
            self.pass_waiting()
        now_us, took_s = self.now_us(), 0.0
        self._inputs += 1
        if self._inputs % MEASURED_EVERY == 0:
            began_s = self._stopwatch_s()
            effects = self.core.handle(now_us, given)
            took_s = (self._stopwatch_s() - began_s) * MEASURED_EVERY
        else:
            effects = self.core.handle(now_us, given)
        self.monitor.given(given)
        effects = self.outbound.remarked(effects)
        if self.ahead.marked:
            effects.append(self.ahead.take())
        self.write_ahead.add(now_us, given, effects, took_s)
        self.tick_soon()
        if self.core.border.timers.changed:
            self._set_timer()

    def _needed(self) -> Needed:
        neighbours = self.core.broker.neighbours
        return Needed(neighbours.segments, neighbours.set_aside())

    def fetch(self, peer: str, number: int) -> None:
        """Has what waits for a neighbour read from the store."""
        if self._store is not None and not self.closing:
            self._store.fetch(number, partial(self._read, peer, number))

    def _read(self, peer: str, number: int, body: bytes | None) -> None:
        if body is None:
            self.loop.call_later(RETRY_S, partial(self.fetch, peer, number))
            return
        self._fetched[number] = body
        self.give(Fetched(peer, number))
        del self._fetched[number]

    def pass_on(self, client: str, batch: Batch) -> None:
        """Messages that need no log: with all others of this tick, in their order."""
        self.metrics.received(batch.qos, batch.payload_bytes, len(batch.messages))
        if self._published and batch.qos:
            self._give_published()
        while self.passing and self._passing_qos != batch.qos:
            self.pass_waiting()
        self._passing_qos = batch.qos
        if self.ahead.waiting and not batch.qos:
            keys = keys_of(client, batch.messages[0])
            if any(key in self.ahead.waiting for key in keys):
                pass_it = partial(self.core.passing, self.now_us(), [(client, batch)])
                self._stay_behind(keys, pass_it, [each.size_bytes for each in batch.messages])
                socket = self.clients.get(client)
                if socket is not None:
                    self.backpressure.said(socket)
                return
        self.passing.append((client, batch))
        self.tick_soon()

    def heard_passing(self, peer: str, passing: Sequence[Passing]) -> bool:
        """Those of a neighbour's frame; whether any of them waits for the disk."""
        now_us, waiting, held = self.now_us(), self.ahead.waiting, False
        if not waiting:
            self.outbound.perform(self.core.heard_passing(now_us, peer, passing))
            return False
        for each in passing:
            event, pass_it = each.event, partial(self.core.heard_passing, now_us, peer, (each,))
            key = event.publisher.host, event.subject
            if key in waiting:
                self._stay_behind((key,), pass_it, [len(event.body or b"")])
                held = True
            else:
                self.outbound.perform(pass_it())
        return held

    def _stay_behind(self, keys: tuple[Key, ...], pass_it: Callable[[], list[AnyEffect]], sizes: list[int]) -> None:
        """What would overtake something that waits to be stored waits too; while nothing can be, it is lost."""
        if self.write_ahead.full is not None:
            for _ in sizes:
                self.monitor.remark("passing_dropped", keys[0][0])
            return
        effects = self.outbound.bound_to_links(self.outbound.remarked(pass_it()))
        for key in keys:
            self.ahead.mark(*key)
        self.write_ahead.add_behind([*effects, self.ahead.take()], sum(sizes))
        self.tick_soon()

    def pass_waiting(self) -> None:
        """Those of QoS 1 behind all that waits for the disk: a client gets its deliveries in their order."""
        if not self.passing:
            return
        passing, self.passing = self.passing, []
        if not self._passing_qos:
            self.outbound.perform(self.core.passing(self.heard_us, passing))
            return
        effects = self.core.passing_reliably(self.heard_us, passing)
        if not self.write_ahead.owes:
            self.outbound.perform(effects)
            return
        for client, batch in passing:
            self.ahead.mark(client, batch.topic)
        effects = [*self.outbound.remarked(effects), self.ahead.take()]
        self.write_ahead.add_behind(effects, sum([batch.payload_bytes for _, batch in passing]))
        for client, _ in passing:
            if client in self.clients:
                self.backpressure.said(self.clients[client])
        self.tick_soon()

    def next_arrival(self) -> int:
        self._arrivals += 1
        return self._arrivals

    def _stored(self, effects: list[AnyEffect]) -> None:
        if effects:
            self.now_us()
            self.outbound.perform(effects)
        if self.backpressure.held:
            self.tick_soon()

    def tick_soon(self) -> None:
        if not self._tick_is_due:
            self._tick_is_due = True
            self.loop.call_soon(self._tick)

    def _tick(self) -> None:
        try:
            if self._published:
                self._give_published()
            if self._finished:
                self._give_finished()
            while self.passing:
                # Whoever is answered may go on, with what was not read before.
                self.pass_waiting()
            if self.positions.waiting:
                self.outbound.perform(self.core.positions(self.heard_us))
            if self.cpu_budget.overspent:
                self._switch_off_modulators()
            if self._getting and self._giving is None:
                self._go_on_giving()
        finally:
            # What is written or given up to here belongs to this tick; what a commit brings about, to the next.
            self._tick_is_due = False
            self.write_ahead.commit()
            self.flush()
        if self.backpressure.held:
            self.backpressure.release()

    def gave(self, client: str, more: bool) -> None:
        """A portion of retained messages has gone out, and perhaps it is another one's turn."""
        if self._giving == client:
            self._giving = None
        if more:
            self._getting[client] = None
        if self._getting:
            self.tick_soon()

    def _go_on_giving(self) -> None:
        client = self._giving = next(iter(self._getting))
        del self._getting[client]
        self.give(GoOn(client))

    def _switch_off_modulators(self) -> None:
        """The reason goes with DISCONNECT, which every client of MQTT 5 can show; its session waits for it."""
        for client, name in self.cpu_budget.take_overspent():
            session = self.core.border.sessions.get(client)
            if session is None or name not in session.modulators:
                continue
            self.give(Overspent(client, name))
            socket = self.clients.get(client)
            if socket is not None:
                why = f"the modulator of '{name}' took too much of the broker's processor and is switched off"
                socket.mqtt.disconnect(self.now_us(), Reason.QUOTA_EXCEEDED, why)
                socket.attend()

    def flush(self) -> None:
        if self._dirty and not self._may_speak():
            return
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

    def may_open(self, client: ClientSocket) -> bool:
        if self.closing or (self.draining and self._drained_to is None):
            why_not: str | None = "the broker is shutting down" if self.closing else DRAINED
        else:
            why_not = self.access.may_open(client, self.now_us())
        if why_not is not None:
            self.monitor.remark("connection_refused", f"{client.address}: {why_not}")
        return why_not is None

    def opened(self, client: ClientSocket) -> None:
        self.sockets[client] = None
        self.monitor.opened(client.listener)

    def wrote(self, client: ClientSocket) -> None:
        self._dirty.append(client)
        if not self._tick_is_due:
            self.tick_soon()

    def closed(self, client: ClientSocket) -> None:
        if client in self.sockets:
            del self.sockets[client]
            self.monitor.closed(client.listener)
        self.backpressure.forget(client)
        self.access.closed(client)

    def check_rights(self) -> None:
        """The rules have changed: whoever is here stays, as far as they still allow it."""
        for socket in list(self.clients.values()):
            session = self.core.border.sessions.get(socket.name)
            if session is not None:
                self.inbound.forbid(socket, session, socket.mqtt.sent_through)
            if not self.access.may_stay(socket):
                socket.mqtt.disconnect(self.now_us(), Reason.NOT_AUTHORIZED, "the rules have changed")
                socket.attend()
        for session in list(self.core.border.sessions.values()):
            if not session.connected:
                self.inbound.forbid_will(session)

    # The end.

    def send_away(self, to: str | None) -> list[str]:
        """Takes no new clients, and tells those that are here, with the address of another broker if there is one;
        who was told."""
        self.closing = True
        self._sweeping.cancel()
        return self._dismiss(to, "the broker is shutting down")

    def drain(self, to: str | None) -> list[str]:
        """The same before maintenance: the broker goes on, and may take clients again. Those who come meanwhile are
        told of the other broker too."""
        self.draining = True
        self._drained_to = None if to is None else Redirect(to, why=DRAINED)
        return self._dismiss(to, DRAINED)

    def undrain(self) -> None:
        self.draining = False
        self._drained_to = None

    @property
    def sends_to(self) -> Redirect | None:
        """Where clients that come are sent, if they are."""
        return self._drained_to or self.redirect

    def _dismiss(self, to: str | None, why: str) -> list[str]:
        told = list(self.clients)
        reason = Reason.SERVER_SHUTTING_DOWN if to is None else Reason.USE_ANOTHER_SERVER
        for socket in list(self.sockets):
            socket.mqtt.disconnect(self.now_us(), reason, why, to)
            socket.attend()
        return told

    def abort(self) -> None:
        """Closes every connection at once; nobody is told anything."""
        self.closing = True
        self._sweeping.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for socket in list(self.sockets):
            if socket.transport is not None:
                socket.transport.abort()

    async def close(self, drain_s: float = 5.0, to: str | None = None) -> None:
        """Waits until what clients said is safe and performed; and, where they were told of another broker, until it
        has fetched their sessions: while this one is down nobody can."""
        told = self.send_away(to)
        self.write_ahead.press()
        deadline = self.loop.time() + drain_s
        sessions = self.core.border.sessions
        while self.loop.time() < deadline:
            if self.write_ahead.settled and (to is None or not any(each in sessions for each in told)):
                break
            await asyncio.sleep(0.005)
        if self._timer is not None:
            self._timer.cancel()
        self.flush()
        for socket in list(self.sockets):
            if socket.transport is not None:
                socket.transport.close()
