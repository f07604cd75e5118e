"""Clients that begin anew, subscriptions that change on the way, brokers that are gone for good (O1, O4, O7)."""

from collections.abc import Iterator
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from roamcast.broker.messages import Attach, Numbered
from roamcast.broker.modulators.limits import Limits
from roamcast.broker.modulators.spec import Wasm, spec_to_text
from roamcast.broker.overlay.broker import OverlayBroker
from roamcast.broker.overlay.client import OverlayClient
from roamcast.broker.overlay.directory import Directory
from roamcast.broker.overlay.messages import (
    MESSAGES,
    Ask,
    Enrol,
    Handoff,
    HandoffPart,
    HomeState,
    Met,
    Parcel,
    Produces,
    Refused,
    Row,
    Rows,
)
from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.overlay.pieces import PIECE_BYTES_MAX, Pieces, cut
from roamcast.broker.window import Delivery
from roamcast.model.space import Plane
from roamcast.model.subscription import Subscription
from roamcast.model.values import FOREVER_US
from roamcast.movement.legs import Leg, resting_forever
from roamcast.node.boundary import Node, Note, Received, Send
from roamcast.node.codec import BadMessage, Codec
from roamcast.papers.chaos_counting import COUNTING
from tests.broker.test_overlay_posts import event_of
from tests.broker.test_overlay_relocation import STILL, Story
from tests.cli.test_commands import invoke

HASTY = replace(STILL, give_up_s=10.0)


class Resting(Story):
    """Nobody moves, however long it takes."""

    def _legs(self, name: str) -> Iterator[Leg]:
        yield resting_forever(0, self._in_the_middle(Random(name)))


def client_of(story: Story) -> OverlayClient:
    node: Node = story.world.by_name["C0"].host.node
    assert isinstance(node, OverlayClient)
    return node


def begin_anew(story: Story, at: str) -> None:
    """The client forgets its session and begins another one at this broker."""
    now_us, client = story.world.kernel.now_us, client_of(story)
    client._forget(now_us)
    client.searching.reach = 0
    story._perform("C0", client._settle(now_us, at))


def one_more_arrives(story: Story) -> bool:
    before = len(story.ledger.got.get("C0/s0", []))
    story.publish("C1")
    story.pass_s(3)
    return len(story.ledger.got.get("C0/s0", [])) == before + 1


def test_o1_a_client_that_begins_anew_elsewhere_keeps_its_subscription_when_the_old_home_closes() -> None:
    story = Resting()
    home, to = story.home(), story.elsewhere()
    begin_anew(story, to)
    story.pass_s(1)
    assert story.place() == to
    # The old home broker hears nothing any more, asks, and is told to leave.
    story.pass_s(60)
    assert "C0" not in story.nodes[home].clients.sessions
    assert story.place() == to
    assert one_more_arrives(story)


def test_o1_a_client_that_begins_anew_while_its_post_is_elsewhere_leaves_no_post_behind() -> None:
    story = Resting()
    story.move_post(story.elsewhere())
    story.pass_s(1)
    to = next(name for name in story.brokers if name not in (story.place(), story.home()))
    begin_anew(story, to)
    story.pass_s(1)
    assert story.place() == to
    assert one_more_arrives(story)


def test_o4_a_client_that_begins_anew_where_its_session_departs_from_stays_there() -> None:
    story = Resting()
    home = story.home()
    story.move_home(story.elsewhere())
    for _ in range(1_000):
        story.pass_s(0.0005)
        if story.nodes[home].clients.sessions["C0"].departing:
            break
    begin_anew(story, home)
    story.pass_s(5)
    assert story.home() == story.place() == home
    assert one_more_arrives(story)


def test_o4_an_earlier_session_that_arrives_does_not_replace_a_later_one() -> None:
    story = Resting()
    home, to = story.home(), story.elsewhere()
    begin_anew(story, to)
    story.pass_s(0.5)
    born = story.nodes[to].clients.sessions["C0"].born
    node = story.nodes[home]
    story._perform(home, node.relocation.departing.horizontal(story.world.kernel.now_us, "C0", to))
    story.pass_s(2)
    assert story.nodes[to].clients.sessions["C0"].born == born
    assert story.place() == to
    assert one_more_arrives(story)


def test_o4_a_subscription_that_changes_while_its_post_moves_lives_on() -> None:
    story = Resting()
    home, to = story.home(), story.elsewhere()
    story.move_post(to)
    for _ in range(1_000):
        story.pass_s(0.0005)
        move = story.nodes[home].relocation.departing.moves.get("C0")
        if move is not None and move.awaits is not None:
            break
    assert move is not None
    assert move.awaits
    story.change_to("price >= 0")
    story.pass_s(3)
    assert story.place() == home
    assert one_more_arrives(story)


