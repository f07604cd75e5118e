"""An application's requests as MQTT packets (docs/PROTOCOL.md describes the broker's side)."""

from collections.abc import Mapping

import msgspec

from roamcast.client.content import Content, ScopeLike, filter_text, payload_of, plain, scope_text
from roamcast.model.filter import Filter
from roamcast.model.space import Space
from roamcast.model.values import Point, Value, Velocity
from roamcast.mqtt.decoding import decode
from roamcast.mqtt.encoding import encode
from roamcast.mqtt.origin import ORIGIN_PROPERTY
from roamcast.mqtt.packets import V5, ConnAck, Pairs, Publish, Subscribe, Unsubscribe, Wish
from roamcast.mqtt.reasons import Reason

ID = "id"
"""The user property with the publisher's own name for an event: what comes twice by QoS 1 is known by it."""
PERSIST, WITHDRAW = "persist", "withdraw"
REPORT_TOPIC = "$roam/me"
RETAINED_ALWAYS, RETAINED_NEVER = 0, 2

_encoder = msgspec.json.Encoder()


def publication(
    client: str,
    own_id: str,
    subject: str,
    content: Content,
    scopes: Mapping[str, ScopeLike | None],
    properties: Pairs,
) -> Publish:
    payload = payload_of(content)
    pairs = ((ID, own_id), *properties, *_scope_pairs(client, scopes))
    return Publish(subject, payload, user_properties=pairs)


def withdrawal(subject: str, event_id: str, qos: int) -> Publish:
    return Publish(subject, b"", qos, user_properties=((WITHDRAW, event_id),))


def subscription_packet(
    client: str,
    number: int,
    topic_filter: str,
    filter_: str | Filter | None,
    scopes: Mapping[str, ScopeLike | None],
    modulator: str | None,
    expiry_s: int | None,
    origins: bool = False,
) -> Subscribe:
    said = {
        "filter": None if filter_ is None else filter_text(filter_),
        "modulator": modulator,
        "expiry": None if expiry_s is None else str(expiry_s),
        ORIGIN_PROPERTY: "true" if origins else None,
    }
    pairs = tuple((name, value) for name, value in said.items() if value is not None)
    return Subscribe(0, (Wish(topic_filter),), number, pairs + _scope_pairs(client, scopes))


def _scope_pairs(client: str, scopes: Mapping[str, ScopeLike | None]) -> Pairs:
    return tuple((name, scope_text(scope, client)) for name, scope in scopes.items() if scope is not None)


class Report:
    """What the brokers were told of this client, whole: one that has lost the session is told again."""

    def __init__(self) -> None:
        self._told: dict[str, object] = {}

    def add(
        self,
        position: Point | None,
        velocity: Velocity | None,
        destination: Point | None,
        pause_s: float,
        attributes: Mapping[str, Value] | None,
    ) -> Publish:
        """What is new; what is None is left out."""
        said: dict[str, object] = {}
        if position is not None:
            said["position"] = [float(position.x), float(position.y)]
        if velocity is not None:
            said["velocity"] = [float(velocity.east), float(velocity.north)]
        if destination is not None:
            said["destination"] = [destination.x, destination.y]
        if pause_s:
            said["pause_s"] = pause_s
        if attributes is not None:
            said["attributes"] = {name: plain(value) for name, value in attributes.items()}
        # How it moves holds for the position that it comes with, and means nothing without.
        stays = [name for name in self._told if position is None or name == "attributes"]
        learned = [name for name in said if position is not None or name == "attributes"]
        self._told = {name: self._told[name] for name in stays} | {name: said[name] for name in learned}
        return Publish(REPORT_TOPIC, _encoder.encode(said), 1)

    def lose_position(self) -> Publish:
        for name in ("velocity", "destination", "pause_s"):
            self._told.pop(name, None)
        self._told["position"] = None
        return Publish(REPORT_TOPIC, _encoder.encode({"position": None}), 1)

    def whole(self, seconds: float = 0.0, space: Space | None = None) -> Publish | None:
        """As things are so long after the last report, if nothing has changed since."""
        told = dict(self._told)
        match told:
            case {"position": [float(x), float(y)], "velocity": [float(east), float(north)]} if space is not None:
                here = space.moved(Point(x, y), east * seconds, north * seconds)
                told["position"] = [here.x, here.y]
        return Publish(REPORT_TOPIC, _encoder.encode(told), 1) if told else None


def not_granted(packet: Publish, size: int, granted: ConnAck) -> tuple[Reason, str] | None:
    """Why a broker that said this in CONNACK would end the connection over a publication of so many bytes."""
    if packet.qos > granted.qos_max:
        return Reason.QOS_NOT_SUPPORTED, f"this broker takes at most QoS {granted.qos_max}"
    if packet.retain and not granted.retain_available:
        return Reason.RETAIN_NOT_SUPPORTED, "this broker retains nothing"
    if granted.packet_bytes_max is not None and size > granted.packet_bytes_max:
        return Reason.PACKET_TOO_LARGE, f"{size} bytes, and this broker takes at most {granted.packet_bytes_max}"
    return None


def sendable_bytes(packet: Publish | Subscribe | Unsubscribe) -> int:
    """How large it is on the wire; raises `BadPacket` for what a broker would have to hang up at, again and again."""
    data = encode(packet, V5)
    decode(data, V5)
    return len(data)


def check_qos(qos: int) -> None:
    if qos not in (0, 1, 2):
        raise ValueError(f"QoS {qos}: give 0 (at most once), 1 (at least once) or 2 (exactly once)")
