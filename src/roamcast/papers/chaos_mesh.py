"""Trials of handovers in a mesh (M7, M10): clients that walk over a grid and say where they go, often wrongly.

As in `chaos.py` a trial is made from its seed alone, and afterwards every subscription must have got every event it
accepts, once, each publisher's in order, and nobody may remember anything. Here brokers are the cells of a grid.
Clients walk in straight lines from cell to cell, at speeds that leave them a moment or some seconds in each; turn off
to somewhere else half-way, with or without a word; are out of reach for a moment; vanish and come back elsewhere;
hang on two brokers; publish and subscribe on the way. What they tell of their trips is true, or has noise, or is
about another place, or comes late, or is nothing at all; and links of the mesh go down and up.
"""

from collections.abc import Sequence
from random import Random
from typing import Literal

from msgspec.structs import replace

from roamcast.broker.broker import Broker
from roamcast.broker.mesh.client import MeshClient
from roamcast.broker.mesh.grid import Grid
from roamcast.broker.mesh.params import MeshParams
from roamcast.broker.params import BrokerParams
from roamcast.model.context import Context
from roamcast.model.movement import VERSION, Habits, MovementModel, cell_name
from roamcast.model.space import Cell, Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point, Velocity
from roamcast.node.boundary import Moved, Node
from roamcast.node.kit import Seat
from roamcast.papers.chaos import PAUSES_S, Trial, TrialParams

MeshKind = Literal["predictive", "probing", "batch"]
MOMENTS_S = (*PAUSES_S, 1.0)
KINDS: tuple[MeshKind, ...] = ("predictive", "probing", "batch")
SPEEDS_MPS = (40.0, 80.0, 300.0, 2_500.0)
"""Cells of 250 m are crossed in six seconds, in three, in one, in a tenth."""
USUAL_MESH = TrialParams(brokers=20, clients=6, actions=150)
COLUMNS = 5
HEARD_US = 100_000
"""Longer than a word takes to a broker and back."""
SPREADS_US = 3_000_000
"""Longer than a wish takes to all brokers, links that are down included."""


def trial_params(kind: MeshKind, rows: int = 4, columns: int = COLUMNS) -> BrokerParams:
    mesh = MeshParams(columns=columns, rows=rows, report_s=4.0, arrival_wait_s=0.3, probe_s=2.0)
    return BrokerParams(handover=kind, mesh=mesh)


