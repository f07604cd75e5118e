"""From `raise` to the datagram, and from the datagram to the handler, of live nodes on real sockets (L1).

A producer announces from 1 to 10,000 other types and a consumer holds as many subscriptions to other subjects;
neither may make an event dearer. All of it is in the figures: the node, encoding, signature, seal, system call; and
on the other side the seal, tag or signature, node, and the turn of the loop that calls the handler.

Three states of a pair are told apart. *Strangers*: every signature is made when it is needed, and checked.
*Acquainted*: the consumer has greeted, and knows frames by their tags. *Prepared*: the same, and the producer was
asked to prepare signatures and has had time to, as between events that are not all raised at once. Medians of the
quietest turn, in time of the processor: nothing here waits, and what else the machine does shows as little as can
be. The parts are measured alone, often and in a row, and are dearer on their way.
"""

import asyncio
import math
import socket
import statistics
import time
from collections.abc import Callable
from functools import partial

import uvloop

from roamcast.adhoc.proximity.messages import Withdrawn
from roamcast.model.context import Context
from roamcast.model.event import ContentType, EventType
from roamcast.model.region import Circle
from roamcast.model.space import Plane
from roamcast.model.values import Point, Value
from roamcast.multicast.drops import Dropped
from roamcast.multicast.frames import COUNTER_AT, SESSION_AT
from roamcast.multicast.keys import OPEN_GROUP_KEY, PREPARED_MAX, Identity, is_signed
from roamcast.multicast.running import NodeSettings, RunningNode
from roamcast.multicast.sealing import Seals
from roamcast.node.boundary import Broadcast
from roamcast.papers.assemble import kit_of

TAKES = "14 s"
SCALES = (1, 10, 100, 1_000, 10_000)
KEYS = ((1, OPEN_GROUP_KEY), (2, bytes(32)))
TURNS = 40
EVENTS_A_TURN = 20
AT_ONCE = 50
"""So many types are announced before the consumer gets a chance to read of them."""
CIRCLE = Circle(Point(0.0, 0.0), 100.0)
MEASURED = EventType("measured", {"count": ContentType.INTEGER, "where": ContentType.POSITION})
QUIET = {"kind": "proximity", "preset": "vehicle", "announcement_period_ms": 3_600_000.0}
"""Beacons leave with announcements and not again, so that they are not in the figures."""


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
    return port


class Pair:
    def __init__(self) -> None:
        port = free_port()
        self.producer, self.consumer = (self._node(name, port) for name in ("p", "c"))
        self.handled_ns: list[int] = []
        self.consumer.port.subscribe("measured", lambda _: self.handled_ns.append(time.thread_time_ns()))
        self.producer.port.announce(MEASURED, CIRCLE)
        self.raising_us = self.handling_us = math.inf
        self.waiting: list[bytes] = []

    def _node(self, name: str, port: int) -> RunningNode:
        settings = NodeSettings(name=name, identity=Identity.fresh(), space=Plane(), port=port, interfaces=("lo",))
        node = RunningNode(settings, kit_of(QUIET), Context(name, Point(0.0, 0.0)))
        node.start()
        return node

    async def grow(self, others: int) -> None:
        """Until the consumer has joined and heard of all; from then on its datagrams wait to be measured."""
        while "measured" not in self.consumer.host.host.node.discovery.by_subject:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
        for number in range(others):
            self.consumer.port.subscribe(f"wanted {number}", lambda _: None)
            self.producer.port.announce(EventType(f"other {number}"), CIRCLE)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.1)
        receiver = self.consumer.air._receiver
        assert receiver is not None
        receiver.take = self._keep

    def _keep(self, datagram: bytes) -> None:
        if datagram[SESSION_AT:COUNTER_AT] == self.producer.seals.session:
            self.waiting.append(datagram)

    async def acquaint(self) -> None:
        while not self.producer.seals.bonds.listeners:
            await self.turn(prepared=False)
            self.consumer.air.greet()
        self.raising_us = self.handling_us = math.inf

    async def turn(self, prepared: bool) -> None:
        self.ready(prepared)
        raising_ns, handling_ns = [], []
        for count in range(EVENTS_A_TURN):
            content: dict[str, Value] = {"count": count, "where": Point(1.0, 2.0)}
            started = time.thread_time_ns()
            self.producer.port.raise_("measured", content)
            raising_ns.append(time.thread_time_ns() - started)
        while len(self.waiting) < EVENTS_A_TURN:
            await asyncio.sleep(0.001)
        for datagram in self.waiting:
            self.handled_ns.clear()
            started = time.thread_time_ns()
            self.consumer.air.take(datagram)
            while not self.handled_ns:
                await asyncio.sleep(0)
            handling_ns.append(self.handled_ns[0] - started)
        self.waiting.clear()
        self.raising_us = min(self.raising_us, statistics.median(raising_ns) / 1_000)
        self.handling_us = min(self.handling_us, statistics.median(handling_ns) / 1_000)

    def ready(self, prepared: bool) -> None:
        """As after a pause, or as in the middle of a burst that has used up all that was prepared."""
        identity = self.producer.seals.identity
        if prepared:
            identity.prepare(PREPARED_MAX)
        while not prepared and identity.prepared:
            identity.sign(b"")

    async def close(self) -> None:
        for node in (self.producer, self.consumer):
            node.port.announcements.clear()
            node.port.handlers.clear()
            await node.stop()


