"""Figures 7 to 14 of the paper on opportunistic overlays, measured (O8).

Nodes are the real ones in a world of 100 hosts on a square kilometre, radio range 250 m, random waypoint in its
stationary state. A path length is what section 4.1 says: the shortest broker path by the sender's own view of the
broker network, counted in hops that the real network has between its brokers at that moment. Pairs that the network
does not connect at that moment are left out. `measure_brokers` is figures 7 to 9, `measure_clients` 10 to 12,
`measure_load` 13 and 14.

Overhead is what brokers send to spread rows (`Rows`). The paper says neither how large an item is nor whether a row
that takes several hops counts more than once, so there are three figures: items of 9 bytes counted at every hop, the
same counted once, and the bytes of our own encoding at every hop. They differ by a factor of 2.5
(docs/papers/OVERLAY.md).
"""

from collections.abc import Iterator
from itertools import pairwise
from random import Random
from statistics import fmean
from typing import Literal, TypeAlias

from msgspec import Struct

from roamcast.broker.overlay.broker import OverlayBroker
from roamcast.broker.overlay.client import OverlayClient
from roamcast.broker.overlay.messages import (
    MESSAGES,
    Agree,
    Ask,
    Cancel,
    Detour,
    Detoured,
    Handoff,
    HandoffPart,
    Parcel,
    Refuse,
    Row,
    Rows,
    Whereabouts,
)
from roamcast.broker.overlay.modelled import ModelledBroker
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.overlay.relay import Relay
from roamcast.broker.overlay.topology import Topology
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US
from roamcast.movement.legs import Track
from roamcast.movement.waypoint import RandomWaypoint
from roamcast.node.boundary import Message, Node, Publish, Subscribe
from roamcast.node.codec import Codec
from roamcast.node.kit import Seat
from roamcast.sim.hosts import Body, Resident
from roamcast.sim.radio import UnitDiskParams
from roamcast.sim.underlay import Underlay, UnderlayParams
from roamcast.sim.world import World

ITEM_BYTES = 9
SAMPLE_S = 10.0
"""How often path lengths are looked at."""
SETTLES_S = 10.0
"""When everybody has found somebody, and measuring begins."""
SUBJECT = "events"


class Setting(Struct, frozen=True):
    """Section 4.1."""

    hosts: int = 100
    side_m: tuple[float, float] = (1_000.0, 1_000.0)
    speed_mps: tuple[float, float] = (1.0, 20.0)
    pause_s: float = 10.0
    range_m: float = 250.0
    seconds: float = 600.0
    warm_up_s: float = 1_000.0


PAPER = Setting()


RELOCATION = (Ask, Agree, Refuse, Cancel, Detour, Detoured, Handoff, HandoffPart, Whereabouts)


class OverlayWorld(World):
    """Counts the items of rows, once and over all hops, and the bytes of rows and relocations over all hops."""

    items = 0
    items_by_hop = 0
    rows_bytes = 0
    relocation_bytes = 0

    def _send_through(self, underlay: Underlay, body: Body, to: str, message: Message) -> None:
        if isinstance(message, Rows):
            items = sum(len(row.neighbours) for row in message.rows)
            hops = underlay.hops(body.index, self.by_name[to].index) or 0
            self.items += items
            self.items_by_hop += items * hops
            self.rows_bytes += hops * len(self.codec.encode(message))
        elif isinstance(message, Parcel) and isinstance(message.inside, RELOCATION):
            hops = underlay.hops(body.index, self.by_name[to].index) or 0
            self.relocation_bytes += hops * len(self.codec.encode(message))
        super()._send_through(underlay, body, to, message)


