"""L3, L8 under every preset: clients roam, brokers are killed, links cut, and nothing that was promised is lost."""

import json

import pytest

from roamcast.broker.logical.params import AheadParams
from roamcast.broker.params import BrokerParams
from roamcast.model.places import movement_graph
from roamcast.mqtt.packets import Disconnect
from tests.broker.mqtt.test_protocol_mesh import KINDS, Kind, mesh_edges, mesh_params
from tests.broker.mqtt.test_roaming_trials import Trial
from tests.effort import seeds

NEXT = {"a": ("b", "d"), "b": ("c",), "c": ("a", "b", "d"), "d": ("a",)}
PRESETS = {
    "advertisements": BrokerParams(advertisements=True),
    "ahead": BrokerParams(ahead=AheadParams(next_brokers=NEXT)),
    "both": BrokerParams(advertisements=True, routing="merging", ahead=AheadParams(next_brokers=NEXT)),
}


@pytest.mark.parametrize("faults", ["", "roam", "roam cut", "roam cut kill"])
@pytest.mark.parametrize("preset", PRESETS)
@seeds(5, quick=1)
def test_complete_in_order_and_once_l3_l8_r1_r7(seed: int, preset: str, faults: str) -> None:
    trial = Trial(seed, frozenset(faults.split()), PRESETS[preset])
    trial.run()
    trial.check()


class MeshTrial(Trial):
    """Clients that say of themselves where they are and go, right or wrong."""

    def _trouble(self) -> None:
        client = self.rng.choice(self.clients())
        if client.ready and self.rng.random() < 0.5:
            x, y, east, north = (self.rng.uniform(0, 200) for _ in range(4))
            report = {"position": [x, y], "velocity": [east, north] if self.rng.random() < 0.5 else [0, 0]}
            client.publish("$roam/me", json.dumps(report).encode(), self.rng.choice((0, 1)))
        if client.ready and self.rng.random() < 0.2:
            said = ("next", self.rng.choice(self.names))
            client._say(Disconnect(user_properties=(said,)))
            client.drop()
        super()._trouble()


@pytest.mark.parametrize("faults", ["", "roam", "roam cut", "roam cut kill"])
@pytest.mark.parametrize("kind", KINDS)
@seeds(5, quick=1)
def test_complete_in_order_and_once_in_a_mesh_l3_l8_m7(seed: int, kind: Kind, faults: str) -> None:
    params = mesh_params(kind, 2, 2, probe_s=0.2, report_s=1.0, arrival_wait_s=2.0)
    trial = MeshTrial(seed, frozenset(faults.split()), params, mesh_edges(params))
    trial.run()
    trial.stage.run(3.0)
    trial.check()


PLACES = "abcdefghijklmno"
RING = movement_graph({place: PLACES[(index + 1) % len(PLACES)] for index, place in enumerate(PLACES)})


class WalkingTrial(Trial):
    """Subscribers walk among three places next to each other, which is as far as brokers look with short delays; they
    want what is said of the place where they are."""

    def __init__(self, seed: int, faults: frozenset[str], params: BrokerParams) -> None:
        super().__init__(seed, faults, params, graph=RING)
        self.due: dict[str, list[bytes]] = {each.name: [] for each in self.subscribers}

    def run(self) -> None:
        super().run()
        for subscriber in self.subscribers:
            subscriber.subscribe("w", 2, filter="place IN myloc(0)")
        for phase in range(4):
            at = {subscriber.name: self.rng.choice("abc") for subscriber in self.subscribers}
            for subscriber in self.subscribers:
                report = {"position": [phase, 0], "attributes": {"place": at[subscriber.name]}}
                subscriber.publish("$roam/me", json.dumps(report).encode(), 2)
            self._settle()
            for number in range(12):
                self._say(f"{phase} {number}", at)
                self._trouble()
                self.stage.run(self.rng.choice((0.001, 0.01, 0.1)))
            self.stage.heal()
            self._settle()
            self.stage.run(3.0)
            self._settle()

    def _say(self, text: str, at: dict[str, str]) -> None:
        publisher, place = self.publishers[0], self.rng.choice("abcde")
        payload = json.dumps({"place": place, "text": text}).encode()
        publisher.publish("w", payload, 2)
        for name, stands in at.items():
            self.due[name] += [payload] if stands == place else []

    def check(self) -> None:
        for subscriber in self.subscribers:
            taken = [each for each in subscriber.taken if each.startswith(b"{")]
            assert taken == self.due[subscriber.name], f"seed {self.seed}: {subscriber.name}"
            subscriber.taken = [each for each in subscriber.taken if each not in taken]
        super().check()


@pytest.mark.parametrize("faults", ["", "roam", "roam cut", "roam cut kill"])
@pytest.mark.parametrize("preset", ["", *PRESETS])
@seeds(5, quick=1)
def test_complete_in_order_and_once_for_who_walks_l3_l8_r4_r5(seed: int, preset: str, faults: str) -> None:
    trial = WalkingTrial(seed, frozenset(faults.split()), PRESETS.get(preset, BrokerParams()))
    trial.run()
    trial.check()


@pytest.mark.parametrize(("seed", "preset", "faults"), [(19, "ahead", "roam"), (72, "both", "roam cut kill")])
def test_rule_24_a_client_that_goes_on_before_its_session_has_come_keeps_all_of_it(
    seed: int, preset: str, faults: str
) -> None:
    """What it had been sent and had said reached the broker that it had left already."""
    trial = Trial(seed, frozenset(faults.split()), PRESETS[preset])
    trial.run()
    trial.check()


def test_rule_33_a_delivery_that_was_over_before_an_earlier_one_does_not_come_again_at_the_next_broker() -> None:
    """Of QoS 2, completed while one of QoS 1 before it was not acknowledged."""
    params = mesh_params("batch", 2, 2, probe_s=0.2, report_s=1.0, arrival_wait_s=2.0)
    trial = MeshTrial(13, frozenset(("roam", "cut")), params, mesh_edges(params))
    trial.run()
    trial.stage.run(3.0)
    trial.check()
