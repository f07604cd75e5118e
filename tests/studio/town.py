"""Real brokers in a thread of their own, unmodified MQTT clients, and a browser without a screen."""

import asyncio
import base64
import json
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from shutil import which
from typing import Any, TypeVar

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from roamcast.server.running import RunningBroker
from roamcast.server.settings import settings_from

CHROMIUM = which("chromium")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
PATIENCE_S = 30.0
START_S = 120.0
"""The first broker on a machine has the matching compiled, and others may do the same meanwhile."""

Answer = TypeVar("Answer")


class Town:
    """Brokers, started and stopped from the thread of a test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="brokers", daemon=True)
        self._thread.start()
        self.brokers: dict[str, RunningBroker] = {}

    def start(self, name: str, http: int = 0, origins: tuple[str, ...] = (), **given: Any) -> RunningBroker:
        listeners = [{"kind": kind, "host": "127.0.0.1", "port": 0} for kind in ("tcp", "ws")]
        told = {
            "name": name,
            "data": str(self._folder / name),
            "space": "plane",
            "listeners": listeners,
            "log_level": "error",
        }
        broker = RunningBroker(
            settings_from({**told, "http": {"port": http, "origins": list(origins)}, **given}, "test")
        )
        self._do(broker.start(), START_S)
        self.brokers[name] = broker
        return broker

    def stop(self, name: str) -> None:
        self._do(self.brokers.pop(name).stop())

    def close(self) -> None:
        for name in list(self.brokers):
            self.stop(name)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Answer], seconds: float = PATIENCE_S) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def port(self, name: str, what: str) -> int:
        return next(each.port for each in self.brokers[name].addresses if each.what == what)

    def http(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port(name, 'http')}"

    @contextmanager
    def client(self, name: str, at: str = "b1", clean: bool = True, kept_s: int = 0) -> Iterator["Client"]:
        client = Client(name, self.port(at, "mqtt tcp"), clean, kept_s)
        try:
            yield client
        finally:
            client.close()


TILE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@contextmanager
def tile_server() -> Iterator[tuple[str, list[str]]]:
    """Where it is, and the paths that it was asked for."""
    asked: list[str] = []

    class Tiles(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("content-type", "image/png")
            self.end_headers()
            self.wfile.write(TILE)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Tiles)
    thread = threading.Thread(target=server.serve_forever, name="tiles", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)


class Client:
    """paho's, with its calls made to wait until the broker has answered."""

    def __init__(self, name: str, port: int, clean: bool, kept_s: int) -> None:
        self.received: Queue[tuple[str, bytes | bytearray]] = Queue()
        self._suback: Queue[int] = Queue()
        connected = threading.Event()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, name, protocol=mqtt.MQTTv5)
        self._client.on_connect = lambda *_: connected.set()
        self._client.on_subscribe = lambda _client, _data, number, *_: self._suback.put(number)
        self._goodbye: Queue[str] = Queue()
        self._client.on_disconnect = self._disconnected
        self._client.on_message = lambda _client, _data, message: self.received.put((message.topic, message.payload))
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = kept_s
        self._client.connect("127.0.0.1", port, clean_start=clean, properties=properties)
        self._client.loop_start()
        assert connected.wait(PATIENCE_S)

    def publish(self, topic: str, payload: Any = None, **said: str) -> None:
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = list(said.items())
        self._client.publish(topic, json.dumps(payload or {}), 1, properties=properties).wait_for_publish(PATIENCE_S)

    def report(self, *position: float, **told: Any) -> None:
        self.publish("$roam/me", {"position": list(position), **told})

    def subscribe(self, topic: str, **asked: str) -> None:
        properties = Properties(PacketTypes.SUBSCRIBE)
        properties.UserProperty = list(asked.items())
        self._client.subscribe(topic, options=SubscribeOptions(qos=1), properties=properties)
        self._suback.get(timeout=PATIENCE_S)

    def _disconnected(self, _client: mqtt.Client, _data: Any, _flags: Any, _code: Any, properties: Any) -> None:
        self._goodbye.put(getattr(properties, "ReasonString", ""))

    def told_to_go(self) -> str:
        """Why the broker ended the connection."""
        return self._goodbye.get(timeout=PATIENCE_S)

    def next(self) -> tuple[str, Any]:
        topic, payload = self.received.get(timeout=PATIENCE_S)
        return topic, json.loads(payload)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
