"""How often, for what and which way a consumer asks for events that it missed (S11)."""

import pytest

from roamcast.adhoc.proximity.messages import Missed
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.adhoc.proximity.recovery import Reception
from roamcast.model.context import Context
from roamcast.model.event import Delivery
from roamcast.model.values import Point, Velocity
from roamcast.node.boundary import Moved
from tests.adhoc.field import Field
from tests.adhoc.lone import STILL, Lone, announcement


def given_up_after(reception: Reception, asks_max: int) -> int:
    """How often a reception asks until it stops."""
    asked = 0
    while reception.ask(asks_max)[0]:
        asked += 1
    return asked


def test_s11_who_stays_where_an_event_does_not_reach_it_stops_asking() -> None:
    """Every beacon names the event for five minutes; it never comes."""
    lone, said = Lone(), announcement()
    lone.subscribe("c:s")
    for second in range(1, 300):
        lone.run(second)
        lone.beacon(said, latest=1, lasting=(1,))
    asked = [message for message in lone.said if isinstance(message, Missed)]
    assert 3 <= len(asked) <= 6
    assert lone.notes["recovery_given_up"] == 1


def test_s11_what_lasts_is_asked_for_again_at_ever_longer_intervals_and_then_no_more() -> None:
    """As often again as in a row: with loss, the event may still be had."""
    reception = Reception("a", floor=1, window=8)
    reception.told(1, (1,))
    assert given_up_after(reception, 3) == 3
    asked_at = []
    for beacon in range(2, 200):
        reception.told(1, (1,))
        asked_at += [beacon] * given_up_after(reception, 3)
    assert asked_at == [2, 4, 8]


def test_s11_after_a_change_what_was_given_up_is_asked_for_anew() -> None:
    reception = Reception("a", floor=1, window=8)
    for _ in range(100):
        reception.told(1, (1,))
        given_up_after(reception, 3)
    assert reception.missing() == []
    reception.told(1, (1,), changed=True)
    assert given_up_after(reception, 3) == 3


@pytest.mark.parametrize("change", ["outside", "cut off", "none"])
def test_s11_a_change_is_to_have_been_outside_or_cut_off(change: str) -> None:
    lone, said = Lone(), announcement()
    lone.subscribe("c:s")
    for second in range(1, 60):
        lone.run(second)
        lone.beacon(said, latest=1, lasting=(1,))
    before = len([message for message in lone.said if isinstance(message, Missed)])
    if change == "outside":
        lone.give(Moved(Context("c", Point(105.0, 0.0), lone.now_us, Velocity(-10.0, 0.0))))
        lone.beacon(said, latest=1, lasting=(1,))
        lone.give(Moved(Context("c", Point(50.0, 0.0), lone.now_us, STILL)))
    lone.run(65 if change == "cut off" else 60)
    lone.beacon(said, latest=1, lasting=(1,))
    lone.run(70)
    after = len([message for message in lone.said if isinstance(message, Missed)])
    assert after - before == (0 if change == "none" else 3)


def test_s11_an_old_event_that_lasts_is_not_forgotten_to_have_come() -> None:
    """Hundreds of others came after it; it is not asked for a second time."""
    reception = Reception("a", floor=0, window=8)
    for number in range(1, 200):
        reception.take(number)
        reception.told(number, (1,))
        assert reception.missing() == []
    assert len(reception.had) <= 18


def test_s11_a_subscription_asks_only_for_events_of_its_own_subject() -> None:
    field = Field({"p": (0, 0), "c": (50, 0)})
    for subject in ("a/1", "a/2", "b"):
        field.announce("p", 100, subject)
    field.subscribe("c", "a/1")
    field.subscribe("c", "a/2")
    field.run(2)
    lasting = {subject: field.raise_("p", subject, lifetime_s=60).id for subject in ("a/1", "a/2")}
    field.run(4)
    field.subscribe("c", "b")
    field.run(6)
    assert field.frames("missed") == 0
    field.subscribe("c", "a/1")
    field.run(8)
    assert field.got("c") == [lasting["a/1"], lasting["a/2"], lasting["a/1"]]
    assert field.frames("missed") == 1
    field.subscribe("c", "a/+")
    field.run(10)
    assert sorted(field.got("c")[3:]) == sorted(lasting.values())


def test_s11_a_question_goes_toward_the_producer_only() -> None:
    """The asker is in the middle of a chain: who is behind it does not repeat what it asks."""
    field = Field({"p": (0, 0), "a": (150, 0), "c": (300, 0), "d": (450, 0), "e": (300, 100)})
    for host in "ade":
        field.subscribe(host)
    field.announce("p", 600)
    field.run(3)
    event = field.raise_("p", lifetime_s=60)
    field.run(5)
    field.subscribe("c")
    field.run(8)
    assert field.got("c") == [event.id]
    assert [host for _, host, kind, _ in field.witness.sent if kind == "missed"] == ["c", "a"]


def test_s11_the_last_question_goes_everywhere_for_the_way_may_begin_with_a_detour() -> None:
    """The only neighbour of the asker is farther from the producer than the asker is."""
    chain: dict[str, tuple[float, float]] = {"e": (80, 120), "a": (160, 240), "b": (300, 180)}
    field = Field({"p": (0, 0), "c": (250, 0), **chain})
    for host in chain:
        field.subscribe(host)
    field.announce("p", 500)
    field.run(4)
    event = field.raise_("p", lifetime_s=60)
    field.run(6)
    field.subscribe("c")
    field.run(10)
    assert field.got("c") == [event.id]


def test_s14_a_deadline_that_an_own_event_missed_is_noted_once() -> None:
    """It lasts for a minute, and is offered to the host's own subscriptions every second."""
    field = Field({"p": (0, 0)}, ProximityParams())
    field.announce("p", 40, delivery=Delivery(deadline_us=500_000))
    field.run(1)
    field.raise_("p", lifetime_s=60)
    field.run(3)
    field.subscribe("p")
    field.run(20)
    assert field.got("p") == []
    assert field.witness.notes["deadline_missed"] == 1
