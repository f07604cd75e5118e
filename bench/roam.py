"""Roaming: how soon a client that reconnects at another broker has what waited for it, and whether it has all of it.

Two brokers, linked. Clients subscribe at the first with QoS 1 and a session that lasts, and leave; messages are
published to each; then the clients come to the second one, some each second, and are sent one more message there.
Reported: from CONNECT to CONNACK, from CONNACK to the first message that had waited, and how many of the messages
arrived. A Mosquitto bridge is what people use instead: messages cross it, sessions do not, so a client must subscribe
again at the second broker, and what waited for it stays at the first.

`python -m bench roam`; `python -m bench.roam 1000 200` takes so many clients and so many that come each second.
"""

import asyncio
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from bench import progress
from bench.children import tied
from bench.fanout_peers import START_S_MAX, free_port, program
from roamcast.mqtt import Decoder, encode
from roamcast.mqtt.packets import V5, ConnAck, Connect, PubAck, Publish, SubAck, Subscribe, Wish

TAKES = "a minute"
NEEDS = {"mosquitto": "apt-get install mosquitto"}
WAITED = 5
"""Messages for each client while it is away."""
IN_FLIGHT = 20
"""Messages of the publisher that are not acknowledged: Mosquitto allows twenty."""
PATIENCE_S = 60.0
COMMAND = [sys.executable, "-c", "from roamcast.cli.main import main; main()", "broker", "--config"]
OURS = """
name = "{name}"
data = "data-{name}"
log_level = "error"
listeners = [{{ port = {port}, host = "127.0.0.1" }}]
[links]
port = {link}
peers = [{{ name = "{other}", host = "127.0.0.1", port = {other_link} }}]
[security.limits]
connects_per_s = 0
connections_per_address_max = 100000
messages_per_s = 1e9
bytes_per_s = 1e12
"""
MOSQUITTO = """
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages 100000
log_dest none
user root
"""
BRIDGE = """
connection first
address 127.0.0.1:{other}
topic roam/# both 1
cleansession false
"""


@contextmanager
def started(folder: Path, commands: list[list[str]], ports: list[int]) -> Iterator[None]:
    quiet = subprocess.DEVNULL
    running = [subprocess.Popen(each, cwd=folder, stdout=quiet, stderr=quiet, preexec_fn=tied) for each in commands]
    try:
        until = time.monotonic() + START_S_MAX
        for port in ports:
            while not answers(port):
                if time.monotonic() > until:
                    raise RuntimeError("a broker did not start")
                time.sleep(0.05)
        yield
    finally:
        for each in running:
            each.kill()
            each.wait(10)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


def ours(folder: Path, ports: list[int]) -> list[list[str]]:
    links = [free_port(), free_port()]
    commands = []
    for here, name in enumerate(("first", "second")):
        other = ("second", "first")[here]
        text = OURS.format(name=name, port=ports[here], link=links[here], other=other, other_link=links[1 - here])
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
        command = [
            sys.executable,
            "-c",
            "from roamcast.cli.main import main; main()",
            "broker",
            "--config",
            f"{name}.toml",
        ]
        commands.append(command)
    return commands


def mosquitto(folder: Path, ports: list[int]) -> list[list[str]]:
    commands = []
    for here, name in enumerate(("first", "second")):
        bridge = BRIDGE.format(other=ports[0]) if here else ""
        (folder / f"{name}.conf").write_text(MOSQUITTO.format(port=ports[here]) + bridge, encoding="utf-8")
        commands.append([program("mosquitto") or "mosquitto", "-c", f"{name}.conf"])
    return commands


