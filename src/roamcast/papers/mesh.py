"""The experiments of the mesh paper (M9; section V): what it costs to get an event to a client that is on its way.

A run is one trip: a client begins in the middle of a square of (2k+1)² cells, chooses a destination anywhere in it,
and goes there; events for it arrive at its serving broker as a Poisson process. Overhead is how often a packet was
sent from broker to broker for its events, probes included, divided by the number of events; delay is the time from
publication to delivery. Both are means of the means of runs.

All is real here: brokers and clients as everywhere else, in the simulator, over links with delays. Many clients make
their trips in one world, each for itself, since they have nothing to do with each other. Somebody in the middle wants
every event, so that the clients' own wishes are covered and need not go to hundreds of brokers each time.
"""

import math
from collections.abc import Iterator
from random import Random
from statistics import fmean, stdev
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from roamcast.broker.broker import Broker
from roamcast.broker.mesh.client import MeshClient
from roamcast.broker.mesh.grid import Grid
from roamcast.broker.mesh.params import MeshParams
from roamcast.broker.mesh.prediction import Status
from roamcast.broker.messages import MESSAGES, Forwarded, Polled, Routed, Sequenced
from roamcast.broker.params import BrokerParams
from roamcast.model.event import Event
from roamcast.model.movement import MovementModel
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point
from roamcast.movement.legs import Leg, Track, moving, resting, resting_forever
from roamcast.node.boundary import Message, Node, Publish, Subscribe
from roamcast.node.codec import Codec
from roamcast.node.kit import Seat
from roamcast.node.observer import Observer
from roamcast.sim.hosts import Body, Resident
from roamcast.sim.links import LinkParams
from roamcast.sim.world import World

MeshKind = Literal["predictive", "probing", "batch"]
BEGINS_US = 3_000_000
"""Until then brokers and clients get to know each other."""
SETTLES_US = 15_000_000
HOP_DELAY_MS = 5.0
RUNS_A_WORLD = 500
CELL_M = 250.0
EVEN_STEPS = (0.7548776662466927, 0.5698402909980532)
"""1/p and 1/p² for p³ = p + 1: the additive sequence in two dimensions that leaves the smallest gaps."""


USUAL = (0.8, 0.45)
"""Where most go, of the way from the middle to the border, east and north."""


class Setting(Struct, frozen=True):
    kind: MeshKind
    k: int = 10
    speed_mps: float = 9.0
    interval_s: float = 4.0
    """The λ of the paper: the mean time between two events."""
    runs: int = 500
    seed: int = 1
    cell_m: float = CELL_M
    probe_s: float = 10.0
    noise_m: float = 0.0
    """By how much the destination that a client tells is wrong, east and north: a standard deviation (M10)."""
    detour_m: float = 0.0
    """How far from the straight way it is halfway, and tells nobody (M10)."""
    tells: Literal["destination", "velocity", "nothing"] = "destination"
    """What clients tell of their trips."""
    astray: float = 1.0
    """The share of trips that go anywhere, as in the paper; the others go where most do (M10)."""

    def mesh(self) -> MeshParams:
        side = 2 * self.k + 1
        return MeshParams(
            columns=side, rows=side, cell_m=self.cell_m, hop_delay_ms=HOP_DELAY_MS, probe_s=self.probe_s
        )


class Run(Struct):
    """What one trip has cost."""

    events: int = 0
    packets: int = 0
    delivered: int = 0
    delay_us: int = 0

    @property
    def overhead(self) -> float:
        return self.packets / self.events

    @property
    def delay_s(self) -> float:
        return self.delay_us / self.delivered / 1e6


class Measured(Struct, frozen=True):
    overhead: float
    overhead_error: float
    """The standard error of the mean, as if destinations were drawn one by one: in truth it is less."""
    delay_s: float
    runs: int
    events: int
    missing: int
    """Events that never arrived, or twice: none."""


