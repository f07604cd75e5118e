"""The packets of a connection between CONNACK and its end.

What the client publishes with QoS 1 and 2 is `Incoming`. The broker says when a message is safe, and in whichever
order it says so, PUBACKs and PUBRECs leave in the order in which the messages came. The standard asks this of clients
(MQTT-4.6.0-2 and -3); some of them expect it of a server too. QoS 2 identifiers live in the session: whether a
message has come before, on an earlier connection, the broker knows and says.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
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
from roamcast.mqtt.reasons import DISCONNECT_FROM_CLIENT, FAILURE_FROM, ProtocolError, Reason
from roamcast.mqtt.topics import BadTopicFilter, parse_filter

if TYPE_CHECKING:
    from roamcast.broker.session import Session

PUBACK_BEGIN = b"\x40\x02"
"""Of one without a reason: the packet identifier follows."""


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


class Incoming:
    __slots__ = ("_releases", "_send", "_stored", "_version", "acks", "receive_max", "recs", "twice")

    def __init__(
        self, stored: Collection[int], version: int, receive_max: int, send: Callable[[bytes], None]
    ) -> None:
        """`stored` are the identifiers of QoS 2 messages that the session has and the client has not released."""
        self.receive_max = receive_max
        self._stored = stored
        self._version = version
        self._send = send
        self.acks: dict[int, bytes | None] = {}
        """Messages of QoS 1 that wait for PUBACK, with the answer of those that wait for others before them."""
        self.recs: dict[int, bytes | None] = {}
        self._releases: dict[int, bytes | None] = {}
        self.twice: set[int] = set()
        """Messages of QoS 2 that count against the receive maximum; that begins anew with each connection."""

    @property
    def room(self) -> int:
        """How many messages more may wait to be acknowledged."""
        return self.receive_max - len(self.acks) - len(self.twice)

    def arrived_together(self, packet_ids: list[int]) -> bool:
        """Of QoS 1, all different, and not more than there is room for. False if they are to be looked at one by one:
        some are in use."""
        acks = self.acks
        if (acks or self.recs or self.twice or self._stored) and not self._are_free(packet_ids):
            return False
        for packet_id in packet_ids:
            acks[packet_id] = None
        return True

    def _are_free(self, packet_ids: list[int]) -> bool:
        used = (self.acks, self.recs, self.twice, self._stored)
        return not any(each in ids for ids in used if ids for each in packet_ids)

    def arrived(self, packet: Publish) -> bool:
        """Whether the broker must hear of it: not of what it is about to answer anyway."""
        packet_id = packet.packet_id
        if packet.qos == 1:
            return self._arrived_once(packet_id, packet.dup)
        if packet_id in self.acks:
            raise ProtocolError(f"packet identifier {packet_id} is in use")
        if packet_id in self.recs:
            if not packet.dup:
                raise ProtocolError(f"packet identifier {packet_id} is in use")
            return False
        if packet_id in self._releases:
            raise ProtocolError(f"packet identifier {packet_id} was released")
        self._count(packet_id)
        self.twice.add(packet_id)
        self.recs[packet_id] = None
        return True

    def _arrived_once(self, packet_id: int, dup: bool) -> bool:
        if packet_id in self.acks or packet_id in self.recs:
            if dup and packet_id in self.acks:
                return False
            raise ProtocolError(f"packet identifier {packet_id} is in use")
        self._count(packet_id)
        self.acks[packet_id] = None
        if packet_id in self._stored:
            # The client has forgotten a QoS 2 message that this side remembers.
            self.acknowledge(packet_id, PubAck(packet_id, Reason.PACKET_IDENTIFIER_IN_USE))
            return False
        return True

    def _count(self, packet_id: int) -> None:
        if self.room <= 0 and packet_id not in self.twice and self._version == V5:
            raise ProtocolError(
                f"more than {self.receive_max} messages are not acknowledged", Reason.RECEIVE_MAXIMUM_EXCEEDED
            )

    def expects_ack(self, packet_id: int) -> bool:
        return packet_id in self.acks

    def expects_rec(self, packet_id: int) -> bool:
        return packet_id in self.recs

    def acknowledge(self, packet_id: int, packet: PubAck) -> None:
        if self.acks.get(packet_id, b"") is None:
            self.acks[packet_id] = encode(packet, self._version)
            self._flush(self.acks)

    def acknowledge_all(self, packet_ids: Iterable[int]) -> None:
        """With success, which all versions say alike."""
        acks = self.acks
        for packet_id in packet_ids:
            if acks.get(packet_id, b"") is None:
                acks[packet_id] = PUBACK_BEGIN + packet_id.to_bytes(2, "big")
        self._flush(acks)

    def answer_received(self, packet_id: int, packet: PubRec) -> None:
        """A refused message frees its identifier."""
        if self.recs.get(packet_id, b"") is None:
            if packet.reason >= FAILURE_FROM:
                self.twice.discard(packet_id)
            self.recs[packet_id] = encode(packet, self._version)
            self._flush(self.recs)

    def released(self, packet: PubRel) -> bool:
        """Whether the broker must hear of it."""
        packet_id = packet.packet_id
        if packet_id in self.recs:
            raise ProtocolError(f"packet identifier {packet_id} is released before it was received")
        if packet_id in self._releases:
            return False
        if packet_id not in self._stored:
            self._send(encode(PubComp(packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND), self._version))
            return False
        self._releases[packet_id] = None
        return True

    def answer_released(self, packet_id: int) -> None:
        """PUBCOMP, if the client waits for one here."""
        if self._releases.get(packet_id, b"") is None:
            del self._releases[packet_id]
            self.twice.discard(packet_id)
            self._send(encode(PubComp(packet_id), self._version))

    def _flush(self, answers: dict[int, bytes | None]) -> None:
        """Those that wait for no other, in one piece."""
        ready: list[bytes] = []
        for answer in answers.values():
            if answer is None:
                break
            ready.append(answer)
        if not ready:
            return
        self._send(ready[0] if len(ready) == 1 else b"".join(ready))
        if len(ready) == len(answers):
            answers.clear()
        else:
            for packet_id in tuple(islice(answers, len(ready))):
                del answers[packet_id]
