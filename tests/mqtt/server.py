"""The memory broker on a loopback socket: a small asyncio server in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from roamcast.mqtt import Connection
from tests.mqtt.memory_broker import MemoryBroker

Result = TypeVar("Result")
TICK_S = 0.05
START_S = 10.0


class Server:
    """Everything that touches the broker runs on the server's loop; `call` gets something done there."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self.loop = asyncio.new_event_loop()
        self.lines: dict[Connection, Line] = {}
        self.port = 0

    def now_us(self) -> int:
        return round(self.loop.time() * 1e6)

    def call(self, action: Callable[[MemoryBroker, int], Result]) -> Result:
        async def there() -> Result:
            result = action(self.broker, self.now_us())
            self.flush()
            return result

        return asyncio.run_coroutine_threadsafe(there(), self.loop).result(START_S)

    def flush(self) -> None:
        for connection in list(self.lines):
            self.broker.settle(self.now_us(), connection)
        for connection, line in list(self.lines.items()):
            data = connection.outgoing()
            if data:
                line.transport.write(data)
            if connection.closed:
                del self.lines[connection]
                line.transport.close()
            elif connection.wants_bytes != line.reading:
                line.reading = connection.wants_bytes
                (line.transport.resume_reading if line.reading else line.transport.pause_reading)()

    async def serve(self, started: threading.Event, stop: asyncio.Event) -> None:
        listener = await self.loop.create_server(lambda: Line(self), "127.0.0.1", 0)
        self.port = listener.sockets[0].getsockname()[1]
        started.set()
        while not stop.is_set():
            self.broker.tick(self.now_us())
            self.flush()
            try:
                await asyncio.wait_for(stop.wait(), TICK_S)
            except TimeoutError:
                continue
        listener.close()
        for line in list(self.lines.values()):
            line.transport.abort()


class Line(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connection = server.broker.open(server.now_us())
        self.reading = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.lines[self.connection] = self

    def data_received(self, data: bytes) -> None:
        self.connection.receive(self.server.now_us(), data)
        self.server.flush()

    def connection_lost(self, problem: Exception | None) -> None:
        self.connection.lost(self.server.now_us())
        self.server.broker.settle(self.server.now_us(), self.connection)
        self.server.lines.pop(self.connection, None)
        self.server.flush()

    def pause_writing(self) -> None:
        self.connection.pause_writing()

    def resume_writing(self) -> None:
        self.connection.resume_writing(self.server.now_us())
        self.server.flush()


@contextmanager
def serving(broker: MemoryBroker | None = None) -> Iterator[Server]:
    server = Server(broker or MemoryBroker())
    started, stop = threading.Event(), asyncio.Event()

    def run() -> None:
        server.loop.run_until_complete(server.serve(started, stop))
        server.loop.close()

    thread = threading.Thread(target=run, name="mqtt server", daemon=True)
    thread.start()
    assert started.wait(START_S)
    try:
        yield server
    finally:
        server.loop.call_soon_threadsafe(stop.set)
        thread.join(START_S)