def test_o7_a_broker_that_is_gone_for_good_keeps_nobody_from_moving_and_nothing_waits_for_it() -> None:
    story = Resting(HASTY)
    to = story.elsewhere()
    (dead,) = [name for name in story.brokers if name not in (story.home(), to)]
    if "C1" in story.nodes[dead].clients.sessions:
        to, dead = dead, to
    story.world.crash(dead, keeps_disk=False)
    story.move_home(to)
    story.pass_s(30)
    assert story.ledger.notes["broker_given_up"] >= 1
    assert "C0" in story.nodes[to].clients.sessions
    assert one_more_arrives(story)
    story.pass_s(30)
    for name in story.brokers:
        brokers = story.nodes[name].brokers
        if name != dead and dead in brokers.flows.lost:
            assert dead not in brokers.told
            assert dead not in brokers.flows.of
            assert dead not in brokers.topology.rows


def test_o7_a_broker_that_was_given_up_is_met_anew_when_it_is_heard_again() -> None:
    story = Resting(HASTY)
    (other,) = [name for name in story.brokers if name not in (story.home(), story.elsewhere())]
    home = story.home()
    story.world.pause(other, story.world.kernel.now_us + 40_000_000)
    story.change_to("price >= 0")
    story.pass_s(30)
    assert other in story.nodes[home].brokers.flows.lost
    story.pass_s(40)
    brokers = story.nodes[home].brokers
    assert not brokers.flows.lost
    assert other in brokers.told
    assert other in brokers.topology.rows
    known = story.nodes[other].brokers.directory.entries["C0/s0"]
    assert known == brokers.directory.entries["C0/s0"]
    story.pass_s(20)
    assert one_more_arrives(story)


def test_o7_a_modulator_whose_broker_is_gone_for_good_is_made_anew_at_the_home_and_the_client_told() -> None:
    story = Resting(HASTY)
    for broker in story.brokers:
        if broker != story.home() and not story.nodes[broker].clients.sessions:
            story.move_post(broker)
            break
    story.pass_s(1)
    place, home = story.place(), story.home()
    assert place != home
    story.world.crash(place, keeps_disk=False)
    story.nodes[place].clients.posts.clear()
    story.pass_s(40)
    assert story.place() == home
    assert story.ledger.notes["events_lost"] >= 1
    assert one_more_arrives(story)


def test_o7_a_home_that_could_not_go_where_it_was_to_go_stays() -> None:
    story = Resting(HASTY)
    home = story.home()
    to = next(name for name in story.brokers if name != home and "C1" not in story.nodes[name].clients.sessions)
    story.move_home(to)
    for _ in range(1_000):
        story.pass_s(0.0005)
        if story.nodes[home].clients.sessions["C0"].departing:
            break
    story.world.crash(to, keeps_disk=False)
    story.pass_s(40)
    assert story.home() == story.place() == home
    assert not story.nodes[home].clients.sessions["C0"].departing
    assert one_more_arrives(story)


def test_o1_what_an_earlier_session_sent_is_not_taken_for_the_present_one() -> None:
    story = Resting()
    client = client_of(story)
    home, late = story.home(), Numbered(99, Delivery(event_of("C1", 99), 99, ("C0/s0",)), epoch=client.born)
    begin_anew(story, home)
    client.handle(story.world.kernel.now_us, Received(late, home))
    story.pass_s(2)
    assert client.customer.last < 99
    assert one_more_arrives(story)


# Bounds.


def broker(params: OverlayParams | None = None) -> OverlayBroker:
    return OverlayBroker("B", params or OverlayParams(), Random(1))


def parcel(peer: str, inside: Met | Ask | HandoffPart | Handoff, number: int = 1) -> Received:
    return Received(Parcel((peer, "B"), 1, 7, 0, 0, number, inside), peer)


def test_o7_brokers_that_one_knows_of_are_bounded() -> None:
    here = broker(OverlayParams(brokers_max=5))
    for number in range(20):
        here.handle(0, parcel(f"N{number}", Met()))
        here.handle(0, Received(Rows((Row(f"M{number}", 1),), True), f"M{number}"))
    brokers = here.brokers
    assert max(len(brokers.told), len(brokers.flows.of), len(brokers.owed)) <= 5
    assert Note("broker_refused", "N9") in here.handle(0, parcel("N9", Met()))
    assert here.left()["brokers told"] == len(brokers.told)


def test_o1_producers_that_one_knows_of_are_bounded_and_the_latest_stay() -> None:
    directory = Directory(Plane(), 10, 3)
    for number in range(6):
        directory.produces(Produces(f"P{number}", "N", 1))
    assert list(directory.producers) == ["P3", "P4", "P5"]


@pytest.mark.parametrize(("path", "at"), [((), 0), (("N",), 1), (("N", "Z"), 2), (("N", "B"), -1)])
def test_o5_a_parcel_that_is_nowhere_on_its_path_is_no_message(path: tuple[str, ...], at: int) -> None:
    codec = Codec(MESSAGES)
    good = codec.encode(Parcel(("N", "B"), 1, 1, 0, 0, 1, Met()))
    raw = msgspec.msgpack.decode(good[3:])
    raw = {**raw, "path": path, "at": at} if isinstance(raw, dict) else [raw[0], path, at, *raw[3:]]
    assert codec.decode(good)
    with pytest.raises(BadMessage, match="malformed"):
        codec.decode(good[:3] + msgspec.msgpack.encode(raw))


