"""The server's side of one MQTT connection, without a socket or a clock.

    CONNECTING --CONNECT--> ASKING --accept--> OPEN --DISCONNECT, error, silence, order--> CLOSED
                               |--refuse--> CLOSED

Bytes go in by `receive`, time by `tick` (at the latest at `deadline_us`), the broker's decisions by the orders;
what comes of it is fetched with `events` for the broker and `outgoing` for the socket. When `closed` is true and
`outgoing` has been sent, the socket is to be closed; `lost` tells that it is gone.

Acknowledgements are the broker's to order, each after what it promises is safe: `acknowledge` (PUBACK, PUBREC),
`complete` (PUBCOMP) and `release` (PUBREL). The session is the broker's: a connection reads it, and changes nothing.

Everything is bounded, partly by not reading on: while `reads_on` is false, the socket is not to be read.
"""

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from roamcast.mqtt.batches import Batch
from roamcast.mqtt.decoding import Decoder
from roamcast.mqtt.dialogue import Dialogue
from roamcast.mqtt.encoding import encode
from roamcast.mqtt.events import AnyEvent, ConnectRequested, Disconnected
from roamcast.mqtt.handshake import Answer, acceptance, agree, fitting, objection, refusal_of_bytes
from roamcast.mqtt.limits import Limits
from roamcast.mqtt.messages import SECOND_US
from roamcast.mqtt.outgoing import Frames
from roamcast.mqtt.packets import (
    V5,
    AnyPacket,
    ConnAck,
    Connect,
    Disconnect,
    Pairs,
    PubAck,
    PubRec,
    SubAck,
    UnsubAck,
)
from roamcast.mqtt.reasons import (
    CONNACK_REASONS,
    DISCONNECT_REASONS,
    FAILURE_FROM,
    BadPacket,
    ProtocolError,
    Reason,
)

if TYPE_CHECKING:
    from roamcast.broker.session import Session

Acknowledgement = TypeVar("Acknowledgement", PubAck, PubRec)
SILENCE_FACTOR_US = SECOND_US * 3 // 2
"""A client is taken for gone after one and a half keep-alive periods."""


EARLY_BYTES_MAX = 16_384
"""How much a client may say ahead of CONNACK before its socket is not read any more."""


class State(Enum):
    CONNECTING = 0
    ASKING = 1
    OPEN = 2
    CLOSED = 3


OPEN, CLOSED = State.OPEN, State.CLOSED
"""Asked for every delivery: looking them up in the enumeration takes longer than comparing."""


