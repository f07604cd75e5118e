"""The real job: clients that move, each to get the events within some metres of it; ours against tiles on Mosquitto.

Ours: a client has one subscription, `near(position, R)`, and says where it is: once a second, or with its velocity
and then only when it turns, which is what `roamcast.Client` does (dead reckoning, to a metre). Mosquitto knows no
places, so what people do is tile the ground: an event is published to the topic of its tile, a client subscribes to
every tile that its circle touches, changes that when it moves across an edge, and throws away what is too far. Two
sizes of tiles are tried, for small ones mean many subscriptions and large ones much that nobody wants.

Clients go 10 m/s and turn every twenty seconds or so. A pair of event and client is *wanted* if the client truly is
within R before, at, and after the second of the event, and *unwanted* if it is in none of them, whatever it reported;
what lies between is nobody's fault and not counted. CPU is that of the broker's process, bytes are those of MQTT in
both directions; both are told for a wanted delivery that was made, which includes everything that was needed for it:
positions, subscriptions, and what was thrown away. While the machine keeps the clients themselves waiting, what is
missed or unwanted is nobody's fault and not counted either; the share of such events is told. Where it is large, or
much is missed, there is no ratio. Each way has one run, one after the other. Everything is QoS 0, and each event
comes in a segment of its own.

`python -m bench mobile`; `python -m bench.mobile 1000 200 300` takes so many clients, events a second and metres.
"""

import asyncio
import json
import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from bench import progress
from bench.fanout_peers import Peer, Running, needs, our_command, program, single
from roamcast.model.space import Plane
from roamcast.movement.dead_reckoning import DeadReckoning
from roamcast.movement.fix import Fix, heading_of
from roamcast.mqtt import Decoder, encode
from roamcast.mqtt.packets import V5, ConnAck, Connect, Publish, SubAck, Subscribe, UnsubAck, Unsubscribe, Wish

TAKES = "6 minutes"
NEEDS = {"mosquitto": "apt-get install mosquitto"}
SIDE_M = 5_000.0
SPEED_MPS = 10.0
SECONDS = 10
TURN_S = 20.0
STEPS_PER_S = 50
TILES_PER_RADIUS = (0.5, 1.0)
CASES = ((200, 50, 300.0), (1_000, 50, 300.0), (1_000, 500, 300.0), (1_000, 50, 1_000.0))
"""Clients, events a second, and within how many metres: with few and with many receivers of an event."""
DECIMALS = 1
"""Of metres, as places are told."""
SETTLE_S = 2.0
LATE_S_MAX = 0.3
LATE_SHARE_MAX = 0.05
"""Of the events that were published while clients were later than that; with more there is nothing to compare."""
MISSED_SHARE_MAX = 0.01
WARM_UP = 100
"""Events before it counts: ours compiles what matches them, once."""
RECKONED, EVERY_SECOND = "ours, when it turns", "ours, every second"
OURS = """
name = "mobile"
data = "data"
space = "plane"
log_level = "error"
listeners = [{{ port = {port}, host = "127.0.0.1" }}]
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
log_dest none
user root
"""


