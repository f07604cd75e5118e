"""Who gets an event: whoever is inside the proximity at that time, subscribed, and accepts it (S3 to S6)."""

import math
from random import Random

import pytest

from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.model.event import BadEvent, ContentType, Delivery
from roamcast.model.filter import parse_text
from roamcast.model.match import matches
from roamcast.model.region import Circle, Polygon, Shape, rectangle
from roamcast.model.scope import Scope
from roamcast.model.subscription import Subscription
from roamcast.model.values import BadValue, Point
from roamcast.movement.legs import Leg
from roamcast.node.observer import Observer
from tests.adhoc.field import ORIGIN, SUBJECT, Field, drives

TRIANGLE = Polygon((Point(-50, -50), Point(50, -50), Point(0, 50)))


@pytest.mark.parametrize(
    ("shape", "inside", "outside"),
    [
        (Circle(ORIGIN, 100.0), (0.0, 100.0), (0.0, 100.1)),
        (rectangle(100, 60), (50.0, 30.0), (50.0, 30.1)),
        (TRIANGLE, (0.0, 49.0), (30.0, 40.0)),
        (Circle(Point(80.0, 0.0), 50.0), (125.0, 0.0), (-40.0, 0.0)),
    ],
)
@pytest.mark.parametrize("stationary", [True, False])
def test_shapes_decide_who_is_inside(
    shape: Shape, inside: tuple[float, float], outside: tuple[float, float], stationary: bool
) -> None:
    """S2 and S5."""
    field = Field({"p": (0, 0), "in": inside, "out": outside})
    field.subscribe("in")
    field.subscribe("out")
    field.announce("p", shape, stationary=stationary)
    field.run(2)
    event = field.raise_("p")
    field.run(3)
    assert (field.got("in"), field.got("out")) == ([event.id], [])


@pytest.mark.parametrize(
    ("producer", "consumer"),
    [
        ((0.0, 0.0), drives(-200, 0, 20.0)),
        (drives(0, 0, 20.0), (200.0, 0.0)),
        (drives(0, 0, 20.0), drives(300, 10, -15.0)),
        (drives(0, 0, 30.0), drives(-50, 0, 10.0)),
    ],
    ids=["consumer moves", "producer moves", "both, towards each other", "both, producer leaves it behind"],
)
def test_delivered_if_and_only_if_inside_at_that_time(
    producer: tuple[float, float] | list[Leg], consumer: tuple[float, float] | list[Leg]
) -> None:
    """S5: a proximity of 121 m and an event every tenth of a second while they pass each other."""
    field = Field({"p": producer, "c": consumer})
    field.subscribe("c")
    field.announce("p", 121)
    expected = []
    for tenth in range(20, 300):
        field.run(tenth / 10)
        event = field.raise_("p")
        contexts = field.world.configuration().contexts
        here, there = contexts["c"].position, contexts["p"].position
        assert here is not None
        assert there is not None
        if ((here.x - there.x) ** 2 + (here.y - there.y) ** 2) ** 0.5 <= 121:
            expected.append(event.id)
    field.run(31)
    assert 10 < len(expected) < 280
    assert field.got("c") == expected


def test_a_moving_stationary_proximity_stays_where_it_was_announced() -> None:
    """S2: the naval of a stationary proximity is a point in space."""
    field = Field({"p": drives(0, 0, 30.0), "start": (10, 0), "ahead": (150, 0)})
    for host in ("start", "ahead"):
        field.subscribe(host)
    field.announce("p", 60, stationary=True)
    field.run(4)
    field.raise_("p")
    field.run(5)
    assert (len(field.got("start")), len(field.got("ahead"))) == (1, 0)


def test_overlapping_and_nested_proximities_are_independent() -> None:
    """S2: two types, one proximity within the other."""
    field = Field({"p": (0, 0), "q": (20, 0), "near": (30, 0), "far": (90, 0)})
    for host in ("near", "far"):
        field.subscribe(host, "a")
        field.subscribe(host, "b")
    field.announce("p", 100, "a")
    field.announce("q", 40, "b")
    field.run(2)
    a, b = field.raise_("p", "a"), field.raise_("q", "b")
    field.run(3)
    assert (field.got("near"), field.got("far")) == ([a.id, b.id], [a.id])


def test_one_subscription_serves_every_producer_and_place() -> None:
    """S3 and 3.3: the same subject at two lights, without subscribing again."""
    field = Field({"p": (0, 0), "q": (400, 0), "car": drives(-20, 0, 20.0)})
    field.subscribe("car", "light/+")
    field.announce("p", 40, "light/1")
    field.announce("q", 40, "light/2")
    for second in range(2, 22):
        field.run(second)
        field.raise_("p", "light/1")
        field.raise_("q", "light/2")
    field.run(24)
    subjects = [event.subject for _, _, event, _ in field.witness.deliveries]
    assert subjects == ["light/1"] * subjects.count("light/1") + ["light/2"] * subjects.count("light/2")
    assert subjects.count("light/1") >= 1
    assert subjects.count("light/2") >= 3


