"""The examples of Rebeca as worlds: a client at the end of a line of brokers (section 5), the tree of figure 5, and
the naive solutions of figures 2 and 3 in the place of our brokers and clients.

Experiments measure in them, and tests tell stories in them.
"""

from collections.abc import Iterator, Sequence

from roamcast.broker.logical.params import LogicalParams
from roamcast.broker.params import BrokerParams
from roamcast.broker.resubscribing import (
    MESSAGES,
    ResubscribingBroker,
    ResubscribingClient,
    ResubscribingParams,
)
from roamcast.broker.routing import Strategy
from roamcast.model.event import Event
from roamcast.model.filter.tree import OneOf
from roamcast.model.places import MovementGraph, movement_graph
from roamcast.node.boundary import Node
from roamcast.node.codec import Codec
from roamcast.node.kit import Seat
from roamcast.node.observer import Observer
from roamcast.papers.chaos import Trial, TrialParams
from roamcast.papers.chaos_logical import LogicalTrial
from roamcast.sim.links import LinkParams

PLACES = {"a": "bc", "d": "bc"}
"""Figure 7."""


class Spoken(Observer):
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

    def _event_at(self, place: str) -> Event:
        self.publish("C1", {"place": place})
        return self.published.pop()

    def _held(self, broker: str) -> str:
        held = [each for source in self.nodes[broker].logical.following.held.values() for each in source.values()]
        assert len(held) == 1
        root = held[0].wish.filter.root
        assert isinstance(root, OneOf)
        return "".join(str(value) for value in root.values)

    @property
    def one_way_ms(self) -> float:
        """The paper's t_d: from the client to the producer's broker."""
        return sum(self.delays_ms) / 2

    def blackout_ms(self) -> float:
        """C0 moves to b. How long after that does it get the first event for b that has left the producer's broker
        since? C1 publishes for b every millisecond, and is as far away from its broker: what it publishes now leaves
        there when C0 has moved."""
        subscription = self.begin("a")
        self.publish("C1", {"place": "b"})
        self.pass_s(0.001)
        moved_us = self.world.kernel.now_us
        self.stand("C0", "b")
        for _ in range(round(3 * self.one_way_ms)):
            self.publish("C1", {"place": "b"})
            self.pass_s(0.001)
        first = self.ledger.got[subscription][0]
        return (self.ledger.at_us[subscription, first] - moved_us) / 1_000


class NaiveTrial(Trial):
    """A trial of roaming with the naive solution of figure 2."""

    def __init__(self, seed: int, naive: ResubscribingParams, params: TrialParams) -> None:
        self.naive = naive
        super().__init__(seed, BrokerParams(), params)
        self.world.codec = Codec(MESSAGES)

    def _node(self, seat: Seat) -> Node:
        return naive_node(seat, self.naive, self.brokers)


class NaiveExample(Example):
    """The line with a naive solution of figure 3."""

    def __init__(self, delays_ms: Sequence[float], naive: ResubscribingParams) -> None:
        self.naive = naive
        super().__init__(delays_ms, LogicalParams())
        self.world.codec = Codec(MESSAGES)

    def _node(self, seat: Seat) -> Node:
        return naive_node(seat, self.naive, self.brokers, self.graph)


def naive_node(
    seat: Seat, naive: ResubscribingParams, brokers: Sequence[str], graph: MovementGraph | None = None
) -> Node:
    if seat.host in brokers:
        return ResubscribingBroker(naive, seat.rng.getrandbits(32))
    return ResubscribingClient(seat.host, naive, seat.space, graph)


class Figure5(Trial):
    """C0 at B6, C1 producing at B8; B1 - B2 - B3 - B4 - B5 - B6, and B4 - B7 - B8. Paths old and new meet at B4."""

    TREE = (("B1", "B2"), ("B2", "B3"), ("B3", "B4"), ("B4", "B5"), ("B5", "B6"), ("B4", "B7"), ("B7", "B8"))

    def __init__(self, seed: int, params: BrokerParams, clients: int = 2) -> None:
        super().__init__(seed, params, TrialParams(8, clients))

    def _names(self, count: int) -> list[str]:
        return [f"B{number}" for number in range(1, count + 1)]

    def _tree(self) -> Sequence[tuple[str, str]]:
        return list(self.TREE)
