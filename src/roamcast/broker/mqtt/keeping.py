"""What every broker must have: retained messages, those that last, owners of client ids, and where the clients are
that fences move with (docs/PROTOCOL.md, 8).

The event of such a message has an id that ends with `TO_ALL` and goes to every broker, whoever wants it there. A
neighbour that is met for the first time, or anew, is given everything that is kept here, in pieces; what is news to
it goes on from there to all behind it, as any other event.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from roamcast.broker.messages import Notified
from roamcast.broker.mqtt.anchors import ANCHOR_TOPIC
from roamcast.broker.mqtt.effects import Remark
from roamcast.broker.mqtt.events import TO_ALL, Events
from roamcast.broker.mqtt.fencing import DEFINITIONS
from roamcast.broker.mqtt.groups import GROUP_TOPIC, Groups
from roamcast.broker.mqtt.lasting import LOOK_EVERY_US, TIMER, Lasting
from roamcast.broker.mqtt.owners import OWNER_TOPIC, Owners
from roamcast.broker.mqtt.properties import is_lasting, withdrawn_by
from roamcast.broker.mqtt.retained import Retained, order_of
from roamcast.broker.router import PeerMessages
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.mqtt.messages import Message

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder

KEPT_TOPIC = "$roam/kept"
PIECE_BYTES_MAX = 256 * 1024

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[bytes])
_event_decoder = msgspec.msgpack.Decoder(Event)


class Keeping:
    def __init__(
        self,
        border: "MqttBorder",
        events: Events,
        retained: Retained,
        lasting: Lasting,
        groups: Groups,
        owners: Owners,
    ) -> None:
        self.border = border
        self.owners = owners
        self.groups = groups
        self.events = events
        self.retained = retained
        self.lasting = lasting
        border.neighbours.router.to_all = goes_to_all

    def take(self, event: Event) -> bool:
        """An event that goes to all has come here; whether clients may want it."""
        if event.subject != KEPT_TOPIC:
            return self._keep(event)
        try:
            for each in _decoder.decode(event.body or b""):
                self._keep(_event_decoder.decode(each))
        except (msgspec.MsgspecError, ValueError) as problem:
            self.border.emit(Remark("bad_hand_over", f"{event.id}: {problem}"))
        return False

    def _keep(self, event: Event) -> bool:
        message = self.events.message_of(event)
        if message is None:
            return False
        if message.topic.startswith(OWNER_TOPIC):
            if not self.owners.keep(event, message):
                self.border.emit(Remark("owner_dropped", message.topic))
            return False
        if message.topic.startswith(ANCHOR_TOPIC):
            self.border.fencing.anchor_heard(event, message)
            return False
        withdrawn = withdrawn_by(message)
        if withdrawn:
            self._end(self.lasting.withdraw(event, withdrawn))
            return False
        before = self.retained.of.get(message.topic)
        if message.retain and not self.retained.keep(event, message, self.border.now_us):
            self.border.emit(Remark("retained_dropped", message.topic))
        elif message.topic.startswith(GROUP_TOPIC):
            from_here = event.publisher.host == self.border.host
            self.groups.heard(message.topic, self.retained.payload_of(message.topic), from_here)
        # A neighbour may hand over what is known here: that is no new fence.
        if message.topic.startswith(DEFINITIONS) and self.retained.of.get(message.topic) is not before:
            self.border.fencing.heard(message.topic)
        if message.retain and not message.payload:
            self._end(self.lasting.empty(event))
        if not is_lasting(message):
            return True
        if self._is_over(event, message):
            return False
        if event.expires_us > self.border.now_us:
            if not self.lasting.keep(event, message):
                self.border.emit(Remark("lasting_dropped", message.topic))
            self.look_later()
        return True

    def _is_over(self, event: Event, message: Message) -> bool:
        """Whether it was withdrawn before it came here."""
        emptied = self.retained.ended.get(message.topic) if message.retain else None
        if emptied is not None and order_of(event) < order_of(emptied):
            return True
        return self.lasting.is_withdrawn(event, message)

    def ended_by(self, event: Event, message: Message) -> list[Event]:
        """What a message of a client here is about to end."""
        withdrawn = withdrawn_by(message)
        if withdrawn:
            return self.lasting.named(event, withdrawn)
        return self.lasting.retained_on(event.subject) if message.retain and not message.payload else []

    def _end(self, event_ids: list[str]) -> None:
        """Nobody gets them any more. What waits for clients that are away goes; what was sent stays sent."""
        over = frozenset(event_ids)
        for session in self.border.sessions.values() if over else ():
            for each in event_ids:
                session.seen.pop(each, None)
            if not session.connected:
                window = session.window
                for number, delivery in window.after(window.sent_through):
                    if delivery.event.id in over:
                        window.finish(number)

    def look_later(self) -> None:
        if len(self.lasting) and TIMER not in self.border.timers:
            self.border.timers.set(TIMER, self.border.now_us + LOOK_EVERY_US)

    def hand_over(self) -> None:
        """To neighbours that were met since somebody looked."""
        met, self.border.linking.met = self.border.linking.met, {}
        if met:
            self.owners.gather()
        for peer in met:
            if peer in self.border.neighbours.router.neighbours:
                self._hand_over(peer)

    def _hand_over(self, peer: str) -> None:
        neighbours, now_us = self.border.neighbours, self.border.now_us
        anchors = self.border.fencing.anchors.last.values()
        kept = [*self.retained.all(), *self.lasting.all(), *self.owners.all(), *anchors]
        outgoing: PeerMessages = []
        for body in pieces(kept):
            event = Event(self.events.next_id(True), KEPT_TOPIC, Context(self.border.host), now_us, now_us, body=body)
            outgoing.append((peer, Notified(event, 0)))
        self.border.finish(neighbours.send(outgoing))


def goes_to_all(event: Event) -> bool:
    return event.id.endswith(TO_ALL)


def pieces(events: Iterable[Event]) -> Iterator[bytes]:
    piece: list[bytes] = []
    size = 0
    for event in events:
        encoded = _encoder.encode(event)
        if piece and size + len(encoded) > PIECE_BYTES_MAX:
            yield _encoder.encode(piece)
            piece, size = [], 0
        piece.append(encoded)
        size += len(encoded)
    if piece:
        yield _encoder.encode(piece)
