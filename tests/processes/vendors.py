"""Unmodified clients of four vendors as readers with one interface, and what a machine may lack for them.

Each keeps one session, comes back by itself when its connection breaks, and notes every message as its application
would see it. paho and mqtt.js reconnect on their own, and so does mosquitto_sub; aiomqtt leaves that to a loop around
it, which is the one its documentation shows.
"""

import asyncio
import functools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import aiomqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.processes.mosquitto import Library

NPM_INSTALL_S = 120
SESSION_S = 3_600
RECEIVE_MAX = 1_000
"""libmosquitto 2.0.11 counts a QoS 2 message that comes again as two, for good; with its own 20 it soon gives up."""
SILENCE_S = 3.0
"""aiomqtt does not tell when a connection ends while it is being made again; then silence is the only sign."""
Pairs = Sequence[tuple[str, str]]


class Reader(Protocol):
    got: list[str]
    """Payloads, in the order in which the application saw them."""
    swallowed: int
    """Messages of QoS 2 that the library took and never gave to the application."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def report(self, position: str) -> None:
        """Tells the broker where it is."""
        ...


async def until(true: Callable[[], bool], what: str, patience_s: float = 60.0, pace_s: float = 0.02) -> None:
    deadline = asyncio.get_running_loop().time() + patience_s
    while not true():
        assert asyncio.get_running_loop().time() < deadline, what
        await asyncio.sleep(pace_s)


HELLO = "hello "


async def until_heard(port: int, topic: str, readers: Iterable[Reader]) -> None:
    """Says hello at a broker until all readers have heard it: SUBACK does not wait until other brokers know of a
    subscription."""
    client, word = paho_client(f"hello-{port}"), f"{HELLO}{port}"

    def heard() -> bool:
        client.publish(topic, word, qos=1)
        return all(word in reader.got for reader in readers)

    connect_paho(client, port, clean=True, session_s=0)
    try:
        await until(client.is_connected, "nobody can say hello")
        await until(heard, "somebody hears nothing", pace_s=0.2)
    finally:
        await end_paho(client)


def without_hello(got: Iterable[str]) -> list[str]:
    return [each for each in got if not each.startswith(HELLO)]


def properties(kind: int, **given: Any) -> Properties:
    made = Properties(kind)
    for name, value in given.items():
        setattr(made, name, value)
    return made


class PahoReader:
    def __init__(
        self, name: str, port: int, topic: str, qos: int, asked: Pairs = (), session_s: int = SESSION_S
    ) -> None:
        self._session_s = session_s
        self.got: list[str] = []
        self.swallowed = 0
        self._subscribed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._topic, self._qos, self._asked = topic, qos, list(asked)
        self._client = paho_client(name)
        self._client.on_connect = self._connected
        self._client.on_subscribe = lambda *_: self._is_subscribed()
        self._client.on_message = lambda _client, _data, message: self.got.append(message.payload.decode())
        self.port = port

    def _connected(self, client: Any, _data: Any, flags: Any, _reason: Any, _properties: Any) -> None:
        if flags.session_present:
            self._is_subscribed()
        else:
            asked = properties(PacketTypes.SUBSCRIBE, UserProperty=self._asked) if self._asked else None
            client.subscribe(self._topic, options=SubscribeOptions(self._qos), properties=asked)

    def _is_subscribed(self) -> None:
        self._loop.call_soon_threadsafe(self._subscribed.set)

    async def start(self) -> None:
        self._subscribed.clear()
        connect_paho(self._client, self.port, session_s=self._session_s)
        await asyncio.wait_for(self._subscribed.wait(), 30)

    def publish(self, topic: str, payload: str) -> Any:
        """What paho has of a message of QoS 1."""
        return self._client.publish(topic, payload, qos=1)

    async def report(self, position: str) -> None:
        self.publish("$roam/me", position)

    async def stop(self, said: Pairs = ()) -> None:
        """`said` goes with its DISCONNECT."""
        await end_paho(self._client, said)


def paho_client(name: str, **options: Any) -> Any:
    client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5, **options)
    client.reconnect_delay_set(1, 1)
    client.max_inflight_messages_set(100)
    return client


def connect_paho(client: Any, port: int, clean: bool = False, session_s: int = SESSION_S) -> None:
    client.connect_async(
        "127.0.0.1",
        port,
        keepalive=30,
        clean_start=clean,
        properties=properties(PacketTypes.CONNECT, SessionExpiryInterval=session_s),
    )
    client.loop_start()


async def end_paho(client: Any, said: Pairs = ()) -> None:
    client.disconnect(properties=properties(PacketTypes.DISCONNECT, UserProperty=list(said)) if said else None)
    await asyncio.to_thread(client.loop_stop)


class AiomqttReader:
    def __init__(self, name: str, port: int, topic: str, qos: int, asked: Pairs = ()) -> None:
        self.got: list[str] = []
        self.swallowed = 0
        self._client = aiomqtt.Client(
            "127.0.0.1",
            port,
            identifier=name,
            protocol=aiomqtt.ProtocolVersion.V5,
            clean_start=False,
            properties=properties(PacketTypes.CONNECT, SessionExpiryInterval=SESSION_S),
            timeout=30,
        )
        self._topic, self._qos, self._asked = topic, qos, list(asked)
        self._subscribed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._next: asyncio.Task[aiomqtt.Message] | None = None

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())
        await asyncio.wait_for(self._subscribed.wait(), 30)

    async def _run(self) -> None:
        while True:
            try:
                async with self._client:
                    if not self._subscribed.is_set():
                        asked = properties(PacketTypes.SUBSCRIBE, UserProperty=self._asked) if self._asked else None
                        await self._client.subscribe(self._topic, qos=self._qos, properties=asked)
                        self._subscribed.set()
                    while await self._noted():
                        pass
            except aiomqtt.MqttReentrantError:
                # 2.5.1 keeps its lock when the broker's DISCONNECT crosses its own; to leave once more unlocks it.
                await self._client.__aexit__(None, None, None)
            except aiomqtt.MqttError:
                await asyncio.sleep(0.2)

    async def _noted(self) -> bool:
        """Whether anything came in a while. Who waits for the next message is never cancelled: aiomqtt would lose
        one that has come in the same moment."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._client.messages.__anext__())
        done, _ = await asyncio.wait((self._next,), timeout=SILENCE_S)
        if done:
            came, self._next = self._next, None
            self.got.append(bytes(came.result().payload).decode())
        return bool(done)

    async def report(self, position: str) -> None:
        await self._client.publish("$roam/me", position, qos=1)

    async def stop(self) -> None:
        tasks = [each for each in (self._task, self._next) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class ProcessReader:
    """A client in a process of its own: each line that it prints is a payload, but for those with a mark."""

    MARK = "#"

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self.swallowed = 0
        self.got: list[str] = []
        self.marks: list[str] = []
        self._command = list(command)
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._marked = asyncio.Event()

    def add(self, *arguments: str) -> None:
        """To its command line."""
        self._command += arguments

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._reading = asyncio.get_running_loop().create_task(self._read())
        await self.until_marked("subscribed")

    async def until_marked(self, word: str) -> None:
        async def wait() -> None:
            while not any(word in mark for mark in self.marks):
                self._marked.clear()
                await self._marked.wait()

        await asyncio.wait_for(wait(), 30)

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            text = line.decode().rstrip("\n")
            if text.startswith(self.MARK):
                self.marks.append(text[1:])
                self._marked.set()
            else:
                self.note(text)

    def note(self, text: str) -> None:
        self.got.append(text)

    def say(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        if self._reading is not None:
            await self._reading


class MosquittoReader(ProcessReader):
    """`mosquitto_sub -d` says between payloads what it does, a line at a time with `stdbuf`: so SUBACK is seen, and
    what its library makes of messages of QoS 2."""

    def __init__(
        self, name: str, port: int, topic: str, qos: int, asked: Pairs = (), session_s: int = SESSION_S
    ) -> None:
        command = [
            "stdbuf",
            "-oL",
            "mosquitto_sub",
            "-V",
            "5",
            "-h",
            "127.0.0.1",
            "-p",
            str(port),
            "-i",
            name,
            "-c",
            "-d",
        ]
        command += ["-D", "connect", "receive-maximum", str(RECEIVE_MAX)]
        command += ["-x", str(session_s), "-q", str(qos), "-t", topic, "-F", ">%p"]
        for key, value in asked:
            command += ["-D", "subscribe", "user-property", key, value]
        super().__init__(name, command)
        self._address = ["-V", "5", "-h", "127.0.0.1", "-p", str(port)]
        self.library = Library()

    def note(self, text: str) -> None:
        if text.startswith(">"):
            if self.library.gives():
                self.got.append(text[1:])
            return
        self.library.does(text)
        self.swallowed = self.library.swallowed
        if text.startswith("Subscribed"):
            self.marks.append("subscribed")
            self._marked.set()
        else:
            self.marks.append(text)

    async def report(self, position: str) -> None:
        """mosquitto_sub cannot publish; but who connects with its name speaks for it, and then it comes back."""
        await self.stop()
        subprocess.run(
            [
                *["mosquitto_pub", *self._address, "-i", self.name, "-c", "-x", str(SESSION_S)],
                *["-t", "$roam/me", "-q", "1", "-m", position],
            ],
            check=True,
            timeout=30,
        )
        self.marks.clear()
        await self.start()


SCRIPT = Path(__file__).with_name("reader.js")


class MqttJsReader(ProcessReader):
    def __init__(
        self,
        name: str,
        port: int,
        topic: str,
        qos: int,
        asked: Pairs = (),
        scheme: str = "mqtt",
        options: dict[str, Any] | None = None,
    ) -> None:
        """`options` are those of `mqtt.connect`, beside the usual ones."""
        pairs = [text for pair in asked for text in pair]
        command = [
            "env",
            f"MQTT_OPTIONS={json.dumps(options or {})}",
            "node",
            str(SCRIPT),
            str(mqtt_js()),
            f"{scheme}://127.0.0.1:{port}",
            name,
            topic,
            str(qos),
            *pairs,
        ]
        super().__init__(name, command)

    async def report(self, position: str) -> None:
        self.say(f"$roam/me 1 {position}")
        await self.until_marked("published $roam/me")


@functools.cache
def mqtt_js() -> Path:
    """Where the package lies; skips the test where it cannot be had."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    folder = Path(tempfile.gettempdir()) / f"roamcast-mqtt-js-{Path.home().owner()}"
    package = folder / "node_modules" / "mqtt"
    if not (package / "package.json").exists():
        folder.mkdir(exist_ok=True)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), "mqtt@5"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=NPM_INSTALL_S)
        except (subprocess.SubprocessError, OSError) as problem:
            pytest.skip(f"mqtt.js cannot be installed from the registry of npm: {problem}")
    return package


def mosquitto_pub(port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As a person calls it, with MQTT 5 and QoS 1; it ends when the message is acknowledged, or refused."""
    command = ["mosquitto_pub", "-V", "5", "-h", "127.0.0.1", "-p", str(port), "-q", "1", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


READERS: dict[str, Callable[..., Reader]] = {
    "paho": PahoReader,
    "aiomqtt": AiomqttReader,
    "mosquitto": MosquittoReader,
    "mqtt.js": MqttJsReader,
}


def need(vendor: str) -> None:
    """Skips the test where the vendor's client is not installed."""
    if vendor == "mosquitto" and shutil.which("mosquitto_sub") is None:
        pytest.skip("mosquitto-clients is not installed")
    if vendor == "mqtt.js":
        mqtt_js()
