"""What goes to the client, on one connection: flow control, sending again, topic aliases, sizes.

QoS 0 leaves at once, or waits in a short queue while the client is slow to read. QoS 1 and 2 wait in the session
until the client's receive maximum has room. After a reconnect, what had been sent goes first, in its old order,
with DUP."""

from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from roamcast.mqtt.aliases import AliasesOut
from roamcast.mqtt.batches import Batch
from roamcast.mqtt.encoding import PublishFrame, encode, encode_publish
from roamcast.mqtt.events import Acknowledged, AcknowledgedTogether, AnyEvent, DropCause, Dropped, Received
from roamcast.mqtt.handshake import Agreement
from roamcast.mqtt.limits import Limits
from roamcast.mqtt.messages import Delivery, Message, publish_of
from roamcast.mqtt.packets import PubAck, PubComp, PubRec, PubRel
from roamcast.mqtt.reasons import FAILURE_FROM, ProtocolError, Reason, Unsendable
from roamcast.mqtt.session import Releasing, Session

ALIAS_BYTES = 3
PLAIN = 0


class Frames:
    """PUBLISH packets made once for all clients that get the same. A broker has one and gives it to its connections.

    It remembers the last few small messages by identity, which is what a fan-out needs.
    """

    __slots__ = ("_joined", "_kept", "message_bytes_max", "messages_max")

    def __init__(self, messages_max: int = 256, message_bytes_max: int = 16 * 1024) -> None:
        self.messages_max = messages_max
        self.message_bytes_max = message_bytes_max
        self._joined: tuple[Batch, dict[tuple[object, ...], bytes]] | None = None
        self._kept: dict[int, tuple[Message, dict[tuple[object, ...], PublishFrame]]] = {}

    def frame(self, delivery: Delivery, version: int, now_us: int) -> PublishFrame:
        message = delivery.message
        kept = self._kept.get(id(message))
        if kept is None:
            if len(message.payload) > self.message_bytes_max:
                return PublishFrame(publish_of(message, delivery, now_us), version)
            if len(self._kept) >= self.messages_max:
                del self._kept[next(iter(self._kept))]
            kept = self._kept[id(message)] = (message, {})
        remaining_s = None if message.expires_us is None else message.remaining_s(now_us)
        key = (version, delivery.qos, delivery.retain, delivery.subscription_ids, remaining_s)
        frame = kept[1].get(key)
        if frame is None:
            frame = kept[1][key] = PublishFrame(publish_of(message, delivery, now_us), version)
        return frame

    def joined(self, batch: Batch, version: int, retain: bool, subscription_ids: tuple[int, ...]) -> bytes:
        """Plain messages in the form that a client sees with QoS 0; the packets as they came, if that is the form."""
        if version == batch.version and not retain and not subscription_ids:
            return batch.frames
        key = (version, retain, subscription_ids)
        if self._joined is None or self._joined[0] is not batch:
            self._joined = (batch, {})
        made = self._joined[1].get(key)
        if made is None:
            deliveries = (Delivery(0, each, 0, retain, subscription_ids) for each in batch.messages)
            frames = [PublishFrame(publish_of(each.message, each, 0), version).whole for each in deliveries]
            made = self._joined[1][key] = b"".join(frames)
        return made


