"""Where visitors meet the broker of the protocols: its inputs and effects, and what they mean for MQTT sessions.

Everything else of the border (`admission.py`, `subscribing.py`, `publishing.py`) works through it, and through the
effects that it collects.
"""

import msgspec
from msgspec.structs import replace

from roamcast.broker.border import Part
from roamcast.broker.broker import Broker
from roamcast.broker.frames import messages_in
from roamcast.broker.messages import (
    Abandon,
    Accepted,
    Ack,
    BrokerMessage,
    Farewell,
    Forwarded,
    Hello,
    Lost,
    NotFound,
    Notified,
    Numbered,
    Relocate,
    Remembered,
    Reminded,
    Replay,
    Routed,
    Sequenced,
)
from roamcast.broker.modulators.limits import Limits
from roamcast.broker.params import BrokerParams
from roamcast.broker.session import Session
from roamcast.broker.window import SPAN_MAX
from roamcast.live.broker.ahead import Ahead
from roamcast.live.broker.effects import Acknowledge, AnyEffect, Cut, LetGo, Release, Remark, Tell
from roamcast.live.broker.events import Events, with_origin
from roamcast.live.broker.inputs import Received
from roamcast.live.broker.modulating import Modulators
from roamcast.live.broker.observation import Observation
from roamcast.live.broker.properties import subscription_id, text_of
from roamcast.live.broker.timers import Timers
from roamcast.live.broker.visitor import (
    RETAINED,
    SOURCE,
    Visitor,
    delivery_of,
    modulated_on_the_way,
    packet_id_of,
)
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.movement import MovementModel
from roamcast.model.space import Space
from roamcast.mqtt.messages import Message
from roamcast.mqtt.messages import Subscription as Asked
from roamcast.node import boundary
from roamcast.node.boundary import CancelTimer, Disconnect, Does, LinkDown, LinkUp, Note, Send, SetTimer, TimerFired

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
        limits: Limits,
        movement: MovementModel | None = None,
    ) -> None:
        """`limits` are those of modulators."""
        self.host = host
        self.space = space
        self.events = events
        self.broker = Broker(host, for_sessions(params), life, space, None, movement)
        self.broker.border.pack = self._pack
        self.broker.border.modulate = self._modulate
        self.overlaid = False
        """Whether it is for others to find who gets what, here and elsewhere (O)."""
        self.limits = limits
        self.visitors: dict[str, Visitor] = {}
        self.timers = Timers()
        self.now_us = 0
        self.reminded: dict[str, Reminded] = {}
        """Answers that came since somebody looked, by client."""
        self.met: dict[str, None] = {}
        """Neighbours with whom a stream began since somebody looked."""
        self.touched: dict[str, None] = {}
        """Clients of whom a neighbour or a timer has said something since somebody looked."""
        self.observation = Observation(self)
        self._effects: list[AnyEffect] = []
        self._let_go: dict[str, LetGo] = {}

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
        if self._let_go:
            effects += self._let_go.values()
            self._let_go = {}
        return effects

    # The broker's inputs.

    def tell_broker(self, visitor: Visitor, message: boundary.Message) -> None:
        self.give(boundary.Received(message, visitor.name))

    def give(self, given: boundary.Input) -> None:
        self.perform(self.broker.handle(self.now_us, given))

    def perform(self, effects: list[Does]) -> None:
        for effect in effects:
            self._perform(effect)

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
                self.touched[inside.client.removeprefix(SOURCE)] = None
        if isinstance(message, Hello):
            self._greeted(peer, message)
        self.give(boundary.Received(message, peer))

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
            self.touched[timer.split(":", 2)[2].removeprefix(SOURCE)] = None
        self.give(TimerFired(timer))

    def in_step_with(self, peer: str) -> bool:
        """Whether it has said hello on its link, so that it is known what it has heard."""
        stream = self.broker.neighbours.streams.of.get(peer)
        return stream is not None and stream.up

    def has_neighbours(self) -> bool:
        return self.overlaid or bool(self.broker.neighbours.streams.of)

    # Its effects.

    def _perform(self, effect: Does) -> None:
        match effect:
            case Send(to, message):
                if not to.startswith(SOURCE):
                    self.emit(Tell(to, message))
                    self._tell_forwarded(to, message)
                    return
                visitor = self.visitors.get(to.removeprefix(SOURCE))
                if visitor is not None:
                    self._tell(visitor, message)
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

    def _tell(self, visitor: Visitor, message: boundary.Message) -> None:
        match message:
            case Numbered():
                self._number(visitor, message)
            case Accepted(serial):
                for accepted in [each for each in visitor.awaiting if each <= serial]:
                    self.emit(Acknowledge(visitor.client, visitor.awaiting.pop(accepted)))
            case Reminded():
                self.reminded[visitor.client] = message
            case Lost(None) if not visitor.connected:
                visitor.lost = True
            case Lost(count):
                self.emit(Remark("events_lost", f"{visitor.client}: {'unknown' if count is None else count}"))
            case _:
                # What else a client is told has no meaning in MQTT.
                return

    def _number(self, visitor: Visitor, numbered: Numbered) -> None:
        if numbered.number <= visitor.last:
            # The broker sends what is not acknowledged again when a client returns; the session has it already.
            return
        if numbered.epoch and not self._is_next(visitor, numbered):
            # It came by a way of its own, before its turn: it will come in its turn too.
            return
        self.unpack(visitor)
        if visitor.was_received(numbered.number):
            return
        if visitor.was_finished(numbered.number):
            self.finish(visitor, numbered.number)
            return
        event, subscriptions = numbered.delivery.event, numbered.delivery.subscriptions
        message = self.events.message_of(event)
        if message is None:
            self._drop(visitor, numbered.number)
            return
        asked, retained = visitor.asked_by(subscriptions), RETAINED in subscriptions
        message = with_origin(event, message, asked)
        was_sent = numbered.number <= visitor.sent_through
        packet_id = visitor.take(numbered.number, delivery_of(numbered.number, message, asked, retained))
        if packet_id is None:
            self._drop(visitor, numbered.number)
            return
        self._let_go[visitor.client] = LetGo(visitor.client, visitor.session, packet_id)
        if not was_sent:
            self._delivered(visitor.client, event, message, asked, retained)

    def _drop(self, visitor: Visitor, number: int) -> None:
        visitor.last = number
        self.emit(Remark("delivery_dropped", visitor.client))
        self.finish(visitor, number)

    def _is_next(self, visitor: Visitor, numbered: Numbered) -> bool:
        session = self.broker.border.sessions.get(visitor.name)
        if session is None or session.attachment.awaits is not None or numbered.epoch != session.epoch:
            return False
        window = session.window
        return bool(len(window)) and numbered.number == max(visitor.last + 1, window.first)

    def _delivered(self, client: str, event: Event, message: Message, asked: list[Asked], retained: bool) -> None:
        if retained:
            self.observation.given_retained(client, event, message, asked)
        else:
            self.observation.delivered(client, event, asked)

    def has_room(self, visitor: Visitor, size: int) -> bool:
        """Whether another message may wait for a client. All that the broker keeps for it counts: what waits while it
        is away, what it has not acknowledged, and what it has acknowledged before something that came earlier."""
        session = self.broker.border.sessions.get(visitor.name)
        if session is None:
            return True
        limits, window = visitor.session.limits, session.window
        fits = window.bytes + size <= limits.queue_bytes_max
        if fits and len(window) + len(session.attachment.held) < limits.queue_messages_max:
            return True
        self.emit(Remark("delivery_dropped", visitor.client))
        return False

    def _pack(self, name: str) -> bytes:
        visitor = self.visitors.get(name.removeprefix(SOURCE))
        if visitor is None:
            return b""
        # It may have left before its session came, and is somewhere else now.
        self.unpack(visitor)
        return visitor.packed()

    # Modulators.

    def modulators(self) -> Modulators:
        return Modulators(self.space, self.limits)

    def _modulate(self, session: Session, event: Event, wanted: tuple[str, ...]) -> list[Part]:
        """What goes into a client's session for an event: the event itself, and what its modulators make of it."""
        client, parts = session.client.removeprefix(SOURCE), list[Part]()
        visitor = self.visitors.get(client)
        if session.attachment.claim is None and visitor is not None:
            self.unpack(visitor)
            if len(visitor.modulators):
                return self._modulate_by(visitor.modulators, client, event, wanted)
        elif session.luggage is not None:
            # The client has gone on before its session came: what its modulators learn here must go after it.
            session.luggage = modulated_on_the_way(
                session.luggage,
                self.modulators(),
                lambda each: parts.extend(self._modulate_by(each, client, event, wanted)),
            )
            return parts
        return [(event, wanted)]

    def _modulate_by(self, modulators: Modulators, client: str, event: Event, wanted: tuple[str, ...]) -> list[Part]:
        names = {each: text_of(each) for each in wanted if each != RETAINED}
        parts: list[Part] = []
        plain = tuple(each for each, name in names.items() if name not in modulators)
        before = wanted[:1] if wanted[0] == RETAINED else ()
        if plain:
            parts.append((event, (*before, *plain)))
        for each, name in names.items():
            if name in modulators:
                for made in self.made_of(modulators, event, each, name, False):
                    parts.append((made, (*before, each)))
        return parts

    def made_of(
        self, modulators: Modulators, event: Event, subscription_id: str, name: str, passing: bool
    ) -> list[Event]:
        made = modulators.take(name, event, self.now_us, passing, self.remark)
        return [self.events.modulated(event, each, subscription_id) for each in made]

    def messages_for(
        self, visitor: Visitor, event: Event, message: Message, asked: Asked, passing: bool
    ) -> list[Message]:
        """What one subscription of a client gets for a message, as far as it is QoS 0."""
        name = asked.filter.text
        if name not in visitor.modulators:
            return [message]
        made = self.made_of(visitor.modulators, event, subscription_id(visitor.client, name), name, passing)
        return [each for each in map(self.events.message_of, made) if each is not None]

    def remark(self, what: str, detail: str) -> None:
        self.emit(Remark(what, detail))

    def unpack(self, visitor: Visitor) -> None:
        """What the client's last border said of it, once it is here."""
        session = self.broker.border.sessions.get(visitor.name)
        luggage = None if session is None else session.luggage
        if luggage is not None and luggage != visitor.luggage:
            visitor.luggage = luggage
            try:
                visitor.unpack(luggage)
                # What was said of it before may be older: whether it could be fetched is known for sure only now.
                visitor.lost = visitor.lost or visitor.stays_behind(luggage)
            except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
                self.emit(Remark("bad_luggage", f"{visitor.client}: {problem}"))
                visitor.lost = True

    # What clients say of deliveries.

    def finished(self, client: str, numbers: tuple[int, ...]) -> None:
        visitor = self.visitors.get(client)
        if visitor is None:
            return
        for number in numbers:
            # Where a connection is, it has done so already; where the log is read again, nobody has.
            visitor.session.forget(packet_id_of(number))
        finished = visitor.finish_together(numbers)
        if finished is not None:
            self.tell_broker(visitor, Ack(finished))

    def received(self, given: Received) -> None:
        visitor = self.visitors.get(given.client)
        if visitor is not None:
            visitor.session.was_received(given.packet_id)
            self.emit(Release(given.client, given.packet_id))

    def finish(self, visitor: Visitor, number: int) -> None:
        finished = visitor.finish(number)
        if finished is not None:
            self.tell_broker(visitor, Ack(finished))

    # Who is here, and where.

    def knows(self, client: str) -> bool:
        return client in self.visitors

    def context_of(self, client: str) -> Context:
        visitor = self.visitors.get(client)
        return Context(client) if visitor is None else visitor.context


def for_sessions(params: BrokerParams) -> BrokerParams:
    """How much waits for a client is decided by its session's limits (`has_room`), before the broker keeps it."""
    return replace(params, counterpart_events_max=max(SPAN_MAX, params.counterpart_events_max))


def events_in(message: BrokerMessage) -> list[Event]:
    """What a neighbour brings: an event on its way, or those that were kept for a client which came here."""
    if isinstance(message, Notified):
        return [message.event]
    return (
        [each.delivery.event for each in message.events]
        if isinstance(message, Replay) and len(message.path) <= 1
        else []
    )
