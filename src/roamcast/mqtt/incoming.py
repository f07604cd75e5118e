"""What the client publishes with QoS 1 and 2, on one connection.

The broker says when a message is safe, and in whichever order it says so, PUBACKs and PUBRECs leave in the order in
which the messages came. The standard asks this of clients (MQTT-4.6.0-2 and -3); some of them expect it of a server
too. QoS 2 identifiers live in the session: whether a message has come before, on an earlier connection, the broker
knows and says.
"""

from collections.abc import Callable, Collection, Iterable
from itertools import islice

from roamcast.mqtt.encoding import encode
from roamcast.mqtt.packets import V5, PubAck, PubComp, Publish, PubRec, PubRel
from roamcast.mqtt.reasons import FAILURE_FROM, ProtocolError, Reason

PUBACK_BEGIN = b"\x40\x02"
"""Of one without a reason: the packet identifier follows."""


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