class Trips(Observer):
    """Who got what, and when."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.published_us: dict[str, int] = {}

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        run = self.runs.get(host)
        if run is not None:
            run.delivered += 1
            run.delay_us += now_us - self.published_us[event.id]


class MeshWorld(World):
    """Counts packets for each client as they go from broker to broker."""

    def count_for(self, trips: Trips) -> None:
        self.trips = trips

    def _transmitted(self, body: Body, message: Message, size_bytes: int, to: str | None) -> None:
        match message:
            case Sequenced(_, Routed(_, Forwarded() | Polled() as cargo)):
                self.trips.runs[cargo.client].packets += 1


class Mistaken(MeshClient):
    """Tells a destination near the one it goes to, or none."""

    def __init__(self, seat: Seat, params: BrokerParams, setting: Setting, goes_to: Point | None) -> None:
        super().__init__(seat.host, params, seat.space, seat.graph)
        self.goes_to = goes_to
        self.tells = setting.tells
        self.error_m = seat.rng.gauss(0, setting.noise_m), seat.rng.gauss(0, setting.noise_m)

    def _status(self, now_us: int) -> Status | None:
        status = super()._status(now_us)
        if status is None or status.destination is None or status.speed_mps == 0:
            return status
        match self.tells:
            case "destination":
                return replace(
                    status, destination=self.space.moved(self.goes_to or status.destination, *self.error_m)
                )
            case "velocity":
                return replace(status, destination=None)
            case "nothing":
                return replace(status, destination=None, velocity=None)


class Walk:
    """One client's way through the cells, as links that come and go when it crosses a border."""

    def __init__(self, world: World, grid: Grid, client: str, legs: list[Leg]) -> None:
        self.world = world
        self.grid = grid
        self.client = client
        self.at: str | None = None
        for leg in legs:
            before = 0.0
            for cell, share in grid.passed(leg.start, leg.destination):
                due_us = leg.start_us + round((leg.end_us - leg.start_us) * before)
                world.kernel.at(due_us if due_us > BEGINS_US else 0, self.enter, grid.broker(cell))
                before = share

    def enter(self, broker: str) -> None:
        if broker == self.at:
            return
        links = self.world.links
        if self.at is not None:
            links.cut(self.client, self.at)
        if (self.client, broker) not in links.between:
            links.add(LinkParams(self.client, broker))
            links.between[(self.client, broker)].cuts = 1
        links.heal(self.client, broker)
        self.at = broker


def run_world(setting: Setting, first: int, count: int, movement: MovementModel | None = None) -> list[Run]:
    """Trips number `first` and the following, each a pure function of the seed and its number."""
    params = BrokerParams(handover=setting.kind, mesh=setting.mesh(), counterpart_events_max=100_000)
    grid = Grid(params.mesh, Plane())
    middle = grid.centre(grid.root)
    ways = {f"C{number}": trip_legs(setting, number, middle) for number in range(first, first + count)}

    def make_node(seat: Seat) -> Node:
        if grid.cell_of(seat.host) is not None:
            return Broker(seat.host, params, seat.rng.getrandbits(32), movement=movement)
        way = ways.get(seat.host)
        return Mistaken(seat, params, setting, way[-1].destination if way else None)

    def resident(host: str, legs_of: list[Leg]) -> Resident:
        return Resident(host, Track(legs_of), make_node)

    residents = [resident(name, [resting_forever(0, middle)]) for name in [*grid.brokers(), "source", "watcher"]]
    for client, way in ways.items():
        rest = resting_forever(way[-1].end_us, way[-1].destination)
        residents.append(resident(client, [resting(0, middle, BEGINS_US), *way, rest]))
    trips = Trips()
    world = MeshWorld(
        residents, Codec(MESSAGES), setting.seed, links=list(mesh_links(grid)), observers=(trips,), packet_bytes=100
    )
    world.count_for(trips)
    for host in ("source", "watcher"):
        world.links.add(LinkParams(host, grid.broker(grid.root)))
    want(world, "watcher", "trip/#", 100_000)
    for client, way in ways.items():
        trips.runs[client] = Run()
        Walk(world, grid, client, way)
        want(world, client, f"trip/{client}", 1_000_000)
        for number, due_us in enumerate(arrivals(setting, client, way[-1].end_us)):
            world.kernel.at(due_us, publish, world, trips, client, number)
    for _ in world.run(max(way[-1].end_us for way in ways.values()) + SETTLES_US, step_us=60_000_000):
        pass
    return list(trips.runs.values())


