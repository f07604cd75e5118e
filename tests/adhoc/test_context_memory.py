"""What hosts remember, and for how long (C3, C7, C9 to C11, C13): silence, deliveries, withdrawals, carrying."""

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from roamcast.adhoc.context.messages import Digest, Reach, SubscriptionItem, SubscriptionMessage
from roamcast.adhoc.context.node import ContextNode
from roamcast.adhoc.context.params import ContextParams
from roamcast.adhoc.neighbours import Beacon, Here
from roamcast.adhoc.routes import Route
from roamcast.model.context import Context
from roamcast.model.region import Anchored
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point, Velocity
from roamcast.movement.legs import Leg, moving, resting, resting_forever
from roamcast.node.boundary import (
    Broadcast,
    Does,
    Moved,
    Note,
    Received,
    SetTimer,
    Start,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from roamcast.sim.faults import Crash, FaultParams
from tests.adhoc.context_worlds import ContextWorld, box, circle, line, where

SECOND_US = 1_000_000
AREA = box(240, -60, 360, 60)
MIDDLE = where(box(280, -20, 320, 20))
INSIDE, ELSEWHERE = Point(300.0, 0.0), Point(300.0, 500.0)
NEAR = Here(Point(310.0, 0.0), Point(310.0, 0.0))


# Silence.


def visits(from_s: float, to_s: float) -> list[Leg]:
    """Comes from far away into the middle of a row for a while, and goes back."""
    from_us, to_us, takes_us = round(from_s * SECOND_US), round(to_s * SECOND_US), 5 * SECOND_US
    come = moving(from_us, ELSEWHERE, INSIDE, 100.0)
    go = moving(to_us, INSIDE, ELSEWHERE, 100.0)
    assert come.end_us == from_us + takes_us
    return [
        resting(0, ELSEWHERE, from_us),
        come,
        resting(come.end_us, INSIDE, to_us - come.end_us),
        go,
        resting_forever(go.end_us, ELSEWHERE),
    ]


def test_what_a_host_that_has_gone_left_behind_does_not_live_on_from_digest_to_digest() -> None:
    """C7, C11: the subscriber tells last before 8 s; whoever enters later is told by the one before."""
    hosts: dict[str, Any] = {
        "subscriber": (450.0, 0.0),
        "a": visits(0.5, 20),
        "b": visits(8, 35),
        "c": visits(22, 60),
    }
    faults = FaultParams(crash=(Crash("subscriber", 8.0),))
    world = ContextWorld(hosts, params=ContextParams(silent_s=20.0), faults=faults)
    subscription = world.subscribe(6, "subscriber", interest=MIDDLE)
    world.run(19)
    assert subscription in world.nodes["b"].held.subscriptions
    for second in range(27, 50):
        world.run(second)
        assert [name for name, node in world.nodes.items() if subscription in node.held.subscriptions] == []


def test_a_digest_says_how_long_ago_the_issuer_itself_told() -> None:
    """C11"""
    node = at_rest()
    node.handle(0, Received(told(0), "subscriber"))
    node.handle(7 * SECOND_US, Received(Beacon(Here(INSIDE, ELSEWHERE)), "newcomer"))
    digests = said(node.handle(8 * SECOND_US, TimerFired("digest")), Digest)
    assert [item.reach.age_us for digest in digests for item in digest.subscriptions] == [8 * SECOND_US]


def test_what_was_told_too_long_ago_is_not_taken_over_from_a_digest() -> None:
    """C7, C11"""
    node = at_rest(silent_s=20.0)
    node.handle(0, Received(digest_of(0, age_us=21 * SECOND_US), "neighbour"))
    assert "s" not in node.held.subscriptions
    node.handle(0, Received(digest_of(0, age_us=19 * SECOND_US), "neighbour"))
    assert "s" in node.held.subscriptions
    node.handle(2 * SECOND_US, TimerFired("tick"))
    assert "s" not in node.held.subscriptions


# At most once.


def test_a_long_lasting_event_is_delivered_once_however_many_others_are_delivered_meanwhile() -> None:
    """C9"""
    world = ContextWorld(line(5), params=ContextParams(handled_pairs_max=8, silent_s=8.0))
    subscription = world.subscribe(5, "h4", interest=MIDDLE)
    lasting = world.publish(6, "h0", lifetime_s=100, relevance=MIDDLE)
    others = [world.publish(8 + number / 2, "h0", relevance=MIDDLE) for number in range(30)]
    world.run(50)
    assert world.tally.deliveries[(lasting, subscription)] == 1
    assert all(world.tally.deliveries[(each, subscription)] == 1 for each in others)
    assert len(world.nodes["h4"].domains.delivered) <= 8


def test_when_more_events_live_than_can_be_remembered_that_is_noted() -> None:
    """C9"""
    world = ContextWorld(line(5), params=ContextParams(handled_pairs_max=3))
    world.subscribe(5, "h4", interest=MIDDLE)
    for number in range(6):
        world.publish(6 + number, "h0", lifetime_s=50, relevance=MIDDLE)
    world.run(14)
    assert world.tally.notes["delivered_forgotten"] > 0
    assert len(world.nodes["h4"].domains.delivered) <= 3


# Withdrawals.


def at_rest(position: Point | None = INSIDE, velocity: Velocity | None = None, **params: Any) -> ContextNode:
    node = ContextNode("me", Random(1), ContextParams(**params))
    node.handle(0, Start(Context("me", position, 0, velocity)))
    return node


def subscription_of(number: int = 0, issued_us: int = 0) -> Subscription:
    return Subscription(
        f"s{number or ''}", "subscriber", "x", issued_us, issued_us + 100 * SECOND_US, interest=MIDDLE
    )


def item_of(version: int, age_us: int = 0, number: int = 0, issued_us: int = 0) -> SubscriptionItem:
    reach = Reach(Context("subscriber", Point(450.0, 0.0)), box(400, -50, 500, 50), version)
    if age_us:
        reach = Reach(reach.issuer, reach.region, version, age_us)
    return SubscriptionItem(subscription_of(number, issued_us), reach, age_us, AREA)


def told(version: int, number: int = 0, issued_us: int = 0, withdrawn: bool = False) -> SubscriptionMessage:
    route = Route(f"s/{number}/{issued_us}/{version}", AREA, NEAR)
    item = item_of(version, number=number, issued_us=issued_us)
    return SubscriptionMessage(route=route, item=item, withdrawn=withdrawn)


def digest_of(version: int, age_us: int = 0) -> Digest:
    return Digest(NEAR, (), (item_of(version, age_us),))


def said(effects: list[Does], kind: type[Any]) -> list[Any]:
    return [each.message for each in effects if isinstance(each, Broadcast) and isinstance(each.message, kind)]


@pytest.mark.parametrize("version", [0, 1, 7])
def test_a_withdrawn_subscription_does_not_come_back_by_a_digest(version: int) -> None:
    """C3, C11"""
    node = at_rest()
    node.handle(0, Received(told(0), "subscriber"))
    assert "s" in node.held.subscriptions
    node.handle(1, Received(told(1, withdrawn=True), "subscriber"))
    node.handle(2, Received(digest_of(version), "neighbour"))
    assert "s" not in node.held.subscriptions


def test_a_host_that_learns_of_a_withdrawal_only_does_not_take_the_subscription_over_later() -> None:
    """C3, C11"""
    node = at_rest(ELSEWHERE)
    node.handle(0, Received(told(1, withdrawn=True), "subscriber"))
    node.handle(1, Moved(Context("me", INSIDE, 1)))
    node.handle(2, Received(digest_of(0), "neighbour"))
    assert "s" not in node.held.subscriptions


def test_a_subscription_that_is_issued_anew_under_the_same_id_is_held_again() -> None:
    """C3"""
    node = at_rest()
    node.handle(0, Received(told(1, withdrawn=True), "subscriber"))
    node.handle(9, Received(told(0, issued_us=5), "subscriber"))
    assert "s" in node.held.subscriptions


def test_what_is_withdrawn_is_not_told_to_the_newcomer_it_was_meant_for() -> None:
    """C11"""
    node = at_rest()
    node.handle(0, Received(told(0), "subscriber"))
    node.handle(2 * SECOND_US, Received(Beacon(Here(INSIDE, ELSEWHERE)), "newcomer"))
    node.handle(2 * SECOND_US + 1, Received(told(1, withdrawn=True), "subscriber"))
    assert said(node.handle(2 * SECOND_US + 2, TimerFired("digest")), Digest) == []


def test_withdrawals_that_are_remembered_are_bounded_and_the_bound_is_noted() -> None:
    """C7"""
    node = at_rest(events_max=1, subscriptions_max=1)
    notes = []
    for number in range(1, 5):
        notes += node.handle(number, Received(told(1, number, withdrawn=True), "subscriber"))
    assert sum(isinstance(each, Note) and each.what == "withdrawal_forgotten" for each in notes) == 2
    assert len(node.keeping.withdrawn) == 2


def mine(interest: Any = MIDDLE) -> Subscribe:
    return Subscribe(Subscription("mine", "me", "x", 0, 100 * SECOND_US, interest=interest))


def test_what_a_host_withdraws_without_knowing_where_it_is_it_forgets_at_once_and_tells_later() -> None:
    """C3"""
    node = at_rest()
    node.handle(0, mine())
    assert "mine" in node.held.subscriptions
    node.handle(1, Moved(Context("me", None, 1)))
    assert said(node.handle(2, Unsubscribe("mine")), SubscriptionMessage) == []
    assert "mine" not in node.held.subscriptions
    later = said(node.handle(3, Moved(Context("me", INSIDE, 3))), SubscriptionMessage)
    assert [(each.withdrawn, each.item.subscription.id) for each in later] == [(True, "mine")]
    again = said(node.handle(4, Moved(Context("me", INSIDE, 4))), SubscriptionMessage)
    assert again == []


def test_what_was_never_told_need_not_be_withdrawn() -> None:
    """C3"""
    node = at_rest(None)
    node.handle(0, mine())
    node.handle(1, Unsubscribe("mine"))
    assert said(node.handle(2, Moved(Context("me", INSIDE, 2))), SubscriptionMessage) == []


def test_a_withdrawal_seeks_all_parts_of_the_region_as_the_subscription_did() -> None:
    """C8, C13"""
    node = at_rest()
    first = said(node.handle(0, mine()), SubscriptionMessage)
    last = said(node.handle(1, Unsubscribe("mine")), SubscriptionMessage)
    assert [each.route.seeks for each in first + last] == [True, True]
    assert [each.withdrawn for each in first + last] == [False, True]


def test_a_withdrawal_goes_to_where_the_subscription_was_told_last() -> None:
    """C10: its region moves with the host, and those who hold it are where it was."""
    node = at_rest(INSIDE, Velocity(8.0, 0.0))
    around_me = where(Anchored(circle(0, 0, 50), "me"))
    first = said(node.handle(0, mine(around_me)), SubscriptionMessage)
    last = said(node.handle(SECOND_US, Unsubscribe("mine")), SubscriptionMessage)
    assert last[0].route.target == first[0].route.target


def test_a_withdrawal_reaches_a_part_of_the_region_that_hangs_together_only_through_others() -> None:
    """C8, C13: two rows of hosts, connected outside the region alone."""
    world = ContextWorld(
        {"west": (0.0, 0.0), "a": (0.0, 180.0), "b": (170.0, 250.0), "c": (340.0, 180.0), "east": (340.0, 0.0)}
    )
    region = where(box(-20, -50, 360, 50))
    subscription = world.subscribe(13, "west", interest=region)
    world.run(16)
    assert subscription in world.nodes["east"].held.subscriptions
    world.at(16, "west", Unsubscribe(subscription))
    world.run(18)
    assert subscription not in world.nodes["east"].held.subscriptions


# Who is told what is held, and with which times.


@pytest.mark.parametrize(
    ("x", "y", "entered"),
    [
        (300.0, -60.0, True),
        (300.0, -45.0, True),
        (300.0, 45.0, True),
        (300.0, 60.0, True),
        (240.0, 0.0, True),
        (360.0, 0.0, True),
        (300.0, -60.5, False),
        (300.0, 60.5, False),
        (239.5, 0.0, False),
        (360.5, 0.0, False),
    ],
)
def test_a_newcomer_at_any_edge_of_a_region_is_told_and_one_just_outside_is_not(
    x: float, y: float, entered: bool
) -> None:
    """C11: the edges belong to the region."""
    node = at_rest()
    node.handle(0, Received(told(0), "subscriber"))
    node.handle(2 * SECOND_US, Received(Beacon(Here(Point(x, y), ELSEWHERE)), "newcomer"))
    assert bool(said(node.handle(3 * SECOND_US, TimerFired("digest")), Digest)) is entered


@pytest.mark.parametrize("offset_s", [-1_000, 0, 1_000])
def test_a_digest_says_where_a_moving_issuer_is_however_far_its_clock_is_off(offset_s: int) -> None:
    """C7, C11: it said where it was a second before the message came at 5 s, so 4 s before the digest."""
    node = at_rest()
    said_by_its_clock_us = (4 + offset_s) * SECOND_US
    issuer = Context("subscriber", Point(450.0, 0.0), said_by_its_clock_us, Velocity(10.0, 0.0))
    message, item = told(0), item_of(0)
    travelled = replace(message.route, age_us=SECOND_US)
    moving_item = replace(item, reach=replace(item.reach, issuer=issuer))
    node.handle(5 * SECOND_US, Received(replace(message, route=travelled, item=moving_item), "neighbour"))
    node.handle(7 * SECOND_US, Received(Beacon(Here(INSIDE, ELSEWHERE)), "newcomer"))
    digests = said(node.handle(8 * SECOND_US, TimerFired("digest")), Digest)
    issuers = [each.reach.issuer for digest in digests for each in digest.subscriptions]
    assert [(each.position, each.at_us) for each in issuers] == [(Point(490.0, 0.0), 8 * SECOND_US)]


# What is carried.


def test_a_host_that_holds_nothing_itself_sends_on_what_it_carries_once_it_is_behind_a_neighbour() -> None:
    """C13: nobody is heard of anew; it is the carrier that moved, and the tick that notices."""
    node = at_rest(Point(150.0, 0.0))
    route = Route("s/far", box(1_000, -50, 1_100, 50), Here(Point(50.0, 0.0)))
    effects = node.handle(0, Received(replace(told(0), route=route), "behind"))
    while not node.geocast.held:
        timer = next(each for each in effects if isinstance(each, SetTimer))
        effects = node.handle(timer.at_us, TimerFired(timer.name))
    assert (node.geocast.held, len(node.held)) == (1, 0)
    assert said(node.handle(2 * SECOND_US, TimerFired("tick")), SubscriptionMessage) == []
    moved = node.handle(3 * SECOND_US, Moved(Context("me", Point(0.0, 0.0), 3 * SECOND_US)))
    assert said(moved, SubscriptionMessage) == []
    sent = said(node.handle(4 * SECOND_US, TimerFired("tick")), SubscriptionMessage)
    assert [(each.route.id, each.route.here.position) for each in sent] == [("s/far", Point(0.0, 0.0))]
