"""What goes wrong, and how a node learns of it."""

from typing import Any

import pytest

from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.values import Point
from roamcast.movement.legs import Leg, absent, resting, resting_forever
from roamcast.node.boundary import (
    Broadcast,
    CancelTimer,
    Deliver,
    Does,
    Input,
    JoinGroup,
    LeaveGroup,
    Note,
    Received,
    Send,
    SetTimer,
    Start,
    Store,
    TimerFired,
)
from roamcast.node.port import Port
from roamcast.sim.faults import Crash, Cut, FaultParams, Pause
from roamcast.sim.links import LinkParams
from roamcast.sim.radio import UnitDiskParams
from roamcast.sim.world import PAUSED_INPUTS_MAX
from tests.sim.worlds import Said, SmallWorld

DISK = UnitDiskParams(range_m=200)
PAIR: dict[str, tuple[float, float]] = {"a": (0, 0), "b": (10, 0)}


def hundred(faults: FaultParams, seed: int = 1) -> SmallWorld:
    small = SmallWorld({**PAIR}, DISK, faults=faults, seed=seed)
    for number in range(100):
        small.does(1 + number / 100, "a", Broadcast(Said(f"{number:02}")))
    small.run(4)
    return small


def test_loss_takes_about_its_share() -> None:
    assert 50 <= len(hundred(FaultParams(loss=0.3))["b"].heard()) <= 85
    assert hundred(FaultParams(loss=1.0))["b"].heard() == []


def test_duplication_brings_frames_twice() -> None:
    heard = hundred(FaultParams(duplicate=1.0))["b"].heard()
    assert sorted(heard) == sorted([f"{number:02}" for number in range(100)] * 2)


def test_reordering_brings_late_what_was_sent_early() -> None:
    heard = hundred(FaultParams(reorder=0.5, reorder_by_ms=200))["b"].heard()
    assert sorted(heard) == [f"{number:02}" for number in range(100)]
    assert heard != sorted(heard)


def late(faults: FaultParams, *changes: tuple[float, Does]) -> list[str]:
    """What b hears of frames on group 7 that are up to a second late, while it does something at some time."""
    small = SmallWorld({**PAIR}, DISK, faults=faults)
    for number in range(20):
        small.does(1 + number / 1_000, "a", Broadcast(Said(f"{number:02}"), group=7))
    for at_s, effect in changes:
        small.does(at_s, "b", effect)
    small.run(4)
    return [text for diary in small.diaries["b"] for text in diary.heard()]


def test_s6_a_late_frame_is_heard_by_who_is_in_its_group_when_it_arrives() -> None:
    reordered = FaultParams(reorder=1.0, reorder_by_ms=1_000)
    everything = late(reordered, (0.5, JoinGroup(7)))
    left = late(reordered, (0.5, JoinGroup(7)), (1.5, LeaveGroup(7)))
    joined = late(reordered, (1.5, JoinGroup(7)))
    assert len(everything) == 20
    assert 0 < len(left) < 20
    assert left + joined == everything


def test_a_late_frame_is_not_heard_by_a_host_that_is_down_when_it_arrives() -> None:
    faults = FaultParams(reorder=1.0, reorder_by_ms=1_000, crash=(Crash("b", 1.3, 1.6),))
    heard = late(faults, (0.5, JoinGroup(7)), (1.6001, JoinGroup(7)))
    everything = late(FaultParams(reorder=1.0, reorder_by_ms=1_000), (0.5, JoinGroup(7)))
    assert 0 < len(heard) < 20
    assert [text for text in everything if text in heard] == heard


def test_a_late_frame_is_heard_by_a_host_that_was_down_when_it_was_sent_and_is_up_when_it_arrives() -> None:
    faults = FaultParams(reorder=1.0, reorder_by_ms=1_000, crash=(Crash("b", 0.5, 1.5),))
    everything = late(FaultParams(reorder=1.0, reorder_by_ms=1_000), (0.4, JoinGroup(7)))
    heard = late(faults, (1.5001, JoinGroup(7)))
    assert 0 < len(heard) < 20
    assert everything[-len(heard) :] == heard


