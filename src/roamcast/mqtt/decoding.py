"""Bytes to packets, a piece at a time.

`Decoder.feed` takes what a socket gave, `Decoder.next_packet` answers with the next whole packet or None. Whatever
the bytes are, nothing but `MalformedPacket` and `ProtocolError` is raised, and after one of these the decoder stays
broken: the standard knows no way to find the next packet. A packet that is larger than agreed is refused as soon as
its length is known, and parts of a packet are kept as they came until it is whole, so that many small pieces cost
no more than one.

PUBLISH and its four answers are most of all traffic and have readers of their own; the other packets are read by the
tables of `properties`.
"""

from collections.abc import Callable
from typing import TypeAlias

from roamcast.mqtt.batches import BATCH_PACKET_BYTES_MAX, Batch, acknowledged_at, read_batch
from roamcast.mqtt.decoding_control import (
    read_auth,
    read_connack,
    read_connect,
    read_disconnect,
    read_pingreq,
    read_pingresp,
    read_suback,
    read_subscribe,
    read_unsuback,
    read_unsubscribe,
)
from roamcast.mqtt.decoding_publish import read_answer, read_publish
from roamcast.mqtt.packets import V5, AnyPacket, Connect, PubAck, PubComp, PubRec, PubRel
from roamcast.mqtt.reasons import (
    PUBACK_REASONS,
    PUBCOMP_REASONS,
    PUBREC_REASONS,
    PUBREL_REASONS,
    MalformedPacket,
    ProtocolError,
    Reason,
)
from roamcast.mqtt.wire import VARIABLE_MAX

PACKET_BYTES_MAX = VARIABLE_MAX + 5
Body: TypeAlias = Callable[[bytes, int, int, int], AnyPacket]
"""Reads (data, where the body begins, where it ends, version)."""

CONNECT = 0x10
CONNECT_NAMES = (b"\x00\x04MQTT", b"\x00\x06MQIsdp")
PUBLISH_FROM, PUBLISH_TO = 0x30, 0x3F
PUBACK, PUBREC, PUBREL, PUBCOMP = 0x40, 0x50, 0x62, 0x70
BODIES: dict[int, Body] = {
    PUBACK: lambda data, at, end, version: read_answer(PubAck, PUBACK_REASONS, data, at, end, version),
    PUBREC: lambda data, at, end, version: read_answer(PubRec, PUBREC_REASONS, data, at, end, version),
    PUBREL: lambda data, at, end, version: read_answer(PubRel, PUBREL_REASONS, data, at, end, version),
    PUBCOMP: lambda data, at, end, version: read_answer(PubComp, PUBCOMP_REASONS, data, at, end, version),
    CONNECT: read_connect,
    0x20: read_connack,
    0x82: read_subscribe,
    0x90: read_suback,
    0xA2: read_unsubscribe,
    0xB0: read_unsuback,
    0xC0: read_pingreq,
    0xD0: read_pingresp,
    0xE0: read_disconnect,
    0xF0: read_auth,
}
"""By the whole first byte: its low four bits are reserved in these packets and have exactly one right value."""


def decode(data: bytes, version: int, at: int = 0, bytes_max: int = PACKET_BYTES_MAX) -> tuple[AnyPacket, int] | None:
    """The packet that begins at `at` and where it ends, or None when it is not all there."""
    frame = frame_at(data, at, len(data), bytes_max)
    if frame is None or frame[1] > len(data):
        return None
    return read_body(data, at, frame[0], frame[1], version), frame[1]


def frame_at(data: bytes, at: int, available: int, bytes_max: int) -> tuple[int, int] | None:
    """Where the body of the packet at `at` begins and ends; None when its length is not known yet."""
    if at >= available:
        return None
    first = data[at]
    if not (PUBLISH_FROM <= first <= PUBLISH_TO or first in BODIES):
        raise MalformedPacket(f"no packet begins with 0x{first:02x}")
    body = at + 1
    size = 0
    for shift in (0, 7, 14, 21):
        if body >= available:
            return None
        byte = data[body]
        body += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift:
                raise MalformedPacket("the remaining length is longer than it needs to be")
            break
    else:
        raise MalformedPacket("the remaining length has more than four bytes")
    end = body + size
    if end - at > bytes_max:
        raise ProtocolError(f"a packet of {end - at} bytes, at most {bytes_max}", Reason.PACKET_TOO_LARGE)
    return body, end


