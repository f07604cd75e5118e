"""Publishing and subscribing over HTTP, through MQTT clients within the process.

Publications of one user from one address share a client, which stays for a while: a connection for each would be most
of the work. A CloudEvent is published as the CloudEvents binding of MQTT has it: in the structured mode its JSON is
the payload, in the binary one its attributes become user properties.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any, Literal
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from roamcast.client.packing import REPORT_TOPIC
from roamcast.mqtt.origin import ORIGIN_PROPERTY
from roamcast.mqtt.packets import Pairs, Publish, Subscribe, Wish
from roamcast.mqtt.reasons import BadPacket, Reason
from roamcast.mqtt.topics import check_topic_name
from roamcast.server.api.inner import InnerClient, Turned
from roamcast.server.api.shown import Published
from roamcast.server.http.users import CHALLENGE, Who
from roamcast.server.server import BrokerServer

IDLE_S = 30.0
"""How long the client of a user stays when nothing is published."""
SILENCE_S = 15.0
"""How often a stream says something, so that a reader who is gone is noticed."""
EVENT_STREAM = "text/event-stream"
CE_PREFIX = "ce-"
STATUS = {
    Reason.BAD_USER_NAME_OR_PASSWORD: 401,
    Reason.NOT_AUTHORIZED: 403,
    Reason.QUOTA_EXCEEDED: 507,
    Reason.PACKET_TOO_LARGE: 413,
    Reason.SERVER_UNAVAILABLE: 503,
    Reason.SERVER_BUSY: 503,
    Reason.USE_ANOTHER_SERVER: 503,
    Reason.SERVER_MOVED: 503,
    Reason.CONNECTION_RATE_EXCEEDED: 429,
}
"""What is none of these is the mistake of whoever asks."""


class PublishQuery(Struct, frozen=True, forbid_unknown_fields=True):
    qos: Literal[0, 1, 2] = 1
    retain: bool = False
    expiry_s: int | None = None
    at: str = ""
    """Where the publisher is: `x,y`."""
    relevance: str = ""
    """A scope, as the user property of that name has it."""
    audience: str = ""
    persist: bool = False


class EventsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    topic: str
    """A topic filter of MQTT, with `+` and `#`."""
    filter: str = ""
    """CQL2 over the attributes of events, such as `severity > 3 AND near(position, 500)`."""
    interest: str = ""
    publishers: str = ""
    at: str = ""
    """Where the subscriber is: `x,y`."""
    qos: Literal[0, 1] = 1
    retained: bool = True
    """Whether what was retained before is wanted too."""
    origins: bool = False
    """Whether each event says who published it, and where."""


class Speaking:
    def __init__(self, server: BrokerServer) -> None:
        self._server = server
        self._clients: dict[tuple[str | None, str], asyncio.Task[InnerClient]] = {}
        """By user and address."""
        self._leaving: dict[tuple[str | None, str], asyncio.TimerHandle] = {}

    def close(self) -> None:
        for timer in self._leaving.values():
            timer.cancel()

    async def publish(self, who: Who, topic: str, query: PublishQuery, request: Request) -> Published:
        """Publish the body to a topic: any JSON, or any other bytes.

        The answer comes when the broker has it for good. A CloudEvent can be structured or binary.
        """
        if topic == REPORT_TOPIC:
            raise HTTPException(400, f"{REPORT_TOPIC}: requests share a client; say where the publisher is by at=X,Y")
        try:
            check_topic_name(topic)
        except BadPacket as problem:
            raise HTTPException(400, problem.detail) from None
        said = {"relevance": query.relevance, "audience": query.audience, "persist": "true" if query.persist else ""}
        pairs = tuple((name, value) for name, value in said.items() if value)
        packet = Publish(
            topic,
            await request.body(),
            query.qos,
            query.retain,
            message_expiry_s=query.expiry_s,
            user_properties=(*pairs, *event_attributes(request)),
            content_type=content_type_of(request),
        )
        try:
            if query.at:
                await self._publish_from(who, query.at, packet)
            else:
                await (await self._client(who)).publish(packet)
        except Turned as turned:
            raise refusal(turned) from None
        return Published(topic, query.qos)

    async def say(self, who: Who, packet: Publish) -> None:
        """As the user's shared client; raises `HTTPException`."""
        try:
            await (await self._client(who)).publish(packet)
        except Turned as turned:
            raise refusal(turned) from None

    async def events(self, who: Who, query: EventsQuery) -> StreamingResponse:
        """Subscribe: events come as Server-Sent Events, for as long as the connection lasts."""
        report = report_at(query.at) if query.at else None
        said = {"filter": query.filter, "interest": query.interest, "publishers": query.publishers}
        pairs = [(name, value) for name, value in said.items() if value]
        pairs += [(ORIGIN_PROPERTY, "true")] if query.origins else []
        wish = Wish(query.topic, query.qos, retain_as_published=True, retain_handling=0 if query.retained else 2)
        client = InnerClient(self._server, who)
        try:
            await client.open()
            if report is not None:
                await client.publish(report)
            await client.subscribe(Subscribe(0, (wish,), user_properties=tuple(pairs)))
        except BaseException as problem:
            client.close()
            raise refusal(problem) if isinstance(problem, Turned) else problem from None
        return EventStream(client)

    async def _publish_from(self, who: Who, at: str, packet: Publish) -> None:
        """By a client of its own: the others that share one are elsewhere."""
        report = report_at(at)
        client = InnerClient(self._server, who)
        try:
            await client.open()
            await client.publish(report)
            await client.publish(packet)
        finally:
            client.close()

    async def _client(self, who: Who) -> InnerClient:
        """Raises `Turned`."""
        key = who.identity.user, who.address
        task = self._clients.get(key)
        if task is None or (task.done() and (task.exception() is not None or task.result().over)):
            task = self._clients[key] = asyncio.get_running_loop().create_task(self._opened(who))
        if key in self._leaving:
            self._leaving[key].cancel()
        self._leaving[key] = asyncio.get_running_loop().call_later(IDLE_S, self._leave, key)
        return await asyncio.shield(task)

    async def _opened(self, who: Who) -> InnerClient:
        client = InnerClient(self._server, who)
        try:
            await client.open()
        except BaseException:
            client.close()
            raise
        return client

    def _leave(self, key: tuple[str | None, str]) -> None:
        task = self._clients[key]
        failed = task.done() and task.exception() is not None
        if not failed and (not task.done() or task.result().busy):
            self._leaving[key] = asyncio.get_running_loop().call_later(IDLE_S, self._leave, key)
            return
        del self._leaving[key], self._clients[key]
        if not failed:
            task.result().close()


