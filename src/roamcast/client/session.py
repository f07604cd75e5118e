"""The client's side of an MQTT 5 session, without a socket or a clock: what outlives a connection, and what follows.

    attached(CONNACK)    a broker has us: what is not acknowledged goes again, in its order
    receive(packet)      what the broker says
    publish, subscribe, unsubscribe, taken     what the application wants
    packets(), results() what is to be sent, and what came of it

A publication is *waiting* (the broker takes no more at a time, or there is none), *sent*, and with QoS 2 *released*
before it is confirmed. A delivery of QoS 1 or 2 is acknowledged when the application has taken it, in the order in
which deliveries came; one that comes again before that is the same one. So a broker, or the next one, holds what
the application has not had, and gives none of it twice.

Where the broker has no session (any more), subscriptions are asked for again, and publications that no broker has
confirmed are sent again as new ones.
"""

import math
from collections import deque
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from roamcast.client.packing import not_granted
from roamcast.mqtt.encoding import encode
from roamcast.mqtt.packets import (
    PACKET_ID_MAX,
    V5,
    AnyPacket,
    ConnAck,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
)
from roamcast.mqtt.reasons import FAILURE_FROM, ProtocolError, Reason

AGAIN = 0
"""The token of a subscription that is asked for again by the session itself."""


class Outgoing:
    __slots__ = ("ends_s", "packet", "released", "sent", "token")

    def __init__(self, token: int, packet: Publish, ends_s: float | None) -> None:
        self.token = token
        self.packet = packet
        self.ends_s = ends_s
        self.sent = False
        self.released = False


class Incoming:
    """A delivery of QoS 1 or 2, until both ends are done with it."""

    __slots__ = ("packet_id", "qos", "taken")

    def __init__(self, packet_id: int, qos: int) -> None:
        self.packet_id = packet_id
        self.qos = qos
        self.taken = False


class Arrived(Struct, frozen=True):
    """`delivery` is to be given to `taken` when the application has it; None with QoS 0."""

    packet: Publish
    delivery: Incoming | None


class Confirmed(Struct, frozen=True):
    """What became of a publication, a subscription or the end of one."""

    token: int
    reason: Reason
    text: str | None = None


class Expired(Struct, frozen=True):
    """A publication whose time was over before there was a broker to send it to."""

    token: int


class Withdrawn(Struct, frozen=True):
    """A subscription that was granted before is refused by a broker that has lost the session."""

    filter: str
    reason: Reason
    text: str | None = None


Result: TypeAlias = Arrived | Confirmed | Expired | Withdrawn


