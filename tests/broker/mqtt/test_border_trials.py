"""M7, L3: MQTT clients that subscribe just before the border of a cell, and are without a link between two cells.

What is said some time after the SUBACK arrives, wherever the client has gone meanwhile: on to a third cell before the
second has answered, or back.
"""

from functools import partial

import pytest

from tests.broker.mqtt.stage import SimClient
from tests.broker.mqtt.test_preset_trials import MeshTrial
from tests.broker.mqtt.test_protocol_mesh import KINDS, Kind, mesh_edges, mesh_params
from tests.effort import seeds

ROUNDS = 12
SPREADS_US = 1_000_000
"""Longer than a wish takes to all brokers, once all links are up."""
GAPS_S = (0.0, 0.05, 0.5)


class BorderTrial(MeshTrial):
    def __init__(self, seed: int, faults: frozenset[str], kind: Kind) -> None:
        params = mesh_params(kind, 2, 2, probe_s=0.2, report_s=1.0, arrival_wait_s=2.0)
        super().__init__(seed, faults, params, mesh_edges(params))
        self.asked: dict[str, SimClient] = {}
        """By topic, who wants it and has no SUBACK yet."""
        self.confirmed_us: dict[str, tuple[SimClient, int]] = {}
        self.due: dict[str, list[bytes]] = {each.name: [] for each in self.subscribers}

    def run(self) -> None:
        for client in self.clients():
            client.connect(self.rng.choice(self.names))
        self._settle()
        for number in range(ROUNDS):
            self.cross(self.rng.choice(self.subscribers), f"b/{number}")
            for _ in range(self.rng.randrange(4)):
                self._trouble()
                self.say(0)
                self.stage.run(self.rng.choice((0.001, 0.01, 0.1)))
            self.stage.heal()
            whole_us = self.stage.loop.now_us
            self.stage.run(1.2)
            self.say(whole_us)
        self._settle()
        self.stage.run(3.0)
        self._settle()

    def cross(self, client: SimClient, topic: str) -> None:
        """Over one or two borders, with the SUBACK or before it."""
        client.subscribe(topic, 2)
        self.asked[topic] = client
        self.stage.run(self.rng.choice((0.000_5, 0.002, 0.02)))
        self._look()
        before = client.broker or self.names[0]
        for cell in self.rng.choice(((0,), (0, 1), (0, "back"))):
            client.drop(noticed=self.rng.random() < 0.5)
            self.stage.run(self.rng.choice(GAPS_S))
            others = [name for name in self.names if name != before]
            client.connect(before if cell == "back" else self.rng.choice(others))
            self.stage.run(self.rng.choice((0.0, 0.000_5, 0.05)))

    def _look(self) -> None:
        for topic, client in list(self.asked.items()):
            if not any(topic == wish.filter for packet in client.asked.values() for wish in packet.wishes):
                self.confirmed_us[topic] = client, self.stage.loop.now_us
                del self.asked[topic]

    def say(self, whole_us: int) -> None:
        """Something on topics that were confirmed long ago, or, in the middle of trouble, on those of old."""
        self._look()
        for topic, (client, confirmed_us) in self.confirmed_us.items():
            if self.stage.loop.now_us - max(confirmed_us, whole_us) >= SPREADS_US and self.rng.random() < 0.5:
                self.due[client.name].append(f"{topic} {len(self.due[client.name])}".encode())
                self.publishers[0].publish(topic, self.due[client.name][-1], self.rng.choice((1, 2)))

    def check(self) -> None:
        assert self.confirmed_us, f"seed {self.seed}: nothing was tried"
        for subscriber in self.subscribers:
            assert subscriber.taken == self.due[subscriber.name], f"seed {self.seed}: {subscriber.name}"


@pytest.mark.parametrize("faults", ["", "roam", "roam cut kill"])
@pytest.mark.parametrize("kind", KINDS)
@seeds(6, quick=1)
def test_m7_l3_what_is_subscribed_to_before_a_border_comes_once(seed: int, kind: Kind, faults: str) -> None:
    trial = BorderTrial(seed, frozenset(faults.split()), kind)
    trial.run()
    trial.check()


def test_m7_l3_the_trial_notices_a_subscription_that_does_not_cross_the_border() -> None:
    """Here since the client begins anew in each cell."""
    trial = BorderTrial(1, frozenset(), "predictive")
    for client in trial.subscribers:
        client.connect = partial(client.connect, clean=True)  # type: ignore[method-assign]
    trial.run()
    with pytest.raises(AssertionError, match="seed 1: s"):
        trial.check()
