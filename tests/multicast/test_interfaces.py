"""L1: a node on the interfaces of its machine: when they change, and which groups cannot be joined on them yet."""

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from roamcast.model.event import EventType
from roamcast.multicast import multicast
from roamcast.multicast.interfaces import BadInterface, Interface, all_interfaces, chosen_interfaces
from roamcast.multicast.multicast import CannotMulticast
from roamcast.multicast.running import RunningNode
from tests.multicast.lan import Lan, run, until


def test_l1_loopback_is_found_and_an_unknown_interface_is_named() -> None:
    loopback = [each for each in all_interfaces() if each.loopback]
    assert [each.address for each in loopback] == ["127.0.0.1"]
    assert chosen_interfaces(("127.0.0.1",)) == chosen_interfaces(("lo",)) == loopback
    assert chosen_interfaces(("127.0.0.1", "lo")) == loopback
    with pytest.raises(BadInterface, match=r"'wlan7' is not there .* lo \(127.0.0.1\)"):
        chosen_interfaces(("wlan7",))


def test_l1_when_interfaces_change_groups_are_joined_anew() -> None:
    async def story() -> None:
        async with Lan() as lan:
            _, consumer = await lan.acquainted()
            # As if it had found itself without a network, and then with one.
            consumer.air._use([])
            consumer.air.wanted = ()
            assert consumer.air.refresh()
            assert not consumer.air.refresh()
            consumer.air._use(chosen_interfaces(("lo",)))
            for group in consumer.air._joined:
                consumer.air._joined[group] = consumer.air._members_of(group)
            consumer.air.wanted = ("lo",)
            lan.nodes["producer"].port.raise_("ice", {"depth": 5})
            await until(lambda: lan.depths("consumer") == [5])

    run(story)


def test_l1_an_interface_that_cannot_be_used_yet_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    coming = Interface("wlan7", 9_999, "10.9.9.9")

    async def story() -> None:
        async with Lan() as lan:
            air = lan.node("node").air
            groups = list(air._joined)
            air.wanted = ()
            monkeypatch.setattr(multicast, "chosen_interfaces", lambda *_: [coming])
            for _ in range(2):
                with pytest.raises(CannotMulticast):
                    air.refresh()
            monkeypatch.setattr(multicast, "chosen_interfaces", lambda *_: chosen_interfaces(("lo",)))
            assert air.refresh()
            assert list(air._joined) == groups
            assert all(air._joined.values())

    run(story)


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """As on a machine where too much is open; what is open stays so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = [os.dup(0)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(spare[0], *map(int, os.listdir("/proc/self/fd"))) + 1, hard))
    try:
        with suppress(OSError):
            while True:
                spare.append(os.dup(0))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in spare:
            os.close(each)


def unjoined(node: RunningNode) -> list[int]:
    return [group for group, members in node.air._joined.items() if not members]


def test_l1_groups_for_which_there_was_no_descriptor_are_joined_when_there_is_one() -> None:
    async def story() -> None:
        async with Lan() as lan:
            producer, consumer = lan.node("producer"), lan.node("consumer", 50)
            lan.listen("consumer", "road/#")
            subjects = [f"road/{number}" for number in range(30)]
            with no_descriptor_left():
                for subject in subjects:
                    lan.announce("producer", event_type=EventType(subject))
                await until(lambda: lan.members("consumer") == len(subjects))
                assert unjoined(consumer)
                refused = consumer.air.refused_groups
                with pytest.raises(CannotMulticast, match="Too many open files"):
                    consumer.air.refresh()
            # Nobody's interfaces have changed; they are looked at every two seconds.
            await until(lambda: not unjoined(consumer) and not unjoined(producer))
            assert consumer.air.refused_groups == refused == 12
            for subject in subjects:
                producer.port.raise_(subject)
            await until(lambda: len(lan.got["consumer"]) == len(subjects))

    run(story)


def test_l1_a_group_that_is_left_makes_room_for_one_that_waits() -> None:
    async def story() -> None:
        async with Lan() as lan:
            node = lan.node("node")
            with no_descriptor_left():
                for group in range(1_000, 1_030):
                    node.air.join(group)
                first, *others = unjoined(node)
                node.air.leave(1_000)
                assert unjoined(node) == others
                node.air.leave(others[0])
                assert unjoined(node) == others[1:]
            assert node.air._joined[first] == node.air._members[:1]

    run(story)


def test_l1_a_node_in_as_many_groups_as_may_be_joins_the_next_when_it_leaves_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(multicast, "GROUPS_MAX", 5)

    async def story() -> None:
        async with Lan() as lan:
            air = lan.node("node").air
            began = list(air._joined)
            for group in range(1_000, 1_100):
                air.join(group)
            first = 5 - len(began)
            assert list(air._joined) == [*began, *range(1_000, 1_000 + first)]
            assert len(air._crowded) == 5
            air.leave(1_000 + first)
            air.leave(1_000)
            assert list(air._joined) == [*began, *range(1_001, 1_000 + first), 1_001 + first]
            assert all(air._joined.values())

    run(story)


def test_l1_a_port_that_others_hold_for_themselves_is_refused() -> None:
    async def story() -> None:
        async with Lan() as lan:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
                taken.bind(("", lan.port))
                with pytest.raises(CannotMulticast, match=str(lan.port)):
                    lan.node("late")
            lan.nodes.clear()

    run(story)
