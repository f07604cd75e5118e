"""Nothing is signed, so frames may be forged: one of them denies a proximity for some seconds, never for good (S8).

Also that nothing is kept for a proximity which this node has left, by whatever way (S6).
"""

from collections.abc import Callable
from random import Random

import pytest

from roamcast.adhoc.proximity.groups import DISCOVERY_GROUP
from roamcast.adhoc.proximity.messages import Announced, Raised, Wanted, Withdrawn
from roamcast.adhoc.proximity.node import Proximity
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.model.context import Context
from roamcast.model.event import Announcement, ContentType, Event
from roamcast.model.region import Anchored, Box, Circle, Polygon, Region
from roamcast.model.scope import Scope
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point, Velocity
from roamcast.node.boundary import Announce, Moved, Note, Received, Start, Subscribe, Unannounce, Unsubscribe
from tests.adhoc.field import SUBJECT, Field
from tests.adhoc.lone import ORDERED, ORIGIN, STILL, Lone, announcement

FAR = 2**60
KEPT = ProximityParams(announcements_missed_max=0)
"""As in the paper, nothing is forgotten in silence."""


def inside(said: Announcement, params: ProximityParams = KEPT) -> Lone:
    lone = Lone(params)
    lone.subscribe("c:s")
    lone.beacon(said)
    return lone


@pytest.mark.parametrize("claimed_round", [1, 5, FAR])
def test_s8_a_forged_withdrawal_holds_until_the_producer_is_heard_again(claimed_round: int) -> None:
    lone, said = inside(announcement()), announcement()
    lone.hear(Withdrawn("p:a", claimed_round))
    assert not lone.node.discovery.relevant
    for second in range(1, 8):
        lone.run(second)
        lone.beacon(said)
    assert lone.node.discovery.relevant["p:a"].member
    lone.event(said, 1)
    assert lone.got("c:s") == ["e1"]


def test_s3_a_true_withdrawal_holds_against_beacons_from_before_it() -> None:
    """A withdrawal is of a later round than every beacon before it."""
    lone, said = inside(announcement()), announcement()
    late = Announced(ORIGIN, STILL, 0, 6, False, 0, said)
    lone.hear(Withdrawn("p:a", 7))
    lone.run(0.5)
    lone.hear(late)
    assert not lone.node.discovery.relevant


def test_s8_a_withdrawal_older_than_the_latest_beacon_is_ignored() -> None:
    lone, said = inside(announcement()), announcement()
    for _ in range(5):
        lone.beacon(said)
    lone.hear(Withdrawn("p:a", 3))
    assert list(lone.node.discovery.relevant) == ["p:a"]


def test_s3_a_producer_withdraws_with_a_round_of_its_own() -> None:
    field = Field({"p": (0, 0), "c": (50, 0)})
    field.subscribe("c")
    field.announce("p", 100)
    field.run(3)
    known = field.nodes["c"].discovery.relevant
    (entry,) = known.values()
    last_round = entry.round
    field.port("p").unannounce(SUBJECT)
    field.run(3.1)
    assert not known
    (gone,) = field.nodes["c"].discovery.withdrawn.values()
    assert gone.round > last_round


def test_s3_nobody_withdraws_what_another_announced() -> None:
    lone = inside(announcement())
    for given in (Unannounce("p:a"), Unsubscribe("p:a")):
        lone.give(given)
    assert not any(isinstance(message, Withdrawn) for message in lone.said)
    assert list(lone.node.discovery.relevant) == ["p:a"]


def test_s8_a_forged_round_does_not_silence_the_true_beacons_for_good() -> None:
    lone, said = inside(announcement()), announcement()
    lone.hear(Announced(ORIGIN, STILL, 0, FAR, False, 0, said))
    for second in range(1, 8):
        lone.run(second)
        lone.beacon(said, latest=second)
    entry = lone.node.discovery.relevant["p:a"]
    assert (entry.round < FAR, entry.latest) == (True, 7)


