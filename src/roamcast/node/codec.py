"""Messages to bytes and back: two bytes of magic, one of version, then MessagePack.

`decode` takes any bytes whatever and either answers with a message or raises `BadMessage`: nothing else escapes,
so that malformed bytes never reach a node and never stop a runtime.
"""

from typing import Literal, TypeAlias, Union

import msgspec

from roamcast.node.boundary import Message

MAGIC = b"rc"
VERSION = 1
HEADER_BYTES = len(MAGIC) + 1
MESSAGE_BYTES_MAX = 1_048_576


Reason: TypeAlias = Literal["too_long", "not_ours", "version", "malformed", "unsendable"]
"""Longer than agreed; other magic bytes; another version; no message of this family within; and, on the way out, a
message holding what MessagePack cannot carry (half a surrogate pair, an integer beyond 64 bits)."""


class BadMessage(Exception):
    """Bytes that are no message of ours, or a message that cannot be bytes; `reason` is what to count by."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: Reason = reason


class Codec:
    """The messages of one family of protocols."""

    def __init__(self, messages: tuple[type[Message], ...], bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._header = MAGIC + bytes([VERSION])
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Union[messages])  # noqa: UP007 - built from a tuple

    def encode(self, message: Message) -> bytes:
        try:
            encoded = self._header + self._encoder.encode(message)
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as problem:
            raise BadMessage("unsendable", str(problem)) from problem
        if len(encoded) > self.bytes_max:
            raise BadMessage("too_long", f"{len(encoded)} bytes to send, at most {self.bytes_max}")
        return encoded

    def decode(self, data: bytes) -> Message:
        if len(data) > self.bytes_max:
            raise BadMessage("too_long", f"{len(data)} bytes, at most {self.bytes_max}")
        if len(data) < HEADER_BYTES or data[:2] != MAGIC:
            raise BadMessage("not_ours", "does not begin with the magic bytes")
        if data[2] != VERSION:
            raise BadMessage("version", f"version {data[2]}, this side speaks {VERSION}")
        try:
            message: Message = self._decoder.decode(memoryview(data)[HEADER_BYTES:])
        except (msgspec.MsgspecError, ValueError, RecursionError, MemoryError, OverflowError) as problem:
            raise BadMessage("malformed", str(problem) or type(problem).__name__) from problem
        return message
