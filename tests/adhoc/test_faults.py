"""Whatever goes wrong: no exception, nothing twice, nothing outside a proximity; delivery resumes (S5, S8, S11)."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roamcast.adhoc.proximity.groups import DISCOVERY_GROUP
from roamcast.adhoc.proximity.messages import Announced, Missed, Raised, Wanted, Withdrawn
from roamcast.adhoc.proximity.node import PERIOD_TIMER, Proximity
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.model.context import Context
from roamcast.model.event import Announcement, Delivery, Event, EventType
from roamcast.model.region import Anchored, Box, Circle, Polygon, Region
from roamcast.model.scope import Scope
from roamcast.model.space import Earth, Plane, Space
from roamcast.model.subscription import Subscription
from roamcast.model.values import BadValue, Point, Velocity
from roamcast.movement.legs import Leg
from roamcast.movement.waypoint import RandomWaypoint
from roamcast.node.boundary import (
    Announce,
    Deliver,
    Input,
    Moved,
    Publish,
    Received,
    Start,
    Subscribe,
    TimerFired,
    Unannounce,
    Unsubscribe,
)
from roamcast.node.observer import Observer
from roamcast.sim.faults import Crash, FaultParams, Pause
from roamcast.sim.radio import SharedMediumParams
from tests.adhoc.field import Field, drives
from tests.effort import examples

HOSTS = [f"h{number}" for number in range(8)]
RADIUS_M = 250.0
SPEED_MPS = 20.0


class Strict(Observer):
    """Fails when an event reaches somebody outside its proximity, by true positions at that microsecond.

    An event carries its producer's velocity, so the only excuse is that the producer turned while it was under way.
    """

    def __init__(self) -> None:
        self.field: Field | None = None
        self.seen: Counter[tuple[str, str]] = Counter()
        self.tolerance_m = 0.0
        self.turned_us: dict[str, int] = {}

    def moved(self, now_us: int, context: Context) -> None:
        self.turned_us[context.host] = now_us

    def delivered(self, now_us: int, host: str, event: Event, subscription_id: str) -> None:
        assert self.field is not None
        self.seen[(event.id, subscription_id)] += 1
        assert self.seen[(event.id, subscription_id)] == 1, f"{event.id} twice at {host}"
        contexts = self.field.world.configuration().contexts
        here, producer = contexts[host].position, contexts.get(event.publisher.host)
        if producer is None or producer.position is None:
            return
        published_us = event.published_us
        offset_us = self.field.world.by_name[event.publisher.host].host.clock_offset_us
        turned_us = self.turned_us.get(event.publisher.host, 0)
        slack_m = self.tolerance_m
        if turned_us > published_us - offset_us:
            slack_m += 2 * SPEED_MPS * (now_us - (published_us - offset_us)) / 1e6
        assert here is not None
        away_m = ((here.x - producer.position.x) ** 2 + (here.y - producer.position.y) ** 2) ** 0.5
        assert away_m <= RADIUS_M + slack_m, f"{event.id} at {host}, {away_m:.2f} m away"


def wandering(seed: int) -> dict[str, tuple[float, float] | list[Leg]]:
    model = RandomWaypoint(width_m=700, height_m=700, speed_min_mps=5, speed_max_mps=SPEED_MPS)
    hosts: dict[str, tuple[float, float] | list[Leg]] = {}
    for index, host in enumerate(HOSTS):
        legs = model.legs(Random(f"{seed}/{host}"), index, len(HOSTS))
        hosts[host] = [next(legs) for _ in range(60)]
    return hosts


def wild_run(
    seed: int, faults: FaultParams, delivery: Delivery | None = None, lifetime_s: float = 2.0, **settings_: Any
) -> Field:
    strict = Strict()
    field = Field(wandering(seed), faults=faults, seed=seed, observers=(strict,), **settings_)
    strict.field = field
    # With clocks that differ, an age misses the time on the air and whatever the quickest message was delayed by.
    strict.tolerance_m = 2 * SPEED_MPS * 0.15 if faults.clock_offset_ms else 1e-6
    rng = Random(seed)
    for host in HOSTS:
        field.subscribe(host)
    for host in HOSTS[:3]:
        field.announce(host, RADIUS_M, delivery=delivery)
    for step in range(20, 200):
        field.run(step / 10)
        host = rng.choice(HOSTS[:3])
        body = field.world.by_name[host]
        if not body.up:
            continue
        if host not in field.ports:
            # Restarted after a crash: its application announces again.
            field.announce(host, RADIUS_M, delivery=delivery)
            field.subscribe(host)
        field.raise_(host, lifetime_s=lifetime_s)
    field.run(24)
    return field


@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([0.0, 1_000.0]),
    st.sampled_from(["none", "sender"]),
    st.sampled_from([0.0, 5.0]),
)
@example(91, 0.0, 0.0, "none", 5.0)
@examples(25)
def test_nothing_twice_and_nothing_outside_a_proximity_ever(
    seed: int, loss: float, clock_offset_ms: float, order: Any, lifetime_s: float
) -> None:
    """S5: producers and consumers wander, one crashes and returns, one freezes, frames are lost, doubled and late."""
    faults = FaultParams(
        loss=loss,
        duplicate=0.2,
        reorder=0.2,
        reorder_by_ms=100,
        refuse_share=0.2,
        clock_offset_ms=clock_offset_ms,
        crash=(Crash("h0", 8, 11, keeps_disk=False), Crash("h5", 6, 9)),
        pause=(Pause("h4", 12, 13.5),),
    )
    # With clocks that agree, ages are exact if no delay is taken for a difference of clocks.
    params = ProximityParams() if clock_offset_ms else ProximityParams(clocks_agree_ms=120.0)
    field = wild_run(seed, faults, Delivery(order=order), lifetime_s, params=params)
    assert len(field.witness.deliveries) > 50


def test_the_strict_observer_can_fail() -> None:
    """A delivery to somebody who is outside is found."""
    strict = Strict()
    field = Field({"p": (0, 0), "c": (RADIUS_M + 1, 0)}, observers=(strict,))
    strict.field = field
    event = Event("e", "s", Context("p", Point(0, 0)), 0, 0)
    with pytest.raises(AssertionError, match=r"251\.00 m away"):
        strict.delivered(1, "c", event, "x")
    with pytest.raises(AssertionError, match="twice"):
        strict.delivered(1, "c", event, "x")


def test_on_a_shared_medium_collisions_are_made_good() -> None:
    """S11: a real channel with contention loses frames; lasting events arrive all the same."""
    field = Field(
        {f"h{n}": (n % 4 * 120.0, n // 4 * 120.0) for n in range(16)},
        ProximityParams(forward_jitter_ms=5.0),
        SharedMediumParams(range_m=200),
    )
    for number in range(1, 16):
        field.subscribe(f"h{number}")
    field.announce("h0", 600)
    raised = []
    for second in range(3, 8):
        field.run(second)
        raised.append(field.raise_("h0", lifetime_s=30).id)
    field.run(15)
    for number in range(1, 16):
        assert sorted(field.got(f"h{number}")) == sorted(raised)


def test_delivery_resumes_after_the_producer_crashed_and_came_back() -> None:
    """S8: the new announcement is found, the old one is forgotten in silence."""
    params = ProximityParams(announcements_missed_max=3)
    field = Field({"p": (0, 0), "c": (50, 0)}, params, faults=FaultParams(crash=(Crash("p", 3, 5),)))
    field.subscribe("c")
    field.announce("p", 100)
    field.run(2)
    before = field.raise_("p")
    field.run(6)
    field.announce("p", 100)
    field.run(8)
    after = field.raise_("p")
    field.run(12)
    assert field.got("c") == [before.id, after.id]
    assert len(field.nodes["c"].discovery.relevant) == 1
    assert field.witness.notes["proximity_silent"] == 1


def test_delivery_resumes_after_a_consumer_crashed_and_came_back() -> None:
    """S8: it knows nothing, and hears the next beacon."""
    field = Field({"p": (0, 0), "c": (50, 0)}, faults=FaultParams(crash=(Crash("c", 3, 5),)))
    field.subscribe("c")
    field.announce("p", 100)
    field.run(5.5)
    field.subscribe("c")
    field.run(7)
    event = field.raise_("p")
    field.run(8)
    assert field.got("c") == [event.id]


@pytest.mark.parametrize("offset_ms", [1_000.0, 30_000.0])
def test_clocks_that_differ_change_nothing_about_who_gets_what(offset_ms: float) -> None:
    """S5: a mobile producer and short-lived events, with clocks off by seconds."""
    got = []
    for limit in (0.0, offset_ms):
        faults = FaultParams(clock_offset_ms=limit)
        field = Field({"p": drives(0, 0, 30.0), "c": (250.0, 0.0), "d": (400.0, 40.0)}, faults=faults)
        for host in "cd":
            field.subscribe(host)
        field.announce("p", 101.5)
        for tenth in range(10, 200):
            field.run(tenth / 10)
            field.raise_("p", lifetime_s=0.05)
        field.run(21)
        got.append([sorted(field.got(host)) for host in "cd"])
    assert got[0] == got[1]
    assert min(len(each) for each in got[0]) > 50


def test_tables_stay_bounded_under_a_flood_of_announcements_and_events() -> None:
    """S8 and S11: every table has a limit, and what is dropped is noted."""
    params = ProximityParams(
        proximities_max=5, streams_max=4, seen_ids_max=20, forwards_max=3, cached_events_max=6, held_events_max=4
    )
    node = Proximity(params, Random(1))
    still = Velocity(0.0, 0.0)
    node.handle(0, Start(Context("c", Point(0.0, 0.0), 0, still)))
    node.handle(0, Subscribe(Subscription("s", "c", "#", 0, 10**15)))
    for number in range(200):
        circle = Anchored(Circle(Point(0.0, 0.0), 500.0), f"p{number}")
        said = Announcement(f"a{number}", EventType(f"t{number}"), f"p{number}", circle, Point(1.0, 1.0))
        beacon = Announced(Point(0.0, 0.0), still, number, 1, True, 0, said, 10**9, tuple(range(100)))
        node.handle(number, Received(beacon, "p", DISCOVERY_GROUP))
        node.handle(number, Received(Withdrawn(f"a{number - 3}"), "p", DISCOVERY_GROUP))
        for entry in list(node.discovery.relevant.values()):
            producer = Context(f"p{number}", Point(0.0, 0.0), number, still)
            event = Event(f"e{number}", entry.subject, producer, number, number + 10, audience=Scope(entry.region))
            message = Raised(event, entry.id, f"{entry.id}/{number}", 50 + number, True, 0, Delivery(order="sender"))
            node.handle(number, Received(message, "p", entry.group))
    assert len(node.discovery.relevant) <= 5
    assert len(node.discovery.withdrawn) <= 5
    assert len(node.inbox.receptions) <= 4
    assert len(node.inbox.orders) <= 4
    assert len(node.forwards.waiting) <= 3
    assert len(node.forwarded) <= 20
    assert len(node.clocks.lags) <= 5
    assert all(len(order.held) <= 4 for order in node.inbox.orders.values())


POINTS = st.builds(Point, st.floats(allow_nan=True), st.floats(allow_nan=True))
NEAR = st.builds(Point, st.floats(-200, 200), st.floats(-200, 200))
VELOCITIES = st.none() | st.builds(Velocity, st.floats(), st.floats())
INTEGERS = st.integers(-(2**63), 2**63 - 1)
IDS = st.sampled_from(["a", "b", "c", "s", ""])
CIRCLE = Circle(Point(0.0, 0.0), 300.0)
COORDINATES = st.floats(-400, 400) | st.floats(allow_nan=False, allow_infinity=False)
CORNERS = st.builds(Point, COORDINATES, COORDINATES)


def possible(make: Callable[..., Region], *parts: Any) -> Region:
    """A region, or the circle where there is none: what encloses no area cannot be decoded either."""
    try:
        return make(*parts)
    except BadValue:
        return CIRCLE


SHAPES = st.one_of(
    st.just(CIRCLE),
    st.builds(Circle, CORNERS, st.floats(1e-300, 1.7e308)),
    st.builds(partial(possible, Box), CORNERS, CORNERS),
    st.builds(partial(possible, Polygon), st.lists(CORNERS, min_size=3, max_size=5).map(tuple)),
)
REGIONS = SHAPES | st.builds(partial(possible, Anchored), SHAPES, st.sampled_from(["p", "c", "x"]), CORNERS)
ANNOUNCEMENTS = st.builds(
    Announcement,
    IDS.filter(bool),
    st.sampled_from([EventType("s"), EventType("t")]),
    IDS.filter(bool),
    st.none() | REGIONS,
    NEAR,
)
SCOPES = st.builds(Scope, st.none() | REGIONS)
EVENTS = st.builds(
    lambda name, subject, where, at_us, scope: Event(
        name or "e", subject, Context("p", where, at_us), at_us, at_us + 1_000, audience=scope
    ),
    IDS,
    st.sampled_from(["s", "t"]),
    NEAR,
    st.integers(0, 10**9),
    SCOPES,
)
HEARD = st.one_of(
    st.builds(
        Announced,
        POINTS | NEAR,
        VELOCITIES,
        INTEGERS,
        INTEGERS,
        st.booleans(),
        INTEGERS,
        ANNOUNCEMENTS,
        INTEGERS,
        st.lists(INTEGERS, max_size=4).map(tuple),
    ),
    st.builds(
        Wanted,
        POINTS | NEAR,
        VELOCITIES,
        INTEGERS,
        INTEGERS,
        st.booleans(),
        INTEGERS,
        IDS,
        IDS,
        st.sampled_from(["s", "#", "a/#/b", ""]),
        REGIONS,
        POINTS | NEAR,
    ),
    st.builds(Withdrawn, IDS, INTEGERS),
    st.builds(Raised, EVENTS, IDS, IDS, INTEGERS, st.booleans(), INTEGERS),
    st.builds(
        Missed,
        IDS,
        INTEGERS,
        IDS,
        IDS,
        st.lists(INTEGERS, max_size=4).map(tuple),
        POINTS | NEAR,
        st.booleans(),
        st.none() | POINTS | NEAR,
        st.floats(),
    ),
)


@given(
    st.lists(st.tuples(HEARD, st.booleans()), max_size=30),
    st.randoms(use_true_random=False),
    st.sampled_from([Plane(), Earth()]),
)
@examples(300)
def test_whatever_is_heard_raises_nothing_and_delivers_nothing_twice(
    heard: list[tuple[Any, bool]], rng: Random, space: Space
) -> None:
    """S7 and S8: decodable nonsense of every kind, in the discovery group and in groups the node has joined."""
    hear_all(Proximity(ProximityParams(), rng, space=space), heard)


def hear_all(node: Proximity, heard: list[tuple[Any, bool]]) -> None:
    """Gives a node what it hears, in all its groups or that of discovery alone, and everything else in between."""
    node.handle(0, Start(Context("c", Point(0.0, 0.0), 0, Velocity(1.0, 0.0))))
    node.handle(0, Subscribe(Subscription("s", "c", "s", 0, 10**15)))
    node.handle(0, Subscribe(Subscription("w", "c", "t", 0, 10**15, publishers=Scope(Anchored(CIRCLE, "c")))))
    node.handle(0, Announce(Announcement("c", EventType("s"), "c", Anchored(CIRCLE, "c"), Point(0.0, 0.0))))
    delivered: Counter[tuple[str, str]] = Counter()
    given_: list[Input] = []
    for message, everywhere in heard:
        groups = [DISCOVERY_GROUP, *node.discovery.groups] if everywhere else [DISCOVERY_GROUP]
        given_ = [Received(message, "p", group) for group in groups]
        given_ += [TimerFired(PERIOD_TIMER), TimerFired("recover a"), TimerFired("order a"), TimerFired("forward 1")]
        for each in given_:
            for effect in node.handle(1_000_000, each):
                if isinstance(effect, Deliver):
                    delivered[(effect.event.id, effect.subscription_id)] += 1
        assert all(times == 1 for times in delivered.values())
    for each in (Unsubscribe("s"), Unannounce("c"), Unannounce("nothing"), Moved(Context("c"))):
        node.handle(2_000_000, each)
    node.handle(2_000_000, Publish(Event("x", "s", Context("c"), 0, 0)))


def test_the_hearing_of_nonsense_can_fail() -> None:
    """A node that remembers a single event delivers one twice, if that comes in two streams; others do not."""
    said = Announcement("a", EventType("s"), "p", Anchored(CIRCLE, "p"), Point(0.0, 0.0))
    producer = Context("p", Point(0.0, 0.0), 999_000)
    one, other = (Event(name, "s", producer, 999_000, 1_999_000, audience=Scope(said.proximity)) for name in "ab")
    heard: list[tuple[Any, bool]] = [
        (Announced(Point(0.0, 0.0), None, 1_000_000, 1, False, 0, said), False),
        (Raised(one, "a", "a", 1), True),
        (Raised(other, "a", "a", 2), True),
        (Raised(one, "a", "b", 1), True),
    ]
    hear_all(Proximity(ProximityParams(), Random(1)), heard)
    with pytest.raises(AssertionError):
        hear_all(Proximity(ProximityParams(seen_ids_max=1), Random(1)), heard)
