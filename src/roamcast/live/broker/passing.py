"""Messages of QoS 0 between brokers: they go beside the stream that loses nothing, and are lost with their link.

As of the stream, all that go to a neighbour in one tick are one frame.
"""

from msgspec import Raw

from roamcast.broker.frames import FRAME_BYTES_MAX, FRAME_OVERHEAD_BYTES
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


class PassingBuilder:
    """The frame to one neighbour that is being put together."""

    def __init__(self) -> None:
        self.messages: list[Raw] = []
        self._bytes = FRAME_OVERHEAD_BYTES

    def takes(self, size: int) -> bool:
        return self._bytes + size <= FRAME_BYTES_MAX

    def add(self, encoded: Raw) -> None:
        self.messages.append(encoded)
        self._bytes += len(encoded)

    def encode(self) -> bytes:
        return CODEC.encode(EncodedPassingFrame(self.messages))


def passing_in(data: bytes) -> tuple[Passing, ...]:
    """Raises `BadMessage`."""
    message = CODEC.decode(data)
    if not isinstance(message, PassingFrame):
        raise BadMessage("malformed", f"a {message.kind} among messages of QoS 0")
    return message.messages
