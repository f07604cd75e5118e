"""What neighbours say on their links, and timers of the broker: inputs that concern no client's connection."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from roamcast.broker.frames import messages_in
from roamcast.broker.messages import (
    Abandon,
    BrokerMessage,
    Echo,
    Farewell,
    Forwarded,
    Got,
    Hello,
    NotFound,
    Notified,
    Probe,
    Relocate,
    Remembered,
    Replay,
    Routed,
    Sequenced,
)
from roamcast.broker.mqtt.effects import Fetch, Remark, SetAside
from roamcast.broker.mqtt.events import TO_ALL
from roamcast.model.event import Event
from roamcast.model.values import FOREVER_US
from roamcast.node.boundary import Does, Input, LinkDown, LinkUp, Message, Received, Send, TimerFired

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder

FROM_BROKERS = (Hello, Got, Probe, Echo)
"""What clients of the papers say, no broker says for a client of MQTT."""
ABOUT_CLIENTS = (Relocate, Replay, NotFound, Abandon, Farewell, Remembered, Forwarded)
REPLAY = "replay:"


class Linking:
    def __init__(self, border: "MqttBorder") -> None:
        self.border = border
        self.met: dict[str, None] = {}
        """Neighbours with whom a stream began since somebody looked."""
        self.touched: dict[str, None] = {}
        """Clients of whom a neighbour or a timer has said something since somebody looked."""
        border.neighbours.disk = self

    def _give(self, given: Input) -> None:
        border = self.border
        border.perform(border.broker.handle(border.now_us, given))

    def messages_in(self, peer: str, data: bytes) -> list[Message]:
        """What a neighbour says in one frame."""
        found = messages_in(data, lambda problem: self.border.emit(Remark("bad_link_message", f"{peer}: {problem}")))
        stream = self.border.neighbours.streams.of.get(peer)
        return (
            found
            if stream is None or not stream.ahead_us
            else [by_own_clock(each, stream.ahead_us) for each in found]
        )

    def expect(self, peer: str, messages: Sequence[Message]) -> None:
        """The events of a frame that are news are matched in one call."""
        stream = self.border.neighbours.streams.of.get(peer)
        if stream is not None:
            new = [each for each in messages if isinstance(each, Sequenced) and each.number > stream.got]
            events = [each.message.event for each in new if isinstance(each.message, Notified)]
            self.border.audience.expect(events, self.border.now_us)

    def heard(self, peer: str, message: Message) -> None:
        border = self.border
        if isinstance(message, Sequenced):
            said = message.message
            if type(said) is Notified:
                # Nearly always.
                border.observation.heard(peer, said.event)
            else:
                self._look_into(peer, said)
            border.finish(border.broker.hear_stream(border.now_us, message, peer))
            return
        if isinstance(message, Hello):
            self._greeted(peer, message)
        if isinstance(message, FROM_BROKERS):
            self._give(Received(message, peer))
        else:
            border.emit(Remark("unexpected_message", f"{peer}: {message.kind}"))

    def _look_into(self, peer: str, said: BrokerMessage) -> None:
        """What else of a stream concerns observers, or clients here."""
        if self.border.observation.on:
            for event in events_in(said):
                self.border.observation.heard(peer, event)
        inside = said.cargo if isinstance(said, Routed) else said
        if isinstance(inside, ABOUT_CLIENTS):
            self.touched[inside.client] = None

    def _greeted(self, peer: str, hello: Hello) -> None:
        streams = self.border.neighbours.streams
        if not streams.continues(peer, hello):
            self.met[peer] = None
            return
        for carried in streams.of[peer].waiting:
            self._goes_behind_the_log(carried.message)

    def _goes_behind_the_log(self, message: BrokerMessage) -> None:
        """It goes late, or once more."""
        for event in events_in(message):
            self.border.goes_ahead(event.publisher.host, event.subject)

    def changed(self, peer: str, up: bool) -> None:
        self._give(LinkUp(peer) if up else LinkDown(peer))

    def fired(self, timer: str) -> None:
        if timer.startswith(REPLAY):
            self.touched[timer.split(":", 2)[2]] = None
        self._give(TimerFired(timer))

    def in_step_with(self, peer: str) -> bool:
        """Whether it has said hello on its link, so that it is known what it has heard, and nothing waits for room
        under way to it."""
        stream = self.border.neighbours.streams.of.get(peer)
        return stream is not None and stream.up and not (stream.tail or stream.aside)

    # What waits for neighbours on the disk.

    def set_aside(self, number: int, body: bytes) -> None:
        self.border.emit(SetAside(number, body))

    def fetch(self, peer: str, number: int) -> None:
        self.border.emit(Fetch(peer, number))

    def goes_late(self, sends: Sequence[Does]) -> None:
        for each in sends:
            if isinstance(each, Send) and isinstance(each.message, Sequenced):
                self._goes_behind_the_log(each.message.message)

    def fetched(self, peer: str, number: int) -> None:
        stream = self.border.neighbours.streams.of.get(peer)
        if stream is None or stream.fetching != number:
            # It was asked for again when the link came up, and has come since.
            return
        body = b"" if self.border.read_aside is None else self.border.read_aside(number)
        if not body:
            self.border.emit(Remark("segment_missing", f"{peer}: part {number} of what waits for it cannot be read"))
        self.border.finish(self.border.neighbours.fetched(peer, number, body))


def by_own_clock(message: Message, ahead_us: int) -> Message:
    """What a neighbour says whose clock is ahead by so much, with the times of its events by this broker's."""
    if not isinstance(message, Sequenced):
        return message
    said = message.message
    if isinstance(said, Notified):
        return replace(message, message=replace(said, event=moved_back(said.event, ahead_us)))
    if isinstance(said, Replay):
        events = tuple(
            replace(each, delivery=replace(each.delivery, event=moved_back(each.delivery.event, ahead_us)))
            for each in said.events
        )
        return replace(message, message=replace(said, events=events))
    return message


def moved_back(event: Event, by_us: int) -> Event:
    """What goes to all keeps its times: by them brokers tell which is the later one, and all must agree."""
    if event.id.endswith(TO_ALL):
        return event
    return replace(
        event,
        published_us=event.published_us - by_us,
        expires_us=event.expires_us if event.expires_us == FOREVER_US else event.expires_us - by_us,
        publisher=replace(event.publisher, at_us=event.publisher.at_us - by_us),
    )


def events_in(message: BrokerMessage) -> list[Event]:
    """What a neighbour brings: an event on its way, or those that were kept for a client which came here."""
    if isinstance(message, Notified):
        return [message.event]
    return (
        [each.delivery.event for each in message.events]
        if isinstance(message, Replay) and len(message.path) <= 1
        else []
    )
