"""Each mechanism of context-aware publish/subscribe by itself (C2 to C11), in small worlds with a perfect radio."""

from random import Random
from typing import Any

import pytest

from roamcast.adhoc.context.matching import asked_of_neighbours
from roamcast.adhoc.context.messages import (
    MESSAGES,
    Answer,
    Digest,
    EventItem,
    MatchedEvent,
    Reach,
)
from roamcast.adhoc.context.node import ContextNode
from roamcast.adhoc.context.params import PRESETS, ContextParams
from roamcast.adhoc.context.reachability import leaves_after_s, reachability_region
from roamcast.adhoc.routes import Route
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.filter import EVERYTHING, parse_text
from roamcast.model.region import Anchored, Box, rectangle
from roamcast.model.space import Plane
from roamcast.model.values import Point, Value, Velocity
from roamcast.movement.legs import moving, resting, resting_forever
from roamcast.node.boundary import Does, Message, Moved, Note, Publish, Received, SetTimer, Start, Unsubscribe
from roamcast.node.compact import CompactCodec
from roamcast.node.kit import Seat
from roamcast.papers.assemble import kit_of
from roamcast.sim.faults import Crash, FaultParams, Pause
from roamcast.sim.scenario import BadScenario
from tests.adhoc.context_worlds import ContextWorld, box, circle, line, where

PLANE = Plane()
SECOND_US = 1_000_000
MIDDLE = where(box(280, -20, 320, 20))
"""Of a row of hosts 150 m apart, h2 is there; enlarged by 60 m nobody else."""


# Where things are held, and for how long.


def test_a_persistent_event_is_held_by_the_hosts_of_its_region_until_it_expires() -> None:
    """C3, C7"""
    world = ContextWorld(line(5))
    event = world.publish(6, "h0", lifetime_s=10, relevance=MIDDLE)
    world.run(8)
    assert [name for name, node in world.nodes.items() if event in node.held.events] == ["h2"]
    assert event in world.nodes["h0"].issued.events
    world.run(18)
    assert event not in world.nodes["h2"].held.events


def test_an_event_is_held_even_where_its_filter_does_not_hold_yet() -> None:
    """C4, section 3.2: attributes may satisfy it later, and then it is matched."""
    world = ContextWorld(line(5), {"h2": {"open": False}})
    event = world.publish(6, "h0", lifetime_s=20, relevance=where(MIDDLE.region, "open = TRUE"))
    subscription = world.subscribe(6, "h4", interest=MIDDLE)
    world.run(8)
    assert event in world.nodes["h2"].held.events
    assert world.deliveries == []
    changed = Context("h2", Point(300.0, 0.0), 9 * SECOND_US, attributes={"open": True})
    world.at(9, "h2", Moved(changed))
    world.run(11)
    assert world.deliveries == [(event, subscription)]


def test_an_instantaneous_event_is_matched_when_it_arrives_and_not_held_in_the_papers_preset() -> None:
    """C3"""
    world = ContextWorld(line(5), params=ContextParams.paper())
    subscription = world.subscribe(5, "h4", interest=MIDDLE)
    event = world.publish(6, "h0", relevance=MIDDLE)
    world.subscribe(7, "h4", interest=MIDDLE)
    world.run(9)
    assert world.deliveries == [(event, subscription)]
    assert event not in world.nodes["h2"].held.events


def test_an_instantaneous_subscription_gets_the_persistent_events_of_its_moment() -> None:
    """C3"""
    world = ContextWorld(line(5))
    early = world.publish(6, "h0", lifetime_s=10, relevance=MIDDLE)
    subscription = world.subscribe(8, "h4", lifetime_s=0, interest=MIDDLE)
    world.publish(10, "h0", lifetime_s=10, relevance=MIDDLE)
    world.run(15)
    assert world.deliveries == [(early, subscription)]


def test_an_event_and_a_subscription_that_pass_each_other_on_the_way_still_meet() -> None:
    """C3: what is instantaneous lingers for what was issued before it and arrives after it."""
    world = ContextWorld(line(5))
    subscription = world.subscribe(6.0, "h0", interest=where(box(580, -20, 620, 20)))
    event = world.publish(6.005, "h3", relevance=where(box(580, -20, 620, 20)))
    world.run(9)
    assert world.deliveries == [(event, subscription)]


