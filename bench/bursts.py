"""What one client can ask of a broker at once, and how long others wait for it.

A bystander says something to itself every 10 ms and notes how long that takes, while another client

- subscribes to 100,000 retained messages, with QoS 0 and with QoS 1;
- subscribes and withdraws 1,000 filters, as each of nine clients does, which is measured as CPU time of the broker;
- has sixteen modulators that take all they may, while somebody publishes 175 messages a second; and sixteen clients
  one each.

Broker and clients are processes of one machine, with the default settings but for the limits of how often one address
may connect and publish.
"""

import multiprocessing
import socket
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection as Pipe

from wasmtime import wat2wasm

from bench import progress
from bench.broker_load import cpu_s, serving
from roamcast.broker.modulators.spec import Wasm, spec_to_text
from roamcast.mqtt import Decoder, encode
from roamcast.mqtt.packets import (
    V5,
    AnyPacket,
    Connect,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
    Wish,
)

TAKES = "60 s"
RETAINED = 100_000
FILTERS, FILTER_CLIENTS, FILTERS_AT_ONCE = 1_000, 9, 100
MODULATORS, EVENTS_PER_S, EVENTS_S = 16, 175, 15.0
PACE_S = 0.01
AHEAD_MAX = 500
QUIET_S = 1.0
READ_BYTES = 1 << 16
SETTINGS = """
name = "bursts"
data = "data"
space = "plane"
log_level = "error"
listeners = [{ port = 0 }]
[security.limits]
connects_per_s = 0
messages_per_s = 0
subscribes_per_s = 0
[keeping.session]
queue_messages_max = 60000
"""
WORST = """(module (memory (export "memory") 1)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "take") (param i32 i32) (result i64) (local $left i32)
    (local.set $left (i32.const 40000))
    (loop $again
      (drop (memory.grow (i32.const 0)))
      (local.set $left (i32.sub (local.get $left) (i32.const 1)))
      (br_if $again (local.get $left)))
    (i64.const 0)))"""
"""Within the fuel of an event, and as dear as such code can be."""


