"""L1, L7: what a frame is sealed, signed and numbered for; and that any bytes become a message or a count."""

import random
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from roamcast.adhoc.context.messages import Digest, EventMessage, Renewal, SubscriptionMessage, telling_id
from roamcast.adhoc.neighbours import Beacon, Here
from roamcast.adhoc.proximity.messages import Raised, Withdrawn
from roamcast.model.context import Context
from roamcast.model.region import Circle
from roamcast.model.space import Earth
from roamcast.model.values import Point
from roamcast.multicast import frames
from roamcast.multicast.carried import Carried, body_of
from roamcast.multicast.drops import REASONS, Dropped, Drops
from roamcast.multicast.frames import FRAME_BYTES_MAX, HEADER_BYTES, SEAL_BYTES, Attestation, body_bytes
from roamcast.multicast.keys import Identity
from roamcast.multicast.peers import IDLE_US, Peers
from roamcast.multicast.replay import WINDOW_FRAMES, Window
from roamcast.multicast.sealing import CONTEXT, NONCE, Seals
from roamcast.multicast.signing import UNSIGNED
from roamcast.multicast.statements import is_last_word, travels
from roamcast.node.boundary import Message
from tests.effort import examples
from tests.multicast.samples import (
    ANN,
    BOB,
    CODEC,
    EVE,
    GROUP,
    Posing,
    announced,
    any_messages,
    opened,
    outcome,
    published,
    raised,
    sealed,
    seals,
    subscribed,
)


@given(message=any_messages())
@examples(80)
def test_l7_every_message_of_both_protocols_arrives_as_it_was_sent(message: Message) -> None:
    heard = opened(seals("bob"), sealed(seals("ann"), message))
    assert CODEC.encode(heard.message) == CODEC.encode(message)
    assert (heard.sender, heard.group) == ("ann", GROUP)


@given(message=any_messages())
@examples(40)
def test_l7_a_forwarder_passes_the_signatures_of_the_origin_on(message: Message) -> None:
    assume(travels(message))
    forwarder, listener = seals("bob"), seals("eve")
    first = opened(forwarder, sealed(seals("ann"), message))
    second = opened(listener, sealed(forwarder, first.message))
    assert CODEC.encode(second.message) == CODEC.encode(message)
    assert second.sender == "bob"


def test_l7_a_forwarder_may_add_to_the_age_of_a_message() -> None:
    forwarder = seals("bob")
    message = opened(forwarder, sealed(seals("ann"), raised(forward=True))).message
    assert isinstance(message, Raised)
    assert outcome(seals("eve"), sealed(forwarder, replace(message, age_us=20_000))) == "heard"


def test_l7_a_forwarder_can_change_nothing_else() -> None:
    forwarder = seals("bob")
    message = opened(forwarder, sealed(seals("ann"), raised(forward=True))).message
    assert isinstance(message, Raised)
    for changed in (replace(message, sequence=9), replace(message, forward=False)):
        with pytest.raises(Dropped, match="unattested"):
            sealed(forwarder, changed)


def test_l7_whole_numbers_in_place_of_doubles_do_not_break_a_signature() -> None:
    assert outcome(seals("bob"), sealed(seals("ann"), announced(naval=Point(1, 2)))) == "heard"


# Who may say what.


def test_l7_what_another_host_is_said_to_have_raised_is_not_sent_without_its_signature() -> None:
    with pytest.raises(Dropped, match="unattested"):
        sealed(seals("eve"), raised("ann"))


def test_l7_an_event_that_somebody_else_signed_is_forged() -> None:
    as_ann = seals("ann", identity=EVE)
    listener = seals("bob")
    assert outcome(listener, sealed(seals("ann"), raised())) == "heard"
    assert outcome(listener, sealed(as_ann, raised(number=2))) == "forged"


def test_l7_who_was_heard_first_keeps_the_name() -> None:
    listener = seals("bob")
    assert outcome(listener, sealed(seals("ann", identity=EVE), raised())) == "heard"
    assert outcome(listener, sealed(seals("ann"), raised())) == "forged"


def test_l7_with_a_list_of_keys_only_those_on_it_are_heard() -> None:
    listener = seals("bob", peers=Peers({"ann": ANN.public}))
    assert outcome(listener, sealed(seals("eve"), raised("eve"))) == "stranger"
    assert outcome(listener, sealed(seals("ann", identity=EVE), raised())) == "forged"
    assert outcome(listener, sealed(seals("ann"), raised())) == "heard"