def test_the_same_seed_loses_the_same_frames_and_another_one_others() -> None:
    faults = FaultParams(loss=0.5)
    assert hundred(faults, 7)["b"].heard() == hundred(faults, 7)["b"].heard()
    assert hundred(faults, 7)["b"].heard() != hundred(faults, 8)["b"].heard()


def test_faults_end_when_the_scenario_says_so() -> None:
    """First safety, then liveness: after quiet_after_s everything arrives."""
    heard = hundred(FaultParams(loss=1.0, quiet_after_s=1.5))["b"].heard()
    assert heard == [f"{number:02}" for number in range(50, 100)]


def keeps_a_diary_on_disk(now_us: int, given: Input) -> list[Does]:
    match given:
        case Start(_, _, stored):
            return [Store("starts", b"x" + stored.get("starts", b"")), SetTimer("tick", now_us + 300_000)]
        case _:
            return []


@pytest.mark.parametrize(("keeps_disk", "stored"), [(True, {"starts": b"x"}), (False, {})])
def test_a_crashed_host_comes_back_as_a_new_node_on_its_old_disk_if_it_has_one(
    keeps_disk: bool, stored: dict[str, bytes]
) -> None:
    faults = FaultParams(crash=(Crash("a", 1, 2, keeps_disk),))
    small = SmallWorld({**PAIR}, DISK, faults=faults, answers={"a": keeps_a_diary_on_disk})
    small.does(0.9, "a", SetTimer("never", 1_100_000))
    small.does(1.5, "b", Broadcast(Said("nobody hears")))
    small.does(2.5, "b", Broadcast(Said("hello again")))
    small.run(3)
    first, second = small.diaries["a"]
    assert first.heard() == []
    assert TimerFired("never") not in [given for _, given in first.entries]
    time_us, start = second.entries[0]
    assert isinstance(start, Start)
    assert (time_us, start.restarted, start.stored) == (2_000_000, True, stored)
    assert second.heard() == ["hello again"]


def test_peers_on_links_hear_of_a_crash() -> None:
    small = SmallWorld({**PAIR}, links=[LinkParams("a", "b")], faults=FaultParams(crash=(Crash("a", 1, 2),)))
    small.does(1.5, "b", Send("a", Said("into the void")))
    small.run(3)
    assert small["b"].kinds() == ["Start", "LinkUp", "LinkDown", "LinkUp"]
    assert small["a"].heard() == []


def test_a_paused_host_gets_everything_late_and_in_order() -> None:
    faults = FaultParams(pause=(Pause("b", 1.0, 2.0),))
    small = SmallWorld({**PAIR}, DISK, faults=faults)
    small.does(0.5, "b", SetTimer("due", 1_500_000))
    small.does(1.2, "a", Broadcast(Said("one")))
    small.does(1.8, "a", Broadcast(Said("two")))
    small.run(3)
    later = [(time_us, given) for time_us, given in small["b"].entries if time_us >= 1_000_000]
    assert [time_us for time_us, _ in later] == [2_000_000] * 3
    assert small["b"].kinds()[-3:] == ["Received", "TimerFired", "Received"]


@pytest.mark.parametrize("instead", [CancelTimer("due"), SetTimer("due", 2_500_000)])
def test_a_timer_that_was_cancelled_or_set_anew_in_a_pause_does_not_fire(instead: Does) -> None:
    """The message came first, and in a pause too it is handled before the timer that ran out later."""

    def answer(now_us: int, given: Input) -> list[Does]:
        return [instead] if isinstance(given, Received) else []

    small = SmallWorld({**PAIR}, DISK, faults=FaultParams(pause=(Pause("b", 1.0, 2.0),)), answers={"b": answer})
    small.does(0.5, "b", SetTimer("due", 1_500_000))
    small.does(1.2, "a", Broadcast(Said("never mind")))
    small.run(3)
    fired_us = [time_us for time_us, given in small["b"].entries if isinstance(given, TimerFired)]
    assert fired_us == ([] if isinstance(instead, CancelTimer) else [2_500_000])


def test_a_timer_set_anew_by_an_effect_that_came_late_fires_once() -> None:
    small = SmallWorld({**PAIR}, DISK, faults=FaultParams(pause=(Pause("b", 1.0, 2.0),)))
    small.does(0.5, "b", SetTimer("due", 1_500_000))
    small.does(1.8, "b", SetTimer("due", 1_900_000))
    small.run(3)
    assert small["b"].kinds()[1:] == ["TimerFired"]


