"""What waits for its turn in an ordered stream is delivered, or its loss is noted (S14, S11)."""

import pytest

from roamcast.adhoc.proximity.messages import Missed, Withdrawn
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.model.context import Context
from roamcast.model.region import Anchored, Circle, Region
from roamcast.model.values import Point
from roamcast.node.boundary import Moved, Note, Unsubscribe
from tests.adhoc.lone import ORDERED, ORIGIN, STILL, Lone, announcement

STATIONARY = Circle(ORIGIN, 100.0)
MOBILE = Anchored(STATIONARY, "p")


def holding(proximity: Region = STATIONARY, params: ProximityParams | None = None) -> Lone:
    """At 1 s number 2 has come, and waits for number 1."""
    lone, said = Lone(params), announcement(ORDERED, proximity=proximity)
    lone.subscribe("c:s")
    lone.beacon(said)
    lone.run(1)
    lone.event(said, 2)
    assert lone.got("c:s") == []
    return lone


def move(lone: Lone, position: Point | None) -> None:
    lone.give(Moved(Context("c", position, lone.now_us, STILL)))


@pytest.mark.parametrize("proximity", [STATIONARY, MOBILE], ids=["stationary", "mobile"])
@pytest.mark.parametrize("back_s", [1.6, 3.0, 6.0])
def test_s14_a_loss_of_position_does_not_lose_what_is_held_back(proximity: Region, back_s: float) -> None:
    """It is over before anything was asked, before the wait for order ends, or after both."""
    lone = holding(proximity)
    lone.run(1.1)
    move(lone, None)
    lone.run(back_s)
    assert lone.got("c:s") == []
    move(lone, Point(50.0, 0.0))
    lone.run(12)
    assert lone.got("c:s") == ["e2"]
    assert lone.notes["held_event_dropped"] == 0


def test_s11_who_knows_where_it_is_again_asks_for_what_it_missed() -> None:
    lone = holding()
    move(lone, None)
    lone.run(2)
    assert not [message for message in lone.said if isinstance(message, Missed)]
    move(lone, Point(50.0, 0.0))
    lone.run(3)
    assert [message for message in lone.said if isinstance(message, Missed)]


def test_s6_who_is_elsewhere_when_it_knows_its_position_again_has_left() -> None:
    lone = holding()
    move(lone, None)
    assert "p:a" in lone.node.discovery.relevant
    move(lone, Point(500.0, 0.0))
    assert "p:a" not in lone.node.discovery.relevant


def test_s6_without_a_position_a_stationary_proximity_is_forgotten_when_it_has_been_silent() -> None:
    lone = holding()
    move(lone, None)
    lone.run(60)
    assert "p:a" not in lone.node.discovery.relevant
    assert lone.notes["held_event_dropped"] == 1
    assert [name for name in lone.timers if name != "announce"] == []


@pytest.mark.parametrize("how", ["moved away", "withdrawn", "unsubscribed"])
def test_s14_what_a_closed_stream_held_back_is_noted(how: str) -> None:
    lone = holding()
    if how == "moved away":
        move(lone, Point(500.0, 0.0))
    elif how == "withdrawn":
        lone.hear(Withdrawn("p:a", 100))
    else:
        lone.give(Unsubscribe("c:s"))
    assert lone.notes["held_event_dropped"] == 1
    assert lone.node.inbox.receptions == {}


def test_s14_a_stream_that_holds_nothing_is_closed_without_a_note() -> None:
    lone = holding()
    lone.run(5)
    assert lone.got("c:s") == ["e2"]
    move(lone, Point(500.0, 0.0))
    assert lone.notes["held_event_dropped"] == 0


def test_s11_a_stream_that_makes_room_for_another_is_noted_with_what_it_held() -> None:
    lone = holding(params=ProximityParams(streams_max=1))
    effects = lone.beacon(announcement(ORDERED, name="p:b"))
    noted = [effect for effect in effects if isinstance(effect, Note)]
    assert noted == [Note("stream_dropped", "p:a"), Note("held_event_dropped", "e2")]
    assert list(lone.node.inbox.receptions) == ["p:b"]


def test_s11_an_event_that_opens_a_stream_past_the_bound_notes_it_too() -> None:
    lone = Lone(ProximityParams(streams_max=1))
    first, second = announcement(name="p:a"), announcement(name="p:b")
    lone.subscribe("c:s")
    lone.beacon(first)
    lone.beacon(second)
    assert lone.notes["stream_dropped"] == 1
    lone.event(first, 1)
    assert lone.notes["stream_dropped"] == 2
    assert lone.got("c:s") == ["e1"]