@pytest.mark.parametrize("forged", [1, 2, 3])
@pytest.mark.parametrize("before", [0, 3])
def test_s14_forged_numbers_neither_block_nor_skip_an_ordered_stream_for_good(before: int, forged: int) -> None:
    """Also where they are the first that is heard of it, and where several confirm each other."""
    said = announcement(ORDERED)
    lone = inside(said)
    for number in range(1, before + 1):
        lone.event(said, number)
    for number in range(forged):
        lone.event(said, FAR - 100 + number)
    lone.run(5)
    for number in range(before + 1, before + 21):
        lone.run(5 + number)
        lone.event(said, number)
    lone.run(40)
    got = [name for name in lone.got("c:s") if len(name) < 5]
    assert got == sorted(got, key=lambda name: int(name[1:]))
    assert got[-10:] == [f"e{number}" for number in range(before + 11, before + 21)]
    if forged == 1 and before:
        assert len(got) == before + 20


def test_s11_a_forged_number_leaves_recovery_as_it_was() -> None:
    """A stream without order: the forged number is no reason to ask for anything, and a true gap is."""
    said = announcement()
    lone = inside(said)
    lone.event(said, 1)
    lone.event(said, FAR)
    assert lone.node.inbox.receptions["p:a"].latest == 1
    lone.event(said, 3)
    assert lone.node.inbox.receptions["p:a"].missing() == [2]
    assert lone.notes["sequence_doubted"] == 1


def test_s11_a_forged_latest_number_in_a_beacon_is_not_believed_alone() -> None:
    said = announcement(ORDERED)
    lone = inside(said)
    lone.event(said, 1)
    lone.beacon(said, latest=FAR)
    lone.event(said, 2)
    assert lone.got("c:s") == ["e1", "e2"]
    assert lone.node.inbox.receptions["p:a"].missing() == []


def test_s11_who_missed_very_many_events_follows_the_stream_with_its_next_word() -> None:
    """A true leap: the consumer was cut off while a thousand events were raised."""
    said = announcement()
    lone = inside(said)
    lone.event(said, 1)
    for _ in range(2):
        lone.beacon(said, latest=1_000)
    assert lone.node.inbox.receptions["p:a"].missing() == list(range(937, 1_001))


def test_s1_a_forged_first_structure_does_not_lock_out_the_true_producer() -> None:
    lone = Lone(KEPT)
    lone.subscribe("c:s")
    lone.beacon(announcement(name="x:a", n=ContentType.STRING))
    said = announcement()
    lone.run(1)
    lone.beacon(said)
    assert list(lone.node.discovery.relevant) == ["x:a"]
    for second in range(2, 6):
        lone.run(second)
        lone.beacon(said)
    assert list(lone.node.discovery.relevant) == ["p:a"]
    lone.event(said, 1)
    assert lone.got("c:s") == ["e1"]


def test_s1_a_structure_that_is_heard_of_keeps_its_subject() -> None:
    lone, said = inside(announcement()), announcement()
    for second in range(1, 10):
        lone.run(second)
        lone.beacon(said)
        lone.beacon(announcement(name="x:a", n=ContentType.STRING))
    assert list(lone.node.discovery.relevant) == ["p:a"]
    assert lone.notes["type_mismatch"] == 9


OUT_THERE = 1.7e308


@pytest.mark.parametrize(
    ("region", "space"),
    [
        (Box(Point(-OUT_THERE, -OUT_THERE), Point(OUT_THERE, OUT_THERE)), Plane()),
        (Circle(Point(2e9, 0.0), 3e9), Plane()),
        (Polygon((Point(0.0, -OUT_THERE), Point(OUT_THERE, 0.0), Point(-9.0, 9.0))), Plane()),
        (Box(Point(0.0, 0.0), Point(190.0, 5.0)), Earth()),
        (Polygon((Point(0.0, 0.0), Point(10.0, 0.0), Point(0.0, 91.0))), Earth()),
    ],
)
def test_s8_a_region_that_lies_outside_of_the_space_is_refused(region: Region, space: Space) -> None:
    """Its coordinates are finite, but what is reckoned with them is not."""
    node = Proximity(ProximityParams(), Random(1), space=space)
    node.handle(0, Start(Context("c", Point(1.0, 1.0), 0, Velocity(9.0, 0.0))))
    beacons = (
        Announced(Point(1.0, 1.0), Velocity(1e8, 0.0), 0, 1, True, 0, announcement(proximity=region)),
        Wanted(Point(1.0, 1.0), STILL, 0, 1, True, 0, "w", "p", "s", region, Point(1.0, 1.0)),
    )
    for beacon in beacons:
        (note,) = node.handle(1, Received(beacon, "p", DISCOVERY_GROUP))
        assert isinstance(note, Note)
        assert note.what == "bad_message"


