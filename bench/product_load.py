"""The clients of `bench.product`: moving subscribers on raw sockets, driven by one epoll loop.

Clients are spread over the brokers, and each broker has a publisher for every 200 events a second. A second has
`STEPS_PER_S` steps: in each step some clients move and report, and some events are published, each in a segment of
its own. Between steps the loop reads what came, acknowledges it, and notes which events each client got. The clients'
clock waits for a broker that is more than `BEHIND_STEPS_MAX` behind, so that a busy machine makes the run longer and
not its result wrong.

The clients' paths and the events are known before the run, and so are the deliveries that must be made: a pair of
event and client is *wanted* if the client is within the radius before, at and after the second of the event; it is
*missing* if the client was there for two seconds before and after, and did not get it; and it is *unwanted* if it was
nowhere near in that time. What lies between may arrive or not.
"""

import math
import select
import socket
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from msgspec import Struct

from bench.mobile import World, touched
from roamcast.mqtt import encode
from roamcast.mqtt.packets import V5, Connect, Publish, Subscribe, Unsubscribe, Wish

STEPS_PER_S = 50
PUBLISHER_EVENTS_PER_S = 200
"""What each broker has a publisher for."""
WARM_UP_S = 2
CERTAIN_S = 2
"""A report that is late by more than a second makes no difference to who is there so long before and after."""
BEHIND_STEPS_MAX = 15
QUIET_S = 0.5
"""After the last wanted delivery: for acknowledgements, and for what nobody wanted."""
PATIENCE_S = 20.0
"""What has not come for so long is missing."""
READ_BYTES = 1 << 18
KEPT_S = 3_600
WARMING = -1
"""The number of an event that is not counted."""
CONNACK, PUBLISH, SUBACK, UNSUBACK = 2, 3, 9, 11

Spot = tuple[float, float]


class Way(Struct, frozen=True):
    """How clients tell a broker what they want: one filter and reports, or, with `tile_m`, topics of tiles."""

    radius_m: float
    qos: int = 0
    kept: bool = False
    tile_m: float | None = None

    def topic(self, spot: Spot) -> str:
        if self.tile_m is None:
            return "alerts"
        return f"alerts/{math.floor(spot[0] / self.tile_m)}/{math.floor(spot[1] / self.tile_m)}"


class Result(Struct):
    wanted: int
    made: int
    """Wanted deliveries that were made."""
    missing: int
    doubled: int
    unwanted: int
    pace: float
    """The time that the run should take, over the time it took; below 1 a broker or this process was behind."""
    p50_ms: float
    p99_ms: float
    cpu_s: float


def ignored(client: "Client", number: int) -> None:
    """Nothing is counted before a run."""


