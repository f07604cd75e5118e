"""A Starlette application on the broker's own event loop, by uvicorn's protocols.

uvicorn's server class has a loop and signal handlers of its own, which a broker must not have twice, so only its
protocols are used. They are made stricter here: a connection must bring a whole request within `idle_s`, there are
at most so many connections, and bytes that make no sense end their connection without a line in the log.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any, cast

import h11
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from uvicorn.server import ServerState
from wsproto import events

from roamcast.server.http.limits import HttpLimits

TEXT_BYTES_MAX = 4_096
"""Of what somebody says in a WebSocket."""
CROWDED = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 21\r\n"
    b"connection: close\r\n\r\ntoo many connections\n"
)
CLOSING_S = 2.0
"""So long may requests that are being answered take when the broker stops."""

# What uvicorn remarks is about the bytes of strangers; mistakes of ours are told by `guard.py`.
for name in ("uvicorn.error", "uvicorn.access"):
    logging.getLogger(name).addHandler(logging.NullHandler())
    logging.getLogger(name).propagate = False


class HttpServer:
    """Start it on a loop, close it on the same."""

    def __init__(self, app: ASGIApp, limits: HttpLimits | None = None) -> None:
        self.limits = limits or HttpLimits()
        self.state = ServerState()
        self.port = 0
        self._config = Config(
            app,
            http="h11",
            ws=cast(Any, PatientWebSocket),
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            ws_max_size=TEXT_BYTES_MAX,
            ws_ping_interval=None,
            ws_per_message_deflate=False,
            timeout_keep_alive=cast(int, self.limits.idle_s),
            h11_max_incomplete_event_size=self.limits.head_bytes_max,
        )
        self._config.load()
        self._listener: asyncio.Server | None = None

    @property
    def connections(self) -> int:
        return len(self.state.connections)

    async def start(self, host: str, port: int, context: ssl.SSLContext | None = None) -> None:
        """With port 0 the system chooses one; `port` says which."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: PatientHttp(self), host, port, ssl=context)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.state.connections):
            connection.shutdown()
        tasks = list(self.state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSING_S)
        for task in tasks:
            task.cancel()
        for connection in list(self.state.connections):
            connection.transport.abort()


class PatientHttp(H11Protocol):
    def __init__(self, server: HttpServer) -> None:
        super().__init__(server._config, server.state, {})
        self._limits = server.limits
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > self._limits.connections_max:
            transport.write(CROWDED)
            transport.close()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._wait()
        carefully(self.transport, super().data_received, data)
        if self.conn.their_state is not h11.SEND_BODY and (
            self.conn.their_state is not h11.IDLE or self.transport.get_protocol() is not self
        ):
            # The request is here as a whole, or something else speaks on this connection now.
            self._patient()

    def connection_lost(self, exc: Exception | None) -> None:
        self._patient()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _wait(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(self._limits.idle_s, self.transport.abort)

    def _patient(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class PatientWebSocket(WSProtocol):
    def data_received(self, data: bytes) -> None:
        carefully(self.transport, super().data_received, data)

    def handle_ping(self, event: events.Ping) -> None:
        # Who does not read is not answered, or its answers would pile up here.
        if self.writable.is_set():
            super().handle_ping(event)


def carefully(transport: asyncio.Transport, receive: Callable[[bytes], None], data: bytes) -> None:
    """What the bytes of a stranger make fail ends the connection; there is nobody to explain it to."""
    try:
        receive(data)
    except Exception:
        transport.abort()
