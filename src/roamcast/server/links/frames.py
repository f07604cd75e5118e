"""Frames of a link: four bytes of length, one of kind, then the payload; and the greeting that comes first.

The length is that of the payload alone. Kinds up to `USER_KIND_MAX` are their users' own, the others belong to the
link:

    GREETING   the first frame each way: who speaks, and whom it expects to speak to
    AGREED     who dialled has found whom it expected
    CHOSEN     this connection is the link; the smaller of the two names says so
    PING, PONG silence is broken
    REFUSED    why the connection is closed, for the people at the other end

A reader takes any bytes in any pieces. It raises `BadFrame` for a length that nobody here sends, which is what
strangers' bytes almost always look like; nothing else comes out of it, and it holds no more than one frame.
"""

from struct import Struct as Layout

import msgspec
from msgspec import Struct

HEADER = Layout(">IB")
PAYLOAD_BYTES_MAX = 4 * 1_048_576
GREETING_BYTES_MAX = 1_024
NAME_CHARS_MAX = 64
MAGIC = "roamcast link"
VERSION = 2

USER_KIND_MAX = 0xEF
GREETING, AGREED, CHOSEN, PING, PONG, REFUSED = 0xFF, 0xFE, 0xFD, 0xFC, 0xFB, 0xFA
REASON_CHARS_MAX = 200


class BadFrame(ValueError):
    """Bytes that are not of a link; the message says why."""


class OtherVersion(BadFrame):
    """The other end greets in another version of links; it is told so."""


class BadName(ValueError):
    """A name that a broker cannot have."""


class Greeting(Struct, frozen=True, array_like=True):
    magic: str
    version: int
    name: str
    expects: str
    """Whom the speaker believes to speak to."""


_encoder = msgspec.msgpack.Encoder()
_greeting_decoder = msgspec.msgpack.Decoder(Greeting)


def check_name(name: str) -> None:
    """A leading @ marks clients where brokers and clients have names side by side."""
    if not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable() or name.startswith("@"):
        raise BadName(f"{name[:80]!r}: a broker's name has 1 to 64 characters that can be printed, the first not @")


def frame(kind: int, payload: bytes) -> bytes:
    return HEADER.pack(len(payload), kind) + payload


def write_greeting(name: str, expects: str) -> bytes:
    return _encoder.encode(Greeting(MAGIC, VERSION, name, expects))


def read_greeting(payload: bytes) -> Greeting:
    """Raises `BadFrame`, and `OtherVersion` where that is all that is wrong."""
    try:
        greeting = _greeting_decoder.decode(payload)
        check_name(greeting.name)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        # Text that is no UTF-8 comes as a ValueError, as a bad name does.
        raise BadFrame(f"no greeting: {problem}") from problem
    if greeting.magic != MAGIC:
        raise BadFrame("no greeting: other magic")
    if greeting.version != VERSION:
        raise OtherVersion(
            f"{greeting.name} speaks version {greeting.version} of links and {greeting.expects[:NAME_CHARS_MAX]} "
            f"version {VERSION}: both must run the same version of roamcast"
        )
    return greeting


class FrameReader:
    __slots__ = ("_at", "_buffer", "payload_bytes_max")

    def __init__(self) -> None:
        self.payload_bytes_max = GREETING_BYTES_MAX
        """Little, until the other end has said who it is."""
        self._buffer = bytearray()
        self._at = 0

    @property
    def waiting_bytes(self) -> int:
        return len(self._buffer) - self._at

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next_frame(self) -> tuple[int, bytes] | None:
        begin = self._at + HEADER.size
        if len(self._buffer) < begin:
            self._let_go()
            return None
        size, kind = HEADER.unpack_from(self._buffer, self._at)
        if size > self.payload_bytes_max:
            raise BadFrame(f"a frame of {size} bytes, at most {self.payload_bytes_max}")
        end = begin + size
        if len(self._buffer) < end:
            self._let_go()
            return None
        self._at = end
        return kind, bytes(memoryview(self._buffer)[begin:end])

    def _let_go(self) -> None:
        """Of what was read."""
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
