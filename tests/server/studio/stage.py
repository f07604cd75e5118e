"""Real brokers with a studio, unmodified MQTT clients, and a page that reads the feed as a browser would."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiomqtt
import websockets
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from roamcast.server.running import RunningBroker
from roamcast.server.settings import settings_from
from roamcast.server.studio.studio import Studio

PATIENCE_S = 40.0


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await work()

    asyncio.run(bounded())


def port_of(broker: RunningBroker, what: str) -> int:
    return next(each.port for each in broker.addresses if each.what == what)


@asynccontextmanager
async def broker_at(folder: Path, name: str = "b1", **given: Any) -> AsyncIterator[RunningBroker]:
    listeners = [{"kind": "tcp", "port": 0}, {"kind": "ws", "port": 0}]
    told = {"name": name, "data": str(folder / name), "space": "plane", "listeners": listeners, "log_level": "error"}
    broker = RunningBroker(settings_from({**told, "http": {"port": 0}, **given}, "test"))
    await broker.start()
    if broker.web is not None and broker.web.studio is not None:
        broker.web.studio.look()
    try:
        yield broker
    finally:
        await broker.stop()


@asynccontextmanager
async def two_brokers(folder: Path) -> AsyncIterator[tuple[RunningBroker, RunningBroker]]:
    """Linked."""
    async with broker_at(folder, "b1", links={"port": 0}) as one:
        peer = {"name": "b1", "host": "127.0.0.1", "port": port_of(one, "links")}
        async with broker_at(folder, "b2", links={"peers": [peer]}) as other:
            await until(lambda: all(each.server.core.border.has_neighbours() for each in (one, other)))
            yield one, other


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


# Clients.


@asynccontextmanager
async def clients(
    broker: RunningBroker, *names: str, clean: bool = True, expiry_s: int = 600
) -> AsyncIterator[list[aiomqtt.Client]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(client(broker, name, clean, expiry_s)) for name in names]


def client(broker: RunningBroker, name: str, clean: bool, expiry_s: int) -> aiomqtt.Client:
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = expiry_s
    return aiomqtt.Client(
        "127.0.0.1",
        port_of(broker, "mqtt tcp"),
        identifier=name,
        protocol=aiomqtt.ProtocolVersion.V5,
        clean_start=clean,
        properties=properties,
    )


async def report(client: aiomqtt.Client, *position: float, **told: Any) -> None:
    """Where and what a client is; done when the broker has it."""
    place = {"position": list(position)} if position else {}
    await client.publish("$roam/me", json.dumps({**place, **told}), qos=1)


async def subscribe(client: aiomqtt.Client, topic: str, qos: int = 1, **asked: str) -> None:
    properties = Properties(PacketTypes.SUBSCRIBE)
    properties.UserProperty = list(asked.items())
    await client.subscribe(topic, options=SubscribeOptions(qos=qos), properties=properties)


async def publish(
    client: aiomqtt.Client, topic: str, payload: Any = None, qos: int = 1, expiry_s: int | None = None, **said: str
) -> None:
    properties = Properties(PacketTypes.PUBLISH)
    properties.UserProperty = list(said.items())
    if expiry_s is not None:
        properties.MessageExpiryInterval = expiry_s
    body = payload if isinstance(payload, bytes) else json.dumps(payload or {}).encode()
    await client.publish(topic, body, qos=qos, properties=properties)


async def next_payload(client: aiomqtt.Client) -> bytes:
    async for message in client.messages:
        return bytes(message.payload)
    raise AssertionError("the connection ended")


def studio_of(broker: RunningBroker) -> Studio:
    assert broker.web is not None
    assert broker.web.studio is not None
    return broker.web.studio


# The page.


class Page:
    """All that it was told so far."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.hello: dict[str, Any] = {}
        self.frames = 0
        self.entities: dict[str, dict[str, Any]] = {}
        self.gone: list[str] = []
        self.regions: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self.deliveries: list[dict[str, Any]] = []
        self.handovers: list[dict[str, Any]] = []
        self.load: dict[str, Any] = {}
        self.left_out = {"events": 0, "deliveries": 0}

    async def read(self) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(await self.socket.recv())
        self.frames += 1
        if frame["kind"] == "hello":
            self.hello, self.entities, self.regions = frame, {}, {}
            return frame
        for each in frame["entities"]:
            self.entities[each["id"]] = each
        for name in frame["gone"]:
            self.entities.pop(name, None)
            self.gone.append(name)
        for each in frame["regions"]:
            self.regions[each["id"]] = each
        for name in frame["regions_gone"]:
            self.regions.pop(name, None)
        self.events += frame["events"]
        self.deliveries += frame["deliveries"]
        self.handovers += frame["handovers"]
        self.load = frame["load"]
        for what, count in frame["left_out"].items():
            self.left_out[what] += count
        return frame

    async def until(self, condition: Callable[["Page"], bool]) -> "Page":
        while not condition(self):
            await self.read()
        return self

    def event(self, subject: str) -> str:
        """The id of the event with this subject."""
        return next(str(each["id"]) for each in self.events if each["subject"] == subject)


@asynccontextmanager
async def page_of(broker: RunningBroker, **options: Any) -> AsyncIterator[Page]:
    address = f"ws://127.0.0.1:{port_of(broker, 'http')}/studio/feed"
    async with websockets.connect(address, max_size=None, **options) as socket:
        page = Page(socket)
        await page.read()
        yield page


async def get(broker: RunningBroker, path: str, *headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body; the path goes out as it is given."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(broker, "http"))
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    first, *rest = head.decode().split("\r\n")
    told = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    return int(first.split()[1]), told, body


async def ask(broker: RunningBroker, *levels: str, query: str = "") -> tuple[int, dict[str, Any]]:
    path = "/studio/" + "/".join(quote(level, safe="") for level in levels)
    status, headers, body = await get(broker, path + query)
    assert "json" in headers["content-type"]
    answer: dict[str, Any] = json.loads(body)
    return status, answer
