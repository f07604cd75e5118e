"""The clients of `bench.fanout`, in a process of their own: raw sockets, and packets that are made beforehand.

A round is one write of `batch` messages by every publisher; the next begins when fewer than `window` messages of each
are on their way. With both 1 nothing is batched: each message is alone in its segment and goes when the last has
arrived. All messages have one topic for all (or, with `pairs`, one for each publisher and its one subscriber) and 100
bytes, so every PUBLISH has the same length, arrivals are counted by bytes, and acknowledgements are cut out of them
in one slice.

`python -m bench.fanout_load SPEC` with a spec in JSON; says `ready` after a warm-up, waits for a line, and says what
it saw in JSON.
"""

import json
import select
import socket
import sys
import time
from abc import ABC, abstractmethod

import msgspec
import numpy as np
from msgspec import Struct

PAYLOAD = b"x" * 100
PACKET_IDS = 60_000
WARM_UP_S = 0.4
PATIENCE_S = 30.0
LINK_S = 0.3
READ_BYTES = 1 << 20
SAMPLES_MAX = 200_000
ROUNDS_MIN = 1_000
LONGER_MAX = 4
"""On a busy machine a run goes on for up to so many times as long, until there were enough rounds of one message."""


class Spec(Struct, frozen=True):
    port: int
    publishers: int
    subscribers: int
    qos: int = 0
    batch: int = 1
    window: int = 1
    """Messages of each publisher that are not everywhere yet."""
    pairs: bool = False
    kept: bool = False
    """Whether sessions outlive their connections."""
    seconds: float = 1.5
    nats: bool = False
    """Speaks the protocol of NATS, not MQTT."""
    user: str = ""
    password: str = ""
    subscribe_port: int | None = None
    """Of the broker that subscribers have, if it is another."""


class Seen(Struct, frozen=True):
    deliveries: int
    seconds: float
    latencies_ms: list[float]


# Packets.


def text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


