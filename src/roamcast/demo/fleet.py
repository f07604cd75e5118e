"""The demo's brokers: four processes of `roamcast broker`, one for each quarter, with settings made for the occasion.

They are started in sessions of their own, so that Ctrl-C in the terminal reaches the demo alone, which stops them in
order. What they print goes into a file for each beside their settings.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Any

from roamcast.demo.people import LINKS, People, Quarter

COMMAND = (sys.executable, "-c", "from roamcast.cli.main import main; main()")
HOST = "127.0.0.1"
READY_S = 240.0
STOP_S = 30.0
POLL_S = 0.05
PORT = 8700
"""Where the map is, if nobody says otherwise and nobody is there."""
PORTS = (20_000, 32_000)
"""Below those that the system gives to who calls: a broker must find its own free."""


class DemoFailed(Exception):
    """The demo cannot go on; the message says why, and what to do."""


class BrokerProcess:
    def __init__(self, quarter: Quarter, http_port: int, ports: Sequence[int]) -> None:
        self.name = quarter.name
        self.quarter = quarter
        self.http_port = http_port
        self.mqtt_port, self.websocket_port, self.link_port = ports
        self._process: asyncio.subprocess.Process | None = None
        self._output = Path()

    @property
    def mqtt(self) -> str:
        return f"mqtt://{HOST}:{self.mqtt_port}"

    @property
    def http(self) -> str:
        return f"http://{HOST}:{self.http_port}"

    async def start(self, folder: Path, settings: Mapping[str, Any]) -> None:
        """Returns when it serves."""
        config, self._output = folder / f"{self.name}.toml", folder / f"{self.name}.out"
        config.write_text(toml(settings), encoding="utf-8")
        with self._output.open("wb") as output:
            self._process = await asyncio.create_subprocess_exec(
                *COMMAND,
                "broker",
                "--config",
                str(config),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"},
            )
        try:
            async with asyncio.timeout(READY_S):
                while "is ready" not in self.said():
                    if self._process.returncode is not None:
                        raise DemoFailed(f"the broker {self.name} did not start: {self.said().strip()[-1_000:]}")
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise DemoFailed(f"the broker {self.name} was not ready within {READY_S:g} s: {self.said()}") from None

    def said(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace")

    def signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def ended(self) -> None:
        """In order; one that does not end is ended."""
        if self._process is None:
            return
        try:
            await asyncio.wait_for(self._process.wait(), STOP_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def metrics(self) -> dict[str, float]:
        """What `/metrics` counts, by name with labels; nothing if it does not answer."""
        try:
            async with asyncio.timeout(2.0):
                reader, writer = await asyncio.open_connection(HOST, self.http_port)
                writer.write(b"GET /metrics HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n")
                answer = (await reader.read()).decode()
                writer.close()
        except OSError:
            return {}
        lines = answer.partition("\r\n\r\n")[2].splitlines()
        pairs = [line.rpartition(" ") for line in lines if line and not line.startswith("#")]
        return {name: float(value) for name, _, value in pairs}


class Fleet:
    def __init__(self, people: People, folder: Path, port: int | None, map_json: bytes, attribution: str) -> None:
        http_port = map_port(port)
        ports = [each for each in free_ports(4 * len(people.quarters) + 1) if each != http_port]
        self.folder = folder
        self.brokers = {
            quarter.name: BrokerProcess(quarter, ports[4 * number], ports[4 * number + 1 : 4 * number + 4])
            for number, quarter in enumerate(people.quarters)
        }
        next(iter(self.brokers.values())).http_port = http_port
        self._map_json = map_json
        self._attribution = attribution

    @property
    def address(self) -> str:
        """Of the map."""
        return f"{next(iter(self.brokers.values())).http}/studio/"

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    async def start(self) -> None:
        (self.folder / "streets.json").write_bytes(self._map_json)
        starting = (each.start(self.folder, self.settings_of(each)) for each in self.brokers.values())
        await asyncio.gather(*starting)

    async def stop(self) -> None:
        for each in self.brokers.values():
            each.signal(signal.SIGTERM)
        await asyncio.gather(*(each.ended() for each in self.brokers.values()))

    def settings_of(self, broker: BrokerProcess) -> dict[str, Any]:
        linked = [other for pair in LINKS for other in pair if broker.name in pair and other != broker.name]
        peers = [{"name": each, "host": HOST, "port": self.brokers[each].link_port} for each in linked]
        return {
            "name": broker.name,
            "data": f"data-{broker.name}",
            "journal": "journal",
            "log_level": "warning",
            "listeners": [
                {"host": HOST, "port": broker.mqtt_port},
                {"kind": "ws", "host": HOST, "port": broker.websocket_port},
            ],
            "http": {"host": HOST, "port": broker.http_port},
            "links": {"host": HOST, "port": broker.link_port, "peers": peers},
            "studio": {
                "enabled": True,
                "others": [each.http for each in self.brokers.values() if each is not broker],
                "place": [broker.quarter.place.x, broker.quarter.place.y],
                "map": "streets.json",
                "attribution": self._attribution,
            },
            # All clients come from one address here.
            "security": {"limits": {"connects_per_s": 0}},
        }


def map_port(wanted: int | None) -> int:
    """Raises `DemoFailed` if somebody else has the port that was asked for."""
    if wanted is None:
        return PORT if is_free(PORT) else free_ports(1)[0]
    if wanted and not is_free(wanted):
        raise DemoFailed(
            f"port {wanted} is in use: end what listens there (`ss -ltnp 'sport = :{wanted}'` shows it), "
            "give another --port, or leave it out and any free one is taken"
        )
    return wanted or free_ports(1)[0]


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Held open together while they are chosen, so that they differ."""
    chance, found = SystemRandom(), dict[int, socket.socket]()
    try:
        while len(found) < count:
            port, probe = chance.randrange(*PORTS), socket.socket()
            try:
                probe.bind((HOST, port))
            except OSError:
                probe.close()
            else:
                found[port] = probe
        return list(found)
    finally:
        for probe in found.values():
            probe.close()


def toml(settings: Mapping[str, Any]) -> str:
    """As TOML: tables inline, which is all that generated settings need."""
    return "".join(f"{key} = {inline(value)}\n" for key, value in settings.items())


def inline(value: Any) -> str:
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {inline(each)}" for key, each in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(map(inline, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)