class Roamer(asyncio.Protocol):
    """One connection; it acknowledges what it gets."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.got: list[tuple[bytes, float]] = []
        self.answers: list[ConnAck | SubAck | PubAck] = []
        self.answered_s = 0.0
        self.news = asyncio.Event()
        self._decoder = Decoder(V5)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.began_s = time.perf_counter()
        self.say(Connect(self.name, clean_start=False, session_expiry_s=3_600))

    def say(self, packet: Connect | Subscribe | Publish | PubAck) -> None:
        self.transport.write(encode(packet, V5))

    def data_received(self, data: bytes) -> None:
        now_s = time.perf_counter()
        self._decoder.feed(data)
        while (packet := self._decoder.next_packet()) is not None:
            match packet:
                case Publish():
                    self.got.append((packet.payload, now_s))
                    self.say(PubAck(packet.packet_id))
                case ConnAck() | SubAck() | PubAck():
                    self.answered_s = self.answered_s or now_s
                    self.answers.append(packet)
                case _:
                    continue
            self.news.set()

    async def until(self, *, answers: int = 0, messages: int = 0) -> None:
        while len(self.answers) < answers or len(self.got) < messages:
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), PATIENCE_S)

    def subscribe(self) -> None:
        self.say(Subscribe(1, (Wish(f"roam/{self.name}", 1),)))


async def connected(name: str, port: int) -> Roamer:
    _, made = await asyncio.get_running_loop().create_connection(lambda: Roamer(name), "127.0.0.1", port)
    await made.until(answers=1)
    return made


class Seen(Struct):
    connack_ms: list[float] = []
    first_ms: list[float] = []
    arrived: int = 0
    twice: int = 0
    out_of_order: int = 0


async def played(ports: list[int], clients: int, per_s: int) -> Seen:
    names = [f"c{number}" for number in range(clients)]
    for name in names:
        here = await connected(name, ports[0])
        here.subscribe()
        await here.until(answers=2)
        here.transport.abort()
    source = await connected("source", ports[0])
    messages = [(name, number) for number in range(WAITED) for name in names]
    for sent in range(0, len(messages), IN_FLIGHT):
        for packet_id, (name, number) in enumerate(messages[sent : sent + IN_FLIGHT], 1):
            source.say(Publish(f"roam/{name}", b"%d" % number, 1, packet_id=packet_id))
        await source.until(answers=1 + min(len(messages), sent + IN_FLIGHT))
    seen, here = Seen(), await connected("here", ports[1])
    begun = time.perf_counter()
    coming = []
    for number, name in enumerate(names):
        coming.append(asyncio.create_task(came(name, ports[1], here, seen)))
        await asyncio.sleep(max(0.0, begun + (number + 1) / per_s - time.perf_counter()))
    await asyncio.gather(*coming)
    return seen


async def came(name: str, port: int, here: Roamer, seen: Seen) -> None:
    client = await connected(name, port)
    seen.connack_ms.append((client.answered_s - client.began_s) * 1e3)
    present = isinstance(client.answers[0], ConnAck) and client.answers[0].session_present
    if not present:
        client.subscribe()
        await client.until(answers=2)
    here.say(Publish(f"roam/{name}", b"%d" % WAITED, 1, packet_id=int(name[1:]) % 60_000 + 1))
    await client.until(messages=WAITED + 1 if present else 1)
    got = [int(payload) for payload, _ in client.got]
    waited = [at_s for payload, at_s in client.got if int(payload) < WAITED]
    if waited:
        seen.first_ms.append((waited[0] - client.answered_s) * 1e3)
    seen.arrived += len(set(got))
    seen.twice += len(got) - len(set(got))
    seen.out_of_order += got != sorted(got)
    client.transport.close()


def share(values: list[float], of: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * of))] if values else float("nan")


def main(clients: int = 1_000, per_s: int = 100) -> dict[str, float]:
    figures: dict[str, float] = {}
    print(
        f"{clients} clients, {per_s} a second; {WAITED} messages waited for each, one more is sent when it is there"
    )
    print(f"{'':<18}{'CONNACK ms':>18}{'first message ms':>20}{'arrived':>10}{'twice':>7}{'disordered':>12}")
    for name, prepare in (("ours", ours), ("mosquitto bridge", mosquitto)):
        if prepare is mosquitto and program("mosquitto") is None:
            progress.skipped(name, "not installed: apt-get install mosquitto")
            continue
        with tempfile.TemporaryDirectory() as folder:
            ports = [free_port(), free_port()]
            with started(Path(folder), prepare(Path(folder), ports), ports):
                # Links and bridges take a moment.
                time.sleep(3.0)
                seen = asyncio.run(played(ports, clients, per_s))
        found = {
            "connack_p50_ms": share(seen.connack_ms, 0.5),
            "connack_p99_ms": share(seen.connack_ms, 0.99),
            "first_p50_ms": share(seen.first_ms, 0.5),
            "first_p99_ms": share(seen.first_ms, 0.99),
            "arrived": seen.arrived / (clients * (WAITED + 1)),
            "twice": float(seen.twice),
            "out_of_order": float(seen.out_of_order),
        }
        times = f"{found['connack_p50_ms']:9.1f} /{found['connack_p99_ms']:7.1f}{found['first_p50_ms']:10.1f} /"
        print(
            f"{name:<18}{times}{found['first_p99_ms']:8.1f}{found['arrived']:10.1%}{seen.twice:7}{seen.out_of_order:12}"
        )
        figures |= {f"{name}/{key}": round(value, 4) for key, value in found.items()}
        progress.note(figures)
    return figures


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:]))
