"""L3, L8: clients that go from broker to broker, brokers that are killed, links that are cut: nothing is lost.

Random trials on the stage: QoS 1 and 2 are complete and in the order of their publisher, QoS 2 without a copy.
"""

from random import Random
from typing import TypeAlias

import pytest

from roamcast.broker.params import BrokerParams
from roamcast.model.places import MovementGraph
from roamcast.server.write_ahead import Due
from tests.broker.mqtt.stage import SimClient, Stage
from tests.effort import seeds

MESSAGES = 25
Edges: TypeAlias = tuple[tuple[str, str], ...]
TREE: Edges = (("a", "b"), ("b", "c"), ("b", "d"))


class Trial:
    publishers_count = 2

    def __init__(
        self,
        seed: int,
        faults: frozenset[str],
        params: BrokerParams | None = None,
        edges: Edges = TREE,
        graph: MovementGraph | None = None,
    ) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.faults = faults
        self.edges = edges
        # Small states: every few batches one takes a snapshot by itself.
        self.stage = Stage(seed, edges, params, graph=graph, due=Due(2_000) if seed % 2 else None)
        self.names = tuple(self.stage.brokers)
        self.subscribers = [SimClient(self.stage, f"s{number}") for number in range(3)]
        self.publishers = [SimClient(self.stage, f"p{number}") for number in range(self.publishers_count)]
        self.said: dict[str, list[bytes]] = {each.name: [] for each in self.publishers}

    def clients(self) -> list[SimClient]:
        return [*self.subscribers, *self.publishers]

    def run(self) -> None:
        for client in self.clients():
            client.connect(self.rng.choice(self.names))
        self._settle()
        for number, subscriber in enumerate(self.subscribers):
            subscriber.subscribe("t/#" if number else "t/+", 2)
        self._settle()
        self.stage.run(1.0)
        for number in range(MESSAGES):
            for publisher in self.publishers:
                payload = f"{publisher.name} {number}".encode()
                self.said[publisher.name].append(payload)
                publisher.publish("t/x", payload, self.rng.choice((1, 2)))
            self._trouble()
            self.stage.run(self.rng.choice((0.001, 0.01, 0.1)))
        self.stage.heal()
        self._settle()
        self.stage.run(3.0)
        self._settle()

    def _trouble(self) -> None:
        if "roam" in self.faults and self.rng.random() < 0.3:
            self.rng.choice(self.clients()).connect(self.rng.choice(self.names))
        if "cut" in self.faults and self.rng.random() < 0.1:
            self.stage.unlink(*self.rng.choice(self.edges))
        if "kill" in self.faults and self.rng.random() < 0.05:
            broker = self.stage.brokers[self.rng.choice(self.names)]
            if broker.alive:
                broker.kill()
        if self.rng.random() < 0.1:
            self.stage.brokers[self.rng.choice(self.names)].server.write_ahead.snapshot()
        if self.rng.random() < 0.3:
            self.stage.heal()
        if self.rng.random() < 0.5:
            self._reconnect()

    def _reconnect(self) -> None:
        for client in self.clients():
            if client._up is None:
                client.connect(self.rng.choice(self.names))

    def _settle(self) -> None:
        for _ in range(400):
            self.stage.run(0.25)
            if all(client.settled for client in self.clients()):
                return
            for client in self.clients():
                if client._up is None:
                    client.connect(client.broker or self.names[0])
        waiting = [client.name for client in self.clients() if not client.settled]
        raise AssertionError(f"seed {self.seed}: {waiting} did not come to rest")

    def check(self) -> None:
        for subscriber in self.subscribers:
            for publisher, said in self.said.items():
                taken = [each for each in subscriber.taken if each.split()[0].decode() == publisher]
                assert taken == said, f"seed {self.seed}: {subscriber.name} of {publisher}: {taken}"


@pytest.mark.parametrize("faults", ["", "roam", "cut", "kill", "roam cut", "roam kill", "roam cut kill"])
@seeds(12, quick=1)
def test_complete_in_order_and_once_l3_l8(seed: int, faults: str) -> None:
    trial = Trial(seed, frozenset(faults.split()))
    trial.run()
    trial.check()
