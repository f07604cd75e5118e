"""Messages of QoS 0 between brokers: they go beside the stream that loses nothing, and are lost with their link.

As of the stream, all that go to a neighbour in one tick are one frame.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec
from msgspec import Raw

from roamcast.broker.frames import ENCODED_NOTHING, FRAME_BYTES_MAX, MESSAGES_BYTES_MAX, Encodings
from roamcast.model.event import Event
from roamcast.node.boundary import Message
from roamcast.node.codec import BadMessage, Codec


class Passing(Message, frozen=True, tag="passing"):
    event: Event
    hops: int = 0

    @property
    def event_id(self) -> str:
        return self.event.id


class PassingFrame(Message, frozen=True, tag="passing_frame"):
    messages: tuple[Passing, ...]


class EncodedPassingFrame(Message, frozen=True, tag="passing_frame"):
    messages: list[Raw]


CODEC = Codec((PassingFrame,), FRAME_BYTES_MAX)
_ENCODED = Codec((EncodedPassingFrame,), FRAME_BYTES_MAX)
_decoder = msgspec.msgpack.Decoder(Passing)


def passing_frames(run: Iterable[Passing], encodings: Encodings) -> Iterator[bytes]:
    size = 0
    messages: list[Raw] = []
    for each in run:
        encoded = encodings.of(each)
        if encoded is ENCODED_NOTHING:
            continue
        if messages and size + len(encoded) > MESSAGES_BYTES_MAX:
            yield CODEC.encode(EncodedPassingFrame(messages))
            messages, size = [], 0
        messages.append(encoded)
        size += len(encoded)
    if messages:
        yield CODEC.encode(EncodedPassingFrame(messages))


def passing_in(data: bytes, unreadable: Callable[[str], None]) -> Sequence[Passing]:
    """What the bytes of a neighbour say; `unreadable` is told what could not be read. The others count."""
    try:
        message = CODEC.decode(data)
    except BadMessage as problem:
        unreadable(str(problem))
        return _readable(data)
    assert isinstance(message, PassingFrame)
    return message.messages


def _readable(data: bytes) -> list[Passing]:
    """The messages of a frame of which at least one cannot be read; none if it is no frame at all."""
    try:
        frame = _ENCODED.decode(data)
    except BadMessage:
        return []
    assert isinstance(frame, EncodedPassingFrame)
    found: list[Passing] = []
    for each in frame.messages:
        with suppress(msgspec.MsgspecError, ValueError, RecursionError, MemoryError, OverflowError):
            found.append(_decoder.decode(each))
    return found
