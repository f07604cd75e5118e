"""Real brokers that are asked over HTTP by the client of the standard library."""

import asyncio
import base64
import http.client
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from roamcast.server.running import RunningBroker
from roamcast.server.security.passwords import set_password
from tests.server.studio.stage import broker_at, port_of

PATIENCE_S = 20.0
RULES = [
    {
        "users": ["ops"],
        "publish": ["$roam/admin/#", "$roam/fences/#"],
        "subscribe": ["$roam/admin/#", "$roam/position/#", "$roam/fences/#"],
    },
    {"users": ["van-*"], "publish": ["vans/%u/#"], "subscribe": ["vans/#"]},
    {"users": ["map"], "subscribe": ["$roam/position/van-1", "$roam/fences/#"]},
]


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def signed(user: str | None) -> dict[str, str]:
    """The password of each user is the name."""
    if user is None:
        return {}
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{user}".encode()).decode()}


async def ask(
    broker: RunningBroker,
    method: str,
    path: str,
    body: bytes | str | None = None,
    user: str | None = None,
    headers: dict[str, str] | None = None,
    **query: Any,
) -> Answer:
    target = quote(path) + (f"?{urlencode(query)}" if query else "")

    def work() -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", port_of(broker, "http"), timeout=PATIENCE_S)
        connection.request(method, target, body, {**signed(user), **(headers or {})})
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        answer = Answer(response.status, found, response.read())
        connection.close()
        return answer

    return await asyncio.to_thread(work)


class Stream:
    """Server-Sent Events, as a browser reads them."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def next_event(self) -> dict[str, Any]:
        while True:
            line = await self._reader.readline()
            assert line, "the stream ended"
            if line.startswith(b"data: "):
                event: dict[str, Any] = json.loads(line[6:])
                return event

    async def ended(self) -> None:
        while await self._reader.readline():
            pass


@asynccontextmanager
async def stream(broker: RunningBroker, user: str | None = None, **query: Any) -> AsyncIterator[Stream]:
    """It is subscribed from the beginning."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(broker, "http"))
    lines = [f"GET /api/events?{urlencode(query)} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in signed(user).items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    status = await reader.readline()
    assert b" 200 " in status, status
    while not (await reader.readline()).startswith(b": subscribed"):
        pass
    try:
        yield Stream(reader)
    finally:
        writer.close()


@asynccontextmanager
async def guarded(folder: Path, **given: Any) -> AsyncIterator[RunningBroker]:
    """With users, of whom each has its name as password, and rules."""
    for user in ("ops", "van-1", "van-2", "map"):
        set_password(folder / "passwords", user, user)
    security = {"passwords": str(folder / "passwords"), "rules": RULES, "limits": {"connects_per_s": 0}}
    listeners = [{"kind": "tcp", "host": "127.0.0.1", "port": 0}]
    async with broker_at(folder, security=security, listeners=listeners, **given) as broker:
        yield broker
