"""Both ends of links in one event loop, and an ear that remembers what it is told."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from roamcast.server.links import Links, LinkSettings

PATIENCE_S = 20.0
BRISK = LinkSettings(
    patience_s=5.0, greeting_s=1.0, hold_s=0.5, probe_s=0.3, dial_s=2.0, backoff_min_s=0.01, backoff_max_s=0.05
)


def bounded(
    work: Coroutine[Any, Any, None], make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> None:
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(asyncio.wait_for(work, PATIENCE_S))


class Ear:
    """Remembers ups, downs, frames and remarks, and lets tests wait for what they look like."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []
        self.frames: list[tuple[str, int, bytes]] = []
        self.remarks: list[tuple[str, str]] = []
        self.on_frame: Callable[[str, int, bytes], None] | None = None
        self._changed = asyncio.Event()

    def up(self, peer: str) -> None:
        self.heard.append(("up", peer))
        self._changed.set()

    def down(self, peer: str) -> None:
        self.heard.append(("down", peer))
        self._changed.set()

    def frame(self, peer: str, kind: int, data: bytes) -> None:
        assert self.is_up(peer), "a frame of a peer that is not up"
        self.frames.append((peer, kind, data))
        if self.on_frame is not None:
            self.on_frame(peer, kind, data)
        self._changed.set()

    def remark(self, what: str, detail: str) -> None:
        self.remarks.append((what, detail))
        self._changed.set()

    def is_up(self, peer: str) -> bool:
        last = [what for what, who in self.heard if who == peer][-1:]
        return last == ["up"]

    def remarked(self, what: str) -> bool:
        return any(each == what for each, _ in self.remarks)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def until_looking(self, condition: Callable[[], bool]) -> None:
        """Of what nobody tells an ear."""
        while not condition():
            await asyncio.sleep(0.01)


class End:
    def __init__(self, name: str, settings: LinkSettings = BRISK, **options: Any) -> None:
        self.ear = Ear()
        self.name = name
        self.links = Links(name, self.ear, settings=settings, **options)
        self.port = 0

    async def listen(self, ssl: Any = None) -> "End":
        self.port = await self.links.listen("127.0.0.1", 0, ssl)
        return self

    def dial(self, other: "End", ssl: Any = None) -> None:
        self.links.dial(other.name, "127.0.0.1", other.port, ssl)

    async def until_up(self, other: "End", times: int = 1) -> None:
        await self.ear.until(lambda: self.ear.heard.count(("up", other.name)) >= times)

    async def until_down(self, other: "End", times: int = 1) -> None:
        await self.ear.until(lambda: self.ear.heard.count(("down", other.name)) >= times)


@asynccontextmanager
async def ends(*names: str, settings: LinkSettings = BRISK, ssl: Any = None) -> AsyncIterator[list[End]]:
    """One for each name, all listening."""
    made = [await End(name, settings).listen(ssl) for name in names]
    try:
        yield made
    finally:
        await asyncio.gather(*(each.links.close() for each in made))


class Relay:
    """Stands between two ends and can swallow what passes, as a network that is cut without a word does."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.target_port = port
        self.target_host = host
        self.port = 0
        self.swallows = False
        self.refuses = False
        self.accepted = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Relay":
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *problem: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def drop(self) -> None:
        """Ends all connections as they are, in the middle of whatever passes."""
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.refuses:
            writer.transport.abort()
            return
        there_reader, there_writer = await asyncio.open_connection(self.target_host, self.target_port)
        self._writers += [writer, there_writer]
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._copy(reader, there_writer)))
        self._tasks.append(loop.create_task(self._copy(there_reader, writer)))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                if not self.swallows:
                    writer.write(data)
                    await writer.drain()
            if not self.swallows:
                writer.close()
        except OSError:
            writer.transport.abort()
