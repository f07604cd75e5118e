"""The form of a frame: what one datagram holds, byte by byte (docs/reference/NODE.md has it as a table).

    magic 2 | version 1 | key id 4 | space 1 | group 3 | session 16 | counter 8 | sealed ... | seal 16

All numbers are big-endian. The header is in the clear and covered by the seal. A session is one life of a sender:
the microsecond in which it began, then eight random bytes; the counter numbers its frames from 1. A frame that goes
to no group says 0. The space is 0 on a plane, 1 on Earth: places of one mean nothing in the other. What is sealed:

    signature 64 | how many tags 1 | tags 20 each ... | body ...

The signature is the sender's, of header and body; a tag says the same to one listener (`bonds.py`). The body is in
MessagePack: who sends it, by which key, the message in the bytes of `node/compact.py`, and the signatures of the
message's statements (`statements.py`). A body without a message is a greeting: its sender would like tags.

Here is only form: `sealing.py` makes and opens seals, `node/compact.py` reads messages.
"""

from struct import Struct as Layout
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from roamcast.model.values import Point
from roamcast.multicast.drops import Dropped, Reason

MAGIC = b"ra"
VERSION = 4
PREFIX = MAGIC + bytes([VERSION])
KEY_ID_BYTES = 4
SPACE_BYTES = 1
GROUP_BYTES = 3
START_BYTES = 8
SESSION_BYTES = 16
COUNTER_BYTES = 8
SIGNATURE_BYTES = 64
MARK_BYTES = 4
TAG_BYTES = MARK_BYTES + 16
"""The mark says for whom it is."""
TAGS_MAX = 8
TAGS_AT = SIGNATURE_BYTES + 1
SEAL_BYTES = 16
SPACE_AT = len(PREFIX) + KEY_ID_BYTES
GROUP_AT = SPACE_AT + SPACE_BYTES
SESSION_AT = GROUP_AT + GROUP_BYTES
COUNTER_AT = SESSION_AT + SESSION_BYTES
HEADER_BYTES = COUNTER_AT + COUNTER_BYTES
LAYOUT = Layout(f">{GROUP_AT}s{GROUP_BYTES}s{SESSION_BYTES}sQ")
"""The front, which is the same in all frames of a node; group, session, counter."""
FRAME_BYTES_MIN = HEADER_BYTES + TAGS_AT + SEAL_BYTES
FRAME_BYTES_MAX = 16_384
"""More than an Ethernet frame holds is carried in fragments of IP, which the kernel puts together again."""
COUNTER_MAX = 2**63
NAME_CHARS_MAX = 200
STATEMENTS_MAX = 64

PublicKey: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Signature: TypeAlias = Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]


class Header(Struct, frozen=True):
    front: bytes
    """Magic, version, key id and space: the same for all nodes that may hear each other."""
    group: int
    session: bytes
    counter: int

    @property
    def began_us(self) -> int:
        return int.from_bytes(self.session[:START_BYTES])


class Attestation(Struct, frozen=True, array_like=True):
    """The origin of a statement stands by it."""

    key: PublicKey
    signature: Signature


class Body(Struct, frozen=True, array_like=True):
    sender: Name
    key: PublicKey
    message: bytes
    attestations: Annotated[tuple[Attestation | None, ...], Meta(max_length=STATEMENTS_MAX)] = ()
    """One for each statement; None where the sender is the origin and nobody is to pass it on."""
    place: Point | None = None
    """Where the sender is, if a radio's range is emulated."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Body)


def session_id(began_us: int, drawn: bytes) -> bytes:
    return began_us.to_bytes(START_BYTES) + drawn[: SESSION_BYTES - START_BYTES]


def front_bytes(key_id: bytes, space: int) -> bytes:
    return PREFIX + key_id + bytes([space])


def header_bytes(header: Header) -> bytes:
    return LAYOUT.pack(header.front, header.group.to_bytes(GROUP_BYTES), header.session, header.counter)


def read_header(datagram: bytes) -> Header:
    """Raises `Dropped` for what cannot be a frame, before anything costly is done with it."""
    if not datagram.startswith(PREFIX):
        raise Dropped(*why_no_frame(datagram))
    if not FRAME_BYTES_MIN < len(datagram) <= FRAME_BYTES_MAX:
        reason: Reason = "truncated" if len(datagram) <= FRAME_BYTES_MIN else "oversized"
        raise Dropped(reason, f"{len(datagram)} bytes, {FRAME_BYTES_MIN + 1} to {FRAME_BYTES_MAX} are a frame")
    front, group, session, counter = LAYOUT.unpack_from(datagram)
    if not 0 < counter < COUNTER_MAX:
        raise Dropped("not_ours", f"frame number {counter}")
    return Header(front, int.from_bytes(group), session, counter)


def why_no_frame(datagram: bytes) -> tuple[Reason, str]:
    """What does not begin as frames of this version do."""
    if len(datagram) > FRAME_BYTES_MAX:
        return "oversized", f"{len(datagram)} bytes, at most {FRAME_BYTES_MAX}"
    if datagram.startswith(MAGIC) and len(datagram) > len(MAGIC):
        return "version", f"version {datagram[len(MAGIC)]}, this side speaks {VERSION}"
    return "truncated" if PREFIX.startswith(datagram) else "not_ours", ""


def body_bytes(
    sender: str,
    key: bytes,
    message: bytes,
    attestations: tuple[Attestation | None, ...] = (),
    place: Point | None = None,
) -> bytes:
    """Those of a `Body`."""
    if place is None:
        return _encoder.encode((sender, key, message, attestations))
    return _encoder.encode((sender, key, message, attestations, place))


def read_body(data: bytes) -> Body:
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError, MemoryError, OverflowError) as problem:
        raise Dropped("malformed", str(problem) or type(problem).__name__) from problem
