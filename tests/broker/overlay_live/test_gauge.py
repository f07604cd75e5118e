"""O6: what a live broker measures of itself, and what follows from that."""

from random import Random

import pytest

from roamcast.broker.messages import Attach
from roamcast.broker.overlay.broker import OverlayBroker
from roamcast.broker.overlay.params import OverlayParams
from roamcast.model.event import Event
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US
from roamcast.node.boundary import Measured
from roamcast.server.gauge import ProcessGauge


class Clocks:
    def __init__(self) -> None:
        self.now_s = self.cpu_s = 0.0
        self.gauge = ProcessGauge(lambda: self.now_s, lambda: self.cpu_s, lambda: 1_000)

    def modulator(self, takes_s: float) -> list[Event]:
        self.now_s += takes_s
        return []

    def client(self, takes_s: float, modulated_s: float) -> None:
        self.now_s += takes_s
        self.gauge.modulate("s", lambda: self.modulator(modulated_s))


def test_time_in_a_modulator_counts_for_it_and_not_for_the_client_that_caused_it() -> None:
    clocks = Clocks()
    clocks.gauge.serve("c", lambda: clocks.client(0.25, 0.5))
    clocks.gauge.modulate("s", lambda: clocks.modulator(1.0))
    clocks.now_s = 4.0
    assert clocks.gauge.measured(0) == Measured(4.0, (("s", 1.5),), (("c", 0.25),), 0.0, 0, 1_000)
    clocks.now_s = 5.0
    assert clocks.gauge.measured(0) == Measured(1.0, memory_bytes=1_000), "it begins anew"


def test_the_rest_of_the_processs_cpu_time_is_for_nobody_in_particular() -> None:
    clocks = Clocks()
    clocks.gauge.serve("c", lambda: clocks.client(0.25, 0.0))
    clocks.now_s, clocks.cpu_s = 2.0, 0.75
    assert clocks.gauge.measured(0).others_s == 0.5


def test_a_modulator_that_raises_is_measured_too() -> None:
    clocks = Clocks()

    def fails() -> list[Event]:
        clocks.now_s += 0.5
        raise RuntimeError

    with pytest.raises(RuntimeError):
        clocks.gauge.modulate("s", fails)
    assert clocks.gauge.measured(0).modulators_s == (("s", 0.5),)


def test_the_process_has_memory() -> None:
    assert ProcessGauge().measured(0).memory_bytes > 1_000_000


def broker() -> OverlayBroker:
    made = OverlayBroker("B", OverlayParams(queued_messages_max=100, memory_bytes_max=1_000), Random(1))
    made._hear(0, Attach(1, 0, "first", (Subscription("C/s", "C", "x", 0, FOREVER_US),)), "C", 1)
    return made


def test_load_is_the_share_of_time_for_modulators_clients_and_everything_else() -> None:
    here = broker()
    here.handle(0, Measured(2.0, (("C/s", 0.5),), (("C", 0.25),), 0.25))
    assert (here.clients.posts["C/s"].load, here.clients.sessions["C"].load) == (0.25, 0.125)
    assert here.monitor.load == here.monitor.used == 0.5


def test_what_is_scarcest_counts() -> None:
    here = broker()
    here.handle(0, Measured(2.0, others_s=0.2, queued_messages=90, memory_bytes=500))
    assert here.monitor.load == 0.9
    here.handle(0, Measured(2.0, others_s=0.2, queued_messages=10, memory_bytes=500))
    assert here.monitor.load == 0.5


def test_work_for_a_client_whose_home_is_elsewhere_stays_when_clients_go() -> None:
    here = broker()
    here.handle(0, Measured(1.0, (("D/s", 0.5),), (("D", 0.25),)))
    assert (here.monitor.used, here.monitor.load) == (0.75, 0.25)
