"""R1, L8: all that goes to a neighbour in one tick is one frame, logged as it came; links and brokers that fail."""

from collections.abc import Iterator

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.frames import CODEC, Encodings, messages_in, stream_frames
from roamcast.broker.messages import Notified, Sequenced
from roamcast.broker.mqtt.inputs import Entry, Heard
from roamcast.broker.stream import Stream
from roamcast.mqtt.batches import batch_of
from roamcast.mqtt.messages import Message as MqttMessage
from roamcast.node.codec import HEADER_BYTES
from roamcast.server.neighbours import PASSING, STREAM
from tests.broker.mqtt.scene import Scene
from tests.broker.mqtt.stage import SimBroker, SimClient
from tests.broker.mqtt.test_protocol_recovery import Life, entries_of, fresh, state_of
from tests.effort import examples


def unexpected(problem: str) -> None:
    raise AssertionError(problem)


class Linked:
    """A writer at a, a reader at b, and the frames that go from a to b."""

    def __init__(self, brokers: str = "ab", qos: int = 1) -> None:
        self.scene = Scene(brokers)
        self.writer = self.scene.client("writer", "a")
        self.readers = [self.scene.client(f"reader-{name}", name) for name in brokers[1:]]
        for reader in self.readers:
            self.scene.subscribe(reader, "t", qos=qos)
        self.frames: list[tuple[str, int, bytes]] = []
        broker, carry = self.broker("a"), self.scene.stage.carry

        def send(peer: str, kind: int, data: bytes) -> None:
            self.frames.append((peer, kind, data))
            carry(broker.name, peer, kind, data)

        broker.send = send  # type: ignore[method-assign]

    def broker(self, name: str) -> SimBroker:
        return self.scene.stage.brokers[name]

    def publish(self, count: int, first: int = 0) -> None:
        for number in range(first, first + count):
            self.writer.publish("t", b"%d" % number, 1)

    def stream(self, at: str, to: str) -> Stream:
        return self.broker(at).server.core.broker.neighbours.streams.of[to]

    def events_in(self, data: bytes) -> list[str]:
        return [
            each.message.event.id
            for each in messages_in(data, unexpected)
            if isinstance(each, Sequenced) and isinstance(each.message, Notified)
        ]


def payloads(client: SimClient) -> list[int]:
    return [int(each) for each in client.taken]


def test_messages_of_one_batch_are_one_frame_and_one_row_rule_64() -> None:
    linked = Linked()
    rows = len(list(heard_by(linked.broker("b"))))
    linked.publish(5)
    linked.scene.rest()
    frames = [data for _, kind, data in linked.frames if kind == STREAM and linked.events_in(data)]
    assert sum(len(linked.events_in(data)) for data in frames) == 5
    assert len(frames) < 5
    assert [row.data for row in heard_by(linked.broker("b"))][rows:] == frames
    assert payloads(linked.readers[0]) == list(range(5))


def test_messages_of_qos_0_of_one_tick_are_one_frame_rule_65() -> None:
    linked = Linked(qos=0)
    for number in range(5):
        linked.broker("a").server.pass_on("writer", batch_of(MqttMessage("t", b"%d" % number)))
    linked.scene.rest()
    assert [kind for _, kind, _ in linked.frames] == [PASSING]
    assert payloads(linked.readers[0]) == list(range(5))


def test_unreadable_message_of_qos_0_costs_none_of_the_others_rule_63() -> None:
    linked = Linked(qos=0)
    server, (reader,) = linked.broker("a").server, linked.readers
    server.pass_on("writer", batch_of(MqttMessage("t", b"0")))
    server.pass_on("writer", batch_of(MqttMessage("t", b"1")))
    linked.scene.rest()
    [(_, _, data)] = linked.frames
    kind, messages = msgspec.msgpack.decode(data[HEADER_BYTES:])
    messages.insert(1, ["passing", "no event"])
    linked.broker("b").desk.frame("a", PASSING, data[:HEADER_BYTES] + msgspec.msgpack.encode([kind, messages]))
    linked.scene.rest()
    assert payloads(reader) == [0, 1, 0, 1]
    assert linked.scene.remarks("b") == ["bad_link_message"]


