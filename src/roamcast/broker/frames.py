"""Messages between two brokers as bytes: whatever goes to a neighbour in one tick is one frame (R1).

A frame carries consecutive messages of a stream, of which only the first is numbered, and the number up to which the
other direction has arrived; without messages it only confirms. `FrameBuilder` collects them. A message that goes to
several neighbours is encoded once (`Encodings`), and a frame is put together from encoded messages.

`messages_in` takes any bytes. Of a frame that holds a message which cannot be read, the others count: in place of the
unreadable one stands a message that means nothing, so that the stream goes on.
"""

from collections.abc import Callable

import msgspec
from msgspec import Raw

from roamcast.broker.messages import BrokerMessage, Echo, Got, Hello, Probe, Sequenced, Unwanted
from roamcast.node.boundary import Message
from roamcast.node.codec import BadMessage, Codec

FRAME_BYTES_MAX = 4 * 1_048_576
FRAME_OVERHEAD_BYTES = 64
"""More than a frame takes besides its messages."""
NOTHING = Unwanted("")
"""Stands in the place of a message that could not be sent or read."""


class Frame(Message, frozen=True, tag="frame"):
    """Messages of a stream, numbered from `first` on; the sender has received the other direction up to `got`."""

    first: int
    got: int
    messages: tuple[BrokerMessage, ...]


class EncodedFrame(Message, frozen=True, tag="frame"):
    """The same, of messages that are bytes."""

    first: int
    got: int
    messages: list[Raw]


CODEC = Codec((Hello, Frame, Probe, Echo), FRAME_BYTES_MAX)
_ENCODED = Codec((EncodedFrame,), FRAME_BYTES_MAX)
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[BrokerMessage] = msgspec.msgpack.Decoder(BrokerMessage)


class Encodings:
    """Messages that were encoded in this tick, by identity: one may go to several neighbours."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Message, Raw]] = {}

    def of(self, message: Message) -> Raw:
        """Raises `BadMessage` if it cannot be bytes, or too many."""
        known = self._known.get(id(message))
        if known is not None:
            return known[1]
        try:
            encoded = Raw(_encoder.encode(message))
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as problem:
            raise BadMessage("unsendable", str(problem)) from problem
        if len(encoded) > FRAME_BYTES_MAX - FRAME_OVERHEAD_BYTES:
            raise BadMessage("too_long", f"{len(encoded)} bytes to send, at most {FRAME_BYTES_MAX}")
        # Holding the message keeps its identity from being another's.
        self._known[id(message)] = message, encoded
        return encoded

    def clear(self) -> None:
        self._known.clear()


class FrameBuilder:
    """The frame to one neighbour that is being put together."""

    def __init__(self) -> None:
        self.first = 0
        self.got = 0
        self.messages: list[Raw] = []
        self._bytes = FRAME_OVERHEAD_BYTES

    def takes(self, number: int, size: int) -> bool:
        """Whether the message with this number comes next, and there is room for it."""
        if not self.messages:
            return True
        return number == self.first + len(self.messages) and self._bytes + size <= FRAME_BYTES_MAX

    def add(self, number: int, got: int, encoded: Raw) -> None:
        if not self.messages:
            self.first = number
        self.messages.append(encoded)
        self._bytes += len(encoded)
        self.confirm(got)

    def confirm(self, got: int) -> None:
        self.got = max(self.got, got)

    def encode(self) -> bytes:
        return _ENCODED.encode(EncodedFrame(self.first, self.got, self.messages))


def messages_in(data: bytes, unreadable: Callable[[str], None]) -> list[Message]:
    """What the bytes of a neighbour say, in order; `unreadable` is told what could not be read."""
    try:
        message = CODEC.decode(data)
    except BadMessage as problem:
        unreadable(str(problem))
        return _readable(data)
    if not isinstance(message, Frame):
        return [message]
    if not message.messages:
        return [Got(message.got)]
    number, got = message.first, message.got
    return [Sequenced(number + place, each, got) for place, each in enumerate(message.messages)]


def _readable(data: bytes) -> list[Message]:
    """The messages of a frame of which at least one cannot be read; none if it is no frame at all."""
    try:
        frame = _ENCODED.decode(data)
    except BadMessage:
        return []
    assert isinstance(frame, EncodedFrame)
    return [Sequenced(frame.first + place, _message(each), frame.got) for place, each in enumerate(frame.messages)]


def _message(encoded: Raw) -> BrokerMessage:
    try:
        return _decoder.decode(encoded)
    except (msgspec.MsgspecError, ValueError, RecursionError, MemoryError, OverflowError):
        return NOTHING
