"""What is said between CONNACK and the end of a connection."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from roamcast.mqtt.batches import PLAIN_QOS_0, PLAIN_QOS_1
from roamcast.mqtt.decoding import PUBACK, Decoder
from roamcast.mqtt.encoding import PINGRESP, encode
from roamcast.mqtt.events import (
    AnyEvent,
    Published,
    Released,
    SubscribeRequested,
    UnsubscribeRequested,
)
from roamcast.mqtt.handshake import Agreement, Answer, fitting
from roamcast.mqtt.incoming import Incoming
from roamcast.mqtt.limits import Limits
from roamcast.mqtt.messages import Subscription, message_of, subscription_of
from roamcast.mqtt.outgoing import Frames, Outgoing
from roamcast.mqtt.packets import (
    V5,
    AnyPacket,
    Disconnect,
    PingReq,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    Unsubscribe,
)
from roamcast.mqtt.reasons import DISCONNECT_FROM_CLIENT, ProtocolError, Reason
from roamcast.mqtt.topics import BadTopicFilter, parse_filter

if TYPE_CHECKING:
    from roamcast.broker.session import Session


class Dialogue:
    __slots__ = (
        "_limits",
        "_report",
        "_send",
        "_subscribes",
        "_topics",
        "_unsubscribes",
        "_version",
        "agreed",
        "expiry_s",
        "incoming",
        "outgoing",
        "session",
    )

    def __init__(
        self,
        session: "Session",
        agreed: Agreement,
        limits: Limits,
        frames: Frames,
        send: Callable[[bytes], None],
        report: Callable[[AnyEvent], None],
    ) -> None:
        self.session = session
        self.agreed = agreed
        self._version = agreed.version
        self._topics: dict[int, str] = {}
        """What the client's topic aliases stand for."""
        self.expiry_s = agreed.session_expiry_s
        """How long the session is to outlive the connection."""
        self._subscribes: dict[int, list[Subscription | Reason]] = {}
        """SUBSCRIBEs that wait for an answer: by line, what the broker decides on, or why that is refused already."""
        self._unsubscribes: dict[int, tuple[str, ...]] = {}
        self.incoming = Incoming(session.received, agreed.version, limits.receive_max, send)
        self.outgoing = Outgoing(session.window, agreed, frames, send, report, limits)
        self._limits = limits
        self._send = send
        self._report = report

    @property
    def wants_more(self) -> bool:
        incoming = self.incoming
        if len(self._subscribes) + len(self._unsubscribes) >= self._limits.requests_max:
            return False
        # An MQTT 5 client knows the maximum and is cut off beyond it; one of 3.1.1 is slowed down instead.
        return self._version == V5 or len(incoming.acks) + len(incoming.recs) < incoming.receive_max

    def answer(self, packet: Answer) -> bool:
        """False when the client takes no packet of that size, and nothing was sent."""
        data = encode(self.fitted(packet), self.agreed.version)
        longest = self.agreed.packet_bytes_max
        if longest is not None and len(data) > longest:
            return False
        self._send(data)
        return True

    def fitted(self, packet: Answer) -> Answer:
        agreed = self.agreed
        return fitting(packet, agreed.version, agreed.packet_bytes_max, agreed.tells_problems)

    def handle_many(self, now_us: int, decoder: Decoder) -> bool:
        """Reads plain messages or PUBACKs that stand side by side. False: read the next packet by itself."""
        first = decoder.data[decoder.at]
        if first == PUBACK:
            ids = decoder.next_acknowledged()
            if ids:
                self.outgoing.acknowledged(now_us, ids)
            return bool(ids)
        if first == PLAIN_QOS_0:
            batch = decoder.next_batch()
        elif first == PLAIN_QOS_1 and self._limits.qos_max:
            batch = decoder.next_batch(self.incoming.room)
            if batch is not None and not self.incoming.arrived_together(batch.packet_ids):
                for message, packet_id in zip(batch.messages, batch.packet_ids, strict=True):
                    self._published(now_us, Publish(message.topic, message.payload, message.qos, packet_id=packet_id))
                return True
        else:
            return False
        if batch is not None:
            self._report(batch)
        return batch is not None

    def handle(self, now_us: int, packet: AnyPacket) -> Disconnect | None:
        """The client's last word, when this was it."""
        match packet:
            case Publish():
                self._published(now_us, packet)
            case PubAck():
                self.outgoing.acknowledged(now_us, (packet.packet_id,))
            case PubRec():
                self.outgoing.received(now_us, packet)
            case PubRel():
                if self.incoming.released(packet):
                    self._report(Released(packet.packet_id))
            case PubComp():
                self.outgoing.completed(now_us, packet)
            case Subscribe():
                self._subscribe(packet)
            case Unsubscribe():
                self._check_free(packet.packet_id)
                self._unsubscribes[packet.packet_id] = packet.filters
                self._report(UnsubscribeRequested(packet.packet_id, packet.filters, packet.user_properties))
            case PingReq():
                self._send(PINGRESP)
            case Disconnect():
                self._left(packet)
                return packet
            case _:
                raise ProtocolError(f"{type(packet).__name__} is not allowed from a client now")
        return None

    def _published(self, now_us: int, packet: Publish) -> None:
        topic = packet.topic if packet.topic_alias is None else self._topic_of(packet, packet.topic_alias)
        if packet.subscription_ids:
            raise ProtocolError("a subscription identifier in a PUBLISH from a client")
        if packet.qos > self._limits.qos_max:
            raise ProtocolError(f"at most QoS {self._limits.qos_max}", Reason.QOS_NOT_SUPPORTED)
        if packet.retain and not self._limits.retain_available:
            raise ProtocolError("nothing is retained here", Reason.RETAIN_NOT_SUPPORTED)
        if packet.qos == 0 or self.incoming.arrived(packet):
            self._report(Published(message_of(packet, topic, now_us), packet.packet_id))

    def _topic_of(self, packet: Publish, alias: int) -> str:
        alias_max = self._limits.topic_alias_max
        if alias > alias_max:
            raise ProtocolError(f"topic alias {alias}, at most {alias_max} were granted", Reason.TOPIC_ALIAS_INVALID)
        if packet.topic:
            self._topics[alias] = packet.topic
        topic = self._topics.get(alias)
        if topic is None:
            raise ProtocolError(f"topic alias {alias} is not assigned yet")
        return topic

    # SUBSCRIBE and UNSUBSCRIBE.

    def _check_free(self, packet_id: int) -> None:
        if packet_id in self._subscribes or packet_id in self._unsubscribes:
            raise ProtocolError(f"packet identifier {packet_id} is in use")

    def _subscribe(self, packet: Subscribe) -> None:
        self._check_free(packet.packet_id)
        asked: list[Subscription | Reason] = []
        for wish in packet.wishes:
            try:
                parsed = parse_filter(wish.filter)
            except BadTopicFilter as problem:
                asked.append(problem.reason)
            else:
                asked.append(subscription_of(wish, parsed, packet.subscription_id, packet.user_properties))
        self._subscribes[packet.packet_id] = asked
        wanted = tuple([each for each in asked if isinstance(each, Subscription)])
        if wanted:
            self._report(SubscribeRequested(packet.packet_id, wanted, packet.user_properties))
            return
        refused = self.granted(packet.packet_id, [])
        if refused is not None and not self.answer(SubAck(packet.packet_id, refused)):
            raise ProtocolError("the client takes no answer to what it asks", Reason.PACKET_TOO_LARGE)

    def granted(self, packet_id: int, decisions: Sequence[Reason]) -> tuple[Reason, ...] | None:
        """What to tell the client of its SUBSCRIBE; None if there is no such request."""
        asked = self._subscribes.get(packet_id)
        if asked is None:
            return None
        if len(decisions) != sum(isinstance(each, Subscription) for each in asked):
            raise ValueError("one reason for each subscription of the request")
        del self._subscribes[packet_id]
        remaining = iter(decisions)
        return tuple([next(remaining) if isinstance(each, Subscription) else each for each in asked])

    def revoked(self, packet_id: int, reasons: Sequence[Reason]) -> tuple[Reason, ...] | None:
        """What to tell the client of its UNSUBSCRIBE; None if there is no such request."""
        filters = self._unsubscribes.pop(packet_id, None)
        if filters is not None and len(filters) != len(reasons):
            raise ValueError("one reason for each filter of the request")
        return None if filters is None else tuple(reasons)

    # The end.

    def _left(self, packet: Disconnect) -> None:
        if packet.reason not in DISCONNECT_FROM_CLIENT or packet.server_reference is not None:
            raise ProtocolError("DISCONNECT with a reason code for servers only")
        if packet.session_expiry_s is not None:
            if self.expiry_s == 0 and packet.session_expiry_s != 0:
                raise ProtocolError("a session that ends with its connection cannot be kept when leaving")
            self.expiry_s = min(packet.session_expiry_s, self._limits.session_expiry_max_s)
