"""The codec of the ad hoc protocols, which writes repeated values once (`compact_format.py`)."""

import struct
from typing import Union

import msgspec

from roamcast.node.boundary import Message
from roamcast.node.codec import MESSAGE_BYTES_MAX, BadMessage, Codec
from roamcast.node.compact_format import VERSION
from roamcast.node.compact_reading import unpacked
from roamcast.node.compact_writing import packed


class CompactCodec(Codec):
    """As `Codec`: `decode` answers with a message of this family or raises `BadMessage`, whatever it is given."""

    def __init__(self, messages: tuple[type[Message], ...], bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        super().__init__(messages, bytes_max)
        self._messages = Union[messages]  # noqa: UP007 - built from a tuple

    def encode(self, message: Message) -> bytes:
        try:
            encoded = packed(message)
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as problem:
            raise BadMessage("unsendable", str(problem)) from problem
        if len(encoded) > self.bytes_max:
            raise BadMessage("too_long", f"{len(encoded)} bytes to send, at most {self.bytes_max}")
        return encoded

    def decode(self, data: bytes) -> Message:
        if len(data) > self.bytes_max:
            raise BadMessage("too_long", f"{len(data)} bytes, at most {self.bytes_max}")
        if not data:
            raise BadMessage("not_ours", "nothing")
        if data[0] != VERSION:
            raise BadMessage("version", f"version {data[0]}, this side speaks {VERSION}")
        try:
            message: Message = msgspec.convert(unpacked(data), self._messages)
        except (msgspec.MsgspecError, ValueError, LookupError, RecursionError, MemoryError, OverflowError) as problem:
            raise BadMessage("malformed", str(problem) or type(problem).__name__) from problem
        except struct.error as problem:
            raise BadMessage("malformed", str(problem)) from problem
        return message