def trip_leg(setting: Setting, number: int, middle: Point) -> Leg:
    """Destinations fill the square evenly, from a start that the seed draws: a few hundred of such a sequence are as
    good as many thousands drawn one by one."""
    rng = Random(f"{setting.seed}/trips")
    east, north = (2 * ((rng.random() + number * step) % 1.0) - 1 for step in EVEN_STEPS)
    if Random(f"{setting.seed}/astray/{number}").random() >= setting.astray:
        east, north = USUAL
    reach_m = (setting.k + 0.5) * setting.cell_m
    to = Point(middle.x + reach_m * east, middle.y + reach_m * north)
    return moving(BEGINS_US, middle, to, setting.speed_mps)


def trip_legs(setting: Setting, number: int, middle: Point) -> list[Leg]:
    """The trip, by a place beside the straight way where there is a detour: to the left or to the right of it."""
    straight = trip_leg(setting, number, middle)
    if not setting.detour_m:
        return [straight]
    east_m, north_m = straight.destination.x - middle.x, straight.destination.y - middle.y
    aside = setting.detour_m / math.hypot(east_m, north_m) * (1 if number % 2 else -1)
    within_m = (setting.k + 0.5) * setting.cell_m - 1.0
    x_m = min(max(east_m / 2 - aside * north_m, -within_m), within_m)
    y_m = min(max(north_m / 2 + aside * east_m, -within_m), within_m)
    halfway = Point(middle.x + x_m, middle.y + y_m)
    there = moving(BEGINS_US, middle, halfway, setting.speed_mps)
    return [there, moving(there.end_us, halfway, straight.destination, setting.speed_mps)]


def arrivals(setting: Setting, client: str, end_us: int) -> Iterator[int]:
    """When events for this client are published: a Poisson process over its trip."""
    rng = Random(f"{setting.seed}/arrivals/{setting.interval_s}/{client}")
    now_us = BEGINS_US + round(rng.expovariate(1 / setting.interval_s) * 1e6)
    while now_us < end_us:
        yield now_us
        now_us += round(rng.expovariate(1 / setting.interval_s) * 1e6)


def mesh_links(grid: Grid) -> Iterator[LinkParams]:
    for row in range(grid.rows):
        for column in range(grid.columns):
            for other in grid.neighbours((column, row)):
                if (row, column) < (other[1], other[0]):
                    yield LinkParams(grid.broker((column, row)), grid.broker(other), HOP_DELAY_MS)


def want(world: World, client: str, subject: str, at_us: int) -> None:
    subscription = Subscription(f"{client}/s", client, subject, at_us, FOREVER_US)
    world.kernel.at(at_us, world.give, client, Subscribe(subscription))


def publish(world: World, trips: Trips, client: str, number: int) -> None:
    now_us = world.kernel.now_us
    context = world.context_of("source")
    if context is not None:
        event = Event(f"{client}:{number}", f"trip/{client}", context, now_us, FOREVER_US)
        trips.published_us[event.id] = now_us
        trips.runs[client].events += 1
        world.give("source", Publish(event))


def measure(setting: Setting, movement: MovementModel | None = None) -> Measured:
    """All runs of a setting; by the model, where clients tell no destination. Trips without an event say nothing of
    events, and are left out."""
    runs: list[Run] = []
    for first in range(0, setting.runs, RUNS_A_WORLD):
        runs += run_world(setting, first, min(RUNS_A_WORLD, setting.runs - first), movement)
    told = [run for run in runs if run.events]
    overheads = [run.overhead for run in told]
    return Measured(
        overhead=fmean(overheads),
        overhead_error=stdev(overheads) / math.sqrt(len(overheads)) if len(overheads) > 1 else math.inf,
        delay_s=fmean(run.delay_s for run in told if run.delivered),
        runs=len(told),
        events=sum(run.events for run in told),
        missing=sum(abs(run.events - run.delivered) for run in told),
    )


def closed_form(k: int) -> float:
    """Equation (6): the expected overhead of predictive forwarding."""
    return (2 * k + 1) / 6