def test_an_expired_event_is_not_delivered() -> None:
    """C3"""
    world = ContextWorld(line(5))
    world.publish(6, "h0", lifetime_s=2, relevance=MIDDLE)
    world.subscribe(8.5, "h4", interest=MIDDLE)
    world.run(12)
    assert world.deliveries == []


def test_an_expired_or_withdrawn_subscription_gets_nothing() -> None:
    """C3"""
    world = ContextWorld(line(5))
    world.subscribe(5, "h4", lifetime_s=2, interest=MIDDLE)
    withdrawn = world.subscribe(5, "h4", interest=MIDDLE)
    world.at(6, "h4", Unsubscribe(withdrawn))
    world.publish(8, "h0", lifetime_s=5, relevance=MIDDLE)
    world.run(12)
    assert world.deliveries == []
    assert len(world.nodes["h2"].held.subscriptions) == 0


def test_what_its_issuer_does_not_refresh_is_forgotten() -> None:
    """C7: a subscriber that crashed does not fill tables for ever."""
    faults = FaultParams(crash=(Crash("h4", 8.0),))
    world = ContextWorld(line(5), params=ContextParams(silent_s=12.0), faults=faults)
    subscription = world.subscribe(5, "h4", interest=MIDDLE)
    world.run(15)
    assert subscription in world.nodes["h2"].held.subscriptions
    world.run(30)
    assert subscription not in world.nodes["h2"].held.subscriptions


# Matching in the intersection.


def test_both_contexts_must_share_a_host() -> None:
    """C4, C6 (iii): regions that overlap where nobody is do not match."""
    world = ContextWorld(line(5))
    west, east = where(box(280, -20, 360, 20)), where(box(340, -20, 470, 20))
    world.publish(6, "h0", lifetime_s=5, relevance=west)
    world.subscribe(6, "h4", interest=east)
    together = world.publish(6, "h0", lifetime_s=5, relevance=where(box(280, -20, 470, 20)))
    subscription = world.subscribe(6, "h4", interest=where(box(340, -20, 470, 20)))
    world.run(12)
    assert {event for event, _ in world.deliveries} == {together}
    assert (together, subscription) in world.deliveries


def test_content_is_matched_too() -> None:
    """C6 (i)"""
    world = ContextWorld(line(5))
    subscription = world.subscribe(5, "h4", interest=MIDDLE, filter_=parse_text("price < 3"))
    cheap = world.publish(6, "h0", relevance=MIDDLE, attributes={"price": 2})
    world.publish(6, "h0", relevance=MIDDLE, attributes={"price": 4})
    world.publish(6, "h0", relevance=MIDDLE, attributes={"price": 2}, subject="y")
    world.run(9)
    assert world.deliveries == [(cheap, subscription)]


def test_a_filter_on_the_subscribers_own_state_is_judged_by_the_subscriber() -> None:
    """C6 (i): nobody in the matching area knows its budget."""
    world = ContextWorld(line(5), {"h3": {"budget": 3}, "h4": {"budget": 1}})
    affordable = parse_text("price <= me.budget")
    rich = world.subscribe(5, "h3", interest=MIDDLE, filter_=affordable)
    world.subscribe(5, "h4", interest=MIDDLE, filter_=affordable)
    event = world.publish(6, "h0", relevance=MIDDLE, attributes={"price": 2})
    world.run(9)
    assert world.deliveries == [(event, rich)]


def test_relational_properties_of_relevance_range_over_the_neighbours_key_attributes() -> None:
    """C2: "faster than the hosts around it" """
    speeds: dict[str, dict[str, Any]] = {
        f"h{number}": {"speed": speed} for number, speed in enumerate((5, 5, 9, 5, 5))
    }
    faster = where(MIDDLE.region, "speed > neighbours.avg('speed')")
    slower = where(MIDDLE.region, "speed < neighbours.avg('speed')")
    world = ContextWorld(line(5), speeds, ContextParams(key_attributes=("speed",)))
    subscription = world.subscribe(7, "h4", interest=MIDDLE)
    event = world.publish(8, "h0", relevance=faster)
    world.publish(8, "h0", relevance=slower)
    world.run(11)
    assert world.deliveries == [(event, subscription)]


