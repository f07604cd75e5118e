"""One connection to another broker, from its first byte to its last.

    OPEN     connected; who dialled says its greeting
    NAMED    who was dialled has answered with its own, and waits for who dialled to agree
    GREETED  both agree whom they speak to; whose name is smaller decides what becomes of it
    UP       it is the link between the two: frames of its users go both ways
    CLOSED   over; nothing that still comes is looked at

Any bytes but the right ones close a connection with a remark. With TLS the other end's certificate must carry the
name that it says.
"""

import asyncio
from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol, cast

from roamcast.server.links.frames import (
    AGREED,
    CHOSEN,
    GREETING,
    PAYLOAD_BYTES_MAX,
    PING,
    PONG,
    REASON_CHARS_MAX,
    REFUSED,
    USER_KIND_MAX,
    BadFrame,
    FrameReader,
    OtherVersion,
    frame,
    read_greeting,
    write_greeting,
)
from roamcast.server.links.settings import LinkSettings

PINGS_A_PATIENCE = 3


class Stage(Enum):
    OPEN = "open"
    NAMED = "named"
    GREETED = "greeted"
    UP = "up"
    CLOSED = "closed"


UP, CLOSED = Stage.UP, Stage.CLOSED


class Owner(Protocol):
    """What a connection asks of whoever keeps all of them, and tells it."""

    name: str
    settings: LinkSettings

    def opened(self, channel: "Channel") -> bool:
        """False: it is not wanted."""
        ...

    def knows(self, name: str) -> bool: ...
    def greeted(self, channel: "Channel") -> None: ...
    def chosen(self, channel: "Channel") -> None: ...
    def took(self, channel: "Channel", kind: int, data: bytes) -> None: ...
    def closed(self, channel: "Channel") -> None: ...
    def gone(self, channel: "Channel") -> None: ...
    def remark(self, what: str, detail: str) -> None: ...