@pytest.mark.parametrize("path", [("N", "Z"), ("B", "B"), ("Z", "N", "B")])
def test_o5_a_parcel_that_should_be_elsewhere_is_dropped(path: tuple[str, ...]) -> None:
    assert broker().handle(0, Received(Parcel(path, 1, 1, 0, 0, 1, Met()), "N")) == [Note("parcel_astray", "N")]


# Handoffs in pieces.


def long_handoff(events: int, letters: int) -> Handoff:
    kept = tuple(
        Numbered(number, Delivery(replace(event_of("P", number), attributes={"text": "x" * letters}), number, ("s",)))
        for number in range(1, events + 1)
    )
    session = HomeState(1, 0, 1, events + 1, kept, 0, 0, False, (), (), (), (), ())
    return Handoff("C", 9, (), session, ("N",))


def test_o4_a_handoff_that_is_longer_than_a_message_goes_in_pieces_and_arrives_whole() -> None:
    handoff = long_handoff(1_000, 2_000)
    parts = cut(handoff)
    assert len(parts) > 4
    codec = Codec(MESSAGES)
    here = broker()
    here.handle(0, parcel("N", Ask("C", 9, (), True)))
    for number, part in enumerate(parts, start=2):
        assert isinstance(part, HandoffPart)
        sent = Parcel(("N", "B"), 1, 7, 0, 0, number, part)
        assert len(codec.encode(sent)) < PIECE_BYTES_MAX + 1_000
        assert "C" not in here.clients.sessions
        here.handle(0, Received(sent, "N"))
    assert handoff.session is not None
    assert tuple(here.clients.sessions["C"].lacking(0)) == handoff.session.kept
    assert here.relocation.arriving.arrivals == {}


def test_o4_a_short_handoff_goes_as_it_is() -> None:
    handoff = long_handoff(3, 10)
    assert cut(handoff) == [handoff]


def test_o4_a_handoff_with_a_piece_missing_is_given_up() -> None:
    parts = [part for part in cut(long_handoff(1_000, 2_000)) if isinstance(part, HandoffPart)]
    here = broker()
    here.handle(0, parcel("N", Ask("C", 9, (), True)))
    here.handle(0, parcel("N", parts[0], 2))
    assert Note("handoff_unreadable", "C") in here.handle(0, parcel("N", parts[2], 3))
    assert here.relocation.arriving.arrivals == {}


def test_o4_pieces_that_are_no_handoff_are_none() -> None:
    part = HandoffPart("C", 9, 0, b"junk")
    pieces = Pieces(part)
    assert pieces.add(part)
    assert pieces.whole() is None


# Modulators.


def test_o9_a_broker_may_refuse_webassembly_and_the_consumer_is_told() -> None:
    here = broker(OverlayParams(modulators=Limits(module_bytes_max=0)))
    text = spec_to_text(Wasm(b"\0asm\1\0\0\0"))
    wanted = Subscription("s", "C", "x", 0, FOREVER_US, modulator=text)
    effects = here.handle(0, Received(Attach(1, 0, "first", (wanted,)), "C"))
    assert Note("modulator_refused", "s") in effects
    (refused,) = [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, Refused)]
    assert refused.subscription_id == "s"
    assert refused.why


def test_o9_a_consumer_notes_that_its_modulator_was_refused() -> None:
    story = Resting()
    story.subscribe("C0", "TRUE", modulator="nobody knows it")
    story.pass_s(1)
    assert story.ledger.notes["subscription_refused"] == 1


def test_o4_a_post_of_a_later_session_is_kept_when_an_entry_of_an_earlier_one_comes_late() -> None:
    here = broker()
    wanted = Subscription("s", "C", "x", 0, FOREVER_US, modulator=COUNTING)
    here.handle(1_000, Received(Attach(1, 0, "first", (wanted,)), "C"))
    late = Enrol(wanted, "N", 5, 5)
    assert here.clients.enrolled(late) == [Note("entry_refused", "s")]
    assert "s" in here.clients.posts
    assert here.clients.enrolled(Enrol(wanted, "N", 10**9, 10**9)) == []
    assert "s" not in here.clients.posts


# Tables for people.


def test_o2_routes_shows_the_topology_the_paths_and_the_clients_of_an_overlay() -> None:
    code, output = invoke("routes", "scenarios/overlay-clients.toml", "--at", "8", "--broker", "broker-1")
    assert code == 0
    assert "broker-1 found broker-" in output
    assert "broker-1 → broker-" in output


def test_o4_the_tables_of_a_broker_name_its_sessions_and_posts() -> None:
    story = Resting()
    tables = story.nodes[story.home()].tables()
    assert [(each.client, each.attached) for each in tables.sessions if each.client == "C0"] == [("C0", True)]
    assert [(each.subscription, each.home) for each in tables.posts] == [("C0/s0", story.home())]
    assert len(tables.rows) == len(story.brokers)
    assert len(tables.paths) == len(story.brokers) - 1