@pytest.mark.parametrize("lifetime_s", [0.0, 20.0])
@pytest.mark.parametrize("of", ["relevance", "interest", "filter"])
def test_relational_properties_need_no_configuration(of: str, lifetime_s: float) -> None:
    """C2, C7: hosts tell what a filter over their neighbours aggregates, and stop when none does any more."""
    speeds: dict[str, dict[str, Any]] = {
        f"h{number}": {"speed": speed, "secret": 1} for number, speed in enumerate((5, 5, 9, 5, 9))
    }
    world = ContextWorld(line(5), speeds)
    expected = []
    for subject, text in (("a", "me.speed > neighbours.avg('speed')"), ("b", "me.speed < neighbours.avg('speed')")):
        scope = where(MIDDLE.region, text)
        subscription = world.subscribe(
            7,
            "h4",
            lifetime_s=20,
            interest=scope if of == "interest" else MIDDLE,
            filter_=parse_text(text) if of == "filter" else EVERYTHING,
            subject=subject,
        )
        relevance = scope if of == "relevance" else MIDDLE
        event = world.publish(8.5, "h0", lifetime_s=lifetime_s, relevance=relevance, subject=subject)
        expected.append((event, subscription))
    world.run(12)
    assert world.deliveries == expected[:1]
    told = [each for node in world.nodes.values() for each in node.neighbours.contexts(12 * SECOND_US)]
    assert {name for each in told for name in each.attributes} == {"speed"}
    world.run(70)
    assert all(not node.presence.asks for node in world.nodes.values())
    assert not any(each.attributes for each in world.nodes["h1"].neighbours.contexts(70 * SECOND_US))


def test_all_hosts_of_the_matching_area_together_send_one_matched_event() -> None:
    """C9: their messages have one id."""
    hosts = line(5) | {f"m{number}": (290.0 + number, 5.0) for number in range(10)}
    world = ContextWorld(hosts)
    subscription = world.subscribe(6, "h4", lifetime_s=4, interest=MIDDLE)
    event = world.publish(7, "h0", relevance=MIDDLE)
    world.run(9)
    assert world.deliveries == [(event, subscription)]
    assert world.sent("matched-event") <= 6


def test_an_event_is_delivered_once_however_often_it_is_refreshed() -> None:
    """C9, C10"""
    world = ContextWorld(line(5))
    subscription = world.subscribe(5, "h4", interest=MIDDLE)
    event = world.publish(6, "h0", lifetime_s=40, relevance=MIDDLE)
    world.run(50)
    assert world.deliveries == [(event, subscription)]
    assert world.sent("event", "renewal") > 20


# Domains, each at the right host.


def test_the_publication_domain_is_judged_by_the_publisher() -> None:
    """C5, C9: by its attributes when matching occurs, not by those it had when it published."""
    world = ContextWorld(line(5), {"h0": {"role": "car"}})
    wanted = world.subscribe(8, "h4", interest=MIDDLE, publishers=where(None, "role = 'patrol'"))
    event = world.publish(6, "h0", lifetime_s=20, relevance=MIDDLE)
    world.at(7, "h0", Moved(Context("h0", Point(0.0, 0.0), 7 * SECOND_US, attributes={"role": "patrol"})))
    world.run(11)
    assert world.deliveries == [(event, wanted)]
    assert world.sent("matching-request") > 0


def test_a_publisher_outside_the_domain_is_not_heard() -> None:
    """C5, C6 (iv)"""
    world = ContextWorld(line(5))
    world.subscribe(5, "h4", interest=MIDDLE, publishers=where(box(100, -50, 200, 50)))
    inside = world.subscribe(5, "h4", interest=MIDDLE, publishers=where(box(-50, -50, 50, 50)))
    event = world.publish(6, "h0", relevance=MIDDLE)
    world.run(9)
    assert world.deliveries == [(event, inside)]


def test_without_a_publication_domain_nobody_asks_the_publisher() -> None:
    """C9: Figure 2a"""
    world = ContextWorld(line(5))
    world.subscribe(5, "h4", interest=MIDDLE)
    world.publish(6, "h0", relevance=MIDDLE)
    world.run(9)
    assert world.sent("matching-request") == 0
    assert len(world.deliveries) == 1


def test_the_subscription_domain_is_judged_by_the_subscriber() -> None:
    """C5, C6 (v)"""
    world = ContextWorld(line(5), {"h3": {"occupants": 1}, "h4": {"occupants": 3}})
    single = world.subscribe(5, "h3", interest=MIDDLE)
    world.subscribe(5, "h4", interest=MIDDLE)
    event = world.publish(6, "h0", relevance=MIDDLE, audience=where(None, "occupants < 2"))
    world.run(9)
    assert world.deliveries == [(event, single)]


