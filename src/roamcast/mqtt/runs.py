"""Messages that came together: PUBLISH packets of one topic, side by side in what a socket gave, left as bytes.

Most messages are plain: QoS 0 or 1, not retained, without properties. A client that sends many sends them in one
piece, and for one topic. Such a `Run` is looked over as a whole and goes on as a whole: its bytes are what clients of
the same version get with QoS 0, and with QoS 1 too, but for the packet identifiers, which are written over. Nothing
is made for a single message unless somebody asks for it (`messages`).

Whatever is unusual about a packet ends the run before it, and is left to `decoding_publish`, which also says what is
wrong with it. A run of one is fine.
"""

from typing import NamedTuple

from roamcast.mqtt.encoding import encode_publish
from roamcast.mqtt.messages import Message
from roamcast.mqtt.packets import PACKET_ID_MAX, V5, Publish
from roamcast.mqtt.reasons import BadPacket
from roamcast.mqtt.wire import text_of

PLAIN_ONCE, PLAIN_SAFE = 0x30, 0x32
"""How PUBLISH begins: QoS 0 or QoS 1, not sent before and not to be retained."""
RUN_PACKET_BYTES_MAX = 16_386
"""A longer packet has a length of three bytes, and is worth looking at by itself."""
PACKET_BYTES_MIN = 5
"""With a topic of one letter and no payload."""
TOPICS_MAX = 256

_IDS = [*range(1, PACKET_ID_MAX + 1)] * 2
_HIGH, _LOW = bytes(each >> 8 for each in _IDS), bytes(each & 0xFF for each in _IDS)


def ids_from(first: int, count: int) -> list[int]:
    """Packet identifiers that follow each other; after the last comes the first."""
    return _IDS[first - 1 : first - 1 + count]


class Stretch(NamedTuple):
    """Packets of one length: where the first is in the bytes of its run, and where an identifier and a payload are in
    each of them."""

    at: int
    size: int
    packets: int
    id_at: int
    payload_at: int

    @property
    def end(self) -> int:
        return self.at + self.size * self.packets


class Kept(NamedTuple):
    """What a run says, without what was made of it for those who got it."""

    topic: str
    qos: int
    frames: bytes
    stretches: list[Stretch]
    packets: int

    def messages(self) -> list[Message]:
        return [
            Message(self.topic, self.frames[at + each.payload_at : at + each.size], self.qos)
            for each in self.stretches
            for at in range(each.at, each.end, each.size)
        ]


class Run:
    __slots__ = (
        "_messages",
        "_numbered",
        "_seen",
        "_stretches",
        "count",
        "frames",
        "longest",
        "packet_ids",
        "payload_bytes",
        "qos",
        "topic",
        "version",
    )

    def __init__(self, topic: str, version: int, frames: bytes, stretches: list[Stretch]) -> None:
        self.topic = topic
        self.qos = (frames[0] >> 1) & 3
        self.version = version
        self.frames = frames
        self.count = self.longest = self.payload_bytes = 0
        for _, size, count, _, payload_at in stretches:
            self.count += count
            self.payload_bytes += (size - payload_at) * count
            if size > self.longest:
                self.longest = size
        self.packet_ids = self._ids(stretches) if self.qos else []
        """Of QoS 1, those of the client that sent it."""
        self._stretches = stretches
        self._messages: list[Message] | None = None
        self._seen: dict[tuple[int, int], Run | None] = {}
        self._numbered: dict[int, bytes] = {}

    def _ids(self, stretches: list[Stretch]) -> list[int]:
        ids: list[int] = []
        for each in stretches:
            high = self.frames[each.at + each.id_at : each.end : each.size]
            low = self.frames[each.at + each.id_at + 1 : each.end : each.size]
            ids += [upper << 8 | lower for upper, lower in zip(high, low, strict=True)]
        return ids

    def messages(self) -> list[Message]:
        """One by one."""
        if self._messages is None:
            self._messages = self.kept().messages()
        return self._messages

    def kept(self) -> Kept:
        return Kept(self.topic, self.qos, self.frames, self._stretches, self.count)

    def payloads(self) -> list[bytes]:
        return [
            self.frames[at + each.payload_at : at + each.size]
            for each in self._stretches
            for at in range(each.at, each.end, each.size)
        ]

    def pieces(self) -> "list[Run]":
        """Runs of one message each."""
        if self.count == 1:
            return [self]
        return [
            Run(self.topic, self.version, self.frames[at : at + size], [Stretch(0, size, 1, id_at, payload_at)])
            for begin, size, packets, id_at, payload_at in self._stretches
            for at in range(begin, begin + size * packets, size)
        ]

    def packets(self) -> list[Publish]:
        """As they would have been read one by one."""
        return [
            Publish(each.topic, each.payload, self.qos, packet_id=packet_id)
            for each, packet_id in zip(self.messages(), self.packet_ids or [0] * self.count, strict=True)
        ]

    def numbered(self, first_id: int) -> bytes:
        """Its packets under identifiers that follow each other; for clients that are at the same one, made once."""
        made = self._numbered.get(first_id)
        if made is None:
            changed, begin = bytearray(self.frames), first_id - 1
            for each in self._stretches:
                until = begin + each.packets
                changed[each.at + each.id_at : each.end : each.size] = _HIGH[begin:until]
                changed[each.at + each.id_at + 1 : each.end : each.size] = _LOW[begin:until]
                begin = until
            made = self._numbered[first_id] = bytes(changed)
        return made

    def seen_as(self, version: int, qos: int) -> "Run | None":
        """As clients get it that speak another version, or want another QoS; None if it is no run then."""
        if version == self.version and qos == self.qos:
            return self
        key = (version, qos)
        if key not in self._seen:
            packets = [
                encode_publish(Publish(self.topic, message.payload, qos, packet_id=number * qos), version)
                for number, message in enumerate(self.messages(), start=1)
            ]
            found = read_run(b"".join(packets), 0, version, {}, self.count)
            self._seen[key] = None if found is None or found[0].count < self.count else found[0]
        return self._seen[key]


