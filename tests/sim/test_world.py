"""The world as a runtime: lives of a host, what a node is made from, and messages as bytes."""

import gc
from collections.abc import Iterator

import pytest

from roamcast.model.places import movement_graph
from roamcast.model.values import Point
from roamcast.movement.legs import Leg, Track, absent, resting, resting_forever
from roamcast.node.boundary import Broadcast, Does, Input, LinkDown, LinkUp, Message, Received, Send, Start, Store
from roamcast.node.codec import Codec
from roamcast.node.host import Host
from roamcast.node.kit import Seat
from roamcast.node.port import Port
from roamcast.sim.faults import Crash, FaultParams
from roamcast.sim.hosts import Resident
from roamcast.sim.links import LinkParams
from roamcast.sim.radio import UnitDiskParams
from roamcast.sim.world import World
from tests.sim.worlds import Diary, Notes, Said, SmallWorld

DISK = UnitDiskParams(range_m=200)
SECOND_US = 1_000_000
HERE = Point(0, 0)
VISITS: list[Leg] = [
    absent(0, SECOND_US, HERE),
    resting(SECOND_US, HERE, 2 * SECOND_US),
    absent(3 * SECOND_US, 6 * SECOND_US, HERE),
    resting_forever(6 * SECOND_US, HERE),
]
"""There from 1 s to 3 s, and again from 6 s on."""


def counts_its_starts(now_us: int, given: Input) -> list[Does]:
    return [Store("starts", given.stored.get("starts", b"") + b"x")] if isinstance(given, Start) else []


def starts(small: SmallWorld, host: str) -> list[tuple[float, bool, dict[str, bytes]]]:
    """One for each life."""
    found = []
    for diary in small.diaries[host]:
        for time_us, given in diary.entries:
            if isinstance(given, Start):
                found.append((time_us / 1e6, given.restarted, given.stored))
    return found


def test_a_host_that_leaves_and_returns_is_a_new_node_on_its_old_disk() -> None:
    small = SmallWorld({"a": list(VISITS), "b": (10, 0)}, DISK, answers={"a": counts_its_starts})
    for second in (2, 4, 7):
        small.does(second, "b", Broadcast(Said(f"at {second}")))
    small.run(8)
    assert starts(small, "a") == [(1.0, False, {}), (6.0, True, {"starts": b"x"})]
    first, second_life = small.diaries["a"]
    assert first.heard() == ["at 2"]
    assert second_life.heard() == ["at 7"]


def test_each_life_of_a_host_draws_from_a_generator_of_its_own() -> None:
    small = SmallWorld({"a": list(VISITS)}, DISK)
    small.run(8)
    first, second = (diary.seat.rng.random() for diary in small.diaries["a"])
    assert first != second


class Ticking:
    def __init__(self, ticks: list[tuple[float, int]], number: int) -> None:
        self.ticks = ticks
        self.number = number

    def start(self, port: Port) -> None:
        port.every(0.5, lambda: self.ticks.append((port.ground.now_us() / 1e6, self.number)))


def test_the_application_of_a_host_that_left_is_dead_and_a_new_one_starts_when_it_returns() -> None:
    ticks: list[tuple[float, int]] = []
    made: list[Ticking] = []

    def make() -> Ticking:
        made.append(Ticking(ticks, len(made)))
        return made[-1]

    there_again = [resting(0, HERE, 1_100_000), absent(1_100_000, 1_300_000, HERE), resting_forever(1_300_000, HERE)]
    small = SmallWorld({"a": there_again}, DISK, applications={"a": make})
    small.run(2)
    assert ticks == [(0.0, 0), (0.5, 0), (1.0, 0), (1.3, 1), (1.8, 1)]


def test_what_a_dead_application_still_does_reaches_nobody() -> None:
    ports: list[Port] = []

    class Keeps:
        def start(self, port: Port) -> None:
            ports.append(port)

    small = SmallWorld({"a": list(VISITS)}, DISK, applications={"a": Keeps})

    def acts() -> None:
        ports[0].subscribe("x", lambda event: None)
        ports[0].set(mood="late")

    small.at(7, acts)
    small.run(8)
    assert small["a"].kinds() == ["Start"]
    assert small.world.context(small.world.by_name["a"]).attributes == {}


def test_a_crash_that_is_over_while_the_host_is_away_brings_it_back_restarted() -> None:
    faults = FaultParams(crash=(Crash("a", 2, 4),))
    small = SmallWorld({"a": list(VISITS)}, DISK, faults=faults, answers={"a": counts_its_starts})
    small.run(8)
    assert starts(small, "a") == [(1.0, False, {}), (6.0, True, {"starts": b"x"})]


def test_a_crash_while_the_host_is_away_can_take_its_disk() -> None:
    faults = FaultParams(crash=(Crash("a", 4, 5, keeps_disk=False),))
    small = SmallWorld({"a": list(VISITS)}, DISK, faults=faults, answers={"a": counts_its_starts})
    small.run(8)
    assert starts(small, "a") == [(1.0, False, {}), (6.0, True, {})]


def test_a_host_whose_crash_outlasts_its_absence_returns_at_the_restart() -> None:
    faults = FaultParams(crash=(Crash("a", 2, 7),))
    small = SmallWorld({"a": list(VISITS)}, DISK, faults=faults)
    small.run(8)
    assert [(at_s, restarted) for at_s, restarted, _ in starts(small, "a")] == [(1.0, False), (7.0, True)]


