"""Messages of QoS 0 between brokers: they go beside the stream that loses nothing, and are lost with their link.

As of the stream, all that go to a neighbour in one tick are one frame.
"""

from collections.abc import Iterable, Iterator

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


def passing_in(data: bytes) -> tuple[Passing, ...]:
    """Raises `BadMessage`."""
    message = CODEC.decode(data)
    if not isinstance(message, PassingFrame):
        raise BadMessage("malformed", f"a {message.kind} among messages of QoS 0")
    return message.messages
