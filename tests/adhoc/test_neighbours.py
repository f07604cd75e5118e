"""Beacons and the neighbour table (C7)."""

from roamcast.adhoc.context.params import ContextParams
from roamcast.adhoc.neighbours import Here, NeighbourTable, Presence
from roamcast.model.context import Context
from roamcast.model.values import Point
from roamcast.sim.faults import Crash, FaultParams
from tests.adhoc.context_worlds import ContextWorld, box, line, where

SECOND_US = 1_000_000


def test_hosts_hear_of_their_neighbours_by_beacons() -> None:
    """C7"""
    world = ContextWorld(line(4))
    world.run(6)
    assert [each.host for each in world.nodes["h1"].neighbours.current(6 * SECOND_US)] in (["h0", "h2"], ["h2", "h0"])
    assert world.sent("beacon") in range(4, 9)


def test_a_beacon_carries_position_previous_position_and_key_attributes_only() -> None:
    """C7"""
    presence = Presence(5 * SECOND_US, ("speed",))
    me = Context("a", Point(0, 0), attributes={"speed": 3, "secret": 1})
    first = presence.here(0, me, Point(0, 0))
    presence.said(0, Point(0, 0))
    later = presence.here(5 * SECOND_US, me, Point(50, 0))
    assert (first.previous, later.position, later.previous) == (None, Point(50, 0), Point(0, 0))
    assert later.attributes == {"speed": 3}


def test_the_previous_position_outlasts_frames_in_quick_succession() -> None:
    """C7, C11: a listener that missed the first frame still sees where the host came from."""
    presence = Presence(5 * SECOND_US, ())
    me = Context("a", Point(0, 0))
    for now_us, x in ((0, 0.0), (5 * SECOND_US, 50.0), (5 * SECOND_US + 1_000, 50.01)):
        here = presence.here(now_us, me, Point(x, 0))
        presence.said(now_us, Point(x, 0))
    assert here.previous == Point(0, 0)


def test_no_beacon_is_sent_by_a_host_that_says_something_else() -> None:
    """C7: "in the absence of other traffic"."""
    quiet, busy = ContextWorld(line(2)), ContextWorld(line(2))
    for second in range(1, 40):
        busy.publish(second, "h0", relevance=where(box(100, -50, 200, 50)))
    quiet.run(40)
    busy.run(40)
    assert busy.sent("beacon") < quiet.sent("beacon") - 5


def test_the_table_forgets_who_is_silent() -> None:
    """C7"""
    table = NeighbourTable(10, 5 * SECOND_US)
    table.heard(0, "a", Here(Point(0, 0)))
    table.heard(3 * SECOND_US, "b", Here(Point(1, 0)))
    assert [each.host for each in table.current(6 * SECOND_US)] == ["b"]
    assert table.context(6 * SECOND_US, "a") is None


def test_the_table_is_bounded_and_counts_what_it_drops() -> None:
    """C7"""
    table = NeighbourTable(3, 5 * SECOND_US)
    for number in range(10):
        table.heard(number, f"h{number}", Here(Point(0, 0)))
    assert (len(table), table.dropped) == (3, 7)
    assert [each.host for each in table.current(10)] == ["h7", "h8", "h9"]


def test_a_neighbour_is_looked_at_again_only_after_a_while() -> None:
    table = NeighbourTable(3, 5 * SECOND_US)
    here = Here(Point(0, 0))
    assert [table.heard(now_us, "a", here) for now_us in (0, 10, SECOND_US, SECOND_US + 1)] == [
        True,
        False,
        True,
        False,
    ]


def test_a_silent_host_is_no_neighbour_after_its_time() -> None:
    """C7: ageing, end to end: h1 crashes and h0 forgets it."""
    world = ContextWorld(line(2), params=ContextParams(), faults=FaultParams(crash=(Crash("h1", 7.0),)))
    world.run(7)
    assert "h1" in world.nodes["h0"].neighbours
    world.run(30)
    assert list(world.nodes["h0"].neighbours.current(30 * SECOND_US)) == []