class Client:
    """One connection. It acknowledges what it gets, and keeps the numbers of the events."""

    def __init__(self, name: str, port: int, way: Way) -> None:
        self.way = way
        self.got: list[int] = []
        self.due: set[int] = set()
        """Wanted events that have not come."""
        self.tiles: set[tuple[int, int]] = set()
        self._packet_id = 0
        self._answers = 0
        self._spare = b""
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(PATIENCE_S)
        self.ask(Connect(name, clean_start=not way.kept, session_expiry_s=KEPT_S if way.kept else 0))

    def ask(self, packet: Connect | Subscribe) -> None:
        self.say(packet)
        due = self._answers + 1
        while self._answers < due:
            self.read(ignored)

    def say(self, packet: Connect | Subscribe | Unsubscribe | Publish) -> None:
        self.socket.sendall(encode(packet, V5))

    def packet_id(self) -> int:
        self._packet_id = self._packet_id % 60_000 + 1
        return self._packet_id

    def read(self, arrived: Callable[["Client", int], None]) -> None:
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("a broker closed a client's connection")
        if self._spare:
            data = self._spare + data
        at, end, answers = 0, len(data), []
        while (packet := framed(data, at, end)) is not None:
            start, stop = packet
            kind = data[at] >> 4
            if kind == PUBLISH:
                number, packet_id = published(data, at, start, stop)
                if packet_id:
                    answers.append(b"\x40\x02" + packet_id)
                if number != WARMING:
                    self.got.append(number)
                    arrived(self, number)
            elif kind in (CONNACK, SUBACK, UNSUBACK):
                self._answers += 1
            at = stop
        self._spare = data[at:]
        if answers:
            self.socket.sendall(b"".join(answers))

    def subscribe(self, spot: Spot) -> None:
        self.move(spot)
        if self.way.tile_m is not None:
            return
        near = (("filter", f"near(position, {self.way.radius_m:g})"),)
        self.ask(Subscribe(self.packet_id(), (Wish("alerts", self.way.qos),), user_properties=near))

    def move(self, spot: Spot) -> None:
        """Report the position, or subscribe to the tiles that the circle around it touches."""
        if self.way.tile_m is None:
            self.say(Publish("$roam/me", b'{"position":[%.1f,%.1f]}' % spot))
            return
        tiles = touched(*spot, self.way.tile_m, self.way.radius_m)
        new, old = sorted(tiles - self.tiles), sorted(self.tiles - tiles)
        self.tiles = tiles
        if new:
            wishes = tuple(Wish(f"alerts/{x}/{y}", self.way.qos) for x, y in new)
            self.say(Subscribe(self.packet_id(), wishes))
        if old:
            self.say(Unsubscribe(self.packet_id(), tuple(f"alerts/{x}/{y}" for x, y in old)))

    def publish(self, number: int, spot: Spot) -> None:
        payload = b'{"number":%d,"position":[%.1f,%.1f]}' % (number, *spot)
        packet_id = self.packet_id() if self.way.qos else 0
        self.say(Publish(self.way.topic(spot), payload, qos=self.way.qos, packet_id=packet_id))


def framed(data: bytes, at: int, end: int) -> tuple[int, int] | None:
    """Where the body of the packet at `at` starts and stops; None if it is not complete."""
    length = shift = 0
    place = at + 1
    while place < end:
        digit = data[place]
        length |= (digit & 127) << shift
        place += 1
        if digit < 128:
            return (place, place + length) if place + length <= end else None
        shift += 7
    return None


def published(data: bytes, at: int, start: int, stop: int) -> tuple[int, bytes]:
    """An event's number, and its packet identifier, empty with QoS 0."""
    behind = start + 2 + (data[start] << 8 | data[start + 1])
    packet_id = b""
    if data[at] & 6:
        packet_id = data[behind : behind + 2]
    digits = data.index(b'"number":', behind, stop) + 9
    return int(data[digits : data.index(b",", digits, stop)]), packet_id