class EventStream(StreamingResponse):
    def __init__(self, client: InnerClient) -> None:
        super().__init__(told(client), media_type=EVENT_STREAM)
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._client.close()


async def told(client: InnerClient) -> AsyncIterator[bytes]:
    """What comes, and a sign of life now and then; each event is acknowledged when the next is asked for."""
    yield b": subscribed\n\n"
    while True:
        try:
            async with asyncio.timeout(SILENCE_S):
                arrived = await client.next_message()
        except TimeoutError:
            yield b":\n\n"
            continue
        if arrived is None:
            return
        yield b"data: " + msgspec.json.encode(message_json(arrived.packet)) + b"\n\n"
        client.taken(arrived.delivery)


def message_json(packet: Publish) -> dict[str, Any]:
    found: dict[str, Any] = {"topic": packet.topic, **payload_json(packet.payload), "qos": packet.qos}
    if packet.retain:
        found["retained"] = True
    if packet.content_type is not None:
        found["content_type"] = packet.content_type
    if packet.user_properties:
        found["properties"] = [list(each) for each in packet.user_properties]
    return found


def payload_json(payload: bytes) -> dict[str, Any]:
    """As JSON where it is some, else as text, else in base64."""
    try:
        return {"payload": msgspec.json.decode(payload)}
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        return {"text": payload.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(payload).decode()}


def event_attributes(request: Request) -> Pairs:
    """Of a CloudEvent in the binary mode."""
    return tuple(
        (name.removeprefix(CE_PREFIX), unquote(value))
        for name, value in request.headers.items()
        if name.startswith(CE_PREFIX)
    )


def content_type_of(request: Request) -> str | None:
    """What subscribers are told; a plain JSON payload needs no word."""
    given = request.headers.get("content-type")
    kind = (given or "").partition(";")[0].strip().lower()
    if kind.startswith("application/cloudevents-batch"):
        raise HTTPException(415, "a batch of CloudEvents is not understood; send them one by one")
    return None if kind in ("", "application/json", "application/x-www-form-urlencoded") else given


def report_at(text: str) -> Publish:
    """Raises `HTTPException`."""
    try:
        x, y = (float(each) for each in text.split(","))
    except ValueError:
        raise HTTPException(400, f"at is '{text[:100]}'; give x,y") from None
    return Publish(REPORT_TOPIC, msgspec.json.encode({"position": [x, y]}), 1)


def refusal(turned: Turned) -> HTTPException:
    status = STATUS.get(turned.reason, 400)
    return HTTPException(status, str(turned), CHALLENGE if status == 401 else None)
