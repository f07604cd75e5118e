"""The other brokers that a page is told of: settings say where they are, they themselves what they are called.

Each is asked until it has answered, less and less often. A page is told of those that have.
"""

import asyncio
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

import h11
import msgspec
from msgspec import Struct

ABOUT = "/studio/broker"
ANSWER_S = 3.0
ANSWER_BYTES_MAX = 65_536
PAUSE_S, PAUSE_S_MAX = 0.5, 30.0
"""Between two questions: at first, and at last."""


class Other(Struct, frozen=True):
    """What a broker says of itself."""

    name: str
    http: str | None = None
    mqtt: str | None = None
    place: tuple[float, float] | None = None


_decoder = msgspec.json.Decoder(Other)


class Others:
    def __init__(self, addresses: tuple[str, ...], learned: Callable[[], None]) -> None:
        """`learned` is called when another one has answered."""
        self.known: dict[str, Other] = {}
        """By address."""
        self._learned = learned
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._learn(address)) for address in dict.fromkeys(addresses)]

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _learn(self, address: str) -> None:
        pause_s = PAUSE_S
        while address not in self.known:
            try:
                async with asyncio.timeout(ANSWER_S):
                    told = _decoder.decode(await body_of(address, ABOUT))
            except (OSError, TimeoutError, h11.RemoteProtocolError, msgspec.MsgspecError, ValueError):
                await asyncio.sleep(pause_s)
                pause_s = min(PAUSE_S_MAX, 2 * pause_s)
            else:
                self.known[address] = Other(told.name, address, told.mqtt, told.place)
                self._learned()


async def body_of(address: str, path: str) -> bytes:
    """Raises `OSError`, or `ValueError` if the answer is none."""
    parts = urlsplit(address)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    context = ssl.create_default_context() if secure else None
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
    try:
        http = h11.Connection(h11.CLIENT)
        headers = [("host", parts.netloc), ("connection", "close")]
        asked = http.send(h11.Request(method="GET", target=path, headers=headers)) or b""
        writer.write(asked + (http.send(h11.EndOfMessage()) or b""))
        return await answered(http, reader)
    finally:
        writer.close()


async def answered(http: h11.Connection, reader: asyncio.StreamReader) -> bytes:
    body, status = b"", 0
    while True:
        match http.next_event():
            case h11.NEED_DATA:
                http.receive_data(await reader.read(16_384))
            case h11.Response(status_code=status):
                pass
            case h11.Data(data=data):
                body += data
            case _:
                break
        if len(body) > ANSWER_BYTES_MAX:
            raise ValueError("the answer is too long")
    if status != 200:
        raise ValueError(f"status {status}")
    return body
