"""A publisher withdraws an event that lasts: who has not got it yet does not get it any more (S3, C3)."""

import pytest

from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.model.values import BadValue
from roamcast.node.boundary import Withdraw
from roamcast.sim.checkers import CheckFailed, OnlyMatching
from roamcast.sim.ideal import Ideal
from tests.adhoc.context_worlds import ContextWorld, box, line, where
from tests.adhoc.field import Field, drives

MIDDLE = where(box(280, -20, 320, 20))


def lasting_in_a_field(withdrawn: bool) -> Field:
    """`near` is inside when the event is raised; `late` subscribes, and `comes` arrives, after it was withdrawn."""
    field = Field({"p": (0, 0), "near": (50, 0), "late": (60, 0), "comes": drives(-400, 0, 40.0)})
    field.announce("p", 150)
    field.subscribe("near")
    field.subscribe("comes")
    field.run(2)
    event = field.raise_("p", lifetime_s=600)
    field.run(4)
    if withdrawn:
        field.port("p").withdraw(event.id)
    field.subscribe("late")
    field.subscribe("p")
    field.run(12)
    return field


def test_a_withdrawn_event_reaches_nobody_who_comes_later() -> None:
    """S3: by a proximity; the others had it before."""
    got = {
        flag: {host: len(field.got(host)) for host in ("p", "near", "late", "comes")}
        for flag in (False, True)
        for field in [lasting_in_a_field(flag)]
    }
    assert got[False] == {"p": 1, "near": 1, "late": 1, "comes": 1}
    assert got[True] == {"p": 0, "near": 1, "late": 0, "comes": 0}


def test_members_do_not_ask_for_what_was_withdrawn() -> None:
    """S11: a beacon that follows the withdrawal at once does not name the event."""
    field = lasting_in_a_field(True)
    assert field.frames("missed") == 0
    assert field.frames("announced") > 12 / (ProximityParams().announcement_period_ms / 1_000) - 2


def test_only_what_this_host_raised_can_be_withdrawn() -> None:
    field = Field({"p": (0, 0), "c": (50, 0)})
    field.announce("p", 150)
    event = field.raise_("p", lifetime_s=600)
    with pytest.raises(BadValue, match="there is no event"):
        field.port("c").withdraw(event.id)
    with pytest.raises(BadValue, match="there is no event"):
        field.port("p").withdraw("p:e7.99")


@pytest.mark.parametrize("withdrawn", [False, True])
def test_holders_forget_an_event_that_its_publisher_withdrew(withdrawn: bool) -> None:
    """C3, C7: all who hold it in the region of relevance, also for a subscription that comes later."""
    world = ContextWorld(line(5))
    event = world.publish(5, "h0", lifetime_s=100, relevance=MIDDLE)
    early = world.subscribe(6, "h4", interest=MIDDLE)
    if withdrawn:
        world.at(9, "h0", Withdraw(event))
    late = world.subscribe(11, "h3", interest=MIDDLE)
    world.run(9)
    assert event in world.nodes["h2"].held.events
    world.run(25)
    assert (event in world.nodes["h2"].held.events) is not withdrawn
    expected = [(event, early)] if withdrawn else [(event, early), (event, late)]
    assert world.deliveries == sorted(expected)


def test_the_ideal_system_expects_nothing_of_a_withdrawn_event() -> None:
    """C12: and what is delivered long after the withdrawal is wrong."""
    ideal = Ideal()
    only_matching = OnlyMatching(ideal)
    field = Field({"p": (0, 0), "c": (50, 0)}, observers=(ideal, only_matching))
    ideal.watch(field.world)
    only_matching.watch(field.world)
    field.announce("p", 150)
    event = field.raise_("p", lifetime_s=600)
    field.port("p").withdraw(event.id)
    subscription = field.subscribe("c")
    field.run(5)
    assert (event.id, subscription) not in ideal.expected
    with pytest.raises(CheckFailed, match="was withdrawn"):
        only_matching.delivered(5_000_000, "c", event, subscription)
