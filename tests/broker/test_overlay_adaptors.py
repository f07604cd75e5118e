"""Components, system channel and adaptors: what a broker decides, and that a new decision is one class (O3, O6)."""

from random import Random

import pytest

from roamcast.broker.messages import Attach, Pub
from roamcast.broker.modulators.spec import Declarative, Every, spec_to_text
from roamcast.broker.overlay.channel import (
    LoadMeasured,
    NearestBroker,
    SystemChannel,
    SystemEvent,
    UpdateDue,
)
from roamcast.broker.overlay.messages import Address, Ask, Produces, Routed, Row, Rows
from roamcast.broker.overlay.modelled import ModelledBroker
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.overlay.posts import Post
from roamcast.broker.overlay.search import Found
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US
from roamcast.node.boundary import Does, Note, TimerFired
from tests.broker.test_overlay_posts import event_of


class Bench:
    """Broker H, with neighbours N (1 hop) and F (3 hops), and consumer C at home here; producers are at N."""

    def __init__(self, params: OverlayParams | None = None, modulator: str = "") -> None:
        self.broker = ModelledBroker("H", params or OverlayParams(), Random(1))
        self.broker._hear(0, Rows((Row("N", 1, (("H", 1), ("F", 2))), Row("F", 1, (("H", 3),)))), "N", 1)
        subscription = Subscription("C/s", "C", "x", 0, FOREVER_US, modulator=modulator)
        self.broker._hear(0, Attach(1, 0, "first", (subscription,)), "C", 4)
        self.broker.brokers.directory.produces(Produces("P", "N", 1))

    def offer(self, broker: str, hops: int, load: float = 0.0, home_hops: int = 4) -> str | None:
        """Where the client's home goes after this candidate was found."""
        self.broker.channel.publish(0, NearestBroker("C", Found(broker, hops, load), home_hops))
        move = self.broker.relocation.departing.moves.get("C")
        return None if move is None else move.to

    def reason(self) -> str:
        return self.broker.relocation.departing.moves["C"].why

    def loaded(self, load: float) -> "Bench":
        self.broker.clients.posts["C/s"].load = load
        return self

    def others(self, load: float) -> "Bench":
        """Somebody else's modulator here."""
        clients = self.broker.clients
        subscription = Subscription("D/s", "D", "x", 0, FOREVER_US)
        clients.posts["D/s"] = Post(subscription, 1, "H", clients.space, clients.params)
        clients.posts["D/s"].load = load
        return self


def test_o3_of_two_brokers_with_room_the_one_on_the_shorter_path_becomes_the_home() -> None:
    bench = Bench()
    assert bench.offer("N", hops=4) == "N"
    assert bench.reason() == "nearer"


def test_o3_a_nearer_broker_on_a_longer_path_does_not() -> None:
    assert Bench().offer("F", hops=3, home_hops=4) is None


def test_o3_of_two_paths_that_are_equal_the_home_stays() -> None:
    assert Bench().offer("N", hops=5) is None


def test_o3_a_candidate_that_is_overloaded_is_not_chosen_however_near() -> None:
    assert Bench().offer("N", hops=1, load=0.9) is None
    assert Bench(OverlayParams(balance=False)).offer("N", hops=1, load=0.9) == "N"


def test_o3_a_home_that_is_overloaded_is_left_for_one_that_is_not_however_far() -> None:
    bench = Bench(OverlayParams(load_max=0.5)).loaded(0.4).others(0.4)
    assert bench.offer("F", hops=9) == "F"
    assert bench.reason() == "overload"


def test_o3_nobody_moves_who_would_only_take_the_overload_along() -> None:
    assert Bench(OverlayParams(load_max=0.5)).loaded(0.6).offer("F", hops=9) is None


@pytest.mark.parametrize(("candidate", "home"), [(0.95, None), (0.6, "F")])
def test_o3_of_two_overloaded_brokers_the_lighter_one_is_chosen(candidate: float, home: str | None) -> None:
    bench = Bench(OverlayParams(load_max=0.5)).loaded(0.1).others(0.9)
    assert bench.offer("F", hops=9, load=candidate) == home


def test_o3_a_client_that_only_publishes_goes_to_the_nearer_broker() -> None:
    bench = Bench()
    bench.broker._hear(0, Attach(1, 0, "first"), "Q", 3)
    bench.broker.channel.publish(0, NearestBroker("Q", Found("F", 2, 0.0), 3))
    assert bench.broker.relocation.departing.moves["Q"].to == "F"


