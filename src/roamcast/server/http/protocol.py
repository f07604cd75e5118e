"""HTTP/1.1 on asyncio, small: h11 reads and writes, routes answer at once.

A connection is answered request by request, in order. While the peer does not read, nothing more is read from it.
Bounded: the size of a request's head and body, connections, requests per second over all connections, and how long a
connection may take over one request or be idle between two.
"""

import asyncio
import ssl
from typing import TypeAlias, cast

import h11
from msgspec import Struct

from roamcast.server.http.routes import HttpRequest, HttpResponse, Routes, Upgrade, plain, route_of
from roamcast.server.security.limits import Bucket

METHODS = ("GET", "HEAD")
FIXED_HEADERS = [("cache-control", "no-store"), ("x-content-type-options", "nosniff")]

Head: TypeAlias = list[tuple[str, str]]


class HttpLimits(Struct, frozen=True, forbid_unknown_fields=True):
    head_bytes_max: int = 16_384
    """Of a request's first line and headers together."""
    body_bytes_max: int = 65_536
    connections_max: int = 64
    requests_per_s: float = 100.0
    """Over all connections; 0 means no limit."""
    idle_s: float = 15.0
    """How long a connection may be without a whole request."""

    def __post_init__(self) -> None:
        for name in ("head_bytes_max", "connections_max"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least 1")
        if not 0 <= self.requests_per_s < float("inf") or self.body_bytes_max < 0:
            raise ValueError("requests_per_s and body_bytes_max are 0 or more")
        if not 0 < self.idle_s < float("inf"):
            raise ValueError(f"idle_s is {self.idle_s}; give seconds above 0")


class HttpServer:
    """Start it on a loop, close it on the same."""

    def __init__(self, routes: Routes, limits: HttpLimits | None = None) -> None:
        self.routes = routes
        self.limits = limits or HttpLimits()
        self.connections: set[HttpProtocol] = set()
        self.port = 0
        self._listener: asyncio.Server | None = None

    async def start(self, host: str, port: int, context: ssl.SSLContext | None = None) -> None:
        """With port 0 the system chooses one; `port` says which."""
        loop = asyncio.get_running_loop()
        self.loop = loop
        self.bucket = Bucket(self.now_us(), self.limits.requests_per_s, 1.0)
        self._listener = await loop.create_server(lambda: HttpProtocol(self), host, port, ssl=context)
        self.port = self._listener.sockets[0].getsockname()[1]

    def now_us(self) -> int:
        return round(self.loop.time() * 1e6)

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections):
            connection.transport.close()


class HttpProtocol(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=server.limits.head_bytes_max)
        self._raw = b""
        """The bytes of the request that is being read, in case that it is handed over."""
        self._request: h11.Request | None = None
        self._body = b""
        self._peer_reads = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not `isinstance`: the transports of uvloop are none of asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        self._patience = self._server.loop.call_later(self._server.limits.idle_s, self.transport.abort)
        self._server.connections.add(self)
        if len(self._server.connections) > self._server.limits.connections_max:
            self._refuse(plain(503, "too many connections"))

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._raw += data
        self._http.receive_data(data)
        self._proceed()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, problem: Exception | None) -> None:
        self._patience.cancel()
        self._server.connections.discard(self)

    def pause_writing(self) -> None:
        self._peer_reads = False
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self._peer_reads = True
        self.transport.resume_reading()
        self._proceed()

    def _proceed(self) -> None:
        """Answer whatever requests are complete."""
        while self._peer_reads and not self.transport.is_closing():
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as problem:
                self._refuse(plain(problem.error_status_hint, "this is not a request that is understood here"))
                return
            match event:
                case h11.Request():
                    self._request, self._body = event, b""
                    # h11 looks only while a head is incomplete, and this one may have come in one piece.
                    if head_bytes(event) > self._server.limits.head_bytes_max:
                        self._refuse(plain(431, "the head is too large"))
                        return
                    if self._hand_over(event):
                        return
                case h11.Data():
                    self._body += event.data
                    if len(self._body) > self._server.limits.body_bytes_max:
                        self._refuse(plain(413, "the body is too large"))
                        return
                case h11.EndOfMessage():
                    self._answer()
                case _:
                    return

    def _hand_over(self, event: h11.Request) -> bool:
        request = request_of(event, b"")
        route = route_of(self._server.routes, request.path)
        if not isinstance(route, Upgrade) or (request.header("upgrade") or "").lower() != "websocket":
            return False
        if not self._server.bucket.allows(self._server.now_us()):
            return False
        self._patience.cancel()
        self._server.connections.discard(self)
        protocol = route.make()
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        protocol.data_received(self._raw)
        return True

    def _answer(self) -> None:
        assert self._request is not None
        request = request_of(self._request, self._body)
        if not self._server.bucket.allows(self._server.now_us()):
            self._respond(plain(429, "too many requests", ("retry-after", "1")), request.method)
        else:
            self._respond(self._found(request), request.method)
        self._next()

    def _found(self, request: HttpRequest) -> HttpResponse:
        route = route_of(self._server.routes, request.path)
        if route is None:
            return plain(404, "there is nothing here")
        if request.method not in METHODS:
            return plain(405, "only to be read", ("allow", ", ".join(METHODS)))
        if isinstance(route, Upgrade):
            return plain(426, "this is a WebSocket", ("upgrade", "websocket"))
        try:
            return route(request)
        except Exception as problem:
            self._server.loop.call_exception_handler({"message": f"{request.path} failed", "exception": problem})
            return plain(500, "this failed here; the log of the broker says why")

    def _respond(self, response: HttpResponse, method: str) -> None:
        headers: Head = [
            ("content-type", response.content_type),
            ("content-length", str(len(response.body))),
            *FIXED_HEADERS,
            *response.headers,
        ]
        data = self._http.send(h11.Response(status_code=response.status, headers=headers)) or b""
        if method != "HEAD":
            data += self._http.send(h11.Data(data=response.body)) or b""
        self.transport.write(data + (self._http.send(h11.EndOfMessage()) or b""))

    def _next(self) -> None:
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            self.transport.close()
            return
        self._http.start_next_cycle()
        self._request = None
        trailing, _ = self._http.trailing_data
        self._raw = trailing
        self._patience.cancel()
        self._patience = self._server.loop.call_later(self._server.limits.idle_s, self.transport.abort)

    def _refuse(self, response: HttpResponse) -> None:
        """The last word on this connection."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            closing = (*response.headers, ("connection", "close"))
            # h11 knows that an answer to HEAD has no body, also to one that is refused halfway.
            method = "GET" if self._request is None else self._request.method.decode("latin-1")
            self._respond(HttpResponse(response.status, response.body, response.content_type, closing), method)
        self.transport.close()


def head_bytes(event: h11.Request) -> int:
    return len(event.target) + sum(len(name) + len(value) + 4 for name, value in event.headers)


def request_of(event: h11.Request, body: bytes) -> HttpRequest:
    path, _, query = event.target.decode("latin-1").partition("?")
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
    return HttpRequest(event.method.decode("latin-1"), path, query, headers, body)
