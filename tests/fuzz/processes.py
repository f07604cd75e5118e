"""A broker process and a node process that strangers speak to over sockets, and what they print of it.

A round opens connections side by side, says spoilt bytes on each and goes. After it another client must be served;
the process must be alive, and have printed no traceback, no mistake of its own, and no more lines than there were
inputs.
"""

import asyncio
import socket
import struct
import subprocess
from contextlib import suppress
from pathlib import Path
from random import Random

from roamcast.mqtt import encode
from roamcast.mqtt.packets import V5, V311, Connect, PingReq, Publish, Subscribe, Wish
from roamcast.multicast.drops import Dropped
from roamcast.multicast.multicast import PORT
from roamcast.server.links.frames import AGREED, GREETING, frame, write_greeting
from tests.fuzz.samples import CONNECTS, LINK_FRAMES, PACKETS, REQUESTS, UPGRADE, WEB_FRAMES
from tests.fuzz.spoiling import spoilt
from tests.multicast.samples import CODEC, announced, published, raised, seals, subscribed
from tests.ports import free_ports
from tests.processes.fleet import COMMAND, BrokerProcess, environment

CONNECTIONS = 16
SAID_MAX = 24
PATIENCE_S = 60.0
START_LINES_MAX = 20
ANSWER_S = 0.3
BAD_WORDS = ("Traceback", "a mistake in the broker", "an observer made a mistake", "Exception", "never retrieved")
LOOPBACK = "127.0.0.1"


class Failed(Exception):
    """What a process did that strangers must not bring about."""


class Watched:
    """What a process prints, as far as it was not looked at."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self._read_bytes = 0
        self.lines = 0

    def look(self, inputs: int) -> None:
        with self.output.open("rb") as file:
            file.seek(self._read_bytes)
            new = file.read()
        self._read_bytes += len(new)
        text = new.decode(errors="replace")
        for word in BAD_WORDS:
            if word in text:
                at = text.index(word)
                raise Failed(text[max(0, at - 1_000) : at + 4_000])
        count = text.count("\n")
        self.lines += count
        if count > inputs:
            raise Failed(f"{count} lines for {inputs} inputs: {text[-2_000:]}")


class FuzzedBroker:
    """MQTT over TCP and WebSocket, HTTP with the studio, and links that anybody may make."""

    name = "broker process"

    def __init__(self, folder: Path) -> None:
        self.process = BrokerProcess("fuzzed", folder)
        (self._web_port,) = free_ports(1)
        limits = {"connects_per_s": 0, "messages_per_s": 0, "connections_per_address_max": 10_000}
        self.process.settings |= {
            "log_level": "info",
            "space": "earth",
            "listeners": [{"port": self.process.mqtt_port}, {"kind": "ws", "port": self._web_port}],
            "links": {"port": self.process.link_port, "host": LOOPBACK},
            "security": {"anonymous": True, "limits": limits},
        }
        self.watched = Watched(self.process.output)
        self.counts: dict[str, int] = {}

    async def start(self) -> None:
        await self.process.start()
        self.watched.look(START_LINES_MAX)

    async def stop(self) -> None:
        await self.process.kill()

    async def round(self, rng: Random) -> int:
        seeds = [rng.randrange(2**32) for _ in range(CONNECTIONS)]
        inputs = sum(await asyncio.gather(*(self._connection(Random(each)) for each in seeds)))
        await self._serves()
        if not self.process.alive:
            raise Failed(f"it has ended: {self.process.said[-4_000:]}")
        self.watched.look(inputs)
        return inputs

    async def _connection(self, rng: Random) -> int:
        what = rng.choice(("mqtt", "mqtt", "websocket", "http", "http", "links"))
        port, said = getattr(self, f"_{what}")(rng)
        self.counts[what] = self.counts.get(what, 0) + len(said)
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                writer.write(b"".join(said))
                async with asyncio.timeout(ANSWER_S):
                    await writer.drain()
                    if rng.random() < 0.7:
                        await reader.read(1 << 16)
            finally:
                writer.transport.abort() if rng.random() < 0.5 else writer.close()
        return len(said)

    def _mqtt(self, rng: Random) -> tuple[int, list[bytes]]:
        version = rng.choice((V5, V311))
        known = PACKETS[version]
        said = [spoilt(rng, rng.choice(known), known) for _ in range(rng.randrange(1, SAID_MAX))]
        if rng.random() < 0.8:
            said[0] = encode(rng.choice(CONNECTS[version]), version)
        return self.process.mqtt_port, said

    def _websocket(self, rng: Random) -> tuple[int, list[bytes]]:
        first = UPGRADE if rng.random() < 0.7 else spoilt(rng, UPGRADE, REQUESTS)
        return self._web_port, [first, *self._frames(rng)]

    def _frames(self, rng: Random) -> list[bytes]:
        return [spoilt(rng, rng.choice(WEB_FRAMES), WEB_FRAMES) for _ in range(rng.randrange(SAID_MAX))]

    def _http(self, rng: Random) -> tuple[int, list[bytes]]:
        said = [spoilt(rng, rng.choice(REQUESTS), REQUESTS) for _ in range(rng.randrange(1, 4))]
        if rng.random() < 0.2:
            said = [UPGRADE.replace(b"/mqtt", b"/studio/feed"), *self._frames(rng)]
        return self.process.http_port, said

    def _links(self, rng: Random) -> tuple[int, list[bytes]]:
        said = [spoilt(rng, rng.choice(LINK_FRAMES), LINK_FRAMES) for _ in range(rng.randrange(1, 6))]
        if rng.random() < 0.7:
            name = f"stranger-{rng.randrange(5)}"
            said = [frame(GREETING, write_greeting(name, "fuzzed")), frame(AGREED, b""), *said]
        return self.process.link_port, said

    async def _serves(self) -> None:
        """A client connects, and hears what it says itself."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                reader, writer = await asyncio.open_connection(LOOPBACK, self.process.mqtt_port)
                said = (Connect("canary"), Subscribe(1, (Wish("canary", 0),)), Publish("canary", b"still here"))
                writer.write(b"".join(encode(each, V5) for each in (*said, PingReq())))
                await reader.readuntil(b"still here")
                writer.close()
        except (TimeoutError, OSError, asyncio.IncompleteReadError) as problem:
            raise Failed(f"a client is not served ({problem!r}): {self.process.said[-2_000:]}") from problem


