"""The form of a frame: what one datagram holds, byte by byte (docs/reference/NODE.md has it as a table).

    magic 2 | version 1 | key id 4 | space 1 | group 3 | session 16 | counter 8 | signature 64 | body ... | seal 16

All numbers are big-endian. The header is in the clear and covered by the seal. A session is one life of a sender:
the microsecond in which it began, then eight random bytes; the counter numbers its frames from 1. A frame that goes
to no group says 0. The space is 0 on a plane, 1 on Earth: places of one mean nothing in the other. What is sealed is
the sender's signature of header and body, and the body in MessagePack: who sends it, by which key, the message in the
bytes of `node/codec.py`, and the signatures of the message's statements (`statements.py`).

Here is only form: `sealing.py` makes and opens seals, `node/codec.py` reads messages.
"""

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from roamcast.live.adhoc.drops import Dropped

MAGIC = b"ra"
VERSION = 1
PREFIX = MAGIC + bytes([VERSION])
KEY_ID_BYTES = 4
SPACE_BYTES = 1
GROUP_BYTES = 3
START_BYTES = 8
SESSION_BYTES = 16
COUNTER_BYTES = 8
SIGNATURE_BYTES = 64
SEAL_BYTES = 16
HEADER_BYTES = len(PREFIX) + KEY_ID_BYTES + SPACE_BYTES + GROUP_BYTES + SESSION_BYTES + COUNTER_BYTES
SPACE_AT = len(PREFIX) + KEY_ID_BYTES
GROUP_AT = SPACE_AT + SPACE_BYTES
SESSION_AT = GROUP_AT + GROUP_BYTES
COUNTER_AT = SESSION_AT + SESSION_BYTES
FRAME_BYTES_MAX = 16_384
"""More than an Ethernet frame holds is carried in fragments of IP, which the kernel puts together again."""
COUNTER_MAX = 2**63
NAME_CHARS_MAX = 200
STATEMENTS_MAX = 64

PublicKey: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Signature: TypeAlias = Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]


class Header(Struct, frozen=True):
    key_id: bytes
    space: int
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


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Body)


def session_id(began_us: int, drawn: bytes) -> bytes:
    return began_us.to_bytes(START_BYTES) + drawn[: SESSION_BYTES - START_BYTES]


def header_bytes(header: Header) -> bytes:
    return b"".join(
        (
            PREFIX,
            header.key_id,
            header.space.to_bytes(SPACE_BYTES),
            header.group.to_bytes(GROUP_BYTES),
            header.session,
            header.counter.to_bytes(COUNTER_BYTES),
        )
    )


def read_header(datagram: bytes) -> Header:
    """Raises `Dropped` for what cannot be a frame, before anything costly is done with it."""
    if len(datagram) > FRAME_BYTES_MAX:
        raise Dropped("oversized", f"{len(datagram)} bytes, at most {FRAME_BYTES_MAX}")
    if datagram[: len(PREFIX)] != PREFIX:
        if datagram[: len(MAGIC)] == MAGIC and len(datagram) > len(MAGIC):
            raise Dropped("version", f"version {datagram[len(MAGIC)]}, this side speaks {VERSION}")
        raise Dropped("truncated" if PREFIX.startswith(datagram) else "not_ours")
    if len(datagram) <= HEADER_BYTES + SIGNATURE_BYTES + SEAL_BYTES:
        raise Dropped("truncated", f"{len(datagram)} bytes")
    counter = int.from_bytes(datagram[COUNTER_AT:HEADER_BYTES])
    if not 0 < counter < COUNTER_MAX:
        raise Dropped("malformed", f"frame number {counter}")
    return Header(
        datagram[len(PREFIX) : SPACE_AT],
        datagram[SPACE_AT],
        int.from_bytes(datagram[GROUP_AT:SESSION_AT]),
        datagram[SESSION_AT:COUNTER_AT],
        counter,
    )


def body_bytes(body: Body) -> bytes:
    return _encoder.encode(body)


def read_body(data: bytes) -> Body:
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError, MemoryError, OverflowError) as problem:
        raise Dropped("malformed", str(problem) or type(problem).__name__) from problem
