"""The example of Rebeca, section 5: four places, and a client at the end of a line of brokers."""

from collections.abc import Iterator, Sequence

from roamcast.experiments.chaos import TrialParams
from roamcast.experiments.chaos_logical import LogicalTrial
from roamcast.model.filter.tree import OneOf
from roamcast.model.places import MovementGraph, movement_graph
from roamcast.protocols.broker.logical.params import LogicalParams
from roamcast.protocols.broker.params import BrokerParams
from roamcast.protocols.broker.routing import Strategy
from roamcast.sim.links import LinkParams
from roamcast.sim.observers import SilentObserver

PLACES = {"a": "bc", "d": "bc"}


class Spoken(SilentObserver):
    """How often each kind of message went over each link."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}

    def transmitted(
        self, now_us: int, host: str, message_type: str, size_bytes: int, to: str | None, event_id: str | None
    ) -> None:
        self.count[f"{message_type} {host}-{to}"] = self.count.get(f"{message_type} {host}-{to}", 0) + 1

    def of(self, message_type: str) -> list[str]:
        return [
            each.split(" ")[1] for each, times in self.count.items() for _ in range(times) if message_type in each
        ]


class Example(LogicalTrial):
    """C0 - B0 - B1 - …: a word over the links and back takes `delays_ms`, in this order. C1 is at the last broker."""

    def __init__(
        self,
        delays_ms: Sequence[float],
        logical: LogicalParams,
        strategy: Strategy = "covering",
        places: dict[str, str] | None = None,
    ) -> None:
        self.delays_ms = delays_ms
        self.edges = places or PLACES
        super().__init__(1, BrokerParams(routing=strategy, logical=logical), TrialParams(len(delays_ms), 2))
        self.spoken = Spoken()
        self.world.observers = (*self.world.observers, self.spoken)

    def _graph(self) -> MovementGraph:
        return movement_graph(self.edges)

    def _tree(self) -> Sequence[tuple[str, str]]:
        return list(zip(self.brokers, self.brokers[1:], strict=False))

    def _links(self) -> Iterator[LinkParams]:
        for (one, other), delay_ms in zip(self.tree, self.delays_ms[1:], strict=True):
            yield LinkParams(one, other, delay_ms / 2)
        for client in self.clients:
            for broker in self.brokers:
                yield LinkParams(client, broker, self.delays_ms[0] / 2 if client == "C0" else 1)

    def begin(self, place: str, filter_text: str = "place IN myloc(0)") -> str:
        """C0 is at the place and subscribed, and everybody knows."""
        self.pass_s(3)
        self.stand("C0", place)
        self.stand("C1", place)
        self.move("C0", self.brokers[0])
        self.move("C1", self.brokers[-1])
        subscription = self.subscribe("C0", filter_text)
        self.pass_s(3)
        return subscription

    def sets(self) -> list[str]:
        """F0, F1, …: the places that the client accepts, and those that each broker lets pass, as they are held."""
        accepted = [
            place
            for place in self.places
            if self.accepts_at(self.subscriptions["C0/s0"], self._event_at(place), self.stays["C0"][-1].place)
        ]
        return ["".join(accepted), *(self._held(broker) for broker in self.brokers)]

    def _event_at(self, place: str):  # type: ignore[no-untyped-def]
        self.publish("C1", {"place": place})
        return self.published.pop()

    def _held(self, broker: str) -> str:
        held = [each for source in self.nodes[broker].logical.following.held.values() for each in source.values()]
        assert len(held) == 1
        root = held[0].wish.filter.root
        assert isinstance(root, OneOf)
        return "".join(str(value) for value in root.values)
