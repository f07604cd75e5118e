"""What goes to the client, on one connection: flow control, sending again, topic aliases, sizes.

QoS 0 leaves at once, or waits in a short queue while the client is slow to read. QoS 1 and 2 are numbers in the
session's window (`broker/window.py`). A connection goes through them with a cursor, in their order, as far as they
are stored (`through`) and the client's receive maximum has room. It begins with the first that is not finished: what
an earlier connection may have sent goes once more, with DUP.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from roamcast.mqtt.batches import Batch
from roamcast.mqtt.cache import GenerationalCache
from roamcast.mqtt.encoding import PublishFrame, encode, encode_publish
from roamcast.mqtt.events import Acknowledged, AnyEvent, Dropped, Received
from roamcast.mqtt.handshake import Agreement
from roamcast.mqtt.limits import Limits
from roamcast.mqtt.messages import Form, Message, number_of, packet_id_of, publish_of
from roamcast.mqtt.packets import PACKET_ID_MAX, PubComp, PubRec, PubRel
from roamcast.mqtt.reasons import FAILURE_FROM, ProtocolError, Reason, Unsendable

if TYPE_CHECKING:
    from roamcast.broker.window import Delivery, Window

ALIAS_BYTES = 3
PLAIN = 0
"""In the place of a number: QoS 0 has none."""


class AliasesOut:
    """Topic aliases towards the client; the one that was not used for longest makes room for a new topic."""

    __slots__ = ("_aliases", "alias_max")

    def __init__(self, alias_max: int) -> None:
        self.alias_max = alias_max
        self._aliases: dict[str, int] = {}

    def use(self, topic: str) -> tuple[str, int]:
        """The topic to write, empty when the client knows the alias, and the alias."""
        alias = self._aliases.pop(topic, None)
        if alias is not None:
            self._aliases[topic] = alias
            return "", alias
        if len(self._aliases) < self.alias_max:
            alias = len(self._aliases) + 1
        else:
            alias = self._aliases.pop(next(iter(self._aliases)))
        self._aliases[topic] = alias
        return topic, alias


FRAMES_MAX = 4_096
FRAMES_BYTES_MAX = 8 * 1024 * 1024


class Frames:
    """PUBLISH packets, made once for all clients that get the same. All connections of a broker share one."""

    __slots__ = ("_joined", "_last", "_recent", "message_of")

    def __init__(self, message_of: "Callable[[Delivery], Message | None]") -> None:
        """`message_of` says what a client sees of a delivery, where that is known."""
        self.message_of = message_of
        self._recent: GenerationalCache[tuple[object, ...], tuple[object, PublishFrame]] = GenerationalCache(
            FRAMES_MAX, FRAMES_BYTES_MAX
        )
        """By the identity of a delivery or of a message, which is held too, so that no other has the same."""
        self._last: tuple[Delivery, int, PublishFrame] | None = None
        self._joined: tuple[Batch, dict[tuple[object, ...], bytes]] | None = None

    def frame(self, message: Message, form: Form, version: int, now_us: int) -> PublishFrame:
        """Raises `Unsendable`."""
        remaining_s = None if message.expires_us is None else message.remaining_s(now_us)
        key = (id(message), version, form.qos, form.retain, form.subscription_ids, remaining_s)
        kept = self._recent.get(key)
        if kept is None:
            kept = (message, PublishFrame(message, form, version, now_us))
            self._recent.put(key, kept, kept[1].size)
        return kept[1]

    def delivered(self, delivery: "Delivery", version: int) -> PublishFrame | None:
        """The packet of a delivery, the same for all who get it; None if there is none, or it depends on the time."""
        last = self._last
        if last is not None and last[0] is delivery and last[1] == version:
            return last[2]
        key = (id(delivery), version)
        kept = self._recent.get(key)
        if kept is None:
            message, form = self.message_of(delivery), delivery.form
            if message is None or form is None or message.expires_us is not None:
                return None
            try:
                kept = (delivery, PublishFrame(message, form, version, 0))
            except Unsendable:
                return None
            self._recent.put(key, kept, kept[1].size)
        self._last = (delivery, version, kept[1])
        return kept[1]

    def joined(self, batch: Batch, version: int, retain: bool, subscription_ids: tuple[int, ...]) -> bytes:
        """Plain messages in the form that a client sees with QoS 0; the packets as they came, if that is the form."""
        if version == batch.version and not retain and not subscription_ids:
            return batch.frames
        key = (version, retain, subscription_ids)
        if self._joined is None or self._joined[0] is not batch:
            self._joined = (batch, {})
        made = self._joined[1].get(key)
        if made is None:
            form = Form(0, retain, subscription_ids)
            frames = [PublishFrame(each, form, version, 0).whole for each in batch.messages]
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
        "_received",
        "_released",
        "_report",
        "_resend_through",
        "_send",
        "_sent",
        "_version",
        "_window",
        "cursor",
        "paused",
        "through",
    )

    def __init__(
        self,
        window: "Window",
        agreed: Agreement,
        frames: Frames,
        send: Callable[[bytes], None],
        report: Callable[[AnyEvent], None],
        limits: Limits,
    ) -> None:
        self._window = window
        self._version = agreed.version
        self._frames = frames
        self._send = send
        self._report = report
        self._quota = self._quota_max = agreed.send_quota
        self._packet_bytes_max = agreed.packet_bytes_max
        self._aliases = AliasesOut(agreed.alias_out_max) if agreed.alias_out_max else None
        self._plain: deque[tuple[Message, Form]] = deque()
        self._plain_bytes = 0
        self._resend_through = window.sent_through
        self._sent: set[int] = set()
        """Numbers that were sent here and not acknowledged."""
        self._received: set[int] = set()
        """Those that the client has received, which is not stored yet."""
        self._released: set[int] = set()
        """Those of which it was told that this is stored (PUBREL)."""
        self._limits = limits
        self.cursor = 0
        """The last number that was sent, or need not be."""
        self.through = 0
        """The last number that may be sent: it is stored."""
        self.paused = False

    @property
    def sent_through(self) -> int:
        """The last number that this connection, or one before it, may have sent."""
        return max(self.cursor, self._resend_through)

    def resume(self, now_us: int, through: int) -> None:
        # What the client has received and not completed counts, or it would have more to complete than it allows.
        self._quota -= len(self._window.received)
        for number in self._window.received:
            self.send_release(number)
        self.deliver(now_us, through)

    def deliver(self, now_us: int, through: int = 0) -> None:
        """Sends what may be sent by now: numbers up to this one, as far as there is room for them."""
        if through > self.through:
            self.through = through
        if self.paused:
            return
        if self._plain:
            self._send_plain(now_us)
        window, as_it_is = self._window, self._aliases is None
        while self._quota > 0 and self.cursor < self.through:
            number = self.cursor + 1
            if number < window.first:
                number = min(window.first, self.through)
            self.cursor = number
            delivery = window.entries.get(number)
            if delivery is None:
                continue
            frame = None
            if as_it_is and number > self._resend_through:
                frame = self._frames.delivered(delivery, self._version)
            if frame is not None and (self._packet_bytes_max is None or frame.size <= self._packet_bytes_max):
                self._quota -= 1
                self._sent.add(number)
                self._send(frame.to_bytes(packet_id_of(number)))
            else:
                self._send_numbered(now_us, number, delivery)

    def deliver_batch(self, now_us: int, batch: Batch, retain: bool, subscription_ids: tuple[int, ...]) -> None:
        """With QoS 0."""
        held_up = self.paused or self._aliases is not None or self._packet_bytes_max is not None
        if batch.frames and not held_up:
            self._send(self._frames.joined(batch, self._version, retain, subscription_ids))
            return
        form = Form(0, retain, subscription_ids)
        for message in batch.messages:
            self._deliver_plain(now_us, message, form)

    def _deliver_plain(self, now_us: int, message: Message, form: Form) -> None:
        if message.expired(now_us):
            self._report(Dropped(PLAIN, "expired"))
        elif not self.paused:
            self._send_publish(now_us, PLAIN, message, form)
        elif self._has_room(message):
            self._plain.append((message, form))
            self._plain_bytes += message.size_bytes
        else:
            self._report(Dropped(PLAIN, "queue_full"))

    def _send_plain(self, now_us: int) -> None:
        """What waited while the client did not read."""
        while self._plain:
            message, form = self._plain.popleft()
            self._plain_bytes -= message.size_bytes
            if message.expired(now_us):
                self._report(Dropped(PLAIN, "expired"))
            else:
                self._send_publish(now_us, PLAIN, message, form)

    def _send_numbered(self, now_us: int, number: int, delivery: "Delivery") -> None:
        """One that has no packet yet, or needs one of its own."""
        again = number <= self._resend_through
        message, form = self._frames.message_of(delivery), delivery.form
        if message is None or form is None:
            self._report(Dropped(number, "unsendable"))
        elif message.expired(now_us) and not again:
            self._report(Dropped(number, "expired"))
        else:
            self._send_publish(now_us, number, message, form, again)

    def _has_room(self, message: Message) -> bool:
        room_bytes = self._limits.plain_queue_bytes_max - self._plain_bytes
        return len(self._plain) < self._limits.plain_queue_max and message.size_bytes <= room_bytes

    def forget_plain(self) -> None:
        for _ in self._plain:
            self._report(Dropped(PLAIN, "queue_full"))
        self._plain.clear()
        self._plain_bytes = 0

    def _send_publish(self, now_us: int, number: int, message: Message, form: Form, dup: bool = False) -> None:
        try:
            frame = self._frames.frame(message, form, self._version, now_us)
        except Unsendable:
            self._report(Dropped(number, "unsendable"))
            return
        room = None if self._packet_bytes_max is None else self._packet_bytes_max - frame.size
        if room is not None and room < 0:
            # The standard: as if it had been sent and acknowledged.
            self._report(Dropped(number, "too_large"))
            return
        packet_id = PLAIN
        if number:
            packet_id = packet_id_of(number)
            self._quota -= 1
            self._sent.add(number)
        if self._aliases is not None and len(message.topic) > ALIAS_BYTES and (room is None or room > ALIAS_BYTES):
            written, alias = self._aliases.use(message.topic)
            packet = publish_of(message, form, now_us)
            packet = replace(packet, topic=written, topic_alias=alias, packet_id=packet_id, dup=dup)
            self._send(encode_publish(packet, self._version))
        else:
            self._send(frame.to_bytes(packet_id, dup))

    # What the client says of it.

    def acknowledged(self, now_us: int, packet_ids: Iterable[int]) -> None:
        """PUBACKs. One for a delivery that is not known any more is late, and means nothing."""
        last, sent, entries = self._window.next_number - 1, self._sent, self._window.entries
        numbers: list[int] = []
        for packet_id in packet_ids:
            number = last - (last - packet_id) % PACKET_ID_MAX
            if number in sent:
                delivery = entries.get(number)
                if delivery is not None and delivery.form is not None and delivery.form.qos != 1:
                    raise ProtocolError("PUBACK for a message of QoS 2")
                sent.discard(number)
                numbers.append(number)
        if numbers:
            self._finish(now_us, tuple(numbers))

    def received(self, now_us: int, packet: PubRec) -> None:
        number = number_of(packet.packet_id, self._window.next_number - 1)
        if number not in self._sent:
            self._received_again(packet, number)
            return
        delivery = self._window.entries.get(number)
        if delivery is not None and delivery.form is not None and delivery.form.qos != 2:
            raise ProtocolError("PUBREC for a message of QoS 1")
        self._sent.discard(number)
        if packet.reason >= FAILURE_FROM:
            self._finish(now_us, (number,))
        else:
            self._received.add(number)
            self._report(Received(number))

    def _received_again(self, packet: PubRec, number: int) -> None:
        if number in self._released:
            self._send(encode(PubRel(packet.packet_id), self._version))
        elif number not in self._received and packet.reason < FAILURE_FROM:
            self._send(encode(PubRel(packet.packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND), self._version))

    def send_release(self, number: int) -> None:
        """It is stored that the client has this delivery. Another connection may have said so."""
        self._received.discard(number)
        if number not in self._released:
            self._released.add(number)
            self._send(encode(PubRel(packet_id_of(number)), self._version))

    def completed(self, now_us: int, packet: PubComp) -> None:
        number = number_of(packet.packet_id, self._window.next_number - 1)
        if number in self._received:
            raise ProtocolError("PUBCOMP before PUBREL")
        if number in self._released:
            self._released.discard(number)
            self._finish(now_us, (number,))

    def _finish(self, now_us: int, numbers: tuple[int, ...]) -> None:
        self._quota = min(self._quota + len(numbers), self._quota_max)
        self._report(Acknowledged(numbers))
        if self.cursor < self.through:
            self.deliver(now_us)
