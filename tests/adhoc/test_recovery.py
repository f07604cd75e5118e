"""Recovery after loss and partitions (S11), and the bounds of what is kept for it."""

from hypothesis import given
from hypothesis import strategies as st

from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.adhoc.proximity.recovery import Outbox, Reception
from roamcast.model.context import Context
from roamcast.model.event import Delivery, Event
from roamcast.model.values import Point
from roamcast.movement.legs import FOREVER_US, Leg, moving, resting, resting_forever
from roamcast.sim.faults import FaultParams
from tests.adhoc.field import Field
from tests.effort import examples

NOWHERE = Point(0.0, 0.0)
HERE, THERE = Point(100.0, 0.0), Point(100.0, 300.0)


def event(number: int, at_us: int, lifetime_us: int) -> Event:
    return Event(f"e{number}", "s", Context("p", NOWHERE, at_us), at_us, at_us + lifetime_us)


def strays() -> list[Leg]:
    """In range until 4 s, out of the producer's range but inside its proximity until 10 s, then back for good."""
    out = moving(4_000_000, HERE, THERE, 300.0)
    back = moving(10_000_000, THERE, HERE, 300.0)
    return [
        resting(0, HERE, 4_000_000),
        out,
        resting(out.end_us, THERE, 10_000_000 - out.end_us),
        back,
        resting_forever(back.end_us, HERE),
    ]


def partitioned(lifetime_s: float, params: ProximityParams | None = None) -> tuple[Field, list[str]]:
    """A consumer is cut off for six seconds while the producer raises an event a second."""
    field = Field({"p": (0, 0), "c": strays()}, params)
    field.subscribe("c")
    field.announce("p", 400)
    raised = []
    for second in range(2, 14):
        field.run(second + 0.5)
        raised.append(field.raise_("p", lifetime_s=lifetime_s).id)
    field.run(20)
    return field, raised


def test_a_consumer_that_was_cut_off_recovers_what_it_missed() -> None:
    """S11: it anticipates the partition, and asks at once when it hears the producer again."""
    field, raised = partitioned(lifetime_s=30.0)
    assert sorted(field.got("c")) == sorted(raised)
    assert field.witness.notes["partition_anticipated"] == 1
    assert field.frames("missed") >= 1


def test_instantaneous_events_are_recovered_within_the_window_only() -> None:
    """S11: the persistence level decides."""
    field, raised = partitioned(0.0, ProximityParams(recovery_window_ms=3_500.0))
    missed = [each for each in raised if each not in field.got("c")]
    assert missed == raised[3:5] or missed == raised[2:5] or missed == raised[2:6]
    field, raised = partitioned(0.0, ProximityParams(recovery_window_ms=20_000.0))
    assert sorted(field.got("c")) == sorted(raised)


def test_expired_events_are_not_replayed() -> None:
    """S11."""
    field, raised = partitioned(lifetime_s=1.5)
    assert len(field.got("c")) < len(raised)
    for delivered_us, _, each, _ in field.witness.deliveries:
        assert delivered_us <= each.expires_us


def test_without_recovery_what_was_missed_stays_missed() -> None:
    """S11: and nobody asks."""
    field, raised = partitioned(30.0, ProximityParams(recovery_asks_max=0))
    assert len(field.got("c")) < len(raised)
    assert field.frames("missed") == 0


def test_loss_is_made_good_hop_by_hop() -> None:
    """S11: 30 % of all frames are lost, and after the faults end everything is there, once."""
    faults = FaultParams(loss=0.3, duplicate=0.1, reorder=0.2, quiet_after_s=12)
    field = Field({"p": (0, 0), "a": (150, 0), "b": (300, 0), "c": (450, 0)}, faults=faults)
    for host in "abc":
        field.subscribe(host)
    field.announce("p", 500)
    raised = []
    for second in range(4, 12):
        field.run(second)
        raised.append(field.raise_("p", lifetime_s=60).id)
    field.run(30)
    for host in "abc":
        assert sorted(field.got(host)) == sorted(raised)


def test_an_event_that_never_comes_is_given_up_after_some_asking() -> None:
    """S11: the producer crashed, and its successor does not know of the stream."""
    reception = Reception("a", floor=0, window=8)
    reception.told(3, ())
    for times in (1, 2, 3):
        assert reception.ask(3) == ((1, 2, 3), 0, times == 3)
    assert reception.ask(3) == ((), 3, False)
    assert reception.missing() == []


def test_a_newcomer_is_owed_what_lasts_and_what_comes() -> None:
    """S11: but no instantaneous event of before."""
    reception = Reception("a", floor=10, window=8)
    reception.told(10, (7, 9))
    assert reception.missing() == [7, 9]
    assert not reception.is_owed(8)
    reception.take(12)
    assert reception.missing() == [7, 9, 11]


@given(st.lists(st.integers(1, 60), max_size=80), st.lists(st.integers(1, 60), max_size=5))
@examples(200)
def test_a_reception_never_forgets_within_its_window_and_never_grows(arrived: list[int], told: list[int]) -> None:
    """S11: what is missing is what did not come, and tables are bounded."""
    reception = Reception("a", floor=0, window=16)
    had = set()
    for sequence in arrived:
        assert reception.take(sequence) is (sequence not in had) or sequence <= reception.latest - 16
        had.add(sequence)
    for latest in told:
        reception.told(latest, ())
    latest = max([0, *arrived, *told])
    assert reception.missing() == [n for n in range(max(0, latest - 16) + 1, latest + 1) if n not in had]
    assert len(reception.had) <= 33


def test_an_outbox_keeps_a_bounded_number_and_only_what_is_of_use() -> None:
    """S11."""
    outbox = Outbox("a", "a", events_max=4, window_us=1_000)
    for number in range(10):
        outbox.number(number, event(number, number, 10_000), False, Delivery())
    assert outbox.lasting(10) == (7, 8, 9, 10)
    assert outbox.lasting(20_000) == ()
    assert len(outbox.kept) == 0


def test_what_was_replayed_a_moment_ago_is_not_replayed_again() -> None:
    """S11: many ask at once, one answer reaches them all."""
    outbox = Outbox("a", "a", events_max=4, window_us=1_000_000)
    outbox.number(0, event(1, 0, 0), False, Delivery())
    assert [each.sequence for each in outbox.replay(10, (1, 2), True, 1_000)] == [1]
    assert outbox.replay(20, (1,), True, 1_000) == []
    second = outbox.replay(2_000, (1,), True, 1_000)
    assert [(each.age_us, each.replay) for each in second] == [(2_000, 2)]


def test_the_producer_replays_only_to_those_inside() -> None:
    """S5 and S11: nobody is served who has left the proximity."""
    gone = [
        resting(0, HERE, 3_000_000),
        moving(3_000_000, HERE, Point(190.0, 0.0), 1_000.0),
    ]
    gone.append(Leg(gone[1].end_us, FOREVER_US, Point(190.0, 0.0), gone[0].velocity, Point(190.0, 0.0)))
    field = Field({"p": (0, 0), "c": gone})
    field.subscribe("c")
    field.announce("p", 150)
    field.run(2)
    first = field.raise_("p", lifetime_s=60)
    field.run(4)
    field.raise_("p", lifetime_s=60)
    field.run(10)
    assert field.got("c") == [first.id]
