"""What every broker must have: retained messages, those that last, and owners of client ids (docs/PROTOCOL.md, 8).

The event of such a message has an id that ends with `TO_ALL` and goes to every broker, whoever wants it there. A
neighbour that is met for the first time, or anew, is given everything that is kept here, in pieces; what is news to
it goes on from there to all behind it, as any other event.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from roamcast.broker.messages import Notified
from roamcast.broker.mqtt.effects import Remark
from roamcast.broker.mqtt.events import TO_ALL, Events
from roamcast.broker.mqtt.fencing import DEFINITIONS
from roamcast.broker.mqtt.groups import GROUP_TOPIC, Groups
from roamcast.broker.mqtt.lasting import LOOK_EVERY_US, TIMER, Lasting
from roamcast.broker.mqtt.owners import OWNER_TOPIC, Owners
from roamcast.broker.mqtt.properties import is_lasting
from roamcast.broker.mqtt.retained import Retained
from roamcast.broker.router import PeerMessages
from roamcast.model.context import Context
from roamcast.model.event import Event

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
            self._keep(event)
            return not event.subject.startswith(OWNER_TOPIC)
        try:
            for each in _decoder.decode(event.body or b""):
                self._keep(_event_decoder.decode(each))
        except (msgspec.MsgspecError, ValueError) as problem:
            self.border.emit(Remark("bad_hand_over", f"{event.id}: {problem}"))
        return False

    def _keep(self, event: Event) -> None:
        message = self.events.message_of(event)
        if message is None:
            return
        if message.topic.startswith(OWNER_TOPIC):
            if not self.owners.keep(event, message):
                self.border.emit(Remark("owner_dropped", message.topic))
            return
        if message.retain and not self.retained.keep(event, message, self.border.now_us):
            self.border.emit(Remark("retained_dropped", message.topic))
        elif message.topic.startswith(GROUP_TOPIC):
            from_here = event.publisher.host == self.border.host
            self.groups.heard(message.topic, self.retained.payload_of(message.topic), from_here)
        if message.retain and message.topic.startswith(DEFINITIONS):
            self.border.fencing.heard(message.topic)
        if is_lasting(message) and event.expires_us > self.border.now_us:
            if not self.lasting.keep(event, message):
                self.border.emit(Remark("lasting_dropped", message.topic))
            self.look_later()

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
        kept = [*self.retained.all(), *self.lasting.all(), *self.owners.all()]
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
