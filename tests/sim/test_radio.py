"""The air: range, airtime, contention, half duplex and collisions."""

import pytest

from roamcast.model.values import Point, Velocity
from roamcast.node.boundary import Broadcast, JoinGroup, LeaveGroup
from roamcast.sim.mobility.legs import FOREVER_US, Leg
from roamcast.sim.radio import (
    DIFS_US,
    PREAMBLE_US,
    RadioParams,
    SharedMediumParams,
    UnitDiskParams,
    airtime_us,
)
from tests.sim.worlds import CODEC, Said, SmallWorld

DISK = UnitDiskParams(range_m=200)
MEDIUM = SharedMediumParams(range_m=200)


def say(text: str, group: int | None = None) -> Broadcast:
    return Broadcast(Said(text), group)


@pytest.mark.parametrize("radio", [DISK, MEDIUM])
def test_a_broadcast_reaches_everybody_in_range_and_nobody_else(radio: RadioParams) -> None:
    """S9: the emulated range TR."""
    small = SmallWorld({"a": (0, 0), "near": (200, 0), "far": (201, 0)}, radio)
    small.does(1, "a", say("hello"))
    small.run(2)
    assert small["near"].heard() == ["hello"]
    assert small["far"].heard() == []
    assert small["a"].heard() == []


@pytest.mark.parametrize("radio", [DISK, MEDIUM])
def test_range_is_where_hosts_are_when_the_frame_is_sent(radio: RadioParams) -> None:
    leaving = [Leg(0, FOREVER_US, Point(100, 0), Velocity(50, 0), Point(1e6, 0))]
    small = SmallWorld({"a": (0, 0), "leaving": leaving}, radio)
    small.does(1, "a", say("still there"))
    small.does(3, "a", say("gone"))
    small.run(4)
    assert small["leaving"].heard() == ["still there"]


def test_a_frame_takes_its_airtime() -> None:
    size_bytes = len(CODEC.encode(Said("x")))
    small = SmallWorld({"a": (0, 0), "b": (10, 0)}, DISK)
    small.does(1, "a", say("x"))
    small.run(2)
    arrived_us = small["b"].entries[-1][0]
    assert arrived_us == 1_000_000 + PREAMBLE_US + round(8 * size_bytes / 11)


def test_only_members_of_a_group_hear_what_is_said_to_it() -> None:
    """S6: nodes that are not members ignore a group's messages."""
    small = SmallWorld({"a": (0, 0), "member": (10, 0), "other": (20, 0)}, DISK)
    small.does(0.5, "member", JoinGroup(7))
    small.does(1, "a", say("to seven", group=7))
    small.does(2, "member", LeaveGroup(7))
    small.does(3, "a", say("after leaving", group=7))
    small.run(4)
    assert small["member"].heard() == ["to seven"]
    assert small["other"].heard() == []


def test_a_sender_waits_while_it_senses_the_medium_busy() -> None:
    small = SmallWorld({"a": (0, 0), "b": (50, 0), "c": (100, 0)}, MEDIUM)
    small.does(1, "a", say("first"))
    small.does(1.0001, "b", say("second"))
    small.run(2)
    assert small["c"].heard() == ["first", "second"]
    first, second = [time_us for time_us, _ in small.notes.sent]
    assert second - first >= airtime_us(len(CODEC.encode(Said("first"))), 11e6) + DIFS_US


def test_frames_of_senders_that_cannot_sense_each_other_collide_between_them() -> None:
    """The hidden terminal: a and b are out of each other's range, c hears both and gets neither."""
    small = SmallWorld({"a": (0, 0), "c": (150, 0), "b": (300, 0)}, MEDIUM)
    small.does(1, "a", say("from a"))
    small.does(1.00005, "b", say("from b"))
    small.run(2)
    assert small["c"].heard() == []
    assert len(small.notes.sent) == 2


def test_senders_that_start_within_the_blind_time_collide() -> None:
    small = SmallWorld({"a": (0, 0), "b": (50, 0), "c": (100, 0)}, MEDIUM)
    small.does(1, "a", say("a"))
    small.does(1.000010, "b", say("b"))
    small.run(2)
    assert small["c"].heard() == []
    # Half duplex: each was sending while the other's frame arrived.
    assert small["a"].heard() == small["b"].heard() == []


def test_the_unit_disk_knows_no_collisions() -> None:
    small = SmallWorld({"a": (0, 0), "b": (50, 0), "c": (100, 0)}, DISK)
    small.does(1, "a", say("a"))
    small.does(1, "b", say("b"))
    small.run(2)
    assert sorted(small["c"].heard()) == ["a", "b"]


def test_a_sender_sends_its_own_frames_one_after_the_other() -> None:
    small = SmallWorld({"a": (0, 0), "b": (50, 0)}, MEDIUM)
    for number in range(5):
        small.does(1, "a", say(str(number)))
    small.run(2)
    assert small["b"].heard() == ["0", "1", "2", "3", "4"]


def test_a_full_queue_drops_and_says_so() -> None:
    small = SmallWorld({"a": (0, 0), "b": (50, 0)}, SharedMediumParams(range_m=200, queue_frames_max=3))
    for number in range(10):
        small.does(1, "a", say(str(number)))
    small.run(2)
    assert small["b"].heard() == ["0", "1", "2"]
    assert [what for _, _, what in small.notes.notes] == ["radio_queue_full"] * 7


def test_loss_grows_with_load() -> None:
    """Many hosts in one cell repeat at the same time: the shorter the random delay, the more is lost."""

    def heard_with(jitter_us: int) -> int:
        hosts: dict[str, tuple[float, float] | list[Leg]] = {
            f"h{index}": (index % 10 * 90.0, index // 10 * 90.0) for index in range(100)
        }
        small = SmallWorld(hosts, MEDIUM)
        for host in hosts:
            small.does(1, host, Broadcast(Said(host), jitter_us=jitter_us))
        small.run(3)
        return sum(len(small[host].heard()) for host in hosts)

    crowded, relaxed, calm = heard_with(2_000), heard_with(50_000), heard_with(1_000_000)
    assert crowded < relaxed < calm