class World:
    """Where everybody is at each second, the same for all brokers; and what happens where."""

    def __init__(
        self,
        clients: int,
        events_per_s: int,
        radius_m: float,
        seconds: int = SECONDS,
        side_m: float = SIDE_M,
        seed: int = 1,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.seconds = seconds
        seconds += 5
        turns = rng.uniform(size=(seconds, clients)) < 1 / TURN_S
        headings = rng.uniform(0, 2 * math.pi, (seconds, clients))
        for second in range(1, seconds):
            headings[second] = np.where(turns[second], headings[second], headings[second - 1])
        steps = SPEED_MPS * np.stack([np.cos(headings), np.sin(headings)], axis=2)
        there = rng.uniform(0, side_m, (clients, 2)) + np.cumsum(steps, axis=0)
        # They turn at the edges, as light does.
        self.places = np.round(side_m - np.abs(there % (2 * side_m) - side_m), DECIMALS)
        self.velocities = np.diff(self.places, axis=0)
        self.clients = clients
        self.events = np.round(rng.uniform(0, side_m, (self.seconds * events_per_s, 2)), DECIMALS)
        self.events_per_s = events_per_s
        self.radius_m = radius_m

    def stand(self, client: int, second: int, late_s: float = 0.0) -> "SimulatedGround":
        """Where a client is so long after a second of it began."""
        velocity = self.velocities[second, client]
        place = self.places[second, client] + velocity * min(late_s, 1.0)
        return SimulatedGround(second + late_s, *place.tolist(), *velocity.tolist())

    def around(self, event: int, second: Any, margin_s: int = 1) -> tuple[Any, Any]:
        """Who is within R all the time around an event, and who at no time; `second` is each client's."""
        who = np.arange(self.clients)
        within = [
            np.hypot(*(self.places[np.maximum(second + shift, 0), who] - self.events[event]).T) <= self.radius_m
            for shift in range(-margin_s, margin_s + 1)
        ]
        return np.logical_and.reduce(within), ~np.logical_or.reduce(within)


class SimulatedGround(Struct, frozen=True):
    """Where a client is, and where it is going for a second."""

    second: float
    x: float
    y: float
    east: float
    north: float

    @property
    def fix(self) -> Fix:
        heading = heading_of(self.east, self.north)
        return Fix(round(self.second * 1e6), (self.x, self.y), math.hypot(self.east, self.north), heading)


class Mover(asyncio.Protocol):
    def __init__(self, name: str) -> None:
        self.name = name
        self.answers = 0
        self.bytes = 0
        self.got: list[int] = []
        self.tiles: set[tuple[int, int]] = set()
        self.reckoning = DeadReckoning(Plane())
        self._packet_id = 0
        self._decoder = Decoder(V5)
        self.changed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.say(Connect(self.name))

    def say(self, packet: Connect | Subscribe | Unsubscribe | Publish) -> None:
        data = encode(packet, V5)
        self.bytes += len(data)
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        self.bytes += len(data)
        self._decoder.feed(data)
        while (packet := self._decoder.next_packet()) is not None:
            match packet:
                case Publish():
                    self.got.append(json.loads(packet.payload)["number"])
                case ConnAck() | SubAck() | UnsubAck():
                    self.answers += 1
                    self.changed.set()
                case _:
                    pass

    async def answered(self, count: int) -> None:
        while self.answers < count:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 60.0)

    def packet_id(self) -> int:
        self._packet_id = self._packet_id % 60_000 + 1
        return self._packet_id


class Way(Struct, frozen=True):
    """How clients of a broker say where they are, and what topic an event has."""

    name: str
    peer: Peer
    stand: Callable[[Mover, SimulatedGround], None]
    move: Callable[[Mover, SimulatedGround], None]
    topic: Callable[[Any], str]


# Ours.


def report(mover: Mover, at: SimulatedGround) -> None:
    mover.say(Publish("$roam/me", b'{"position":[%.1f,%.1f]}' % (at.x, at.y)))


def reckon(mover: Mover, at: SimulatedGround) -> None:
    """As `roamcast.Client` does it."""
    if mover.reckoning.is_news(at.fix):
        mover.reckoning.told(at.fix)
        said = b'{"position":[%.1f,%.1f],"velocity":[%.2f,%.2f]}' % (at.x, at.y, at.east, at.north)
        mover.say(Publish("$roam/me", said))


def wanting(radius_m: float) -> Callable[[Mover, SimulatedGround], None]:
    def stand(mover: Mover, at: SimulatedGround) -> None:
        report(mover, at)
        wanted = (("filter", f"near(position, {radius_m:g})"),)
        mover.say(Subscribe(mover.packet_id(), (Wish("alerts", 0),), user_properties=wanted))

    return stand


def ours(folder: Path, port: int) -> list[str]:
    config = folder / "broker.toml"
    config.write_text(OURS.format(port=port), encoding="utf-8")
    return our_command(config)


# Mosquitto.


def mosquitto(folder: Path, port: int) -> list[str]:
    config = folder / "mosquitto.conf"
    config.write_text(MOSQUITTO.format(port=port), encoding="utf-8")
    return [program("mosquitto") or "mosquitto", "-c", str(config)]