class Arena:
    """A world of brokers, clients and relays that move, and what can be measured in it."""

    def __init__(
        self,
        seed: int,
        setting: Setting,
        overlay: OverlayParams,
        brokers: int,
        producers: int = 0,
        consumers: int = 0,
    ) -> None:
        self.setting = setting
        self.overlay = overlay
        self.brokers = [f"broker-{number}" for number in range(1, brokers + 1)]
        self.producers = [f"producer-{number}" for number in range(1, producers + 1)]
        self.consumers = [f"consumer-{number}" for number in range(1, consumers + 1)]
        others = setting.hosts - brokers - producers - consumers
        self.relays = [f"relay-{number}" for number in range(1, others + 1)]
        self.nodes: dict[str, OverlayBroker] = {}
        self.clients: dict[str, OverlayClient] = {}
        mobility = RandomWaypoint(
            *setting.side_m, *setting.speed_mps, pause_s=setting.pause_s, warm_up_s=setting.warm_up_s
        )
        names = [*self.brokers, *self.producers, *self.consumers, *self.relays]
        # Hosts move alike whatever they are: approaches are compared on the same movements.
        generators = [Random(f"{seed}/overlay/{index}") for index in range(len(names))]
        tracks = [Track(mobility.legs(rng, index, len(names))) for index, rng in enumerate(generators)]
        self.world = OverlayWorld(
            [Resident(name, track, self._node) for name, track in zip(names, tracks, strict=True)],
            Codec(MESSAGES),
            seed,
            radio=UnitDiskParams(setting.range_m),
            packet_bytes=64,
            underlay=UnderlayParams(),
        )
        self._published = 0
        self._rng = Random(f"{seed}/best")

    def _node(self, seat: Seat) -> Node:
        if seat.host.startswith("broker"):
            self.nodes[seat.host] = ModelledBroker(seat.host, self.overlay, seat.rng)
            return self.nodes[seat.host]
        if seat.host.startswith("relay"):
            return Relay(seat.host, self.overlay)
        self.clients[seat.host] = OverlayClient(seat.host, self.overlay, seat.rng)
        return self.clients[seat.host]

    def until(self, seconds: float) -> None:
        for _ in self.world.run(round(seconds * 1e6)):
            pass

    def samples(self) -> Iterator[float]:
        """Advances, and stops at every time at which to look."""
        now_s = SETTLES_S
        while now_s < SETTLES_S + self.setting.seconds:
            self.until(now_s)
            yield now_s
            now_s += SAMPLE_S

    # Clients.

    def begin(self) -> None:
        """Consumers subscribe to everything, producers let themselves be known."""
        self.until(SETTLES_S / 2)
        for name in self.consumers:
            now_us = self.world.kernel.now_us
            self.world.give(name, Subscribe(Subscription(f"{name}/all", name, SUBJECT, now_us, FOREVER_US)))
        for name in self.producers:
            self.publish(name)

    def publish(self, producer: str) -> None:
        now_us = self.world.kernel.now_us
        self._published += 1
        event = Event(f"{producer}:{self._published}", SUBJECT, Context(producer, at_us=now_us), now_us, FOREVER_US)
        self.world.give(producer, Publish(event))

    # Lengths.

    def network(self, one: str, other: str) -> int | None:
        underlay, by_name = self.world.underlay, self.world.by_name
        assert underlay is not None
        return underlay.hops(by_name[one].index, by_name[other].index)

    def length(self, path: tuple[str, ...] | None) -> int | None:
        """Of a path of hosts, in hops of the network as it is now."""
        hops = [self.network(*step) for step in pairwise(path)] if path is not None else [None]
        return None if None in hops else sum(each for each in hops if each is not None)

    def broker_paths(self) -> Iterator[int | None]:
        for one in self.brokers:
            topology = self.nodes[one].brokers.topology
            for other in self.brokers:
                if other != one:
                    yield self.length(topology.path(other))

    def client_paths(self) -> Iterator[int | None]:
        for producer in self.producers:
            for consumer in self.consumers:
                yield self.client_path(producer, consumer)

    def client_path(self, producer: str, consumer: str) -> int | None:
        """As an event would go now: home broker, post, home broker, consumer."""
        home, last = self.clients[producer].home, self.clients[consumer].home
        if home is None or last is None:
            return None
        entry = self.nodes[home].brokers.directory.entries.get(f"{consumer}/all")
        if entry is None:
            return None
        inwards = self.nodes[home].brokers.topology.path(entry.place)
        onwards = self.nodes[entry.place].brokers.topology.path(last)
        if inwards is None or onwards is None:
            return None
        return self.length((producer, *inwards, *onwards[1:], consumer))

    def at_nearest(self) -> Iterator[bool]:
        """For each consumer that can reach its home broker, whether no other broker is nearer."""
        for consumer in self.consumers:
            home = self.clients[consumer].home
            far = None if home is None else self.network(consumer, home)
            if far is not None:
                others = [self.network(consumer, broker) for broker in self.brokers]
                yield far <= min(each for each in others if each is not None)

    def best_paths(self) -> Iterator[int | None]:
        """As if every broker had found its neighbours just now, all knew, and every client were at the nearest."""
        topology = Topology("", len(self.brokers) + 1)
        for broker in self.brokers:
            found = self._nearest(broker, self.overlay.neighbours)
            topology.learn(Row(broker, 1, tuple((other, self.network(broker, other) or 0) for other in found)))
        homes = {client: self._nearest(client, 1) for client in self.clients}
        for producer in self.producers:
            paths = topology.paths_from(homes[producer][0]) if homes[producer] else {}
            for consumer in self.consumers:
                path = paths.get(homes[consumer][0]) if homes[consumer] else None
                yield None if path is None else self.length((producer, *path, consumer))

    def _nearest(self, host: str, count: int) -> list[str]:
        """The nearest brokers, of those equally near anyone."""
        far = {broker: self.network(host, broker) for broker in self.brokers if broker != host}
        reached = [(hops, self._rng.random(), broker) for broker, hops in far.items() if hops is not None]
        return [broker for _, _, broker in sorted(reached)[:count]]


