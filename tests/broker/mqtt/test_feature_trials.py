"""L3, L8, O1, C3: modulators, lasting and retained messages where clients roam, brokers die and links are cut."""

import json
from random import Random

import pytest

from roamcast.broker.modulators.spec import Aggregate, ByCount, Declarative, spec_to_text
from tests.broker.mqtt.stage import SimClient, Stage
from tests.effort import seeds

MESSAGES = 40
TREE = (("a", "b"), ("b", "c"), ("b", "d"))
PAIRS = spec_to_text(Declarative(window=ByCount(2), aggregates=(Aggregate("sum", "v"),)))


class Trial:
    def __init__(self, seed: int, faults: frozenset[str]) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.faults = faults
        self.stage = Stage(seed, TREE)
        self.summing, self.lasting = SimClient(self.stage, "summing"), SimClient(self.stage, "lasting")
        self.publisher = SimClient(self.stage, "publisher")
        self.clients = [self.summing, self.lasting, self.publisher]

    def run(self) -> None:
        for client in self.clients:
            client.connect(self.rng.choice("abcd"))
        self._settle()
        self.summing.subscribe("sums", 2, modulator=PAIRS)
        self.lasting.subscribe("lasting", 2)
        self._settle()
        self.stage.run(1.0)
        for number in range(MESSAGES):
            # With QoS 1 a publisher that roams may publish twice, and that would be summed up too.
            self.publisher.publish("sums", json.dumps({"v": number}).encode(), 2)
            self.publisher.publish("kept", b"%d" % number, 1, retain=True)
            if number % 4 == 0:
                self.publisher.publish("lasting", b"%d" % number, 2, False, 10_000, persist="true")
            self._trouble()
            self.stage.run(self.rng.choice((0.001, 0.01, 0.1, 0.6)))
        self.stage.heal()
        self._settle()
        self.stage.run(5.0)
        self._settle()

    def _trouble(self) -> None:
        if "roam" in self.faults and self.rng.random() < 0.3:
            self.rng.choice(self.clients).connect(self.rng.choice("abcd"))
        if "cut" in self.faults and self.rng.random() < 0.1:
            self.stage.unlink(*self.rng.choice(TREE))
        if "kill" in self.faults and self.rng.random() < 0.05:
            broker = self.stage.brokers[self.rng.choice("abcd")]
            if broker.alive:
                broker.kill()
        if self.rng.random() < 0.3:
            self.stage.heal()
        if self.rng.random() < 0.5:
            self._reconnect()

    def _reconnect(self) -> None:
        for client in self.clients:
            if client._up is None:
                client.connect(self.rng.choice("abcd"))

    def _settle(self) -> None:
        for _ in range(400):
            self.stage.run(0.25)
            if all(client.settled for client in self.clients):
                return
            for client in self.clients:
                if client._up is None:
                    client.connect(client.broker or "a")
        raise AssertionError(
            f"seed {self.seed}: {[each.name for each in self.clients if not each.settled]} not at rest"
        )

    def check(self) -> None:
        sums = [json.loads(each)["sum_v"] for each in self.summing.taken]
        assert sums == [2 * number + 1 for number in range(0, MESSAGES, 2)], f"seed {self.seed}: sums"
        lasting = [int(each) for each in self.lasting.taken]
        assert sorted(lasting) == list(range(0, MESSAGES, 4)), f"seed {self.seed}: lasting"
        for broker in self.stage.brokers.values():
            kept = {topic: message.payload for topic, (_, message) in broker.server.core.border.retained.of.items()}
            assert kept == {"kept": b"%d" % (MESSAGES - 1)}, f"seed {self.seed}: retained at {broker.name}"


@pytest.mark.parametrize("faults", ["roam", "kill", "roam cut kill"])
@seeds(6, quick=1)
def test_sums_are_right_what_lasts_comes_once_and_every_broker_retains_the_last_l3_l8(seed: int, faults: str) -> None:
    trial = Trial(seed, frozenset(faults.split()))
    trial.run()
    trial.check()
