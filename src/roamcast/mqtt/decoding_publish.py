"""Readers of frequent packets: PUBLISH and its four acknowledgements.

What is accepted and refused is exactly what `properties.read_properties` would; a test compares the two.
"""

from typing import TypeVar

from roamcast.mqtt.packets import V5, Pairs, PubAck, PubComp, Publish, PubRec, PubRel
from roamcast.mqtt.properties import read_properties
from roamcast.mqtt.reasons import MalformedPacket, ProtocolError, Reason
from roamcast.mqtt.wire import read_two, read_variable, text_of

Answer = TypeVar("Answer", PubAck, PubRec, PubRel, PubComp)
MESSAGE_EXPIRY = 0x02
USER_PROPERTY = 0x26


def read_answer(
    kind: type[Answer], reasons: dict[int, Reason], data: bytes, at: int, end: int, version: int
) -> Answer:
    size = end - at
    if size < 2:
        raise MalformedPacket("the packet ends within its packet identifier")
    packet_id = (data[at] << 8) | data[at + 1]
    if packet_id == 0:
        raise ProtocolError("a packet identifier is 0")
    if size == 2:
        return kind(packet_id)
    if version != V5:
        raise MalformedPacket("bytes after the packet identifier")
    reason = reasons.get(data[at + 2])
    if reason is None:
        raise ProtocolError(f"reason code 0x{data[at + 2]:02x} does not belong in {kind.__name__}")
    if size == 3:
        return kind(packet_id, reason)
    fields, stop = read_properties(kind, data, at + 3, end)
    if stop != end:
        raise MalformedPacket("bytes after the properties")
    return kind(packet_id, reason, **fields)


def read_publish(data: bytes, first: int, at: int, end: int, version: int) -> Publish:
    qos = (first >> 1) & 3
    dup = first & 8 != 0
    if qos == 3:
        raise MalformedPacket("QoS 3")
    if dup and qos == 0:
        raise MalformedPacket("DUP with QoS 0")
    topic_at = at + 2
    if topic_at > end:
        raise MalformedPacket("the packet ends within its topic name")
    at = topic_at + ((data[at] << 8) | data[at + 1])
    if at > end:
        raise MalformedPacket("the packet ends within its topic name")
    topic = text_of(data[topic_at:at])
    if "+" in topic or "#" in topic:
        raise MalformedPacket("a topic name contains a wildcard")
    packet_id = 0
    if qos:
        packet_id, at = read_two(data, at, end)
        if packet_id == 0:
            raise ProtocolError("a packet identifier is 0")
    if version == V5:
        if at < end and data[at] == 0:
            at += 1
        else:
            return _with_properties(data, first, at, end, topic, packet_id)
    if not topic:
        # In 3.1.1 there is nothing that could stand for a topic; in MQTT 5 only an alias can.
        raise MalformedPacket("a topic name is empty") if version != V5 else ProtocolError("neither topic nor alias")
    return Publish(topic, data[at:end], qos, first & 1 != 0, dup, packet_id)


def _with_properties(data: bytes, first: int, at: int, end: int, topic: str, packet_id: int) -> Publish:
    size, begin = read_variable(data, at, end)
    stop = begin + size
    if stop > end:
        raise MalformedPacket("the packet ends within its properties")
    qos, retain, dup = (first >> 1) & 3, first & 1 != 0, first & 8 != 0
    if topic:
        expiry_s = None
        if size >= 5 and data[begin] == MESSAGE_EXPIRY:
            expiry_s = int.from_bytes(data[begin + 1 : begin + 5], "big")
            begin += 5
        pairs = _only_pairs(data, begin, stop)
        if pairs is not None:
            payload = data[stop:end]
            return Publish(topic, payload, qos, retain, dup, packet_id, None, expiry_s, None, None, None, pairs)
    fields, stop = read_properties(Publish, data, at, end)
    if not topic and "topic_alias" not in fields:
        raise ProtocolError("neither topic nor alias")
    return Publish(topic, data[stop:end], qos, retain, dup, packet_id, **fields)


def _only_pairs(data: bytes, at: int, stop: int) -> Pairs | None:
    """User properties, if there is nothing else; None leaves it to the tables, which also say what is wrong."""
    pairs: list[tuple[str, str]] = []
    try:
        while at < stop:
            if data[at] != USER_PROPERTY:
                return None
            name_at = at + 3
            value_at = name_at + ((data[at + 1] << 8) | data[at + 2]) + 2
            at = value_at + ((data[value_at - 2] << 8) | data[value_at - 1])
            name = str(data[name_at : value_at - 2], "utf-8")
            value = str(data[value_at:at], "utf-8")
            if "\0" in name or "\0" in value:
                return None
            pairs.append((name, value))
    except (IndexError, UnicodeDecodeError):
        return None
    return tuple(pairs) if at == stop else None