def mean(values: Iterator[int | None] | list[int | None]) -> float:
    known = [each for each in values if each is not None]
    return fmean(known) if known else float("nan")


class BrokerFigures(Struct, frozen=True):
    """Figures 7 to 9: hops by sample and on average, kbit/s a broker."""

    network: float
    overlay: float
    timeline: tuple[tuple[float, float, float], ...]
    """Seconds since the start, the network's hops, the overlay's."""
    overhead_kbps: float
    overhead_first_hop_kbps: float
    """The same, a row on its way over several hops counted once."""
    overhead_encoded_kbps: float


def measure_brokers(
    seed: int, update_period_s: float | None, setting: Setting = PAPER, brokers: int = 40
) -> BrokerFigures:
    """None: the static approach."""
    given = OverlayParams(topology="given")
    params = given if update_period_s is None else OverlayParams(update_period_s=update_period_s)
    arena = Arena(seed, setting, params, brokers)
    arena.until(SETTLES_S)
    before = (arena.world.items_by_hop, arena.world.items, arena.world.rows_bytes)
    timeline = []
    for now_s in arena.samples():
        pairs = [(one, other) for one in arena.brokers for other in arena.brokers if one != other]
        network = mean([arena.network(*pair) for pair in pairs])
        timeline.append((now_s - SETTLES_S, network, mean(arena.broker_paths())))
    counted = (arena.world.items_by_hop, arena.world.items, arena.world.rows_bytes)
    rates = [
        (after - earlier) * size * 8 / 1_000 / setting.seconds / brokers
        for after, earlier, size in zip(counted, before, (ITEM_BYTES, ITEM_BYTES, 1), strict=True)
    ]
    return BrokerFigures(
        fmean(each[1] for each in timeline), fmean(each[2] for each in timeline), tuple(timeline), *rates
    )


Approach: TypeAlias = Literal["static", "home broker only", "both", "best"]
APPROACHES: tuple[Approach, ...] = ("static", "home broker only", "both", "best")


