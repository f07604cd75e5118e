"""A mesh of brokers with a few clients that stand where they are put, for tests that tell one story each."""

from roamcast.broker.mesh.client import MeshClient
from roamcast.broker.mesh.handover import MeshHandover
from roamcast.broker.mesh.params import MeshParams
from roamcast.broker.params import BrokerParams
from roamcast.model.context import Context
from roamcast.model.movement import MovementModel
from roamcast.model.space import Cell
from roamcast.model.values import Point
from roamcast.node.boundary import Moved
from roamcast.papers.chaos import TrialParams
from roamcast.papers.chaos_mesh import MeshKind, MeshTrial, rest_at, trip
from roamcast.sim.links import LinkParams
from roamcast.sim.observers import Tally


class Mesh(MeshTrial):
    """Links between brokers take 5 ms. C0 is the publisher, in the first cell; the others want everything."""

    def __init__(
        self,
        kind: MeshKind = "predictive",
        columns: int = 7,
        rows: int = 3,
        clients: int = 2,
        mesh: MeshParams | None = None,
        movement: MovementModel | None = None,
    ) -> None:
        mesh = mesh or MeshParams(columns=columns, rows=rows)
        params = BrokerParams(handover=kind, mesh=mesh)
        super().__init__(1, params, TrialParams(clients=clients), habits=False)
        self.movement = movement
        self.tally = Tally()
        self.world.observers += (self.tally,)
        for body in self.world.bodies:
            body.host.observers = self.world.observers
        if movement is not None:
            for node in self.nodes.values():
                node.handover.movement = movement  # type: ignore[attr-defined]

    def _links(self) -> list[LinkParams]:  # type: ignore[override]
        between = [LinkParams(one, other, 5.0) for one, other in self.tree]
        return between + [LinkParams(client, name, 1.0) for client in self.clients for name in self.brokers]

    def settle(self, start: Cell = (0, 0)) -> None:
        """Everybody rests in the first cell, or `start`, and the others have subscribed."""
        self.pass_s(0.5)
        self.rest("C0", (0, 0))
        for client in self.clients[1:]:
            self.rest(client, start)
            self.pass_s(0.5)
            self.subscribe(client, "TRUE")
        self.pass_s(2)

    def rest(self, client: str, cell: Cell) -> None:
        here = self.grid.centre(cell)
        self._say(client, rest_at(client, here))
        self.enter(client, cell)

    def enter(self, client: str, cell: Cell) -> None:
        self.places[client] = self.grid.centre(cell)
        if self.at[client] != [self.grid.broker(cell)]:
            self.move(client, self.grid.broker(cell))

    def leaves_for(self, client: str, goal: Cell, speed_mps: float = 25.0) -> None:
        """Says where it is going, and its broker hears it; whoever calls moves it."""
        self._say(client, trip(client, self.places[client], self.grid.centre(goal), speed_mps))
        self.pass_s(0.01)

    def goes(self, client: str, goal: Cell, speed_mps: float = 25.0, events: int = 1) -> float:
        """Goes there in a straight line, having said so, while events come; answers how long it took."""
        start, end = self.places[client], self.grid.centre(goal)
        self.leaves_for(client, goal, speed_mps)
        travel_s = self.grid.space.distance_m(start, end) / speed_mps
        before = 0.0
        for cell, share in self.grid.passed(start, end):
            self.enter(client, cell)
            for _ in range(events):
                self.pass_s(travel_s * (share - before) / (events + 1))
                self.publish("C0")
            self.pass_s(travel_s * (share - before) / (events + 1))
            before = share
        return travel_s

    def tells(self, client: str, context: Context) -> None:
        self.world.give(client, Moved(context))

    def got(self, client: str) -> list[str]:
        return [each for name, ids in self.ledger.got.items() if name.startswith(f"{client}/") for each in ids]

    def has_all(self, client: str) -> bool:
        return self.got(client) == [event.id for event in self.published]

    def serving(self, client: str) -> list[Cell]:
        """The cells whose brokers have a session for the client."""
        found = [name for name, node in self.nodes.items() if client in node.border.sessions]
        return [cell for name in found if (cell := self.grid.cell_of(name)) is not None]

    def client(self, name: str) -> MeshClient:
        node = self.world.by_name[name].host.node
        assert isinstance(node, MeshClient)
        return node

    def handover(self, cell: Cell) -> MeshHandover:
        handover = self.nodes[self.grid.broker(cell)].handover
        assert isinstance(handover, MeshHandover)
        return handover

    def sent(self, kind: str) -> int:
        return self.tally.messages[kind]

    def point(self, cell: Cell) -> Point:
        return self.grid.centre(cell)