@pytest.mark.parametrize("shape", [Box(Point(0.0, 0.0), Point(9.0, 9.0)), Circle(Point(1.0, 0.0), 9.0)])
def test_s8_a_proximity_that_moves_nearly_as_fast_as_light_stops_nobody(shape: Box | Circle) -> None:
    """So wide is what lies in its way that no region may be."""
    node = Proximity(ProximityParams(), Random(1))
    node.handle(0, Start(Context("c", Point(1.0, 1.0), 0, STILL)))
    node.handle(0, Subscribe(Subscription("c:s", "c", "s", 0, 2**53)))
    said = announcement(proximity=Anchored(shape, "p"))
    beacon = Announced(Point(500.0, 0.0), Velocity(2.9e8, 0.0), 0, 1, False, 0, said)
    node.handle(1, Received(beacon, "p", DISCOVERY_GROUP))
    assert list(node.discovery.relevant) == ["p:a"]


@pytest.mark.parametrize(("sequence", "age_us"), [(0, 0), (-1, 0), (2**62, 0), (1, 2**62), (1, -(2**62))])
def test_s8_a_number_that_counts_nothing_is_refused(sequence: int, age_us: int) -> None:
    said = announcement()
    lone = inside(said)
    event = Event("e", "s", Context("p", ORIGIN, 0, STILL), 0, 0, audience=Scope(said.proximity))
    lone.hear(Raised(event, "p:a", "p:a", sequence, True, age_us), lone.node.discovery.relevant["p:a"].group)
    assert (lone.notes["bad_message"], lone.delivered) == (1, [])


@pytest.mark.parametrize("anchor", ["p", "x"])
def test_s5_what_somebody_else_raises_in_a_proximity_that_moves_with_its_host_is_not_delivered(anchor: str) -> None:
    """Where the other one is says nothing of where the proximity is."""
    said = announcement(proximity=Anchored(Circle(ORIGIN, 100.0), anchor))
    lone = inside(said)
    publisher = Context("p" if anchor == "x" else "x", Point(60.0, 0.0), 0, STILL)
    event = Event("e", "s", publisher, 0, 0, audience=Scope(said.proximity))
    lone.hear(Raised(event, "p:a", "x:a", 1), lone.node.discovery.relevant["p:a"].group)
    assert (lone.notes["stray_event"], lone.delivered) == (1, [])


def kept(lone: Lone) -> int:
    return len(lone.node.inbox.receptions) + len(lone.node.inbox.orders)


def unsubscribes(lone: Lone) -> None:
    lone.give(Unsubscribe("c:s"))


def withdrawn(lone: Lone) -> None:
    lone.hear(Withdrawn("p:a"))


def moves_out(lone: Lone) -> None:
    lone.give(Moved(Context("c", Point(500.0, 0.0))))


def announces_otherwise(lone: Lone) -> None:
    region = Anchored(Circle(ORIGIN, 10.0), "c")
    said = announcement(name="c:a", proximity=region, n=ContentType.STRING)
    lone.give(Announce(Announcement("c:a", said.event_type, "c", region, ORIGIN)))


def hears_another_structure(lone: Lone) -> None:
    lone.run(10)
    lone.beacon(announcement(name="x:a", n=ContentType.STRING))
    lone.node.inbox.close("x:a")


def starts_again(lone: Lone) -> None:
    lone.give(Start(Context("c", Point(50.0, 0.0), 0, STILL)))


@pytest.mark.parametrize(
    "leave", [unsubscribes, withdrawn, moves_out, announces_otherwise, hears_another_structure, starts_again]
)
def test_s6_nothing_is_kept_of_streams_that_are_not_listened_to_any_more(leave: Callable[[Lone], None]) -> None:
    said = announcement(ORDERED, proximity=Circle(ORIGIN, 100.0))
    lone = inside(said)
    lone.event(said, 1)
    assert kept(lone) == 2
    leave(lone)
    assert kept(lone) == 0


def test_s6_streams_stay_while_another_subscription_wants_them() -> None:
    said = announcement(ORDERED)
    lone = inside(said)
    lone.subscribe("other", "#")
    lone.event(said, 1)
    lone.give(Unsubscribe("c:s"))
    assert kept(lone) == 2
    assert lone.node.inbox.orders["p:a"].reached == {"other": 1}
    lone.event(said, 2)
    assert lone.got("other") == ["e1", "e2"]
