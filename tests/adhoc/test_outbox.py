"""What a producer keeps for those who missed it: bounded, and what lasts stays longest (S11)."""

from roamcast.adhoc.proximity.recovery import Outbox, Outboxes
from roamcast.model.context import Context
from roamcast.model.event import Delivery, Event
from roamcast.model.values import Point

SECOND_US = 1_000_000


def event(number: int, lifetime_s: int) -> Event:
    return Event(f"e{number}", "x", Context("p", Point(0.0, 0.0)), 0, lifetime_s * SECOND_US)


def kept_after(lifetimes_s: list[int]) -> list[str]:
    outbox = Outbox("a", "a", events_max=3, window_us=60 * SECOND_US)
    for number, lifetime_s in enumerate(lifetimes_s):
        outbox.number(0, event(number, lifetime_s), False, Delivery())
    return [kept.message.event.id for kept in outbox.kept]


def test_momentary_events_make_room_before_lasting_ones_do() -> None:
    assert kept_after([100, 0, 0, 0, 0]) == ["e0", "e3", "e4"]


def test_of_lasting_events_the_oldest_goes() -> None:
    assert kept_after([100, 100, 100, 100]) == ["e1", "e2", "e3"]


def test_s14_streams_into_consumers_regions_are_bounded_and_own_ones_stay() -> None:
    """The first opened goes, and is named; opened again it is another stream, for its numbers begin anew."""
    outboxes = Outboxes(events_max=3, window_us=60 * SECOND_US, wanted_max=2)
    own, _ = outboxes.open("a", "a")
    first, _ = outboxes.open("a", "w1")
    assert outboxes.open("a", "w2")[1] is None
    assert outboxes.open("a", "w3")[1] == first.stream
    again, closed = outboxes.open("a", "w1")
    assert again.stream != first.stream
    assert closed is not None
    assert len(outboxes.by_key) == len(outboxes.by_stream) == 3
    assert outboxes.open("a", "a") == (own, None)
    outboxes.close_wanted("w1")
    assert len(outboxes.by_key) == 2
    outboxes.close_announcement("a")
    assert (outboxes.by_key, outboxes.by_stream, outboxes.wanted) == ({}, {}, {})
