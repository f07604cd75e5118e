"""Links: delay, order, cuts."""

import pytest

from roamcast.node.boundary import Connect, Disconnect, Does, Input, LinkDown, LinkUp, Received, Send
from roamcast.sim.faults import Crash, Cut, FaultParams
from roamcast.sim.links import LinkParams
from tests.sim.worlds import Said, SmallWorld

PLACES: dict[str, tuple[float, float]] = {"a": (0, 0), "b": (1, 0)}


def test_a_message_takes_the_delay_of_the_link() -> None:
    small = SmallWorld({**PLACES}, links=[LinkParams("a", "b", delay_ms=25)])
    small.does(1, "a", Send("b", Said("x")))
    small.run(2)
    assert small["b"].entries[-1] == (1_025_000, Received(Said("x"), "a"))


def test_a_link_keeps_the_order_whatever_its_jitter() -> None:
    """R1: FIFO links."""
    small = SmallWorld({**PLACES}, links=[LinkParams("a", "b", delay_ms=1, jitter_ms=500)])
    for number in range(50):
        small.does(1 + number / 1_000, "a", Send("b", Said(str(number))))
    small.run(3)
    assert small["b"].heard() == [str(number) for number in range(50)]


def test_both_ends_hear_of_their_links_when_they_start() -> None:
    small = SmallWorld({**PLACES}, links=[LinkParams("a", "b")])
    small.run(1)
    assert LinkUp("b") in [given for _, given in small["a"].entries]
    assert LinkUp("a") in [given for _, given in small["b"].entries]


def test_a_cut_loses_what_is_under_way_and_tells_both_ends() -> None:
    small = SmallWorld(
        {**PLACES},
        links=[LinkParams("a", "b", delay_ms=100)],
        faults=FaultParams(cut=(Cut("a", "b", 1.05, 2.0),)),
    )
    small.does(1, "a", Send("b", Said("lost")))
    small.does(1.5, "a", Send("b", Said("refused")))
    small.does(2.5, "a", Send("b", Said("after")))
    small.run(3)
    assert small["b"].heard() == ["after"]
    assert small.notes.notes == [(1_050_000, "a", "link_lost"), (1_500_000, "a", "no_link")]
    changes = [
        (time_us, type(given)) for time_us, given in small["a"].entries if isinstance(given, LinkUp | LinkDown)
    ]
    assert changes == [(0, LinkUp), (1_050_000, LinkDown), (2_000_000, LinkUp)]


def test_hops_of_a_link_count_as_that_many_transmissions() -> None:
    small = SmallWorld({**PLACES}, links=[LinkParams("a", "b", hops=3)])
    small.does(1, "a", Send("b", Said("x")))
    small.run(2)
    assert len(small.notes.sent) == 3


def test_connecting_is_answered_by_an_input_of_its_own() -> None:
    small = SmallWorld({**PLACES, "c": (2, 0)}, links=[LinkParams("a", "b")])
    small.does(1, "a", Disconnect("b"))
    small.does(2, "a", Connect("b"))
    small.does(3, "a", Connect("c"))
    small.run(4)
    later = [(time_us, given) for time_us, given in small["a"].entries if time_us > 0]
    assert later == [(1_000_000, LinkDown("b")), (2_000_000, LinkUp("b")), (3_000_000, LinkDown("c"))]


def test_a_link_to_an_unknown_host_is_refused() -> None:
    with pytest.raises(ValueError, match="no host is called 'z'; there are a, b"):
        SmallWorld({**PLACES}, links=[LinkParams("a", "z")])


def changes(small: SmallWorld, host: str) -> list[tuple[float, str]]:
    """When a host's links came and went, after the start."""
    return [
        (time_us / 1e6, type(given).__name__)
        for diary in small.diaries[host]
        for time_us, given in diary.entries
        if isinstance(given, LinkUp | LinkDown) and time_us > 0
    ]


def test_a_crash_loses_what_is_under_way_in_both_directions() -> None:
    """R3: a restarted end has a new connection; nothing of the old one comes through it."""
    small = SmallWorld(
        {**PLACES},
        links=[LinkParams("a", "b", delay_ms=500)],
        faults=FaultParams(crash=(Crash("b", 1.1, 1.2),)),
    )
    small.does(1, "a", Send("b", Said("to the old one")))
    small.does(1, "b", Send("a", Said("from the old one")))
    small.does(1.3, "a", Send("b", Said("to the new one")))
    small.run(3)
    assert small["b"].heard() == ["to the new one"]
    assert small["b"].entries[-1][0] == 1_800_000
    assert small["a"].heard() == []
    assert small.notes.notes == [
        (1_100_000, "b", "crashed"),
        (1_100_000, "a", "link_lost"),
        (1_100_000, "b", "link_lost"),
    ]


