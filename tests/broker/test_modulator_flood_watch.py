"""Flood watch on brokers that reshape themselves: the modulator goes where it saves traffic (O1, O9).

Weather - A - B - C - rescuer, on a line, each in reach of the next alone.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from roamcast.broker.modulators.spec import ModulatorSpec, spec_to_text
from roamcast.broker.overlay.broker import OverlayBroker
from roamcast.broker.overlay.client import OverlayClient
from roamcast.broker.overlay.messages import MESSAGES
from roamcast.broker.overlay.modelled import ModelledBroker
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US, Point, Value
from roamcast.movement.legs import Track, resting_forever
from roamcast.node.boundary import Node, Publish, Subscribe
from roamcast.node.codec import Codec
from roamcast.node.kit import Seat
from roamcast.papers.chaos_overlay import QUICK
from roamcast.papers.chaos_record import Ledger
from roamcast.sim.hosts import Resident
from roamcast.sim.radio import UnitDiskParams
from roamcast.sim.underlay import UnderlayParams
from roamcast.sim.world import World
from tests.broker.test_modulator_page import FLOOD

LINE = ("weather", "A", "B", "C", "rescuer")
HOURS = 24


class Told(Ledger):
    def __init__(self) -> None:
        super().__init__()
        self.content: list[dict[str, Value]] = []

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        super().delivered(now_us, host, event, subscription_id)
        self.content.append(event.attributes)


class Valley:
    def __init__(self, place: bool) -> None:
        self.params = replace(QUICK, place=place)
        self.told = Told()
        self.brokers: dict[str, OverlayBroker] = {}
        hosts = [
            Resident(name, Track(iter([resting_forever(0, Point(100.0 * index, 0))])), self.node)
            for index, name in enumerate(LINE)
        ]
        self.world = World(
            hosts,
            Codec(MESSAGES),
            1,
            radio=UnitDiskParams(150.0),
            observers=(self.told,),
            round_trip=True,
            underlay=UnderlayParams(step_ms=20),
        )

    def node(self, seat: Seat) -> Node:
        if seat.host in ("weather", "rescuer"):
            return OverlayClient(seat.host, self.params, seat.rng)
        self.brokers[seat.host] = ModelledBroker(seat.host, self.params, seat.rng)
        return self.brokers[seat.host]

    def storm(self, spec: ModulatorSpec) -> str:
        """Where the modulator is in the end."""
        self.wait_s(15)
        wish = Subscription("s", "rescuer", "weather/rain", self.now_us, FOREVER_US, modulator=spec_to_text(spec))
        self.world.give("rescuer", Subscribe(wish))
        self.wait_s(15)
        for hour in range(HOURS):
            content = {"rain": FLOOD.storm(hour)}
            rain = Event(f"w{hour}", "weather/rain", Context("weather"), self.now_us, FOREVER_US, content)
            self.world.give("weather", Publish(rain))
            self.wait_s(1)
        self.wait_s(10)
        (at,) = [name for name, broker in self.brokers.items() if broker.clients.posts]
        return at

    @property
    def now_us(self) -> int:
        return self.world.kernel.now_us

    def wait_s(self, seconds: float) -> None:
        for _ in self.world.run(self.now_us + round(seconds * 1e6)):
            pass


def expected(parameters: dict[str, Value]) -> list[dict[str, Value]]:
    return [event.attributes for event in FLOOD.watch(FLOOD.in_python(parameters), HOURS)[0]]


@pytest.mark.parametrize("kind", [FLOOD.in_python, FLOOD.in_wasm], ids=["registered", "wasm"])
def test_o9_a_modulator_that_reduces_moves_to_the_producers_broker_in_mid_storm(kind: Any) -> None:
    valley = Valley(place=True)
    assert valley.storm(kind(FLOOD.A_TENTH)) == "A"
    assert valley.told.content == expected(FLOOD.A_TENTH)


def test_o9_a_modulator_that_reduces_nothing_stays_at_the_consumers_broker() -> None:
    valley = Valley(place=True)
    assert valley.storm(FLOOD.in_python(FLOOD.EVERYTHING)) == "C"
    assert valley.told.content == expected(FLOOD.EVERYTHING)


def test_o9_without_placement_it_stays_at_the_home_broker() -> None:
    valley = Valley(place=False)
    assert valley.storm(FLOOD.in_python(FLOOD.A_TENTH)) == "C"
    assert valley.told.content == expected(FLOOD.A_TENTH)