def test_l7_a_node_that_is_not_on_its_own_list_hears_its_messages_repeated() -> None:
    """They come back from forwarders, also when it has forgotten that it signed them."""
    known = {"ann": ANN.public}
    listener, speaker = seals("bob", peers=Peers(known)), seals("ann", peers=Peers({"bob": BOB.public}))
    message = opened(listener, sealed(speaker, raised(forward=True))).message
    speaker.signatures._attested.clear()
    assert outcome(speaker, sealed(listener, message)) == "heard"


def test_l7_nobody_else_speaks_in_the_name_of_the_listener() -> None:
    assert outcome(seals("bob"), sealed(seals("bob", 2, identity=EVE), raised("bob"))) == "forged"


def test_l7_nobody_withdraws_what_another_announced() -> None:
    listener = seals("bob")
    assert outcome(listener, sealed(seals("ann"), announced())) == "heard"
    with pytest.raises(Dropped, match="unattested"):
        sealed(seals("eve"), Withdrawn("ann:a1"))
    assert outcome(listener, sealed(seals("ann", 2), Withdrawn("ann:a1"))) == "heard"


def test_l7_an_id_belongs_to_the_host_it_begins_with() -> None:
    message = raised("ann")
    stolen = replace(message, event=replace(message.event, id="bob:e1"))
    with pytest.raises(Dropped, match="forged"):
        sealed(seals("ann"), stolen)


@pytest.mark.parametrize(
    "stolen",
    [
        raised(event=replace(raised().event, id="ann:lamp:e1")),
        raised(stream="ann:lamp:a1"),
        announced(announcement=replace(announced().announcement, id="ann:lamp:a1")),
    ],
    ids=["event", "stream", "announcement"],
)
def test_l7_an_id_of_a_host_with_a_colon_in_its_name_is_not_that_of_a_shorter_name(stolen: Message) -> None:
    """Of `ann:lamp` every id begins with `ann:` too."""
    with pytest.raises(Dropped, match=r"'ann:lamp:..' is not an id of 'ann'"):
        sealed(seals("ann"), stolen)


def frame_of(by: Seals, message: Message) -> bytes:
    """By somebody who does not look at what it sends."""
    said = Attestation(by.identity.public, by.identity.sign(b"something"))
    attestations = UNSIGNED if is_last_word(message, by.name) else (said,)
    return by._sealed(body_bytes(by.name, by.identity.public, CODEC.encode(message), attestations), GROUP)


@pytest.mark.parametrize("forward", [False, True])
def test_l7_a_stream_belongs_to_the_host_it_begins_with(forward: bool) -> None:
    """What is numbered in the stream of another would be taken in place of what that one raises."""
    listener, eve = seals("bob"), seals("eve")
    carried = raised("far", stream="eve:a1")
    carried = replace(carried, event=replace(carried.event, body=body_of(Carried("eve"))))
    for message in (raised("eve", forward=forward), replace(carried, forward=forward)):
        assert outcome(listener, frame_of(eve, message)) == "heard"
        assert outcome(listener, frame_of(eve, replace(message, stream="ann:a1"))) == "forged"


def test_l7_a_subscription_is_not_taken_for_its_withdrawal() -> None:
    forwarder = seals("bob")
    heard = opened(forwarder, sealed(seals("ann"), subscribed())).message
    assert isinstance(heard, SubscriptionMessage)
    with pytest.raises(Dropped, match="unattested"):
        sealed(forwarder, replace(heard, withdrawn=True))


def test_l7_an_event_is_not_taken_for_its_withdrawal() -> None:
    """Who passes an event on cannot end it."""
    forwarder = seals("bob")
    heard = opened(forwarder, sealed(seals("ann"), published())).message
    assert isinstance(heard, EventMessage)
    with pytest.raises(Dropped, match="unattested"):
        sealed(forwarder, replace(heard, withdrawn=True))


WIDE = Circle(Point(0.0, 0.0), 9_000.0)
WIDER: dict[str, Callable[[EventMessage], EventMessage]] = {
    "held": lambda told: replace(told, item=replace(told.item, region=WIDE), route=replace(told.route, target=WIDE)),
    "reached": lambda told: replace(told, item=replace(told.item, reach=replace(told.item.reach, region=WIDE))),
    "version": lambda told: replace(
        told,
        item=replace(told.item, reach=replace(told.item.reach, version=9)),
        route=replace(told.route, id="e/ann:e1/9"),
    ),
    "target": lambda told: replace(told, route=replace(told.route, target=WIDE)),
    "way": lambda told: replace(told, route=replace(told.route, id="e/ann:e1/9")),
}