class Channel(asyncio.Protocol):
    def __init__(self, owner: Owner, peer: str | None = None) -> None:
        """`peer` is whom we dialled; None if we were dialled."""
        self.owner = owner
        self.peer = peer or ""
        self.dialled = peer is not None
        self.stage = Stage.OPEN
        self.transport: asyncio.Transport | None = None
        self.address = ""
        self.heard = 0
        """How often the other end was heard of."""
        self.loop = asyncio.get_running_loop()
        self.settled: asyncio.Future[bool] = self.loop.create_future()
        """Whether it became the link."""
        self.lost: asyncio.Future[None] = self.loop.create_future()
        """The socket is gone."""
        self._reader = FrameReader()
        self._timer: asyncio.TimerHandle | None = None
        self._heard_before = 0
        self._silent = 0
        self._waits = False
        """Nothing is read for a while: this end has enough to do."""

    # The socket.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.address = _address(transport.get_extra_info("peername"))
        if not self.owner.opened(self):
            self.end()
            return
        self._timer = self.loop.call_later(self.owner.settings.greeting_s, self._late)
        if self.dialled:
            self._write(GREETING, write_greeting(self.owner.name, self.peer))

    def data_received(self, data: bytes) -> None:
        if self.stage is CLOSED:
            return
        self.heard += 1
        self._reader.feed(data)
        try:
            while self.stage is not CLOSED:
                found = self._reader.next_frame()
                if found is None:
                    return
                self._take(*found)
        except BadFrame as problem:
            self._end_with("link_bad_bytes", str(problem))

    def connection_lost(self, problem: Exception | None) -> None:
        if not self.is_closed and self._reader.waiting_bytes:
            self.owner.remark("link_truncated", self._who())
        elif self.dialled and self.stage in (Stage.OPEN, Stage.GREETED):
            self.owner.remark("link_dial_failed", f"{self.peer}: it hung up ({problem or 'without a word'})")
        self.end()
        if not self.lost.done():
            self.lost.set_result(None)
        self.owner.gone(self)

    # What comes.

    @property
    def is_closed(self) -> bool:
        return self.stage is Stage.CLOSED

    def _take(self, kind: int, data: bytes) -> None:
        if self.stage is UP and kind <= USER_KIND_MAX:
            self.owner.took(self, kind, data)
        elif kind == GREETING and self.stage is Stage.OPEN:
            self._greeted(data)
        elif kind == AGREED and self.stage is Stage.NAMED:
            self._agreed()
        elif self.stage in (Stage.OPEN, Stage.NAMED) and kind != REFUSED:
            raise BadFrame(f"a frame of kind {kind} before the greeting is over")
        else:
            self._control(kind, data)

    def _control(self, kind: int, data: bytes) -> None:
        if kind == PING:
            self._write(PONG, b"")
        elif kind == CHOSEN and self.stage is Stage.GREETED and self.peer < self.owner.name:
            self.owner.chosen(self)
        elif kind == REFUSED:
            self._end_with("link_refused", _printable(data))
        elif kind != PONG:
            raise BadFrame(f"a frame of kind {kind} while {self.stage.value}")

    def _greeted(self, data: bytes) -> None:
        try:
            greeting = read_greeting(data)
        except OtherVersion as problem:
            self.refuse(str(problem))
            return
        name, own_name = greeting.name, self.owner.name
        if self.dialled and name != self.peer:
            self.refuse(f"{self.address} is {name}, not {self.peer}")
        elif greeting.expects != own_name:
            self.refuse(f"this is {own_name}, not {greeting.expects[:80]}")
        elif name == own_name:
            self.refuse(f"{name} is the name of both ends")
        elif not self.owner.knows(name):
            self.refuse(f"{name} is not a neighbour of {own_name}")
        elif not self._proves(name):
            self.refuse(f"the certificate does not carry the name {name}")
        else:
            self.peer = name
            if self.dialled:
                self._write(AGREED, b"")
                self._agreed()
            else:
                self._write(GREETING, write_greeting(own_name, name))
                self.stage = Stage.NAMED

    def _agreed(self) -> None:
        self.stage = Stage.GREETED
        self._reader.payload_bytes_max = PAYLOAD_BYTES_MAX
        self.owner.greeted(self)

    def _proves(self, name: str) -> bool:
        transport = self.transport
        if transport is None or transport.get_extra_info("sslcontext") is None:
            return True
        return name in names_of(transport.get_extra_info("peercert") or {})

    # What goes.

    def raise_up(self, tell: bool) -> None:
        """It is the link now."""
        if tell:
            self._write(CHOSEN, b"")
        self.stage = Stage.UP
        self._restart_timer(self.owner.settings.patience_s / PINGS_A_PATIENCE)
        if not self.settled.done():
            self.settled.set_result(True)

    def send(self, kind: int, data: bytes) -> None:
        self._write(kind, data)
        waiting_bytes = 0 if self.transport is None else self.transport.get_write_buffer_size()
        if waiting_bytes > self.owner.settings.buffer_bytes_max:
            self._overflow()

    def wait(self, waits: bool) -> None:
        """Whether to leave what the other end says where it is. The other end still hears this one's pings."""
        if self.transport is None or self.is_closed or waits == self._waits:
            return
        self._waits = waits
        if waits:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def ping(self) -> None:
        self._write(PING, b"")

    def _write(self, kind: int, data: bytes) -> None:
        if self.stage is not CLOSED and self.transport is not None:
            self.transport.write(frame(kind, data))

    def _overflow(self) -> None:
        self._end_with("link_overflow", f"{self._who()}: more than {self.owner.settings.buffer_bytes_max} bytes wait")

    # The end.

    def end(self) -> None:
        """Now, whatever is under way."""
        if not self._close():
            return
        if self.transport is not None:
            self.transport.abort()

    def end_gently(self) -> None:
        """After what was sent has left, if the other end takes it."""
        if self._close() and self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def refuse(self, why: str) -> None:
        """Ends it and tells the other end why."""
        self.owner.remark("link_refused", f"{self._who()}: {why}")
        if self.transport is not None:
            self.transport.write(frame(REFUSED, why[:REASON_CHARS_MAX].encode()))
        self.end_gently()
        # Whoever does not read even this is not waited for.
        self.loop.call_later(self.owner.settings.probe_s, self.abort)

    def _end_with(self, what: str, detail: str) -> None:
        self.owner.remark(what, f"{self._who()}: {detail}")
        self.end()

    def _close(self) -> bool:
        """False if that is so already."""
        if self.is_closed:
            return False
        if self._timer is not None:
            self._timer.cancel()
        self.stage = Stage.CLOSED
        if not self.settled.done():
            self.settled.set_result(False)
        self.owner.closed(self)
        return True

    # Time.

    def _late(self) -> None:
        self._end_with("link_late", f"not a link after {self.owner.settings.greeting_s} s")

    def _watch(self) -> None:
        """Counts pings without an answer, not the time: this end itself may have stood still, or not listened."""
        self._silent = self._silent + 1 if self.heard == self._heard_before and not self._waits else 0
        self._heard_before = self.heard
        if self._silent >= PINGS_A_PATIENCE:
            self._end_with("link_silent", f"nothing heard for {self.owner.settings.patience_s} s")
            return
        self.ping()
        self._restart_timer(self.owner.settings.patience_s / PINGS_A_PATIENCE)

    def _restart_timer(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(delay_s, self._watch)

    def _who(self) -> str:
        return self.peer or self.address


def names_of(certificate: Mapping[str, Any]) -> list[str]:
    """The names in a certificate as `ssl` shows it: alternative DNS names and the common name."""
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]
    for part in certificate.get("subject", ()):
        names += [value for key, value in part if key == "commonName"]
    return names


def _address(peername: object) -> str:
    if isinstance(peername, tuple) and len(peername) >= 2:
        return f"{peername[0]}:{peername[1]}"
    return "unknown"


def _printable(data: bytes) -> str:
    text = data[:REASON_CHARS_MAX].decode(errors="replace")
    return "".join(each if each.isprintable() else "?" for each in text)