def test_domains_may_be_around_the_other_party() -> None:
    """C5: regions anchored to the publisher and to the subscriber, by the context that messages carry."""
    world = ContextWorld(line(7))
    near_me = where(Anchored(circle(0, 0, 700), "h6"))
    far = world.subscribe(5, "h6", interest=MIDDLE, publishers=near_me)
    world.subscribe(5, "h6", interest=MIDDLE, publishers=where(Anchored(circle(0, 0, 700), "h5")))
    near = world.publish(6, "h2", relevance=MIDDLE, audience=where(Anchored(circle(0, 0, 650), "h2")))
    world.publish(6, "h2", relevance=MIDDLE, audience=where(Anchored(circle(0, 0, 550), "h2")))
    world.run(9)
    assert (near, far) in world.deliveries
    assert {event for event, _ in world.deliveries} == {near}


def test_attributes_that_frames_do_not_carry_are_asked_for() -> None:
    """C9: the query service; the neighbours of the subscriber are asked for their load."""
    loads = each_with("load", 9, 9, 1, 3, 9)
    world = ContextWorld(line(5), loads)
    subscription = world.subscribe(5, "h3", interest=MIDDLE)
    # The neighbours of h3 are h2 and h4: their mean is 5.
    event = world.publish(6, "h0", relevance=MIDDLE, audience=where(None, "neighbours.avg('load') = 5"))
    world.publish(6, "h0", relevance=MIDDLE, audience=where(None, "neighbours.avg('load') > 5"))
    world.run(9)
    assert world.deliveries == [(event, subscription)]
    assert world.sent("query") > 0
    assert world.sent("answer") >= 2


def test_a_query_reaches_hosts_beyond_one_hop_and_the_answers_find_back() -> None:
    """C9: two hops around h2 are h0, h1, h3 and h4."""
    loads: dict[str, dict[str, Any]] = {
        f"h{number}": {"load": load} for number, load in enumerate((1, 2, 50, 3, 4, 99))
    }
    world = ContextWorld(line(6), loads, ContextParams(query_hops=2))
    subscription = world.subscribe(5, "h2", interest=MIDDLE)
    wanted = where(None, "neighbours.max('load') = 4 AND neighbours.min('load') = 1 AND neighbours.count() = 4")
    event = world.publish(6, "h5", relevance=MIDDLE, audience=wanted)
    world.run(9)
    assert world.deliveries == [(event, subscription)]


def test_questions_under_way_are_bounded() -> None:
    """C9"""
    world = ContextWorld(line(3), params=ContextParams(queries_max=2))
    for number in range(6):
        world.subscribe(5 + number / 1_000, "h2", interest=MIDDLE)
    world.publish(6, "h0", relevance=MIDDLE, audience=where(None, "neighbours.avg('load') > 5"))
    world.run(8)
    node = world.nodes["h2"]
    assert node.domains.queries.forgotten >= 4
    assert len(node.domains.queries.questions) == 0


def test_what_a_filter_asks_of_neighbours() -> None:
    """C2"""
    assert asked_of_neighbours(None) is None
    assert asked_of_neighbours(parse_text("a = 1")) is None
    assert asked_of_neighbours(parse_text("neighbours.count() > 3")) == ()
    assert asked_of_neighbours(parse_text("a > neighbours.avg('b') OR neighbours.min('c') < 1")) == ("b", "c")
    assert asked_of_neighbours(
        parse_text("neighbours.any(d AND near(position, 5) AND host <> 'x' AND e > me.f)")
    ) == (
        "d",
        "e",
    )


def test_hosts_with_a_given_number_of_neighbours_that_fulfil_a_condition_match() -> None:
    """C2, C9: nobody has named the attribute of the condition; the asker and its neighbours find out."""
    brakes: dict[str, dict[str, Any]] = {f"h{number}": {"brakes": number in (0, 2)} for number in range(4)}
    world = ContextWorld(line(4), brakes)
    subscription = world.subscribe(5, "h1", interest=MIDDLE)
    world.subscribe(5, "h3", interest=MIDDLE)
    event = world.publish(6, "h0", relevance=MIDDLE, audience=where(None, "neighbours.count(brakes) = 2"))
    world.run(9)
    assert world.deliveries == [(event, subscription)]