class MeshTrial(Trial):
    def __init__(
        self, seed: int, broker: BrokerParams, params: TrialParams = USUAL_MESH, habits: bool = True
    ) -> None:
        """`habits`: brokers have a movement model, which is as wrong as it can be."""
        self.grid = Grid(broker.mesh, Plane())
        self.movement = wrong_model(self.grid, seed) if habits else None
        self.walks: dict[str, int] = {}
        self.acts = False
        self.calms = 0
        self.places: dict[str, Point] = {}
        self.moves: dict[str, int] = {}
        self.asked_us: dict[str, int] = {}
        super().__init__(seed, broker, replace(params, brokers=broker.mesh.columns * broker.mesh.rows))

    def _names(self, count: int) -> list[str]:
        return self.grid.brokers()

    def _node(self, seat: Seat) -> Node:
        if seat.host not in self.brokers:
            return self.make_client(seat)
        life = seat.rng.getrandbits(32)
        self.nodes[seat.host] = Broker(seat.host, self.broker_params, life, movement=self.movement)
        return self.nodes[seat.host]

    def _client(self, seat: Seat) -> Node:
        return MeshClient(seat.host, self.broker_params, seat.space, seat.graph)

    def _tree(self) -> Sequence[tuple[str, str]]:
        """All links of the mesh: which of them are a tree is the brokers' own business."""
        return [
            (self.grid.broker((column, row)), self.grid.broker(other))
            for row in range(self.grid.rows)
            for column in range(self.grid.columns)
            for other in self.grid.neighbours((column, row))
            if (row, column) < (other[1], other[0])
        ]

    # What happens.

    def _act(self, count: int) -> None:
        self.acts = True
        for _ in range(count):
            client = self.rng.choice(self.clients if self.rng.random() < 0.3 else self.clients[2:])
            draw = self.rng.random()
            if draw < 0.62:
                # Who publishes on its way reports, so most of it is left to a few.
                self.publish(self.rng.choice(self.clients[:2]) if self.rng.random() < 0.9 else client)
            elif draw < 0.72:
                self.walk(client)
            elif draw < 0.84:
                self.blink(self.rng.choice(self.clients[2:]))
            elif draw < 0.86:
                self.tell(client)
            elif draw < 0.88:
                self.appear(client)
            elif draw < 0.90:
                self.hang_on_two(client, self.rng.choice(self.brokers))
            elif draw < 0.92:
                self.vanish(client)
            elif draw < 0.96 and self.params.cuts:
                self.cut(self.rng.choice(self.tree))
            elif draw < 0.97:
                self.subscribe(client)
            elif draw < 0.99:
                self.subscribe_at_border(client)
            else:
                self.unsubscribe(client)
            self._disturb()
            self.pass_s(self.rng.choice(MOMENTS_S))

    def calm(self) -> None:
        """Everybody stands still and says so, some of them before they have a link."""
        self.calms += 1
        for client in self.clients:
            here = self.somewhere()
            if self.rng.random() < 0.5:
                self._say(client, rest_at(client, here))
            self.appear(client, here)
            self._say(client, rest_at(client, here))
            self.pass_s(self.rng.choice(PAUSES_S))
        self.settle()

    # When a subscription must have been heard: soon after its client has had a link for a moment.

    def _subscribe(self, subscription: Subscription) -> None:
        super()._subscribe(subscription)
        if self.acts:
            self.required_from_us[subscription.id] = FOREVER_US
            self.asked_us[subscription.id] = self.world.kernel.now_us
            self._listen(subscription.subscriber)

    def move(self, client: str, broker: str | None) -> None:
        self.moves[client] = self.moves.get(client, 0) + 1
        super().move(client, broker)

    def hang_on_two(self, client: str, broker: str) -> None:
        super().hang_on_two(client, broker)
        self._listen(client)

    def _listen(self, client: str) -> None:
        since_us = self.world.kernel.now_us
        self.world.kernel.at(since_us + HEARD_US, self._heard, client, self.moves.get(client, 0), since_us)

    def _heard(self, client: str, move: int, since_us: int) -> None:
        """Its link has stood since then, if it has not moved; whoever has two has said it over one of them."""
        if self.moves.get(client, 0) != move or not self.at[client]:
            return
        for name in self._of(client):
            if self.required_from_us[name] == FOREVER_US and self.asked_us[name] <= since_us:
                self.required_from_us[name] = self.world.kernel.now_us + SPREADS_US

    def somewhere(self) -> Point:
        width_m, height_m = self.grid.columns * self.grid.cell_m, self.grid.rows * self.grid.cell_m
        return Point(self.rng.uniform(0, width_m), self.rng.uniform(0, height_m))

    def appear(self, client: str, here: Point | None = None) -> None:
        """Suddenly somewhere else, without a word."""
        self.walks[client] = self.walks.get(client, 0) + 1
        self.places[client] = here = here or self.somewhere()
        self.move(client, self.grid.broker(self.grid.cell_at(here)))

    def subscribe_at_border(self, client: str) -> None:
        """In another cell before the word has arrived."""
        self.subscribe(client)
        self.pass_s(0.000_5)
        self.appear(client)

    def vanish(self, client: str) -> None:
        self.walks[client] = self.walks.get(client, 0) + 1
        self.move(client, None)

    def blink(self, client: str) -> None:
        """Out of reach for a moment, and then again where it would be."""
        self.move(client, None)
        back_us = self.world.kernel.now_us + round(self.rng.choice((0.002, 0.1, 0.8, 2.0)) * 1e6)
        self.world.kernel.at(back_us, self._back, client, self.walks.get(client, 0))

    def _back(self, client: str, walk: int) -> None:
        if self.walks.get(client, 0) == walk and not self.at[client]:
            here = self.places.setdefault(client, self.somewhere())
            self.move(client, self.grid.broker(self.grid.cell_at(here)))

    def walk(self, client: str) -> None:
        """From wherever the client is, in a straight line; whatever it walked before, it does not any more."""
        if not self.at[client]:
            self.appear(client)
        walk = self.walks[client] = self.walks.get(client, 0) + 1
        start, end = self.places.get(client, self.somewhere()), self.somewhere()
        speed_mps = self.rng.choice(SPEEDS_MPS)
        self.tell(client, end, speed_mps)
        travel_s = self.grid.space.distance_m(start, end) / speed_mps
        begun_us, before = self.world.kernel.now_us, 0.0
        for cell, share in self.grid.passed(start, end):
            due_us = begun_us + round(travel_s * before * 1e6)
            self.world.kernel.at(due_us, self._step, client, walk, cell)
            before = share
        if self.rng.random() < 0.8:
            self.world.kernel.at(begun_us + round(travel_s * 1e6), self._stop, client, walk, end)

    def _step(self, client: str, walk: int, cell: Cell) -> None:
        broker = self.grid.broker(cell)
        if self.walks[client] == walk:
            self.places[client] = self.grid.centre(cell)
            if self.at[client] != [broker]:
                self.move(client, broker)

    def _stop(self, client: str, walk: int, end: Point) -> None:
        if self.walks[client] == walk:
            self._say(client, rest_at(client, end))

    def tell(self, client: str, end: Point | None = None, speed_mps: float = 60.0) -> None:
        """What the client says of its trip: the truth, or noise, or another place, or no destination, or nothing."""
        here = self.places.setdefault(client, self.somewhere())
        end = end or self.somewhere()
        draw = self.rng.random()
        if draw < 0.1:
            return
        if draw < 0.2:
            end = self.somewhere()
        elif draw < 0.35:
            end = Point(end.x + self.rng.gauss(0, 200), end.y + self.rng.gauss(0, 200))
            speed_mps *= self.rng.uniform(0.3, 3)
        context = trip(client, here, end, speed_mps)
        if 0.35 <= draw < 0.45:
            context = replace(context, destination=None, velocity=self.rng.choice((None, context.velocity)))
        if self.rng.random() < 0.2:
            late_us = self.world.kernel.now_us + round(self.rng.uniform(0.01, 2) * 1e6)
            self.world.kernel.at(late_us, self._say_late, client, context, self.calms)
        else:
            self._say(client, context)

    def _say_late(self, client: str, context: Context, calms: int) -> None:
        """Who has come to rest since does not say that it moves: batch forwarding would wait for the end of that."""
        if self.calms == calms:
            self._say(client, context)

    def _say(self, client: str, context: Context) -> None:
        self.world.give(client, Moved(replace(context, at_us=self.world.kernel.now_us)))