def read_body(data: bytes, at: int, body: int, end: int, version: int) -> AnyPacket:
    first = data[at]
    if PUBLISH_FROM <= first <= PUBLISH_TO:
        return read_publish(data, first, body, end, version)
    return BODIES[first](data, body, end, version)


def connect_level(data: bytes, at: int) -> int | None:
    """The protocol level in a CONNECT that cannot be read as a whole; None if it is none."""
    if data[at] != CONNECT:
        return None
    for name in CONNECT_NAMES:
        for begin in range(at + 2, at + 6):
            if data.startswith(name, begin) and len(data) > begin + len(name):
                return data[begin + len(name)]
    return None


class Decoder:
    """The packets of one connection. The version is that of the first CONNECT to come, or the one that is given."""

    __slots__ = (
        "_broken",
        "_missing",
        "_partial",
        "_topics",
        "at",
        "bytes_max",
        "data",
        "refused_level",
        "version",
    )

    def __init__(self, version: int = V5, bytes_max: int = PACKET_BYTES_MAX) -> None:
        self.version = version
        self.bytes_max = bytes_max
        self.data, self.at = b"", 0
        """What came last, and how far it is read."""
        self._partial: bytearray | None = None
        """Of a packet that is not whole yet, while it grows."""
        self._missing = 0
        """How many bytes must come before looking again is of use."""
        self.refused_level: int | None = None
        """After an error in a CONNECT: the protocol level that it names, which says how to answer."""
        self._broken: MalformedPacket | ProtocolError | None = None
        self._topics: dict[bytes, str] = {}

    @property
    def waiting_bytes(self) -> int:
        return len(self.data) - self.at if self._partial is None else len(self._partial)

    @property
    def empty(self) -> bool:
        return self._partial is None and self.at == len(self.data)

    def feed(self, data: bytes) -> None:
        if self._partial is None:
            if self.at == len(self.data):
                self.data, self.at = data, 0
                return
            self._partial = bytearray(memoryview(self.data)[self.at :])
        self._partial += data
        self._missing -= len(data)

    @property
    def has_more(self) -> bool:
        """Whether looking for a packet is of use."""
        if self._partial is not None:
            if self._missing > 0:
                return False
            self.data, self.at, self._partial = bytes(self._partial), 0, None
        return self.at < len(self.data)

    def next_batch(self, count_max: int = PACKET_BYTES_MAX) -> Batch | None:
        """The plain messages that are next, if the next byte says so; None where `next_packet` is to be asked."""
        if self.bytes_max < BATCH_PACKET_BYTES_MAX or count_max <= 0:
            return None
        found = read_batch(self.data, self.at, self.version, self._topics, count_max)
        if found is None:
            return None
        self.at = found[1]
        return found[0]

    def next_acknowledged(self) -> list[int]:
        """The packet identifiers of the PUBACKs that are next, if there is nothing else; else none."""
        ids = acknowledged_at(self.data, self.at)
        self.at += 4 * len(ids)
        return ids

    def next_packet(self) -> AnyPacket | None:
        if self._broken is not None:
            raise self._broken
        if not self.has_more:
            return None
        data, at = self.data, self.at
        available = len(data)
        try:
            frame = frame_at(data, at, available, self.bytes_max)
            if frame is None or frame[1] > available:
                self._missing = 1 if frame is None else frame[1] - available
                return None
            packet = read_body(data, at, frame[0], frame[1], self.version)
        except (MalformedPacket, ProtocolError) as problem:
            self._broken = problem
            self.refused_level = connect_level(data, at)
            raise
        self.at = frame[1]
        if type(packet) is Connect:
            self.version = packet.version
        return packet