def test_the_ideal_system_asks_the_group_of_query_hops() -> None:
    """C9: domains range over it, contexts of relevance and interest over those in range of the radio."""
    world = ContextWorld(line(6), params=ContextParams(query_hops=2))
    world.run(1)
    known = world.world.configuration()
    assert {each.host for each in known.group("h2", known.domain_hops)} == {"h0", "h1", "h3", "h4"}
    assert {each.host for each in known.group("h2", 1)} == {"h1", "h3"}


# Mobility.


def test_a_reachability_region_lies_ahead_of_a_moving_host_and_holds_it() -> None:
    """C10"""
    me = Context("a", Point(0, 0), velocity=Velocity(2.0, 0.0), destination=Point(1_000, 0))
    region = reachability_region(me, 50.0, 10.0, 5.0, PLANE)
    assert region == Box(Point(-20, -25), Point(30, 25))
    assert leaves_after_s(region, me, 10.0, PLANE) == pytest.approx(10.0)
    fast = Context("a", Point(0, 0), velocity=Velocity(20.0, 0.0))
    assert reachability_region(fast, 50.0, 10.0, 5.0, PLANE) == Box(Point(-10, -25), Point(40, 25))
    assert leaves_after_s(reachability_region(fast, 50.0, 10.0, 5.0, PLANE), fast, 10.0, PLANE) == pytest.approx(1.5)
    arriving = Context("a", Point(0, 0), velocity=Velocity(20.0, 0.0), destination=Point(4, 0))
    assert reachability_region(arriving, 50.0, 10.0, 5.0, PLANE) == Box(Point(-21, -25), Point(29, 25))
    resting_host = Context("a", Point(0, 0))
    assert leaves_after_s(reachability_region(resting_host, 50.0, 10.0, 5.0, PLANE), resting_host, 10, PLANE) > 1e9
    assert leaves_after_s(region, Context("a", Point(25, 0)), 10.0, PLANE) == 0


@pytest.mark.parametrize(("speed_mps", "refreshes"), [(0.0, 4), (20.0, 14)])
def test_a_host_refreshes_every_period_and_before_it_leaves_its_reachability_region(
    speed_mps: float, refreshes: int
) -> None:
    """C10: 30 m of way at 20 m/s last 1.5 s."""
    legs = [resting_forever(0, Point(0.0, 0.0))]
    if speed_mps:
        legs = [moving(0, Point(0.0, 0.0), Point(2_000.0, 0.0), speed_mps)]
    world = ContextWorld({"a": legs})
    subscription = world.subscribe(0.1, "a", interest=where(box(900, 900, 1_000, 1_000)))
    world.run(22)
    row = world.nodes["a"].issued.subscriptions.get(subscription)
    assert row is not None
    assert row.version == refreshes


def test_a_matched_event_finds_a_subscriber_that_has_moved_on() -> None:
    """C10: the subscriber drives along the row; each event reaches it where it is."""
    hosts = line(10)
    hosts["car"] = [
        moving(0, Point(600.0, 20.0), Point(1_350.0, 20.0), 15.0),
        resting_forever(50_000_000, Point(1_350, 20)),
    ]
    world = ContextWorld(hosts)
    subscription = world.subscribe(5, "car", interest=MIDDLE)
    events = [world.publish(second, "h0", relevance=MIDDLE) for second in range(8, 45, 4)]
    world.run(50)
    assert world.deliveries == sorted((event, subscription) for event in events)


def test_a_host_that_enters_a_region_is_told_by_a_digest_what_is_held_there() -> None:
    """C11"""
    hosts = line(4)
    arrives = [
        resting(0, Point(300.0, 400.0), 8 * SECOND_US),
        moving(8 * SECOND_US, Point(300.0, 400.0), Point(300.0, 10.0), 50.0),
        resting_forever(15_800_000, Point(300.0, 10.0)),
    ]
    hosts["newcomer"] = arrives
    world = ContextWorld(hosts, params=ContextParams(refresh_s=100.0, silent_s=200.0))
    event = world.publish(6, "h0", lifetime_s=60, relevance=MIDDLE)
    subscription = world.subscribe(6, "h3", lifetime_s=60, interest=MIDDLE)
    world.run(22)
    assert event in world.nodes["newcomer"].held.events
    assert subscription in world.nodes["newcomer"].held.subscriptions
    assert 1 <= world.sent("digest") <= 3


