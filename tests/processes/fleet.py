"""Brokers as real processes: started from generated settings, linked through proxies that can be cut, killed by pid.

A fleet is a tree of `roamcast broker` processes on loopback. Each link goes through a `Proxy` in each direction, so a
test can cut it and heal it; each client comes through an `Access`, which leads to one broker after the other, as the
network does under a thing that moves. Whatever happens, no process outlives the fleet.
"""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import trustme

from tests.ports import free_ports
from tests.server.links.ends import Relay

READY_S = 60.0
COMMAND = (sys.executable, "-c", "from roamcast.cli.main import main; main()")
SOURCE = Path(__file__).parents[2] / "src"


def environment() -> dict[str, str]:
    # What PG* says would go to the wrong database.
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    return {**kept, "PYTHONPATH": str(SOURCE), "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}


class Proxy(Relay):
    """Between two ends, or between a client and whatever broker it is led to."""

    def cut(self) -> None:
        self.refuses = True
        self.drop()

    def heal(self) -> None:
        self.refuses = False

    def lead_to(self, port: int) -> None:
        self.target_port = port
        self.drop()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await super()._pass(reader, writer)
        except OSError:
            writer.transport.abort()


class BrokerProcess:
    """States: not started, ready, gone. It keeps its ports and its data from one life to the next."""

    def __init__(self, name: str, folder: Path, *arguments: str, within: Sequence[str] = ()) -> None:
        """`name` is also that of its files; `arguments` are those of the command beside its settings, `within` is a
        command that runs it elsewhere."""
        self.name = name
        self.folder = folder
        self.arguments = arguments
        self.within = within
        self.mqtt_port, self.link_port, self.http_port = free_ports(3)
        self.settings: dict[str, Any] = {
            "name": name,
            "data": f"data-{name}",
            "space": "plane",
            "log_level": "warning",
            "listeners": [{"port": self.mqtt_port}],
            "http": {"port": self.http_port},
            "security": {"limits": {"connects_per_s": 0, "messages_per_s": 0}},
        }
        self.starts = 0
        self.environment: dict[str, str] = {}
        """Beside that of the tests."""
        self._said_before = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def config(self) -> Path:
        return self.folder / f"{self.name}.toml"

    @property
    def data(self) -> Path:
        return self.folder / str(self.settings["data"])

    @property
    def output(self) -> Path:
        """What it has printed in all its lives."""
        return self.folder / f"{self.name}.out"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Returns when it says that it is ready."""
        await self.launch()
        await self.until_says("is ready")

    def write_settings(self) -> None:
        self.config.write_text(toml(self.settings), encoding="utf-8")

    async def launch(self) -> None:
        assert not self.alive
        self.write_settings()
        self.starts += 1
        with self.output.open("ab") as output:
            self._said_before = output.tell()
            command = (*self.within, *COMMAND, "broker", "--config", str(self.config), *self.arguments)
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdout=output,
                stderr=output,
                env=environment() | self.environment,
                # With a terminal of its own to lose, SIGHUP would stop it.
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        """In this life."""
        return self.output.read_bytes()[self._said_before :].decode(errors="replace")

    async def until_says(self, what: str) -> None:
        async with asyncio.timeout(READY_S):
            while what not in self.said:
                if not self.alive and what not in self.said:
                    raise AssertionError(f"{self.name} ended: {self.said[-2_000:]}")
                await asyncio.sleep(0.02)

    async def ended(self) -> int:
        """Its exit code, once it has ended by itself."""
        return await asyncio.wait_for(self.wait(), READY_S)

    async def wait(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    async def kill(self) -> None:
        await self._end(signal.SIGKILL)

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def stop(self) -> None:
        """In order."""
        await self._end(signal.SIGTERM)

    async def _end(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)
            await asyncio.wait_for(self._process.wait(), 20)

    async def healthy(self) -> bool:
        """What `/healthz` says."""
        return (await self._asked("/healthz")).startswith("HTTP/1.1 200")

    async def metrics(self) -> dict[str, float]:
        """What `/metrics` counts, by name with labels."""
        lines = (await self._asked("/metrics")).partition("\r\n\r\n")[2].splitlines()
        pairs = [line.rpartition(" ") for line in lines if line and not line.startswith("#")]
        return {name: float(value) for name, _, value in pairs}

    async def _asked(self, path: str) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.http_port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        return answer.decode()

    def resident_bytes(self) -> int:
        """How much memory it has."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) * 1_024


def toml(settings: dict[str, Any]) -> str:
    """As TOML: tables inline, which is all that generated settings need."""
    return "".join(f"{key} = {inline(value)}\n" for key, value in settings.items())


def inline(value: Any) -> str:
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {inline(each)}" for key, each in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(map(inline, value)) + "]"
        case _:
            return json.dumps(value)


