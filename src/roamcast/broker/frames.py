"""Messages between two brokers as bytes: whatever goes to a neighbour in one tick is one frame (R1).

A frame carries consecutive messages of a stream, of which only the first is numbered, and the number up to which the
other direction has arrived; without messages it only confirms. A message that goes to several neighbours is encoded
once (`Encodings`), and frames are put together from encoded messages (`stream_frames`).

`messages_in` takes any bytes. Of a frame that holds a message which cannot be read, the others count: in place of the
unreadable one stands a message that means nothing, so that the stream goes on.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import Raw

from roamcast.broker.messages import BrokerMessage, Echo, Got, Hello, Probe, Sequenced, Unwanted
from roamcast.node.boundary import Message
from roamcast.node.codec import BadMessage, Codec

FRAME_BYTES_MAX = 4 * 1_048_576
MESSAGES_BYTES_MAX = FRAME_BYTES_MAX - 64
"""All messages of a frame: the rest takes less than 64 bytes."""
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
ENCODED_NOTHING = Raw(_encoder.encode(NOTHING))
_decoder: msgspec.msgpack.Decoder[BrokerMessage] = msgspec.msgpack.Decoder(BrokerMessage)
_raws: msgspec.msgpack.Decoder[list[Raw]] = msgspec.msgpack.Decoder(list[Raw])


class Encodings:
    """Messages that were encoded in this tick, by identity: one may go to several neighbours."""

    def __init__(self, unsendable: Callable[[str], None]) -> None:
        """`unsendable` is told what cannot be bytes, or too many. Nothing goes in its place: it has a number, and the
        messages behind it must be heard."""
        self.unsendable = unsendable
        self._known: dict[int, tuple[Message, Raw]] = {}

    def of(self, message: Message) -> Raw:
        known = self._known.get(id(message))
        if known is None:
            # Holding the message keeps its identity from being another's.
            known = self._known[id(message)] = message, self._encoded(message)
        return known[1]

    def _encoded(self, message: Message) -> Raw:
        try:
            encoded = _encoder.encode(message)
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as problem:
            self.unsendable(str(problem))
            return ENCODED_NOTHING
        if len(encoded) > MESSAGES_BYTES_MAX:
            self.unsendable(f"{len(encoded)} bytes to send, at most {MESSAGES_BYTES_MAX}")
            return ENCODED_NOTHING
        return Raw(encoded)


def stream_frames(run: Iterable[Sequenced | Got], encodings: Encodings) -> Iterator[bytes]:
    """Consecutive messages of a stream in as few frames as hold them, one as a rule."""
    first = got = size = 0
    messages: list[Raw] = []
    for each in run:
        if isinstance(each, Got):
            got = max(got, each.number)
            continue
        encoded = encodings.of(each.message)
        if messages and (each.number != first + len(messages) or size + len(encoded) > MESSAGES_BYTES_MAX):
            yield _ENCODED.encode(EncodedFrame(first, got, messages))
            messages, size = [], 0
        if not messages:
            first = each.number
        messages.append(encoded)
        size += len(encoded)
        got = max(got, each.got)
    yield _ENCODED.encode(EncodedFrame(first, got, messages))


def packed(messages: Iterable[BrokerMessage], unsendable: Callable[[str], None]) -> bytes:
    """Messages that are put aside, in any number."""
    encodings = Encodings(unsendable)
    return _encoder.encode([encodings.of(each) for each in messages])


def unpacked(data: bytes) -> list[BrokerMessage]:
    """Empty if it is nothing that was packed."""
    try:
        return [_message(each) for each in _raws.decode(data)]
    except msgspec.MsgspecError:
        return []


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
