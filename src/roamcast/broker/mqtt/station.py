"""Where MQTT meets the broker: its links, timers and effects.

Everything else of the border (`admission.py`, `subscribing.py`, `publishing.py`) works through it, and through the
effects that it collects.
"""

from roamcast.broker.broker import Broker
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
from roamcast.broker.mqtt.ahead import Ahead
from roamcast.broker.mqtt.effects import AnyEffect, Cut, Release, Remark, Tell
from roamcast.broker.mqtt.events import Events
from roamcast.broker.mqtt.inputs import Received
from roamcast.broker.mqtt.mqtt_border import MqttBorder
from roamcast.broker.mqtt.observation import Observation
from roamcast.broker.mqtt.timers import Timers
from roamcast.broker.params import BrokerParams
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.movement import MovementModel
from roamcast.model.space import Space
from roamcast.mqtt.limits import SessionLimits
from roamcast.node import boundary
from roamcast.node.boundary import CancelTimer, Disconnect, Does, LinkDown, LinkUp, Note, Send, SetTimer, TimerFired

FROM_BROKERS = (Sequenced, Hello, Got, Probe, Echo)
"""What clients of the papers say, no broker says for a client of MQTT."""
ABOUT_CLIENTS = (Relocate, Replay, NotFound, Abandon, Farewell, Remembered, Forwarded)
REPLAY = "replay:"
AWAY = "away:"
"""The protocol's own timer for clients that stay away; MQTT has each session say how long that may be."""


class Station:
    ahead: Ahead | None = None
    """Of this life of the process alone."""

    def __init__(
        self,
        host: str,
        life: int,
        params: BrokerParams,
        space: Space,
        events: Events,
        limits: SessionLimits,
        movement: MovementModel | None = None,
    ) -> None:
        self.host = host
        self.space = space
        self.events = events
        self.observation = Observation(self)
        self.broker = Broker(host, params, life, space, None, movement, MqttBorder)
        border = self.broker.border
        assert isinstance(border, MqttBorder)
        self.border = border
        self.border.begin(events, self.emit, self.observation, limits)
        self.sessions = self.border.sessions
        self.overlaid = False
        """Whether it is for others to find who gets what, here and elsewhere (O)."""
        self.timers = Timers()
        self._now_us = 0
        self.met: dict[str, None] = {}
        """Neighbours with whom a stream began since somebody looked."""
        self.touched: dict[str, None] = {}
        """Clients of whom a neighbour or a timer has said something since somebody looked."""
        self._effects: list[AnyEffect] = []

    @property
    def now_us(self) -> int:
        return self._now_us

    @now_us.setter
    def now_us(self, now_us: int) -> None:
        self._now_us = self.border.now_us = now_us

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "ahead"}

    def goes_ahead(self, publisher: str, topic: str) -> None:
        """A message of QoS 0 is in the effects of an input that is logged."""
        if self.ahead is not None:
            self.ahead.mark(publisher, topic)

    # Orders.

    def emit(self, effect: AnyEffect) -> None:
        self._effects.append(effect)

    def take_effects(self) -> list[AnyEffect]:
        self.observation.flush()
        effects, self._effects = self._effects, []
        effects += self.border.take_deliveries()
        return effects

    # The broker.

    def give(self, given: boundary.Input) -> None:
        self._perform(self.broker.handle(self.now_us, given))

    def perform(self, effects: list[Does]) -> None:
        """Effects of one of the broker's parts."""
        self._perform(self.broker.finish(self.now_us, effects))

    def _perform(self, effects: list[Does]) -> None:
        for effect in effects:
            self._perform_one(effect)

    def messages_in(self, peer: str, data: bytes) -> list[boundary.Message]:
        """What a neighbour says in one frame."""
        return messages_in(data, lambda problem: self.emit(Remark("bad_link_message", f"{peer}: {problem}")))

    def heard(self, peer: str, message: boundary.Message) -> None:
        if isinstance(message, Sequenced):
            if self.observation.on:
                for event in events_in(message.message):
                    self.observation.heard(peer, event)
            inside = message.message.cargo if isinstance(message.message, Routed) else message.message
            if isinstance(inside, ABOUT_CLIENTS):
                self.touched[inside.client] = None
        if isinstance(message, Hello):
            self._greeted(peer, message)
        if isinstance(message, FROM_BROKERS):
            self.give(boundary.Received(message, peer))
        else:
            self.emit(Remark("unexpected_message", f"{peer}: {message.kind}"))

    def _greeted(self, peer: str, hello: Hello) -> None:
        streams = self.broker.neighbours.streams
        if not streams.continues(peer, hello):
            self.met[peer] = None
            return
        for carried in streams.of[peer].waiting:
            # It goes once more, behind the log again.
            for event in events_in(carried.message):
                self.goes_ahead(event.publisher.host, event.subject)

    def link(self, peer: str, up: bool) -> None:
        self.give(LinkUp(peer) if up else LinkDown(peer))

    def fired(self, timer: str) -> None:
        if timer.startswith(REPLAY):
            self.touched[timer.split(":", 2)[2]] = None
        self.give(TimerFired(timer))

    def in_step_with(self, peer: str) -> bool:
        """Whether it has said hello on its link, so that it is known what it has heard."""
        stream = self.broker.neighbours.streams.of.get(peer)
        return stream is not None and stream.up

    def has_neighbours(self) -> bool:
        return self.overlaid or bool(self.broker.neighbours.streams.of)

    # Its effects.

    def _perform_one(self, effect: Does) -> None:
        match effect:
            case Send(to, message):
                self.emit(Tell(to, message))
                self._tell_forwarded(to, message)
            case SetTimer(name, at_us):
                if not name.startswith(AWAY):
                    self.timers.set(name, at_us)
            case CancelTimer(name):
                self.timers.cancel(name)
            case Disconnect(peer):
                self.emit(Cut(peer))
            case Note(what, detail):
                self.emit(Remark(what, detail))
            case _:
                self.emit(Remark("unexpected_effect", type(effect).__name__))

    def _tell_forwarded(self, peer: str, message: boundary.Message) -> None:
        if self.observation.on and isinstance(message, Sequenced) and isinstance(message.message, Notified):
            self.observation.forwarded(peer, message.message.event)

    # What clients say of deliveries.

    def finished(self, client: str, numbers: tuple[int, ...]) -> None:
        session = self.sessions.get(client)
        if session is not None:
            for number in numbers:
                session.window.finish(number)

    def received(self, given: Received) -> None:
        session = self.sessions.get(given.client)
        if session is not None and session.window.receive(given.number):
            self.emit(Release(given.client, given.number))

    # Who is here, and where.

    def knows(self, client: str) -> bool:
        return client in self.sessions

    def context_of(self, client: str) -> Context:
        session = self.sessions.get(client)
        return Context(client) if session is None else session.context


def events_in(message: BrokerMessage) -> list[Event]:
    """What a neighbour brings: an event on its way, or those that were kept for a client which came here."""
    if isinstance(message, Notified):
        return [message.event]
    return (
        [each.delivery.event for each in message.events]
        if isinstance(message, Replay) and len(message.path) <= 1
        else []
    )
