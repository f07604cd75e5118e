"""A live broker under load: moving clients that tell where they are once a second, and events for those within R.

One broker process and this one, which plays all clients over real sockets. Reported: how many there are and what they
say, the broker's share of a core, its memory, how many deliveries there should have been and were, the time from
PUBLISH to arrival, and what an idle connection takes. Clients and broker share the machine, so the times are an upper
bound.
"""

import asyncio
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from bench.children import tied
from roamcast.mqtt import Decoder, encode
from roamcast.mqtt.packets import V5, ConnAck, Connect, Publish, SubAck, Subscribe, Wish

TAKES = "45 s"
CLIENTS = 1_000
IDLE = 5_000
STEPS_PER_S = 50
EVENTS_PER_S = 25
"""A divisor of the steps."""
SIDE_M = 5_000.0
RADIUS_M = 300
SECONDS = 20.0
REPORT = "$roam/me"
SETTINGS = """
name = "load"
data = "data"
space = "plane"
log_level = "error"
listeners = [{{ port = {port} }}]
[security.limits]
connects_per_s = 0
connections_per_address_max = 10000
"""


class Walker(asyncio.Protocol):
    def __init__(self, name: str, latencies_ms: list[float]) -> None:
        self.name = name
        self.latencies_ms = latencies_ms
        self.ready = asyncio.get_running_loop().create_future()
        self._decoder = Decoder(V5)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.say(Connect(self.name))

    def say(self, packet: Connect | Subscribe | Publish) -> None:
        self.transport.write(encode(packet, V5))

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self._decoder.feed(data)
        while (packet := self._decoder.next_packet()) is not None:
            match packet:
                case Publish():
                    self.heard(now, json.loads(packet.payload))
                case ConnAck() | SubAck() if not self.ready.done():
                    self.ready.set_result(None)
                case _:
                    pass

    def heard(self, now: float, said: dict[str, Any]) -> None:
        self.latencies_ms.append((now - said["at"]) * 1e3)

    async def subscribe(self, topic: str = "alerts/#", **asked: str) -> None:
        await self.ready
        self.ready = asyncio.get_running_loop().create_future()
        self.say(Subscribe(1, (Wish(topic, 0),), user_properties=tuple(asked.items())))
        await self.ready

    def publish(self, topic: str, content: dict[str, object]) -> None:
        self.say(Publish(topic, json.dumps(content).encode()))


def memory_kb(pid: int) -> int:
    line = next(each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1])


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def connected(port: int, count: int, latencies_ms: list[float], prefix: str) -> list[Walker]:
    loop = asyncio.get_running_loop()
    walkers: list[Walker] = []
    for number in range(count):

        def walker(name: str = f"{prefix}{number}") -> Walker:
            return Walker(name, latencies_ms)

        _, made = await loop.create_connection(walker, "127.0.0.1", port)
        await made.ready
        walkers.append(made)
    return walkers


async def walk(walkers: list[Walker], generator: Random) -> dict[str, float]:
    """Each tells once a second where it is, spread over the second; events come from places of their own.

    Answers with what was said, and how many deliveries that should have made."""
    loop = asyncio.get_running_loop()
    places = [[generator.uniform(0, SIDE_M), generator.uniform(0, SIDE_M)] for _ in walkers]
    reported: dict[int, list[float]] = {}
    reports = events = expected = 0
    steps = STEPS_PER_S
    begun = loop.time()
    for step in range(int(SECONDS * steps)):
        for number in range(step % steps, len(walkers), steps):
            place = places[number]
            place[0] += generator.uniform(-1.5, 1.5)
            place[1] += generator.uniform(-1.5, 1.5)
            walkers[number].publish(REPORT, {"position": place})
            reported[number] = place
            reports += 1
        if step % (steps // EVENTS_PER_S) == 0:
            spot = [generator.uniform(0, SIDE_M), generator.uniform(0, SIDE_M)]
            who = generator.choice(walkers)
            who.publish("alerts/x", {"position": spot, "at": time.perf_counter()})
            events += 1
            expected += sum(math.dist(spot, each) <= RADIUS_M for each in reported.values())
        await asyncio.sleep(max(0.0, begun + (step + 1) / steps - loop.time()))
    return {
        "reports_per_s": reports / SECONDS,
        "events_per_s": events / SECONDS,
        "deliveries_expected": expected,
    }


async def measure(port: int, pid: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    empty_kb = memory_kb(pid)
    latencies_ms: list[float] = []
    print(f"{IDLE:,} clients that do nothing connect")
    idle = await connected(port, IDLE, latencies_ms, "idle")
    figures["idle_client_kb"] = round((memory_kb(pid) - empty_kb) / IDLE, 1)
    for each in idle:
        each.transport.abort()
    print(f"{CLIENTS:,} clients that move connect, and subscribe")
    walkers = await connected(port, CLIENTS, latencies_ms, "walker")
    for each in walkers:
        await each.subscribe(filter=f"near(position, {RADIUS_M})")
    print(f"they walk for {SECONDS:.0f} s")
    before_s, begun = cpu_s(pid), time.perf_counter()
    said = await walk(walkers, Random(1))
    elapsed_s = time.perf_counter() - begun
    await asyncio.sleep(1.0)
    latencies_ms.sort()
    figures |= {
        "clients": len(walkers),
        **said,
        "deliveries": len(latencies_ms),
        "cpu_share": round((cpu_s(pid) - before_s) / elapsed_s, 3),
        "latency_p50_ms": round(latencies_ms[len(latencies_ms) // 2], 2),
        "latency_p99_ms": round(latencies_ms[len(latencies_ms) * 99 // 100], 2),
        "memory_mb": round(memory_kb(pid) / 1024, 1),
        "behind_s": round(elapsed_s - SECONDS, 2),
    }
    return figures


@contextmanager
def serving(settings: str = SETTINGS.format(port=0)) -> Iterator[tuple[int, int]]:
    """A broker process: its port and its number."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "broker.toml"
        config.write_text(settings, encoding="utf-8")
        command = [
            sys.executable,
            "-c",
            "from roamcast.cli.main import main; main()",
            "broker",
            "--config",
            str(config),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=tied) as broker:
            assert broker.stdout is not None
            try:
                port = 0
                for line in broker.stdout:
                    if line.startswith("mqtt tcp"):
                        port = int(line.rpartition(":")[2])
                    if "is ready" in line:
                        break
                yield port, broker.pid
            finally:
                broker.kill()


def main() -> dict[str, float]:
    with serving() as (port, pid):
        figures = asyncio.run(measure(port, pid))
    for name, value in figures.items():
        print(f"{name:<20} {value}")
    return figures
