"""Discovery: beacons, the list of relevant proximities and how its entries age; types and collisions (S7, S8)."""

from itertools import count
from random import Random

import pytest

from roamcast.adhoc.proximity.groups import DISCOVERY_GROUP, description_of, group_id, group_of
from roamcast.adhoc.proximity.messages import Announced, Raised, Withdrawn
from roamcast.adhoc.proximity.node import PERIOD_TIMER, Proximity
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.model.context import Context
from roamcast.model.event import Announcement, ContentType, Event, EventType
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import Scope
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point, Velocity
from roamcast.node.boundary import (
    Announce,
    Broadcast,
    Deliver,
    Does,
    JoinGroup,
    LeaveGroup,
    Message,
    Moved,
    Note,
    Publish,
    Received,
    SetTimer,
    Start,
    Subscribe,
    TimerFired,
    Unannounce,
)
from tests.adhoc.field import Field, drives

STILL = Velocity(0.0, 0.0)
LITERAL = ProximityParams(discovery_lookahead_periods=0.0)
ROUNDS = count(1)


def node_at(x: float, params: ProximityParams = LITERAL, subject: str | None = "s", host: str = "c") -> Proximity:
    node = Proximity(params, Random(1))
    node.handle(0, Start(Context(host, Point(x, 0.0), 0, STILL)))
    if subject is not None:
        node.handle(0, Subscribe(Subscription(f"{host}:s", host, subject, 0, 10**12)))
    return node


def announcement(
    radius_m: float = 100.0,
    stationary: bool = False,
    subject: str = "s",
    name: str = "p:a",
    x: float = 0.0,
    **content: str,
) -> Announcement:
    circle = Circle(Point(x, 0.0), radius_m) if stationary else Anchored(Circle(Point(0.0, 0.0), radius_m), "p")
    types = {key: ContentType(value) for key, value in content.items()}
    return Announcement(name, EventType(subject, types), "p", circle, Point(x, 0.0))


def beacon(said: Announcement, naval_x: float = 0.0, at_us: int = 0, forward: bool = False, **more: int) -> Announced:
    return Announced(Point(naval_x, 0.0), STILL, at_us, next(ROUNDS), forward, 0, said, **more)  # type: ignore[arg-type]


def hear(node: Proximity, now_us: int, message: Message, group: int = DISCOVERY_GROUP) -> list[Does]:
    return node.handle(now_us, Received(message, "p", group))


def raised(said: Announcement, number: int = 1, at_us: int = 0, x: float = 0.0, **attributes: int) -> Raised:
    publisher = Context("p", Point(x, 0.0), at_us, STILL)
    scope = Scope(said.proximity)
    subject = said.event_type.subject
    event = Event(f"{said.id}:{number}", subject, publisher, at_us, at_us, dict(attributes), audience=scope)
    return Raised(event, said.id, said.id, number)


def of_kind(effects: list[Does], kind: type) -> list[Does]:
    return [effect for effect in effects if isinstance(effect, kind)]


def test_every_node_joins_the_discovery_group_at_its_start() -> None:
    """S8."""
    node = Proximity(LITERAL, Random(1))
    effects = node.handle(0, Start(Context("c", Point(0.0, 0.0))))
    assert effects[0] == JoinGroup(DISCOVERY_GROUP)
    assert isinstance(effects[-1], SetTimer)


def test_a_beacon_inside_enters_the_list_whether_there_is_a_subscription_or_not() -> None:
    """S8: the list is kept by place, independent of subscriptions (4.5.1); a group is joined only with one."""
    node, said = node_at(50, subject=None), announcement()
    assert of_kind(hear(node, 1, beacon(said)), JoinGroup) == []
    assert list(node.discovery.relevant) == ["p:a"]
    group = group_of("s", said.proximity or Circle(Point(0, 0), 1), said.initial_naval)
    effects = node.handle(2, Subscribe(Subscription("c:s", "c", "s", 2, 10**12)))
    assert of_kind(effects, JoinGroup) == [JoinGroup(group)]


def test_a_beacon_outside_enters_nothing() -> None:
    """S8."""
    node = node_at(101)
    assert hear(node, 1, beacon(announcement())) == []
    assert not node.discovery.relevant