def test_what_was_lost_is_known_before_the_peer_hears_of_the_crash() -> None:
    seen: list[int] = []

    def looks(now_us: int, given: Input) -> list[Does]:
        if isinstance(given, LinkDown):
            seen.append(len(small.world.links.between[("a", "b")].under_way))
        return []

    small = SmallWorld(
        {**PLACES},
        links=[LinkParams("a", "b", delay_ms=500)],
        faults=FaultParams(crash=(Crash("b", 1.1),)),
        answers={"a": looks},
    )
    small.does(1, "a", Send("b", Said("lost")))
    small.run(2)
    assert seen == [0]


def test_what_is_sent_to_a_peer_that_is_down_is_noted_and_is_no_transmission() -> None:
    small = SmallWorld({**PLACES}, links=[LinkParams("a", "b")], faults=FaultParams(crash=(Crash("b", 1),)))
    small.does(1.5, "a", Send("b", Said("into the void")))
    small.run(2)
    assert small.notes.notes == [(1_000_000, "b", "crashed"), (1_500_000, "a", "no_link")]
    assert small.notes.sent == []


def test_a_node_cannot_connect_over_a_link_that_a_fault_cut() -> None:
    small = SmallWorld({**PLACES}, links=[LinkParams("a", "b")], faults=FaultParams(cut=(Cut("a", "b", 1, 3),)))
    small.does(2, "a", Connect("b"))
    small.does(2.5, "a", Send("b", Said("refused")))
    small.run(4)
    assert changes(small, "a") == [(1.0, "LinkDown"), (2.0, "LinkDown"), (3.0, "LinkUp")]
    assert changes(small, "b") == [(1.0, "LinkDown"), (3.0, "LinkUp")]
    assert small["b"].heard() == []


def test_the_end_of_a_fault_does_not_reopen_what_a_node_disconnected() -> None:
    small = SmallWorld({**PLACES}, links=[LinkParams("a", "b")], faults=FaultParams(cut=(Cut("a", "b", 1, 3),)))
    small.does(0.5, "a", Disconnect("b"))
    small.does(2, "a", Connect("b"))
    small.does(4, "b", Connect("a"))
    small.run(5)
    assert changes(small, "a") == [(0.5, "LinkDown"), (2.0, "LinkDown"), (4.0, "LinkUp")]
    assert changes(small, "b") == [(0.5, "LinkDown"), (4.0, "LinkUp")]


def test_a_link_disconnected_during_a_cut_stays_down() -> None:
    small = SmallWorld({**PLACES}, links=[LinkParams("a", "b")], faults=FaultParams(cut=(Cut("a", "b", 1, 3),)))
    small.does(2, "b", Disconnect("a"))
    small.run(4)
    assert changes(small, "a") == changes(small, "b") == [(1.0, "LinkDown")]


def test_cuts_that_overlap_hold_until_the_last_one_heals() -> None:
    cuts = (Cut("a", "b", 1, 3), Cut("b", "a", 2, 5), Cut("a", "b", 2.5, 4))
    small = SmallWorld({**PLACES}, links=[LinkParams("a", "b")], faults=FaultParams(cut=cuts))
    small.run(6)
    assert changes(small, "a") == changes(small, "b") == [(1.0, "LinkDown"), (5.0, "LinkUp")]


def test_a_cut_of_a_link_to_a_host_that_is_down_is_told_to_nobody_twice() -> None:
    faults = FaultParams(crash=(Crash("b", 1, 4),), cut=(Cut("a", "b", 2, 3),))
    small = SmallWorld({**PLACES}, links=[LinkParams("a", "b")], faults=faults)
    small.run(5)
    assert changes(small, "a") == [(1.0, "LinkDown"), (4.0, "LinkUp")]


def test_the_jitter_of_a_link_is_its_own() -> None:
    """Another busy link changes nothing here."""

    def arrivals(busy: bool) -> list[int]:
        links = [LinkParams("c", "d", jitter_ms=50), LinkParams("a", "b", jitter_ms=50)]
        small = SmallWorld({**PLACES, "c": (2, 0), "d": (3, 0)}, links=links)
        for number in range(10):
            small.does(1 + number, "a", Send("b", Said(str(number))))
            if busy:
                small.does(1 + number, "c", Send("d", Said(str(number))))
        small.run(12)
        return [time_us for time_us, given in small["b"].entries if isinstance(given, Received)]

    assert arrivals(busy=True) == arrivals(busy=False)