def length(size: int) -> bytes:
    return bytes([size]) if size < 128 else bytes([size % 128 | 128, size // 128])


def connect(spec: Spec, name: str) -> bytes:
    if spec.nats:
        login = {"verbose": False, "user": spec.user, "pass": spec.password}
        return b"CONNECT " + json.dumps(login).encode() + b"\r\nPING\r\n"
    flags = (0 if spec.kept else 0x02) | (0xC0 if spec.user else 0)
    body = text("MQTT") + bytes([4, flags]) + b"\0\0" + text(name)
    if spec.user:
        body += text(spec.user) + text(spec.password)
    return b"\x10" + length(len(body)) + body


def subscribe(spec: Spec, topic: str) -> bytes:
    if spec.nats:
        return f"SUB {topic.replace('/', '.')} 1\r\nPING\r\n".encode()
    body = b"\0\1" + text(topic) + bytes([spec.qos])
    return b"\x82" + length(len(body)) + body


def publish(spec: Spec, topic: str, packet_id: int) -> bytes:
    if spec.nats:
        return f"PUB {topic.replace('/', '.')} {len(PAYLOAD)}\r\n".encode() + PAYLOAD + b"\r\n"
    body = text(topic) + (packet_id.to_bytes(2, "big") if spec.qos else b"") + PAYLOAD
    return bytes([0x30 | spec.qos << 1]) + length(len(body)) + body


def arrival_bytes(spec: Spec, topic: str) -> int:
    """Of one message as a subscriber sees it."""
    return len(publish(spec, topic, 1)) + (2 if spec.nats else 0)


# Clients.


class Client:
    def __init__(self, spec: Spec, port: int, name: str, topic: str) -> None:
        self.topic = topic
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(PATIENCE_S)
        if spec.nats:
            self._ask(connect(spec, name), b"PONG\r\n")
        else:
            # With or without a session from the last run.
            self._ask(connect(spec, name), (b"\x20\x02\x00\x00", b"\x20\x02\x01\x00"))

    def _ask(self, question: bytes, answer_end: bytes | tuple[bytes, ...]) -> None:
        self.socket.sendall(question)
        said = b""
        while not said.endswith(answer_end):
            more = self.socket.recv(READ_BYTES)
            if not more:
                raise ConnectionError(f"closed after {said!r}")
            said += more


class Publisher(Client):
    def __init__(self, spec: Spec, number: int, batches: list[bytes]) -> None:
        super().__init__(spec, spec.port, f"pub{number}{'k' * spec.kept}", topic_of(spec, number))
        self.batches = batches
        self.next = 0
        self.sent = self.acknowledged = 0
        self._spare = 0

    def send(self, batch: int) -> None:
        self.socket.sendall(self.batches[self.next])
        self.next = (self.next + 1) % len(self.batches)
        self.sent += batch

    def read(self) -> None:
        """PUBACKs, of four bytes each."""
        self._spare += len(self.socket.recv(READ_BYTES))
        self.acknowledged += self._spare // 4
        self._spare %= 4


class Subscriber(Client):
    def __init__(self, spec: Spec, number: int) -> None:
        super().__init__(
            spec, spec.subscribe_port or spec.port, f"sub{number}{'k' * spec.kept}", topic_of(spec, number)
        )
        answer = b"PONG\r\n" if spec.nats else b"\x90\x03\0\1" + bytes([spec.qos])
        self._ask(subscribe(spec, self.topic), answer)
        self.size = arrival_bytes(spec, self.topic)
        self.qos = spec.qos
        self.got = 0
        self._spare = b""
        self._spare_bytes = 0

    def read(self) -> None:
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("a subscriber's connection was closed")
        if not self.qos:
            self._spare_bytes += len(data)
            self.got += self._spare_bytes // self.size
            self._spare_bytes %= self.size
            return
        data = self._spare + data
        count = len(data) // self.size
        self._spare = data[count * self.size :]
        if count:
            self.got += count
            at = 4 + len(self.topic)
            packets = np.frombuffer(data, np.uint8, count * self.size).reshape(count, self.size)
            if (packets[:, 0] & 0xF6 != 0x32).any():
                raise ValueError("a packet that is no PUBLISH of QoS 1")
            answers = np.empty((count, 4), np.uint8)
            answers[:, 0], answers[:, 1], answers[:, 2:] = 0x40, 2, packets[:, at : at + 2]
            self.socket.sendall(answers.tobytes())


def topic_of(spec: Spec, number: int) -> str:
    # Sessions that are kept go on wanting what they want: not what later runs measure.
    everybody = "bench/kept" if spec.kept else "bench/all"
    return f"bench/{number:02}" if spec.pairs else everybody


def batches_of(spec: Spec, topic: str) -> list[bytes]:
    ids = range(1, PACKET_IDS + 1) if spec.qos else range(1, spec.batch + 1)
    packets = [publish(spec, topic, each) for each in ids]
    whole = len(packets) - len(packets) % spec.batch
    return [b"".join(packets[at : at + spec.batch]) for at in range(0, whole, spec.batch)]


class Rounds(ABC):
    """Rounds of messages as a spec wants them, whoever carries them."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.sharing = 1 if spec.pairs else spec.publishers
        """How many publishers each subscriber hears."""
        self.rounds: list[float] = []
        self.latencies_ms: list[float] = []

    @abstractmethod
    def got(self) -> list[int]:
        """How many messages each subscriber has had."""

    @abstractmethod
    def send(self) -> None:
        """One batch of every publisher."""

    @abstractmethod
    def read(self) -> None:
        """Waits until something has come."""

    def run(self, seconds: float) -> Seen:
        begun = time.perf_counter()
        before = sum(self.got())
        self.latencies_ms = []
        enough = len(self.rounds) + (ROUNDS_MIN if self.spec.batch == 1 else 0)
        while (elapsed := time.perf_counter() - begun) < seconds or (
            len(self.rounds) < enough and elapsed < seconds * LONGER_MAX
        ):
            while self.on_its_way() + self.spec.batch > max(self.spec.window, self.spec.batch):
                self.read()
            self.rounds.append(time.perf_counter())
            self.send()
        while self.on_its_way():
            self.read()
        took = time.perf_counter() - begun
        return Seen(sum(self.got()) - before, took, self.latencies_ms)

    def on_its_way(self) -> int:
        """The most messages of any publisher that somebody lacks: all publishers send in step."""
        return len(self.rounds) * self.spec.batch - min(self.got()) // self.sharing

    def arrived(self, got: int) -> None:
        """A subscriber has had so many by now."""
        if got and len(self.latencies_ms) < SAMPLES_MAX:
            round_of_last = (got - 1) // (self.spec.batch * self.sharing)
            self.latencies_ms.append((time.perf_counter() - self.rounds[round_of_last]) * 1e3)

    def serve(self) -> None:
        """What `bench.fanout` asks of the process."""
        self.run(WARM_UP_S)
        print("ready", flush=True)
        sys.stdin.readline()
        print(msgspec.json.encode(self.run(self.spec.seconds)).decode(), flush=True)
        # What follows is not counted: whoever measures has the figures by now.
        sys.stdin.readline()


class Load(Rounds):
    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.subscribers = [Subscriber(spec, number) for number in range(spec.subscribers)]
        batches = {topic: batches_of(spec, topic) for topic in {topic_of(spec, n) for n in range(spec.publishers)}}
        self.publishers = [Publisher(spec, n, batches[topic_of(spec, n)]) for n in range(spec.publishers)]
        self.poll = select.epoll()
        clients: list[Publisher | Subscriber] = [*self.subscribers, *self.publishers]
        self.of = {each.socket.fileno(): each for each in clients}
        for number in self.of:
            self.poll.register(number, select.EPOLLIN)
        if spec.subscribe_port not in (None, spec.port):
            self._wait_for_link()

    def _wait_for_link(self) -> None:
        """Publish until every subscriber has had something, since what is published before that is for nobody."""
        until = time.perf_counter() + PATIENCE_S
        for packet_id in range(PACKET_IDS + 1, 0xFFFF):
            if all(self.got()) or time.perf_counter() > until:
                break
            for each in self.publishers:
                each.socket.sendall(publish(self.spec, each.topic, packet_id))
            self._read_while_ready(LINK_S)
        self._read_while_ready(4 * LINK_S)
        for subscriber in self.subscribers:
            subscriber.got = 0
        for publisher in self.publishers:
            publisher.acknowledged = 0

    def _read_while_ready(self, quiet_s: float) -> None:
        while ready := self.poll.poll(quiet_s):
            for number, _ in ready:
                self.of[number].read()

    def got(self) -> list[int]:
        return [each.got for each in self.subscribers]

    def send(self) -> None:
        for each in self.publishers:
            each.send(self.spec.batch)

    def on_its_way(self) -> int:
        lacking = super().on_its_way()
        if self.spec.qos:
            sent = len(self.rounds) * self.spec.batch
            return max(lacking, sent - min(each.acknowledged for each in self.publishers))
        return lacking

    def read(self) -> None:
        ready = self.poll.poll(PATIENCE_S)
        if not ready:
            raise TimeoutError(f"nothing came for {PATIENCE_S:.0f} s; {self.on_its_way()} are on their way")
        for number, _ in ready:
            client = self.of[number]
            client.read()
            if isinstance(client, Subscriber):
                self.arrived(client.got)


def main() -> None:
    Load(msgspec.json.decode(sys.argv[1], type=Spec)).serve()


if __name__ == "__main__":
    main()
