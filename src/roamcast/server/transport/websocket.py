"""WebSocket around any byte protocol: MQTT, for those that live in a browser.

`WebSocketProtocol` is what asyncio talks to; the inner protocol sees a connection once the handshake is done, with
a transport whose `write` makes binary frames. Borders between frames mean nothing (MQTT, section 6). With `text` each
write is a text frame of its own instead, and each text message comes to the inner protocol in one piece. The states:

    HANDSHAKE --request for subprotocol mqtt--> OPEN --close of either side--> CLOSED
        |                                         |
        '--anything else: HTTP error, CLOSED      '--text, broken frames: close frame, CLOSED

Bounded: the request's head is at most 16 KiB (h11), frames are handed on in pieces as they come (a text message is at
most 4 KiB), and answers to pings are left out while the peer does not read.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol, cast

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

SUBPROTOCOL = "mqtt"
HANDSHAKE_S = 10.0
TEXT_CHARS_MAX = 4_096


class Door(Protocol):
    """Who counts connections: those count too that never get further than the handshake."""

    def knock(self, transport: asyncio.BaseTransport) -> bool:
        """Whether it may go on."""
        ...

    def give_up(self) -> None:
        """It ended before the inner protocol saw it."""
        ...


class WebSocketProtocol(asyncio.Protocol):
    """`origins` are the pages, such as `https://example.org`, that a browser may come from; None: any."""

    def __init__(
        self,
        inner: asyncio.Protocol,
        subprotocol: str | None = SUBPROTOCOL,
        origins: tuple[str, ...] | None = None,
        handshake_s: float = HANDSHAKE_S,
        text: bool = False,
        door: Door | None = None,
    ) -> None:
        self.inner = inner
        self._subprotocol = subprotocol
        self._origins = origins
        self._handshake_s = handshake_s
        self._text = text
        self._door = door
        self._said = ""
        """Of a text message that is not complete."""
        self._socket = WSConnection(ConnectionType.SERVER)
        self._open = False
        self._peer_reads = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not `isinstance`: the transports of uvloop are none of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._patience = asyncio.get_running_loop().call_later(self._handshake_s, self._transport.abort)
        if self._door is not None and not self._door.knock(transport):
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._socket.receive_data(data)
            events = list(self._socket.events())
        except RemoteProtocolError as problem:
            hint = problem.event_hint
            self._reject(hint if isinstance(hint, RejectConnection) else RejectConnection())
            return
        except (LocalProtocolError, UnicodeError):
            # Bytes after the end, or a host name that is none: there is nobody to explain it to.
            self._transport.abort()
            return
        payload = b""
        for event in events:
            if isinstance(event, BytesMessage):
                payload += event.data
            else:
                self._handle(event)
        if payload and self._open:
            self.inner.data_received(payload)
        if self._open and self._socket.state is ConnectionState.REMOTE_CLOSING:
            self._finish(CloseReason.NORMAL_CLOSURE)

    def _handle(self, event: Event) -> None:
        match event:
            case Request():
                self._answer(event)
            case TextMessage() if self._text:
                self._hear(event)
            case TextMessage():
                self._finish(CloseReason.UNSUPPORTED_DATA)
            case Ping():
                if self._open and self._peer_reads and self._socket.state is ConnectionState.OPEN:
                    self._transport.write(self._socket.send(event.response()))
            case CloseConnection() if self._socket.state is ConnectionState.OPEN:
                # Not from the peer: it is what comes of frames that cannot be read.
                self._finish(event.code)

    def _hear(self, event: TextMessage) -> None:
        self._said += event.data
        if len(self._said) > TEXT_CHARS_MAX:
            self._finish(CloseReason.MESSAGE_TOO_BIG)
        elif event.message_finished:
            said, self._said = self._said, ""
            if self._open:
                self.inner.data_received(said.encode())

    def _answer(self, request: Request) -> None:
        origin = next((value for name, value in request.extra_headers if name == b"origin"), None)
        if self._subprotocol is not None and self._subprotocol not in request.subprotocols:
            self._reject(RejectConnection(status_code=400))
        elif self._origins is not None and origin is not None and origin.decode("latin-1") not in self._origins:
            self._reject(RejectConnection(status_code=403))
        else:
            self._patience.cancel()
            self._transport.write(self._socket.send(AcceptConnection(subprotocol=self._subprotocol)))
            self._open = True
            self.inner.connection_made(FramingTransport(self, self._transport))

    def _reject(self, event: RejectConnection) -> None:
        try:
            self._transport.write(self._socket.send(event))
        except LocalProtocolError:
            # It was answered already, and goes on talking.
            self._transport.abort()
        self._transport.close()

    def send(self, data: bytes) -> None:
        if self._open and self._socket.state is ConnectionState.OPEN:
            message = TextMessage(data=data.decode()) if self._text else BytesMessage(data=data)
            self._transport.write(self._socket.send(message))

    def close(self) -> None:
        self._finish(CloseReason.NORMAL_CLOSURE)

    def _finish(self, code: int) -> None:
        """What was written before still goes out; the inner protocol hears of it as of any connection that ends."""
        if self._socket.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            self._transport.write(self._socket.send(CloseConnection(code=code)))
        self._transport.close()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, problem: Exception | None) -> None:
        self._patience.cancel()
        if self._open:
            self._open = False
            self.inner.connection_lost(problem)
        elif self._door is not None:
            self._door.give_up()

    def pause_writing(self) -> None:
        self._peer_reads = False
        if self._open:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        self._peer_reads = True
        if self._open:
            self.inner.resume_writing()


class FramingTransport(asyncio.Transport):
    """What the inner protocol writes to; all but writing and closing is the socket's own."""

    def __init__(self, frames: WebSocketProtocol, transport: asyncio.Transport) -> None:
        super().__init__()
        self._frames = frames
        self._transport = transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._frames.send(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self._frames.send(b"".join(list_of_data))

    def close(self) -> None:
        self._frames.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._transport.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def can_write_eof(self) -> bool:
        return False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._frames.inner = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._frames.inner
