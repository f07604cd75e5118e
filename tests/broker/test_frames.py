"""R1: consecutive messages of a stream in one frame; hostile bytes; what is confirmed, and what is sent again."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.frames import CODEC, FRAME_BYTES_MAX, NOTHING, Encodings, messages_in, stream_frames
from roamcast.broker.messages import BrokerMessage, Got, Hello, Notified, Sequenced, Unwanted
from roamcast.broker.stream import GOT_EVERY, Stream, Streams
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.node.boundary import Does, Message, Send


def notified(number: int, body: bytes = b"") -> Notified:
    return Notified(Event(f"e{number}", "t", Context("p"), 1, 1, {"n": number}, body=body), number)


def unexpected(problem: str) -> None:
    raise AssertionError(problem)


def frames_of(*run: Sequenced | Got) -> list[bytes]:
    return list(stream_frames(run, Encodings(unexpected)))


def read(data: bytes) -> tuple[list[Message], list[str]]:
    problems: list[str] = []
    return messages_in(data, problems.append), problems


def sent(effects: list[Does]) -> list[Message]:
    return [each.message for each in effects if isinstance(each, Send)]


def test_frame_carries_consecutive_messages() -> None:
    given = [Sequenced(number, notified(number), 7) for number in range(5, 9)]
    (data,) = frames_of(*given)
    assert read(data) == (given, [])


def test_frame_without_messages_confirms() -> None:
    (data,) = frames_of(Got(12), Got(9))
    assert read(data) == ([Got(12)], [])
    (data,) = frames_of(Got(5), Sequenced(1, notified(1), 3), Got(7))
    assert read(data) == ([Sequenced(1, notified(1), 7)], [])


def test_message_to_several_neighbours_is_encoded_once() -> None:
    encodings, message = Encodings(unexpected), notified(1)
    assert encodings.of(message) is encodings.of(message)
    assert encodings.of(notified(2)) is not encodings.of(notified(2))


def test_numbers_that_do_not_follow_begin_another_frame() -> None:
    given = [Sequenced(number, notified(number)) for number in (3, 4, 6, 3)]
    assert [len(read(data)[0]) for data in frames_of(*given)] == [2, 1, 1]


def test_frames_hold_as_much_as_a_link_takes() -> None:
    given = [Sequenced(number, notified(number, bytes(FRAME_BYTES_MAX // 3))) for number in range(1, 6)]
    frames = frames_of(*given)
    assert [len(read(data)[0]) for data in frames] == [2, 2, 1]
    assert max(map(len, frames)) <= FRAME_BYTES_MAX


@pytest.mark.parametrize("message", [notified(2, bytes(FRAME_BYTES_MAX)), Unwanted("\ud800")])
def test_message_that_no_link_takes_leaves_its_number_to_nothing_rule_61(message: BrokerMessage) -> None:
    problems: list[str] = []
    run = [Sequenced(1, notified(1)), Sequenced(2, message), Sequenced(3, notified(3))]
    (data,) = stream_frames(run, Encodings(problems.append))
    assert read(data) == ([run[0], Sequenced(2, NOTHING), run[2]], [])
    assert len(problems) == 1


def test_unreadable_message_costs_none_of_the_others_rule_63() -> None:
    encoded = [msgspec.msgpack.encode(each) for each in (notified(1), ["no such message", 2], notified(3))]
    data = CODEC.encode(Hello(1, 1, 1))[:3] + msgspec.msgpack.encode(["frame", 1, 0, list(map(msgspec.Raw, encoded))])
    messages, problems = read(data)
    assert messages == [Sequenced(1, notified(1)), Sequenced(2, NOTHING), Sequenced(3, notified(3))]
    assert len(problems) == 1


@given(st.integers(min_value=0, max_value=200), st.binary(max_size=20))
def test_frame_cut_in_the_middle_is_counted_and_nothing_of_it_taken(length: int, behind: bytes) -> None:
    (whole,) = frames_of(*(Sequenced(number, notified(number)) for number in range(1, 5)))
    data = whole[: min(length, len(whole) - 1)] + behind
    messages, problems = read(data)
    if data != whole:
        assert problems or messages
        assert all(isinstance(each, Sequenced) for each in messages)
    assert read(whole)[1] == []


def test_confirmation_rides_on_what_goes_anyway() -> None:
    stream = Stream("b", 1)
    for number in range(1, 10 * GOT_EVERY):
        _, effects = stream.take(Sequenced(number, Unwanted("x")))
        assert effects == []
        assert sent(stream.add(Unwanted("y"))) == [Sequenced(number, Unwanted("y"), number)]


def test_one_way_stream_is_confirmed_once_in_a_while() -> None:
    stream = Stream("b", 1)
    answers = [sent(stream.take(Sequenced(number, Unwanted("x")))[1]) for number in range(1, 2 * GOT_EVERY + 1)]
    said = [each for answer in answers for each in answer]
    assert said == [Got(GOT_EVERY), Got(2 * GOT_EVERY)]


def test_after_a_link_is_lost_what_was_not_confirmed_goes_again() -> None:
    """The neighbour had taken a part of the last frame when it lost its link, and logged no more."""
    streams = Streams(1)
    stream = streams.of["b"] = Stream("b", 2)
    for _ in range(6):
        stream.add(Unwanted("x"))
    stream.take(Sequenced(1, Unwanted("y"), got=2))
    assert [each.number for each in stream.waiting] == [3, 4, 5, 6]
    stream.up = stream.linked = False
    stream.add(Unwanted("while it is down"))
    resumed = sent(stream.resumed(Hello(2, 1, 4)))
    assert [each.number for each in resumed if isinstance(each, Sequenced)] == [5, 6, 7]
    assert streams.hello("b").message == Hello(1, 2, 1)
    assert stream.told == 1


def test_copy_of_a_frame_changes_nothing_but_what_it_confirms() -> None:
    stream = Stream("b", 1)
    for _ in range(3):
        stream.add(Unwanted("x"))
    frame = [Sequenced(number, Unwanted("y"), got=1) for number in (1, 2)]
    taken = [stream.take(each)[0] for each in [*frame, *frame]]
    assert [each is not None for each in taken] == [True, True, False, False]
    assert (stream.got, len(stream.waiting)) == (2, 2)
