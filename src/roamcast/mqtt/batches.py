"""Decodes runs of adjacent PUBLISH and acknowledgement packets in one pass.

Most messages are plain: QoS 0 or 1, not retained, without properties. Who sends many sends them in one piece
and to one topic: a `Batch`. Whatever is unusual about a packet ends the batch before it and is left to
`decoding_publish`, which also says what is wrong with it. A batch of one is fine.
"""

from msgspec import Struct

from roamcast.mqtt.messages import Message
from roamcast.mqtt.packets import V5
from roamcast.mqtt.reasons import BadPacket
from roamcast.mqtt.wire import text_of

PLAIN_QOS_0, PLAIN_QOS_1 = 0x30, 0x32
"""The first byte of a PUBLISH with QoS 0 or 1 that has neither DUP nor RETAIN."""
BATCH_PACKET_BYTES_MAX = 16_386
"""A longer packet has a length of three bytes, and is read by itself."""
PACKET_BYTES_MIN = 5
"""With a topic of one letter and no payload."""
TOPICS_MAX = 256


class Batch(Struct, frozen=True):
    """Plain messages of one topic and QoS, in the order in which they came. With QoS 1, each is to be acknowledged
    once it is safe."""

    topic: str
    qos: int
    messages: list[Message]
    packet_ids: list[int]
    """With QoS 1, all different."""
    payload_bytes: int
    version: int = 0
    frames: bytes = b""
    """The packets as they came, in this version of MQTT; empty if there are none that say just this."""

    def goes_with(self, other: "Batch") -> bool:
        """Whether both can be one."""
        return self.topic == other.topic and self.version == other.version


def merged(batches: list[Batch]) -> Batch:
    """Of several that go with each other, with QoS 0."""
    first = batches[0]
    if len(batches) == 1:
        return first
    messages = [message for batch in batches for message in batch.messages]
    payload_bytes = sum(batch.payload_bytes for batch in batches)
    frames = b"".join([batch.frames for batch in batches])
    return Batch(first.topic, 0, messages, [], payload_bytes, first.version, frames)


def batch_of(message: Message) -> Batch:
    return Batch(message.topic, message.qos, [message], [], len(message.payload))


def read_batch(
    data: bytes, at: int, version: int, topics: dict[bytes, str], count_max: int
) -> tuple[Batch, int] | None:
    """The batch that begins at `at` and where it ends; `topics` are those read before, as they stand in a packet."""
    begin, available = at, len(data)
    if at + PACKET_BYTES_MIN > available:
        return None
    first, is_v5 = data[at], version == V5
    qos, skipped = (1, 2 + is_v5) if first == PLAIN_QOS_1 else (0, is_v5)
    body = at + 2 if data[at + 1] < 128 else at + 3
    head_bytes = 2 + (data[body] << 8 | data[body + 1])
    head = data[body : body + head_bytes]
    if len(head) < head_bytes:
        # Its topic ends behind all that has come: more is to come, or the packet is malformed.
        return None
    topic = topics.get(head) or _topic_of(head, topics)
    if topic is None:
        return None
    payload_offset = len(head) + skipped
    messages: list[Message] = []
    packet_ids: dict[int, None] = {}
    payload_bytes = 0
    while at + PACKET_BYTES_MIN <= available and data[at] == first and len(messages) < count_max:
        size, body = data[at + 1], at + 2
        if size >= 128:
            more, body = data[body], body + 1
            if more >= 128 or more == 0:
                break
            size += (more << 7) - 128
        end, payload_at = body + size, body + payload_offset
        if end > available or payload_at > end or not data.startswith(head, body):
            break
        if is_v5 and data[payload_at - 1]:
            break
        if qos:
            id_at = body + len(head)
            packet_id = data[id_at] << 8 | data[id_at + 1]
            if packet_id == 0 or packet_id in packet_ids:
                break
            packet_ids[packet_id] = None
        messages.append(Message(topic, data[payload_at:end], qos))
        payload_bytes += end - payload_at
        at = end
    if at == begin:
        return None
    return Batch(topic, qos, messages, list(packet_ids), payload_bytes, version, data[begin:at]), at


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


def acknowledged_at(data: bytes, at: int) -> list[int]:
    """The identifiers of PUBACKs without a reason that stand side by side and are all that follows; else none."""
    if len(data) - at == 4 and data[at] == 0x40:
        packet_id = data[at + 2] << 8 | data[at + 3]
        return [packet_id] if packet_id and data[at + 1] == 2 else []
    count = (len(data) - at) // 4
    chunk = data[at : at + 4 * count]
    if chunk[0::4] != b"\x40" * count or chunk[1::4] != b"\x02" * count:
        return []
    ids = [upper << 8 | lower for upper, lower in zip(chunk[2::4], chunk[3::4], strict=True)]
    return ids if all(ids) else []
