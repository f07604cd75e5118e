"""L5: what is kept for pages is the last of everything, and bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.mqtt.core import Core
from roamcast.broker.mqtt.inputs import Arrived
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.values import Point
from roamcast.server.studio import past as past_module
from roamcast.server.studio import ways as ways_module
from roamcast.server.studio.past import Known, Past
from roamcast.server.studio.watcher import Ring, Watcher
from roamcast.server.studio.ways import Ways
from tests.effort import examples

CHANGES = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.tuples(st.integers(0, 5), st.booleans())), max_size=40
)


def event(name: str, body: bytes | None = None) -> Event:
    return Event(name, "t", Context("w"), 0, 0, body=body)


def known(x: int, connected: bool = True) -> Known:
    return Known(Context("h", Point(float(x), 0.0)), connected)


@examples(100)
@given(CHANGES, st.integers(0, 40))
def test_l5_the_past_is_what_it_was(changes: list[tuple[str, tuple[int, bool] | None]], moment: int) -> None:
    past, was = Past(), list[dict[str, Known]]()
    for at_us, (client, after) in enumerate(changes):
        past.put(at_us, client, None if after is None else known(*after))
        was.append(dict(past.now))
    expected = was[min(moment, len(was) - 1)] if was else {}
    assert past.at(moment) == expected
    for client in "abc":
        assert past.of(client)(moment) == expected.get(client)


def test_l5_the_past_is_bounded_and_says_how_far_it_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_module, "CHANGES_MAX", 3)
    past = Past()
    for at_us in range(10):
        past.put(at_us, "a", known(at_us))
    assert not past.knows(5)
    assert past.knows(6)
    assert past.at(7) == {"a": known(7)}


def test_l5_long_texts_of_clients_shorten_the_past(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_module, "CHANGES_BYTES_MAX", 10_000)
    past = Past()
    for at_us in range(20):
        past.put(at_us, "a", Known(Context("a", attributes={"text": "x" * 4_000}), True))
    assert not past.knows(15)
    assert past.knows(18)


@pytest.mark.parametrize(
    ("bound", "value"), [("EVENTS_MAX", 3), ("EVENTS_BYTES_MAX", 3 * 2_500), ("DELIVERIES_MAX", 3)]
)
def test_l5_the_oldest_event_goes_beyond_any_bound(monkeypatch: pytest.MonkeyPatch, bound: str, value: int) -> None:
    monkeypatch.setattr(ways_module, bound, value)
    ways = Ways()
    for number in range(10):
        ways.deliver(ways.add(event(str(number), b"x" * 500), b"x" * 500, number), ["c"], number)
    assert ways.deliveries == len(ways)
    assert [way.event.id for way in ways.after(0, 100)][-3:] == ["7", "8", "9"]
    assert len(ways) <= 4
    assert ways.seen == 10
    assert [way.event.id for way in ways.after(8, 1)] == ["9"]


def test_l5_deliveries_of_one_event_are_bounded_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways_module, "DELIVERED_MAX", 2)
    ways = Ways()
    way = ways.add(event("e"), b"", 0)
    ways.deliver(way, ["a", "b", "a", "c", "d"], 5)
    assert (way.delivered, way.delivered_more) == ({"a": 5, "b": 5}, 2)


def test_l5_a_ring_is_read_by_number() -> None:
    ring: Ring[int] = Ring(3)
    for number in range(5):
        ring.add(number)
    assert ring.after(0, 10) == [2, 3, 4]
    assert ring.after(4, 10) == [4]
    assert ring.after(2, 2) == [3, 4]
    assert ring.after(5, 10) == []


def test_l5_of_events_the_last_thousand_are_kept_and_all_are_counted() -> None:
    core = Core("b", 1)
    core.handle(1, Arrived("r", True, 0))
    watcher = Watcher(core)
    for number in range(1_200):
        watcher.published(1, "w", event(f"e{number}"))
        watcher.fanned_out(1, event(f"e{number}"), ("r", "r", "gone"), ("one", "two", "three"))
    assert watcher.counted() == (1_200, 1_200, 1_200)
    assert len(watcher.ways) == 1_000
    (newest,) = watcher.ways.after(1_199, 10)
    assert (list(newest.delivered), newest.from_client) == (["r"], "w")
