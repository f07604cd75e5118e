"""Links: delay, order, cuts."""

import pytest

from roamcast.node.boundary import Connect, Disconnect, LinkDown, LinkUp, Received, Send
from roamcast.sim.faults import Cut, FaultParams
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
    assert small.world.links.lost == 1
    assert [what for _, _, what in small.notes.notes] == ["no_link"]
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
