"""The attribute list honoured at delivery: validity, deadline, order and priority (S14)."""

from hypothesis import given
from hypothesis import strategies as st

from roamcast.adhoc.proximity.ordering import Arrival, Order
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.model.context import Context
from roamcast.model.event import Delivery, Event
from roamcast.model.values import Point
from roamcast.node.boundary import Broadcast
from roamcast.sim.faults import FaultParams, Pause
from roamcast.sim.radio import SharedMediumParams
from tests.adhoc.field import Field
from tests.effort import examples
from tests.sim.worlds import Said, SmallWorld

CHAIN: dict[str, tuple[float, float]] = {"p": (0, 0), "a": (150, 0), "b": (300, 0), "c": (450, 0)}


def arrival(number: int) -> Arrival:
    return Arrival(Event(f"e{number}", "s", Context("p", Point(0, 0)), 0, 0), Delivery(), 0)


def names(released: list[Arrival] | None) -> list[str] | None:
    return None if released is None else [each.event.id for each in released]


def test_an_event_past_its_deadline_is_dropped_and_noted() -> None:
    """S14: the consumer is frozen while the event arrives."""
    faults = FaultParams(pause=(Pause("c", 1.9, 2.5),))
    field = Field({"p": (0, 0), "c": (10, 0), "prompt": (20, 0)}, faults=faults)
    for host in ("c", "prompt"):
        field.subscribe(host)
    field.announce("p", 40, delivery=Delivery(deadline_us=300_000))
    field.run(2)
    late = field.raise_("p", lifetime_s=10)
    field.run(3)
    prompt = field.raise_("p", lifetime_s=10)
    field.run(4)
    assert field.got("c") == [prompt.id]
    assert field.got("prompt") == [late.id, prompt.id]
    assert field.witness.notes["deadline_missed"] >= 1


def test_validity_ends_an_event_before_it_expires() -> None:
    """S14."""
    faults = FaultParams(pause=(Pause("c", 1.9, 2.5),))
    field = Field({"p": (0, 0), "c": (10, 0)}, faults=faults)
    field.subscribe("c")
    field.announce("p", 40, delivery=Delivery(validity_us=300_000))
    field.run(2)
    field.raise_("p", lifetime_s=10)
    field.run(4)
    assert field.got("c") == []
    assert field.witness.notes["event_expired"] == 1


def test_ordered_events_are_delivered_in_the_order_of_the_sender_under_loss_and_reordering() -> None:
    """S14."""
    faults = FaultParams(loss=0.2, reorder=0.5, reorder_by_ms=300, duplicate=0.2, quiet_after_s=14)
    field = Field({**CHAIN}, faults=faults)
    for host in "abc":
        field.subscribe(host)
    field.announce("p", 500, delivery=Delivery(order="sender"))
    raised = []
    for tenth in range(40, 140):
        field.run(tenth / 10)
        raised.append(field.raise_("p", lifetime_s=60).id)
    field.run(30)
    for host in "abc":
        got = field.got(host)
        assert got == [each for each in raised if each in got]
        assert len(got) >= 80


def test_without_order_reordered_events_come_as_they_come() -> None:
    """S14: the test above would see it."""
    faults = FaultParams(reorder=0.5, reorder_by_ms=300)
    field = Field({"p": (0, 0), "c": (10, 0)}, faults=faults)
    field.subscribe("c")
    field.announce("p", 40)
    raised = []
    for tenth in range(20, 60):
        field.run(tenth / 10)
        raised.append(field.raise_("p", lifetime_s=60).id)
    field.run(8)
    assert field.got("c") != raised
    assert sorted(field.got("c")) == sorted(raised)


def test_a_gap_that_is_not_filled_is_given_up_after_a_while() -> None:
    """S14: the event was lost for good, what follows is not held for ever."""
    order = Order(1, held_max=10)
    assert names(order.take(0, 2, arrival(2))) == []
    assert names(order.take(5, 3, arrival(3))) == []
    assert order.since_us == 0
    assert names(order.give_up(100)) == ["e2", "e3"]
    assert order.take(101, 1, arrival(1)) is None