def trip(client: str, here: Point, end: Point, speed_mps: float) -> Context:
    length_m = Plane().distance_m(here, end) or 1.0
    velocity = Velocity((end.x - here.x) / length_m * speed_mps, (end.y - here.y) / length_m * speed_mps)
    return Context(client, here, velocity=velocity, destination=end)


def rest_at(client: str, here: Point) -> Context:
    return Context(client, here, velocity=Velocity(0, 0), destination=here, pause_left_us=10**9)


def wrong_model(grid: Grid, seed: int) -> MovementModel:
    """Steps that nobody takes: each cell leads to one anywhere else."""
    rng = Random(f"habits/{seed}")
    names = [cell_name((column, row)) for row in range(grid.rows) for column in range(grid.columns)]
    places = {
        name: Habits(rng.uniform(0.05, 2), {other: 1} if (other := rng.choice(names)) != name else {})
        for name in names
    }
    return MovementModel(VERSION, places, grid.cell_m)


def try_mesh_seed(seed: int, kind: MeshKind, params: TrialParams = USUAL_MESH) -> None:
    """One trial from beginning to end; raises `Failure`. Even seeds without a movement model."""
    trial = MeshTrial(seed, trial_params(kind), params, habits=seed % 2 == 1)
    trial.run()
    trial.check()
    trial.leave()
