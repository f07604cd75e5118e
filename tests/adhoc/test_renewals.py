"""C10: a refresh that does not repeat what it refreshes, and what happens where nobody knows what that is."""

from msgspec.structs import replace

from roamcast.adhoc.context.messages import (
    MESSAGES,
    UNKNOWN_MAX,
    Digest,
    EventMessage,
    Reach,
    Renewal,
    Unknown,
)
from roamcast.adhoc.context.node import ContextNode
from roamcast.adhoc.context.params import ContextParams
from roamcast.adhoc.neighbours import Here
from roamcast.adhoc.routes import Route
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.values import Point
from roamcast.node.boundary import Broadcast, Note, Publish, Received, SetTimer, TimerFired
from roamcast.node.compact import CompactCodec
from tests.adhoc.context_worlds import ContextWorld, box, line, where
from tests.adhoc.test_context_strangers import SECOND_US, Sayings, busy_node

MIDDLE = where(box(280, -20, 320, 20))
SAYINGS = Sayings("plane", "box")


def test_what_is_held_is_renewed_without_being_repeated() -> None:
    world = ContextWorld(line(5))
    subscription = world.subscribe(5, "h4", interest=MIDDLE)
    world.run(6)
    first = world.nodes["h2"].held.subscriptions.get(subscription)
    world.run(17)
    last = world.nodes["h2"].held.subscriptions.get(subscription)
    assert first is not None
    assert last is not None
    assert (first.reach.version, last.reach.version) == (0, 2)
    assert (world.sent("subscription"), world.sent("renewal")) == (3, 6)


def forgetting(*forgetful: str) -> ContextWorld:
    """Hosts that hold a subscription no more when it is renewed; an event is published after that."""
    world = ContextWorld(line(5) | {"h2b": (300.0, 10.0)})
    subscription = world.subscribe(5, "h4", interest=MIDDLE)
    world.run(8)
    for name in forgetful:
        world.nodes[name].held.subscriptions.remove(subscription)
    event = world.publish(12, "h0", lifetime_s=1, relevance=MIDDLE)
    world.run(14)
    assert world.deliveries == [(event, subscription)]
    assert all(world.nodes[name].held.subscriptions.get(subscription) for name in ("h2", "h2b"))
    return world


def test_who_has_forgotten_what_goes_on_is_told_by_a_neighbour() -> None:
    world, usual = forgetting("h2"), forgetting()
    assert world.sent("digest") == usual.sent("digest") + 1
    assert (world.sent("unknown"), world.sent("untold")) == (1, 0)


def test_what_no_neighbour_knows_its_issuer_tells_again() -> None:
    world, usual = forgetting("h2", "h2b"), forgetting()
    assert world.sent("digest") == usual.sent("digest")
    assert 2 <= world.sent("untold") <= 4
    assert world.sent("subscription") >= 5


def test_an_issuer_repeats_no_more_often_than_it_refreshes() -> None:
    node = busy_node(SAYINGS)
    told = []
    for count in range(20):
        route = SAYINGS.route(id=f"u/own/{count}")
        effects = node.handle(SECOND_US + count, Received(replace(SAYINGS.untold("own"), route=route), "stranger"))
        told += [each.message for each in effects if isinstance(each, Broadcast)]
    assert [type(message) for message in told] == [EventMessage]


def renewal(issue: str, issued_us: int = 5, version: int = 4) -> Renewal:
    route = Route(f"e/{issue}/{version}", SAYINGS.region, SAYINGS.here)
    reach = Reach(Context("stranger", Point(10.0, 5.0)), SAYINGS.region, version)
    return Renewal(
        route=route, issue=issue, issued_us=issued_us, reach=reach, age_us=SECOND_US, region=SAYINGS.region
    )


def asked(message: Renewal, *before: EventMessage | Unknown) -> tuple[str, ...]:
    """What a host asks for that hears this message, after others."""
    node = busy_node(SAYINGS)
    for count, each in enumerate((*before, message)):
        node.handle(10 + count, Received(each, "stranger"))
    told = [each.message for each in node.handle(SECOND_US, TimerFired("unknown")) if isinstance(each, Broadcast)]
    return told[0].issues if told and isinstance(told[0], Unknown) else ()


TOLD = EventMessage(route=SAYINGS.route(id="e/e/0"), item=SAYINGS.event_item())


def test_only_who_holds_nothing_of_it_asks() -> None:
    assert asked(renewal("e")) == ("e",)
    assert asked(renewal("e"), TOLD) == ()


def test_what_was_issued_anew_under_the_same_id_is_asked_for() -> None:
    assert asked(renewal("e", issued_us=6), TOLD) == ("e",)


def test_what_was_withdrawn_is_not_asked_for() -> None:
    withdrawal = replace(TOLD, route=replace(TOLD.route, id="e/e/9"), withdrawn=True)
    assert asked(renewal("e"), TOLD, withdrawal) == ()


def test_what_does_not_concern_this_place_is_not_asked_for() -> None:
    assert asked(replace(renewal("e"), region=box(900, 900, 950, 950))) == ()


def test_what_a_neighbour_has_asked_for_is_not_asked_for_again() -> None:
    node = busy_node(SAYINGS)
    node.handle(10, Received(renewal("e"), "stranger"))
    node.handle(11, Received(Unknown(SAYINGS.here, ("e",)), "neighbour0"))
    assert not any(isinstance(each, Broadcast) for each in node.handle(SECOND_US, TimerFired("unknown")))