def test_a_stationary_proximity_is_dropped_when_the_node_has_moved_out() -> None:
    """S8, 4.5.2: checked when it moves; the subscription stays."""
    node = node_at(50)
    hear(node, 1, beacon(announcement(stationary=True)))
    assert of_kind(node.handle(2, Moved(Context("c", Point(99.0, 0.0), 2, STILL))), LeaveGroup) == []
    assert of_kind(node.handle(3, Moved(Context("c", Point(101.0, 0.0), 3, STILL))), LeaveGroup) != []
    assert not node.discovery.relevant
    assert len(node.discovery.interests) == 1


def test_a_stationary_proximity_is_checked_every_period_too() -> None:
    """S8, 4.5.2: a node that drives out without turning is noticed at the next period."""
    node = node_at(50)
    hear(node, 1, beacon(announcement(stationary=True)))
    node.handle(2, Moved(Context("c", Point(99.0, 0.0), 2, Velocity(10.0, 0.0))))
    assert node.discovery.relevant
    assert of_kind(node.handle(1_000_002, TimerFired(PERIOD_TIMER)), LeaveGroup) != []


def test_a_mobile_proximity_is_dropped_when_the_node_has_moved_out() -> None:
    """S8, 4.5.1: checked when the node moves, against where the last beacon leads."""
    node, said = node_at(50), announcement()
    hear(node, 1, beacon(said))
    assert of_kind(node.handle(2, Moved(Context("c", Point(99.0, 0.0), 2, STILL))), LeaveGroup) == []
    assert of_kind(node.handle(3, Moved(Context("c", Point(500.0, 0.0), 3, STILL))), LeaveGroup) != []
    assert not node.discovery.relevant


def test_a_mobile_proximity_that_moved_on_is_dropped_at_the_next_period() -> None:
    """S8: the node rests, and the last beacon said how fast the producer drives."""
    node, said = node_at(50), announcement()
    hear(node, 1, Announced(Point(0.0, 0.0), Velocity(-40.0, 0.0), 1, next(ROUNDS), False, 0, said))
    assert of_kind(node.handle(1_000_000, TimerFired(PERIOD_TIMER)), LeaveGroup) == []
    assert of_kind(node.handle(2_000_000, TimerFired(PERIOD_TIMER)), LeaveGroup) != []


def test_a_convoy_stays_in_its_mobile_proximity_through_silence() -> None:
    """S8: node and producer drive alike; lost beacons end nothing."""
    node, said = node_at(50), announcement()
    node.handle(1, Moved(Context("c", Point(50.0, 0.0), 1, Velocity(40.0, 0.0))))
    hear(node, 1, Announced(Point(0.0, 0.0), Velocity(40.0, 0.0), 1, next(ROUNDS), False, 0, said))
    for second in range(1, 11):
        node.handle(second * 1_000_000, TimerFired(PERIOD_TIMER))
    assert list(node.discovery.relevant) == ["p:a"]


def test_no_car_stays_a_member_of_an_ambulance_that_is_gone() -> None:
    """S8: radius and lookahead exceed the radio's range, so that no beacon can show a car that it is outside."""
    cars = {f"c{number}": (number * 20.0, 5.0) for number in range(20)}
    field = Field({"p": drives(-200, 0, 40.0), **cars}, ProximityParams.paper())
    field.announce("p", 150)
    for car in cars:
        field.subscribe(car)
    joined: set[str] = set()
    for second in range(1, 20):
        field.run(second)
        here_m = -200 + 40.0 * second
        members = {car for car in cars if field.groups(car)}
        joined |= members
        # The margin of the lookahead, and what the ambulance drives in a period.
        assert all(abs(cars[car][0] - here_m) <= 150 + 60 + 40 + 1 for car in members)
    assert joined == set(cars)


def test_a_mobile_proximity_keeps_its_group_wherever_it_goes() -> None:
    """S7 and S8: it is identified by its initial naval."""
    node, said = node_at(50), announcement()
    hear(node, 1, beacon(said))
    group = node.discovery.relevant["p:a"].group
    assert of_kind(hear(node, 2, beacon(said, naval_x=80)), JoinGroup) == []
    assert node.discovery.relevant["p:a"].group == group
    assert node.discovery.relevant["p:a"].naval == Point(80.0, 0.0)