class Session:
    def __init__(self, in_flight_max: int = 256) -> None:
        self.in_flight_max = in_flight_max
        self.attached_now = False
        self.subscriptions: dict[str, Subscribe] = {}
        """Granted ones by topic filter, as they were asked for."""
        self._window = in_flight_max
        self._in_flight = 0
        self._outgoing: dict[int, Outgoing] = {}
        self._waiting: deque[Outgoing] = deque()
        self._requests: dict[int, tuple[int, Subscribe | Unsubscribe]] = {}
        """By packet identifier, with their tokens."""
        self._incoming: dict[int, Incoming] = {}
        self._order: deque[Incoming] = deque()
        """Deliveries of this connection that are not acknowledged."""
        self._packets: list[AnyPacket] = []
        self._results: list[Result] = []
        self._tokens = AGAIN
        self._last_id = 0

    @property
    def unfinished(self) -> int:
        """Publications that no broker has confirmed."""
        return len(self._outgoing)

    # The connection.

    def attached(self, connack: ConnAck, now_s: float = 0.0) -> None:
        self.attached_now = True
        self._window = min(connack.receive_max, self.in_flight_max)
        if not connack.session_present:
            self._session_lost()
        for outgoing in list(self._outgoing.values()):
            if not outgoing.released:
                self._revise(outgoing, connack, now_s)
        for packet_id, (_, request) in list(self._requests.items()):
            self._packets.append(replace(request, packet_id=packet_id))
        self._in_flight = 0
        self._waiting = deque(self._outgoing.values())
        self._pump()

    def _session_lost(self) -> None:
        self._incoming = {}
        asked = {each.wishes[0].filter for _, each in self._requests.values() if isinstance(each, Subscribe)}
        for text, packet in self.subscriptions.items():
            if text not in asked:
                self._requests[self._free_id()] = AGAIN, packet
        for outgoing in list(self._outgoing.values()):
            if outgoing.released:
                # A broker had it, and said so: only the end of the exchange was still to come.
                del self._outgoing[outgoing.packet.packet_id]
                self._results.append(Confirmed(outgoing.token, Reason.SUCCESS))
            outgoing.sent = False

    def _revise(self, outgoing: Outgoing, granted: ConnAck, now_s: float) -> None:
        """Less of its life is left, and this broker may take less than the one before."""
        packet_id = outgoing.packet.packet_id
        if outgoing.ends_s is not None:
            left_s = math.ceil(outgoing.ends_s - now_s)
            if left_s <= 0 and not outgoing.sent:
                del self._outgoing[packet_id]
                self._results.append(Expired(outgoing.token))
                return
            outgoing.packet = replace(outgoing.packet, message_expiry_s=max(1, left_s))
        why_not = not_granted(outgoing.packet, len(encode(outgoing.packet, V5)), granted)
        if why_not is not None:
            del self._outgoing[packet_id]
            self._results.append(Confirmed(outgoing.token, *why_not))

    def detached(self) -> None:
        self.attached_now = False
        self._packets = []
        self._order.clear()

    # The application.

    def publish(self, packet: Publish, first: bool = False, ends_s: float | None = None) -> int:
        """QoS 1 or 2; answers with the token of its `Confirmed` or `Expired`. `first` puts it before all that is not
        confirmed; `ends_s` is when its expiry interval is over, in the time of `attached`."""
        packet_id = self._free_id()
        outgoing = Outgoing(self._token(), replace(packet, packet_id=packet_id), ends_s)
        if first:
            self._outgoing = {packet_id: outgoing, **self._outgoing}
            self._waiting.appendleft(outgoing)
        else:
            self._outgoing[packet_id] = outgoing
            self._waiting.append(outgoing)
        self._pump()
        return outgoing.token

    def request(self, packet: Subscribe | Unsubscribe) -> int:
        packet_id, token = self._free_id(), self._token()
        self._requests[packet_id] = token, packet
        if self.attached_now:
            self._packets.append(replace(packet, packet_id=packet_id))
        return token

    def taken(self, delivery: Incoming) -> None:
        delivery.taken = True
        self._acknowledge()

    # The broker.

    def receive(self, packet: AnyPacket) -> None:
        """Raises `ProtocolError` for what a broker does not say here."""
        match packet:
            case Publish():
                self._deliver(packet)
            case PubAck(packet_id, reason, text):
                self._confirm(packet_id, reason, text)
            case PubRec():
                self._received(packet)
            case PubRel(packet_id):
                known = self._incoming.pop(packet_id, None) is not None
                reason = Reason.SUCCESS if known else Reason.PACKET_IDENTIFIER_NOT_FOUND
                self._packets.append(PubComp(packet_id, reason))
            case PubComp(packet_id):
                self._confirm(packet_id, Reason.SUCCESS, None)
            case SubAck(packet_id, reasons, text) | UnsubAck(packet_id, reasons, text):
                self._answered(packet_id, reasons[0] if reasons else Reason.SUCCESS, text)
            case _:
                raise ProtocolError(f"{type(packet).__name__} from a broker")

    def packets(self) -> list[AnyPacket]:
        packets, self._packets = self._packets, []
        return packets

    def results(self) -> list[Result]:
        results, self._results = self._results, []
        return results

    def _deliver(self, packet: Publish) -> None:
        if packet.qos == 0:
            self._results.append(Arrived(packet, None))
            return
        delivery = self._incoming.get(packet.packet_id)
        if delivery is None or delivery.qos != packet.qos or not (packet.dup or packet.qos == 2):
            delivery = self._incoming[packet.packet_id] = Incoming(packet.packet_id, packet.qos)
            self._results.append(Arrived(packet, delivery))
        self._order.append(delivery)
        self._acknowledge()

    def _acknowledge(self) -> None:
        while self._order and self._order[0].taken:
            delivery = self._order.popleft()
            if delivery.qos == 2:
                self._packets.append(PubRec(delivery.packet_id))
                continue
            self._packets.append(PubAck(delivery.packet_id))
            if self._incoming.get(delivery.packet_id) is delivery:
                del self._incoming[delivery.packet_id]

    def _received(self, packet: PubRec) -> None:
        outgoing = self._outgoing.get(packet.packet_id)
        if outgoing is None:
            self._packets.append(PubRel(packet.packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND))
        elif packet.reason >= FAILURE_FROM:
            self._confirm(packet.packet_id, packet.reason, packet.reason_text)
        else:
            outgoing.released = True
            self._packets.append(PubRel(packet.packet_id))

    def _confirm(self, packet_id: int, reason: Reason, text: str | None) -> None:
        outgoing = self._outgoing.pop(packet_id, None)
        if outgoing is not None:
            self._in_flight -= 1
            self._results.append(Confirmed(outgoing.token, reason, text))
            self._pump()

    def _answered(self, packet_id: int, reason: Reason, text: str | None) -> None:
        found = self._requests.pop(packet_id, None)
        if found is None:
            return
        token, packet = found
        refused = reason >= FAILURE_FROM
        if isinstance(packet, Subscribe):
            topic_filter = packet.wishes[0].filter
            if not refused:
                self.subscriptions[topic_filter] = packet
            elif token == AGAIN:
                del self.subscriptions[topic_filter]
                self._results.append(Withdrawn(topic_filter, reason, text))
        elif not refused:
            self.subscriptions.pop(packet.filters[0], None)
        if token != AGAIN:
            self._results.append(Confirmed(token, reason, text))

    def _pump(self) -> None:
        """Sends what waits, as far as the broker takes it."""
        while self.attached_now and self._waiting and self._in_flight < self._window:
            outgoing = self._waiting.popleft()
            self._in_flight += 1
            if outgoing.released:
                self._packets.append(PubRel(outgoing.packet.packet_id))
            else:
                self._packets.append(replace(outgoing.packet, dup=outgoing.sent))
                outgoing.sent = True

    def _token(self) -> int:
        self._tokens += 1
        return self._tokens

    def _free_id(self) -> int:
        for _ in range(PACKET_ID_MAX):
            self._last_id = self._last_id % PACKET_ID_MAX + 1
            if self._last_id not in self._outgoing and self._last_id not in self._requests:
                return self._last_id
        raise OverflowError("65,535 publications and requests wait for an answer")
