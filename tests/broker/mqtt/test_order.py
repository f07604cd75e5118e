"""L2: messages of one publisher, topic and QoS reach everybody in the order in which they came (MQTT 5, section 4.6),
whichever way through the broker each of them takes."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.mqtt import Message, encode
from roamcast.mqtt.batches import batch_of
from roamcast.mqtt.packets import V5, Publish
from roamcast.server.write_ahead import WriteAhead
from tests.broker.mqtt.scene import Scene
from tests.broker.mqtt.stage import SimClient
from tests.effort import examples

KINDS = ("plain", "retained", "lasting")


def packet(number: int, kind: str, topic: str = "t") -> Publish:
    lasts = kind == "lasting"
    return Publish(
        topic,
        b"%d" % number,
        0,
        kind == "retained",
        message_expiry_s=1_000 if lasts else None,
        user_properties=(("persist", "true"),) if lasts else (),
    )


def numbers(client: SimClient) -> list[int]:
    return [int(each) for each in client.taken]


def keep_the_disk_from_storing(scene: Scene, broker: str = "a") -> None:
    scene.stage.brokers[broker].head.submit = lambda *_: None  # type: ignore[method-assign]


def write_ahead(scene: Scene, broker: str = "a") -> WriteAhead:
    return scene.stage.brokers[broker].server.write_ahead


def test_l2_a_plain_message_does_not_overtake_a_retained_one() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t", 0)
    writer._say(packet(0, "retained"), packet(1, "plain"))
    scene.rest()
    assert numbers(reader) == [0, 1]


def test_l2_a_retained_message_does_not_overtake_a_plain_one() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t", 0)
    writer._say(packet(0, "plain"), packet(1, "retained"), packet(2, "plain"))
    scene.rest()
    assert numbers(reader) == [0, 1, 2]


def test_l2_a_plain_message_does_not_overtake_a_retained_one_that_a_new_subscription_gets() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.publish(writer, "t", b"0", 0, True)
    reader.subscribe("t", 0)
    while "t" not in scene.stage.brokers["a"].server.core.border.sessions["reader"].subscriptions:
        scene.rest(0.0001)
    assert writer._up is not None
    writer._up.receive(encode(packet(1, "plain"), V5))
    scene.rest()
    assert numbers(reader) == [0, 1]


def test_l2_over_links_a_plain_message_does_not_overtake_a_retained_one() -> None:
    for seed in range(10):
        scene = Scene("abc", seed=seed)
        reader, writer = scene.client("reader", "c"), scene.client("writer")
        scene.subscribe(reader, "t", 0)
        writer._say(packet(0, "retained"), packet(1, "plain"), packet(2, "lasting"), packet(3, "plain"))
        scene.rest(1.0)
        assert numbers(reader) == [0, 1, 2, 3], f"seed {seed}"


@pytest.mark.slow
def test_l2_over_a_link_that_is_back_a_plain_message_does_not_overtake_what_waited_for_it() -> None:
    """One that comes before the two brokers are in step is lost, as with any link that is down."""
    for seed in range(30):
        scene = Scene("ab", seed=seed)
        reader, writer = scene.client("reader", "b"), scene.client("writer")
        scene.subscribe(reader, "t", 0)
        scene.stage.unlink("a", "b")
        scene.rest()
        scene.publish(writer, "t", b"0", 0, True)
        scene.stage.link("a", "b")
        for number in range(1, 60):
            writer._say(packet(number, "plain"))
            scene.rest(0.001)
        scene.rest()
        assert numbers(reader)[0] == 0, f"seed {seed}"
        assert numbers(reader) == sorted(numbers(reader)), f"seed {seed}"
        assert numbers(reader)[-1] == 59, f"seed {seed}"


def test_l2_what_waits_for_the_disk_does_not_overtake_over_the_next_link() -> None:
    """It was to go over the last one, behind something that the next one brings again."""
    for seed in range(30):
        scene = Scene("ab", seed=seed)
        reader, writer = scene.client("reader", "b"), scene.client("writer")
        scene.subscribe(reader, "t", 0)
        writer._say(packet(0, "retained"), packet(1, "retained"))
        while not scene.stage.brokers["a"].server.ahead.waiting:
            scene.rest(0.0001)
        assert writer._up is not None
        writer._up.receive(encode(packet(2, "plain"), V5))
        scene.stage.unlink("a", "b")
        scene.rest(0.0002)
        scene.stage.link("a", "b")
        scene.rest(1.0)
        assert numbers(reader) in ([0, 1], [0, 1, 2]), f"seed {seed}"


def test_l2_what_came_in_the_tick_of_a_hello_does_not_overtake_what_follows_from_that() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader", "b"), scene.client("writer")
    scene.subscribe(reader, "t", 0)
    scene.stage.unlink("a", "b")
    scene.publish(writer, "t", b"0", 0, True)
    scene.stage.link("a", "b")
    broker = scene.stage.brokers["a"]
    frame, said = broker.desk.frame, [Message("t", b"1")]

    def frame_behind_a_message(peer: str, kind: int, data: bytes) -> None:
        while said:
            broker.server.pass_on("writer", batch_of(said.pop()))
        frame(peer, kind, data)

    broker.desk.frame = frame_behind_a_message  # type: ignore[method-assign]
    scene.rest(1.0)
    assert not said
    scene.publish(writer, "t", b"2", 0)
    assert numbers(reader) == [0, 2]


def test_l2_who_says_nothing_that_is_kept_does_not_wait_for_who_does() -> None:
    scene = Scene()
    reader, keeping, plain = scene.client("reader"), scene.client("keeping"), scene.client("plain")
    scene.subscribe(reader, "#", 0)
    keep_the_disk_from_storing(scene)
    keeping._say(packet(0, "retained"), packet(1, "plain"), packet(2, "plain", "another topic"))
    scene.rest()
    plain._say(packet(3, "plain"), packet(4, "plain"))
    scene.rest()
    assert numbers(reader) == [2, 3, 4]


def test_l2_nothing_is_remembered_of_what_has_been_performed() -> None:
    scene = Scene("ab")
    reader, writer = scene.client("reader"), scene.client("writer", "b")
    scene.subscribe(reader, "t", 0)
    for _ in range(3):
        writer._say(packet(0, "retained"), packet(1, "plain"), packet(2, "lasting"), packet(3, "plain"))
        scene.rest(3.0)
    for name in "ab":
        ahead = scene.stage.brokers[name].server.ahead
        assert not ahead.waiting
        assert not ahead.marked
        assert write_ahead(scene, name).settled


def test_l8_what_would_overtake_is_lost_and_counted_while_nothing_can_be_stored() -> None:
    scene = Scene()
    reader, writer = scene.client("reader"), scene.client("writer")
    scene.subscribe(reader, "t", 0)
    keep_the_disk_from_storing(scene)
    writer._say(packet(0, "retained"))
    scene.rest()
    write_ahead(scene).full = OSError("no space")
    writer._say(packet(1, "plain"), packet(2, "plain"))
    scene.rest()
    assert numbers(reader) == []
    assert scene.remarks().count("passing_dropped") == 2


@examples(60)
@given(
    seed=st.integers(0, 2**16),
    pieces=st.lists(st.lists(st.sampled_from(KINDS), min_size=1, max_size=8), min_size=1, max_size=8),
    waits_us=st.lists(st.integers(0, 4_000), min_size=8, max_size=8),
)
def test_l2_whatever_is_kept_of_it_a_topic_stays_in_order(
    seed: int, pieces: list[list[str]], waits_us: list[int]
) -> None:
    """At the broker of the publisher, one hop and two hops away; in pieces as they come from a socket."""
    scene = Scene("abc", seed=seed)
    readers = [scene.client(f"reader {broker}", broker) for broker in "abc"]
    writer, other = scene.client("writer"), scene.client("other", "b")
    for each in readers:
        scene.subscribe(each, "t", 0)
    said, rng = 0, Random(seed)
    for piece, wait_us in zip(pieces, waits_us, strict=False):
        writer._say(*(packet(said + number, kind) for number, kind in enumerate(piece)))
        said += len(piece)
        if rng.random() < 0.5:
            other._say(packet(-1, rng.choice(KINDS), "u"))
        scene.rest(wait_us / 1e6)
    scene.rest(1.0)
    assert [numbers(each) for each in readers] == [list(range(said))] * 3


@examples(60)
@given(
    seed=st.integers(0, 2**16),
    said=st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 2_000)), min_size=1, max_size=20),
)
def test_l2_a_plain_message_stays_behind_what_is_kept(seed: int, said: list[tuple[str, int]]) -> None:
    """Each in a segment of its own, at a broker without neighbours."""
    scene = Scene("a", seed=seed)
    reader, writer = scene.client("reader", expiry_s=0), scene.client("writer")
    scene.subscribe(reader, "t", 0)
    for number in range(2):
        writer._say(packet(number, "plain"))
        scene.rest()
    for number, (kind, wait_us) in enumerate(said, start=2):
        writer._say(packet(number, kind))
        scene.rest(wait_us / 1e6)
    scene.rest(1.0)
    assert numbers(reader) == list(range(len(said) + 2))
