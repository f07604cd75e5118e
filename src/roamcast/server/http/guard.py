"""What stands before every request: limits, the origin of the page that asks, headers, and mistakes of ours.

A browser says from which page a request comes. Pages of other servers get nothing, also no WebSocket, but for those
that `http.origins` and `studio.others` name.
"""

from collections.abc import Callable, Collection
from urllib.parse import urlsplit

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roamcast.server.http.limits import HttpLimits
from roamcast.server.security.limits import Bucket

FIXED_HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
}
METHODS = "GET, HEAD, POST, PUT, DELETE"


class Guard:
    def __init__(
        self,
        app: ASGIApp,
        limits: HttpLimits,
        now_us: Callable[[], int],
        origins: Collection[str] = (),
        failed: Callable[[str, Exception], None] = lambda _, __: None,
    ) -> None:
        self._app = app
        self._limits = limits
        self._now_us = now_us
        self._bucket = Bucket(now_us(), limits.requests_per_s, 1.0)
        self._origins = frozenset(alias for each in origins for alias in aliases_of(each))
        self._failed = failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if self._refusal(headers, scope) is not None:
            await send({"type": "websocket.close"})
            return
        try:
            await self._app(scope, receive, send)
        except OSError:
            # It has gone.
            return
        except Exception as problem:
            self._failed(scope["path"], problem)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = Answer(send)
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and not is_own(origin, headers):
            answer.allowed_origin = origin if origin in self._origins else None
        refusal: Response | None = self._refusal(headers, scope)
        if refusal is None and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            wanted = headers.get("access-control-request-headers", "")
            allows = {"access-control-allow-methods": METHODS, "access-control-allow-headers": wanted}
            refusal = Response(status_code=204, headers=allows)
        body = b""
        if refusal is None:
            whole = await self._whole_body(headers, receive)
            if whole is None:
                refusal = plain(413, "the body is too large")
                refusal.headers["connection"] = "close"
            else:
                body = whole
        if refusal is not None:
            await refusal(scope, receive, answer)
            return
        try:
            await self._app(scope, replayed(body, receive), answer)
        except Exception as problem:
            self._failed(scope["path"], problem)
            if not answer.began:
                await plain(500, "this failed here; the log of the broker says why")(scope, receive, answer)

    def _refusal(self, headers: Headers, scope: Scope) -> Response | None:
        if not self._bucket.allows(self._now_us()):
            return plain(429, "too many requests", {"retry-after": "1"})
        size = len(scope["raw_path"]) + len(scope["query_string"])
        if size + sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > self._limits.head_bytes_max:
            return plain(431, "the head is too large")
        origin = headers.get("origin")
        if origin is not None and not is_own(origin, headers) and origin not in self._origins:
            return plain(403, "pages of other servers are answered only where http.origins names them")
        return None

    async def _whole_body(self, headers: Headers, receive: Receive) -> bytes | None:
        """None if it is too long."""
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self._limits.body_bytes_max:
            return None
        body: bytes = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return body
            body += message.get("body", b"")
            if len(body) > self._limits.body_bytes_max:
                return None
            if not message.get("more_body", False):
                return body


class Answer:
    """Sends with the headers that every answer has."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.began = False
        self.allowed_origin: str | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.began = True
            headers = MutableHeaders(scope=message)
            for name, value in FIXED_HEADERS.items():
                headers.setdefault(name, value)
            if self.allowed_origin is not None:
                headers["access-control-allow-origin"] = self.allowed_origin
                headers["cross-origin-resource-policy"] = "cross-origin"
            headers.append("vary", "origin")
        try:
            await self._send(message)
        except h11.ProtocolError:
            # The peer went on with what is no HTTP, and its connection is closed.
            return


def replayed(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, and then whatever else comes."""
    told = False

    async def receive_again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def plain(status: int, text: str, headers: dict[str, str] | None = None) -> PlainTextResponse:
    return PlainTextResponse(f"{text}\n", status, headers)


def is_own(origin: str, headers: Headers) -> bool:
    """Whether a page comes from this very server. A proxy may speak TLS for it, so the scheme says nothing."""
    try:
        return urlsplit(origin).netloc == headers.get("host")
    except ValueError:
        return False


def aliases_of(origin: str) -> list[str]:
    """This machine has two usual names in a browser."""
    names = ("//127.0.0.1", "//localhost")
    found = [origin]
    for one, other in (names, names[::-1]):
        scheme, sign, rest = origin.partition(one)
        if sign and rest[:1] in ("", ":"):
            found.append(f"{scheme}{other}{rest}")
    return found