def test_each_version_is_asked_for_once_and_questions_are_bounded() -> None:
    node = busy_node(SAYINGS)
    timers = 0
    for count in range(UNKNOWN_MAX + 5):
        for attempt in range(2):
            message = renewal(f"e{count}")
            route = replace(message.route, id=f"{message.route.id}/{attempt}")
            effects = node.handle(10 + count, Received(replace(message, route=route), "stranger"))
            timers += SetTimer("unknown", 0).name in {each.name for each in effects if isinstance(each, SetTimer)}
    assert timers == 1
    [told] = [each.message for each in node.handle(SECOND_US, TimerFired("unknown")) if isinstance(each, Broadcast)]
    assert isinstance(told, Unknown)
    assert len(told.issues) == UNKNOWN_MAX


def test_who_holds_it_answers_with_a_digest() -> None:
    """Along with what a newcomer, which the neighbour is here, is told anyway."""
    node = busy_node(SAYINGS)
    node.handle(10, Received(TOLD, "stranger"))
    node.handle(11, Received(Unknown(SAYINGS.here, ("e", "unheard of")), "neighbour0"))
    told = [each.message for each in node.handle(SECOND_US, TimerFired("digest")) if isinstance(each, Broadcast)]
    assert [event.event.id for each in told if isinstance(each, Digest) for event in each.events] == ["own", "e"]


def test_only_its_issuer_renews_what_is_held() -> None:
    node = busy_node(SAYINGS)
    node.handle(10, Received(TOLD, "stranger"))
    own = renewal("e")
    forged = replace(own, reach=replace(own.reach, issuer=Context("mallory", Point(90.0, 5.0)), version=1_000))
    forged = replace(forged, route=replace(own.route, id="e/e/1000"))
    effects = node.handle(11, Received(forged, "mallory"))
    assert Note("bad_message", "e") in effects
    assert not any(isinstance(each, SetTimer) and each.name == "unknown" for each in effects)
    assert held_version(node) == 3
    node.handle(12, Received(own, "stranger"))
    assert held_version(node) == 4


def held_version(node: ContextNode) -> int:
    row = node.held.events.get("e")
    assert row is not None
    return row.reach.version


def test_a_host_that_had_no_position_when_it_was_to_ask_asks_again_later() -> None:
    node = busy_node(SAYINGS)
    node.handle(10, Received(renewal("e"), "stranger"))
    assert node.renewals.fired(SECOND_US, None) == []
    assert any(isinstance(each, SetTimer) for each in node.renewals.missing(SECOND_US, renewal("f")))


def test_an_impossible_renewal_is_noted() -> None:
    node = busy_node(SAYINGS)
    message = renewal("e")
    bad = replace(message, reach=replace(message.reach, version=-1))
    assert Note("bad_message", "e") in node.handle(10, Received(bad, "stranger"))


def test_a_renewal_takes_half_the_bytes() -> None:
    codec = CompactCodec(MESSAGES)
    here = Here(Point(1.25, 2.5), Point(0.5, 1.75))
    whole = replace(TOLD, route=replace(TOLD.route, here=here))
    short = replace(renewal("e"), route=replace(TOLD.route, here=here))
    assert len(codec.encode(short)) < 0.6 * len(codec.encode(whole))


def brought_twice(goes_s: float, seconds: float) -> tuple[ContextWorld, list[int]]:
    """Two gateways bring one event; the first is gone after a while. How long ago it was told, each second."""
    params = replace(ContextParams(), silent_s=15.0)
    world = ContextWorld({"g1": (200.0, 0.0), "h": (300.0, 0.0), "g2": (400.0, 0.0)}, params=params)
    event = Event("far:e1", "x", Context("far"), 0, 600 * SECOND_US, {}, MIDDLE)
    for at_s, gateway in ((5.0, "g1"), (5.0, "g2")):
        world.at(at_s, gateway, Publish(event))
    world.world.kernel.at(round(goes_s * 1e6), world.nodes["g1"].issued.events.by_key.clear)
    silences = []
    for second in range(8, round(seconds)):
        world.run(second)
        row = world.nodes["h"].held.events.get(event.id)
        assert row is not None, f"forgotten at {second} s"
        silences.append(second * SECOND_US - row.told_us)
    return world, silences


def test_c10_l9_gateways_that_brought_the_same_event_renew_it_together() -> None:
    world, silences = brought_twice(goes_s=100, seconds=40)
    assert world.tally.notes["bad_message"] == 0
    assert max(silences) < 1.2 * ContextParams().refresh_s * SECOND_US


def test_c10_l9_what_one_gateway_no_longer_renews_goes_on_by_the_other() -> None:
    _, silences = brought_twice(goes_s=12, seconds=60)
    assert max(silences) < 1.2 * ContextParams().refresh_s * SECOND_US


def test_c10_the_publisher_goes_before_a_gateway_that_brought_its_event() -> None:
    """Wherever the gateway's word came from first, and however often it has told it."""
    node = busy_node(SAYINGS)
    own = SAYINGS.event_item()
    brought = replace(own, reach=replace(own.reach, issuer=Context("gate", Point(10.0, 5.0)), version=99))
    for told, (item, issuer) in enumerate(((brought, "gate"), (own, "stranger"), (brought, "gate"))):
        route = SAYINGS.route(id=f"told {told}")
        node.handle(10 + told, Received(EventMessage(route=route, item=item), issuer))
        row = node.held.events.get("e")
        assert row is not None
        assert row.reach.issuer.host == ("gate" if told == 0 else "stranger")