def parts_us(pair: Pair) -> dict[str, float]:
    """What the parts of both ways take, of an acquainted pair."""
    producer, consumer = pair.producer, pair.consumer
    said: list[tuple[bytes, Broadcast]] = []
    frames: list[bytes] = []
    producer.host.air, air = Ear(said), producer.air
    pair.producer.port.raise_("measured", {"count": 1, "where": Point(1.0, 2.0)})
    producer.host.air = air
    data, effect = said[0]
    group = effect.group or 0
    frame = producer.seals.seal(data, group, effect.message)

    def sealed() -> None:
        frames[:] = [producer.seals.seal(data, group, effect.message) for _ in range(EVENTS_A_TURN)]

    def opened() -> None:
        datagram = frames.pop()
        consumer.seals.open(1, datagram, consumer.seals.header(datagram))

    prepared_us = quietest_us(lambda: producer.seals.identity.sign(frame), partial(pair.ready, True))
    pair.ready(False)
    signing_us = quietest_us(lambda: producer.seals.identity.sign(frame))
    sealing_us = quietest_us(lambda: producer.seals.seal(data, group, effect.message))
    sending_us = quietest_us(lambda: producer.air._send(frame, group, 0))
    opening_us = quietest_us(opened, sealed)
    decoding_us = quietest_us(lambda: consumer.host.codec.decode(data))
    return {
        "part_sign_us": signing_us,
        "part_sign_prepared_us": prepared_us,
        "part_seal_us": sealing_us - signing_us,
        "part_send_us": sending_us,
        "part_open_us": opening_us - decoding_us,
        "part_decode_us": decoding_us,
    }


class Ear:
    """In place of the air: keeps what is said."""

    def __init__(self, said: list[tuple[bytes, Broadcast]]) -> None:
        self.said = said

    def broadcast(self, data: bytes, said: Broadcast) -> int:
        self.said.append((data, said))
        return len(data)

    def join(self, group: int) -> None:
        """Nothing is heard here."""

    def leave(self, group: int) -> None:
        """Nothing is heard here."""


def quietest_us(action: Callable[[], object], before: Callable[[], object] | None = None) -> float:
    turns = []
    for _ in range(TURNS):
        if before is not None:
            before()
        started = time.thread_time_ns()
        for _ in range(EVENTS_A_TURN):
            action()
        turns.append((time.thread_time_ns() - started) / EVENTS_A_TURN / 1_000)
    return min(turns)


def bad_datagrams_us() -> dict[str, float]:
    """What it costs a node to drop a datagram, by what is wrong with it."""
    codec = kit_of(QUIET).codec
    listener = Seals("c", codec, Identity.fresh(), 1, bytes(8))
    speaker, stranger = (Seals("p", codec, Identity.fresh(), 1, bytes([n] * 8), key) for n, key in KEYS)
    data = codec.encode(Withdrawn("p:a1"))
    good, foreign = speaker.seal(data, 1), stranger.seal(data, 1)
    listener.open(1, good, listener.header(good))
    later = bytearray(speaker.seal(data, 1))
    later[-1] ^= 1
    bad = {"wrong_key": foreign, "replayed": good, "forged": bytes(later), "not_ours": bytes(300)}
    figures = {reason: quietest_us(partial(dropped, listener, datagram)) for reason, datagram in bad.items()}
    print("to drop a datagram, µs: " + ", ".join(f"{reason} {us:.1f}" for reason, us in figures.items()))
    return {f"drop_{reason}_us": us for reason, us in figures.items()}


def dropped(listener: Seals, datagram: bytes) -> None:
    try:
        listener.open(1, datagram, listener.header(datagram))
    except Dropped:
        return
    raise AssertionError("a bad datagram was taken")


async def strangers() -> dict[str, float]:
    pair = Pair()
    await pair.grow(1)
    for _ in range(TURNS):
        await pair.turn(prepared=False)
        pair.consumer.seals.bonds.frames_heard = 0
    await pair.close()
    print(f"strangers: raise to datagram {pair.raising_us:6.1f} µs, datagram to handler {pair.handling_us:6.1f} µs")
    return {"raise_us_stranger": pair.raising_us, "handle_us_stranger": pair.handling_us}


async def acquainted() -> dict[str, float]:
    figures: dict[str, float] = {}
    pairs = {others: Pair() for others in SCALES}
    for others, pair in pairs.items():
        await pair.grow(others)
        await pair.acquaint()
    # They take turns, so that none has the quiet moments of the machine for itself.
    for _ in range(TURNS):
        for pair in pairs.values():
            await pair.turn(prepared=False)
    for others, pair in pairs.items():
        print(
            f"{others:6} other types and subscriptions: raise to datagram {pair.raising_us:6.1f} µs, "
            f"datagram to handler {pair.handling_us:6.1f} µs"
        )
        figures |= {f"raise_us_{others}": pair.raising_us, f"handle_us_{others}": pair.handling_us}
    figures |= await prepared(pairs[SCALES[0]])
    parts = parts_us(pairs[SCALES[0]])
    print("parts, µs: " + ", ".join(f"{name[5:-3]} {us:.1f}" for name, us in parts.items()))
    for pair in pairs.values():
        await pair.close()
    return figures | parts


async def prepared(pair: Pair) -> dict[str, float]:
    pair.raising_us = math.inf
    for _ in range(TURNS):
        await pair.turn(prepared=True)
    print(f"with prepared signatures: raise to datagram {pair.raising_us:6.1f} µs")
    return {"raise_us_prepared": pair.raising_us}


async def measure() -> dict[str, float]:
    identity = Identity.fresh()
    statement = bytes(300)
    signature = identity.sign(statement)
    figures = {
        "sign_us": quietest_us(lambda: identity.sign(statement)),
        "verify_us": quietest_us(lambda: is_signed(identity.public, statement, signature)),
    }
    print(f"a signature: {figures['sign_us']:.1f} µs to make, {figures['verify_us']:.1f} µs to check")
    return figures | bad_datagrams_us() | await strangers() | await acquainted()


def main() -> dict[str, float]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measure())


if __name__ == "__main__":
    main()