def test_content_filters_decide_with_the_consumers_own_motion() -> None:
    """S4: only those who approach the light, on its approach."""
    content = {"approach": ContentType.INTEGER, "at": ContentType.POSITION}
    field = Field({"light": (0, 0), "comes": drives(-30, 0, 1.0), "goes": drives(5, 0, 1.0), "other": (0, 20)})
    for host in ("comes", "goes", "other"):
        field.subscribe(host, filter="approach = 1 AND approaching(at)")
    field.announce("light", 40, stationary=True, content=content)
    field.run(2)
    field.raise_("light", approach=1, at=Point(0, 0))
    field.raise_("light", approach=2, at=Point(0, 0))
    field.run(3)
    assert [len(field.got(host)) for host in ("comes", "goes", "other")] == [1, 0, 0]


def test_a_filter_on_an_attribute_that_is_missing_never_matches() -> None:
    """S4: unknown is not true, nor is its negation."""
    field = Field({"p": (0, 0), "c": (10, 0)})
    field.subscribe("c", filter="absent = 1")
    field.subscribe("c", filter="NOT absent = 1")
    field.announce("p", 40)
    field.run(2)
    field.raise_("p")
    field.run(3)
    assert field.got("c") == []


def test_the_producers_scope_narrows_the_audience_by_attributes() -> None:
    """S4: producer-side filters beside the proximity."""
    field = Field({"p": (0, 0), "c": (10, 0)})
    field.subscribe("c")
    field.announce("p", 40)
    field.run(2)
    field.port("p").raise_(SUBJECT, {}, audience=Scope(filter=parse_text("host = 'somebody'")))
    accepted = field.port("p").raise_(SUBJECT, {}, audience=Scope(filter=parse_text("host = 'c'")))
    field.run(3)
    assert field.got("c") == [accepted.id]


def test_a_member_is_inside_and_interested_and_nobody_else() -> None:
    """S6."""
    field = Field({"p": (0, 0), "member": (50, 0), "indifferent": (60, 0), "outside": (150, 0)})
    field.subscribe("member")
    field.subscribe("outside")
    field.subscribe("indifferent", "other")
    field.announce("p", 100)
    field.run(2)
    assert field.groups("member") == field.groups("p") != set()
    assert field.groups("indifferent") == field.groups("outside") == set()


def test_unsubscribing_leaves_the_group_and_ends_delivery() -> None:
    """S3 and S6."""
    field = Field({"p": (0, 0), "c": (50, 0)})
    subscription = field.subscribe("c")
    field.announce("p", 100)
    field.run(2)
    first = field.raise_("p")
    field.run(3)
    field.port("c").unsubscribe(subscription)
    field.raise_("p")
    field.run(4)
    assert field.got("c") == [first.id]
    assert field.groups("c") == set()


def test_unannouncing_ends_beacons_and_lets_others_forget_at_once() -> None:
    """S3: also those several hops away."""
    field = Field({"p": (0, 0), "a": (150, 0), "b": (300, 0)})
    field.subscribe("b")
    field.announce("p", 400)
    field.run(2)
    assert field.groups("b")
    field.port("p").unannounce(SUBJECT)
    field.run(2.2)
    assert field.groups("b") == field.groups("p") == set()
    beacons = field.frames("announced")
    field.run(6)
    assert field.frames("announced") == beacons
    assert all(not node.discovery.relevant for node in field.nodes.values())


def test_announcements_and_subscriptions_persist_while_moving() -> None:
    """S3: neither is made again, wherever they go."""
    field = Field({"p": drives(0, 0, 40.0), "c": drives(1_000, 0, 10.0)})
    field.subscribe("c")
    field.announce("p", 100)
    for second in range(1, 60):
        field.run(second)
        field.raise_("p")
    field.run(61)
    assert 5 <= len(field.got("c")) <= 7


def test_a_lasting_event_reaches_who_enters_the_proximity_while_it_lasts() -> None:
    """S5 and S11: matching holds for as long as the event does."""
    field = Field({"p": (0, 0), "late": drives(-200, 0, 20.0), "later": drives(-600, 0, 20.0)})
    field.subscribe("late")
    field.subscribe("later")
    field.announce("p", 100)
    field.run(2)
    event = field.raise_("p", lifetime_s=10)
    field.raise_("p")
    field.run(40)
    assert (field.got("late"), field.got("later")) == ([event.id], [])
    delivered_us = field.witness.deliveries[0][0]
    assert 5_000_000 <= delivered_us <= 8_000_000