class Talker:
    """An application that says something over and over, and keeps what it was given and when."""

    def __init__(self) -> None:
        self.did: list[tuple[int, str]] = []

    def start(self, port: Port) -> None:
        port.handlers["s"] = lambda event: self.did.append((port.ground.now_us(), event.id))
        port.every(0.4, lambda: self.did.append((port.ground.now_us(), "tick")))


def talking(faults: FaultParams, where: tuple[float, float] | list[Leg] = (0, 0)) -> tuple[SmallWorld, list[Talker]]:
    talkers: list[Talker] = []

    def make() -> Talker:
        talkers.append(Talker())
        return talkers[-1]

    return SmallWorld({"a": where, "b": (10, 0)}, DISK, faults=faults, applications={"a": make}), talkers


def test_a_paused_host_does_nothing_and_then_everything_in_order() -> None:
    """The application's own timers, what is delivered to it, and frames that wait for their random delay."""
    small, talkers = talking(FaultParams(pause=(Pause("a", 1.0, 2.0),)))
    small.does(0.9999, "a", Broadcast(Said("late"), jitter_us=800_000))
    event = Event("e", "x", Context("b"), 0, 0)
    small.at(1.0, small.world.perform, small.world.by_name["a"].host, Deliver(event, "s"))
    small.run(2.3)
    (talker,) = talkers
    assert talker.did == [
        (0, "tick"),
        (400_000, "tick"),
        (800_000, "tick"),
        (2_000_000, "e"),
        (2_000_000, "tick"),
    ]
    assert [time_us for time_us, _ in small.notes.sent] == [2_000_000]
    assert small["b"].heard() == ["late"]


def test_pauses_that_overlap_hold_until_the_last_one_ends() -> None:
    faults = FaultParams(pause=(Pause("b", 1.0, 2.0), Pause("b", 1.5, 4.0), Pause("b", 1.6, 3.0)))
    small = SmallWorld({**PAIR}, DISK, faults=faults)
    small.does(1.2, "a", Broadcast(Said("one")))
    small.does(3.5, "a", Broadcast(Said("two")))
    small.run(5)
    received_us = [time_us for time_us, given in small["b"].entries if isinstance(given, Received)]
    assert received_us == [4_000_000] * 2


def test_a_host_that_restarts_within_a_pause_is_awake_and_stays_as_it_is_when_the_pause_ends() -> None:
    faults = FaultParams(crash=(Crash("b", 1.5, 2.0),), pause=(Pause("b", 1.0, 3.0), Pause("b", 2.5, 4.0)))
    small = SmallWorld({**PAIR}, DISK, faults=faults)
    for second in (1.2, 2.2, 2.8, 3.5):
        small.does(second, "a", Broadcast(Said(f"at {second}")))
    small.run(5)
    old, new = small.diaries["b"]
    assert old.heard() == []
    received = [(round(time_us / 1e6, 2), given) for time_us, given in new.entries if isinstance(given, Received)]
    assert [(at_s, new.heard()[place]) for place, (at_s, _) in enumerate(received)] == [
        (2.2, "at 2.2"),
        (4.0, "at 2.8"),
        (4.0, "at 3.5"),
    ]


def test_a_paused_host_keeps_so_much_and_drops_the_rest_with_a_note() -> None:
    small = SmallWorld({**PAIR}, DISK, faults=FaultParams(pause=(Pause("b", 1.0, 5.0),)))
    small.does(0.5, "b", SetTimer("due", 4_900_000))
    for number in range(PAUSED_INPUTS_MAX + 2):
        small.does(1.1 + number / 4_000, "a", Broadcast(Said(str(number))))
    small.run(6)
    assert small["b"].heard() == [str(number) for number in range(PAUSED_INPUTS_MAX)]
    assert [what for _, _, what in small.notes.notes] == ["paused_input_dropped"] * 2
    # A timer is never dropped: what it starts again would stop for ever.
    assert small["b"].kinds()[-1] == "TimerFired"


