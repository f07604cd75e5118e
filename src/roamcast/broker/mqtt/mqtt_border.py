"""The border of a broker to clients of MQTT: who gets an event, in which form, and what a session takes along.

What clients of the papers are told by messages, those of MQTT learn from their connections: a delivery is an effect
with the numbers that it has in the windows of all who get it, an accepted publication is a PUBACK or a PUBREC. Wishes
are asked of neighbours for all clients together, and judged exactly here (`audience.py`).
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from roamcast.broker.border import AWAY, HOPS_MAX, Border
from roamcast.broker.broker import Broker
from roamcast.broker.messages import Attach, Hello, Lost, Notified, Numbered, Pub, Sequenced
from roamcast.broker.modulators.budget import CpuBudget
from roamcast.broker.modulators.running import Modulators
from roamcast.broker.mqtt.admission import Admission
from roamcast.broker.mqtt.ahead import Ahead
from roamcast.broker.mqtt.announcing import Announcing
from roamcast.broker.mqtt.audience import Audience
from roamcast.broker.mqtt.effects import Acknowledge, AnyEffect, Cut, Deliver, Release, Remark, Tell
from roamcast.broker.mqtt.events import Events
from roamcast.broker.mqtt.fencing import Fencing
from roamcast.broker.mqtt.giving import Giving
from roamcast.broker.mqtt.groups import Groups
from roamcast.broker.mqtt.inputs import Received
from roamcast.broker.mqtt.keeping import Keeping
from roamcast.broker.mqtt.lasting import Lasting
from roamcast.broker.mqtt.linking import Linking
from roamcast.broker.mqtt.local_delivery import LocalDelivery
from roamcast.broker.mqtt.observation import Observation
from roamcast.broker.mqtt.owners import Owners
from roamcast.broker.mqtt.params import CoreParams
from roamcast.broker.mqtt.positions import Positions
from roamcast.broker.mqtt.publishing import Publishing
from roamcast.broker.mqtt.retained import Retained
from roamcast.broker.mqtt.subscribing import Subscribing
from roamcast.broker.mqtt.timers import Timers
from roamcast.broker.mqtt.travelling import Travelling
from roamcast.broker.mqtt.walking import Walking
from roamcast.broker.mqtt.wishes import RETAINED, asked_by, form_of
from roamcast.broker.params import BrokerParams
from roamcast.broker.router import CLIENT
from roamcast.broker.session import Session
from roamcast.broker.transfer import BadTransfer, Interest, SessionState, check, interest_of
from roamcast.broker.window import SPAN_MAX, Bounds, Delivery, Window
from roamcast.model.context import Context
from roamcast.model.event import Event
from roamcast.model.places import MovementGraph
from roamcast.mqtt.messages import Form, Message
from roamcast.node import boundary
from roamcast.node.boundary import CancelTimer, Disconnect, Does, Note, Send, SetTimer

FLEETING = ("ahead", "cpu_budget", "read_aside", "positions")
"""What the server gives a border anew, and no snapshot holds."""


class MqttBorder(Border):
    publishing_kind = Publishing
    subscribing_kind = Subscribing
    ahead: Ahead | None = None
    positions: Positions | None = None
    """Who tells of moves; None where a log is read again, for then they were told."""
    tells_positions = True
    cpu_budget: CpuBudget | None = None
    """What modulators may take; None where a log is read again, for then it was decided."""
    read_aside: Callable[[int], bytes] | None = None
    """What was set aside under a number, once that is at hand (`Fetched`); empty if it cannot be read."""

    def __init__(self, broker: Broker, events: Events, params: CoreParams, graph: MovementGraph | None) -> None:
        super().__init__(broker)
        self.judges_when_published = True
        self.events = events
        self.now_us = 0
        self.timers = Timers()
        self.observation = Observation(self)
        self._effects: list[AnyEffect] = []
        self._deliver: dict[int, Deliver] = {}
        """By delivery, what this input has it sent to."""
        self._shared: dict[tuple[str, tuple[str, ...], Form], Delivery] = {}
        self.settled_together = False
        """Whether a subject has settled since somebody looked that is advertised for all clients together."""
        self.departed: list[Session] = []
        """Sessions that another broker has now, since somebody looked."""
        self._make_parts(params, graph)
        self.keep_within(params)

    def _make_parts(self, params: CoreParams, graph: MovementGraph | None) -> None:
        self.linking = Linking(self)
        self.travelling = Travelling(self)
        self.walking = Walking(self)
        self.audience = Audience(self.space, graph)
        self.retained = Retained(params.retained_messages_max, params.retained_bytes_max)
        self.lasting = Lasting(params.lasting_messages_max, params.lasting_bytes_max)
        self.groups = Groups(self, self.events, self.retained)
        self.owners = Owners(self, self.events)
        self.keeping = Keeping(self, self.events, self.retained, self.lasting, self.groups, self.owners)
        self.fencing = Fencing(self, self.events)
        self.announcing = Announcing(self, params.advertised_topics_max, params.advertised_idle_s)
        self.local = LocalDelivery(self, self.audience, self.events, self.keeping)
        self.publishing = self.publishing_kind(self, self.audience, self.local, self.keeping, self.announcing)
        self.giving = Giving(self, self.audience, self.retained)
        self.subscribing = self.subscribing_kind(self, self.audience, self.groups, self.travelling)
        self.admission = Admission(self, self.subscribing, self.publishing, self.travelling, params.reminder_wait_s)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in FLEETING}

    def keep_within(self, params: CoreParams) -> None:
        """What clients have already stays, also where the bounds are smaller."""
        self.limits, self.modulator_limits = params.session, params.modulators
        self.retained.messages_max, self.retained.bytes_max = params.retained_messages_max, params.retained_bytes_max
        self.lasting.messages_max, self.lasting.bytes_max = params.lasting_messages_max, params.lasting_bytes_max
        self.announcing.topics_max = params.advertised_topics_max
        self.announcing.idle_us = round(params.advertised_idle_s * 1e6)
        self.admission.reminder_wait_us = round(params.reminder_wait_s * 1e6)
        self.adopt(self.params)

    def adopt(self, params: BrokerParams) -> None:
        self.params = params
        limits = self.limits
        self.bounds = Bounds(
            limits.queue_messages_max, params.marks_max, limits.queue_bytes_max, SPAN_MAX, evicts=False
        )
        for session in self.sessions.values():
            session.window.bounds = self.bounds

    # Effects.

    def emit(self, effect: AnyEffect) -> None:
        self._effects.append(effect)

    def take_effects(self) -> list[AnyEffect]:
        """All of an input; deliveries come last, in the order of their numbers for each client."""
        if self.observation.event is not None:
            self.observation.flush()
        effects, self._effects = self._effects, []
        if self._deliver:
            effects += self._deliver.values()
            self._deliver = {}
        if self._shared:
            self._shared = {}
        return effects

    def finish(self, effects: list[Does]) -> None:
        """Effects of one of the broker's parts, and what follows from them."""
        self.perform(self.broker.finish(self.now_us, effects))

    def perform(self, effects: list[Does]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                message = effect.message
                if type(message) is Hello:
                    message = structs.replace(message, at_us=self.now_us)
                self._effects.append(Tell(effect.to, message))
                if isinstance(message, Sequenced) and isinstance(message.message, Notified):
                    self.observation.forwarded(effect.to, message.message.event)
            else:
                self._perform(effect)

    def _perform(self, effect: Does) -> None:
        match effect:
            case SetTimer(name, at_us):
                # Each session of MQTT says itself how long its client may stay away.
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

    def goes_ahead(self, publisher: str, topic: str) -> None:
        """A message of QoS 0 is in the effects of an input that is logged."""
        if self.ahead is not None:
            self.ahead.mark(publisher, topic)

    def has_neighbours(self) -> bool:
        return bool(self.neighbours.streams.of)

    # Sessions.

    def _made(self, client: str, epoch: int, window: Window) -> Session:
        return Session(client, epoch, window, self.modulators())

    def modulators(self) -> Modulators:
        return Modulators(self.space, self.modulator_limits)

    def source_of(self, session: Session) -> str:
        return CLIENT

    def is_here(self, client: str) -> bool:
        session = self.sessions.get(client)
        return session is not None and session.connected

    def complete(self, session: Session) -> None:
        self.giving.rest(session)

    def state_of(self, session: Session) -> SessionState:
        return session.state()

    def known_of(self, session: Session) -> SessionState | None:
        return session.state()

    def take_over(self, session: Session, attach: Attach) -> list[Does]:
        """What was found out of a session that is elsewhere. What it wants is asked for before it is claimed."""
        effects: list[Does] = []
        if attach.session is not None:
            session.take_over(attach.session)
            for told in attach.session.interests:
                if told.asked is not None:
                    effects += self.subscribe(session, interest_of(told.wanted, told.asked))
        return effects

    def took_over(self, session: Session) -> None:
        told = session.attachment.told
        if told is None:
            return
        try:
            check(told, session.client)
            session.take_over(told)
        except BadTransfer as problem:
            self.emit(Remark("bad_transfer", f"{session.client}: {problem}"))
            session.missing = True
        # What was said of it before may be older: whether it could be fetched is known for sure only now.
        session.missing = session.missing or told.stays

    def close(self, session: Session) -> list[Does]:
        self.announcing.leave_behind(session)
        self.walking.forget(session.client)
        self.fencing.forget(session.client)
        self.departed.append(session)
        return super().close(session)

    def link_down(self, now_us: int, client: str) -> list[Does]:
        """A link of a broker: clients have connections."""
        return []

    def _follow(self, session: Session, interest: Interest) -> list[Does]:
        self.walking.follow(session, interest)
        return super()._follow(session, interest)

    def tell_missing(self, session: Session) -> list[Does]:
        """A client whose session did not come as a whole begins anew, and learns it from CONNACK."""
        return []

    def context_of(self, client: str) -> Context:
        session = self.sessions.get(client)
        return Context(client) if session is None else session.context

    # What clients say of deliveries.

    def finished(self, client: str, numbers: tuple[int, ...]) -> None:
        session = self.sessions.get(client)
        if session is not None:
            session.window.finish_all(numbers)
            if client in self.giving.waiting:
                self.giving.has_acknowledged(session)

    def received(self, given: Received) -> None:
        session = self.sessions.get(given.client)
        if session is not None and session.window.receive(given.number):
            self.emit(Release(given.client, given.number))

    # Events.

    def route(self, notified: Notified, source: str) -> list[Does]:
        if notified.hops > HOPS_MAX:
            return [Note("event_looped", notified.event.id)]
        effects = self.forward(notified, source)
        effects += self.local.arrived(notified.event, notified.serial)
        return effects

    def forward(self, notified: Notified, source: str) -> list[Does]:
        """To neighbours alone."""
        return self._sent_on(notified, self.neighbours.router.to_neighbours(notified, source))

    def _drop(self, session: Session, event: Event, serial: int) -> None:
        session.window.mark(event.publisher.host, serial)
        self.emit(Remark("delivery_dropped", session.client))

    def give(self, session: Session, event: Event, serial: int, wanted: tuple[str, ...]) -> list[Does]:
        if session.attachment.awaits is not None:
            session.attachment.held.append((event, serial, wanted))
            session.attachment.held_bytes += len(event.body or b"")
            return []
        return super().give(session, event, serial, wanted)

    def number(
        self, session: Session, event: Event, serial: int, wanted: tuple[str, ...]
    ) -> list[tuple[int, Delivery]]:
        parts = [(event, wanted)]
        if len(session.modulators):
            parts = self.local.parts(session, event, wanted)
        if not parts:
            # A copy that comes by another way must not be modulated again.
            session.window.mark(event.publisher.host, serial)
        numbers: list[tuple[int, Delivery]] = []
        for part, names in parts:
            message = self.events.message_of(part)
            if message is None or not session.window.has_room(message.size_bytes):
                self._drop(session, event, serial)
            else:
                delivery = self._delivery(session, part, message, serial, names)
                numbers.append((session.window.add(delivery), delivery))
        return numbers

    def _delivery(
        self, session: Session, event: Event, message: Message, serial: int, names: tuple[str, ...]
    ) -> Delivery:
        asked = asked_by(session, names)
        form = form_of(message, asked, names[0] == RETAINED)
        if session.connected:
            self.observation.given(session, event, message, names, asked)
        if names[0] == RETAINED:
            # A client that asks twice in one SUBSCRIBE gets it twice, and all in the order of their numbers.
            return Delivery(event, serial, names, form)
        delivery = self._shared.get((event.id, names, form))
        if delivery is None or delivery.event is not event:
            delivery = self._shared[(event.id, names, form)] = Delivery(event, serial, names, form)
        return delivery

    # What clients are told.

    def send(self, session: Session, deliveries: Sequence[tuple[int, Delivery]]) -> list[Does]:
        if session.window.lost:
            self.emit(Remark("events_lost", f"{session.client}: {session.window.lost}"))
            session.window.lost = 0
        if not session.connected:
            return super().send(session, deliveries) if not session.attachment.attached else []
        for number, delivery in deliveries:
            deliver = self._deliver.get(id(delivery))
            if deliver is None:
                deliver = self._deliver[id(delivery)] = Deliver([delivery], [])
            deliver.receivers.append((session, number))
        return []

    def deliver_all(self, deliver: Iterable[Deliver]) -> None:
        for each in deliver:
            self._deliver[id(each.run[0])] = each

    def tell(self, client: str, message: boundary.Message) -> list[Does]:
        session = self.sessions.get(client)
        match message:
            case Numbered(number, delivery, epoch) if session is not None and session.epoch == epoch:
                # It came by a way of its own, and is in the window already.
                if session.window.entries.get(number) is delivery:
                    return self.send(session, [(number, delivery)])
            case Lost(count):
                return [Note("events_lost", f"{client}: {'unknown' if count is None else count}")]
            case _:
                # What else a client is told has no meaning in MQTT.
                pass
        return []

    def accepted(self, session: Session, serial: int) -> list[Does]:
        for accepted in [each for each in session.unaccepted if each <= serial]:
            self.emit(Acknowledge(session.client, session.unaccepted.pop(accepted)))
        return []

    # Advertisements, which are the broker's own.

    def settled(self, client: str) -> list[Does]:
        self.settled_together = True
        return super().settled(client)

    def _advertise_for(self, session: Session, pub: Pub) -> list[Does]:
        return []

    def _may_publish(self, session: Session, pub: Pub) -> bool:
        return self.announcing.is_settled(pub.event.subject)