def heard_by(broker: SimBroker) -> Iterator[Heard]:
    return (entry.given for entry in entries_of(broker) if isinstance(entry.given, Heard))


def alone(entry: Entry) -> Iterator[Entry]:
    """The input itself, or one for each message of its frame."""
    if not isinstance(entry.given, Heard):
        yield entry
        return
    peer, data = entry.given.peer, entry.given.data
    for message in messages_in(data, unexpected):
        if isinstance(message, Sequenced):
            for part in stream_frames([message], Encodings(unexpected)):
                yield Entry(entry.now_us, Heard(peer, part))
        else:
            yield Entry(entry.now_us, Heard(peer, data))


@given(seed=st.integers(0, 2**32), steps=st.integers(5, 60), brokers=st.sampled_from(("ab", "abc")))
@examples(30)
def test_frame_does_what_its_messages_do_one_by_one_rule_64(seed: int, steps: int, brokers: str) -> None:
    for broker in Life(seed, steps, brokers).scene.stage.brokers.values():
        whole, parted = fresh(broker), fresh(broker)
        for entry in entries_of(broker):
            whole.handle(entry.now_us, entry.given)
            for each in alone(entry):
                parted.handle(each.now_us, each.given)
        assert state_of(parted) == state_of(whole)


def test_story_of_the_comparison_has_frames_of_several_messages() -> None:
    life = Life(3, 60, "ab")
    frames = [row.data for broker in life.scene.stage.brokers.values() for row in heard_by(broker)]
    assert max(len(messages_in(data, unexpected)) for data in frames) > 1


def test_link_lost_with_a_frame_under_way_loses_nothing_rule_64() -> None:
    linked = Linked()
    linked.publish(5)
    linked.scene.rest(0.003)
    linked.scene.stage.unlink("a", "b")
    linked.publish(5, first=5)
    linked.scene.rest()
    linked.scene.stage.heal()
    linked.scene.rest(3.0)
    assert payloads(linked.readers[0]) == list(range(10))


def test_broker_killed_between_a_frame_and_its_confirmation_takes_it_once_rule_64() -> None:
    for seed_s in (0.001, 0.004, 0.008, 0.012, 0.016, 0.02, 0.03):
        linked = Linked()
        linked.publish(5)
        linked.scene.rest(seed_s)
        linked.broker("b").kill()
        linked.scene.rest(0.1)
        linked.scene.stage.heal()
        reader = linked.readers[0]
        reader.connect("b")
        linked.scene.rest(5.0)
        assert payloads(reader) == list(range(5)), seed_s
        assert reader.copies == [] or set(map(int, reader.copies)) <= set(range(5))


def test_rule_64_unconfirmed_frames_are_resent_once_after_a_kill() -> None:
    linked = Linked()
    linked.publish(5)
    linked.scene.rest()
    assert linked.stream("a", "b").waiting, "confirmed too early for this test"
    linked.broker("a").kill()
    linked.scene.rest(0.1)
    linked.scene.stage.heal()
    linked.scene.rest(3.0)
    assert payloads(linked.readers[0]) == list(range(5))
    assert not linked.stream("a", "b").waiting, "the hello says what has come"


def test_hello_and_probes_are_frames_of_their_own() -> None:
    linked = Linked()
    linked.scene.stage.unlink("a", "b")
    linked.publish(3)
    linked.scene.rest()
    linked.scene.stage.heal()
    linked.scene.rest(3.0)
    said = [messages_in(data, unexpected) for _, _, data in linked.frames]
    hello = next(place for place, each in enumerate(said) if each[0].kind == "hello")
    assert CODEC.encode(said[hello][0]) == linked.frames[hello][2]
    assert [len(each) for each in said[hello + 1 : hello + 2]] == [3]
