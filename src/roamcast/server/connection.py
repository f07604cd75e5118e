"""One client's socket: bytes to its MQTT connection and back, no more often than once a tick each way."""

import asyncio
from typing import TYPE_CHECKING, Protocol, cast

from roamcast.mqtt.connection import CLOSED, Connection
from roamcast.mqtt.events import AnyEvent
from roamcast.mqtt.limits import Limits
from roamcast.mqtt.outgoing import Frames
from roamcast.server.http.metrics import ConnectionKind

if TYPE_CHECKING:
    from roamcast.broker.session import Session


class Desk(Protocol):
    """Who decides on what clients say."""

    frames: Frames
    limits: Limits

    def now_us(self) -> int: ...
    def may_open(self, client: "ClientSocket") -> bool:
        """False: there are too many. Who may must be told of by `closed`, in the end."""
        ...

    def opened(self, client: "ClientSocket") -> None: ...
    def told(self, client: "ClientSocket", event: AnyEvent) -> None: ...
    def wrote(self, client: "ClientSocket") -> None:
        """It has something to send at the end of this tick."""
        ...

    def closed(self, client: "ClientSocket") -> None: ...


class ClientSocket(asyncio.Protocol):
    """States: open, then closing (what is left to say is sent), then gone."""

    def __init__(self, desk: Desk, listener: ConnectionKind = "tcp") -> None:
        self.desk = desk
        self.listener: ConnectionKind = listener
        self.mqtt = Connection(desk.now_us(), desk.limits, desk.frames)
        self.name = ""
        """Of its client, once it has said it and may use it."""
        self.arrival = 0
        """Which of the broker's connections this is, once it has asked to come in."""
        self.stored_early: tuple[Session, int] | None = None
        """The last delivery that was stored for its session before CONNACK."""
        self.since_us = desk.now_us()
        self.transport: asyncio.Transport | None = None
        self.address = ""
        self.dirty = False
        self._may_open = False
        self._telling = False
        self._reading = True
        self.held_until_us: int | None = None
        """How long nothing is read from it, if that is so."""
        self._held = False
        """Nothing is read for a while: the client sends too much."""
        self._waits = False
        """Nothing is read until the disk has caught up."""

    def knock(self, transport: asyncio.BaseTransport) -> bool:
        """A connection begins, and may not be able to carry anything yet: it counts from now on."""
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else ""
        self._may_open = self.desk.may_open(self)
        return self._may_open

    def give_up(self) -> None:
        """It ends before it could carry anything."""
        self.desk.closed(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if self._may_open or self.knock(transport):
            self.desk.opened(self)
        else:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self.mqtt.receive(self.desk.now_us(), data)
        self.attend()

    def attend(self) -> None:
        """Tells what happened, and has written what there is to say."""
        mqtt = self.mqtt
        if mqtt.pending and not self._telling:
            self._tell(mqtt.pending)
        if not self.dirty and (mqtt.output or mqtt.stalled == self._reading or mqtt.state is CLOSED):
            self.dirty = True
            self.desk.wrote(self)

    def _tell(self, pending: list[AnyEvent]) -> None:
        """An answer that is given at once may have more read, and so more to tell; all of it in its order."""
        self._telling = True
        try:
            for event in pending:
                self.desk.told(self, event)
        finally:
            pending.clear()
            self._telling = False

    def mark(self) -> None:
        if not self.dirty:
            self.dirty = True
            self.desk.wrote(self)

    def flush(self) -> None:
        """At the end of a tick."""
        self.dirty = False
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        mqtt = self.mqtt
        data = mqtt.outgoing()
        if data:
            transport.write(data)
        if mqtt.state is CLOSED:
            transport.close()
        elif (mqtt.stalled or self._held or self._waits) == self._reading:
            self._read_or_not(transport)

    def _read_or_not(self, transport: asyncio.Transport) -> None:
        reading = self.mqtt.reads_on and not (self._held or self._waits)
        if reading != self._reading:
            self._reading = reading
            if reading:
                self.mqtt.listens_again(self.desk.now_us())
                transport.resume_reading()
            else:
                transport.pause_reading()

    def pause_writing(self) -> None:
        self.mqtt.pause_writing()

    def resume_writing(self) -> None:
        self.mqtt.resume_writing(self.desk.now_us())
        self.attend()

    def hold(self, held: bool) -> None:
        self._held = held
        self._pause_or_not()

    def wait(self, waits: bool) -> None:
        self._waits = waits
        self._pause_or_not()

    def _pause_or_not(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self._read_or_not(self.transport)

    def tick(self, now_us: int) -> None:
        if self._held or self._waits:
            # Who is not read from cannot be heard.
            return
        deadline_us = self.mqtt.deadline_us()
        if deadline_us is not None and now_us >= deadline_us:
            self.mqtt.tick(now_us)
            self.attend()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, problem: Exception | None) -> None:
        self.mqtt.lost(self.desk.now_us())
        self._tell(self.mqtt.pending)
        self.transport = None
        self.desk.closed(self)