class Crowd:
    """All clients of a run, connected and subscribed."""

    def __init__(self, world: World, way: Way, ports: list[int]) -> None:
        self.world = world
        self.clients: list[Client] = []
        sources = max(1, world.events_per_s // PUBLISHER_EVENTS_PER_S)
        self.publishers = [
            Client(f"source{number}", ports[number % len(ports)], way) for number in range(sources * len(ports))
        ]
        for number in range(world.clients):
            client = Client(f"c{number}", ports[number % len(ports)], way)
            client.subscribe(self._spot(number, 0))
            self.clients.append(client)
        self.poll = select.epoll()
        self.of = {each.socket.fileno(): each for each in (*self.publishers, *self.clients)}
        for number in self.of:
            self.poll.register(number, select.EPOLLIN)
        self.sent_s: list[float] = []
        self.steps: list[int] = []
        """When each event was published."""
        self.lacking: Counter[int] = Counter()
        """Wanted deliveries that have not come, by the step of their event."""
        self.latencies_ms: list[float] = []
        self._order = Random(1).sample(range(world.clients), world.clients)
        self._seconds = np.zeros(world.clients, np.int64)
        self._now_s = 0.0

    def close(self) -> None:
        self.poll.close()
        for each in self.of.values():
            each.socket.close()

    def _spot(self, client: int, second: int) -> Spot:
        x, y = self.world.places[second, client].tolist()
        return x, y

    def warm_up(self) -> None:
        """Everybody moves, and events are published that are not counted."""
        for step in range(-WARM_UP_S * STEPS_PER_S, 0):
            self._move(step)
            for turn in range(self.world.events_per_s // STEPS_PER_S):
                self._publish(turn, WARMING, self.world.events[turn])
            self._read_until(time.perf_counter() + 1 / STEPS_PER_S)
        self._read_until(time.perf_counter() + QUIET_S)

    def run(self, cpu_s: Callable[[], float]) -> Result:
        """Publish all events of the world, and wait for what is under way."""
        world = self.world
        wanted: list[Any] = []
        certain: list[tuple[Any, Any]] = []
        before_s, begun = cpu_s(), time.perf_counter()
        due_s = begun
        for step in range(world.seconds * STEPS_PER_S):
            self._move(step)
            while (number := len(wanted)) < (step + 1) * world.events_per_s / STEPS_PER_S:
                wanted.append(world.around(number, self._seconds)[0])
                certain.append(world.around(number, self._seconds, CERTAIN_S))
                self._expect(step, certain[-1][0])
                self._publish(number, number, world.events[number])
            due_s = max(due_s + 1 / STEPS_PER_S, time.perf_counter())
            self._read_until(due_s)
            self._wait_for(step - BEHIND_STEPS_MAX)
        pace = world.seconds / (time.perf_counter() - begun)
        self._wait_for(world.seconds * STEPS_PER_S)
        self._read_until(time.perf_counter() + QUIET_S)
        used_s = cpu_s() - before_s
        return self._judged(np.array(wanted), certain, pace, used_s)

    def _expect(self, step: int, receivers: Any) -> None:
        number = len(self.sent_s)
        self.sent_s.append(time.perf_counter())
        self.steps.append(step)
        self.lacking[step] += int(receivers.sum())
        for each in np.flatnonzero(receivers).tolist():
            self.clients[each].due.add(number)

    def _arrived(self, client: Client, number: int) -> None:
        if number in client.due:
            client.due.remove(number)
            self.lacking[self.steps[number]] -= 1
            self.latencies_ms.append((self._now_s - self.sent_s[number]) * 1e3)

    def _judged(self, wanted: Any, certain: list[tuple[Any, Any]], pace: float, cpu_s: float) -> Result:
        got = np.zeros((len(wanted), self.world.clients), np.int64)
        for each, client in enumerate(self.clients):
            np.add.at(got[:, each], client.got, 1)
        always, never = (np.array([pair[side] for pair in certain]) for side in (0, 1))
        return Result(
            wanted=int(wanted.sum()),
            made=int((wanted & (got > 0)).sum()),
            missing=int((always & (got == 0)).sum()),
            doubled=int(np.maximum(got - 1, 0).sum()),
            unwanted=int((never & (got > 0)).sum()),
            pace=min(1.0, pace),
            p50_ms=float(np.percentile(self.latencies_ms or [0.0], 50)),
            p99_ms=float(np.percentile(self.latencies_ms or [0.0], 99)),
            cpu_s=cpu_s,
        )

    def _move(self, step: int) -> None:
        for each in self._order[step % STEPS_PER_S :: STEPS_PER_S]:
            self._seconds[each] += 1
            self.clients[each].move(self._spot(each, int(self._seconds[each])))

    def _publish(self, turn: int, number: int, spot: Any) -> None:
        x, y = spot.tolist()
        self.publishers[turn % len(self.publishers)].publish(number, (x, y))

    def _read_until(self, until_s: float) -> None:
        """Reads once in any case, so that one who is late does not stop reading."""
        self._read(0.0)
        while (left_s := until_s - time.perf_counter()) > 0:
            self._read(left_s)

    def _wait_for(self, step: int) -> None:
        """Until all wanted deliveries up to this step have come, or some of them have kept us waiting too long."""
        until_s = time.perf_counter() + PATIENCE_S
        for each in sorted(each for each in self.lacking if each <= step):
            while self.lacking[each] > 0 and (left_s := until_s - time.perf_counter()) > 0:
                self._read(left_s)
            del self.lacking[each]

    def _read(self, wait_s: float) -> None:
        ready = self.poll.poll(wait_s)
        self._now_s = time.perf_counter()
        for file, _ in ready:
            self.of[file].read(self._arrived)