def test_the_buffer_is_bounded() -> None:
    """S14: the gap in front is given up when too much waits behind it."""
    order = Order(1, held_max=3)
    for number in (2, 4, 6):
        assert names(order.take(0, number, arrival(number))) == []
    assert names(order.take(0, 7, arrival(7))) == ["e2"]
    assert len(order.held) == 3


@given(st.permutations(range(1, 9)))
@examples(100)
def test_whatever_the_order_of_arrival_all_are_delivered_in_sequence(arrived: list[int]) -> None:
    """S14."""
    order = Order(1, held_max=10)
    released: list[str] = []
    for number in arrived:
        released += names(order.take(0, number, arrival(number))) or []
    assert released == [f"e{number}" for number in range(1, 9)]


def test_held_events_are_judged_again_when_their_turn_comes() -> None:
    """S5 and S14: a deadline that passes in the buffer counts."""
    params = ProximityParams(order_wait_ms=1_000.0, recovery_asks_max=0)
    faults = FaultParams(loss=1.0, quiet_after_s=2.2)
    field = Field({"p": (0, 0), "c": (10, 0)}, params, faults=faults)
    field.subscribe("c")
    delivery = Delivery(order="sender", deadline_us=500_000)
    field.announce("p", 40, delivery=delivery)
    field.run(4.0)
    # The consumer joined late; numbers 1 and 2 are behind it, 3 is lost on the air, 4 waits for it in vain.
    for _ in range(2):
        field.raise_("p")
    field.run(6.0)
    got = len(field.got("c"))
    field.world.datagram_faults.quiet_from_us = 6_500_000
    field.world.datagram_faults.harmless = False
    field.raise_("p", lifetime_s=60)
    field.run(6.6)
    field.raise_("p", lifetime_s=60)
    field.run(9.0)
    assert len(field.got("c")) == got
    assert field.witness.notes["order_gap_given_up"] == 1
    assert field.witness.notes["deadline_missed"] == 1


def test_the_radio_sends_higher_priority_first_and_equal_ones_in_order() -> None:
    """S14."""
    small = SmallWorld({"a": (0, 0), "b": (50, 0)}, SharedMediumParams(range_m=200))
    for text, priority in (("first", 0), ("low", 0), ("high", 5), ("low too", 0), ("high too", 5), ("middle", 3)):
        small.does(1, "a", Broadcast(Said(text), priority=priority))
    small.run(2)
    assert small["b"].heard() == ["high", "high too", "middle", "first", "low", "low too"]


def test_a_full_queue_keeps_what_is_urgent() -> None:
    """S14: the least urgent frame is dropped."""
    small = SmallWorld({"a": (0, 0), "b": (50, 0)}, SharedMediumParams(range_m=200, queue_frames_max=2))
    for text, priority in (("low", 0), ("lower", -1), ("high", 5)):
        small.does(1, "a", Broadcast(Said(text), priority=priority))
    small.run(2)
    assert small["b"].heard() == ["high", "low"]


def test_an_urgent_event_overtakes_others_on_the_shared_medium() -> None:
    """S14: raised last, delivered first."""
    field = Field({"p": (0, 0), "c": (10, 0)}, radio=SharedMediumParams(range_m=200))
    for subject, priority in (("calm", 0), ("urgent", 9)):
        field.subscribe("c", subject)
        field.announce("p", 40, subject, delivery=Delivery(priority=priority))
    field.run(2.0)
    calm = [field.raise_("p", "calm").id for _ in range(5)]
    urgent = field.raise_("p", "urgent").id
    field.run(3)
    assert field.got("c") == [urgent, *calm]


def test_within_one_step_the_urgent_is_delivered_first() -> None:
    """S14: a subscription finds two lasting events of the same host."""
    field = Field({"p": (0, 0)})
    field.announce("p", 40, "calm")
    field.announce("p", 40, "urgent", delivery=Delivery(priority=9))
    calm, urgent = field.raise_("p", "calm", lifetime_s=60).id, field.raise_("p", "urgent", lifetime_s=60).id
    field.subscribe("p", "#")
    assert field.got("p") == [urgent, calm]