def test_a_digest_makes_a_match_that_only_the_newcomer_can_make() -> None:
    """C11, C4: nobody else in the region satisfies the interest."""
    hosts = line(4)
    hosts["truck"] = [
        resting(0, Point(300.0, 400.0), 8 * SECOND_US),
        moving(8 * SECOND_US, Point(300.0, 400.0), Point(300.0, 10.0), 50.0),
        resting_forever(15_800_000, Point(300.0, 10.0)),
    ]
    world = ContextWorld(hosts, {"truck": {"kind": "truck"}}, ContextParams(refresh_s=100.0, silent_s=200.0))
    event = world.publish(6, "h0", lifetime_s=60, relevance=where(MIDDLE.region, "kind = 'truck'"))
    subscription = world.subscribe(6, "h3", lifetime_s=60, interest=MIDDLE)
    world.run(12)
    assert world.deliveries == []
    world.run(22)
    assert world.deliveries == [(event, subscription)]


def test_a_host_that_leaves_a_region_forgets_what_is_held_there() -> None:
    """C7"""
    hosts = line(4)
    hosts["h2"] = [
        moving(0, Point(300.0, 0.0), Point(300.0, 400.0), 20.0),
        resting_forever(20_000_000, Point(300, 400)),
    ]
    world = ContextWorld(hosts)
    event = world.publish(1, "h1", lifetime_s=60, relevance=MIDDLE)
    world.run(3)
    assert event in world.nodes["h2"].held.events
    world.run(8)
    assert event not in world.nodes["h2"].held.events


def test_a_region_that_moves_with_its_publisher_is_refreshed_where_it_is() -> None:
    """C4, C10: relevance within 50 m of a moving ambulance."""
    hosts = line(8)
    hosts["ambulance"] = [
        resting(0, Point(0.0, 30.0), 6 * SECOND_US),
        moving(6 * SECOND_US, Point(0.0, 30.0), Point(1_000.0, 30.0), 25.0),
    ]
    world = ContextWorld(hosts)
    subscription = world.subscribe(2, "h7", interest=where(box(730, -20, 770, 20)))
    event = world.publish(5, "ambulance", lifetime_s=60, relevance=where(Anchored(rectangle(100, 100), "ambulance")))
    world.run(30)
    assert world.deliveries == []
    world.run(40)
    assert world.deliveries == [(event, subscription)]


def test_without_any_region_events_and_subscriptions_meet_in_their_issuers_surroundings() -> None:
    """C4: open scopes."""
    world = ContextWorld(line(5))
    subscription = world.subscribe(5, "h4")
    event = world.publish(6, "h0")
    world.run(9)
    assert world.deliveries == [(event, subscription)]


def test_a_host_without_a_position_yet_tells_as_soon_as_it_has_one() -> None:
    world = ContextWorld(line(3))
    node = world.nodes["h0"]
    node.handle(0, Start(Context("h0")))
    event = world_event(node.host)
    noted = node.handle(1, Publish(event))
    assert Note("no_position", event.id) in noted
    told = node.handle(2, Moved(Context("h0", Point(0.0, 0.0), 2)))
    assert any(getattr(getattr(each, "message", None), "event_id", None) == event.id for each in told)


# Bounds.


def test_every_table_is_bounded_and_drops_are_noted() -> None:
    """C7"""
    params = ContextParams(events_max=3, subscriptions_max=3, local_events_max=5, local_subscriptions_max=5)
    world = ContextWorld(line(3), params=params)
    for number in range(12):
        world.publish(5 + number / 10, "h0", lifetime_s=30 + number, relevance=MIDDLE)
        world.subscribe(5 + number / 10, "h1", lifetime_s=30 + number, interest=MIDDLE)
    world.run(8)
    held, issued = world.nodes["h2"].held, world.nodes["h0"].issued
    assert (len(held.events), len(held.subscriptions), len(issued.events)) == (3, 3, 5)
    for note in ("event_dropped", "subscription_dropped", "own_issue_dropped"):
        assert world.tally.notes[note] > 0


# Parameters.


