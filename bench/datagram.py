"""From `raise` to the datagram, and from the datagram to the handler, of live nodes on real sockets (L1).

A producer announces from 1 to 1,000 other types and a consumer holds as many subscriptions to other subjects;
neither may make an event dearer. All of it is in the figures: the node, encoding, signature, seal, system call; and
on the other side the seal, signature, node, and the turn of the loop that calls the handler. What the two signatures
take is told apart, since they are most of it. Medians of the quietest turn, in time of the processor: nothing here
waits, and what else the machine does shows as little as can be.
"""

import asyncio
import math
import socket
import statistics
import time
from collections.abc import Callable
from functools import partial

import uvloop

from roamcast.experiments.assemble import kit_of
from roamcast.live.adhoc.drops import Dropped
from roamcast.live.adhoc.keys import OPEN_GROUP_KEY, Identity, is_signed
from roamcast.live.adhoc.running import NodeSettings, RunningNode
from roamcast.live.adhoc.sealing import Seals
from roamcast.model.context import Context
from roamcast.model.event import ContentType, EventType
from roamcast.model.region import Circle
from roamcast.model.space import Plane
from roamcast.model.values import Point, Value
from roamcast.protocols.adhoc.proximity.messages import Withdrawn

SCALES = (1, 10, 100, 1_000)
KEYS = ((1, OPEN_GROUP_KEY), (2, bytes(32)))
TURNS = 20
EVENTS_A_TURN = 20
MEASURED = EventType("measured", {"count": ContentType.INTEGER, "where": ContentType.POSITION})
QUIET = {"kind": "proximity", "preset": "vehicle", "announcement_period_ms": 3_600_000.0}
"""Beacons leave with announcements and not again, so that they are not in the figures."""


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
    return port


class Pair:
    def __init__(self, others: int) -> None:
        port = free_port()
        self.producer, self.consumer = (self._node(name, port) for name in ("p", "c"))
        self.handled_ns: list[int] = []
        circle = Circle(Point(0.0, 0.0), 100.0)
        for number in range(others):
            self.consumer.port.subscribe(f"wanted {number}", lambda _: None)
            self.producer.port.announce(EventType(f"other {number}"), circle)
        self.consumer.port.subscribe("measured", lambda _: self.handled_ns.append(time.thread_time_ns()))
        self.producer.port.announce(MEASURED, circle)
        self.raising_us = self.handling_us = math.inf
        self.waiting: list[bytes] = []

    def _node(self, name: str, port: int) -> RunningNode:
        settings = NodeSettings(name=name, identity=Identity.fresh(), space=Plane(), port=port, interfaces=("lo",))
        node = RunningNode(settings, kit_of(QUIET), Context(name, Point(0.0, 0.0)))
        node.start()
        return node

    async def heard(self) -> None:
        """Until the consumer has joined; from then on its datagrams wait to be measured."""
        while "measured" not in self.consumer.host.host.node.discovery.by_subject:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
        for receiver in self.consumer.air._receivers:
            receiver.take = self.waiting.append

    async def turn(self) -> None:
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

    async def close(self) -> None:
        for node in (self.producer, self.consumer):
            node.port.announcements.clear()
            node.port.handlers.clear()
            await node.stop()


def quietest_us(action: Callable[[], object]) -> float:
    turns = []
    for _ in range(TURNS):
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


async def measure() -> dict[str, float]:
    identity = Identity.fresh()
    statement = bytes(300)
    signature = identity.sign(statement)
    figures = {
        "sign_us": quietest_us(lambda: identity.sign(statement)),
        "verify_us": quietest_us(lambda: is_signed(identity.public, statement, signature)),
    }
    print(f"a signature: {figures['sign_us']:.1f} µs to make, {figures['verify_us']:.1f} µs to check")
    figures |= bad_datagrams_us()
    pairs = {others: Pair(others) for others in SCALES}
    for pair in pairs.values():
        await pair.heard()
    # They take turns, so that none has the quiet moments of the machine for itself.
    for _ in range(TURNS):
        for pair in pairs.values():
            await pair.turn()
    for others, pair in pairs.items():
        await pair.close()
        print(
            f"{others:6} other types and subscriptions: raise to datagram {pair.raising_us:6.1f} µs, "
            f"datagram to handler {pair.handling_us:6.1f} µs"
        )
        figures |= {f"raise_us_{others}": pair.raising_us, f"handle_us_{others}": pair.handling_us}
    return figures


def main() -> dict[str, float]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measure())


if __name__ == "__main__":
    main()