def test_a_local_mobile_proximity_never_expires_and_a_stationary_one_rests_while_its_producer_is_away() -> None:
    """S8, 4.5.2."""
    node = node_at(0, subject=None, host="p")
    node.handle(0, Announce(announcement()))
    node.handle(0, Announce(announcement(stationary=True, subject="t", name="p:b")))

    def advertised(now_us: int) -> list[str]:
        said = [each.message for each in node.handle(now_us, TimerFired(PERIOD_TIMER)) if isinstance(each, Broadcast)]
        return [each.announcement.id for each in said if isinstance(each, Announced)]

    assert advertised(1) == ["p:a", "p:b"]
    node.handle(2, Moved(Context("p", Point(500.0, 0.0), 2, STILL)))
    assert advertised(3) == ["p:a"]
    node.handle(4, Moved(Context("p", Point(10.0, 0.0), 4, STILL)))
    assert advertised(5) == ["p:a", "p:b"]


def test_a_beacon_of_a_mobile_proximity_says_where_it_is_now() -> None:
    """S8, 4.5.2: advertisements are the location updates."""
    node = Proximity(LITERAL, Random(1))
    node.handle(0, Start(Context("p", Point(0.0, 0.0), 0, Velocity(10.0, 0.0))))
    node.handle(0, Announce(announcement()))
    effects = node.handle(2_000_000, TimerFired(PERIOD_TIMER))
    said = next(each.message for each in effects if isinstance(each, Broadcast))
    assert isinstance(said, Announced)
    assert (said.naval, said.announcement.initial_naval) == (Point(20.0, 0.0), Point(0.0, 0.0))


def test_an_overtaken_beacon_changes_nothing() -> None:
    """S8: frames may arrive out of order."""
    node, said = node_at(50), announcement()
    older, newer = beacon(said, naval_x=-200), beacon(said)
    hear(node, 1, newer)
    assert hear(node, 2, older) == []
    assert node.discovery.relevant


def test_silence_ends_a_remote_proximity_unless_the_limit_is_off() -> None:
    """S8: a crashed producer's entries do not stay for ever; the paper has no such rule."""
    for limit, left in ((3, []), (0, ["p:a"])):
        node = node_at(50, ProximityParams(announcements_missed_max=limit))
        hear(node, 1, beacon(announcement()))
        node.handle(2_900_000, TimerFired(PERIOD_TIMER))
        assert list(node.discovery.relevant) == ["p:a"]
        effects = node.handle(3_900_000, TimerFired(PERIOD_TIMER))
        assert list(node.discovery.relevant) == left
        assert any(isinstance(each, Note) and each.what == "proximity_silent" for each in effects) is (limit > 0)


def test_a_late_beacon_does_not_bring_back_what_was_withdrawn() -> None:
    """S3."""
    node, said = node_at(50), announcement()
    hear(node, 1, beacon(said))
    hear(node, 2, Withdrawn("p:a"))
    hear(node, 3, beacon(said))
    assert not node.discovery.relevant


def test_the_list_is_bounded_and_says_what_it_drops() -> None:
    """S8."""
    node = node_at(50, ProximityParams(proximities_max=2))
    effects = [hear(node, 1, beacon(announcement(subject=f"s{n}", name=f"p:{n}"))) for n in range(4)]
    assert len(node.discovery.relevant) == 2
    assert [each.what for more in effects for each in more if isinstance(each, Note)] == ["proximity_dropped"] * 2


def test_a_second_structure_for_a_known_subject_is_refused_and_noted() -> None:
    """S1 and S7."""
    node = node_at(50)
    hear(node, 1, beacon(announcement(n="integer")))
    assert hear(node, 2, beacon(announcement(name="q:a", n="string"))) == [Note("type_mismatch", "s")]
    assert list(node.discovery.relevant) == ["p:a"]


def test_what_the_application_announces_counts_for_more_than_what_was_heard() -> None:
    """S1."""
    node = node_at(50, host="p")
    hear(node, 1, beacon(announcement(name="q:a", n="string")))
    effects = node.handle(2, Announce(announcement(n="integer")))
    assert Note("type_mismatch", "s") in effects
    assert list(node.discovery.relevant) == ["p:a"]