def test_presets_are_valid_and_the_paper_has_no_recovery_from_voids() -> None:
    """C12, C13"""
    made = {name: make() for name, make in PRESETS.items()}
    paper = made["paper"]
    assert (paper.reachability_m, paper.safe_distance_m, paper.refresh_s, paper.beacon_s) == (50.0, 10.0, 5.0, 5.0)
    assert (paper.enlarge_m, paper.geocast.range_m) == (60.0, 200.0)
    assert paper.geocast.held_max == 0
    assert not paper.geocast.walks
    assert made["recommended"].geocast.walks


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"beacon_s": 0}, "beacon_s"),
        ({"safe_distance_m": 25}, "safe_distance_m"),
        ({"events_max": 0}, "events_max"),
        ({"enlarge_m": -1}, "enlarge_m"),
        ({"geocast": {"range_m": -1}}, "range_m"),
        ({"geocast": 3}, "geocast"),
        ({"becon_s": 3}, "becon_s"),
        ({"preset": "papre"}, "papre"),
    ],
)
def test_a_scenario_with_wrong_parameters_is_refused_by_name(given: dict[str, Any], named: str) -> None:
    with pytest.raises(BadScenario, match=named):
        kit_of({"kind": "context", **given})


def test_a_scenario_changes_single_values_of_a_preset() -> None:
    kit = kit_of({"kind": "context", "preset": "paper", "enlarge_m": 80, "geocast": {"range_m": 100}})
    node = kit.make_node(Seat("a", Random(1)))
    assert isinstance(node, ContextNode)
    assert node.params.enlarge_m == 80
    assert node.params.geocast.range_m == 100
    assert not node.params.geocast.walks


# Strangers and the wire.


def test_messages_survive_the_wire() -> None:
    codec = CompactCodec(MESSAGES)
    seen: dict[str, Message] = {}

    def hear(host: str, effects: list[Does]) -> None:
        for effect in effects:
            message = getattr(effect, "message", None)
            if isinstance(message, Message):
                seen[type(message).__name__] = message

    world = ContextWorld(line(5), {"h3": {"load": 1}})
    for name, node in world.nodes.items():
        original = node.handle

        def handle(now_us: int, given: Any, name: str = name, original: Any = original) -> list[Does]:
            effects: list[Does] = original(now_us, given)
            hear(name, effects)
            return effects

        node.handle = handle  # type: ignore[method-assign]
    world.subscribe(5, "h4", interest=MIDDLE, publishers=where(box(-50, -50, 50, 50)))
    world.publish(6, "h0", relevance=MIDDLE, audience=where(None, "neighbours.avg('load') > 0"))
    world.run(9)
    assert {
        "EventMessage",
        "SubscriptionMessage",
        "MatchedEvent",
        "MatchingRequest",
        "Query",
        "Answer",
        "Beacon",
    } <= set(seen)
    for message in seen.values():
        assert codec.decode(codec.encode(message)) == message


def test_a_matched_event_or_answer_for_a_stranger_does_nothing_here() -> None:
    """C9"""
    world = ContextWorld(line(2))
    world.run(6)
    node = world.nodes["h0"]
    event = world_event("h1")
    here = node.presence.here(6 * SECOND_US, node.around.context, Point(0, 0))
    reach = Reach(event.publisher, box(0, 0, 50, 50))
    matched = MatchedEvent(
        route=Route("m", box(0, 0, 9, 9), here),
        event=event,
        publisher=event.publisher,
        age_us=0,
        subscriber="h7",
        subscription_id="s",
    )
    assert all(isinstance(effect, SetTimer) for effect in node.handle(7, Received(matched, "h1")))
    assert node.handle(8, Received(Answer(here, "q", "h7", event.publisher), "h1")) == []
    digest = Digest(here, (EventItem(event, reach, 0, box(500, 500, 600, 600)),))
    assert node.handle(9, Received(digest, "h1")) == []


def each_with(name: str, *values: int) -> dict[str, dict[str, Value]]:
    """Attributes of h0, h1, …: one value each."""
    return {f"h{number}": {name: value} for number, value in enumerate(values)}


def world_event(host: str) -> Event:
    return Event("e", "x", Context(host, Point(0.0, 0.0)), 1, 10 * SECOND_US, {}, MIDDLE)


def test_a_host_that_was_frozen_past_the_expiry_of_its_events_goes_on() -> None:
    """C10: a refresh that is due before the expiry but noticed after it must not come up for ever."""
    world = ContextWorld(line(2), faults=FaultParams(pause=(Pause("h0", 6.0, 20.0),)))
    world.publish(5, "h0", lifetime_s=8, relevance=MIDDLE)
    world.run(25)
    assert world.world.kernel.steps < 2_000