@pytest.mark.parametrize("change", WIDER)
def test_l7_who_passes_an_event_on_cannot_widen_where_it_goes(change: str) -> None:
    forwarder = seals("bob")
    heard = opened(forwarder, sealed(seals("ann"), published())).message
    assert isinstance(heard, EventMessage)
    with pytest.raises(Dropped, match=r"unattested|forged"):
        sealed(forwarder, WIDER[change](heard))


def test_l7_nobody_tells_the_event_of_another_as_its_own_in_a_place_of_its_choice() -> None:
    eve = seals("eve")
    heard = opened(eve, sealed(seals("ann"), published())).message
    assert isinstance(heard, EventMessage)
    reach = replace(heard.item.reach, issuer=Context("eve"), region=WIDE)
    route = replace(heard.route, id="e/ann:e1@eve/0", target=WIDE)
    told = replace(heard, item=replace(heard.item, reach=reach, region=WIDE), route=route)
    with pytest.raises(Dropped, match="forged"):
        sealed(eve, told)


def renewed(told: EventMessage, by: str = "ann", version: int = 1) -> Renewal:
    reach = replace(told.item.reach, version=version, issuer=Context(by))
    event = told.item.event
    return Renewal(
        route=replace(told.route, id=telling_id("e", event.id, by, version)),
        issue=event.id,
        issued_us=event.published_us,
        reach=reach,
        age_us=0,
        region=told.item.region,
    )


def test_l7_a_digest_has_the_signatures_of_the_event_and_of_its_last_renewal() -> None:
    """Who heard the event whole and then its renewal tells a newcomer both, by their origin's signatures."""
    ann, teller, newcomer = seals("ann"), seals("bob"), seals("eve")
    told = published()
    opened(teller, sealed(ann, told))
    renewal = renewed(told)
    opened(teller, sealed(ann, renewal))
    item = replace(told.item, reach=replace(renewal.reach, age_us=7))
    assert outcome(newcomer, sealed(teller, Digest(told.route.here, (item,)))) == "heard"
    with pytest.raises(Dropped, match="unattested"):
        sealed(teller, Digest(told.route.here, (replace(item, region=WIDE),)))


@pytest.mark.parametrize(("trusted", "heard"), [(None, "heard"), (("eve",), "heard"), (("bob",), "stranger")])
def test_l7_l9_a_gateway_renews_what_another_brought_if_it_is_trusted(
    trusted: tuple[str, ...] | None, heard: str
) -> None:
    listener = seals("bob", peers=Peers(gateways=trusted))
    assert outcome(listener, sealed(seals("eve"), renewed(published("far"), by="eve"))) == heard


@pytest.mark.parametrize("first", ["ann", "eve"])
def test_l7_who_uses_the_session_of_another_speaks_for_itself_and_silences_nobody(first: str) -> None:
    """Who has the group's key can seal for every session, also before the other one was heard."""
    listener, ann, eve = seals("bob"), seals("ann"), seals("eve")
    eve.session, eve._cipher, eve._counter = ann.session, ann._cipher, 2**40
    for each in (ann, eve) if first == "ann" else (eve, ann):
        assert opened(listener, sealed(each, raised(each.name))).sender == each.name
    for number in (2, 3):
        datagrams = [sealed(each, raised(each.name, number)) for each in (ann, eve)]
        assert [outcome(listener, each) for each in datagrams] == ["heard", "heard"]
        assert [outcome(listener, each) for each in datagrams] == ["replayed", "replayed"]
    again = seals("eve", 2)
    assert outcome(listener, sealed(again, raised("eve", 4))) == "heard"
    assert outcome(listener, sealed(ann, raised(number=4))) == "heard"
    assert outcome(listener, sealed(eve, raised("eve", 5))) == "replayed"


def test_l7_nobody_can_use_up_the_numbers_of_another() -> None:
    """Who has the group's key knows all but the sender's own key."""
    listener, ann = seals("bob"), seals("ann")
    assert outcome(listener, sealed(ann, raised())) == "heard"
    eve = seals("ann", identity=EVE)
    eve.session, eve._cipher, eve._counter = ann.session, ann._cipher, 2**60
    eve.identity = Posing(EVE, ANN.public)
    assert outcome(listener, sealed(eve, Beacon(Here(Point(0.0, 0.0))))) == "forged"
    assert outcome(listener, sealed(ann, raised(number=2))) == "heard"


def test_l7_what_is_passed_on_needs_its_origins_signature() -> None:
    eve, listener = seals("eve"), seals("bob")
    assert outcome(listener, sealed(seals("ann"), announced())) == "heard"
    eve.signatures.name = "ann"
    assert outcome(listener, sealed(eve, raised("ann"))) == "forged"
    assert outcome(listener, sealed(eve, raised("ann", forward=True))) == "forged"