class Client:
    """A blocking connection that acknowledges what it gets."""

    def __init__(self, name: str, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(60.0)
        self._decoder = Decoder(V5)
        self.got = 0
        self.say(Connect(name, receive_max=1_000))
        self.read()

    def say(self, *packets: AnyPacket) -> None:
        self.socket.sendall(b"".join(encode(each, V5) for each in packets))

    def read(self) -> list[AnyPacket]:
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the broker has closed the connection")
        self._decoder.feed(data)
        found: list[AnyPacket] = []
        while (packet := self._decoder.next_packet()) is not None:
            found.append(packet)
        published = [each for each in found if isinstance(each, Publish)]
        self.got += len(published)
        answers = [PubAck(each.packet_id) for each in published if each.qos]
        if answers:
            self.say(*answers)
        return found

    def ask(self, packet: AnyPacket, answer: type[AnyPacket]) -> None:
        self.say(packet)
        while not any(isinstance(each, answer) for each in self.read()):
            continue


def stand_by(port: int, pipe: Pipe) -> None:
    """Its own process: tells each time it is asked the waits since then, in ms."""
    client = Client("bystander", port)
    client.ask(Subscribe(1, (Wish("echo", 0),)), SubAck)
    waits_ms: list[float] = []
    while True:
        if pipe.poll():
            if pipe.recv() == "end":
                return
            pipe.send(waits_ms)
            waits_ms = []
        begun = time.perf_counter()
        client.say(Publish("echo", b"x"))
        got = client.got
        while client.got == got:
            client.read()
        took_s = time.perf_counter() - begun
        waits_ms.append(took_s * 1e3)
        time.sleep(max(0.0, PACE_S - took_s))


class Bystander:
    def __init__(self, port: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=stand_by, args=(port, far), daemon=True)
        self._process.start()
        self.waits_ms()

    def waits_ms(self) -> list[float]:
        self._pipe.send("tell")
        waits: list[float] = self._pipe.recv()
        return sorted(waits)

    def end(self) -> None:
        self._pipe.send("end")
        self._process.join()


def retained(port: int, bystander: Bystander) -> Iterator[tuple[str, float]]:
    writer = Client("writer", port)
    for number in range(RETAINED):
        writer.say(
            Publish(
                f"fleet/{number}/state", b'{"speed": 12.5, "heading": 90}', 1, True, packet_id=number % 60_000 + 1
            )
        )
        if number % AHEAD_MAX == AHEAD_MAX - 1:
            acknowledged = 0
            while acknowledged < AHEAD_MAX:
                acknowledged += sum(isinstance(each, PubAck) for each in writer.read())
    for qos in (0, 1):
        reader = Client(f"reader {qos}", port)
        time.sleep(QUIET_S)
        bystander.waits_ms()
        begun = time.perf_counter()
        reader.say(Subscribe(1, (Wish("fleet/#", qos),)))
        reader.socket.settimeout(10.0)
        try:
            while reader.got < RETAINED:
                reader.read()
        except TimeoutError:
            pass
        took_s = time.perf_counter() - begun
        waits = bystander.waits_ms()
        yield f"retained_qos_{qos}_got", reader.got
        yield f"retained_qos_{qos}_s", took_s
        yield f"retained_qos_{qos}_others_max_ms", waits[-1]
        yield f"retained_qos_{qos}_others_p99_ms", waits[len(waits) * 99 // 100]
        reader.socket.close()


def filters(port: int, pid: int) -> Iterator[tuple[str, float]]:
    clients = [Client(f"many {number}", port) for number in range(FILTER_CLIENTS)]
    for asked in ((), (("filter", "speed > 3"),)):
        begun_s = cpu_s(pid)
        for client in clients:
            for first in range(0, FILTERS, FILTERS_AT_ONCE):
                wishes = tuple(Wish(f"a/{each}/+", 1) for each in range(first, first + FILTERS_AT_ONCE))
                client.ask(Subscribe(1, wishes, user_properties=asked), SubAck)
        for client in clients:
            for first in range(0, FILTERS, FILTERS_AT_ONCE):
                names = tuple(f"a/{each}/+" for each in range(first, first + FILTERS_AT_ONCE))
                client.ask(Unsubscribe(1, names), UnsubAck)
        took_ms = (cpu_s(pid) - begun_s) * 1e3
        yield f"{'content' if asked else 'plain'}_filter_cpu_ms", took_ms / FILTERS / FILTER_CLIENTS


def modulators(port: int, bystander: Bystander) -> Iterator[tuple[str, float]]:
    burning = (("modulator", spec_to_text(Wasm(bytes(wat2wasm(WORST))))),)
    for what, count in (("one_client", 1), ("many_clients", MODULATORS)):
        hostile = [Client(f"{what} {number}", port) for number in range(count)]
        for number in range(MODULATORS):
            wish = Wish(f"$roam/{number}/burn/{what}", 1)
            hostile[number % count].ask(Subscribe(1, (wish,), user_properties=burning), SubAck)
        writer = Client(f"{what} writer", port)
        time.sleep(QUIET_S)
        bystander.waits_ms()
        begun = time.perf_counter()
        for number in range(int(EVENTS_PER_S * EVENTS_S)):
            writer.say(Publish(f"burn/{what}", b"{}", 1, packet_id=number % 60_000 + 1))
            time.sleep(max(0.0, begun + number / EVENTS_PER_S - time.perf_counter()))
        waits = bystander.waits_ms()
        yield f"modulators_{what}_others_p99_ms", waits[len(waits) * 99 // 100]
        yield f"modulators_{what}_others_max_ms", waits[-1]


def main() -> dict[str, float]:
    figures: dict[str, float] = {}
    with serving(SETTINGS) as (port, pid):
        bystander = Bystander(port)
        for rows in (filters(port, pid), modulators(port, bystander), retained(port, bystander)):
            for name, value in rows:
                figures[name] = round(value, 3)
                print(f"{name:<40} {value:.3f}", flush=True)
                progress.note(figures)
        bystander.end()
    return figures