def test_a_lasting_event_reaches_who_subscribes_while_it_lasts() -> None:
    """S3: on another host and on the producer's own."""
    field = Field({"p": (0, 0), "c": (50, 0)})
    field.announce("p", 100)
    field.run(2)
    event = field.raise_("p", lifetime_s=10)
    field.run(3)
    field.subscribe("c")
    field.run(5)
    field.subscribe("c")
    field.subscribe("p")
    field.run(8)
    assert field.got("c") == [event.id, event.id]
    assert len({subscription for _, _, _, subscription in field.witness.deliveries}) == 3
    assert field.got("p") == [event.id]


def test_the_producer_gets_its_own_event_if_it_subscribes() -> None:
    """S3: one device may produce and consume (4.1)."""
    field = Field({"p": (0, 0)})
    field.subscribe("p")
    field.announce("p", 100)
    event = field.raise_("p")
    assert field.got("p") == [event.id]


def test_a_host_without_the_announcement_raises_nothing() -> None:
    """S1: unknown subject, wrong type, no area, negative lifetime: refused at the call, and nothing has changed."""
    field = Field({"p": (0, 0), "c": (10, 0)})
    field.subscribe("c")
    with pytest.raises(BadEvent, match="no event type with subject"):
        field.raise_("p")
    with pytest.raises(BadValue, match="encloses no area"):
        field.announce("p", 0.0)
    field.announce("p", 40, content={"n": ContentType.INTEGER})
    with pytest.raises(BadEvent, match="must be integer, not str"):
        field.raise_("p", n="one")
    with pytest.raises(BadEvent, match="is missing"):
        field.raise_("p")
    with pytest.raises(BadValue, match="lifetime"):
        field.raise_("p", n=1, lifetime_s=-1.0)
    with pytest.raises(BadEvent, match="announced already"):
        field.announce("p", 50, delivery=Delivery(priority=1))
    field.run(2)
    assert field.frames("raised") == 0
    good = field.raise_("p", n=1)
    field.run(3)
    assert field.got("c") == [good.id]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"radio_range_m": 0.0}, "radio_range_m is 0.0"),
        ({"gossip_probability": 1.5}, "between 0 and 1"),
        ({"proximities_max": 0}, "proximities_max is 0"),
        ({"order_wait_ms": -1.0}, "order_wait_ms"),
        ({"recovery_asks_max": -1}, "recovery_asks_max"),
    ],
)
def test_bad_parameters_are_refused(changes: dict[str, float], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        ProximityParams(**changes)  # type: ignore[arg-type]


def test_presets_are_valid_and_differ() -> None:
    presets = [ProximityParams.pedestrian(), ProximityParams.vehicle(), ProximityParams.paper()]
    assert len(set(presets)) == 3
    assert ProximityParams.paper().radio_range_m == 200


class Asked(Observer):
    """Keeps every subscription."""

    def __init__(self) -> None:
        self.subscriptions: list[Subscription] = []

    def subscribed(self, now_us: int, host: str, subscription: Subscription) -> None:
        self.subscriptions.append(subscription)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_in_a_static_world_of_several_hops_what_matches_is_delivered_and_nothing_else(seed: int) -> None:
    """S3 to S6: sixty hosts at random, a perfect radio of 200 m, proximities of 320 m, held against `matches`."""
    rng = Random(seed)
    places = {f"h{number}": (rng.uniform(0, 700), rng.uniform(0, 700)) for number in range(60)}
    asked = Asked()
    field = Field(dict(places), seed=seed, observers=(asked,))
    producers, consumers = list(places)[:6], list(places)[3:]
    for host in consumers:
        field.subscribe(host, filter=f"weight > {rng.randrange(5)}")
    for host in producers:
        field.announce(host, 320, content={"weight": ContentType.INTEGER}, stationary=rng.random() < 0.5)
    field.run(6)
    expected, far = [], 0
    for number, host in enumerate(producers):
        event = field.raise_(host, weight=1 + number)
        known = field.world.configuration()
        wanted = [each for each in asked.subscriptions if matches(event, each, known, event.published_us)]
        expected += [(event.id, each.id) for each in wanted]
        far += sum(math.dist(places[host], places[each.subscriber]) > 200 for each in wanted)
        field.run(7 + number)
    found = [(event.id, subscription) for _, _, event, subscription in field.witness.deliveries]
    assert sorted(found) == sorted(expected)
    assert far > 20
    assert len(expected) < len(producers) * len(consumers)


def test_a_filter_over_neighbours_is_refused_when_it_is_subscribed() -> None:
    """S4: nobody tells its attributes to others here, so that it would never be true."""
    field = Field({"p": (0, 0), "c": (50, 0)})
    told: list[str] = []
    field.port("c").subscribe(SUBJECT, lambda event: None, "depth > neighbours.avg('depth')", troubled=told.append)
    field.run(1)
    assert field.witness.notes["neighbours_unknown"] == 1
    assert not len(field.nodes["c"].discovery.interests)