def lone_run(topic: str, version: int, packet: bytes, payload_at: int) -> Run:
    """Of one packet of QoS 0 that is known to be plain."""
    id_at = payload_at - 1 if version == V5 else payload_at
    return Run(topic, version, packet, [Stretch(0, len(packet), 1, id_at, payload_at)])


def acknowledgements(ids: list[int]) -> bytes:
    """PUBACKs without a reason."""
    said = bytearray(b"\x40\x02\0\0" * len(ids))
    said[2::4] = bytes([each >> 8 for each in ids])
    said[3::4] = bytes([each & 0xFF for each in ids])
    return bytes(said)


def acknowledged_at(data: bytes, at: int) -> list[int]:
    """The identifiers of PUBACKs without a reason that stand side by side and are all that follows; else none."""
    count = (len(data) - at) // 4
    chunk = data[at : at + 4 * count]
    if chunk[0::4] != b"\x40" * count or chunk[1::4] != b"\x02" * count:
        return []
    ids = [upper << 8 | lower for upper, lower in zip(chunk[2::4], chunk[3::4], strict=True)]
    return ids if all(ids) else []


def read_run(data: bytes, at: int, version: int, topics: dict[bytes, str], count_max: int) -> tuple[Run, int] | None:
    """The run that begins at `at` and where it ends. `topics` are those read before, by how they are written."""
    stretch = _stretch_at(data, at, at, b"", version, count_max)
    if stretch is None:
        return None
    # Where a payload or an identifier begins, the topic has ended.
    head = data[at + (2 if data[at + 1] < 128 else 3) : at + stretch.id_at]
    topic = topics.get(head) or _topic_of(head, topics)
    if topic is None:
        return None
    begin, first, count = at, data[at], stretch.packets
    stretches = [stretch]
    at += stretch.size * count
    while count < count_max and at < len(data) and data[at] == first:
        stretch = _stretch_at(data, begin, at, head, version, count_max - count)
        if stretch is None:
            break
        stretches.append(stretch)
        at += stretch.size * stretch.packets
        count += stretch.packets
    run = Run(topic, version, data[begin:at], stretches)
    if run.qos and (0 in run.packet_ids or len(set(run.packet_ids)) < run.count):
        return None
    return run, at


def _topic_of(head: bytes, topics: dict[bytes, str]) -> str | None:
    """None for what is no topic."""
    try:
        topic = text_of(head[2:])
    except BadPacket:
        return None
    if not topic or "+" in topic or "#" in topic:
        return None
    if len(topics) >= TOPICS_MAX:
        topics.clear()
    topics[head] = topic
    return topic


def _stretch_at(data: bytes, begin: int, at: int, head: bytes, version: int, count_max: int) -> Stretch | None:
    """The packets from `at` on that have one length, and the same topic: that of `head`, if there is any. None for a
    packet that is not whole, not plain, or longer than two bytes of length can say."""
    available = len(data)
    if at + PACKET_BYTES_MIN > available:
        return None
    size, body = data[at + 1], at + 2
    if size >= 128:
        more, body = data[body], body + 1
        if more >= 128 or more == 0:
            return None
        size += (more << 7) - 128
    size += body - at
    id_at = body + 2 + (data[body] << 8 | data[body + 1]) - at
    payload_at = id_at if data[at] == PLAIN_ONCE else id_at + 2
    if version == V5:
        payload_at += 1
    if payload_at > size or at + size > available or not data.startswith(head, body):
        return None
    if version == V5 and data[at + payload_at - 1]:
        return None
    room = min(count_max, (available - at) // size)
    count = 1 if room == 1 else _alike_from(data, at, size, id_at, room)
    if version == V5 and count > 1:
        # Behind each topic, or identifier, stands how long the properties are.
        properties = data[at + payload_at - 1 : at + size * count : size]
        count = len(properties) - len(properties.lstrip(b"\0"))
    return Stretch(at - begin, size, count, id_at, payload_at)


def _alike_from(data: bytes, at: int, size: int, id_at: int, room: int) -> int:
    """How many packets follow each other that begin as the first does, and so have its length and topic."""
    begins, count = data[at : at + id_at], 1
    for next_at in range(at + size, at + size * room, size):
        if not data.startswith(begins, next_at):
            break
        count += 1
    return count