def test_l7_what_does_not_travel_is_signed_once() -> None:
    near, far = (len(sealed(seals("ann"), raised(forward=forward))) for forward in (False, True))
    assert far - near > 96


# Seals.


def test_l7_a_group_with_another_key_is_told_by_its_id() -> None:
    assert outcome(seals("bob", group_key=b"k" * 32), sealed(seals("ann"), raised())) == "wrong_key"
    assert outcome(seals("bob", group_key=b"k" * 32), sealed(seals("ann", group_key=b"k" * 32), raised())) == "heard"


def test_l7_nothing_of_a_message_can_be_read_without_the_key() -> None:
    datagram = sealed(seals("ann", group_key=b"k" * 32), raised())
    assert b"ann" not in datagram
    assert b"ice" not in datagram


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
@examples(200)
def test_l7_a_frame_with_one_bit_changed_is_not_heard(place: int, bit: int) -> None:
    listener = seals("bob")
    datagram = bytearray(sealed(seals("ann"), raised()))
    datagram[place % len(datagram)] ^= 1 << bit
    assert outcome(listener, bytes(datagram)) in ("broken_seal", "wrong_key", "other_space", "not_ours", "version")
    assert not listener.peers.by_name


def test_l7_the_group_that_a_frame_was_sent_to_is_sealed_with_it() -> None:
    datagram = bytearray(sealed(seals("ann"), raised()))
    datagram[frames.GROUP_AT + 2] ^= 1
    assert outcome(seals("bob"), bytes(datagram)) == "broken_seal"


def test_l7_no_two_frames_share_a_key_and_a_nonce() -> None:
    ann, later = seals("ann", 1), seals("ann", 2)
    used = [
        (each.session, frames.read_header(sealed(each, raised())).counter) for each in (ann, later) for _ in range(50)
    ]
    assert len(set(used)) == 100
    assert len({NONCE.pack(counter) for counter in range(1, 300)}) == 299


def test_l1_nodes_on_a_plane_and_on_earth_are_not_confused() -> None:
    on_earth = seals("ann", space=Earth())
    assert outcome(seals("bob"), sealed(on_earth, raised())) == "other_space"
    assert outcome(seals("bob", space=Earth()), sealed(on_earth, raised())) == "heard"


# Form.


def test_l7_a_frame_that_is_cut_off_anywhere_is_dropped() -> None:
    datagram = sealed(seals("ann"), raised())
    outcomes = {outcome(seals("bob"), datagram[:length]) for length in range(len(datagram))}
    assert outcomes == {"truncated", "broken_seal"}
    assert outcome(seals("bob"), datagram[: HEADER_BYTES + SEAL_BYTES]) == "truncated"


def test_l7_a_frame_that_is_too_long_is_neither_sent_nor_read() -> None:
    message = raised()
    long = replace(message, event=replace(message.event, attributes={"text": "x" * FRAME_BYTES_MAX}))
    with pytest.raises(Dropped, match="too_long"):
        sealed(seals("ann"), long)
    assert outcome(seals("bob"), bytes(FRAME_BYTES_MAX + 1)) == "oversized"


@pytest.mark.parametrize(
    ("datagram", "reason"),
    [
        (b"", "truncated"),
        (b"r", "truncated"),
        (b"ra", "truncated"),
        (b"ra\x07rest", "version"),
        (b"GET / HTTP/1.1", "not_ours"),
    ],
)
def test_l7_what_is_no_frame_is_told_by_its_first_bytes(datagram: bytes, reason: str) -> None:
    assert outcome(seals("bob"), datagram) == reason


def test_l7_a_sealed_frame_with_anything_else_inside_is_malformed() -> None:
    ann = seals("ann")
    for body in (b"", b"\x90", b"\xc1", b"\x95\xa3ann\xc4\x01k\xc4\x01c\xc4\x01m\x90", bytes(300)):
        ann._counter += 1
        head = frames.header_bytes(frames.Header(ann._front, GROUP, ann.session, ann._counter))
        expected = "truncated" if not body else "malformed"
        plain = ANN.sign(CONTEXT + head + body) + b"\0" + body
        assert outcome(seals("bob"), head + ann._cipher.encrypt(NONCE.pack(ann._counter), plain, head)) == expected