def touched(x: float, y: float, tile_m: float, radius_m: float) -> set[tuple[int, int]]:
    """The tiles that a client's circle touches."""
    found = set()
    for column in range(math.floor((x - radius_m) / tile_m), math.floor((x + radius_m) / tile_m) + 1):
        for row in range(math.floor((y - radius_m) / tile_m), math.floor((y + radius_m) / tile_m) + 1):
            dx = max(column * tile_m - x, 0.0, x - (column + 1) * tile_m)
            dy = max(row * tile_m - y, 0.0, y - (row + 1) * tile_m)
            if math.hypot(dx, dy) <= radius_m:
                found.add((column, row))
    return found


def retile(mover: Mover, at: SimulatedGround, tile_m: float, radius_m: float) -> None:
    tiles = touched(at.x, at.y, tile_m, radius_m)
    new, old = sorted(tiles - mover.tiles), sorted(mover.tiles - tiles)
    mover.tiles = tiles
    if new:
        mover.say(Subscribe(mover.packet_id(), tuple(Wish(f"alerts/{x}/{y}", 0) for x, y in new)))
    if old:
        mover.say(Unsubscribe(mover.packet_id(), tuple(f"alerts/{x}/{y}" for x, y in old)))


def tiled(tile_m: float, radius_m: float) -> Way:
    return Way(
        f"mosquitto, tiles of {tile_m:g} m",
        Peer("mosquitto", needs("mosquitto", "apt-get install mosquitto"), single(mosquitto)),
        lambda mover, at: retile(mover, at, tile_m, radius_m),
        lambda mover, at: retile(mover, at, tile_m, radius_m),
        lambda spot: f"alerts/{math.floor(spot[0] / tile_m)}/{math.floor(spot[1] / tile_m)}",
    )


def ways_of(radius_m: float) -> list[Way]:
    peer = Peer("ours", lambda: None, single(ours))
    return [
        Way(RECKONED, peer, wanting(radius_m), reckon, lambda _: "alerts"),
        Way(EVERY_SECOND, peer, wanting(radius_m), report, lambda _: "alerts"),
        *(tiled(share * radius_m, radius_m) for share in TILES_PER_RADIUS),
    ]


class Counts(Struct):
    wanted: int = 0
    made: int = 0
    judged: int = 0
    missed: int = 0
    unwanted: int = 0
    twice: int = 0
    bytes: int = 0
    late_share: float = 0.0


async def played(world: World, way: Way, port: int, cpu_s: Callable[[], float]) -> tuple[Counts, float]:
    loop = asyncio.get_running_loop()
    movers: list[Mover] = []
    for number in range(world.clients):
        _, mover = await loop.create_connection(partial(Mover, f"m{number}"), "127.0.0.1", port)
        movers.append(mover)
        await mover.answered(1)
        way.stand(mover, world.stand(number, 0))
        await mover.answered(2)
    _, source = await loop.create_connection(lambda: Mover("source"), "127.0.0.1", port)
    await source.answered(1)
    for spot in world.events[:WARM_UP]:
        source.say(event_packet(way, -1, spot))
        await asyncio.sleep(0.01)
    await asyncio.sleep(SETTLE_S)
    before_s = 0.0

    def start() -> None:
        nonlocal before_s
        for each in (*movers, source):
            each.bytes = 0
            each.got.clear()
        before_s = cpu_s()

    walk = await walked(world, way, movers, source, start)
    await asyncio.sleep(SETTLE_S)
    used_s = cpu_s() - before_s
    counts = Counts(
        bytes=sum(each.bytes for each in (*movers, source)), late_share=len(walk.late) / len(world.events)
    )
    for number, mover in enumerate(movers):
        got, inside = set(mover.got), walk.inside[number] - walk.late
        counts.twice += len(mover.got) - len(got)
        counts.wanted += len(walk.inside[number])
        counts.made += len(walk.inside[number] & got)
        counts.judged += len(inside)
        counts.missed += len(inside - got)
        counts.unwanted += len((walk.outside[number] - walk.late) & got)
        mover.transport.abort()
    source.transport.abort()
    return counts, used_s


def event_packet(way: Way, number: int, spot: Any) -> Publish:
    return Publish(way.topic(spot), b'{"number":%d,"position":[%.1f,%.1f]}' % (number, spot[0], spot[1]))


class Walk(Struct):
    """For each client, the events that it must get, and those that it must not; and which of them came while the
    machine let clients wait too long to say where they are."""

    inside: list[set[int]]
    outside: list[set[int]]
    late: set[int]


