"""A consumer is told when its modulator was switched off, or refused, and so is its application (O1, O9)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from roamcast.broker.modulators.limits import Limits
from roamcast.broker.modulators.registry import registered
from roamcast.model.event import Event
from roamcast.model.space import Space
from roamcast.model.values import Value
from roamcast.papers.assemble import kit_of
from roamcast.sim.applications import ApplicationFailed
from roamcast.sim.run import Run
from roamcast.sim.scenario import scenario_from
from tests.broker.test_overlay_relocation import Story

FAILING = "test/failing"
FAILURES = Limits().failures_in_row_max


@registered(FAILING)
class Failing:
    def __init__(self, parameters: Mapping[str, Value], space: Space) -> None: ...

    def take(self, event: Event, now_us: int) -> list[Event]:
        raise ZeroDivisionError

    def state(self) -> bytes:
        return b""

    def load(self, state: bytes) -> None: ...


class Switched(Story):
    """C0 has a second subscription, whose modulator fails on every event."""

    def __init__(self) -> None:
        super().__init__()
        self.subscribe("C0", "TRUE", FAILING)
        self.pass_s(2)

    def switch_off(self) -> None:
        for _ in range(FAILURES):
            self.publish("C1")
            self.pass_s(0.2)

    def place(self) -> str:
        (name,) = [name for name, node in self.nodes.items() if "C0/s1" in node.clients.posts]
        return name


def test_o9_a_client_is_told_once_that_a_modulator_of_its_own_was_switched_off() -> None:
    story = Switched()
    story.switch_off()
    story.publish("C1")
    story.pass_s(2)
    assert story.ledger.notes["modulator_off"] == story.ledger.notes["subscription_off"] == 1
    assert ("C0", "subscription_off") in story.ledger.noted_us
    assert len(story.ledger.got["C0/s0"]) == FAILURES + 2, "the other subscription goes on"


def test_o9_a_client_is_told_wherever_its_modulator_was_and_whoever_its_home_is_by_then() -> None:
    story = Switched()
    node = story.nodes[story.home()]
    now_us, to = story.world.kernel.now_us, story.elsewhere()
    story._perform(node.host, node.relocation.departing.place(now_us, "C0/s1", to))
    story.pass_s(2)
    assert story.place() == to != story.home()
    for _ in range(FAILURES):
        story.publish("C1")
    story.move_home(next(name for name in story.brokers if name not in (to, story.home())))
    story.pass_s(3)
    assert story.ledger.notes["subscription_off"] == 1


def test_o9_a_client_that_missed_the_word_is_told_when_it_attaches_again() -> None:
    story = Switched()
    session = story.nodes[story.home()].clients.sessions["C0"]
    session.attachment.attached = False
    story.switch_off()
    assert "subscription_off" not in story.ledger.notes
    story.move_home(story.elsewhere())
    story.pass_s(3)
    assert story.ledger.notes["subscription_off"] == 1


def test_o9_a_subscription_that_is_changed_is_on_again() -> None:
    story = Switched()
    story.switch_off()
    story.pass_s(2)
    story._again("C0/s1", "price < 100")
    story.pass_s(2)
    story.switch_off()
    story.pass_s(2)
    assert story.ledger.notes["subscription_off"] == 2


APPLICATION = """
from roamcast import Port

class Consumer:
    def start(self, port: Port) -> None:
        port.subscribe("x", print, modulator="nobody knows this one", troubled=port.say)
"""


def run_of(tmp_path: Path, protocol: dict[str, Any], said: list[str]) -> Run:
    (tmp_path / "consumer.py").write_text(APPLICATION)
    still = {"kind": "static", "placement": {"kind": "uniform", "width_m": 100, "height_m": 100}}
    scenario = scenario_from(
        {
            "name": "troubled",
            "seconds": 20,
            "protocol": protocol,
            "radio": {"kind": "unit-disk", "range_m": 250},
            "underlay": {},
            "hosts": [
                {"name": "broker", "mobility": still},
                {"name": "client", "mobility": still, "application": f"{tmp_path / 'consumer.py'}:Consumer"},
            ],
        }
    )
    return Run(scenario, kit_of(protocol, scenario.radio), 1, say=lambda now_us, host, text: said.append(text))


def test_o9_an_application_is_told_that_its_modulator_was_refused(tmp_path: Path) -> None:
    said: list[str] = []
    for _ in run_of(tmp_path, {"kind": "overlay"}, said).steps():
        pass
    assert said == ["subscription_refused"]


def test_o9_a_modulator_is_refused_at_the_call_where_no_broker_runs_any(tmp_path: Path) -> None:
    with pytest.raises(ApplicationFailed, match="only brokers of an overlay run modulators"):
        for _ in run_of(tmp_path, {"kind": "flooding"}, []).steps():
            pass