def test_an_event_of_another_structure_than_announced_is_not_delivered() -> None:
    """S7: the run-time type check."""
    node, said = node_at(50), announcement(n="integer")
    hear(node, 1, beacon(said))
    group = node.discovery.relevant["p:a"].group
    assert Note("type_mismatch", "p:a:1") in hear(node, 2, raised(said, 1, wrong=1), group)
    assert of_kind(hear(node, 3, raised(said, 2, n=1), group), Deliver) != []


def collision() -> tuple[str, str]:
    """Two subjects whose proximities get the same group id, found by search: a birthday among some thousand."""
    said = announcement()
    assert said.proximity is not None
    seen: dict[int, str] = {}
    rng = Random(1)
    for _ in range(100_000):
        subject = f"{rng.getrandbits(64):x}"
        found = group_id(description_of(subject, said.proximity, said.initial_naval))
        if found in seen:
            return seen[found], subject
        seen[found] = subject
    raise AssertionError


def test_colliding_groups_never_deliver_an_unwanted_event() -> None:
    """S7: two types share a group by a forged collision; each consumer gets its own only."""
    first, second = collision()
    field = Field({"p": (0, 0), "q": (0, 0), "a": (20, 0), "b": (30, 0), "everything": (40, 0)})
    field.subscribe("a", first)
    field.subscribe("b", second)
    field.subscribe("everything", "#")
    # Both are announced at the same place with the same shape, so that only the subjects differ.
    field.announce("p", 100, first)
    field.announce("q", 100, second)
    field.run(2)
    assert field.groups("a") == field.groups("b")
    one, other = field.raise_("p", first), field.raise_("q", second)
    field.run(3)
    assert (field.got("a"), field.got("b")) == ([one.id], [other.id])
    assert sorted(field.got("everything")) == sorted([one.id, other.id])
    # Each producer is in its group too, and hears the other's event there.
    assert field.witness.notes["stray_event"] == 4


def test_an_event_that_claims_a_larger_proximity_than_announced_is_refused() -> None:
    """S5 and S7."""
    node, said = node_at(50), announcement()
    hear(node, 1, beacon(said))
    group = node.discovery.relevant["p:a"].group
    wider = raised(announcement(radius_m=1e6))
    assert hear(node, 2, wider, group) == [Note("stray_event", "p:a:1")]


@pytest.mark.parametrize(
    "message",
    [
        Announced(Point(float("nan"), 0.0), STILL, 0, 1, True, 0, announcement()),
        Announced(Point(0.0, 0.0), Velocity(1e300, 0.0), 0, 1, True, 0, announcement()),
        Announced(Point(0.0, 0.0), Velocity(float("nan"), 0.0), 0, 1, True, 0, announcement()),
    ],
)
def test_a_beacon_from_nowhere_is_noted_and_changes_nothing(message: Message) -> None:
    """S8: positions that are not numbers."""
    node = node_at(50)
    assert [each.what for each in hear(node, 1, message) if isinstance(each, Note)] == ["bad_message"]
    assert not node.discovery.relevant


def test_a_node_that_does_not_know_where_it_is_enters_and_raises_nothing() -> None:
    """S8 and S10."""
    node = Proximity(LITERAL, Random(1))
    node.handle(0, Start(Context("p")))
    node.handle(0, Announce(announcement()))
    assert hear(node, 1, beacon(announcement(name="q:a"))) == []
    assert node.handle(2, Publish(raised(announcement()).event)) == [Note("no_position", "s")]


def test_what_is_not_announced_is_not_raised() -> None:
    """S3."""
    node = node_at(0, host="p")
    assert node.handle(1, Publish(raised(announcement()).event)) == [Note("not_announced", "s")]
    node.handle(2, Announce(announcement()))
    node.handle(3, Unannounce("p:a"))
    assert node.handle(4, Publish(raised(announcement()).event)) == [Note("not_announced", "s")]


def test_with_lookahead_a_fast_consumer_misses_nothing_on_entering() -> None:
    """S5: by the letter of the paper it does, between two beacons."""
    got = []
    for params in (ProximityParams(), LITERAL):
        field = Field({"p": (0, 0), "c": drives(-300, 0, 45.0)}, params)
        field.subscribe("c")
        field.announce("p", 100, stationary=True)
        for tenth in range(20, 120):
            field.run(tenth / 10)
            field.raise_("p")
        got.append(len(field.got("c")))
    assert got[0] == 44
    assert got[1] < 44