class FuzzedNode:
    """An ad hoc node of the open group, and datagrams on loopback."""

    name = "node process"

    def __init__(self, folder: Path) -> None:
        self._output = folder / "node.out"
        self._output.touch()
        self._process: subprocess.Popen[bytes] | None = None
        self.watched = Watched(self._output)
        self._sender = seals("ann")
        messages = (raised("ann"), announced("ann"), subscribed("ann"), published("ann"))
        self._bodies = [CODEC.encode(each) for each in messages]
        self._datagrams = [self._sender.seal(each, 0) for each in self._bodies]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOPBACK))
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, struct.pack("b", 0))

    async def start(self) -> None:
        arguments = ["node", "bob", "--interface", LOOPBACK, "--at", "0,0", "--subscribe", "ice"]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment()
            )
        async with asyncio.timeout(PATIENCE_S):
            while not self._output.read_bytes():
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._socket.close()

    async def round(self, rng: Random) -> int:
        count = 500
        for _ in range(count):
            if rng.random() < 0.3:
                datagram = self._sealed(spoilt(rng, rng.choice(self._bodies), self._bodies))
            else:
                datagram = spoilt(rng, rng.choice(self._datagrams), self._datagrams)
            with suppress(OSError):
                self._socket.sendto(datagram, ("239.0.0.0", PORT))
        await asyncio.sleep(0.05)
        if self._process is None or self._process.poll() is not None:
            raise Failed(f"it has ended: {self._output.read_text()[-4_000:]}")
        self.watched.look(count)
        return count

    def _sealed(self, body: bytes) -> bytes:
        try:
            return self._sender.seal(body, 0)
        except Dropped:
            return b""
