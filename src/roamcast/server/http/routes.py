"""What is at which path. A path that ends with `/` stands for everything below it; the longest one counts."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct


class HttpRequest(Struct, frozen=True):
    """`path` is as it was sent, without the query and not decoded; names of headers are in lower case."""

    method: str
    path: str
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


class HttpResponse(Struct, frozen=True):
    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


Handler: TypeAlias = Callable[[HttpRequest], HttpResponse]
"""Called on the loop, so it answers at once."""


class Upgrade(Struct, frozen=True):
    """The connection is handed over to a protocol that gets the request's bytes again: `WebSocketProtocol`."""

    make: Callable[[], asyncio.Protocol]


Routes: TypeAlias = Mapping[str, Handler | Upgrade]


def route_of(routes: Routes, path: str) -> Handler | Upgrade | None:
    found = routes.get(path)
    end = len(path)
    while found is None and (end := path.rfind("/", 0, end)) >= 0:
        found = routes.get(path[: end + 1])
    return found


def plain(status: int, text: str, *headers: tuple[str, str]) -> HttpResponse:
    return HttpResponse(status, f"{text}\n".encode(), headers=headers)