class Outgoing:
    __slots__ = (
        "_aliases",
        "_frames",
        "_limits",
        "_packet_bytes_max",
        "_plain",
        "_plain_bytes",
        "_quota",
        "_quota_max",
        "_report",
        "_resend",
        "_send",
        "_session",
        "_version",
        "paused",
    )

    def __init__(
        self,
        session: Session,
        agreed: Agreement,
        frames: Frames,
        send: Callable[[bytes], None],
        report: Callable[[AnyEvent], None],
        limits: Limits,
    ) -> None:
        self._session = session
        self._version = agreed.version
        self._frames = frames
        self._send = send
        self._report = report
        self._quota = self._quota_max = agreed.send_quota
        self._packet_bytes_max = agreed.packet_bytes_max
        self._aliases = AliasesOut(agreed.alias_out_max) if agreed.alias_out_max else None
        self._plain: deque[Delivery] = deque()
        self._resend: deque[int] = deque()
        self._plain_bytes = 0
        self._limits = limits
        self.paused = False

    def resume_session(self, now_us: int) -> None:
        # What the client has received and not completed counts, or it would have more to complete than it allows.
        self._quota -= len(self._session.releasing)
        for releasing in self._session.releasing.values():
            if releasing.safe:
                self._send(encode(PubRel(releasing.packet_id), self._version))
        self._resend.extend(self._session.sent)
        self.pump(now_us)

    def deliver(self, now_us: int, delivery: Delivery) -> None:
        if delivery.qos:
            if self._session.enqueue(delivery) is None:
                self._report(Dropped(delivery.token, "queue_full"))
            else:
                self.pump(now_us)
        elif delivery.message.expired(now_us):
            self._report(Dropped(delivery.token, "expired"))
        elif not self.paused:
            self._send_publish(now_us, PLAIN, delivery)
        elif self._has_room(delivery):
            self._plain.append(delivery)
            self._plain_bytes += delivery.message.size_bytes
        else:
            self._report(Dropped(delivery.token, "queue_full"))

    def deliver_batch(self, now_us: int, batch: Batch, retain: bool, subscription_ids: tuple[int, ...]) -> None:
        """With QoS 0."""
        held_up = self.paused or self._aliases is not None or self._packet_bytes_max is not None
        if batch.frames and not held_up:
            self._send(self._frames.joined(batch, self._version, retain, subscription_ids))
            return
        for message in batch.messages:
            self.deliver(now_us, Delivery(0, message, 0, retain, subscription_ids))

    def pump(self, now_us: int) -> None:
        """Sends what may be sent by now."""
        if self.paused:
            return
        while self._plain:
            delivery = self._plain.popleft()
            self._plain_bytes -= delivery.message.size_bytes
            if delivery.message.expired(now_us):
                self._report(Dropped(delivery.token, "expired"))
            else:
                self._send_publish(now_us, PLAIN, delivery)
        while self._resend and self._quota > 0:
            packet_id = self._resend.popleft()
            again = self._session.sent.get(packet_id)
            if again is not None:
                self._send_publish(now_us, packet_id, again, dup=True)
        expired: list[Delivery] = []
        while self._quota > 0 and not self._resend:
            waiting = self._session.take(now_us, expired)
            if waiting is None:
                break
            self._send_publish(now_us, waiting.packet_id, waiting.delivery)
        for delivery in expired:
            self._report(Dropped(delivery.token, "expired"))

    def _has_room(self, delivery: Delivery) -> bool:
        room_bytes = self._limits.plain_queue_bytes_max - self._plain_bytes
        return len(self._plain) < self._limits.plain_queue_max and delivery.message.size_bytes <= room_bytes

    def forget_plain(self) -> None:
        for delivery in self._plain:
            self._report(Dropped(delivery.token, "queue_full"))
        self._plain.clear()
        self._plain_bytes = 0

    def _send_publish(self, now_us: int, packet_id: int, delivery: Delivery, dup: bool = False) -> None:
        try:
            frame = self._frames.frame(delivery, self._version, now_us)
        except Unsendable:
            self._drop(packet_id, delivery, "unsendable")
            return
        room = None if self._packet_bytes_max is None else self._packet_bytes_max - frame.size
        if room is not None and room < 0:
            self._drop(packet_id, delivery, "too_large")
            return
        if packet_id:
            self._quota -= 1
        topic = delivery.message.topic
        if self._aliases is not None and len(topic) > ALIAS_BYTES and (room is None or room >= ALIAS_BYTES + 1):
            written, alias = self._aliases.use(topic)
            packet = publish_of(delivery.message, delivery, now_us)
            packet = replace(packet, topic=written, topic_alias=alias, packet_id=packet_id, dup=dup)
            self._send(encode_publish(packet, self._version))
        else:
            self._send(frame.to_bytes(packet_id, dup))

    def _drop(self, packet_id: int, delivery: Delivery, cause: DropCause) -> None:
        """The standard: as if it had been sent and acknowledged."""
        self._session.settle(packet_id)
        self._report(Dropped(delivery.token, cause))

    def acknowledged(self, now_us: int, packet: PubAck) -> None:
        """PUBACK. One for a message that is not known any more is late, and means nothing."""
        delivery = self._session.sent.get(packet.packet_id)
        if delivery is None:
            return
        if delivery.qos != 1:
            raise ProtocolError("PUBACK for a message of QoS 2")
        self._session.settle(packet.packet_id)
        self._finish(now_us, packet.packet_id, delivery.token, packet.reason)

    def acknowledged_together(self, now_us: int, packet_ids: list[int]) -> None:
        sent = self._session.sent
        known = {each: sent[each] for each in packet_ids if each in sent}
        if any(each.qos != 1 for each in known.values()):
            for packet_id in packet_ids:
                self.acknowledged(now_us, PubAck(packet_id))
            return
        for packet_id in known:
            self._session.settle(packet_id)
        self._quota = min(self._quota + len(known), self._quota_max)
        if known:
            self._report(AcknowledgedTogether(tuple(known), tuple(each.token for each in known.values())))
        self.pump(now_us)

    def received(self, now_us: int, packet: PubRec) -> None:
        packet_id = packet.packet_id
        delivery = self._session.sent.get(packet_id)
        if delivery is None:
            self._received_again(packet)
        elif delivery.qos != 2:
            raise ProtocolError("PUBREC for a message of QoS 1")
        elif packet.reason >= FAILURE_FROM:
            self._session.settle(packet_id)
            self._finish(now_us, packet_id, delivery.token, packet.reason)
        else:
            self._session.client_received(packet_id)
            self._report(Received(packet_id, delivery.token))

    def _received_again(self, packet: PubRec) -> None:
        releasing = self._session.releasing.get(packet.packet_id)
        if releasing is not None:
            if releasing.safe:
                self._send(encode(PubRel(packet.packet_id), self._version))
        elif packet.reason < FAILURE_FROM:
            self._send(encode(PubRel(packet.packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND), self._version))

    def send_release(self, packet_id: int) -> None:
        self._send(encode(PubRel(packet_id), self._version))

    def completed(self, now_us: int, packet: PubComp) -> None:
        releasing = self._session.releasing.get(packet.packet_id)
        if releasing is None:
            return
        if not releasing.safe:
            raise ProtocolError("PUBCOMP before PUBREL")
        del self._session.releasing[packet.packet_id]
        self._finish(now_us, packet.packet_id, releasing.token, Reason.SUCCESS)

    def _finish(self, now_us: int, packet_id: int, token: int, reason: Reason) -> None:
        self._quota = min(self._quota + 1, self._quota_max)
        self._report(Acknowledged(packet_id, token, reason))
        self.pump(now_us)


def mark_safe(session: Session, packet_id: int) -> bool:
    """The broker has stored that the client has this delivery. Whether there was anything to store."""
    releasing = session.releasing.get(packet_id)
    if releasing is None or releasing.safe:
        return False
    session.releasing[packet_id] = Releasing(packet_id, releasing.token, safe=True)
    return True