async def walked(world: World, way: Way, movers: list[Mover], source: Mover, start: Callable[[], None]) -> Walk:
    """Nothing happens in the first second, in which everybody begins to move; then it counts."""
    loop = asyncio.get_running_loop()
    walk = Walk([set() for _ in movers], [set() for _ in movers], set())
    second = np.zeros(world.clients, np.int64)
    order = Random(1).sample(range(world.clients), world.clients)
    begun, number = loop.time(), 0
    for step in range(-STEPS_PER_S, SECONDS * STEPS_PER_S):
        if step == 0:
            start()
        late_s = max(0.0, loop.time() - begun - 1 - step / STEPS_PER_S)
        for each in order[step % STEPS_PER_S :: STEPS_PER_S]:
            second[each] += 1
            way.move(movers[each], world.stand(each, int(second[each]), late_s))
        while number * STEPS_PER_S < (step + 1) * world.events_per_s and number < len(world.events):
            spot = world.events[number]
            source.say(event_packet(way, number, spot))
            always, never = world.around(number, second)
            for each in np.flatnonzero(always).tolist():
                walk.inside[each].add(number)
            for each in np.flatnonzero(never).tolist():
                walk.outside[each].add(number)
            if late_s >= LATE_S_MAX:
                walk.late.add(number)
            number += 1
        await asyncio.sleep(max(0.0, begun + 1 + (step + 1) / STEPS_PER_S - loop.time()))
    return walk


def measured(clients: int, events_per_s: int, radius_m: float) -> dict[str, float]:
    world = World(clients, events_per_s, radius_m)
    figures: dict[str, float] = {}
    print(f"\n{clients} clients at {SPEED_MPS:g} m/s, {events_per_s} events a second, {radius_m:g} m, {SECONDS} s")
    print(
        f"{'':<28}{'wanted':>9}{'missed':>8}{'unwanted':>10}{'late %':>8}{'CPU us':>8}{'bytes':>7}  a wanted delivery"
    )
    for way in ways_of(radius_m):
        reason = way.peer.lacks()
        if reason is not None:
            progress.skipped(way.name, reason)
            continue
        with Running(way.peer) as broker:
            counts, used_s = asyncio.run(played(world, way, broker.ports[0], broker.cpu_s))
        cpu_us, size = used_s / max(1, counts.made) * 1e6, counts.bytes / max(1, counts.made)
        figures[f"{way.name}/missed_share"] = counts.missed / max(1, counts.judged)
        told = (
            f"{way.name:<28}{counts.wanted:9,}{counts.missed:8,}{counts.unwanted:10,}{100 * counts.late_share:8.1f}"
        )
        print(f"{told}{cpu_us:8.1f}{size:7.0f}", flush=True)
        figures |= {f"{way.name}/{key}": float(value) for key, value in msgspec.structs.asdict(counts).items()}
        figures |= {f"{way.name}/cpu_us": round(cpu_us, 2), f"{way.name}/bytes_each": round(size, 1)}
    for share, most, problem in (
        ("late_share", LATE_SHARE_MAX, "clients were late"),
        ("missed_share", MISSED_SHARE_MAX, "much was missed"),
    ):
        if any(value > most for name, value in figures.items() if name.endswith(share)):
            print(f"No ratios: {problem}; try again when the machine is quiet")
            return figures
    for key, what in (("cpu_us", "CPU"), ("bytes_each", "bytes")):
        theirs = [value for name, value in figures.items() if name.startswith("mosquitto") and name.endswith(key)]
        if theirs:
            ratio = figures[f"ratio in {what}"] = round(min(theirs) / figures[f"{RECKONED}/{key}"], 2)
            print(f"Mosquitto's best over ours with reckoning: {ratio} in {what}")
    return figures


def main(*case: float) -> dict[str, float]:
    """Of the case that is given, or of all."""
    figures: dict[str, float] = {}
    for clients, events_per_s, radius_m in [(int(case[0]), int(case[1]), case[2])] if case else CASES:
        label = f"{clients}x{events_per_s}x{radius_m:g}"
        figures |= {f"{label}/{name}": value for name, value in measured(clients, events_per_s, radius_m).items()}
        progress.note(figures)
    return figures


if __name__ == "__main__":
    main(*(float(each) for each in sys.argv[1:]))
