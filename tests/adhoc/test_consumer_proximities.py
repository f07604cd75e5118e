"""Proximities that consumers define (S14): events go to where they are wanted."""

from roamcast.adhoc.proximity.messages import Wanted
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.model.context import Context
from roamcast.model.region import Anchored, Circle
from roamcast.model.scope import Scope
from roamcast.model.values import Point
from roamcast.node.boundary import Moved, Start, Unsubscribe
from tests.adhoc.field import ORIGIN, Field, drives
from tests.adhoc.lone import Lone


def around(host: str, radius_m: float) -> Scope:
    return Scope(Anchored(Circle(ORIGIN, radius_m), host))


def test_producers_inside_the_wanted_region_are_heard_and_others_are_not() -> None:
    """S14: a police car wants lights within 150 m of itself."""
    field = Field({"police": (0, 0), "near": (140, 0), "far": (160, 0)})
    field.subscribe("police", "light", publishers=around("police", 150))
    field.announce("near", None, "light")
    field.announce("far", None, "light")
    field.run(2)
    wanted = field.raise_("near", "light")
    field.raise_("far", "light")
    field.run(3)
    assert field.got("police") == [wanted.id]
    # Nobody wants the far one's events where it is, so it sends nothing.
    assert field.frames("raised") == 1


def test_a_region_beyond_radio_range_is_reached_over_its_members() -> None:
    """S9 and S14: members are those inside that produce or want the subject."""
    field = Field({"c": (0, 0), "between": (180, 0), "p": (350, 0)})
    field.subscribe("c", "light", publishers=around("c", 400))
    field.announce("between", None, "light")
    field.announce("p", None, "light")
    field.run(3)
    event = field.raise_("p", "light")
    field.run(4)
    assert field.got("c") == [event.id]
    assert field.frames("raised", event) == 2


def test_the_wanted_region_moves_with_its_consumer() -> None:
    """S14: delivered if and only if the publisher is inside the region at that time."""
    field = Field({"c": drives(-300, 0, 20.0), "p": (0, 0)})
    field.subscribe("c", "light", publishers=around("c", 99))
    field.announce("p", None, "light")
    expected = []
    for tenth in range(10, 300):
        field.run(tenth / 10)
        event = field.raise_("p", "light")
        here = field.world.configuration().contexts["c"].position
        assert here is not None
        if abs(here.x) <= 99:
            expected.append(event.id)
    field.run(31)
    assert len(expected) > 90
    assert field.got("c") == expected


def test_a_fixed_region_serves_as_well_and_wildcards_too() -> None:
    """S14."""
    field = Field({"c": (0, 0), "in": (90, 0), "out": (-90, 0)})
    field.subscribe("c", "light/+", publishers=Scope(Circle(Point(80, 0), 100)))
    field.announce("in", None, "light/1")
    field.announce("out", None, "light/1")
    field.run(2)
    event = field.raise_("in", "light/1")
    field.raise_("out", "light/1")
    field.run(3)
    assert field.got("c") == [event.id]


def test_two_consumers_with_regions_of_their_own_get_an_event_once_each() -> None:
    """S14: one transmission for each group."""
    field = Field({"c": (0, 0), "d": (50, 0), "p": (100, 0)})
    field.subscribe("c", "light", publishers=around("c", 150))
    field.subscribe("d", "light", publishers=around("d", 150))
    field.announce("p", None, "light")
    field.run(2)
    event = field.raise_("p", "light")
    field.run(3)
    assert (field.got("c"), field.got("d")) == ([event.id], [event.id])
    assert field.frames("raised", event) == 2


def test_unsubscribing_ends_the_want_at_once() -> None:
    """S3 and S14."""
    field = Field({"c": (0, 0), "p": (100, 0)})
    subscription = field.subscribe("c", "light", publishers=around("c", 150))
    field.announce("p", None, "light")
    field.run(2)
    assert field.groups("p")
    field.port("c").unsubscribe(subscription)
    field.run(2.1)
    field.raise_("p", "light")
    field.run(3)
    assert field.groups("p") == set()
    assert field.frames("raised") == 0


def test_a_producer_and_consumer_on_one_host_need_no_radio() -> None:
    """S14."""
    field = Field({"c": (0, 0)})
    field.subscribe("c", "light", publishers=around("c", 150))
    field.announce("c", None, "light")
    event = field.raise_("c", "light")
    field.run(1)
    assert field.got("c") == [event.id]
    assert field.frames("raised") == 0


def test_both_kinds_of_proximity_hold_together() -> None:
    """S5 and S14: inside the producer's proximity, and the producer inside the consumer's region."""
    field = Field({"p": (0, 0), "c": (90, 0), "picky": (80, 0)}, ProximityParams())
    field.subscribe("c", "light", publishers=around("c", 100))
    field.subscribe("picky", "light", publishers=around("picky", 50))
    field.announce("p", 95, "light")
    field.run(2)
    event = field.raise_("p", "light")
    field.run(3)
    assert (field.got("c"), field.got("picky")) == ([event.id], [])


def test_a_want_from_before_the_first_position_is_advertised_with_it() -> None:
    """S14: whether the position comes by the location service or with a start."""
    for later in (Moved(Context("c", Point(5.0, 0.0))), Start(Context("c", Point(5.0, 0.0)))):
        lone = Lone(x=None)
        lone.subscribe("c:w", "light", around("c", 150))
        assert lone.said == []
        lone.give(later)
        (said,) = lone.said
        assert isinstance(said, Wanted)
        assert (said.subscription_id, said.naval, said.initial_naval) == ("c:w", Point(5.0, 0.0), Point(5.0, 0.0))
        lone.run(1.5)
        assert len(lone.said) > 1
        assert {type(each) for each in lone.said} == {Wanted}
        assert not lone.node.discovery.unplaced


def test_a_want_that_ended_before_the_first_position_is_not_advertised() -> None:
    """S14."""
    lone = Lone(x=None)
    lone.subscribe("c:w", "light", around("c", 150))
    lone.give(Unsubscribe("c:w"))
    lone.give(Moved(Context("c", Point(5.0, 0.0))))
    assert lone.said == []


def test_too_many_regions_for_one_producer_are_noted_and_served_all_the_same() -> None:
    """S14: what is lost is the recovery of older events."""
    names = [f"c{number}" for number in range(6)]
    field = Field({"p": (0, 0), **dict.fromkeys(names, (10, 0))}, ProximityParams(outboxes_max=4))
    for name in names:
        field.subscribe(name, "light", publishers=around(name, 150))
    field.announce("p", None, "light")
    field.run(2)
    raised = []
    for tenth in range(20, 25):
        field.run(tenth / 10)
        raised.append(field.raise_("p", "light").id)
    field.run(4)
    assert [field.got(name) for name in names] == [raised] * 6
    assert len(field.nodes["p"].producing.outboxes.by_key) == 4
    assert field.witness.notes["outbox_dropped"] > 0


def test_streams_into_regions_end_when_the_producer_was_away() -> None:
    """S14: what it knew of others is old then."""
    field = Field({"c": (0, 0), "p": (100, 0)})
    field.subscribe("c", "light", publishers=around("c", 150))
    field.announce("p", None, "light")
    field.run(2)
    field.raise_("p", "light")
    node = field.nodes["p"]
    assert node.producing.outboxes.by_key
    node.handle(2_000_001, Start(Context("p", Point(100.0, 0.0))))
    assert not node.producing.outboxes.by_key
