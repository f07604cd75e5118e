"""Clients roam through fences, brokers are killed, links are cut: each transition is told once (P-102).

Random trials on the stage. What is to be told is the definition, folded over the positions that each walker reported.
`ROAMCAST_WALKERS=1000 ROAMCAST_MOVES=5` has so many of them walk so often; a twentieth of them roam at each step.
What waits for a subscriber must fit into its queue.
"""

import json
import os

import pytest

from roamcast.model.fence import BEGIN, Fix, advance
from roamcast.model.fence_text import read_fences
from roamcast.model.space import Plane
from roamcast.model.values import Point
from tests.broker.mqtt.stage import SimClient
from tests.broker.mqtt.test_preset_trials import PRESETS
from tests.broker.mqtt.test_protocol_mesh import KINDS, Kind, mesh_edges, mesh_params
from tests.broker.mqtt.test_roaming_trials import Trial
from tests.effort import seeds

MOVES = int(os.environ.get("ROAMCAST_MOVES", "25"))
SIDE_M = 300


def circle(x: float, y: float, radius_m: float, **properties: object) -> dict[str, object]:
    geometry = {"type": "Point", "coordinates": [x, y]}
    said = {"radius_m": radius_m, "on": ["enter", "leave", "cross"], **properties}
    return {"type": "Feature", "geometry": geometry, "properties": said}


FENCES = {
    "small": circle(60, 60, 20, hysteresis_m=0),
    "wide": circle(150, 150, 120, hysteresis_m=0),
    "slow": circle(200, 100, 60, hysteresis_m=40),
}


class FenceTrial(Trial):
    publishers_count = int(os.environ.get("ROAMCAST_WALKERS", "2"))

    def fences(self) -> dict[str, dict[str, object]]:
        return FENCES

    def run(self) -> None:
        self.places: dict[str, list[Point]] = {each.name: [] for each in self.publishers}
        for client in self.clients():
            client.connect(self.rng.choice(self.names))
        self._settle()
        for subscriber in self.subscribers:
            subscriber.subscribe("$roam/fence/#", 2)
        for name, fence in self.fences().items():
            self.publishers[0].publish(f"$roam/fences/{name}", json.dumps(fence).encode(), 1, True)
        self._settle()
        self.stage.run(3.0)
        for _ in range(MOVES):
            for walker in self.publishers:
                self._walk(walker)
            if "roam" in self.faults:
                for walker in self.rng.sample(self.publishers, len(self.publishers) // 20):
                    walker.connect(self.rng.choice(self.names))
            self._trouble()
            self.stage.run(self.rng.choice((0.001, 0.01, 0.1)))
        self.stage.heal()
        self._settle()
        self.stage.run(3.0)
        self._settle()
        self._let_arrive()

    def _let_arrive(self) -> None:
        """Links are slow: of many walkers much is still on its way."""
        taken = -1
        while taken < (now := sum(len(each.taken) for each in self.subscribers)):
            taken = now
            self.stage.run(5.0)

    def _walk(self, walker: SimClient) -> None:
        place = Point(float(self.rng.randrange(SIDE_M)), float(self.rng.randrange(SIDE_M)))
        self.places[walker.name].append(place)
        walker.publish("$roam/me", json.dumps({"position": [place.x, place.y]}).encode(), 2)

    def check(self) -> None:
        expected = {
            (walker, name): told_by_definition(name, places)
            for walker, places in self.places.items()
            for name in FENCES
        }
        assert sum(map(len, expected.values())) > MOVES
        for subscriber in self.subscribers:
            found: dict[tuple[str, str], list[str]] = {key: [] for key in expected}
            for said in map(json.loads, subscriber.taken):
                found[said["host"], said["fence"]].append(said["transition"])
            assert found == expected, f"seed {self.seed}: {subscriber.name}"


def told_by_definition(name: str, places: list[Point]) -> list[str]:
    (fence,) = read_fences(name, json.dumps(FENCES[name]), Plane())
    state, found = BEGIN, list[str]()
    for number, place in enumerate(places):
        state, more = advance(fence, state, Fix(number * 1_000_000, place), Plane())
        found += [each.transition.value for each in more]
    return found


@pytest.mark.parametrize("faults", ["", "roam", "cut", "roam kill", "roam cut kill"])
@seeds(12, quick=1)
def test_each_transition_is_told_once_rule_102(seed: int, faults: str) -> None:
    trial = FenceTrial(seed, frozenset(faults.split()))
    trial.run()
    trial.check()


@pytest.mark.parametrize(
    ("preset", "faults"),
    [(preset, faults) for preset in PRESETS for faults in ("", "cut")] + [("ahead", "roam cut kill")],
)
@seeds(5, quick=1)
def test_each_transition_is_told_once_under_every_preset_rule_102(seed: int, preset: str, faults: str) -> None:
    """With advertisements nobody roams here: that is a known limit (docs/PROTOCOL.md, section "Known limits")."""
    trial = FenceTrial(seed, frozenset(faults.split()), PRESETS[preset])
    trial.run()
    trial.check()


@pytest.mark.parametrize("faults", ["", "roam cut kill"])
@pytest.mark.parametrize("kind", KINDS)
@seeds(5, quick=1)
def test_each_transition_is_told_once_in_a_mesh_rule_102(seed: int, kind: Kind, faults: str) -> None:
    params = mesh_params(kind, 2, 2, probe_s=0.2, report_s=1.0, arrival_wait_s=2.0)
    trial = FenceTrial(seed, frozenset(faults.split()), params, mesh_edges(params))
    trial.run()
    trial.stage.run(3.0)
    trial.check()
