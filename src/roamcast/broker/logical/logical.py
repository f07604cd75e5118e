"""Logical mobility in a broker: what it hears about clients that its neighbours follow, and how it measures its links
(R4, R5). How templates are held and passed on is in `following.py`.

Links are measured only where it matters: in a world with a movement graph or with attributes that drift, and unless
the steps are fixed. Each is probed once when the neighbour says hello, so that the first template finds it known, and
from time to time as long as the broker holds any.
"""

from roamcast.broker.logical.following import Following
from roamcast.broker.logical.params import LogicalParams
from roamcast.broker.messages import Echo, Located, Probe, Unlocated
from roamcast.broker.neighbours import NeighbourBrokers
from roamcast.model.places import MovementGraph
from roamcast.node.boundary import Does, Note, Send, SetTimer

PROBE_TIMER = "probe:"


class Logical:
    def __init__(self, neighbours: NeighbourBrokers, params: LogicalParams, graph: MovementGraph | None) -> None:
        self.neighbours = neighbours
        self.params = params
        self.following = Following(params, neighbours.router, graph)

    @property
    def measures(self) -> bool:
        return (self.following.graph is not None and self.params.steps is None) or bool(self.params.drifts)

    def adopt(self, params: LogicalParams, graph: MovementGraph | None) -> None:
        self.params = params
        self.following.adopt(params, graph)

    def hear(self, message: Located | Unlocated, sender: str) -> list[Does]:
        match message:
            case Located(template):
                known = template.id in self.following.held.get(sender, {})
                if not known and self.neighbours.router.full():
                    return [Note("wish_refused", template.id)]
                return self.neighbours.send(self.following.hold(sender, template))
            case Unlocated(template_id):
                return self.neighbours.send(self.following.release(sender, template_id))

    def started(self, now_us: int) -> list[Does]:
        return [self._next_probe(now_us)] if self.measures else []

    def greeted(self, now_us: int, peer: str) -> list[Does]:
        return [Send(peer, Probe(now_us))] if self.measures else []

    def echoed(self, now_us: int, echo: Echo, peer: str) -> list[Does]:
        return self.neighbours.send(self.following.measured(peer, now_us - echo.at_us))

    def fired(self, now_us: int) -> list[Does]:
        streams = self.neighbours.streams.of.values() if len(self.following) else ()
        probes = [Send(stream.peer, Probe(now_us)) for stream in streams if stream.up]
        return [*probes, self._next_probe(now_us)]

    def _next_probe(self, now_us: int) -> SetTimer:
        return SetTimer(PROBE_TIMER, now_us + round(self.params.probe_period_s * 1e6))
