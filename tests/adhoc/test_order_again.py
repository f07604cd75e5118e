"""Order and events that last: who comes later, or was outside, gets them too, and in order (S14 with S3 and S5)."""

from roamcast.adhoc.proximity.ordering import Order
from roamcast.model.values import Point
from roamcast.movement.legs import moving, resting, resting_forever
from tests.adhoc.field import Field
from tests.adhoc.lone import ORDERED, Lone, announcement
from tests.adhoc.test_attributes import arrival, names


def test_s14_ordered_events_that_last_reach_a_subscription_made_later_on_the_same_host() -> None:
    field = Field({"p": (0, 0), "c": (50, 0)})
    first = field.subscribe("c")
    field.announce("p", 100, delivery=ORDERED)
    field.run(2)
    raised = [field.raise_("p", lifetime_s=60).id for _ in range(3)]
    field.run(5)
    second = field.subscribe("c")
    # One more is on its way before the older ones were asked for.
    raised.append(field.raise_("p", lifetime_s=60).id)
    field.run(9)
    for subscription in (first, second):
        assert [event.id for _, _, event, to in field.witness.deliveries if to == subscription] == raised
    assert field.witness.notes["late_for_order"] == 0


def test_s14_an_ordered_event_that_lasts_and_was_first_heard_outside_is_delivered_inside() -> None:
    """The consumer is about to enter, so it hears the group; numbers 1 and 2 are raised then, 3 when it is inside."""
    stop, inside = Point(-110.0, 0.0), Point(-50.0, 0.0)
    comes = moving(0, Point(-170.0, 0.0), stop, 20.0)
    enters = moving(comes.end_us + 1_000_000, stop, inside, 30.0)
    legs = [comes, resting(comes.end_us, stop, 1_000_000), enters, resting_forever(enters.end_us, inside)]
    for lasting_third in (0.0, 60.0):
        field = Field({"p": (0, 0), "c": legs})
        field.subscribe("c")
        field.announce("p", 100, stationary=True, delivery=ORDERED)
        field.run(2.9)
        assert field.groups("c")
        raised = [field.raise_("p", lifetime_s=60).id for _ in range(2)]
        field.run(4.5)
        raised.append(field.raise_("p", lifetime_s=lasting_third).id)
        field.run(12)
        assert field.got("c") == raised


def test_s14_a_subscription_never_gets_what_lies_behind_what_it_got() -> None:
    """Number 1 is lost, and given up for the first subscription; the second gets both, in order."""
    lone, said = Lone(), announcement(ORDERED)
    lone.subscribe("first")
    lone.beacon(said)
    lone.run(1)
    lone.event(said, 2)
    lone.run(5)
    assert lone.got("first") == ["e2"]
    lone.beacon(said, latest=2, lasting=(1, 2))
    lone.subscribe("second")
    lone.run(5.1)
    lone.event(said, 2, replay=1)
    lone.event(said, 1, replay=2)
    lone.run(9)
    assert lone.got("second") == ["e1", "e2"]
    assert lone.got("first") == ["e2"]


def test_s14_what_is_owed_again_comes_before_what_follows() -> None:
    order = Order(1, held_max=10)
    for number in (1, 2, 3):
        order.take(0, number, arrival(number))
    order.owe((1, 3))
    assert names(order.take(0, 4, arrival(4))) == []
    assert names(order.take(0, 3, arrival(3))) == []
    assert names(order.take(0, 1, arrival(1))) == ["e1", "e3", "e4"]
    assert order.take(0, 2, arrival(2)) is None
    assert names(order.take(0, 5, arrival(5))) == ["e5"]


def test_s14_nothing_waits_for_what_nobody_asks_for_any_more() -> None:
    order = Order(1, held_max=10)
    for number in (1, 2, 3):
        order.take(0, number, arrival(number))
    order.owe((1, 2))
    assert names(order.take(0, 7, arrival(7))) == []
    order.expect_only((2, 8))
    assert names(order.take(0, 2, arrival(2))) == ["e2", "e7"]
    order.expect_only((9,))
    assert names(order.take(0, 9, arrival(9))) == ["e9"]


def test_s14_a_gap_among_what_is_owed_again_is_given_up_like_any_other() -> None:
    order = Order(1, held_max=10)
    for number in (1, 2, 3):
        order.take(0, number, arrival(number))
    order.owe((1, 2, 3))
    assert names(order.take(0, 2, arrival(2))) == []
    assert names(order.take(0, 4, arrival(4))) == []
    assert names(order.give_up(1)) == ["e2"]
    assert names(order.give_up(2)) == ["e4"]
    assert (order.owed, order.following) == ({}, 5)