def test_o6_a_home_that_is_given_has_no_adaptor_that_moves_it() -> None:
    assert Bench(OverlayParams(home="given")).offer("N", hops=1) is None


def test_o6_load_is_measured_by_what_modulators_worked_on_and_told_on_the_channel() -> None:
    bench = Bench(OverlayParams(event_cost_ms=100, load_period_s=5))
    heard = Hearing()
    bench.broker.channel.register(heard)
    bench.broker._hear(0, Attach(1, 0, "first"), "P", 1)
    for serial in range(1, 11):
        bench.broker._hear(0, Pub(serial, event_of("P", serial)), "P", 1)
    bench.broker.handle(5_000_000, TimerFired("load"))
    assert heard.events == [LoadMeasured(0.2, (("C/s", 0.2),))]
    assert bench.broker.monitor.load == bench.broker.monitor.used == 0.2
    bench.broker.handle(10_000_000, TimerFired("load"))
    assert bench.broker.monitor.load == 0


def test_o6_an_overloaded_broker_sends_its_heaviest_modulator_upstream_and_keeps_the_client() -> None:
    bench = Bench(OverlayParams(offload=True, load_max=0.5)).loaded(0.4)
    bench.broker.channel.publish(0, LoadMeasured(0.6, (("C/s", 0.4), ("other", 0.2))))
    assert bench.broker.relocation.departing.moves["C"].ask == Ask(
        "C", 1, (("C/s", bench.broker.clients.posts["C/s"].made),), False
    )
    assert bench.broker.relocation.departing.moves["C"].to == "N"
    assert bench.reason() == "offload"


def test_o6_a_broker_that_is_loaded_without_any_modulator_has_none_to_send_away() -> None:
    bench = Bench(OverlayParams(offload=True, load_max=0.5))
    bench.broker.channel.publish(0, LoadMeasured(0.9, ()))
    assert bench.broker.relocation.departing.moves == {}


def test_o6_a_client_brings_its_own_load_as_well() -> None:
    bench = Bench(OverlayParams(load_max=0.5))
    bench.broker.clients.sessions["C"].load = 0.3
    assert bench.offer("N", hops=1, load=0.3) is None


def test_o6_a_modulator_goes_only_where_there_is_room() -> None:
    bench = Bench(OverlayParams(offload=True, load_max=0.5)).loaded(0.4)
    bench.broker.brokers.note_loads((Found("N", 1, 0.3),))
    bench.broker.channel.publish(0, LoadMeasured(0.6, (("C/s", 0.4),)))
    assert bench.broker.relocation.departing.moves["C"].to == "F"
    full = Bench(OverlayParams(offload=True, load_max=0.5)).loaded(0.4)
    full.broker.brokers.note_loads((Found("N", 1, 0.3), Found("F", 1, 0.2)))
    full.broker.channel.publish(0, LoadMeasured(0.6, (("C/s", 0.4),)))
    assert full.broker.relocation.departing.moves == {}


@pytest.mark.parametrize(("keeps", "goes"), [(10, "N"), (1, None)])
def test_o9_a_modulator_that_lets_little_out_goes_to_the_producers_and_one_that_lets_all_out_stays(
    keeps: int, goes: str | None
) -> None:
    bench = Bench(OverlayParams(place=True), spec_to_text(Declarative(sampling=Every(keeps))))
    made = bench.broker.clients.posts["C/s"].made
    for period in range(5):
        for serial in range(20 * period + 1, 20 * period + 21):
            routed = Routed(event_of("P", serial), serial, (Address("C/s", 0, 1, made=made),))
            bench.broker._hear_broker(0, routed, "N")
        bench.broker.channel.publish((period + 1) * 5_000_000, LoadMeasured(0.0, ()))
    move = bench.broker.relocation.departing.moves.get("C")
    assert (None if move is None else move.to) == goes


class Hearing:
    """An adaptor of a test's own: adding one touches nothing else."""

    interests: tuple[type[SystemEvent], ...] = (LoadMeasured,)

    def __init__(self) -> None:
        self.events: list[SystemEvent] = []

    def process(self, now_us: int, event: SystemEvent) -> list[Does]:
        self.events.append(event)
        return [Note("heard")]


def test_o6_an_adaptor_hears_what_it_asked_for_and_nothing_else() -> None:
    channel, hearing = SystemChannel(), Hearing()
    channel.register(hearing)
    assert channel.publish(0, UpdateDue()) == []
    assert channel.publish(0, LoadMeasured(0.1, ())) == [Note("heard")]
    assert hearing.events == [LoadMeasured(0.1, ())]