class Fleet:
    def __init__(self, folder: Path, names: Iterable[str], links: Iterable[tuple[str, str]], secure: bool) -> None:
        self.folder = folder
        self.brokers = {name: BrokerProcess(name, folder) for name in names}
        self.links = tuple(links)
        self.proxies: dict[tuple[str, str], Proxy] = {}
        self.accesses: list[Proxy] = []
        self._secure = secure

    def __getitem__(self, name: str) -> BrokerProcess:
        return self.brokers[name]

    async def prepare(self) -> None:
        """Proxies for both directions of each link, and settings that lead through them."""
        for one, other in self.links:
            for caller, called in ((one, other), (other, one)):
                proxy = self.proxies[caller, called] = Proxy(self.brokers[called].link_port)
                await proxy.__aenter__()
        authority = trustme.CA() if self._secure else None
        for name, broker in self.brokers.items():
            peers = [
                {"name": called, "host": "127.0.0.1", "port": proxy.port}
                for (caller, called), proxy in self.proxies.items()
                if caller == name
            ]
            if not peers:
                continue
            links: dict[str, Any] = {"port": broker.link_port, "peers": peers}
            if authority is not None:
                links |= certificate_files(authority, self.folder, name)
            broker.settings["links"] = links

    async def start(self) -> None:
        await asyncio.gather(*(broker.start() for broker in self.brokers.values()))

    async def close(self) -> None:
        for broker in self.brokers.values():
            await broker.kill()
        for proxy in (*self.proxies.values(), *self.accesses):
            await proxy.__aexit__()

    def cut(self, one: str, other: str) -> None:
        for pair in ((one, other), (other, one)):
            self.proxies[pair].cut()

    def heal(self) -> None:
        for proxy in self.proxies.values():
            proxy.heal()

    async def access(self, broker: str) -> Proxy:
        """A way in for one client, which can be led to another broker."""
        access = Proxy(self.brokers[broker].mqtt_port)
        await access.__aenter__()
        self.accesses.append(access)
        return access


def certificate_files(authority: trustme.CA, folder: Path, name: str) -> dict[str, str]:
    """A certificate for a broker of this name on this machine, as the settings want it."""
    issued = authority.issue_cert(name, "127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued.private_key_pem.write_to_path(folder / f"{name}.key")
    issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
    return {"ca": "ca.pem", "certificate": f"{name}.pem", "key": f"{name}.key"}


@contextmanager
def shared_fleet(folder: Path, names: str, **settings: Any) -> Iterator[Fleet]:
    """A fleet for several tests, each with a loop of its own: this one lives on a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fleet")
    thread.start()
    kept = fleet(folder, names, **settings)

    def awaited(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(2 * READY_S)

    try:
        brokers = awaited(kept.__aenter__())
        try:
            yield brokers
        finally:
            awaited(kept.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynccontextmanager
async def fleet(
    folder: Path, names: str, links: Iterable[tuple[str, str]] = (), secure: bool = False, **settings: Any
) -> AsyncIterator[Fleet]:
    """One broker for each word in `names`, ready; `settings` are those of all of them."""
    made = Fleet(folder, names.split(), links, secure)
    try:
        await made.prepare()
        for broker in made.brokers.values():
            broker.settings.update(settings)
        await made.start()
        yield made
    finally:
        await made.close()
