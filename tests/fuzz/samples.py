"""What clients, neighbours and nodes say in order, as the beginning of what they do not."""

from roamcast.mqtt import encode
from roamcast.mqtt.packets import (
    V5,
    V311,
    AnyPacket,
    Auth,
    Connect,
    Disconnect,
    PingReq,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    Subscribe,
    Unsubscribe,
    Will,
    Wish,
)
from roamcast.server.links.frames import AGREED, CHOSEN, GREETING, PING, REFUSED, frame, write_greeting

NEAR = (("filter", "severity >= 3 AND near(position, 500)"), ("lifetime", "60"))
PLACED = b'{"severity": 4, "position": [24.943, 60.171], "text": "\xc3\xa4"}'
COMMON: tuple[AnyPacket, ...] = (
    Publish("t/1", b"x"),
    Publish("t/1", b"x" * 200, 1, packet_id=7),
    Publish("t/2", PLACED, 2, packet_id=8),
    Publish("t/3", b"kept", 1, True, packet_id=9),
    Publish("$roam/me", b'{"position": [24.94, 60.17], "velocity": [1.5, -2], "speed": 3}'),
    Publish("$roam/fences/yard", b'{"type": "Point", "coordinates": [24.9, 60.1]}', 1, True, packet_id=10),
    PubAck(1),
    PubRec(2),
    PubRel(3),
    PubComp(4),
    Subscribe(11, (Wish("t/+", 1), Wish("#", 0))),
    Subscribe(12, (Wish("$share/g/t/#", 2), Wish("$roam/x/t", 1), Wish("$roam/position/+", 0))),
    Unsubscribe(13, ("t/+", "nothing")),
    PingReq(),
    Disconnect(),
)
ONLY_5: tuple[AnyPacket, ...] = (
    Subscribe(14, (Wish("alerts/#", 1),), user_properties=NEAR),
    Publish("alerts/1", PLACED, 1, packet_id=15, user_properties=(("persist", "true"), ("audience", "near(me, 9)"))),
    Auth(),
)
WILL = Will("t/last", b"gone", 1, True)
CONNECTS = {
    V311: [Connect("fuzz", V311), Connect("fuzz", V311, False, 5, will=WILL)],
    V5: [Connect("fuzz"), Connect("fuzz-kept", clean_start=False, session_expiry_s=5, will=WILL, username="ann")],
}
PACKETS = {
    V311: [encode(each, V311) for each in (*CONNECTS[V311], *COMMON)],
    V5: [encode(each, V5) for each in (*CONNECTS[V5], *COMMON, *ONLY_5)],
}

UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)
MASK = b"\x01\x02\x03\x04"


def masked(opcode: int, payload: bytes) -> bytes:
    """A whole WebSocket frame, as clients send them."""
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes([0x80 | opcode]) + length + MASK + bytes(byte ^ MASK[at % 4] for at, byte in enumerate(payload))


WEB_FRAMES = [
    *(masked(2, each) for each in PACKETS[V5]),
    masked(1, b"text"),
    masked(8, b"\x03\xe8bye"),
    masked(9, b"ping"),
    masked(10, b""),
    masked(0, b"rest"),
    b"\x02" + masked(2, b"begun")[1:],
]


def request(line: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"{line} HTTP/1.1", "Host: localhost", *headers]
    lines += [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


CHUNKED = "Transfer-Encoding: chunked"
FENCE = b'{"type": "Polygon", "coordinates": [[[24.9, 60.1], [25.0, 60.1], [25.0, 60.2], [24.9, 60.1]]]}'
EVENT = b'{"specversion": "1.0", "id": "1", "source": "/x", "type": "t", "data": {"mm": 4}}'
REQUESTS = [
    request("GET /healthz"),
    request("GET /metrics"),
    request("GET /openapi.json"),
    request("GET /api/status"),
    request("GET /api/clients?limit=3"),
    request("GET /api/clients/fuzz"),
    request("GET /api/positions?bbox=24,60,25,61"),
    request("GET /api/tracks/fuzz"),
    request("GET /api/fences"),
    request("PUT /api/fences/yard", "Content-Type: application/geo+json", body=FENCE),
    request("DELETE /api/fences/yard"),
    request("POST /api/publish/t/1?qos=1", "Content-Type: application/json", body=PLACED),
    request("POST /api/publish/t", "Content-Type: application/cloudevents+json", body=EVENT),
    request("POST /api/publish/t", CHUNKED, "Content-Type: application/json") + b'4\r\n{"a"\r\n3\r\n:1}\r\n0\r\n\r\n',
    request("HEAD /api/status", CHUNKED) + b"3\r\nabc\r\n0\r\n\r\n",
    request("GET /studio/"),
    request("GET /studio/broker", "Origin: https://elsewhere.example"),
    request("GET /studio/events/x%2Fy"),
    request("GET /studio/clients/%00"),
    request("GET /studio/try?client=fuzz&topic=t"),
    request("GET /studio/../../etc/passwd"),
    request("OPTIONS *"),
    UPGRADE.replace(b"/mqtt", b"/studio/feed"),
    UPGRADE.replace(b"/mqtt", b"/studio/feed") + masked(1, b'{"box": [24, 60, 25, 61]}') + masked(9, b"p"),
]

LINK_FRAMES = [
    frame(GREETING, write_greeting("stranger", "fuzzed")),
    frame(AGREED, b""),
    frame(CHOSEN, b""),
    frame(PING, b""),
    frame(REFUSED, b"why not"),
    frame(0, b"\x90"),
    frame(1, b"\x91\x92\xa3pub\x01"),
]