def test_l7_a_frame_with_anything_else_as_its_message_is_malformed() -> None:
    ann = seals("ann")
    with pytest.raises(Dropped, match="malformed"):
        ann.seal(b"rc\x01\x91\xa4what", GROUP)
    body = frames.body_bytes("ann", ANN.public, b"rc\x01\x91\xa4what")
    head = frames.header_bytes(frames.Header(ann._front, GROUP, ann.session, 1))
    datagram = head + ann._cipher.encrypt(NONCE.pack(1), ANN.sign(CONTEXT + head + body) + b"\0" + body, head)
    assert outcome(seals("bob"), datagram) == "malformed"


@given(datagram=st.binary(max_size=200))
@examples(300)
def test_l7_random_bytes_are_dropped(datagram: bytes) -> None:
    listener = seals("bob")
    assert outcome(listener, datagram) in REASONS
    assert outcome(listener, frames.PREFIX + datagram) in REASONS
    assert outcome(listener, listener._front + datagram) in REASONS
    assert not listener.peers.by_name


def test_l7_a_flood_of_bad_datagrams_leaves_nothing_in_memory() -> None:
    listener, ann = seals("bob"), seals("ann")
    rng = random.Random(1)
    good = sealed(ann, raised())
    assert outcome(listener, good) == "heard"

    def flood(count: int) -> None:
        for _ in range(count):
            forged = bytearray(good)
            forged[rng.randrange(frames.SESSION_AT, len(forged))] ^= 0x55
            outcome(listener, bytes(forged))
            outcome(listener, frames.PREFIX + rng.randbytes(rng.randrange(300)))

    flood(500)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    flood(5_000)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 50_000
    assert list(listener.peers.by_name) == ["ann"]


# Replay.


def test_l7_a_frame_is_taken_once() -> None:
    listener = seals("bob")
    datagram = sealed(seals("ann"), raised())
    assert [outcome(listener, datagram) for _ in range(3)] == ["heard", "replayed", "replayed"]


def test_l7_what_this_node_sent_itself_is_own() -> None:
    ann = seals("ann")
    assert outcome(ann, sealed(ann, raised())) == "own"


def test_l7_recordings_of_an_earlier_session_are_not_taken() -> None:
    listener = seals("bob")
    recorded = sealed(seals("ann", 5), raised(number=1))
    assert outcome(listener, sealed(seals("ann", 8), raised(number=2))) == "heard"
    assert outcome(listener, recorded) == "replayed"


def test_l7_a_node_that_starts_again_is_heard_at_once() -> None:
    listener = seals("bob")
    for began_us in (1, 2, 3):
        assert outcome(listener, sealed(seals("ann", began_us), raised(number=began_us))) == "heard"
    assert len(listener.peers.by_session) == 1


@given(counters=st.lists(st.integers(1, 3 * WINDOW_FRAMES), max_size=200))
@examples(200)
def test_l7_a_window_takes_a_number_once_and_none_from_far_behind(counters: list[int]) -> None:
    window, seen = Window(), set[int]()
    for counter in counters:
        behind = max(seen, default=0) - counter
        assert window.take(counter) == (counter not in seen and behind < WINDOW_FRAMES)
        seen.add(counter)
        assert window.seen < 2**WINDOW_FRAMES


def test_l7_a_window_is_not_hurt_by_a_leap() -> None:
    window = Window()
    assert window.take(1)
    assert window.take(2**62)
    assert not window.take(2**62)
    assert not window.take(1)


# Bounds.


def test_l7_more_names_than_there_is_room_for_wait_until_one_is_silent() -> None:
    listener = seals("bob", peers=Peers(peers_max=2))
    datagrams = [
        seals_of_stranger.seal(CODEC.encode(raised(name)), GROUP)
        for name in ("n1", "n2", "n3")
        for seals_of_stranger in [seals(name, identity=Identity.fresh())]
    ]
    assert [outcome(listener, datagram) for datagram in datagrams] == ["heard", "heard", "crowded"]
    assert outcome(listener, datagrams[2], now_us=1_000 + IDLE_US) == "heard"
    assert list(listener.peers.by_name) == ["n2", "n3"]
    assert len(listener.peers.by_session) == 2


def test_l7_remembered_signatures_are_bounded() -> None:
    listener, ann = seals("bob"), seals("ann")
    listener.signatures.attested_max = 3
    for number in range(1, 9):
        assert outcome(listener, sealed(ann, raised(number=number, forward=True))) == "heard"
    assert len(listener.signatures._attested) == 3


def test_l7_counts_tell_only_what_is_new() -> None:
    drops, told = Drops(), list[tuple[str, int]]()
    drops.count("forged")
    drops.count("forged")
    drops.news(lambda reason, more: told.append((reason, more)))
    drops.count("own")
    drops.news(lambda reason, more: told.append((reason, more)))
    assert told == [("forged", 2), ("own", 1)]