class Connection:
    def __init__(self, now_us: int, limits: Limits, frames: Frames) -> None:
        self.limits = limits
        self.state = State.CONNECTING
        self.connect: Connect | None = None
        """What the client said, once it has."""
        self._decoder = Decoder(bytes_max=limits.packet_bytes_max)
        self._frames = frames
        self._heard_us = now_us
        self.pending: list[AnyEvent] = []
        """What `events` has to tell."""
        self.output: list[bytes] = []
        """What `outgoing` has to say."""
        self.session: Session | None = None
        """Of the client, once it is accepted."""
        self._dialogue: Dialogue | None = None
        self._paused = False
        self.stalled = False
        """Reading has stopped for the broker's sake; the client's silence counts from when it goes on."""

    # What the runtime does.

    def receive(self, now_us: int, data: bytes) -> None:
        if self.state is CLOSED:
            return
        self._decoder.feed(data)
        self._read(now_us)
        if self.stalled and self._decoder.waiting_bytes > 2 * self.limits.packet_bytes_max + len(data):
            self._fail(now_us, Reason.QUOTA_EXCEEDED, "more bytes than may wait")

    @property
    def expiry_s(self) -> int | None:
        """How long the session is to outlive this connection, as the client said last."""
        return None if self._dialogue is None else self._dialogue.expiry_s

    @property
    def sent_through(self) -> int:
        """The last number of a delivery that may have been sent."""
        return 0 if self._dialogue is None else self._dialogue.outgoing.sent_through

    def events(self) -> list[AnyEvent]:
        events = self.pending[:]
        self.pending.clear()
        return events

    def outgoing(self) -> bytes:
        output = self.output
        if not output:
            return b""
        data = output[0] if len(output) == 1 else b"".join(output)
        output.clear()
        return data

    @property
    def closed(self) -> bool:
        return self.state is CLOSED

    @property
    def wants_bytes(self) -> bool:
        if self._dialogue is None:
            return self.state is State.CONNECTING
        return self.state is State.OPEN and self._dialogue.wants_more

    @property
    def reads_on(self) -> bool:
        """Also while the broker decides on CONNECT: of a socket that is not read nobody learns that its client has
        gone, and the broker would go on to fetch the session of somebody who is elsewhere by now."""
        return not self.stalled or (self.state is State.ASKING and self._decoder.waiting_bytes < EARLY_BYTES_MAX)

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        self._paused = True
        if self._dialogue is not None:
            self._dialogue.outgoing.paused = True

    def resume_writing(self, now_us: int) -> None:
        self._paused = False
        if self._dialogue is not None:
            self._dialogue.outgoing.paused = False
            self._dialogue.outgoing.deliver(now_us)

    def deadline_us(self) -> int | None:
        """When to call `tick` if nothing happens before. While nothing is read, silence is not the client's fault."""
        if self.state is State.CONNECTING:
            return self._heard_us + self.limits.connect_timeout_us
        dialogue = self._dialogue
        if dialogue is not None and dialogue.agreed.keep_alive_s and self.wants_bytes:
            return self._heard_us + dialogue.agreed.keep_alive_s * SILENCE_FACTOR_US
        return None

    def tick(self, now_us: int) -> None:
        deadline_us = self.deadline_us()
        if deadline_us is not None and now_us >= deadline_us:
            self._fail(now_us, Reason.KEEP_ALIVE_TIMEOUT, "nothing was heard of the client")

    def listens_again(self, now_us: int) -> None:
        """The socket was not read for a while: the client's silence counts from now."""
        self._heard_us = now_us

    def lost(self, now_us: int) -> None:
        """The socket is gone."""
        self._close(now_us, Reason.UNSPECIFIED_ERROR, "the network connection was lost", by_client=True)

    # What the broker orders.

    def accept(
        self,
        now_us: int,
        session: "Session",
        session_present: bool,
        through: int = 0,
        user_properties: Pairs = (),
        response_information: str | None = None,
    ) -> bool:
        """Answers `ConnectRequested`; deliveries up to number `through` are stored. False if the client has left, or
        takes no packet as large as the answer."""
        connect = self.connect
        if self.state is not State.ASKING or connect is None:
            return False
        if session_present and connect.clean_start:
            raise ValueError("a client that starts clean has no session present")
        agreed = agree(connect, self.limits)
        answer = acceptance(connect, agreed, self.limits, session.client, session_present)
        if connect.request_response_information:
            answer = replace(answer, response_information=response_information)
        dialogue = Dialogue(session, agreed, self.limits, self._frames, self.output.append, self.pending.append)
        dialogue.outgoing.paused = self._paused
        if not dialogue.answer(replace(answer, user_properties=user_properties)):
            self.state = State.CLOSED
            return False
        self._dialogue, self.session = dialogue, session
        self.state = State.OPEN
        self._heard_us = now_us
        dialogue.outgoing.resume(now_us, through)
        self._read(now_us)
        return True

    def refuse(
        self,
        now_us: int,
        reason: Reason,
        reason_text: str | None = None,
        server_reference: str | None = None,
        user_properties: Pairs = (),
    ) -> None:
        """Answers `ConnectRequested` with no; `server_reference` goes with USE_ANOTHER_SERVER and SERVER_MOVED."""
        if self.state is State.ASKING and self.connect is not None:
            code = reason if reason in CONNACK_REASONS else Reason.SERVER_UNAVAILABLE
            answer = ConnAck(code, reason_text=reason_text, user_properties=user_properties)
            answer = replace(answer, server_reference=server_reference)
            longest = self.connect.packet_bytes_max
            answer = fitting(answer, self.connect.version, longest, self.connect.request_problem_information)
            data = encode(answer, self.connect.version)
            if longest is None or len(data) <= longest:
                self.output.append(data)
            self.state = State.CLOSED

    def hang_up(self) -> None:
        """Answers `ConnectRequested` with nothing: many clients give up for good when they are refused, and come back
        when their connection just ends."""
        if self.state is State.ASKING:
            self.state = State.CLOSED

    def deliver(self, now_us: int, through: int) -> None:
        """Deliveries up to this number are stored: they go now, or as soon as the client has room."""
        if self._dialogue is not None and self.state is OPEN:
            self._dialogue.outgoing.deliver(now_us, through)

    def deliver_batch(self, now_us: int, batch: Batch, retain: bool, subscription_ids: tuple[int, ...]) -> None:
        """Messages of QoS 0."""
        if self._dialogue is not None and self.state is OPEN:
            self._dialogue.outgoing.deliver_batch(now_us, batch, retain, subscription_ids)

    def expects_puback(self, packet_id: int) -> bool:
        """Whether the client waits for it."""
        return self._dialogue is not None and self._dialogue.incoming.expects_ack(packet_id)

    def acknowledge(
        self,
        now_us: int,
        packet_id: int,
        reason: Reason = Reason.SUCCESS,
        reason_text: str | None = None,
        user_properties: Pairs = (),
    ) -> None:
        """Answers `Published`. 3.1.1 cannot refuse: not authorized is passed over in silence, all else closes."""
        dialogue = self._dialogue
        if dialogue is None or self.state is not State.OPEN:
            return
        if dialogue.incoming.expects_ack(packet_id):
            answer = PubAck(packet_id, reason, reason_text, user_properties)
            if self._can_say(now_us, answer):
                dialogue.incoming.acknowledge(packet_id, dialogue.fitted(self._spoken(answer)))
                self._read_on(now_us)
        elif dialogue.incoming.expects_rec(packet_id):
            received = PubRec(packet_id, reason, reason_text, user_properties)
            if self._can_say(now_us, received):
                dialogue.incoming.answer_received(packet_id, dialogue.fitted(self._spoken(received)))
                self._read_on(now_us)

    def acknowledge_all(self, now_us: int, packet_ids: Sequence[int]) -> None:
        """Answers a `Batch` of QoS 1: all of it is safe."""
        if self._dialogue is not None and self.state is OPEN:
            self._dialogue.incoming.acknowledge_all(packet_ids)
            if self.stalled:
                self._read(now_us)

    def complete(self, now_us: int, packet_id: int) -> None:
        """Answers `Released`: PUBCOMP."""
        if self._dialogue is not None and self.state is State.OPEN:
            self._dialogue.incoming.answer_released(packet_id)

    def release(self, now_us: int, number: int) -> None:
        """Answers `Received`: PUBREL."""
        if self._dialogue is not None and self.state is State.OPEN:
            self._dialogue.outgoing.send_release(number)

    def answer_subscribe(
        self,
        now_us: int,
        packet_id: int,
        reasons: Sequence[Reason],
        reason_text: str | None = None,
        user_properties: Pairs = (),
    ) -> None:
        """Answers `SubscribeRequested`: SUBACK."""
        if self._dialogue is not None and self.state is State.OPEN:
            answered = self._dialogue.granted(packet_id, reasons)
            if answered is not None:
                self._say(now_us, SubAck(packet_id, answered, reason_text, user_properties))
                self._read_on(now_us)

    def answer_unsubscribe(self, now_us: int, packet_id: int, reasons: Sequence[Reason]) -> None:
        """Answers `UnsubscribeRequested`: UNSUBACK."""
        if self._dialogue is not None and self.state is State.OPEN:
            answered = self._dialogue.revoked(packet_id, reasons)
            if answered is not None:
                self._say(now_us, UnsubAck(packet_id, answered))
                self._read_on(now_us)

    def disconnect(
        self,
        now_us: int,
        reason: Reason,
        reason_text: str | None = None,
        server_reference: str | None = None,
        user_properties: Pairs = (),
    ) -> None:
        """Ends it from this side: taken over, shutting down, to be found elsewhere (with `server_reference`)."""
        if self.state is State.ASKING:
            self.refuse(now_us, reason, reason_text, server_reference, user_properties)
            return
        if self.state is State.OPEN and self._dialogue is not None and self._decoder.version == V5:
            code = reason if reason in DISCONNECT_REASONS else Reason.UNSPECIFIED_ERROR
            self._dialogue.answer(Disconnect(code, None, reason_text, user_properties, server_reference))
        self._close(now_us, reason, reason_text or reason.name.lower())

    # Inside.

    def _can_say(self, now_us: int, packet: PubAck | PubRec) -> bool:
        """False when the version has no words for it, and the connection has been closed instead."""
        if packet.reason < FAILURE_FROM or self._decoder.version == V5 or packet.reason is Reason.NOT_AUTHORIZED:
            return True
        self._fail(now_us, packet.reason, packet.reason_text or "a message was refused")
        return False

    def _spoken(self, packet: Acknowledgement) -> Acknowledgement:
        """What 3.1.1 cannot refuse and need not close for is acknowledged."""
        if self._decoder.version == V5 or packet.reason is Reason.SUCCESS:
            return packet
        return replace(packet, reason=Reason.SUCCESS)

    def _read_on(self, now_us: int) -> None:
        """After an answer: what had to wait for it, if reading had stopped."""
        if self.stalled:
            self._read(now_us)

    def _read(self, now_us: int) -> None:
        if self.stalled:
            self._heard_us = now_us
            self.stalled = not self.wants_bytes
        decoder, dialogue = self._decoder, self._dialogue
        try:
            more = decoder.has_more
            while more and not self.stalled:
                if dialogue is not None and dialogue.handle_many(now_us, decoder):
                    self.stalled = not dialogue.wants_more
                elif not self._read_next(now_us):
                    break
                self._heard_us = now_us
                more = decoder.at < len(decoder.data)
        except BadPacket as problem:
            self._fail(now_us, problem.reason, problem.detail)
            self.stalled = True
        if self._paused and sum(map(len, self.output)) > self.limits.output_bytes_max:
            self._fail(now_us, Reason.QUOTA_EXCEEDED, "the client sends and does not read")

    def _read_next(self, now_us: int) -> bool:
        """False if there is no whole packet."""
        dialogue, packet = self._dialogue, self._decoder.next_packet()
        if packet is None:
            return False
        if dialogue is None:
            self._handle_first(now_us, packet)
        else:
            last_word = dialogue.handle(now_us, packet)
            if last_word is not None:
                self._left(now_us, last_word)
        self.stalled = not self.wants_bytes
        return True

    def _handle_first(self, now_us: int, packet: AnyPacket) -> None:
        if not isinstance(packet, Connect):
            raise ProtocolError("the first packet is not CONNECT")
        self.connect = packet
        self.state = State.ASKING
        problem = objection(packet, self.limits)
        if problem is None:
            self.pending.append(ConnectRequested(packet))
        else:
            self.refuse(now_us, problem[0], problem[1])

    def _left(self, now_us: int, packet: Disconnect) -> None:
        if packet.reason is Reason.SUCCESS and self.connect is not None:
            self.connect = replace(self.connect, will=None)
        text = packet.reason_text or "the client left"
        self._close(now_us, packet.reason, text, by_client=True, user_properties=packet.user_properties)

    def _fail(self, now_us: int, reason: Reason, detail: str) -> None:
        """Says why, in whichever way the version and the moment allow, and closes."""
        if self.state is State.OPEN:
            self.disconnect(now_us, reason, detail)
            return
        if self.state is State.CONNECTING:
            self.output.append(refusal_of_bytes(self._decoder.refused_level, reason))
        self._close(now_us, reason, detail)

    def _close(
        self, now_us: int, reason: Reason, detail: str, by_client: bool = False, user_properties: Pairs = ()
    ) -> None:
        before, self.state = self.state, State.CLOSED
        if before is State.CONNECTING or before is State.CLOSED:
            return
        will = None
        if self._dialogue is not None:
            self._dialogue.outgoing.forget_plain()
            will = None if self.connect is None else self.connect.will
        self.pending.append(Disconnected(reason, detail, by_client, will, user_properties))

    def _say(self, now_us: int, packet: Answer) -> None:
        if self._dialogue is not None and not self._dialogue.answer(packet):
            self._close(now_us, Reason.PACKET_TOO_LARGE, "the client takes no answer to what it asks")
