"""Servers and clients on loopback sockets, for the tests of transports."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

PATIENCE_S = 20.0


class Echo(asyncio.Protocol):
    """Sends back what it gets, and writes down what happens to it."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.received = b""
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.happened.append("made")

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.transport.write(data)

    def pause_writing(self) -> None:
        self.happened.append("pause")

    def resume_writing(self) -> None:
        self.happened.append("resume")

    def connection_lost(self, problem: Exception | None) -> None:
        self.happened.append("lost")
        self.ended.set_result(problem)


@asynccontextmanager
async def listening(
    factory: Callable[[], asyncio.Protocol], context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """The port that it listens on."""
    server = await asyncio.get_running_loop().create_server(factory, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def exchange(port: int, data: bytes) -> bytes:
    """What a server says to these bytes before it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