def test_peers_hear_when_a_host_leaves_and_when_it_returns() -> None:
    small = SmallWorld({"a": list(VISITS), "b": (10, 0)}, links=[LinkParams("a", "b")])
    small.run(8)
    changes = [
        (time_us / 1e6, given) for time_us, given in small["b"].entries if isinstance(given, LinkUp | LinkDown)
    ]
    assert changes == [(1.0, LinkUp("a")), (3.0, LinkDown("a")), (6.0, LinkUp("a"))]


def test_a_node_is_made_with_the_movement_graph_of_the_world() -> None:
    """R5: it needs it for myloc."""
    graph = movement_graph({"a": ("b",)})
    small = SmallWorld({"a": (0, 0)}, graph=graph)
    assert small["a"].seat.graph is graph


def test_a_message_arrives_as_what_its_bytes_say() -> None:
    """P1: not as the object that was sent."""
    sent = Said("hello")
    small = SmallWorld({"a": (0, 0), "b": (10, 0)}, DISK, links=[LinkParams("a", "b")])
    small.does(1, "a", Broadcast(sent))
    small.does(2, "a", Send("b", sent))
    small.run(3)
    received = [given.message for _, given in small["b"].entries if isinstance(given, Received)]
    assert received == [sent, sent]
    assert all(message is not sent for message in received)


class Loose(Message, frozen=True, tag="loose"):
    """A message whose field is not what it says: it becomes bytes, but not a message again."""

    number: int


def loose_world(round_trip: bool) -> tuple[World, list[Diary]]:
    diaries: list[Diary] = []

    def make_node(seat: Seat) -> Diary:
        diaries.append(Diary(seat))
        return diaries[-1]

    residents = [Resident(name, Track([resting_forever(0, HERE)]), make_node) for name in ("a", "b")]
    world = World(residents, Codec((Loose,)), 1, DISK, round_trip=round_trip)
    wrong = Loose("text")  # type: ignore[arg-type]
    world.kernel.at(SECOND_US, world.perform, world.by_name["a"].host, Broadcast(wrong))
    return world, diaries


def test_a_message_that_cannot_be_read_again_stops_a_run_with_round_trip_and_only_then() -> None:
    world, diaries = loose_world(round_trip=False)
    list(world.run(2 * SECOND_US))
    assert diaries[1].kinds() == ["Start", "Received"]
    world, _ = loose_world(round_trip=True)
    with pytest.raises(Exception, match="malformed"):
        list(world.run(2 * SECOND_US))


@pytest.mark.parametrize("effect", [Broadcast(Said("\ud800")), Broadcast(Said("\ud800"), jitter_us=1_000)])
def test_a_broadcast_that_cannot_be_bytes_is_noted_and_not_sent(effect: Does) -> None:
    small = SmallWorld({"a": (0, 0), "b": (10, 0)}, DISK)
    small.does(1, "a", effect)
    small.does(2, "a", Broadcast(Said("fine")))
    small.run(3)
    assert [what for _, _, what in small.notes.notes] == ["unsendable"]
    assert len(small.notes.sent) == 1
    assert small["b"].heard() == ["fine"]


def test_a_message_too_long_for_a_link_is_noted_and_not_sent() -> None:
    notes = Notes()
    residents = [Resident(name, Track([resting_forever(0, HERE)]), Diary) for name in ("a", "b")]
    small_codec = Codec((Said,), bytes_max=20)
    world = World(residents, small_codec, 1, links=[LinkParams("a", "b")], observers=(notes,))
    host = world.by_name["a"].host
    world.kernel.at(SECOND_US, world.perform, host, Send("b", Said("x" * 100)))
    list(world.run(2 * SECOND_US))
    assert [what for _, _, what in notes.notes] == ["unsendable"]
    assert notes.sent == []


def test_an_effect_the_world_does_not_know_is_an_error() -> None:
    small = SmallWorld({"a": (0, 0)})
    host: Host = small.world.by_name["a"].host
    with pytest.raises(AssertionError):
        small.world.perform(host, "dance")  # type: ignore[arg-type]


def test_more_hosts_leave_the_clocks_and_nodes_of_the_others_as_they_are() -> None:
    faults = FaultParams(clock_offset_ms=500)
    few = SmallWorld({"a": (0, 0)}, faults=faults)
    many = SmallWorld({"c": (5, 0), "a": (0, 0), "b": (9, 0)}, faults=faults)
    offsets = [small.world.by_name["a"].host.clock_offset_us for small in (few, many)]
    assert offsets[0] == offsets[1] != 0
    assert few["a"].seat.rng.random() == many["a"].seat.rng.random()


@pytest.fixture
def collector() -> Iterator[None]:
    """Leaves the collector of garbage as it was."""
    was_on = gc.isenabled()
    yield
    gc.enable() if was_on else gc.disable()


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.usefixtures("collector")
def test_a_step_leaves_the_collector_of_garbage_as_it_was(on: bool) -> None:
    small, within = SmallWorld({"a": (0, 0)}), list[bool]()
    small.at(0.5, lambda: within.append(gc.isenabled()))
    gc.enable() if on else gc.disable()
    small.run(1)
    assert (within, gc.isenabled()) == ([False], on)


@pytest.mark.usefixtures("collector")
def test_a_step_that_fails_leaves_the_collector_of_garbage_on() -> None:
    small = SmallWorld({"a": (0, 0)})

    def fails() -> None:
        raise ArithmeticError

    small.at(0.5, fails)
    gc.enable()
    with pytest.raises(ArithmeticError):
        small.run(1)
    assert gc.isenabled()