class ClientFigures(Struct, frozen=True):
    """Figures 10 to 12: hops between producers and consumers on average, and by sample."""

    length: float
    timeline: tuple[tuple[float, float], ...]
    relocations: int
    rows_kbps: float = 0.0
    """What brokers send for the topology, every hop counted, kbit/s a broker; and the same for relocations."""
    relocation_kbps: float = 0.0


def measure_clients(
    seed: int,
    approach: Approach,
    discovery_period_s: float = 10.0,
    setting: Setting = PAPER,
    brokers: int = 20,
    producers: int = 10,
    consumers: int = 60,
    light: bool = False,
) -> ClientFigures:
    params = OverlayParams(
        light_moves=light,
        topology="adaptive" if approach == "both" else "given",
        home="given" if approach in ("static", "best") else "adaptive",
        discovery_period_s=discovery_period_s,
        update_period_s=20.0,
    )
    arena = Arena(seed, setting, params, brokers, producers, consumers)
    arena.begin()
    arena.until(SETTLES_S)
    before = (arena.world.rows_bytes, arena.world.relocation_bytes)
    timeline = []
    for now_s in arena.samples():
        lengths = list(arena.best_paths() if approach == "best" else arena.client_paths())
        timeline.append((now_s - SETTLES_S, mean(lengths)))
    moves = sum(session.moves for node in arena.nodes.values() for session in node.clients.sessions.values())
    counted = (arena.world.rows_bytes, arena.world.relocation_bytes)
    rates = [
        (after - earlier) * 8 / 1_000 / setting.seconds / brokers
        for after, earlier in zip(counted, before, strict=True)
    ]
    return ClientFigures(fmean(each[1] for each in timeline), tuple(timeline), moves, *rates)


EMULATION = Setting(20, (750.0, 500.0), (1.0, 20.0), 30.0, 250.0, 300.0)


class LoadFigures(Struct, frozen=True):
    """Figures 13 and 14: shares of a broker's capacity, and hops."""

    average: float
    highest: float
    """The highest load that any broker had in a period."""
    overloaded: float
    """The share of brokers and periods above the threshold."""
    length: float
    nearest: float
    """The share of consumers and times whose home broker no other is nearer than."""


def measure_load(
    seed: int, load: float, balance: bool = True, static: bool = False, setting: Setting = EMULATION
) -> LoadFigures:
    """Section 4.2: 5 brokers, 5 producers and 10 consumers on 20 hosts (there 15, of which 5 share a host with a
    broker). Every producer publishes twice a second, and an event costs as much as makes the wanted average load. A
    broker is overloaded when it cannot keep up."""
    rate_hz, brokers, producers, consumers = 2.0, 5, 5, 10
    params = OverlayParams(
        topology="given" if static else "adaptive",
        home="given" if static else "adaptive",
        update_period_s=5.0,
        discovery_period_s=1.0,
        balance=balance,
        load_max=1.0,
        event_cost_ms=load * brokers / (rate_hz * producers * consumers) * 1_000,
    )
    arena = Arena(seed, setting, params, brokers, producers, consumers)
    arena.begin()
    loads: list[float] = []
    lengths: list[int | None] = []
    nearest: list[bool] = []
    now_s = SETTLES_S
    while now_s < SETTLES_S + setting.seconds:
        arena.until(now_s)
        for producer in arena.producers:
            arena.publish(producer)
        now_s += 1 / rate_hz
        if now_s > SETTLES_S + 10 and (now_s - SETTLES_S) % params.load_period_s < 1 / rate_hz:
            loads += [node.monitor.used for node in arena.nodes.values()]
            lengths += arena.client_paths()
            nearest += arena.at_nearest()
    over = fmean(each > params.load_max for each in loads)
    return LoadFigures(fmean(loads), max(loads), over, mean(lengths), fmean(nearest))
