"""L2, L7: whatever a client or a neighbour sends, batches are read like single packets, and nobody else is hurt."""

from collections.abc import Iterator
from random import Random
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from roamcast.mqtt import encode
from roamcast.mqtt.packets import V5, V311, AnyPacket, PingReq, PubAck, Publish, Subscribe, Wish
from roamcast.server.neighbours import PASSING, STREAM
from tests.broker.mqtt.scene import Scene, published
from tests.broker.mqtt.stage import SimClient
from tests.effort import examples

TOPICS = ("t", "t/u", "é/" + "x" * 130)
"""With the QoS before them: only within one QoS is there an order to keep."""
FRAMES_MAX = 400

topics = st.sampled_from(TOPICS)
payloads = st.one_of(st.binary(max_size=3), st.sampled_from([b"x" * 100, b"y" * 122, b"z" * 300]))


@st.composite
def streams(draw: st.DrawFn) -> tuple[int, list[bytes], bool]:
    """What a client says, in pieces; sometimes with bits flipped, or bytes that are no packet. And whether it is all
    as it was meant."""
    version = draw(st.sampled_from([V311, V5]))
    packets: list[AnyPacket] = []
    for number in range(draw(st.integers(1, 14))):
        qos = draw(st.sampled_from([0, 0, 0, 1, 1]))
        topic, retain = f"{qos}/{draw(topics)}", draw(st.integers(0, 7)) == 0
        packet = Publish(topic, draw(payloads), qos, retain, packet_id=number + 1)
        packets += [packet] * draw(st.sampled_from([1, 1, 3])) if qos == 0 else [packet]
        packets += [PingReq()] if draw(st.integers(0, 9)) == 0 else []
    said = [encode(each, version) for each in packets]
    flipped = draw(st.booleans())
    if flipped:
        whole = bytearray(b"".join(said))
        for _ in range(draw(st.integers(1, 3))):
            whole[draw(st.integers(0, len(whole) - 1))] ^= 1 << draw(st.integers(0, 7))
        said = [bytes(whole)]
    strange = draw(st.integers(0, 3)) == 0
    if strange:
        said.insert(draw(st.integers(0, len(said))), draw(st.binary(max_size=20)))
    pieces = list(cut(b"".join(said), said, draw(st.sampled_from(["packets", "whole", "anywhere"])), draw))
    return version, pieces, not (flipped or strange)


def cut(whole: bytes, said: list[bytes], where: str, draw: st.DrawFn) -> Iterator[bytes]:
    match where:
        case "packets":
            yield from said
        case "whole":
            yield whole
        case _:
            while whole:
                size = draw(st.integers(1, len(whole)))
                yield whole[:size]
                whole = whole[size:]


class Hearing:
    """A broker with two readers, and somebody who says whatever it is given to say."""

    def __init__(self, version: int) -> None:
        scene = self.scene = Scene()
        self.readers = [scene.client(f"reader {qos}", expiry_s=0) for qos in range(2)]
        for qos, reader in enumerate(self.readers):
            scene.subscribe(reader, "#", qos)
        self.bystander = scene.client("bystander")
        self.hostile = SimClient(scene.stage, "hostile", 0, version)
        self.hostile.connect("a", clean=True)
        scene.rest()

    def hear(self, pieces: list[bytes], ordered: bool = True) -> tuple[object, ...]:
        """What came of it: who got what with which QoS, of each topic in which order, and what was answered."""
        for piece in pieces:
            if self.hostile._up is not None:
                self.hostile._up.write(piece)
            self.scene.rest(0.01)
        self.scene.rest()
        self.scene.publish(self.bystander, "still/here", b"!", 1)
        assert all(b"!" in reader.taken for reader in self.readers)
        got = []
        for reader in self.readers:
            by_topic: dict[str, list[tuple[bytes, int, bool]]] = {}
            for each in published(reader):
                by_topic.setdefault(each.topic, []).append((each.payload, each.qos, each.retain))
            got.append(by_topic if ordered else {topic: sorted(said) for topic, said in by_topic.items()})
        acknowledged = [each.packet_id for each in self.hostile.heard if isinstance(each, PubAck)]
        return *got, acknowledged, type(self.hostile.heard[-1]).__name__, self.hostile._up is None


@examples(60)
@given(streams())
def test_l2_l7_batched_reading_makes_the_same_of_any_bytes(said: tuple[int, list[bytes], bool]) -> None:
    version, pieces, as_meant = said
    batched = Hearing(version).hear(pieces, as_meant)
    with patch("roamcast.mqtt.decoding.read_batch", return_value=None) as skipped:
        assert Hearing(version).hear(pieces, as_meant) == batched
    assert skipped.called


def captured(seed: int) -> list[tuple[int, bytes]]:
    """Frames of two brokers that have much to say to each other."""
    scene, frames = Scene("ab", seed=seed), list[tuple[int, bytes]]()
    carry = scene.stage.carry

    def kept(sender: str, to: str, kind: int, data: bytes) -> None:
        if sender == "a":
            frames.append((kind, data))
        carry(sender, to, kind, data)

    scene.stage.carry = kept  # type: ignore[method-assign]
    reader, writer = scene.client("reader", "b"), scene.client("writer")
    for text, qos in (("t/#", 2), ("$share/g/t/+", 1), ("u", 0)):
        reader._say(Subscribe(7, (Wish(text, qos),)))
        scene.rest()
    for number in range(6):
        scene.publish(writer, "t/x", b"%d" % number, number % 3, number % 2 == 0)
        scene.publish(writer, "u", {"v": number}, 0, False, 60, persist="true")
    scene.stage.unlink("a", "b")
    scene.stage.link("a", "b")
    scene.rest()
    scene.move(reader, "a")
    scene.move(reader, "b")
    return frames[:FRAMES_MAX]


def spoilt(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    match rng.randrange(4):
        case 0:
            return data
        case 1:
            return data[: rng.randrange(len(data) + 1)]
        case 2:
            return data + rng.randbytes(rng.randrange(1, 20))
        case _:
            for _ in range(rng.randrange(1, 4)):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            return bytes(changed)


def test_l7_whatever_a_neighbour_says_its_broker_serves_its_own_clients() -> None:
    """Frames as they were, cut short, with more behind them or bits flipped, in any order and of either kind."""
    frames = captured(1)
    kinds = {kind for kind, _ in frames}
    assert kinds == {STREAM, PASSING}
    for seed in range(30):
        rng, scene = Random(seed), Scene("ab", seed=seed)
        reader, writer = scene.client("reader", "b"), scene.client("writer", "b")
        scene.subscribe(reader, "own", 1)
        desk = scene.stage.brokers["b"].desk
        for _ in range(80):
            kind, data = rng.choice(frames)
            kind = kind if rng.random() < 0.9 else rng.choice((STREAM, PASSING, 77))
            desk.frame("a", kind, spoilt(rng, data))
            scene.rest(rng.choice((0.0, 0.001, 0.05)))
        said = [b"%d" % number for number in range(5)]
        for number, each in enumerate(said):
            scene.publish(writer, "own", each, number % 2)
        assert sorted(reader.taken) == said, f"seed {seed}"