@pytest.mark.parametrize(
    ("faults", "named"),
    [
        ({"crash": (Crash("a", 6, 7),)}, "the crash of 'a' at 6 s lasts until 7 s"),
        ({"crash": (Crash("a", 1, 5.5),)}, "the crash of 'a' at 1 s lasts until 5.5 s"),
        ({"crash": (Crash("a", 1),)}, "the crash of 'a' at 1 s never ends"),
        ({"pause": (Pause("b", 4, 6),)}, "the pause of 'b' at 4 s lasts until 6 s"),
        ({"cut": (Cut("a", "b", 2),)}, "the cut between 'a' and 'b' at 2 s never ends"),
        (
            {"cut": (Cut("a", "b", 2, 9),), "pause": (Pause("b", 1, 2), Pause("a", 8, 9))},
            "the pause of 'a' at 8 s lasts until 9 s, the cut between 'a' and 'b' at 2 s lasts until 9 s",
        ),
    ],
)
def test_faults_that_reach_beyond_the_quiet_are_refused_by_name(faults: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match="quiet_after_s = 5 ends all faults, but") as refused:
        FaultParams(quiet_after_s=5, **faults)
    assert named in str(refused.value)


def test_faults_that_end_when_the_quiet_begins_are_allowed() -> None:
    FaultParams(quiet_after_s=5, crash=(Crash("a", 1, 5),), pause=(Pause("b", 4, 5),), cut=(Cut("a", "b", 0, 1),))


def test_loss_is_drawn_for_each_hearer_alone() -> None:
    """One more host in range changes nothing of what the others hear."""

    def heard_by_b(hosts: dict[str, tuple[float, float]]) -> list[str]:
        small = SmallWorld({**hosts}, DISK, faults=FaultParams(loss=0.5, duplicate=0.2, reorder=0.2))
        for number in range(50):
            small.does(1 + number / 100, "a", Broadcast(Said(f"{number:02}"), jitter_us=5_000))
        small.run(3)
        return small["b"].heard()

    assert heard_by_b(PAIR) == heard_by_b({"c": (5, 0), **PAIR})


def test_a_share_of_hosts_refuses_to_forward() -> None:
    hosts: dict[str, tuple[float, float]] = {f"h{index}": (index, 0) for index in range(50)}
    small = SmallWorld({**hosts}, DISK, faults=FaultParams(refuse_share=0.2))
    assert sum(small[host].seat.refuses for host in hosts) == 10


def test_clocks_are_off_by_a_constant_and_timers_still_fire_when_meant() -> None:
    def sets_a_timer(now_us: int, given: Input) -> list[Does]:
        return [SetTimer("tick", now_us + 500_000)] if isinstance(given, Start) else []

    small = SmallWorld({**PAIR}, faults=FaultParams(clock_offset_ms=1_000), answers={"a": sets_a_timer})
    small.run(2)
    offset_us = small.world.by_name["a"].host.clock_offset_us
    assert offset_us != 0
    start, tick = small["a"].entries
    assert (start[0], tick[0]) == (offset_us, offset_us + 500_000)


def test_hosts_come_and_go_with_their_trace() -> None:
    place = Point(0, 0)
    visitor = [absent(0, 1_000_000, place), resting(1_000_000, place, 1_000_000), absent(2_000_000, 2**53, place)]
    small = SmallWorld({"visitor": visitor, "b": (10, 0)}, DISK)
    for second in (0.5, 1.5, 2.5):
        small.does(second, "b", Broadcast(Said(f"at {second}")))
    small.run(3)
    assert small["visitor"].heard() == ["at 1.5"]
    assert list(small.world.configuration().contexts) == ["b"]


def test_a_fault_at_an_unknown_host_is_refused() -> None:
    with pytest.raises(ValueError, match="no host is called 'z'"):
        SmallWorld({**PAIR}, faults=FaultParams(crash=(Crash("z", 1),)))


def test_effects_of_one_answer_are_performed_before_the_next_input() -> None:
    def answer(now_us: int, given: Input) -> list[Does]:
        return (
            [Broadcast(Said("first")), Note("between"), Broadcast(Said("second"))] if isinstance(given, Start) else []
        )

    small = SmallWorld({"a": [resting_forever(0, Point(0, 0))], "b": (1, 0)}, DISK, answers={"a": answer})
    small.run(1)
    assert small["b"].heard() == ["first", "second"]
    assert small.notes.notes == [(0, "a", "between")]
